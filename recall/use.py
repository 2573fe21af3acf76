"""Use: how often, how lately and in which company entities were read, held in memory for ranking (S0-26)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import polars as pl

from slowwave import frames
from slowwave.maintenance.entity_usage import entity_usage_of
from slowwave.maintenance.usage import survivors
from slowwave.ranking.company import Company, build_company
from slowwave.ranking.limbic import limbic_factors, standing
from slowwave.settings import LimbicSettings
from storage.rows import empty_frame
from storage.warm import Tables

TABLES = ("entities", "entity_usage", "entity_days", "entity_scores", "co_occurrences")
_ENTITY = ("id", "status", "created_at", "merged_into")
_PAIR = ("a_id", "b_id", "count", "last_at")


@dataclass(frozen=True, slots=True)
class Known:
    """All entities, in order of ids, with what reads left behind about each and about each two."""

    ids: pl.Series
    rows: pl.DataFrame
    company: Company

    def factors(self, ids: Iterable[str], now: datetime, settings: LimbicSettings) -> pl.DataFrame:
        """What each of these entities weighs beside the others (`limbic_factors`); unknown ones are left out."""
        asked = pl.Series("id", sorted(set(ids)), pl.String)
        if self.ids.is_empty():
            asked = asked.head(0)
        slots = self.ids.search_sorted(asked).to_numpy()
        is_known = self.ids.gather(np.minimum(slots, len(self.ids) - 1)) == asked
        places = slots[is_known.to_numpy()].astype(np.int64)
        return limbic_factors(self.rows[places], self.company.among(places, now, settings), now, settings)


class Use:
    """The use of all entities, kept once it was read, as long as no commit changes it."""

    def __init__(self) -> None:
        self._held: Known | None = None
        self._at: tuple[int, ...] = ()

    async def of(self, tables: Tables) -> Known:
        """As these tables have it."""
        versions = tuple(tables.versions[name] for name in TABLES)
        if self._held is None or versions != self._at:
            self._held, self._at = await _known(tables), versions
        return self._held


async def _known(tables: Tables) -> Known:
    entities, usage, scores, pairs = await asyncio.gather(
        _whole(tables, "entities", _ENTITY),
        _whole(tables, "entity_usage", tuple(frames.ENTITY_USAGE)),
        _whole(tables, "entity_scores", ("id", "degree")),
        _whole(tables, "co_occurrences", _PAIR),
    )
    merged = dict(entities.select("id", "merged_into").drop_nulls().iter_rows())
    touched = sorted({*merged, *merged.values()}) if len(usage) else []
    days = await tables.fetch("entity_days", "entity_id", touched, ["entity_id", "day"])
    heirs = survivors(merged)
    told = (
        entities.select("id", "status", "created_at")
        .join(entity_usage_of(usage, days, merged), on="id", how="left")
        .join(scores, on="id", how="left")
        .sort("id")
    )
    met = pairs.with_columns(pl.col("a_id", "b_id").replace(heirs)) if heirs else pairs
    weighed = standing(told).select("id", "access_count", "access_days", "degree", "since", "standing")
    return Known(told["id"], weighed, build_company(told["id"], met))


async def _whole(tables: Tables, name: str, columns: Sequence[str]) -> pl.DataFrame:
    """These columns of a whole table; nothing is read of one that was never written to."""
    if tables.versions[name] <= 1:
        return empty_frame(name, 1).select(columns)
    found = pl.from_arrow(await tables[name].query().select(list(columns)).to_arrow())
    assert isinstance(found, pl.DataFrame)
    return found

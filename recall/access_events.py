"""Access events: queries, and the facts and entities that reads returned (S0-23, S2-34, S4-01).

Buffered; never why a read fails.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

import numpy as np
import polars as pl

from recall.ranking.entity_weights import Company, build_company, limbic_factors, standing
from slowwave.common import frames
from slowwave.common.settings import LimbicSettings
from slowwave.common.text import digest, readable
from slowwave.common.timestamps import in_utc
from slowwave.common.types import Neighbourhood, RecalledFact
from slowwave.lifecycle.usage_scores import entity_usage_of, survivors
from slowwave.reading.filters.redaction import redact_all
from storage.rows import empty_frame
from storage.store import Store
from storage.warm import Tables

from .loop import rows_where

BUFFERED = 500
FACTS, ENTITIES, QUERIES = "retrieval_events", "entity_access_log", "recalled_queries"

log = logging.getLogger("slowwave")


class AccessLog:
    """Collects events and appends them to the logs in groups; outside every commit, so undo never touches them.

    Where nothing `is_logged` it keeps none: what maintenance reads is not in use for that (T27).
    """

    def __init__(self, store: Store, *, is_logged: bool = True) -> None:
        self._store, self.is_logged = store, is_logged
        self._rows: dict[str, list[dict[str, Any]]] = {name: [] for name in (FACTS, ENTITIES, QUERIES)}
        self._lock = threading.Lock()  # several threads may read through one memory

    def note(self, query: str, found: Sequence[RecalledFact], k: int, at: datetime) -> None:
        """One event for a recall, per fact that it returned, with its cosine, not the fused rank (T6), and per entity.

        `k` facts were asked for.
        """
        self._add(QUERIES, query, at, [{"query": readable(query), "k": k}])
        self._note_facts({fact.id: fact.cosine for fact in found}, query, at)
        ends = dict.fromkeys(end for fact in found for end in (fact.subject_id, fact.object_id) if end)
        self.note_entities(ends, query, at)

    def note_walk(self, walked: Neighbourhood, query: str, at: datetime) -> None:
        """One event per fact that a walk along relations returned, without a cosine (S2-34), and one per entity."""
        self._note_facts(dict.fromkeys(fact.id for fact in walked.facts), query, at)
        self.note_entities([one.id for one in walked.entities], query, at)

    def note_entities(self, ids: Iterable[str], query: str, at: datetime) -> None:
        """One event per entity that a read touched."""
        day = f"{in_utc(at):%Y-%m-%d}"
        self._add(ENTITIES, query, at, [{"entity_id": entity, "day": day} for entity in ids])

    def flush(self) -> None:
        """Write the pending rows."""
        with self._lock:
            pending, self._rows = self._rows, {name: [] for name in self._rows}
        for name, rows in pending.items():
            try:
                self._store.append(name, _events(rows))
            except Exception as error:
                log.warning("%d access events were lost: %s", len(rows), error)

    def _note_facts(self, cosines: Mapping[str, float | None], query: str, at: datetime) -> None:
        facts = enumerate(cosines.items(), 1)
        self._add(FACTS, query, at, [{"fact_id": fact, "cosine": cosine, "rank": n} for n, (fact, cosine) in facts])

    def _add(self, name: str, query: str, at: datetime, rows: Sequence[Mapping[str, Any]]) -> None:
        if not self.is_logged:
            return
        shared = {"query_hash": digest(query), "at": in_utc(at)}
        events = [{"id": uuid4().hex, **row, **shared} for row in rows]
        with self._lock:
            self._rows[name] += events
            is_full = sum(map(len, self._rows.values())) >= BUFFERED
        if is_full:
            self.flush()


def _events(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """The rows as a frame; questions without the secrets in them."""
    frame = pl.DataFrame(rows, infer_schema_length=None)
    return frame.with_columns(redact_all(frame["query"])[0]) if "query" in frame.columns else frame


# Use: how often, how lately and with which others entities were read, kept in memory for ranking (S0-26).


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
        """The weight of each of these entities beside the others (`limbic_factors`), without unknown ones."""
        wanted = pl.Series("id", sorted(set(ids)), pl.String)
        if self.ids.is_empty():
            wanted = wanted.head(0)
        slots = self.ids.search_sorted(wanted).to_numpy().astype(np.int64)
        is_known = self.ids.gather(np.minimum(slots, len(self.ids) - 1)) == wanted
        places = slots[is_known.to_numpy()]
        return limbic_factors(self.rows[places], self.company.among(places, now, settings), now, settings)


async def known_use(tables: Tables) -> Known:
    """The use of all entities, as these tables have it."""
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
    counted = (
        entities.select("id", "status", "created_at")
        .join(entity_usage_of(usage, days, merged), on="id", how="left")
        .join(scores, on="id", how="left")
        .sort("id")
    )
    met = pairs.with_columns(pl.col("a_id", "b_id").replace(heirs)) if heirs else pairs
    weighed = standing(counted).select("id", "access_count", "access_days", "degree", "since", "standing")
    return Known(counted["id"], weighed, build_company(counted["id"], met))


async def _whole(tables: Tables, name: str, columns: Sequence[str]) -> pl.DataFrame:
    """These columns of a whole table; nothing is read of one that was never written to."""
    if tables.versions[name] <= 1:
        return empty_frame(name, 1).select(columns)
    return await rows_where(tables, name, columns)

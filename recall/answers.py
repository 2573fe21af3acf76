"""Answers: ranked facts with names and provenance, read in one more round."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import polars as pl

from slowwave.answers import RecalledFact
from slowwave.moments import Moment
from storage.warm import Tables, fetch

from .doubts import Conflicts, doubts
from .facts import EVIDENCE, NEEDED, recalled
from .search import MESSAGE, Ranked

if TYPE_CHECKING:
    from lancedb import AsyncTable

NAMES_KEPT = 100_000


class Names:
    """Names of entities, kept once they were read, as long as no commit changes the entities."""

    def __init__(self) -> None:
        self._held: dict[str, str] = {}
        self._version = 0

    async def of(self, entities: AsyncTable, version: int, ids: Sequence[str]) -> Mapping[str, str]:
        """Names by id, of these and perhaps of others."""
        if version != self._version or len(self._held) > NAMES_KEPT:
            self._held, self._version = {}, version
        held = self._held
        missing = [name for name in ids if name not in held]
        if missing:
            held.update((await fetch(entities, "id", missing, ["id", "name"])).iter_rows())
        return held


async def answers(
    tables: Tables, ranked: Ranked, moment: Moment, names: Names, conflicts: Conflicts
) -> tuple[RecalledFact, ...]:
    """The facts in their order; of their messages, the one that matches best comes first."""
    ids = [place.fact_id for place in ranked.order if place.fact_id]
    rows = pl.DataFrame({"id": ids}, schema={"id": pl.String}).join(ranked.facts, on="id", maintain_order="left")
    ends = pl.concat([rows["subject_id"], rows["object_id"]]).drop_nulls().unique().to_list()
    evidence, called, messages, doubtful = await asyncio.gather(
        _evidence(tables, rows),
        names.of(tables["entities"], tables.versions["entities"], ends),
        _messages(tables, ranked.messages, rows["message_id"]),
        doubts(tables, rows, conflicts, moment),
    )
    messages = await _messages(tables, messages, evidence["message_id"])
    places = {place.fact_id: place for place in ranked.order if place.fact_id}
    return recalled(rows.select(NEEDED), called, evidence, messages, places, doubtful)


async def _evidence(tables: Tables, rows: pl.DataFrame) -> pl.DataFrame:
    """Who says the facts; what only one message says stands in the fact itself."""
    alone = rows.filter(pl.col("evidence_count").fill_null(1) <= 1)
    own = alone.select(
        fact_id="id", message_id="message_id", quote="quote", occurred_at=pl.lit(None, pl.Datetime("us", "UTC"))
    )
    several = rows.filter(pl.col("evidence_count") > 1)["id"].to_list()
    if not several:
        return own
    return pl.concat([own, await fetch(tables["fact_evidence"], "fact_id", several, EVIDENCE)])


async def _messages(tables: Tables, known: pl.DataFrame, ids: pl.Series) -> pl.DataFrame:
    """The messages that are known, and of `ids` those that are not known yet."""
    missing = sorted({*ids.drop_nulls()} - {*known["id"]})
    if not missing:
        return known
    return pl.concat([known, await fetch(tables["messages"], "id", missing, MESSAGE)])

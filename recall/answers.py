"""Answers: ranked facts with names and provenance, read in one more round."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

import polars as pl

from storage.warm import fetch

from .facts import EVIDENCE, SHOWN, recalled
from .records import RecalledFact
from .search import Ranked

if TYPE_CHECKING:
    from lancedb import AsyncTable


async def answers(tables: Mapping[str, AsyncTable], ranked: Ranked) -> tuple[RecalledFact, ...]:
    """The facts in their order; of their messages, the one that matches best comes first."""
    ids = [place.fact_id for place in ranked.order if place.fact_id]
    rows = pl.DataFrame({"id": ids}).join(ranked.facts, on="id", maintain_order="left")
    ends = pl.concat([rows["subject_id"], rows["object_id"]]).drop_nulls().unique().to_list()
    evidence, names, messages = await asyncio.gather(
        _evidence(tables, rows),
        fetch(tables["entities"], "id", ends, ["id", "name"]),
        _messages(tables, rows["message_id"]),
    )
    more = sorted({*evidence["message_id"]} - {*messages["id"]})
    if more:
        messages = pl.concat([messages, await fetch(tables["messages"], "id", more, messages.columns)])
    places = {place.fact_id: (place.score, place.cosine, place.sources) for place in ranked.order if place.fact_id}
    return recalled(rows.select(SHOWN), dict(names.iter_rows()), evidence, messages, places)


async def _evidence(tables: Mapping[str, AsyncTable], rows: pl.DataFrame) -> pl.DataFrame:
    """Who says the facts; what only one message says stands in the fact itself."""
    alone = rows.filter(pl.col("evidence_count").fill_null(1) <= 1)
    own = alone.select(
        fact_id="id", message_id="message_id", quote="quote", occurred_at=pl.lit(None, pl.Datetime("us", "UTC"))
    )
    several = rows.filter(pl.col("evidence_count") > 1)["id"].to_list()
    if not several:
        return own
    return pl.concat([own, await fetch(tables["fact_evidence"], "fact_id", several, EVIDENCE)])


async def _messages(tables: Mapping[str, AsyncTable], ids: pl.Series) -> pl.DataFrame:
    columns = ["id", "conversation_id", "message_id", "occurred_at"]
    return await fetch(tables["messages"], "id", ids.drop_nulls().unique().to_list(), columns)

"""Answers: ranked facts with names and provenance, read in one more round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from slowwave.answers import RecalledFact
from slowwave.moments import Moment
from storage.residents import Row
from storage.warm import Tables

from .doubts import Conflicts, doubts
from .facts import EVIDENCE, recalled
from .names import Names
from .search import MESSAGE, Ranked


async def answers(
    tables: Tables, ranked: Ranked, moment: Moment, names: Names, conflicts: Conflicts
) -> tuple[RecalledFact, ...]:
    """The facts in their order; of their messages, the one that matches best comes first."""
    places = {place.fact_id: place for place in ranked.order if place.fact_id}
    rows = [ranked.facts[name] for name in places]
    ends = {end for row in rows for end in (row["subject_id"], row["object_id"]) if end is not None}
    evidence, called, messages, doubtful = await tables.together(
        _evidence(tables, rows),
        names.of(tables, ends),
        _messages(tables, ranked.messages, {row["message_id"] for row in rows}),
        doubts(tables, rows, conflicts, moment),
    )
    messages = await _messages(tables, messages, {row["message_id"] for row in evidence})
    return recalled(rows, called, evidence, messages, places, doubtful)


async def _evidence(tables: Tables, rows: Sequence[Row]) -> list[Row]:
    """Who says the facts; what only one message says stands in the fact itself."""
    own: list[Row] = [
        {"fact_id": row["id"], "message_id": row["message_id"], "quote": row["quote"], "occurred_at": None}
        for row in rows
        if (row["evidence_count"] or 1) <= 1
    ]
    several = [row["id"] for row in rows if (row["evidence_count"] or 1) > 1]
    return [*own, *(await tables.rows("fact_evidence", "fact_id", several, EVIDENCE) if several else ())]


async def _messages(tables: Tables, known: Mapping[str, Row], ids: Iterable[str | None]) -> Mapping[str, Row]:
    """The messages that are known, and of `ids` those that are not known yet."""
    missing = [name for name in ids if name is not None and name not in known]
    if not missing:
        return known
    return {**known, **{row["id"]: row for row in await tables.rows("messages", "id", missing, MESSAGE)}}

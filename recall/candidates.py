"""Candidates: the facts that messages support, or a walk came by, and that may answer."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

import polars as pl

from slowwave.validity import MAX_CHAIN
from storage.warm import Tables, fetch

from .facts import LEARNED, ends_of

if TYPE_CHECKING:
    from .search import Question


async def candidates(
    tables: Tables, messages: list[str], question: Question, walk: Collection[str]
) -> tuple[pl.DataFrame, Iterable[tuple[str, str]]]:
    """The facts that the messages support, or the walk came by, and that may answer; and which message supports which.

    What the walk alone came by stands for the message that said it first.
    """
    asked = [("message_id", messages), *([("id", sorted(walk))] if walk else [])]
    support, *found = await asyncio.gather(
        fetch(tables["fact_evidence"], "message_id", messages, ["fact_id", "message_id"]),
        *(_facts(tables, key, ids, question) for key, ids in asked),
    )
    first = pl.concat(found).unique("id", keep="first", maintain_order=True)
    elsewhere = sorted({*support["fact_id"]} - {*first["id"]})
    if elsewhere:
        first = pl.concat([first, await _facts(tables, "id", elsewhere, question)])
    facts = await _held(tables, first, question)
    wanted = set(messages)
    own = {*zip(facts["id"], facts["message_id"], strict=True)}
    pairs = {(fact, said) for fact, said in own if said in wanted} | {*support.iter_rows()}
    reached = {*walk} - {fact for fact, _ in pairs}
    return facts, sorted(pairs | {(fact, said) for fact, said in own if fact in reached})


async def _facts(tables: Tables, key: str, ids: list[str], question: Question) -> pl.DataFrame:
    """Facts by a key, out of every table that may answer, each once."""
    parts = await asyncio.gather(*(fetch(tables[name], key, ids, question.columns) for name in question.tables))
    return parts[0] if len(parts) == 1 else pl.concat(parts).unique("id", keep="first", maintain_order=True)


async def _held(tables: Tables, rows: pl.DataFrame, question: Question) -> pl.DataFrame:
    """Only what may answer: what holds at the moment, and is of the scope.

    About the past this depends on replacements, which are looked up step by step where they are not among the rows.
    """
    kept = rows if question.scope is None else rows.filter(pl.col("scope") == question.scope)
    if question.about is not None:
        kept = kept.filter(pl.any_horizontal(pl.col("subject_id", "object_id").is_in(sorted(question.about))))
    if not question.moment.is_past:
        return question.moment.facts(kept)
    wide, asked = kept, {*kept["id"]}
    for _ in range(MAX_CHAIN):
        missing = {*wide["replaced_by"].drop_nulls()} - asked
        if not missing:
            break
        asked |= missing
        wide = pl.concat([wide, await _facts(tables, "id", sorted(missing), question)])
    ended = wide.filter(pl.col("valid_to").is_not_null(), question.moment.known_as_of is not None)["id"].to_list()
    closed = await fetch(tables["decisions"], "subject_id", ended, LEARNED)
    then = question.moment.facts(wide, ends_of(closed))
    return then.join(kept.select("id"), on="id", how="semi", maintain_order="left")

"""Candidates: the facts that messages support, or a walk came by, and that may answer."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

import polars as pl

from slowwave.common.entrenchment import ENDS, is_kept
from slowwave.common.validity import MAX_CHAIN
from storage.residents import MatchedRows
from storage.warm import Tables, found_in

from .facts import LEARNED, ends_of
from .kept import Kept, rows_where

if TYPE_CHECKING:
    from .question import Question


async def possible_answers(
    tables: Tables, messages: list[str], question: Question, walk: Collection[str]
) -> tuple[MatchedRows, Iterable[tuple[str, str]]]:
    """The facts that the messages support, or the walk came by, and that may answer; and which message supports which.

    What the walk alone came by stands for the message that said it first.
    """
    support = await tables.rows("fact_evidence", "message_id", messages, ["fact_id", "message_id"])
    supported = {row["fact_id"] for row in support}
    if question.moment.is_past:
        facts = await _of_the_past(tables, messages, sorted({*walk, *supported}), question)
    else:
        keys = {"message_id": messages, "id": sorted({*walk, *supported})}
        facts = await tables.with_vectors("facts", keys, question.columns, question.condition)
    wanted = set(messages)
    own = {(row["id"], row["message_id"]) for row in facts.rows}
    pairs = {(fact, message) for fact, message in own if message in wanted}
    pairs |= {(row["fact_id"], row["message_id"]) for row in support}
    reached = {*walk} - {fact for fact, _ in pairs}
    return facts, sorted(pairs | {(fact, message) for fact, message in own if fact in reached})


async def _of_the_past(tables: Tables, messages: list[str], ids: list[str], question: Question) -> MatchedRows:
    """The same about the past, which depends on replacements and so on more rows than those that answer."""
    found = await asyncio.gather(_facts(tables, "message_id", messages, question), _facts(tables, "id", ids, question))
    return found_in(await _valid(tables, pl.concat(found).unique("id", keep="first", maintain_order=True), question))


async def _facts(tables: Tables, key: str, ids: list[str], question: Question) -> pl.DataFrame:
    """Facts by a key, out of every table that may answer, each once."""
    columns = [*question.columns, "vector"]
    parts = await asyncio.gather(*(tables.fetch(name, key, ids, columns) for name in question.tables))
    return pl.concat(parts).unique("id", keep="first", maintain_order=True)


async def _valid(tables: Tables, rows: pl.DataFrame, question: Question) -> pl.DataFrame:
    """Only facts that may answer: those that are valid at the moment, and of the scope.

    Replacements are looked up step by step where they are not among the rows.
    """
    kept = rows if question.scope is None else rows.filter(pl.col("scope") == question.scope)
    if question.about is not None:
        kept = kept.filter(pl.any_horizontal(pl.col("subject_id", "object_id").is_in(sorted(question.about))))
    wide, known = kept, {*kept["id"]}
    for _ in range(MAX_CHAIN):
        missing = {*wide["replaced_by"].drop_nulls()} - known
        if not missing:
            break
        known |= missing
        wide = pl.concat([wide, await _facts(tables, "id", sorted(missing), question)])
    ended = wide.filter(pl.col("valid_to").is_not_null(), question.moment.known_as_of is not None)["id"].to_list()
    closed = await tables.fetch("decisions", "subject_id", ended, LEARNED)
    then = question.moment.facts(wide, ends_of(closed))
    return then.join(kept.select("id"), on="id", how="semi", maintain_order="left")


# Quality: facts that the steward scored too low are not recalled once the learning period is over (S4-03).


LEARNING = "steward.learning"
TABLES = ("fact_scores", "metadata")
_READ = ("id", "kind", "pinned", "entrenchment", *ENDS)


class Faded:
    """Ids of facts whose score is below a limit in [0, 1], kept once they were read as long as no commit changes them.

    Empty while the steward learns. Facts without a score are not among them; pinned ones and axioms never fade.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._low = Kept(TABLES, self._below)
        self._kept: dict[str, bool] = {}
        self._pinned: frozenset[str] = frozenset()
        self._kept_at = (0, 0)

    async def among(self, tables: Tables, ids: Sequence[str]) -> list[str]:
        """Those of these live facts that are not to be recalled."""
        if self._limit <= 0.0:
            return []
        below = await self._low.of(tables)
        low = [fact for fact in ids if fact in below]
        if not low:
            return []
        kept = await self._keeping(tables, low)
        return [fact for fact in low if not kept[fact]]

    async def _below(self, tables: Tables) -> frozenset[str]:
        """Facts below the limit."""
        marks = await tables.fetch("metadata", "id", [LEARNING], ["number"])
        is_over = len(marks) > 0 and not marks["number"][0]
        where = f"quality_score < {self._limit}"
        return frozenset((await rows_where(tables, "fact_scores", ["id"], where))["id"] if is_over else ())

    async def _keeping(self, tables: Tables, low: Sequence[str]) -> dict[str, bool]:
        """Whether each of these facts is kept all the same; read once per fact and version."""
        versions = (tables.versions["facts"], tables.versions["entities"])
        if versions != self._kept_at:
            pinned = frozenset((await rows_where(tables, "entities", ["id"], "pinned"))["id"])
            self._kept, self._pinned, self._kept_at = {}, pinned, versions
        kept, pinned = self._kept, self._pinned  # another question may begin new ones while this one reads
        missing = [fact for fact in low if fact not in kept]
        if missing:
            rows = await tables.fetch("facts", "id", missing, _READ)
            kept.update(rows.select("id", is_kept(pinned).alias("kept")).iter_rows())
        return kept

"""A question: a query with its vector, and the facts and messages that may answer it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.common.entrenchment import ENDS, is_kept
from slowwave.common.validity import MAX_CHAIN, Moment
from storage.residents import Condition, MatchedRows
from storage.rows import quoted
from storage.warm import Tables, found_in

from .facts import ALL, HOT, LEARNED, NEEDED, ends_of
from .loop import Kept, rows_where
from .periods import Period

Vector = npt.NDArray[np.float32]
LEAST = 10  # who asks for one fact gets the first of ten, not the best of three messages
FACT_TIMES, MESSAGE_TIMES = ("valid_from", "event_at"), ("occurred_at",)
"""Columns that place a row in a period. A fact is valid from the time of its message unless its words name another."""
FACT = (*NEEDED, "search_terms", "message_id", "quote", "evidence_count", "expired_at")  # no column more: each costs
PAST = ("created_at", "replaced_by", "status_reason")


@dataclass(frozen=True, slots=True)
class Question:
    """A query with its vector and what may answer it."""

    text: str
    vector: Vector
    k: int
    moment: Moment
    scope: str | None = None
    about: frozenset[str] | None = None  # entities: only facts about one of them answer
    conversation: frozenset[str] = frozenset()  # messages of the conversation that is going on
    model: str = ""  # of the vector
    others: tuple[tuple[str, Vector], ...] = ()  # further wordings with their vectors, searched beside it
    period: Period | None = None  # that the text names
    is_within: bool = False  # only facts and messages of that period answer

    @property
    def ranked(self) -> int:
        """How many facts are looked for and ranked: up to LEAST, fewer are the first of these."""
        return max(self.k, LEAST)

    @property
    def wordings(self) -> tuple[Question, ...]:
        """The question in each of its wordings, this one first."""
        return (self, *(replace(self, text=text, vector=vector, others=()) for text, vector in self.others))

    @property
    def views(self) -> tuple[Question, ...]:
        """The question, and where it names a period the question to that period alone: what is rare in the whole."""
        return (self,) if self.period is None else (self, replace(self, is_within=True))

    @property
    def content(self) -> str:
        """What texts are compared with word by word: without the words that name the period, of which few say them."""
        return self.text if self.period is None else self.period.without_words(self.text)

    @property
    def has_meaning(self) -> bool:
        """Whether the vector says anything: a query of unknown words has none."""
        return bool(self.vector.any())

    @property
    def where(self) -> str:
        """The filter of facts that may answer."""
        parts = [f"({self.moment.where})"]
        if self.scope is not None:
            parts.append(f"scope = {quoted(self.scope)}")
        if self.about is not None:
            listed = ", ".join(map(quoted, sorted(self.about))) or "''"
            parts.append(f"(subject_id IN ({listed}) OR object_id IN ({listed}))")
        if self.period is not None and self.is_within:
            parts.append(self.period.where(FACT_TIMES))
        return " AND ".join(parts)

    @property
    def condition(self) -> Condition:
        """`where`, for frames too."""
        if self.moment.is_past:
            return Condition(self.where, self._may_answer)
        kind = f"{self.scope!r} {sorted(self.about or ())} {self.period if self.is_within else ''}"
        return Condition(self.where, self._may_answer, kind, self.moment.now)

    def _may_answer(self) -> pl.Expr:
        met = self.moment.may_answer
        if self.scope is not None:
            met &= pl.col("scope") == self.scope
        if self.about is not None:
            about = sorted(self.about)
            met &= pl.col("subject_id").is_in(about) | pl.col("object_id").is_in(about)
        if self.period is not None and self.is_within:
            met &= self.period.expression(FACT_TIMES)
        return met

    @property
    def of_messages(self) -> Condition | None:
        """The condition of messages that may answer; None where all may."""
        parts, met = [], pl.lit(True)
        if self.scope is not None:
            parts.append(f"scope = {quoted(self.scope)}")
            met &= pl.col("scope") == self.scope
        if self.period is not None and self.is_within:
            parts.append(self.period.where(MESSAGE_TIMES))
            met &= self.period.expression(MESSAGE_TIMES)
        return Condition(" AND ".join(parts), lambda: met) if parts else None

    @property
    def is_narrow(self) -> bool:
        """Whether most live facts may not answer."""
        return self.scope is not None or self.about is not None or self.moment.is_past or self.is_within

    @property
    def tables(self) -> tuple[str, ...]:
        """Where facts are looked for: the past is also in the archive."""
        return ALL if self.moment.is_past else HOT

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a fact that choice and ranking need."""
        return (*FACT, *(PAST if self.moment.is_past else ()), *(() if self.scope is None else ("scope",)))


# Candidates: the facts that messages support, or a walk came by, and that may answer.


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

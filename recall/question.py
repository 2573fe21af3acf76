"""A question: a query with its vector, the time that it names, and the facts and messages that may answer it.

Besides its words a question may name a time, whose facts are preferred.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.common.lexicon.statement_words import may_tell_when
from slowwave.common.validity import ENDS, MAX_CHAIN, Moment, has_ended_sql, is_kept, time_sql
from storage.residents import Condition, MatchedRows
from storage.rows import quoted
from storage.warm import Tables, found_in

from .facts import ALL, HOT, LEARNED, NEEDED, ends_of
from .loop import Kept, rows_where

_YEAR_LONG = timedelta(days=366)


@dataclass(frozen=True, slots=True)
class Period:
    """From `start` to `end` (excluded), either open; or, where no year is named, these `months` of any.

    With `day` only that day of the month is, or those up to `last_day`, which is of the last month. `words` are those
    of the question that name it.
    """

    start: datetime | None = None
    end: datetime | None = None
    months: tuple[int, ...] = ()
    day: int | None = None
    last_day: int | None = None
    words: str = field(default="", compare=False, repr=False)

    @property
    def _days(self) -> tuple[int, int]:
        return self.day or 1, self.last_day or self.day or 31

    def covers(self, at: datetime | None) -> bool:
        """Whether a moment lies in it."""
        if at is None:
            return False
        if self.months:
            first, last = self._days
            is_early = at.month == self.months[0] and at.day < first
            is_late = at.month == self.months[-1] and at.day > last
            return at.month in self.months and not (is_early or is_late)
        return (self.start is None or at >= self.start) and (self.end is None or at < self.end)

    def meets(self, start: datetime | None, end: datetime | None) -> bool:
        """Whether what holds from `start` to `end` (excluded), None for open, holds at some time in it."""
        if not self.months:
            return not (start and self.end and start >= self.end) and not (end and self.start and end <= self.start)
        if start is None or end is None or end - start >= _YEAR_LONG:
            return True
        days = range(max((end - start).days, 0) + 1)
        return any(self.covers(start + timedelta(days=n)) for n in days if start + timedelta(days=n) < end)

    def where(self, columns: Sequence[str]) -> str:
        """The filter of rows with one of these columns, all times, within the period."""
        return "(" + " OR ".join(f"({self._of(column)})" for column in columns) + ")"

    def _of(self, column: str) -> str:
        parts = [f"{column} IS NOT NULL"]
        if self.months:
            parts.append(f"date_part('month', {column}) IN ({', '.join(map(str, self.months))})")
        if self.day is not None:
            first, last = self._days
            for month, side in ((self.months[0], f">= {first}"), (self.months[-1], f"<= {last}")):
                parts.append(f"(date_part('month', {column}) <> {month} OR date_part('day', {column}) {side})")
        if self.start is not None:
            parts.append(f"{column} >= {time_sql(self.start)}")
        if self.end is not None:
            parts.append(f"{column} < {time_sql(self.end)}")
        return " AND ".join(parts)

    def without_words(self, text: str) -> str:
        """A text without the words that name the period: facts of that time rarely repeat them."""
        named = rf"(?<!\w){re.escape(self.words)}(?!\w)"
        return re.sub(named, " ", text, count=1, flags=re.IGNORECASE) if self.words else text


def period_of(question: str, now: datetime) -> Period | None:
    """The period that a question names; None where it names none. "in October" is that of any year."""
    if not may_tell_when(question):
        return None
    from slowwave.reading.extraction.question_times import time_in  # slow to import, and most questions name no time

    named = time_in(question, now)
    if named is None:
        return None
    if not (named.is_yearly and named.start and named.end):
        return Period(named.start, named.end, words=named.words)
    first, last = named.start, named.end - timedelta(days=1)
    count = (last.year - first.year) * 12 + last.month - first.month + 1
    months = tuple((first.month + n - 1) % 12 + 1 for n in range(min(count, 12)))
    if count > 12 or (first.day == 1 and named.end.day == 1):
        return Period(months=months, words=named.words)
    last_day = last.day if last.date() > first.date() else None
    return Period(months=months, day=first.day, last_day=last_day, words=named.words)


Vector = npt.NDArray[np.float32]
LEAST = 10  # who asks for one fact gets the first of ten, not the best of three messages
FACT_TIMES, MESSAGE_TIMES = ("valid_from", "event_at"), ("occurred_at",)
"""Columns that place a row in a period. A fact is valid from the time of its message unless its words name another."""
FACT = (*NEEDED, "search_terms", "message_id", "quote", "evidence_count", "expired_at", "scope", "replaced_by")
PAST = ("created_at", "status_reason")


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
    over_time: bool = False  # an order, a development or a summary: the outline answers, too
    named: tuple[tuple[str, float], ...] = ()  # words of names in it: what share of the facts is about those called so

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
        return self._where(self.moment.where)

    def _where(self, holds: str) -> str:
        parts = [f"({holds})"]
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
        """`where`, for tables in memory too."""
        return Condition(self.where) if self.moment.is_past else Condition(self.where, self._kind, self.moment.now)

    @property
    def compares_ended(self) -> bool:
        """Whether facts that have ended are compared, too, for those that took their place."""
        return not self.moment.is_past and not self.over_time

    @property
    def searched(self) -> Condition:
        """The facts that are compared: those that may answer, and, where it `compares_ended`, those."""
        if not self.compares_ended:
            return self.condition
        now = self.moment.now
        where = self._where(f"({self.moment.where}) OR ({has_ended_sql(now)})")
        return Condition(where, f"{self._kind} or ended", now)

    @property
    def _kind(self) -> str:
        return f"{self.scope!r} {sorted(self.about or ())} {self.period if self.is_within else ''}"

    @property
    def of_messages(self) -> Condition | None:
        """The condition of messages that may answer; None where all may."""
        parts = []
        if self.scope is not None:
            parts.append(f"scope = {quoted(self.scope)}")
        if self.period is not None and self.is_within:
            parts.append(self.period.where(MESSAGE_TIMES))
        return Condition(" AND ".join(parts)) if parts else None

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
        return (*FACT, *(PAST if self.moment.is_past else ()))


# Candidates: the facts that messages support, or a walk came by, and that may answer.


async def possible_answers(
    tables: Tables, messages: list[str], question: Question, walk: Collection[str]
) -> tuple[MatchedRows, Iterable[tuple[str, str]]]:
    """The facts that are compared of those that messages support or the walk came by; and which message supports which.

    What the walk alone came by stands for the message that said it first.
    """
    support = await tables.rows("fact_evidence", "message_id", messages, ["fact_id", "message_id"])
    supported = {row["fact_id"] for row in support}
    ids = sorted({*walk, *supported})
    if question.moment.is_past:
        found = await asyncio.gather(
            _facts(tables, "message_id", messages, question), _facts(tables, "id", ids, question)
        )
        ever = pl.concat(found).unique("id", keep="first", maintain_order=True)
        facts = found_in(await _valid(tables, ever, question))  # depends on more rows than those that answer
    else:
        keys = {"message_id": messages, "id": ids}
        facts = await tables.with_vectors("facts", keys, question.columns, question.searched)
    wanted = set(messages)
    own = {(row["id"], row["message_id"]) for row in facts.rows}
    pairs = {(fact, message) for fact, message in own if message in wanted}
    pairs |= {(row["fact_id"], row["message_id"]) for row in support}
    reached = {*walk} - {fact for fact, _ in pairs}
    return facts, sorted(pairs | {(fact, message) for fact, message in own if fact in reached})


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
    """Facts whose score is below a limit in [0, 1].

    Empty while the steward learns. Facts without a score are not among them; pinned ones and axioms never fade.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._low = Kept(TABLES, self._below)
        self._pinned = Kept(("entities",), _pinned_entities)

    async def among(self, tables: Tables, ids: Sequence[str]) -> list[str]:
        """Those of these live facts that are not to be recalled."""
        if self._limit <= 0.0:
            return []
        below = await self._low.of(tables)
        low = [fact for fact in ids if fact in below]
        if not low:
            return []
        rows = await tables.fetch("facts", "id", low, _READ)
        kept = {*rows.filter(is_kept(await self._pinned.of(tables)))["id"]}
        return [fact for fact in low if fact not in kept]

    async def _below(self, tables: Tables) -> frozenset[str]:
        """Facts below the limit."""
        marks = await tables.fetch("metadata", "id", [LEARNING], ["number"])
        is_over = len(marks) > 0 and not marks["number"][0]
        where = f"quality_score < {self._limit}"
        return frozenset((await rows_where(tables, "fact_scores", ["id"], where))["id"] if is_over else ())


async def _pinned_entities(tables: Tables) -> frozenset[str]:
    return frozenset((await rows_where(tables, "entities", ["id"], "pinned"))["id"])

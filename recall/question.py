"""A question: a query with its vector, and the conditions of facts and messages that may answer it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from recall.ranking.questions import Period
from slowwave.common.validity import Moment
from storage.residents import Condition
from storage.rows import quoted

from .facts import ALL, HOT, NEEDED

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

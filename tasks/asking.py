"""Asking: pairs of facts are shown to a model, many to a call, and its verdicts are read (S1-05, S1-13, S2-59)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import polars as pl

from inference.language import Language
from prompts.rendering import render_pairs
from prompts.responses import PairVerdict, Reconciliation
from slowwave.application.entrenchment import AXIOM, rank_of
from slowwave.merging.verdicts import Judged
from slowwave.reading.spans import stated_date
from slowwave.records import PairFact, PairQuestion
from slowwave.settings import MergeSettings
from storage.snapshots import Reading

PROMPT = "reconcile_facts"
UNANSWERED, CONTRADICTORY = "the answer has no usable verdict about it", "the answer has two verdicts about it"
_BEGINNING = datetime.min.replace(tzinfo=UTC)

Row = Mapping[str, Any]


@dataclass(slots=True)
class Asked:
    """What became of the questions; `left` are the facts of pairs that nobody was asked about, or in vain."""

    judged: list[Judged] = field(default_factory=list)
    errors: set[str] = field(default_factory=set)
    left: set[str] = field(default_factory=set)

    @property
    def waiting(self) -> frozenset[str]:
        """Facts of pairs that nobody was asked about."""
        return frozenset(id_ for each in self.judged if not (each.verdict or each.error) for id_ in each.ids)


def questions_of(reading: Reading, pairs: pl.DataFrame, facts: pl.DataFrame) -> list[tuple[str, str, PairQuestion]]:
    """Each pair in the order of time, with what is shown of it; numbers are given when they are asked."""
    ids = pl.concat([pairs["a_id"], pairs["b_id"]]).unique()
    rows = {row["id"]: row for row in facts.filter(pl.col("id").is_in(ids.implode())).iter_rows(named=True)}
    said = reading.by_ids("fact_evidence", ids, ["fact_id", "occurred_at"], key="fact_id")
    times = dict(said.group_by("fact_id").agg(pl.col("occurred_at").max()).iter_rows())
    messages = [row["message_id"] for row in rows.values() if row["message_id"]]
    speakers = {
        id_: speaker or role or ""
        for id_, speaker, role in reading.by_ids("messages", messages, ["id", "speaker", "role"]).iter_rows()
    }
    entities = [row[end] for row in rows.values() for end in ("subject_id", "object_id") if row[end]]
    names = dict(reading.by_ids("entities", entities, ["id", "name"]).iter_rows())
    shown = {id_: _shown(row, times.get(id_) or row["valid_from"], speakers, names) for id_, row in rows.items()}
    tries = {id_: row["consolidation_attempts"] or 0 for id_, row in rows.items()}

    def when(id_: str) -> tuple[datetime, datetime, str]:
        row, at = rows[id_], shown[id_].said_at
        return (at or _BEGINNING, row["valid_from"] or _BEGINNING, id_)

    ordered = [sorted(pair, key=when) for pair in pairs.select("a_id", "b_id").iter_rows()]
    return [(a, b, PairQuestion(0, (shown[a], shown[b]), max(tries[a], tries[b]))) for a, b in ordered]


def _shown(row: Row, said_at: datetime | None, speakers: Mapping[str, str], names: Mapping[str, str]) -> PairFact:
    start, is_denied = row["valid_from"], row["kind"] == "relation" and row["polarity"] == "negated"
    event = stated_date(row.get("event_at"), row.get("event_precision"))
    is_same_day = start is None or (said_at is not None and start.date() == said_at.date())
    is_same_day = is_same_day or start == row.get("event_at")
    return PairFact(
        row["statement"] or "",
        names.get(row["subject_id"], ""),
        f"{'not ' if is_denied else ''}{row['predicate'] or ''}",
        names.get(row["object_id"], "") or row["object_text"] or "",
        speakers.get(row["message_id"], ""),
        said_at,
        None if is_same_day else start,
        row["valid_to"],
        event,
        bool(row["pinned"]) or rank_of(row["entrenchment"]) >= AXIOM,
    )


async def judge(
    language: Language, questions: Sequence[tuple[str, str, PairQuestion]], settings: MergeSettings
) -> Asked:
    """The verdicts about all pairs. What is unusable of an answer loses its pair alone; nothing is asked again now."""
    starts = range(0, len(questions), settings.per_call)
    groups = [questions[start : start + settings.per_call] for start in starts]
    if language.budget_reached:
        return Asked([Judged(a, b) for a, b, _ in questions], left={id_ for a, b, _ in questions for id_ in (a, b)})
    answers = await language.ask_many(
        [render_pairs(_numbered(group)) for group in groups], Reconciliation, "consolidate"
    )
    asked = Asked()
    for group, answer in zip(groups, answers, strict=True):
        asked.errors |= {answer.error} if answer.error else set()
        asked.left |= set() if answer.value else {id_ for a, b, _ in group for id_ in (a, b)}
        verdicts = answer.value.verdicts if answer.value else ()
        silence = "" if answer.is_unheard else answer.error or UNANSWERED
        for number, (a, b, _) in enumerate(group, 1):
            asked.judged.append(_judged(a, b, [each for each in verdicts if each.n == number], silence))
    return asked


def _numbered(group: Sequence[tuple[str, str, PairQuestion]]) -> tuple[PairQuestion, ...]:
    return tuple(replace(each, number=n) for n, (_, _, each) in enumerate(group, 1))


def _judged(a: str, b: str, verdicts: Sequence[PairVerdict], silence: str) -> Judged:
    if len({each.v for each in verdicts}) > 1:
        return Judged(a, b, error=CONTRADICTORY)
    return Judged(a, b, verdicts[0].v, verdicts[0].keep or 1) if verdicts else Judged(a, b, error=silence)

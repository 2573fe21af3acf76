"""Forgetting: questions are asked, then the third of the facts that the steward thinks least of is pruned.

Half of the questions are asked beforehand, as agents would over the months; the others come for the first time after
the pruning. What is lost of the first is the loss, what is lost of the second the regret of forgetting too early.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl

from flows.maintenance import Sweep, steward
from slowwave.common.settings import StewardSettings
from slowwave.common.validity import live_sql
from slowwave.integrations.python_api import OpenMemory
from storage.store import Store

from . import data
from .figures import Figure, Options
from .ingest import ingest_files
from .metrics import evidence_recall, mean, named_messages

SHARE = 0.30
LATER = timedelta(days=200)
K, DEEP = 10, 60
LOSS_BAR, REGRET_BAR = 0.5, 0.5


@dataclass(frozen=True, slots=True)
class Forgot:
    """Evidence recall at ten of each question before and after, and which of the pruned facts a question needed."""

    asked: tuple[tuple[float, float], ...]
    fresh: tuple[tuple[float, float], ...]
    live: int
    pruned: int
    needed: int


def run(options: Options) -> Iterable[Figure]:
    """LoCoMo, then BEAM."""
    for name, talks in (("LoCoMo", data.locomo(options.data)), ("BEAM", data.beam(options.data))):
        chosen = talks[:1] if options.is_quick else talks
        yield from _figures(name, [forget(options.place / f"{name}-{talk.name}", talk) for talk in chosen])


def forget(place: Path, talk: data.Talk) -> Forgot:
    """Ingest, ask every other question, prune, and ask all of them."""
    uri = str(place / "store")
    ingest_files([str(data.write_messages(place / "messages.jsonl", talk.messages))], uri)
    asked, fresh = talk.questions[::2], talk.questions[1::2]
    with OpenMemory.open(uri) as memory:
        for question in asked:
            memory.recall(question.text, K)
    before = [_recalls(uri, questions) for questions in (asked, fresh)]
    live = Store.open(uri).snapshot().frame("facts", live_sql(datetime.now(UTC)), ["id", "message_id"])
    gone = _prune(uri, len(live))
    after = [_recalls(uri, questions) for questions in (asked, fresh)]
    pairs = [tuple(zip(then, now, strict=True)) for then, now in zip(before, after, strict=True)]
    return Forgot(pairs[0], pairs[1], len(live), len(gone), _needed(uri, gone, talk.questions))


def _recalls(uri: str, questions: Sequence[data.Asked]) -> list[float]:
    with OpenMemory.open(uri, is_logged=False) as memory:
        return [evidence_recall(named_messages(memory.recall(q.text, DEEP).facts), q.evidence, K) for q in questions]


def _prune(uri: str, live: int) -> pl.Series:
    """Ids of the facts that are gone after a sweep whose threshold takes a third, and no fact that was recalled."""
    at = datetime.now(UTC) + LATER
    _sweep(uri, at, ("score",), 0.1)
    snapshot = Store.open(uri).snapshot()
    used = snapshot.frame("fact_usage", "hit_count > 0", ["id"])
    scores = snapshot.frame("fact_scores", columns=["id", "quality_score"]).join(used, on="id", how="anti")
    order = scores.sort("quality_score", "id")["quality_score"]
    threshold = order[min(round(live * SHARE), len(order) - 1)]
    _sweep(uri, at, ("prune",), float(threshold))
    return Store.open(uri).snapshot().frame("facts", "status = 'archived'", ["id"])["id"]


def _sweep(uri: str, at: datetime, phases: tuple[Sweep, ...], threshold: float) -> None:
    settings = StewardSettings.model_validate(
        {"llm": {"model": "quotes"}, "prune_threshold": threshold, "learning_events": 1}
    )
    asyncio.run(steward(store=uri, phases=phases, settings=settings, now=at))


def _needed(uri: str, gone: pl.Series, questions: Sequence[data.Asked]) -> int:
    """Pruned facts whose every message with a live fact is gone too, though a question needs it."""
    snapshot = Store.open(uri).snapshot()
    said = snapshot.by_ids("fact_evidence", gone, ["fact_id", "message_id"], key="fact_id")
    named = snapshot.by_ids("messages", said["message_id"], ["id", "message_id"]).rename({"message_id": "name"})
    wanted = {name for question in questions for name in question.evidence}
    held = snapshot.by_ids("fact_evidence", said["message_id"], ["fact_id", "message_id"], key="message_id")
    live = held.filter(~pl.col("fact_id").is_in(gone.implode()))["message_id"]
    lost = said.join(named, left_on="message_id", right_on="id").filter(
        pl.col("name").is_in(list(wanted)), ~pl.col("message_id").is_in(live.implode())
    )
    return lost["fact_id"].n_unique()


def _figures(name: str, forgot: Sequence[Forgot]) -> Iterator[Figure]:
    live, pruned, needed = (sum(getattr(each, what) for each in forgot) for what in ("live", "pruned", "needed"))
    yield Figure("forgetting", f"{name}: pruned", 100 * pruned / live, "%", note=f"{pruned} of {live} facts")
    for what, pairs, bar in (
        ("asked before", [pair for each in forgot for pair in each.asked], LOSS_BAR),
        ("first asked after", [pair for each in forgot for pair in each.fresh], None),
    ):
        then, now = mean(pair[0] for pair in pairs), mean(pair[1] for pair in pairs)
        yield Figure("forgetting", f"{name}, {what}: R@10 before", then, note=f"{len(pairs)} questions")
        yield Figure("forgetting", f"{name}, {what}: R@10 after", now)
        yield Figure("forgetting", f"{name}, {what}: loss", 100 * (then - now), "points", bar, "lower")
    note = f"{needed} facts that a question, asked or not, needed and nothing else says"
    yield Figure("forgetting", f"{name}: regret", 100 * needed / max(pruned, 1), "%", REGRET_BAR, "lower", note)

"""Little talks in which something is taken back: what a keyless memory closes, keeps, and must never say."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import polars as pl

from flows.ingest import ingest
from slowwave.settings import IngestSettings
from storage.store import Store

from .figures import Figure, Options

TALKS = Path(__file__).resolve().parents[1] / "tests" / "data" / "reversals.jsonl"
MORE = TALKS.with_name("more_reversals.jsonl")
NOW = datetime(2027, 3, 1, tzinfo=UTC)
CLOSED_BAR = 0.85
COUNTED: Mapping[str, str] = {
    "falsely closed": "facts that hold, and were closed",
    "false": "relations that nobody stated",
    "bent": "sentences that no person would write, or that count as denied",
    "noise": "orders, acknowledgements and findings that nobody accepted, kept as facts",
    "misdated": "facts that begin at an impossible time",
}
"""What must not be, and how it is told."""

Talk = Mapping[str, Any]
Fact = Mapping[str, Any]


def run(options: Options) -> Iterable[Figure]:
    """Shares of what should be closed and kept, and how many of each thing that should not be."""
    talks = read_talks()
    found = verdicts(talks, options.place)
    for name in ("closed", "kept"):
        good, all_ = len(found[name]), len(found[name]) + len(found[f"not {name}"])
        yield Figure("reversals", name, good / max(all_, 1), bar=CLOSED_BAR, note=f"{good} of {all_}")
    for name, what in COUNTED.items():
        yield Figure("reversals", name, len(found[name]), bar=0, better="lower", note=what)


def read_talks(path: Path = TALKS) -> list[Talk]:
    """The talks with what is expected of them."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def verdicts(talks: Sequence[Talk], place: Path) -> dict[str, list[str]]:
    """What came of every expectation, by its kind, after one keyless ingest; each talk is a scope of its own."""
    source, store = place / "talks.jsonl", str(place / "memory")
    source.write_text("".join(json.dumps(line) + "\n" for talk in talks for line in _lines(talk)), encoding="utf-8")
    rules = IngestSettings.model_validate({"llm": {"model": "rules"}})
    asyncio.run(ingest([str(source)], store=store, settings=rules, now=NOW))
    facts = _facts(Store.open(store))
    found: dict[str, list[str]] = {name: [] for name in ("closed", "not closed", "kept", "not kept", *COUNTED)}
    for talk in talks:
        for name, words in judged(talk, facts.get(talk["id"], [])):
            found[name].append(f"{talk['id']}: {words}")
    return found


def _lines(talk: Talk) -> Iterable[dict[str, Any]]:
    seen: Counter[str] = Counter()
    for number, message in enumerate(talk["messages"]):
        day = message["at"]
        seen[day] += 1
        yield {
            "conversation_id": f"{talk['id']} {day}",
            "message_id": f"{talk['id']}-{number}",
            "role": message["role"],
            "speaker": message["speaker"],
            "content": message["text"],
            "occurred_at": f"{day}T10:{seen[day]:02d}:00Z",
            "scope": talk["id"],
        }


def _facts(store: Store) -> dict[str, list[Fact]]:
    """All facts that were ever believed, by talk, with the number of their message and the name of their subject."""
    snapshot = store.snapshot()
    names = snapshot.frame("entities", columns=["id", "name"]).rename({"id": "subject_id", "name": "subject"})
    places = snapshot.frame("messages", columns=["id", "message_id"]).rename({"id": "message_id", "message_id": "at"})
    columns = ["id", "scope", "kind", "statement", "status", "predicate", "object_text", "polarity", "valid_from",
               "valid_to", "subject_id", "message_id"]  # fmt: skip
    rows = snapshot.frame("facts", "status != 'rejected'", columns)
    rows = rows.join(names, on="subject_id", how="left").join(places, on="message_id", how="left")
    rows = rows.with_columns(
        number=pl.col("at").str.extract(r"-(\d+)$").cast(pl.Int64),
        is_live=(pl.col("status") == "active") & (pl.col("valid_to").is_null() | (pl.col("valid_to") > NOW)),
    )
    return {
        str(scope): [*part.iter_rows(named=True)] for (scope,), part in rows.partition_by("scope", as_dict=True).items()
    }


def judged(talk: Talk, facts: Sequence[Fact]) -> Iterable[tuple[str, str]]:
    """(verdict, words) for every expectation of a talk, and for every fact that was closed without one."""
    for number, words in talk.get("closed", ()):
        meant = _telling(facts, number, words)
        is_closed = bool(meant) and not any(fact["is_live"] for fact in meant)
        yield ("closed" if is_closed else "not closed"), words
    for number, words in (*talk.get("live", ()), *talk.get("kept", ())):
        is_kept = any(fact["is_live"] for fact in _telling(facts, number, words))
        yield ("kept" if is_kept else "not kept"), words
    over = [*talk.get("closed", ()), *talk.get("may_close", ())]
    for fact in facts:
        is_last = fact["number"] == len(talk["messages"]) - 1
        is_meant = any(fact in _telling([fact], number, words) for number, words in over)
        if not fact["is_live"] and not is_last and not is_meant:
            yield "falsely closed", fact["statement"]
        if any(_is_of(fact, pattern) for pattern in talk.get("never", ())):
            yield "false", f"{fact['subject']} {fact['predicate']} {fact['object_text']}"
        is_bent = any(words in fact["statement"] for words in talk.get("no_words", ()))
        is_denied = fact["kind"] == "observation" and fact["polarity"] == "negated"
        if is_bent or (is_denied and fact["number"] in talk.get("plain", ())):
            yield "bent", fact["statement"]
        if fact["number"] in talk.get("dropped", ()):
            yield "noise", fact["statement"]
    for number, words in talk.get("gone", ()):
        yield from (("noise", fact["statement"]) for fact in _telling(facts, number, words))
    for number, first, last in talk.get("dated", ()):
        for fact in _telling(facts, number, ""):
            if not first <= f"{fact['valid_from']:%Y-%m-%d}" <= last:
                yield "misdated", f"{fact['statement']} ({fact['valid_from']:%Y-%m-%d})"


def _telling(facts: Iterable[Fact], number: int, words: str) -> list[Fact]:
    """The facts of one message whose sentence or object has these words."""
    own = (fact for fact in facts if fact["number"] == number)
    return [fact for fact in own if words.lower() in f"{fact['statement']}\n{fact['object_text'] or ''}".lower()]


def _is_of(fact: Fact, pattern: Sequence[str]) -> bool:
    """Whether a relation has this subject, relation and object; `*` stands for anything."""
    parts = (fact["subject"], fact["predicate"], fact["object_text"] or "")
    return fact["kind"] == "relation" and all(
        fnmatchcase(str(part).lower(), wanted.lower()) for part, wanted in zip(parts, pattern, strict=True)
    )

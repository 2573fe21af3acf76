"""Claims: what an extractor said about windows of messages, as frames that the rules read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import polars as pl

from slowwave import frames
from slowwave.application.patches import CLAIMS
from slowwave.intake.windows import PlannedWindow
from slowwave.reading.mentions import RAW_MENTIONS
from slowwave.text import normalise_statement, tokens

JUDGEMENTS: frames.Schema = {"message_id": frames.TEXT, "durable": frames.FLAG, "reason": frames.TEXT}


class Dumps(Protocol):
    """A validated response."""

    def model_dump(self) -> dict[str, Any]:
        """The response as plain data."""


@dataclass(frozen=True, slots=True)
class Said:
    """CLAIMS, RAW_MENTIONS and JUDGEMENTS of a batch; `invalid` counts what pointed at no message (T37)."""

    claims: pl.DataFrame
    mentions: pl.DataFrame
    judgements: pl.DataFrame
    invalid: int = 0


def collect(answered: Iterable[tuple[PlannedWindow, Dumps]], max_entities_per_message: int) -> Said:
    """One frame of each kind from all answers; only indexes are trusted, and only those of new messages (T37).

    What a claim does away with must have been shown as well, by its index or in some of its words: no answer, whatever
    a text made the model say, ends what was not before it.

    The subject of a claim counts as a mention even where it is not listed, so that no claim is lost for that; an object
    that is not listed stays text.
    """
    claims: list[dict[str, Any]] = []
    mentions: list[dict[str, Any]] = []
    judgements: list[dict[str, Any]] = []
    invalid = 0
    for number, (planned, response) in enumerate(answered):
        said = response.model_dump()
        rows = {
            turn.index: row
            for turn, row in zip(planned.window.turns, planned.message_ids, strict=True)
            if not turn.is_context
        }
        valid = [claim for claim in said["facts"] if claim["message"] in rows]
        invalid += len(said["facts"]) - len(valid)
        shown = _Shown(planned)
        claims += [_claim(number, rows[claim["message"]], claim, shown) for claim in valid]
        limit = max_entities_per_message * len(rows)
        mentions += _mentions(number, planned, said["entities"][:limit], valid)
        judgements += [
            {"message_id": rows[each["message"]], "durable": each["durable"], "reason": each["reason"]}
            for each in said["messages"]
            if each["message"] in rows
        ]
    return Said(
        pl.DataFrame(claims, schema=dict(CLAIMS)),
        pl.DataFrame(mentions, schema=RAW_MENTIONS),
        pl.DataFrame(judgements, schema=dict(JUDGEMENTS)).unique("message_id", keep="first", maintain_order=True),
        invalid,
    )


class _Shown:
    """What a model was shown in a window: known facts by their index, and all its words."""

    def __init__(self, planned: PlannedWindow) -> None:
        self.known = {fact.index: fact.fact_id for fact in planned.window.known}
        self._window = planned.window

    def named(self, object: str | None) -> str | None:
        """The words for what is over, if any that tells something was shown; else they are the model's own."""
        words = normalise_statement(object or "").split()
        telling = [word for word in words if len(word) > 3]
        if telling:
            return object if any(word in self._words for word in telling) else None
        return object if not tokens(self._words).isdisjoint(words) else None

    @cached_property
    def _words(self) -> str:
        texts = [*(turn.text for turn in self._window.turns), *(fact.statement for fact in self._window.known)]
        return normalise_statement("\n".join(texts))


def _claim(window: int, row: str, claim: Mapping[str, Any], shown: _Shown) -> dict[str, Any]:
    resolves = [
        {
            "known_id": shown.known.get(each["known"]),
            "object": shown.named(each["object"]),
            "action": each["action"],
            "reason": each["reason"],
        }
        for each in claim["resolves"]
    ]
    taken = {name: claim[name] for name in CLAIMS if name in claim}
    return {**taken, "window": window, "message_id": row, "resolves": resolves}


def _mentions(
    window: int, planned: PlannedWindow, entities: Sequence[Mapping[str, Any]], claims: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    seen_at = max(turn.occurred_at for turn in planned.window.turns)
    listed = [(each["name"], each["type"], each["summary"]) for each in entities]
    named = {name for name, _, _ in listed}
    people = {turn.speaker for turn in planned.window.turns if turn.role == "user"}
    for claim in claims:
        if claim["subject"] not in named:
            named.add(claim["subject"])
            listed.append((claim["subject"], "person" if claim["subject"] in people else "concept", None))
    return [
        {"window": window, "name": name, "entity_type": kind, "summary": summary, "seen_at": seen_at}
        for name, kind, summary in listed
    ]

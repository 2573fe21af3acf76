"""Claims: what an extractor said about windows of messages, as frames that the rules read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import polars as pl

from slowwave import frames
from slowwave.application.patches import CLAIMS
from slowwave.intake.windows import PlannedWindow
from slowwave.reading.mentions import RAW_MENTIONS

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
        known = {fact.index: fact.fact_id for fact in planned.window.known}
        claims += [_claim(number, rows[claim["message"]], claim, known) for claim in valid]
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


def _claim(window: int, row: str, claim: Mapping[str, Any], known: Mapping[int, str]) -> dict[str, Any]:
    resolves = [
        {
            "known_id": known.get(each["known"]),
            "object": each["object"],
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

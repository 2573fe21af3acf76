"""Facts as they are shown: with names instead of ids, and the messages that say them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import polars as pl

from slowwave.validity import as_of as is_valid
from slowwave.validity import is_live, valid_facts
from storage.snapshots import Snapshot

from .entities import Entity
from .records import Provenance, RecalledFact

NEEDED = (
    "id",
    "statement",
    "subject_id",
    "predicate",
    "object_id",
    "object_text",
    "confidence",
    "status",
    "valid_from",
    "valid_to",
    "aspect_slugs",
)
SHOWN = (*NEEDED, "scope", "expired_at", "replaced_by")
EVIDENCE = ("fact_id", "message_id", "quote", "occurred_at")


def facts_about(
    snapshot: Snapshot, entity: Entity, now: datetime, as_of: datetime | None, everything: bool
) -> tuple[RecalledFact, ...]:
    """Facts that the entity takes part in, newest first: live, or true at `as_of`, or all there ever were."""
    sides = [snapshot.by_ids("facts", [entity.id], SHOWN, key=end) for end in ("subject_id", "object_id")]
    rows = pl.concat(sides).unique("id", keep="first")
    if as_of is not None:
        rows = valid_facts(rows, as_of)
    elif not everything:
        rows = rows.filter(is_live(now))
    return shown(snapshot, rows.sort("valid_from", "id", descending=[True, False], nulls_last=True))


def filtered(rows: pl.DataFrame, now: datetime, scope: str | None, as_of: datetime | None) -> pl.DataFrame:
    """Only what may be recalled: live, or true at `as_of`, and of the scope."""
    kept = rows.filter(is_live(now) if as_of is None else is_valid(as_of))
    return kept if scope is None else kept.filter(pl.col("scope") == scope)


def shown(snapshot: Snapshot, rows: pl.DataFrame) -> tuple[RecalledFact, ...]:
    """Rows of NEEDED columns in their order, with names and provenance."""
    ends = pl.concat([rows["subject_id"], rows["object_id"]]).drop_nulls()
    names = dict(snapshot.by_ids("entities", ends, ["id", "name"]).iter_rows())
    evidence = snapshot.by_ids("fact_evidence", rows["id"], EVIDENCE, key="fact_id")
    said = ["id", "conversation_id", "message_id", "occurred_at"]
    return recalled(rows, names, evidence, snapshot.by_ids("messages", evidence["message_id"], said), {})


def recalled(
    rows: pl.DataFrame,
    names: Mapping[str, str],
    evidence: pl.DataFrame,
    messages: pl.DataFrame,
    places: Mapping[str, tuple[float, float, Sequence[str]]],
) -> tuple[RecalledFact, ...]:
    """Facts in the order of the rows; `places` gives score, cosine and the messages to name first, by fact."""
    said = _provenance(evidence, messages)
    made = []
    for position, row in enumerate(rows.iter_rows(named=True), 1):
        score, cosine, first = places.get(row["id"], (0.0, 0.0, ()))
        made.append(_fact(row, names, said.get(row["id"], []), score, cosine, first, position))
    return tuple(made)


def _fact(
    row: Mapping[str, Any],
    names: Mapping[str, str],
    said: Sequence[tuple[str, Provenance]],
    score: float,
    cosine: float,
    first: Sequence[str],
    rank: int,
) -> RecalledFact:
    order = {message: n for n, message in enumerate(first)}
    sources = sorted(said, key=lambda pair: order.get(pair[0], len(order)))
    return RecalledFact(
        id=row["id"],
        statement=row["statement"],
        subject=names.get(row["subject_id"], ""),
        predicate=row["predicate"],
        object=names.get(row["object_id"]) or row["object_text"],
        score=round(score, 6),
        confidence=row["confidence"] or 0.0,
        status=row["status"],
        valid_from=row["valid_from"],
        valid_to=row["valid_to"],
        aspects=tuple(row["aspect_slugs"] or ()),
        provenance=tuple(source for _, source in sources),
        cosine=cosine,
        rank=rank,
        subject_id=row["subject_id"],
        object_id=row["object_id"],
    )


def _provenance(evidence: pl.DataFrame, messages: pl.DataFrame) -> dict[str, list[tuple[str, Provenance]]]:
    """By fact: the row id of each message that says it, with how it is shown; in order of time."""
    both = evidence.join(messages, left_on="message_id", right_on="id", how="left", suffix="_said")
    timed = both.with_columns(at=pl.coalesce("occurred_at", "occurred_at_said")).sort("at", "message_id")
    found: dict[str, list[tuple[str, Provenance]]] = {}
    for row in timed.iter_rows(named=True):
        name = row["message_id_said"] or row["message_id"]
        said = Provenance(row["conversation_id"] or "", name, row["quote"] or "", row["at"])
        found.setdefault(row["fact_id"], []).append((row["message_id"], said))
    return found

"""Retirement: facts leave memory for the archive, with what hangs on them, so that all of it can come back (T31)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any

import polars as pl

from slowwave import frames
from slowwave.merging.observations import cleared
from slowwave.text import as_json, timed_id
from slowwave.validity import is_live

Measures = Mapping[str, Mapping[str, Any]]
NOTHING: Measures = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Cause:
    """Why facts are retired: the action and reason of the decision, the `status_reason`, and who decided."""

    action: str
    status_reason: str
    decided_by: str
    reason: str


BY_A_PERSON = Cause("archive", "deleted", "person", "A person retired it; undo brings it back.")


@dataclass(frozen=True, slots=True, eq=False)
class Retirement:
    """Rows to store: `facts` are the retired ones and those whose flag is cleared with them.

    `pairs` are ids of PAIR_DECISIONS that waited for a decision which no longer matters.
    """

    facts: pl.DataFrame
    decisions: pl.DataFrame
    pairs: tuple[str, ...]
    retired: tuple[str, ...]
    cleared: tuple[str, ...]


def plan_retirement(
    facts: pl.DataFrame,
    partners: pl.DataFrame,
    pairs: pl.DataFrame,
    cause: Cause,
    now: datetime,
    measures: Measures = NOTHING,
) -> Retirement:
    """Archive facts; the rows stay, and facts that were flagged for them lose the flag (S0-05).

    `facts` are live rows, `partners` those with one of them as `similar_to_id`; both may be wider than FACTS. `pairs`
    are pending PAIR_DECISIONS of the facts, `measures` what was seen of each. Flags and pairs are kept in the decision,
    from where `slowwave.maintenance.restoration` puts them back.
    """
    archived = facts.with_columns(
        status=pl.lit("archived"),
        status_reason=pl.lit(cause.status_reason),
        expired_at=pl.lit(now, dtype=frames.TIME),
    )
    gone = facts["id"].to_list()
    freed = partners.filter(is_live(now) & pl.col("similarity_flag") & ~pl.col("id").is_in(gone)).sort("id")
    flags = _by_fact(freed, "similar_to_id", ("id", "similarity_score"))
    waiting = [_by_fact(pairs, end, tuple(frames.PAIR_DECISIONS)) for end in ("a_id", "b_id")]
    rows = []
    for fact in gone:
        lost = flags.get(fact, [])
        seen = {
            **measures.get(fact, {}),
            "flags": {row["id"]: row["similarity_score"] for row in lost},
            "pairs": [row for ends in waiting for row in ends.get(fact, [])],
        }
        rows.append(_decision(fact, [row["id"] for row in lost], seen, cause, now))
    decisions = pl.DataFrame(rows, schema=dict(frames.DECISIONS))
    changed = pl.concat([archived, cleared(freed)])
    return Retirement(changed, decisions, tuple(pairs["id"].unique().sort()), tuple(gone), tuple(freed["id"]))


def _by_fact(rows: pl.DataFrame, key: str, columns: tuple[str, ...]) -> dict[str, list[dict[str, Any]]]:
    """The rows of each fact, as plain data in order of their ids."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows.select(*dict.fromkeys((*columns, key))).sort("id").iter_rows(named=True):
        found.setdefault(row[key], []).append({name: row[name] for name in columns})
    return found


def _decision(fact: str, freed: list[str], measures: Mapping[str, Any], cause: Cause, now: datetime) -> dict[str, Any]:
    return {
        "id": timed_id("d", now, cause.action, fact),
        "action": cause.action,
        "subject_id": fact,
        "ids_in": [fact],
        "ids_out": [fact, *freed],
        "measures": as_json({name: value for name, value in measures.items() if value not in ({}, [])}),
        "decided_by": cause.decided_by,
        "reason": cause.reason,
        "at": now,
    }

"""Nights and other runs in the atlas: what each changed, why, and which entities it touched."""

from __future__ import annotations

from typing import Any

import polars as pl

from storage.snapshots import Snapshot

from .atlas_facts import AtlasLimits, Chosen

_COLUMNS = ("id", "flow", "state", "parent_id", "started_at", "ended_at", "usd")
_PLAIN = ("create", "reassert")
"""Actions that add nothing to the facts themselves: others come first."""


def atlas_runs(snapshot: Snapshot, chosen: Chosen, limits: AtlasLimits) -> tuple[list[dict[str, Any]], int]:
    """The newest runs, newest first, and how many others there are.

    `changes` counts decisions by action, `reasons` are a few of them (action, place of the fact or null, reason),
    `touched` places of entities.
    """
    rows = snapshot.frame("runs", columns=_COLUMNS).sort("started_at", "id", descending=True)
    newest = rows.head(limits.runs)
    columns = ["run_id", "action", "subject_id", "ids_out", "reason", "at", "id"]
    made = snapshot.by_ids("decisions", newest["id"], columns, key="run_id").sort("run_id", "at", "id")
    changes = _changes(made)
    touched = _touched(made, chosen, limits.touched)
    reasons = _reasons(made, chosen, limits)
    shown = [
        {
            "id": row["id"],
            "flow": row["flow"] or "",
            "state": row["state"] or "",
            "parent": row["parent_id"],
            "started": _seconds(row["started_at"]),
            "ended": _seconds(row["ended_at"]),
            "usd": round(row["usd"] or 0.0, 4),
            "changes": changes.get(row["id"], {}),
            "touched": touched.get(row["id"], []),
            "reasons": reasons.get(row["id"], []),
        }
        for row in newest.to_dicts()
    ]
    return shown, len(rows) - len(newest)


def _seconds(at: Any) -> int | None:
    return None if at is None else int(at.timestamp())


def _changes(made: pl.DataFrame) -> dict[str, dict[str, int]]:
    """By run: how many decisions of each action, most frequent first."""
    counts = made.group_by("run_id", "action").len().sort("run_id", "len", "action", descending=[False, True, False])
    found: dict[str, dict[str, int]] = {}
    for run, action, count in counts.iter_rows():
        found.setdefault(run, {})[action] = count
    return found


def _touched(made: pl.DataFrame, chosen: Chosen, limit: int) -> dict[str, list[int]]:
    """By run: the entities that it decided about, or about whose facts it did; most related first."""
    rows = pl.concat(
        [
            made.select("run_id", id="subject_id"),
            made.select("run_id", id="ids_out").explode("id").drop_nulls("id"),
        ]
    ).unique()
    facts = pl.concat([chosen.facts.select("id", place=end) for end in ("s", "t")]).drop_nulls("place")
    entities = chosen.entities.select("id").with_row_index("place")
    places = pl.concat([facts, entities.select("id", pl.col("place").cast(facts["place"].dtype))])
    met = rows.join(places, on="id").select("run_id", "place").unique().sort("run_id", "place")
    few = met.group_by("run_id", maintain_order=True).agg(pl.col("place").head(limit))
    return dict(few.iter_rows())


def _reasons(made: pl.DataFrame, chosen: Chosen, limits: AtlasLimits) -> dict[str, list[list[Any]]]:
    """By run: a few reasons, each once, those of rarer actions first."""
    index = chosen.facts.select(subject_id="id").with_row_index("place")
    reasons = made.with_columns(
        is_plain=pl.col("action").is_in(_PLAIN),
        nth=pl.int_range(pl.len()).over("run_id", "action"),
        reason=pl.col("reason").fill_null("").str.slice(0, limits.quote),
    )
    once = reasons.unique(["run_id", "action", "reason"], keep="first", maintain_order=True)
    few = once.sort("run_id", "is_plain", "nth", "action", "id").filter(
        pl.int_range(pl.len()).over("run_id") < limits.reasons
    )
    placed = few.join(index, on="subject_id", how="left", maintain_order="left")
    found: dict[str, list[list[Any]]] = {}
    for run, action, place, reason in placed.select("run_id", "action", "place", "reason").iter_rows():
        found.setdefault(run, []).append([action, place, reason])
    return found

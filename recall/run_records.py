"""Runs as they are told: what each was asked to do, what it did and cost, and its commits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import polars as pl

from slowwave.maintenance.effects import effects
from storage.rows import quoted
from storage.snapshots import Snapshot

from .stories import run_named

_COLUMNS = (
    "id", "flow", "state", "parent_id", "parameters", "summary", "started_at", "ended_at", "calls", "tokens_in",
    "tokens_out", "usd",
)  # fmt: skip


def list_runs(snapshot: Snapshot, limit: int | None = None) -> list[dict[str, Any]]:
    """Runs, the newest first, phases right after their night in the order in which they ran; `limit` counts nights.

    `commits` says how many commits a run made, `kinds` of what kind, `first` the number of the first; `effects` what it
    changed in words, `took_s` how many seconds it took.
    """
    listed = snapshot.frame("runs", columns=["id", "parent_id", "started_at"])
    newest = _in_order(listed, limit)
    rows = snapshot.by_ids("runs", newest["id"], _COLUMNS)
    both = newest.select("id").join(rows, on="id", maintain_order="left")
    commits = snapshot.frame("commits", columns=["run_id", "kind", "sequence"]).group_by("run_id")
    counted = commits.agg(commits=pl.len(), kinds=pl.col("kind").unique().sort(), first=pl.col("sequence").min())
    return [_told(row) for row in both.join(counted, left_on="id", right_on="run_id", how="left").to_dicts()]


def run_record(snapshot: Snapshot, asked: str) -> dict[str, Any]:
    """One run in full: as in `list_runs`, with its commits one by one, and its phases.

    `waited_s`: how many seconds the commits waited for the lease together.
    """
    row = run_named(snapshot, asked)
    where = f"run_id = {quoted(row['id'])}"
    made = snapshot.frame("commits", where, ["sequence", "kind", "at", "waited_s"]).sort("sequence")
    phases = snapshot.by_ids("runs", [row["id"]], ["id", "started_at"], key="parent_id").sort("started_at", "id")
    told = _told({name: row[name] for name in _COLUMNS})
    return {**told, "commits": made.to_dicts(), "waited_s": made["waited_s"].sum(), "phases": phases["id"].to_list()}


def _in_order(listed: pl.DataFrame, limit: int | None) -> pl.DataFrame:
    """Nights and runs on their own, the newest first, each with all that belongs to it."""
    parents = dict(listed.select("id", "parent_id").iter_rows())
    heads = pl.Series("head", [_head(each, parents) for each in listed["id"]], dtype=pl.String)
    began = listed.select(head="id", head_began="started_at")
    placed = listed.with_columns(heads).join(began, on="head", maintain_order="left")
    order = ["head_began", "head", "is_part", "started_at", "id"]
    marked = placed.with_columns(is_part=pl.col("id") != pl.col("head"))
    whole = marked.sort(order, descending=[True, True, False, False, False])
    shown = whole["head"].unique(maintain_order=True).head(limit if limit is not None else len(whole))
    return whole.filter(pl.col("head").is_in(shown.implode()))


def _head(run: str, parents: Mapping[str, str | None]) -> str:
    """The outermost run that this one is a part of."""
    seen = {run}
    while (parent := parents.get(run)) and parent in parents and parent not in seen:
        run = parent
        seen.add(run)
    return run


def _told(row: Mapping[str, Any]) -> dict[str, Any]:
    summary = json.loads(row["summary"] or "{}")
    began, ended = row["started_at"], row["ended_at"]
    took = round((ended - began).total_seconds(), 2) if began and ended else None
    parameters = json.loads(row["parameters"] or "{}")
    changed = effects(summary.get("counts", {}))
    return {**row, "summary": summary, "parameters": parameters, "took_s": took, "effects": changed}

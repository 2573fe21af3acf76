"""Runs as they are told: what each was asked to do, what it did and cost, and its commits."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import polars as pl

from slowwave.maintenance.effects import effects
from storage.lease import IMPORTED
from storage.rows import quoted
from storage.snapshots import Snapshot

from .stories import run_named

_COLUMNS = (
    "id", "flow", "state", "parent_id", "parameters", "summary", "started_at", "ended_at", "calls", "tokens_in",
    "tokens_out", "usd", "owner",
)  # fmt: skip


def list_runs(snapshot: Snapshot, limit: int | None = None) -> list[dict[str, Any]]:
    """Runs, the newest first, parts right after the whole in the order in which they ran; `limit` counts wholes.

    `depth` says of how many runs it is a part, `commits` how many commits it made, `kinds` of what kind, `first` the
    number of the first; `effects` what it changed in words, `took_s` how many seconds it took, `window` of which time
    it read what was said, `is_imported` that it ran elsewhere and came with an export.
    """
    listed = snapshot.frame("runs", columns=["id", "parent_id", "started_at"])
    newest = _in_order(listed, limit)
    rows = snapshot.by_ids("runs", newest["id"], _COLUMNS)
    both = newest.select("id", "depth").join(rows, on="id", maintain_order="left")
    commits = snapshot.frame("commits", columns=["run_id", "kind", "sequence"]).group_by("run_id")
    counted = commits.agg(commits=pl.len(), kinds=pl.col("kind").unique().sort(), first=pl.col("sequence").min())
    return [_told(row) for row in both.join(counted, left_on="id", right_on="run_id", how="left").to_dicts()]


def run_record(snapshot: Snapshot, asked: str) -> dict[str, Any]:
    """One run in full: as in `list_runs`, with its commits one by one, and the runs that are its parts as `phases`.

    `waited_s`: how many seconds the commits waited for the lease together.
    """
    row = run_named(snapshot, asked)
    where = f"run_id = {quoted(row['id'])}"
    made = snapshot.frame("commits", where, ["sequence", "kind", "at", "waited_s"]).sort("sequence")
    phases = snapshot.by_ids("runs", [row["id"]], ["id", "started_at"], key="parent_id").sort("started_at", "id")
    told = _told({name: row[name] for name in _COLUMNS})
    return {**told, "commits": made.to_dicts(), "waited_s": made["waited_s"].sum(), "phases": phases["id"].to_list()}


def _in_order(listed: pl.DataFrame, limit: int | None) -> pl.DataFrame:
    """Runs that are a part of no other, the newest first, each with its parts and theirs, and how deep they lie."""
    oldest = listed.sort("started_at", "id")["id"].to_list()
    parents = dict(listed.select("id", "parent_id").iter_rows())
    parts = defaultdict[str, list[str]](list)
    heads = []
    for each in oldest:
        parent = parents[each]
        if parent in parents and not _leads_back(each, parents):
            parts[parent].append(each)
        else:
            heads.append(each)
    ordered: list[tuple[str, int]] = []
    for head in heads[::-1][:limit]:
        left = [(head, 0)]
        while left:
            run, depth = left.pop()
            ordered.append((run, depth))
            left += [(part, depth + 1) for part in reversed(parts[run])]
    return pl.DataFrame(ordered, schema={"id": pl.String, "depth": pl.Int64}, orient="row")


def _leads_back(run: str, parents: Mapping[str, str | None]) -> bool:
    """Whether a damaged row makes it a part of itself."""
    seen = {run}
    above = parents.get(run)
    while above is not None and above not in seen:
        seen.add(above)
        above = parents.get(above)
    return above is not None


def _told(row: Mapping[str, Any]) -> dict[str, Any]:
    summary = json.loads(row["summary"] or "{}")
    began, ended = row["started_at"], row["ended_at"]
    took = round((ended - began).total_seconds(), 2) if began and ended else None
    parameters = json.loads(row["parameters"] or "{}")
    changed = effects(summary.get("counts", {}))
    told = {name: value for name, value in row.items() if name != "owner"}
    more = {"window": _window(parameters), "is_imported": row["owner"] == IMPORTED}
    return {**told, "summary": summary, "parameters": parameters, "took_s": took, "effects": changed, **more}


def _window(parameters: Mapping[str, Any]) -> dict[str, str] | None:
    """Of which time a run of `ingest` reads what was said: from when, and to before when."""
    extract = (parameters.get("settings") or {}).get("extract") or {}
    since, until = extract.get("since"), extract.get("until")
    return {"since": since, "until": until} if since and until and extract.get("enabled", True) else None

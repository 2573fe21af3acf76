"""The state of a memory at a glance: what it holds, what it cost, what it refused; and how it grew."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import polars as pl

from slowwave.common import frames
from slowwave.common.run_counts import effects
from slowwave.common.settings import StewardSettings
from slowwave.common.validity import live_sql
from slowwave.lifecycle.pruning_and_eviction import events_to_learn, is_learning
from slowwave.lifecycle.usage_scores import usage_of
from storage.lease import IMPORTED
from storage.quotations import count_quoted
from storage.rows import quoted
from storage.snapshots import Snapshot
from storage.store import Store

from .facts import ALL
from .history import run_named

CLOSED = ("candidate", "rejected", "superseded", "retracted", "archived")
COMMON_WORDS = 15
TOP = 10


def stats(store: Store, now: datetime) -> dict[str, Any]:
    """The contract of `stats --json`; `quoted` are messages that are quotations until a model reads them."""
    snapshot = store.snapshot()
    calls = store.log("llm_calls", columns=["id", "created_at", "tokens_in", "tokens_out", "usd"])
    calls = calls.sort("created_at").unique("id", keep="last")  # an entry carries the cost of those before it
    statuses = pl.concat([snapshot.frame(name, columns=["status"])["status"] for name in ALL])
    by_status = dict(statuses.value_counts().iter_rows())
    return {
        "messages": snapshot.count("messages"),
        "quoted": count_quoted(snapshot),
        "facts": {
            "live": snapshot.count("facts", live_sql(now)),
            **{status: by_status.get(status, 0) for status in CLOSED},
        },
        "entities": snapshot.count("entities", "status IS NULL OR status != 'archived'"),
        "communities": snapshot.count("communities"),
        "commits": snapshot.sequence,
        "llm": {
            "calls": len(calls),
            "tokens_in": int(calls["tokens_in"].sum() or 0),
            "tokens_out": int(calls["tokens_out"].sum() or 0),
            "usd": round(float(calls["usd"].sum() or 0.0), 6),
        },
    }


def quality(store: Store, settings: StewardSettings, min_quality: float) -> dict[str, Any]:
    """What was refused, by gate with examples, the state of every message, and what recalls tell (COMMANDS S4)."""
    snapshot = store.snapshot()
    refusals = snapshot.frame("refusals")
    messages = snapshot.frame("messages", columns=["graph_state", "content_score"])
    gates = refusals.group_by("gate").agg(
        refused=pl.len(),
        example=pl.col("excerpt").first(),
        reason=pl.col("reason").first(),
        mean_length=pl.col("excerpt").str.len_chars().mean(),
    )
    firsts = refusals.select(pl.col("excerpt").str.to_lowercase().str.extract(r"(\w+)").alias("word")).drop_nulls()
    common = firsts["word"].value_counts(sort=True).head(COMMON_WORDS)
    return {
        "messages": dict(messages["graph_state"].value_counts(sort=True).iter_rows()),
        "gates": gates.sort("refused", "gate", descending=[True, False]).to_dicts(),
        "refusals": refusals.select("gate", "subject_kind", "subject_id", "reason", "measure", "threshold", "excerpt")
        .sort("gate", "subject_id")
        .to_dicts(),
        "common_first_words": dict(common.iter_rows()),
        "learned_prototypes": snapshot.count("scorer_state"),
        "retrieval_events": snapshot.count("retrieval_events"),
        "use": _use(snapshot, settings, min_quality),
    }


def _use(snapshot: Snapshot, settings: StewardSettings, min_quality: float) -> dict[str, Any]:
    """Whether the steward still learns from recalls, its limits, and the facts that are recalled most."""
    scores = snapshot.frame("fact_scores", columns=["quality_score"])
    usage = usage_of(snapshot.frame("fact_usage"), snapshot.frame("lineage", columns=list(frames.LINEAGE)))
    top = usage.sort("hit_count", "last_retrieved_at", "id", descending=[True, True, False]).head(TOP)
    rows = [snapshot.by_ids(name, top["id"], ["id", "statement"]) for name in ("facts", "facts_archive")]
    named = top.join(pl.concat(rows).unique("id"), on="id", maintain_order="left")
    marks = snapshot.by_ids("fact_scores", top["id"], ["id", "quality_score"])
    scored = named.join(marks, on="id", how="left", maintain_order="left")
    measured = scores["quality_score"].drop_nulls()
    return {
        "learning": is_learning(snapshot.count("retrieval_events"), settings),
        "learning_events": events_to_learn(settings),
        "prune_threshold": settings.prune_threshold,
        "min_quality": min_quality,
        "facts_scored": len(measured),
        "facts_below_min_quality": int((measured < min_quality).sum()),
        "top_facts": scored.select(
            "id", "statement", "hit_count", "avg_retrieval_score", "last_retrieved_at", "quality_score"
        ).to_dicts(),
    }


# Runs in words: the parameters, effects and cost of each, and its commits.


_COLUMNS = (
    "id", "flow", "state", "parent_id", "parameters", "summary", "started_at", "ended_at", "calls", "tokens_in",
    "tokens_out", "usd", "owner",
)  # fmt: skip


UNDID = "undid"
"""In the summary of an undo: the ids of the runs that it took back."""


def list_runs(snapshot: Snapshot, limit: int | None = None) -> list[dict[str, Any]]:
    """Runs, the newest first, parts right after the whole in the order in which they ran; `limit` counts wholes.

    `depth`: of how many runs it is a part; `commits`: how many it made; `effects` in words; `took_s` seconds; `window`
    of what it read; `is_imported`: it ran elsewhere and came with an export.
    """
    listed = snapshot.frame("runs", columns=["id", "parent_id", "started_at"])
    newest = _in_order(listed, limit)
    rows = snapshot.by_ids("runs", newest["id"], _COLUMNS)
    both = newest.select("id", "depth").join(rows, on="id", maintain_order="left")
    counted = snapshot.frame("commits", columns=["run_id"]).group_by("run_id").agg(commits=pl.len())
    return [_shown(row) for row in both.join(counted, left_on="id", right_on="run_id", how="left").to_dicts()]


def run_record(snapshot: Snapshot, text: str) -> dict[str, Any]:
    """One run as in `list_runs`, with its commits (`waited_s`: seconds until the lease), and its parts as `phases`."""
    row = run_named(snapshot, text)
    where = f"run_id = {quoted(row['id'])}"
    made = snapshot.frame("commits", where, ["sequence", "kind", "at", "waited_s"]).sort("sequence")
    phases = snapshot.by_ids("runs", [row["id"]], ["id", "started_at"], key="parent_id").sort("started_at", "id")
    shown = _shown({name: row[name] for name in _COLUMNS})
    return {**shown, "commits": made.to_dicts(), "phases": phases["id"].to_list()}


def _in_order(listed: pl.DataFrame, limit: int | None) -> pl.DataFrame:
    """Runs that are a part of no other, the newest first, each with its parts and theirs, and how deep they lie."""
    oldest = listed.sort("started_at", "id")["id"].to_list()
    parents = dict(listed.select("id", "parent_id").iter_rows())
    parts = defaultdict[str, list[str]](list)
    heads = []
    for each in oldest:
        parent = parents[each]
        if parent in parents:
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


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    summary = json.loads(row["summary"] or "{}")
    began, ended = row["started_at"], row["ended_at"]
    took = round((ended - began).total_seconds(), 2) if began and ended else None
    parameters = json.loads(row["parameters"] or "{}")
    changed = effects(summary.get("counts", {}))
    if undid := summary.get(UNDID):
        changed = [f"took back {', '.join(undid)}"]
    values = {name: value for name, value in row.items() if name != "owner"}
    more = {"window": _window(parameters), "is_imported": row["owner"] == IMPORTED}
    return {**values, "summary": summary, "parameters": parameters, "took_s": took, "effects": changed, **more}


def _window(parameters: Mapping[str, Any]) -> dict[str, str] | None:
    """The period whose messages a run of `ingest` reads: its beginning, and its end, which is not part of it."""
    extract = (parameters.get("settings") or {}).get("extract") or {}
    since, until = extract.get("since"), extract.get("until")
    return {"since": since, "until": until} if since and until and extract.get("enabled", True) else None


def costs_by_day(store: Store) -> list[dict[str, Any]]:
    """What models were paid for, the newest day first: `day`, `model`, `calls`, `tokens_in`, `tokens_out`, `usd`."""
    calls = store.log("llm_calls", columns=["id", "created_at", "provider", "model", "tokens_in", "tokens_out", "usd"])
    last = calls.sort("created_at").unique("id", keep="last")  # an entry carries the cost of those before it
    named = last.with_columns(
        day=pl.col("created_at").dt.date(),
        model=pl.concat_str("provider", "model", separator="/", ignore_nulls=True),
    )
    sums = [pl.col(name).sum() for name in ("tokens_in", "tokens_out", "usd")]
    by_day = named.group_by("day", "model").agg(pl.len().alias("calls"), *sums)
    return by_day.sort("day", "model", descending=[True, False]).to_dicts()

"""What the ledger tells of a consolidation: what was seen, what was done, who decided, why."""

from __future__ import annotations

from datetime import datetime

import polars as pl

from slowwave import frames
from slowwave.merging.absorption import CONSOLIDATED, DEDUP, Absorption
from slowwave.merging.merge_rules import BY_USE, BY_WORDS
from slowwave.merging.merges import Merges
from slowwave.merging.verdicts import Judged, survivor_of
from slowwave.settings import MergeSettings
from slowwave.text import as_json, timed_id

MAX_REASON = 500
_Row = dict[str, object]


def decisions_of(
    done: Absorption, merges: Merges, settings: MergeSettings, prompt_version: str, model: str, now: datetime
) -> pl.DataFrame:
    """DECISIONS: one per survivor and who decided, one per question that was kept or failed, one per new wording."""
    new = dict(done.reworded().select("root_id", "target_id").iter_rows())
    by_model = {"decided_by": "model", "model": model}
    rows = [
        *_merged(done, merges, settings, new),
        *(_absorbed(each, done, new, prompt_version) | by_model for each in done.taken),
        *(_kept(each, prompt_version) | by_model for each in done.kept),
        *(_failed(each, done, settings, prompt_version) | by_model for each in done.failed),
        *(_created(done, root, target, model) for root, target in new.items()),
    ]
    for row in rows:
        row["id"] = timed_id("d", now, row["action"], row["subject_id"], row["ids_in"])
        row["measures"] = as_json(row["measures"])
        row["at"] = now
    return pl.DataFrame(rows, schema=dict(frames.DECISIONS)).unique("id", keep="last", maintain_order=True)


def _merged(done: Absorption, merges: Merges, settings: MergeSettings, new: dict[str, str]) -> list[_Row]:
    taken = [id_ for id_, how in done.how.items() if how == DEDUP]
    groups = merges.losers.filter(pl.col("loser_id").is_in(taken)).sort("winner_id", "loser_id")
    return [
        {
            "action": "absorb",
            "subject_id": new.get(winner, winner),
            "ids_in": [winner, *losers],
            "ids_out": [new.get(winner, winner), *losers],
            "measures": {
                "cosine": cosines,
                "jaccard": jaccards,
                **_seen(set(stages), [winner, *losers], done, settings),
                "stage": sorted(set(stages)),
            },
            "decided_by": "rule",
            "model": None,
            "reason": _reason(set(stages)),
        }
        for winner, losers, cosines, jaccards, stages in groups.group_by("winner_id", maintain_order=True)
        .agg("loser_id", "cosine", "jaccard", "stage")
        .iter_rows()
    ]


def _seen(stages: set[str], ids: list[str], done: Absorption, settings: MergeSettings) -> dict[str, object]:
    """The thresholds of the rule, and what it ordered the facts by where that is not in the rows themselves."""
    if stages != {BY_USE}:
        return {"merge_cosine": settings.merge_cosine, "text_dedup": settings.text_dedup}
    hits = dict(done.facts.filter(pl.col("id").is_in(ids)).select("id", pl.col("hit_count").fill_null(0)).iter_rows())
    return {"merge_threshold": settings.merge_cosine, "hit_count": [hits[id_] for id_ in ids]}


def _reason(stages: set[str]) -> str:
    if stages == {BY_USE}:
        return "The same meaning, and every guard agrees; what was recalled more stays, then what is older."
    if stages == {BY_WORDS}:
        return "The same in nearly the same words, and every guard agrees."
    return "The same meaning, and every guard agrees."


def _absorbed(each: Judged, done: Absorption, new: dict[str, str], prompt_version: str) -> _Row:
    assert each.verdict is not None
    survivor = survivor_of(each.cluster, each.verdict).id
    ids = each.cluster.ids()
    losers = [ids[index] for index in each.verdict.absorbed if done.steps.get(ids[index]) == survivor]
    return {
        "action": "absorb",
        "subject_id": new.get(survivor, survivor),
        "ids_in": list(ids),
        "ids_out": [new.get(survivor, survivor), *losers],
        "measures": {"prompt_version": prompt_version, "cluster_size": len(ids)},
        "reason": each.verdict.reason or "A model says that they say the same.",
    }


def _kept(each: Judged, prompt_version: str) -> _Row:
    assert each.verdict is not None
    ids = list(each.cluster.ids())
    return {
        "action": "keep",
        "subject_id": ids[0],
        "ids_in": ids,
        "ids_out": [],
        "measures": {"prompt_version": prompt_version, "cluster_size": len(ids)},
        "reason": each.verdict.reason or "A model says that they say different things.",
    }


def _failed(each: Judged, done: Absorption, settings: MergeSettings, prompt_version: str) -> _Row:
    ids = list(each.cluster.ids())
    tried = done.facts.filter(pl.col("id").is_in(ids))["consolidation_attempts"].fill_null(0).max()
    return {
        "action": "fail",
        "subject_id": ids[0],
        "ids_in": ids,
        "ids_out": [],
        "measures": {
            "attempts": 1 + int(str(tried or 0)),
            "max_attempts": settings.max_attempts,
            "prompt_version": prompt_version,
        },
        "reason": f"No usable answer: {each.error}"[:MAX_REASON],
    }


def _created(done: Absorption, root: str, target: str, model: str) -> _Row:
    is_joined = done.how.get(root) == DEDUP
    return {
        "action": "create",
        "subject_id": target,
        "ids_in": [root],
        "ids_out": [target],
        "measures": {"reason": DEDUP if is_joined else CONSOLIDATED},
        "decided_by": "rule" if is_joined else "model",
        "model": None if is_joined else model,
        "reason": "One note says what it and those it absorbed say."
        if is_joined
        else "A model put what it and those it absorbed say into one sentence.",
    }

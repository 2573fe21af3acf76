"""What the ledger tells of a reconciliation: what was seen, what was done, who decided, why."""

from __future__ import annotations

from datetime import datetime

import polars as pl

from slowwave import frames
from slowwave.application.application_story import told_rows
from slowwave.merging.absorption import CONSOLIDATED, DEDUP, Absorption
from slowwave.merging.endings import Settled
from slowwave.merging.merge_rules import BY_USE, BY_WORDS
from slowwave.merging.merges import Merges
from slowwave.merging.verdicts import Judged, Merge
from slowwave.settings import MergeSettings
from slowwave.text import as_json, timed_id

MAX_REASON = 500
_Row = dict[str, object]


def decisions_of(
    done: Absorption,
    merges: Merges,
    asked: Settled,
    settings: MergeSettings,
    prompt_version: str,
    model: str,
    now: datetime,
) -> pl.DataFrame:
    """DECISIONS: one per survivor of a rule, one per pair that a model merged, ended or could not judge, or whose merge
    a guard refused, one per new wording. Pairs that are kept apart are told by PAIR_DECISIONS alone."""
    new = dict(done.reworded().select("root_id", "target_id").iter_rows())
    by_model = {"decided_by": "model", "model": model, "measures": {"prompt_version": prompt_version}}
    taken = {(loser, winner) for loser, winner in done.steps.items() if done.how[loser] == CONSOLIDATED}
    rows = [
        *_merged(done, merges, settings, new),
        *(_absorbed(each, new) | by_model for each in asked.same if (each.loser, each.winner) in taken),
        *(_kept(each) | by_model for each in asked.same if each.guard),
        *(_failed(each, done, settings, prompt_version) | {"model": model} for each in asked.judged if each.error),
        *(_created(root, target) for root, target in new.items()),
    ]
    for row in rows:
        row["id"] = timed_id("d", now, row["action"], row["subject_id"], row["ids_in"])
        row["measures"] = as_json(row["measures"])
        row["at"] = now
    told = told_rows(list(asked.ended.decisions), now)
    made = pl.DataFrame(rows, schema=dict(frames.DECISIONS)).unique("id", keep="last", maintain_order=True)
    return pl.concat([made, told.select(*frames.DECISIONS)])


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


def _absorbed(each: Merge, new: dict[str, str]) -> _Row:
    winner = new.get(each.winner, each.winner)
    same = "A model says that they say the same."
    return _row("absorb", winner, [each.winner, each.loser], [winner, each.loser], same)


def _kept(each: Merge) -> _Row:
    reason = f"A model says that they say the same, but a guard keeps them apart ({each.guard})."
    return _row("keep", each.judged.first, [each.judged.first, each.judged.second], [], reason)


def _failed(each: Judged, done: Absorption, settings: MergeSettings, prompt_version: str) -> _Row:
    tried = done.facts.filter(pl.col("id").is_in(list(each.ids)))["consolidation_attempts"].fill_null(0).max()
    measures = {
        "attempts": 1 + int(str(tried or 0)),
        "max_attempts": settings.max_attempts,
        "prompt_version": prompt_version,
    }
    row = _row("fail", each.first, [each.first, each.second], [], f"No usable answer: {each.error}"[:MAX_REASON])
    return row | {"decided_by": "model", "measures": measures}


def _created(root: str, target: str) -> _Row:
    row = _row("create", target, [root], [target], "One note says what it and those it absorbed say.")
    return row | {"measures": {"reason": DEDUP}, "decided_by": "rule", "model": None}


def _row(action: str, subject: str, ids: list[str], out: list[str], reason: str) -> _Row:
    return {"action": action, "subject_id": subject, "ids_in": ids, "ids_out": out, "reason": reason}

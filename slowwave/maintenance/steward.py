"""The steward's rules: what a fact is worth by how it was used and how long it lies unused, and what fades (S4-06).

One recall saves a fact for ever from being pruned, whatever its age and score: a score only says how much it is worth.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

import polars as pl

from slowwave import frames
from slowwave.maintenance.kept import KEPT_KINDS, KEPT_RANK, is_kept
from slowwave.maintenance.retirement import Cause
from slowwave.settings import StewardSettings
from slowwave.validity import time_sql

UNUSED = 0.5  # what a fact is worth that is new, or that was recalled less than others (S4-06)
PRUNED = Cause(
    "prune", "pruned", "rule", "Nobody ever recalled it, and it has faded; `slowwave restore` brings it back."
)
USE: frames.Schema = {**frames.FACT_USAGE, "avg_retrieval_score": frames.NUMBER}
LEARNING_EVENTS = 50
_FADED = ("id", "score", "age_hours", "hits", "half_life_days")
_DAY_US = 86_400_000_000.0


def events_to_learn(settings: StewardSettings) -> int:
    """Recalls that must have been logged before anything is pruned, merged or hidden (S4-02)."""
    return settings.learning_events if settings.learning_events > 0 else LEARNING_EVENTS


def is_learning(events: int, settings: StewardSettings) -> bool:
    """Whether so many recalls are too few."""
    return events < events_to_learn(settings)


def half_life_days(content_score: pl.Expr, settings: StewardSettings) -> pl.Expr:
    """Days in which the score of a fact halves, by the worth of its message in [0, 1] (S4-06).

    Worth that was never measured (empty, or 0) is not held against a fact: it has the full half-life.
    """
    measured = pl.when(content_score > 0.0).then(content_score.clip(0.0, 1.0))
    base = pl.lit(settings.decay_half_days)
    return pl.when(measured.is_null()).then(base).otherwise(worth_days(measured, settings))


def worth_days(worth: pl.Expr, settings: StewardSettings) -> pl.Expr:
    """Half-life in days of a measured worth in [0, 1]: from the shortest to the full one (S4-06)."""
    base, least = settings.decay_half_days, settings.min_half_life_days
    return worth * 0.0 + base if base <= least else least + worth * (base - least)


def prune_age_days(half_life: float, threshold: float) -> float:
    """Age in days at which a fact that nobody recalled falls below a threshold in (0, 1]; 0 where it starts below."""
    return max(0.0, half_life * math.log2(UNUSED / threshold))


def score_facts(facts: pl.DataFrame, usage: pl.DataFrame, settings: StewardSettings, now: datetime) -> pl.Series:
    """Worth of each fact in [0, 1], in their order: its use, halved once per half-life since the last (S4-06).

    `facts` have id, created_at and content_score, and may have put_back_at, from which on a fact that was pruned before
    counts as new; `usage` is of the whole namespace (USE), so that any part of the facts is scored alike (T7). Use is
    the mean cosine of its recalls, where there is one, else its hits beside those of the fact that has most, both
    logarithmic; never less than what an unused fact has. An age below zero is none (T48).
    """
    held = _with_use(facts, usage)
    most = math.log2(max(1, usage["hit_count"].max() or 0) + 1)  # type: ignore[operator]
    told = pl.coalesce(pl.col("avg_retrieval_score").fill_nan(None), (pl.col("hits") + 1).log(2) / most)
    base = pl.when(pl.col("hits") > 0).then(pl.max_horizontal(pl.lit(UNUSED), told)).otherwise(UNUSED)
    age = _age(pl.coalesce("last_retrieved_at", "created_at"), now)
    score = base * pl.lit(0.5).pow(age / half_life_days(pl.col("content_score"), settings))
    return held.select(score=score.clip(0.0, 1.0))["score"]


def _with_use(facts: pl.DataFrame, usage: pl.DataFrame) -> pl.DataFrame:
    """What a score depends on: created_at, content_score, put_back_at, hits, last_retrieved_at, avg_retrieval_score."""
    known = usage.select("id", "last_retrieved_at", "avg_retrieval_score", hits="hit_count")
    own = ["id", "created_at", "content_score"]
    told = facts.select(*own, *(["put_back_at"] if "put_back_at" in facts.columns else []))
    held = told.join(known, on="id", how="left", maintain_order="left").with_columns(pl.col("hits").fill_null(0))
    return held if "put_back_at" in held.columns else held.with_columns(put_back_at=pl.lit(None, dtype=frames.TIME))


def _age(since: pl.Expr, now: datetime) -> pl.Expr:
    """Days since then, or since the fact was put back."""
    start = pl.max_horizontal(since, "put_back_at")
    return ((pl.lit(now, dtype=frames.TIME) - start).dt.total_microseconds() / _DAY_US).clip(0.0).fill_null(0.0)


def may_fade_sql(settings: StewardSettings, now: datetime) -> str:
    """A filter of a store that lets pass every fact old enough to fade, and of what is kept only for its entity."""
    kinds = ", ".join(f"'{kind}'" for kind in KEPT_KINDS)
    free = f"(pinned IS NULL OR NOT pinned) AND (kind IS NULL OR kind NOT IN ({kinds}))"
    free += f" AND (entrenchment IS NULL OR entrenchment <> '{KEPT_RANK}')"
    if not settings.prune_threshold:
        return "false"
    base, grace = settings.decay_half_days, settings.grace_period_hours / 24.0
    soonest, latest = (
        now - timedelta(days=max(grace, prune_age_days(days, settings.prune_threshold))) + timedelta(seconds=1)
        for days in (min(base, settings.min_half_life_days), base)
    )
    worthless = f"content_score > 0 AND created_at < {time_sql(soonest)}"
    return f"{free} AND (created_at < {time_sql(latest)} OR {worthless})"


@dataclass(frozen=True, slots=True, eq=False)
class PrunePlan:
    """Facts that fade, oldest first, with what was measured of each, and the thresholds it was held against."""

    faded: pl.DataFrame
    settings: StewardSettings

    @property
    def ids(self) -> pl.Series:
        """The facts."""
        return self.faded["id"]

    @property
    def measures(self) -> dict[str, dict[str, float]]:
        """By fact, for the ledger."""
        limits = {"threshold": self.settings.prune_threshold, "grace_hours": self.settings.grace_period_hours}
        rows = self.faded.select(_FADED).iter_rows(named=True)
        return {row.pop("id"): {**{k: round(v, 6) for k, v in row.items()}, **limits} for row in rows}

    def summary(self) -> dict[str, int]:
        """How many."""
        return {"pruned": len(self.faded)}


def plan_prune(
    facts: pl.DataFrame,
    usage: pl.DataFrame,
    settings: StewardSettings,
    now: datetime,
    *,
    pinned: Collection[str] = (),
    scores: pl.Series | None = None,
) -> PrunePlan:
    """Live facts past their grace, below the threshold, and never recalled: all three, or a fact stays (S4-07).

    Needs id, created_at, content_score, kind, entrenchment and pinned, and what `score_facts` and `is_kept` need;
    exactly at a limit a fact stays. `pinned` are entities; `scores` those of `score_facts`, if they are there already.
    """
    held = _with_use(facts, usage).select("hits", age_hours=_age(pl.col("created_at"), now) * 24.0)
    told = facts.hstack(held).with_columns(
        score=score_facts(facts, usage, settings, now) if scores is None else scores,
        half_life_days=half_life_days(pl.col("content_score"), settings),
    )
    is_old = pl.col("age_hours") > settings.grace_period_hours
    is_low = pl.col("score") < settings.prune_threshold
    faded = told.filter(is_old & is_low & (pl.col("hits") == 0) & ~is_kept(pinned))
    return PrunePlan(faded.sort("created_at", "id").select(_FADED), settings)


def is_due(marks: Collection[float], step: float) -> pl.Expr:
    """Whether `score` is to be written over `quality_score`: never written, a step away, or beyond one of the marks."""
    old, new = pl.col("quality_score"), pl.col("score")
    crossed = [(old < mark) != (new < mark) for mark in marks]
    return pl.any_horizontal(old.is_null(), (old - new).abs() >= step, *crossed)

"""Pruning: which facts fade because nobody recalled them, by the scores of the steward (S4-01 … S4-08)."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

import polars as pl

from slowwave.settings import StewardSettings
from slowwave.validity import time_sql

from .eviction import Cause
from .retention import is_kept, not_kept_sql
from .scoring import UNUSED, age_days, half_life_days, score_facts, with_use

PRUNED = Cause(
    "prune", "pruned", "rule", "Nobody ever recalled it, and it has faded; `slowwave restore` brings it back."
)
LEARNING_EVENTS = 50
_FADED = ("id", "score", "age_hours", "hits", "half_life_days")


def events_to_learn(settings: StewardSettings) -> int:
    """Recalls that must have been logged before anything is pruned, merged or hidden (S4-02)."""
    return settings.learning_events if settings.learning_events > 0 else LEARNING_EVENTS


def is_learning(events: int, settings: StewardSettings) -> bool:
    """Whether so many recalls are too few."""
    return events < events_to_learn(settings)


def prune_age_days(half_life: float, threshold: float) -> float:
    """Age in days at which a fact that nobody recalled falls below a threshold in (0, 1]; 0 where it starts below."""
    return max(0.0, half_life * math.log2(UNUSED / threshold))


def may_fade_sql(settings: StewardSettings, now: datetime) -> str:
    """A filter of a store that lets pass every fact old enough to fade, and of what is kept only for its entity."""
    if not settings.prune_threshold:
        return "false"
    base, grace = settings.decay_half_days, settings.grace_period_hours / 24.0
    soonest, latest = (
        now - timedelta(days=max(grace, prune_age_days(days, settings.prune_threshold))) + timedelta(seconds=1)
        for days in (min(base, settings.min_half_life_days), base)
    )
    worthless = f"content_score > 0 AND created_at < {time_sql(soonest)}"
    return f"{not_kept_sql()} AND (created_at < {time_sql(latest)} OR {worthless})"


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
    use = with_use(facts, usage).select("hits", age_hours=age_days(pl.col("created_at"), now) * 24.0)
    scored = facts.hstack(use).with_columns(
        score=score_facts(facts, usage, settings, now) if scores is None else scores,
        half_life_days=half_life_days(pl.col("content_score"), settings),
    )
    is_old = pl.col("age_hours") > settings.grace_period_hours
    is_low = pl.col("score") < settings.prune_threshold
    faded = scored.filter(is_old & is_low & (pl.col("hits") == 0) & ~is_kept(pinned))
    return PrunePlan(faded.sort("created_at", "id").select(_FADED), settings)


def is_due(marks: Collection[float], step: float) -> pl.Expr:
    """Whether `score` is to be written over `quality_score`: never written, a step away, or beyond one of the marks."""
    old, new = pl.col("quality_score"), pl.col("score")
    crossed = [(old < mark) != (new < mark) for mark in marks]
    return pl.any_horizontal(old.is_null(), (old - new).abs() >= step, *crossed)

"""The steward's rules: what a fact is worth by how it was used and how long it lies unused (S4-06).

One recall saves a fact for ever from being pruned, whatever its age and score: a score only says how much it is worth.
"""

from __future__ import annotations

import math
from datetime import datetime

import polars as pl

from slowwave import frames
from slowwave.settings import StewardSettings, UseSettings

UNUSED = 0.5  # what a fact is worth that is new, or that was recalled less than others (S4-06)
USE: frames.Schema = {**frames.FACT_USAGE, "avg_retrieval_score": frames.NUMBER}
_DAY_US = 86_400_000_000.0


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


def score_facts(facts: pl.DataFrame, usage: pl.DataFrame, settings: StewardSettings, now: datetime) -> pl.Series:
    """Worth of each fact in [0, 1], in their order: its use, halved once per half-life since the last (S4-06).

    `facts` have id, created_at and content_score, and may have put_back_at, from which on a fact that was pruned before
    counts as new; `usage` is of the whole namespace (USE), so that any part of the facts is scored alike (T7). Use is
    the mean cosine of its recalls, where there is one, else its hits beside those of the fact that has most, both
    logarithmic; never less than what an unused fact has. An age below zero is none (T48).
    """
    used = with_use(facts, usage)
    most = math.log2(max(1, usage["hit_count"].max() or 0) + 1)  # type: ignore[operator]
    by_use = pl.coalesce(pl.col("avg_retrieval_score").fill_nan(None), (pl.col("hits") + 1).log(2) / most)
    base = pl.when(pl.col("hits") > 0).then(pl.max_horizontal(pl.lit(UNUSED), by_use)).otherwise(UNUSED)
    age = age_days(pl.coalesce("last_retrieved_at", "created_at"), now)
    score = base * pl.lit(0.5).pow(age / half_life_days(pl.col("content_score"), settings))
    return used.select(score=score.clip(0.0, 1.0))["score"]


def with_use(facts: pl.DataFrame, usage: pl.DataFrame) -> pl.DataFrame:
    """The inputs of a score: created_at, content_score, put_back_at, hits, last_retrieved_at, avg_retrieval_score."""
    known = usage.select("id", "last_retrieved_at", "avg_retrieval_score", hits="hit_count")
    own = ["id", "created_at", "content_score"]
    own_rows = facts.select(*own, *(["put_back_at"] if "put_back_at" in facts.columns else []))
    joined = own_rows.join(known, on="id", how="left", maintain_order="left").with_columns(pl.col("hits").fill_null(0))
    return (
        joined if "put_back_at" in joined.columns else joined.with_columns(put_back_at=pl.lit(None, dtype=frames.TIME))
    )


def age_days(since: pl.Expr, now: datetime) -> pl.Expr:
    """Days since then, or since the fact was put back."""
    start = pl.max_horizontal(since, "put_back_at")
    return ((pl.lit(now, dtype=frames.TIME) - start).dt.total_microseconds() / _DAY_US).clip(0.0).fill_null(0.0)


# Weights of entities: importance by use and connections, and staleness (S0-22, S0-24, S0-25).


STALE_IMPORTANCE = 0.05
STALE_RECENCY = 0.1  # after 959 days
WRITTEN_STEP = 0.001  # smaller changes are not worth a write
USUAL = UseSettings()


def importance(
    access: pl.Expr,
    max_access: pl.Expr,
    degree: pl.Expr,
    days: pl.Expr,
    max_days: pl.Expr,
    settings: UseSettings = USUAL,
) -> pl.Expr:
    """access × (1 + 0.15 degree) × (1 + 0.2 days), each on a scale to 1; in [0, 1.38] unless set otherwise (S0-24).

    Reads and days on which there were any count by the logarithm, as a share of the largest; relations up to 15.
    Where nothing was ever read all is 0, where nothing on more than one day the days make no difference; missing days
    are one.
    """
    degrees = degree.fill_null(0).clip(0, settings.max_degree) / settings.max_degree
    has_days = pl.when(max_days > 1)
    by_days = has_days.then(settings.days_weight * _share(days.fill_null(1), max_days)).otherwise(0.0)
    whole = _share(access.fill_null(0), max_access) * (1.0 + settings.degree_weight * degrees) * (1.0 + by_days)
    return pl.when(max_access > 0).then(whole).otherwise(0.0)


def temporal(since: pl.Expr, now: datetime, settings: UseSettings = USUAL) -> pl.Expr:
    """How recent a time is: 1 at `now` and after it (T48), less by the hour to a floor; 1 if unknown (S0-25)."""
    hours = (pl.lit(now) - since).dt.total_microseconds().clip(lower_bound=0) / 3_600_000_000
    return (-settings.decay_per_hour * hours).exp().clip(lower_bound=settings.temporal_floor).fill_null(1.0)


def is_stale(pinned: pl.Expr | None = None, settings: UseSettings = USUAL) -> pl.Expr:
    """Whether `importance` and `temporal` make an entity a candidate for the archive; no pinned one is (S0-22).

    Recency must be 0.1 or less, or at its floor where that lies higher.
    """
    oldest = max(STALE_RECENCY, settings.temporal_floor)
    is_old = (pl.col("importance") < STALE_IMPORTANCE) & (pl.col("temporal") <= oldest)
    return is_old if pinned is None else is_old & ~pinned.fill_null(False)


def weigh(
    entities: pl.DataFrame,
    usage: pl.DataFrame,
    relations: pl.DataFrame,
    now: datetime,
    settings: UseSettings = USUAL,
) -> pl.DataFrame:
    """ENTITY_SCORES of all entities (id, created_at, pinned), with maxima over all of them, in order of ids.

    `usage` is ENTITY_USAGE with what each entity took over; `relations` are subject_id and object_id of live relation
    facts: other kinds are no knowledge (T33). Both directions count, a relation to itself once.
    """
    known = entities.select("id", "created_at", "pinned").join(usage.select(*frames.ENTITY_USAGE), on="id", how="left")
    counted = known.join(degrees(relations), on="id", how="left").with_columns(pl.col("degree").fill_null(0))
    access, days = pl.col("access_count"), pl.col("access_days")
    scored = counted.with_columns(
        importance=importance(
            access, access.max().fill_null(0), pl.col("degree"), days, days.max().fill_null(0), settings
        ),
        temporal=temporal(pl.coalesce("last_access_at", "created_at"), now, settings),
        scored_at=pl.lit(now),
    )
    scored = scored.with_columns(is_stale=is_stale(pl.col("pinned"), settings))
    return frames.conform(scored, frames.ENTITY_SCORES).select(*frames.ENTITY_SCORES).sort("id")


def degrees(relations: pl.DataFrame) -> pl.DataFrame:
    """(id, degree) of the entities at either end of relations (subject_id, object_id)."""
    is_other = pl.col("object_id").ne_missing(pl.col("subject_id"))
    ends = [relations["subject_id"].rename("id"), relations.filter(is_other)["object_id"].rename("id")]
    return pl.concat(ends).drop_nulls().value_counts(name="degree")


def noticeable(scores: pl.DataFrame, stored: pl.DataFrame) -> pl.DataFrame:
    """Those ENTITY_SCORES that are new, or differ from the stored ones by 0.001, a relation, or in being stale."""
    names = ("degree", "importance", "temporal", "is_stale")
    before = stored.select("id", *(pl.col(name).alias(f"{name}_before") for name in names))
    both = scores.join(before, on="id", how="left")
    moved = [(pl.col(name) - pl.col(f"{name}_before")).abs() >= WRITTEN_STEP for name in ("importance", "temporal")]
    turned = [pl.col(name).ne_missing(pl.col(f"{name}_before")) for name in ("degree", "is_stale")]
    differs = pl.any_horizontal(*moved, *turned)
    return both.filter(differs.fill_null(True)).select(scores.columns)


def _share(count: pl.Expr, largest: pl.Expr) -> pl.Expr:
    """The logarithm of a count as a share of that of the largest, in [0, 1]."""
    return (count.clip(lower_bound=0).log1p() / largest.log1p()).clip(upper_bound=1.0)

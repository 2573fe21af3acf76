"""Use and scores: how often each fact was recalled, and what it is worth by that (S4-01, S4-06).

Hits count for ever; links weaken in each run of `decay`, for all the time since the last recall (S2-73). How far a link
has weakened is kept with it, so it does not matter how often that runs: a missed fortnight catches up at once. Only
hits tell whether a fact was ever of use (T26).

One recall saves a fact for ever from being pruned, whatever its age and score: a score only says how much it is worth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.common import frames
from slowwave.common.records import REDUNDANT
from slowwave.common.settings import DecaySettings, StewardSettings, UseSettings
from slowwave.common.validity import successors

RECALL_BOOST = 0.2
LINK_FLOOR = 0.01  # a link weaker than this is gone

Numbers = npt.NDArray[np.float64]


def evolved_weight(count: pl.Expr, confidence: pl.Expr) -> pl.Expr:
    """Confidence in [0, 1] raised by recalls: min(1, confidence × (1 + 0.2 ln(1 + count))) (S2-33).

    No count, or one below 0, counts as 0.
    """
    recalls = count.fill_null(0).clip(lower_bound=0)
    return (confidence * (1.0 + RECALL_BOOST * recalls.log1p())).clip(upper_bound=1.0)


def added_up(stored: pl.DataFrame, fresh: pl.DataFrame, schema: frames.Schema) -> pl.DataFrame:
    """The rows of `fresh`, added to the stored ones of the same ids: numbers are summed, of times the latest counts.

    Both have the columns of the schema; where the stored ones have `created_at`, this stays as it is.
    """
    known = stored.join(fresh, on="id", how="semi")
    both = pl.concat([known, frames.conform(fresh, schema)], how="diagonal_relaxed")
    parts = [
        pl.col(name).sum() if kind.is_numeric() else pl.col(name).max() for name, kind in schema.items() if name != "id"
    ]
    birth = [pl.col("created_at").min()] if "created_at" in stored.columns else []
    return both.group_by("id").agg(*parts, *birth).sort("id")


def fold_recalls(usage: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """FACT_USAGE after these events, of the facts that they name.

    `usage` holds the rows that there are of these facts, perhaps others too; `events` has fact_id, cosine (empty where
    a read has none, T6) and at. A log that is cut into batches in order gives the same counters as the whole. An event
    older than the latest one counts as if it came with it, so a clock that runs backwards weakens nothing twice (T48).
    """
    cosine, latest = pl.col("cosine").fill_nan(None), pl.col("at").max()
    fresh = events.group_by(id="fact_id").agg(
        hit_count=pl.len(), link_count=pl.len(), cosine_sum=cosine.sum(), cosine_count=cosine.count(),
        last_retrieved_at=latest, link_decayed_at=latest,
    )  # fmt: skip
    return added_up(usage, fresh, frames.FACT_USAGE)


def weaken_links(usage: pl.DataFrame, now: datetime, settings: DecaySettings) -> pl.DataFrame:
    """The rows whose link is weaker at `now` than it was left, brought up to date; all columns of `usage` stay (S2-73).

    One pass, × lambda, for each whole interval since the last recall; below 0.01 the link is gone, 0. Doing it again at
    the same `now` or an earlier one changes nothing; lambda 1 never does.
    """
    factor = settings.link_weight_decay_lambda
    interval = max(round(settings.link_weight_decay_interval_secs * 1_000_000), 1)
    timed = usage.with_columns(
        _done=_passes("last_retrieved_at", pl.col("link_decayed_at"), interval),
        _due=_passes("last_retrieved_at", pl.lit(now), interval),
    )
    due = timed.filter(pl.col("link_count") > 0.0, pl.col("_due") > pl.col("_done"), pl.lit(factor < 1.0))
    left = pl.col("link_count") * pl.lit(factor).pow(pl.col("_due") - pl.col("_done"))
    until = pl.col("last_retrieved_at") + pl.duration(microseconds=pl.col("_due") * interval)
    gone = pl.when(left >= LINK_FLOOR).then(left).otherwise(0.0)
    return due.with_columns(link_count=gone, link_decayed_at=until).select(usage.columns)


def _passes(since: str, until: pl.Expr, interval: int) -> pl.Expr:
    """Whole intervals, of microseconds, from the time in a column to another; none if it is earlier, or unknown."""
    age = (until - pl.col(since)).dt.total_microseconds().clip(lower_bound=0)
    return (age // interval).fill_null(0)


def usage_of(usage: pl.DataFrame, replaced: pl.DataFrame) -> pl.DataFrame:
    """FACT_USAGE and avg_retrieval_score (mean cosine, empty without one) of facts, with what they absorbed.

    `replaced` are LINEAGE rows; those that say dedup or consolidated are followed, over at most 64 steps. What a fact
    was used before another took its place counts for the last of them, and it has no row itself: sums stay. Of facts
    that replace each other in a circle the one with the largest id stands for all.
    """
    redundant = replaced.filter(pl.col("reason").is_in(REDUNDANT)).sort("old_id", "new_id")
    heirs = survivors(dict(redundant.select("old_id", "new_id").iter_rows()))
    whole = inherited(usage, heirs, frames.FACT_USAGE)
    mean = pl.when(pl.col("cosine_count") > 0).then(pl.col("cosine_sum") / pl.col("cosine_count"))
    return whole.with_columns(avg_retrieval_score=mean)


def survivors(steps: Mapping[str, str]) -> dict[str, str]:
    """For each id that another replaced the last of its successors; in a circle, which has none, the largest id."""
    found: dict[str, str] = {}
    for start in steps:
        chain = [start, *successors(start, steps)]
        back = steps.get(chain[-1], "")
        found[start] = max(chain[chain.index(back) :]) if back in chain else chain[-1]
    return {old: new for old, new in found.items() if old != new}


def inherited(usage: pl.DataFrame, heirs: Mapping[str, str], schema: frames.Schema) -> pl.DataFrame:
    """The counters with those of replaced ids added to their heirs', in order of ids."""
    moved = usage.select(*schema).with_columns(pl.col("id").replace(heirs))
    return added_up(moved.clear(), moved, schema).select(*schema)


# Use of entities: how often, on how many days and in which company each was read (S0-23, S0-26).


LARGEST_SET = 50  # entities of one read that are counted in pairs: a read of everything says nothing about two of them
_EVENTS_AT_ONCE = 100_000  # for pairs: at most 2.5 million before they are counted


def fold_reads(usage: pl.DataFrame, days: pl.DataFrame, events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """ENTITY_USAGE and ENTITY_DAYS after these events (entity_id, at), of the entities and days that they name.

    `usage` and `days` hold the rows that there are of these, perhaps others too. Days are UTC dates; making an entity
    is no read of it (S0-23).
    """
    dated = events.select("entity_id", "at", day=pl.col("at").dt.strftime("%Y-%m-%d"))
    by_day = dated.group_by("entity_id", "day").agg(reads=pl.len(), latest=pl.col("at").max())
    known = by_day.select(
        "entity_id", "day", "reads", "latest", id=_key("entity_id", "day"), access_count="reads"
    ).with_columns(is_new=~pl.col("id").is_in(days["id"].implode()))
    fresh = known.group_by(id="entity_id").agg(
        access_count=pl.col("reads").sum(), access_days=pl.col("is_new").sum(), last_access_at=pl.col("latest").max()
    )
    return added_up(usage, fresh, frames.ENTITY_USAGE), added_up(
        days, known.select(*frames.ENTITY_DAYS), frames.ENTITY_DAYS
    )


def company(events: pl.DataFrame) -> pl.DataFrame:
    """CO_OCCURRENCES of these events (entity_id, query_hash, at) alone (S0-26).

    What one read returned has query and time in common; every two entities of it are a pair, once, of the 50 entities
    with the smallest ids.
    """
    parts = [_pairs(part) for part in _reads(events).partition_by("part")]
    met = pl.concat([frames.empty(frames.CO_OCCURRENCES), *parts], how="diagonal").with_columns(id=_key("a_id", "b_id"))
    return added_up(met.clear(), met, frames.CO_OCCURRENCES).select(*frames.CO_OCCURRENCES)


def entity_usage_of(usage: pl.DataFrame, days: pl.DataFrame, merged: Mapping[str, str]) -> pl.DataFrame:
    """ENTITY_USAGE of entities with what each took over from those merged into it (`merged`: old id to new).

    A day on which both were read is one day; `days` are ENTITY_DAYS.
    """
    heirs = survivors(merged)
    whole = inherited(usage, heirs, frames.ENTITY_USAGE)
    taken = days.filter(pl.col("entity_id").is_in({*heirs, *heirs.values()}))
    counted = taken.group_by(id=pl.col("entity_id").replace(heirs)).agg(days=pl.col("day").n_unique())
    both = whole.join(counted, on="id", how="left").with_columns(access_days=pl.coalesce("days", "access_days"))
    return both.select(*frames.ENTITY_USAGE).sort("id")


def _reads(events: pl.DataFrame) -> pl.DataFrame:
    """(part, read, entity_id, at): reads that returned several entities, in parts that are worked on one by one."""
    each = events.unique(["at", "query_hash", "entity_id"]).sort("at", "query_hash", "entity_id")
    is_other = [pl.col(name).ne_missing(pl.col(name).shift(1)) for name in ("at", "query_hash")]
    numbered = each.with_columns(read=pl.any_horizontal(is_other).cum_sum())
    several = numbered.filter(pl.len().over("read") > 1, pl.int_range(pl.len()).over("read") < LARGEST_SET)
    placed = several.with_row_index("place")
    return placed.select("read", "entity_id", "at", part=pl.col("place").first().over("read") // _EVENTS_AT_ONCE)


def _pairs(reads: pl.DataFrame) -> pl.DataFrame:
    """(a_id, b_id, count, last_at) of every two entities of each read."""
    ours = reads.select("read", a_id="entity_id", last_at="at")
    pairs = ours.join(reads.select("read", b_id="entity_id"), on="read").filter(pl.col("a_id") < pl.col("b_id"))
    return pairs.group_by("a_id", "b_id").agg(count=pl.len().cast(frames.COUNT), last_at=pl.col("last_at").max())


def _key(*columns: str) -> pl.Expr:
    return pl.concat_str(*columns, separator=" ")


UNUSED = 0.5  # what a fact is worth that is new, or that was recalled less than others (S4-06)
USE: frames.Schema = {**frames.FACT_USAGE, "avg_retrieval_score": frames.NUMBER}
_DAY_US = 86_400_000_000.0


def half_life_days(content_score: pl.Expr, settings: StewardSettings) -> pl.Expr:
    """Days in which the score of a fact halves, by the worth of its message in [0, 1] (S4-06).

    A fact whose worth was never measured (empty, or 0) has the full half-life.
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
    put_back = "put_back_at" if "put_back_at" in facts.columns else pl.lit(None, frames.TIME).alias("put_back_at")
    own = facts.select("id", "created_at", "content_score", put_back)
    return own.join(known, on="id", how="left", maintain_order="left").with_columns(pl.col("hits").fill_null(0))


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

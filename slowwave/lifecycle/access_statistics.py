"""Use of facts: how often each was recalled, counted from the events that reads leave behind (S4-01).

Hits count for ever; links fade while nobody asks (S2-73). How far a link has faded is kept with it, so it does not
matter how often somebody looks: a missed fortnight catches up at once. Only hits tell whether a fact was ever of use
(T26).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave import frames
from slowwave.settings import DecaySettings
from slowwave.validity import successors

RECALL_BOOST = 0.2
LINK_FLOOR = 0.01  # a link weaker than this is gone
REDUNDANT = ("dedup", "consolidated")  # reasons of lineage by which a fact says what the other said
_SUMS = ("hit_count", "cosine_sum", "cosine_count", "link_count")
_TIMES = ("last_retrieved_at", "link_decayed_at")

Numbers = npt.NDArray[np.float64]


def evolved_weight(count: pl.Expr, confidence: pl.Expr) -> pl.Expr:
    """Confidence in [0, 1] raised by recalls: min(1, confidence × (1 + 0.2 ln(1 + count))) (S2-33).

    No count, or one below 0, counts as 0.
    """
    recalls = count.fill_null(0).clip(lower_bound=0)
    return (confidence * (1.0 + RECALL_BOOST * recalls.log1p())).clip(upper_bound=1.0)


def fold_recalls(usage: pl.DataFrame, events: pl.DataFrame, settings: DecaySettings) -> pl.DataFrame:
    """FACT_USAGE after these events, of the facts that they name.

    `usage` holds the rows that there are of these facts, perhaps others too; `events` has fact_id, cosine (empty where
    a read has none, T6) and at. A log that is cut into batches in order gives the same counters as the whole. An event
    older than the latest one counts as if it came with it, so a clock that runs backwards fades nothing twice (T48).
    """
    cosine = pl.col("cosine").fill_nan(None)
    counted = events.group_by(id="fact_id").agg(
        hits=pl.len(), cosines=cosine.sum(), measured=cosine.count(), latest=pl.col("at").max()
    )
    rows = counted.join(usage.select(*frames.FACT_USAGE), on="id", how="left").sort("id")
    folded = rows.with_columns(
        _linked(rows, events, settings),
        hit_count=pl.col("hit_count").fill_null(0) + pl.col("hits"),
        cosine_sum=pl.col("cosine_sum").fill_null(0.0) + pl.col("cosines"),
        cosine_count=pl.col("cosine_count").fill_null(0) + pl.col("measured"),
        last_retrieved_at=pl.max_horizontal("last_retrieved_at", "latest"),
        link_decayed_at=pl.max_horizontal("last_retrieved_at", "latest", "link_decayed_at"),
    )
    return frames.conform(folded, frames.FACT_USAGE).select(*frames.FACT_USAGE)


def fade(usage: pl.DataFrame, now: datetime, settings: DecaySettings) -> pl.DataFrame:
    """The rows whose link is weaker at `now` than it was left, brought up to date; all columns of `usage` stay (S2-73).

    One pass, × lambda, for each whole interval since the last recall; below 0.01 the link is gone, 0. Fading again at
    the same `now` or an earlier one changes nothing; lambda 1 never does.
    """
    factor, interval = settings.link_weight_decay_lambda, _interval(settings)
    timed = usage.with_columns(
        _done=_passes("last_retrieved_at", pl.col("link_decayed_at"), interval),
        _due=_passes("last_retrieved_at", pl.lit(now), interval),
    )
    due = timed.filter(pl.col("link_count") > 0.0, pl.col("_due") > pl.col("_done"), pl.lit(factor < 1.0))
    left = faded(due["link_count"].to_numpy(), (due["_due"] - due["_done"]).to_numpy(), factor)
    until = pl.col("last_retrieved_at") + pl.duration(microseconds=pl.col("_due") * interval)
    return due.with_columns(pl.Series("link_count", left), link_decayed_at=until).select(usage.columns)


def faded(links: Numbers, passes: npt.NDArray[np.int64], factor: float) -> Numbers:
    """The links after so many passes of decay each, × factor; 0 where less than 0.01 is left (S2-73)."""
    left = links * np.power(factor, passes.astype(np.float64))
    return np.where(left < LINK_FLOOR, 0.0, left)


def usage_of(usage: pl.DataFrame, replaced: pl.DataFrame) -> pl.DataFrame:
    """FACT_USAGE and avg_retrieval_score (mean cosine, empty without one) of facts, with what they absorbed.

    `replaced` are LINEAGE rows; those that say dedup or consolidated are followed, over at most 64 steps. What a fact
    was used before another took its place counts for the last of them, and it has no row itself: sums stay. Of facts
    that replace each other in a circle the one with the largest id stands for all.
    """
    redundant = replaced.filter(pl.col("reason").is_in(REDUNDANT)).sort("old_id", "new_id")
    heirs = survivors(dict(redundant.select("old_id", "new_id").iter_rows()))
    whole = inherited(usage.select(*frames.FACT_USAGE), heirs, _SUMS, _TIMES)
    mean = pl.when(pl.col("cosine_count") > 0).then(pl.col("cosine_sum") / pl.col("cosine_count"))
    return whole.select(*frames.FACT_USAGE, avg_retrieval_score=mean)


def survivors(steps: Mapping[str, str]) -> dict[str, str]:
    """For each id that another replaced the last of its successors; in a circle, which has none, the largest id."""
    found: dict[str, str] = {}
    for start in steps:
        chain = [start, *successors(start, steps)]
        back = steps.get(chain[-1], "")
        found[start] = max(chain[chain.index(back) :]) if back in chain else chain[-1]
    return {old: new for old, new in found.items() if old != new}


def inherited(
    usage: pl.DataFrame, heirs: Mapping[str, str], sums: Sequence[str], latest: Sequence[str]
) -> pl.DataFrame:
    """The counters with those of replaced ids added to their heirs', in order of ids."""
    if not heirs:
        return usage.sort("id")
    is_moved = pl.col("id").is_in({*heirs, *heirs.values()})
    moved = usage.filter(is_moved).with_columns(pl.col("id").replace(heirs))
    whole = moved.group_by("id").agg(pl.col(*sums).sum(), pl.col(*latest).max())
    return pl.concat([usage.filter(~is_moved).select(whole.columns), whole]).sort("id")


def _linked(rows: pl.DataFrame, events: pl.DataFrame, settings: DecaySettings) -> pl.Series:
    """The link of each row after its events: it fades in the intervals before a recall, and grows by one."""
    links = rows["link_count"].fill_null(0.0).to_numpy().copy()
    for turn in _turns(rows, events, _interval(settings)).partition_by("turn", maintain_order=True):
        place = turn["place"].to_numpy()
        left = faded(links[place], turn["passes"].to_numpy(), settings.link_weight_decay_lambda)
        links[place] = left + turn["recalls"].to_numpy()
    return pl.Series("link_count", links)


def _turns(rows: pl.DataFrame, events: pl.DataFrame, interval: int) -> pl.DataFrame:
    """(place, turn, passes, recalls): for the row at each place how often it fades and is then recalled, in turns."""
    known = rows.select("last_retrieved_at", "link_decayed_at", fact_id="id").with_row_index("place")
    timed = events.select("fact_id", "at").join(known, on="fact_id").sort("place", "at")
    before = timed.with_columns(previous=pl.col("at").shift(1).over("place")).with_columns(
        last=pl.max_horizontal("last_retrieved_at", "previous"),
        done=pl.max_horizontal("last_retrieved_at", "link_decayed_at", "previous"),
    )
    passes = _passes("last", pl.col("at"), interval) - _passes("last", pl.col("done"), interval)
    steps = before.select("place", passes=passes.clip(lower_bound=0))
    turns = steps.with_columns(turn=(pl.col("passes") > 0).cum_sum().over("place")).group_by("turn", "place")
    return turns.agg(passes=pl.col("passes").max(), recalls=pl.len()).sort("turn", "place")


def _passes(since: str, until: pl.Expr, interval: int) -> pl.Expr:
    """Whole intervals, of microseconds, from the time in a column to another; none if it is earlier, or unknown."""
    age = (until - pl.col(since)).dt.total_microseconds().clip(lower_bound=0)
    return (age // interval).fill_null(0)


def _interval(settings: DecaySettings) -> int:
    return max(round(settings.link_weight_decay_interval_secs * 1_000_000), 1)


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
    known = by_day.with_columns(id=_key("entity_id", "day")).join(
        days.select("id", "access_count"), on="id", how="left"
    )
    fresh = known.group_by(id="entity_id").agg(
        pl.col("reads").sum(), pl.col("latest").max(), new_days=pl.col("access_count").is_null().sum()
    )
    folded = fresh.join(usage.select(*frames.ENTITY_USAGE), on="id", how="left").with_columns(
        access_days=pl.col("access_days").fill_null(0) + pl.col("new_days"),
        last_access_at=pl.max_horizontal("last_access_at", "latest"),
    )
    count = pl.col("access_count").fill_null(0) + pl.col("reads")
    return (
        _only(folded.with_columns(access_count=count), frames.ENTITY_USAGE),
        _only(known.with_columns(access_count=count), frames.ENTITY_DAYS),
    )


def fold_company(pairs: pl.DataFrame, met: pl.DataFrame) -> pl.DataFrame:
    """CO_OCCURRENCES after those of some more events, `met`; of the pairs in it.

    `pairs` holds the rows that there are of these, perhaps others too.
    """
    known = pairs.select("id", before="count", until="last_at")
    both = met.join(known, on="id", how="left").with_columns(
        count=pl.col("count") + pl.col("before").fill_null(0), last_at=pl.max_horizontal("last_at", "until")
    )
    return _only(both, frames.CO_OCCURRENCES)


def company(events: pl.DataFrame) -> pl.DataFrame:
    """CO_OCCURRENCES of these events (entity_id, query_hash, at) alone (S0-26).

    What one read returned has query and time in common; every two entities of it are a pair, once, of the 50 entities
    with the smallest ids.
    """
    parts = [_pairs(part) for part in _reads(events).partition_by("part")]
    met = pl.concat([frames.empty(frames.CO_OCCURRENCES).drop("id"), *parts], how="diagonal")
    counted = met.group_by("a_id", "b_id").agg(pl.col("count").sum(), pl.col("last_at").max())
    return _only(counted.with_columns(id=_key("a_id", "b_id")), frames.CO_OCCURRENCES)


def entity_usage_of(usage: pl.DataFrame, days: pl.DataFrame, merged: Mapping[str, str]) -> pl.DataFrame:
    """ENTITY_USAGE of entities with what each took over from those merged into it (`merged`: old id to new).

    A day on which both were read is one day; `days` are ENTITY_DAYS.
    """
    heirs = survivors(merged)
    whole = inherited(usage.select(*frames.ENTITY_USAGE), heirs, ("access_count", "access_days"), ("last_access_at",))
    taken = days.filter(pl.col("entity_id").is_in({*heirs, *heirs.values()}))
    counted = taken.group_by(id=pl.col("entity_id").replace(heirs)).agg(days=pl.col("day").n_unique())
    both = whole.join(counted, on="id", how="left").with_columns(access_days=pl.coalesce("days", "access_days"))
    return _only(both, frames.ENTITY_USAGE)


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


def _only(rows: pl.DataFrame, schema: frames.Schema) -> pl.DataFrame:
    return frames.conform(rows, schema).select(*schema).sort("id")

"""Use of entities: how often, on how many days and in which company each was read (S0-23, S0-26)."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from slowwave import frames
from slowwave.maintenance.usage import inherited, survivors

LARGEST_SET = 50  # entities of one read that are counted in pairs: whoever gets everything asks about no two of them
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
    told = each.with_columns(read=pl.any_horizontal(is_other).cum_sum())
    several = told.filter(pl.len().over("read") > 1, pl.int_range(pl.len()).over("read") < LARGEST_SET)
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

"""What is known of pairs from now on: who was asked, what waits for a model, what need not wait any more (S1-13)."""

from __future__ import annotations

from datetime import datetime

import polars as pl

from slowwave import frames
from slowwave.merging.absorption import Absorption
from slowwave.merging.merges import Merges, Pool, is_redundancy
from slowwave.merging.verdicts import KEEP_ALL, SUPERSEDE
from slowwave.settings import MergeSettings
from slowwave.text import row_id


def pair_rows(
    pool: Pool,
    merges: Merges,
    done: Absorption,
    settings: MergeSettings,
    prompt_version: str,
    now: datetime,
    parts: bool = True,
) -> pl.DataFrame:
    """PAIR_DECISIONS that are new or change: answers, failures, and without a model what waits for one.

    With `parts` a pair that waited counts as kept where a model was asked about both its facts, but not together.
    """
    measured = _measures(pool, merges)
    told = _answered_pairs(done).join(measured, on=["a_id", "b_id"])
    told = told.with_columns(decided_by=pl.lit("model"), prompt_version=pl.lit(prompt_version))
    left = pl.DataFrame(schema=told.schema) if prompt_version else _waiting_pairs(pool, merges, done, settings)
    known = pool.decided.filter(is_redundancy())
    mine = told.select("a_id", "b_id")
    fresh = frames.conform(left, told.schema).join(known, on=["a_id", "b_id"], how="anti")
    settled = _no_longer_pending(
        known.join(mine, on=["a_id", "b_id"], how="anti"), pool, done, parts and bool(prompt_version)
    )
    rows = pl.concat([part.select(*told.columns) for part in (told, fresh, settled)]).sort("a_id", "b_id")
    ids = [row_id("pd", a, b, "redundant") for a, b in rows.select("a_id", "b_id").iter_rows()]
    stamped = rows.with_columns(
        id=pl.Series(ids, dtype=pl.String), kind=pl.lit("redundant"), at=pl.lit(now, dtype=frames.TIME)
    )
    return frames.conform(stamped, frames.PAIR_DECISIONS).select(*frames.PAIR_DECISIONS)


def _measures(pool: Pool, merges: Merges) -> pl.DataFrame:
    """(a_id, b_id, cosine, jaccard, guard) of every pair that was measured."""
    a, b = pl.min_horizontal("a_id", "b_id"), pl.max_horizontal("a_id", "b_id")
    pairs = pool.pairs.group_by(a.alias("a_id"), b.alias("b_id")).agg(pl.col("cosine", "jaccard").max())
    return pairs.join(merges.undecided.select("a_id", "b_id", "guard"), on=["a_id", "b_id"], how="left")


def _answered_pairs(done: Absorption) -> pl.DataFrame:
    """(a_id, b_id, outcome) of all pairs within each question that was answered or failed, the last answer of each."""
    rows: dict[tuple[str, str], str] = {}
    for each in (*done.failed, *done.kept, *done.taken):
        verdict, ids = each.verdict, each.cluster.ids()
        one: set[str] = set()
        if verdict is not None and verdict.outcome == SUPERSEDE:
            one = {ids[index] for index in (verdict.survivor or 0, *verdict.absorbed)}
        for place, first in enumerate(ids):
            for second in ids[place + 1 :]:
                outcome = "failed" if verdict is None else SUPERSEDE if {first, second} <= one else KEEP_ALL
                rows[min(first, second), max(first, second)] = outcome
    listed = [(a, b, outcome) for (a, b), outcome in rows.items()]
    return pl.DataFrame(listed, schema={"a_id": pl.String, "b_id": pl.String, "outcome": pl.String}, orient="row")


def _waiting_pairs(pool: Pool, merges: Merges, done: Absorption, settings: MergeSettings) -> pl.DataFrame:
    """The best undecided pair of each seed, with the guard that kept it from being merged."""
    gone, seeds = pl.Series(list(done.steps), dtype=pl.String).implode(), pool.seeds()
    alike = (pl.col("cosine") >= (settings.resolve_cosine or 0.0)) | (pl.col("jaccard") >= settings.text_dedup)
    there = merges.undecided.filter(alike.fill_null(False), ~pl.col("a_id").is_in(gone), ~pl.col("b_id").is_in(gone))
    both = pl.concat([there.with_columns(seed="a_id"), there.with_columns(seed="b_id")])
    mine = both.filter(pl.col("seed").is_in(seeds.implode()))
    best = mine.sort(-pl.col("cosine").fill_null(-1.0), -pl.col("jaccard").fill_null(-1.0), "a_id", "b_id")
    rows = best.unique("seed", keep="first", maintain_order=True).unique(["a_id", "b_id"], maintain_order=True)
    return rows.drop("seed").with_columns(
        outcome=pl.lit("pending"), decided_by=pl.lit("rule"), prompt_version=pl.lit("")
    )


def _no_longer_pending(known: pl.DataFrame, pool: Pool, done: Absorption, parts: bool) -> pl.DataFrame:
    """Pairs that waited and need no more: one of them was absorbed, or a model's clusters had no place for both."""
    gone = pl.Series(list(done.closings()["id"]), dtype=pl.String).implode()
    waiting = known.filter(pl.col("outcome").is_in(["pending", "failed"]))
    is_gone = pl.col("a_id").is_in(gone) | pl.col("b_id").is_in(gone)
    open_ = [id_ for each in (*done.waiting, *done.failed) for id_ in each.cluster.ids()]
    looked = pool.seeds().filter(~pool.seeds().is_in(open_)).implode()
    is_parted = pl.lit(parts) & pl.col("a_id").is_in(looked) & pl.col("b_id").is_in(looked)
    return waiting.filter(is_gone | is_parted).with_columns(
        outcome=pl.when(is_gone).then(pl.lit(SUPERSEDE)).otherwise(pl.lit(KEEP_ALL)), decided_by=pl.lit("rule")
    )

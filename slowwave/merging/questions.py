"""Which pairs a model is asked about: few, those where something may repeat, change or clash (S1-03, S1-13, S1-14)."""

from __future__ import annotations

from math import ceil
from typing import Literal

import polars as pl

from slowwave.frames import beside
from slowwave.merging.clustering import clusters_of
from slowwave.merging.merges import Merges, Pool, is_open_pair
from slowwave.merging.topics import TOPICS, with_score
from slowwave.settings import MergeSettings
from slowwave.similarity import Vectors

Mode = Literal["auto", "pairwise", "cluster"]
PER_FACT = 4  # pairs of one new fact
NEAR_SHARE = 0.7
"""The share of the pairs that are the nearest of all: who read the messages saw what changed, but not what repeats."""
_SHOWN = ("id", "statement", "subject_id", "object_id")


def uses_pairs(seeds: int, mode: Mode, settings: MergeSettings) -> bool:
    """Whether facts are compared pair by pair: a small batch, or because it was asked for (S1-14)."""
    return mode == "pairwise" or (mode == "auto" and seeds <= settings.pairwise_max_batch)


def choose_pairs(
    pool: Pool, merges: Merges, vectors: Vectors, settings: MergeSettings, resolve: float, *, by_pairs: bool
) -> pl.DataFrame:
    """TOPICS with score: the pairs to ask about, best first, each with a seed.

    They are alike (in a cluster of facts that are, unless `by_pairs`), or about one matter, or wait for a verdict. A
    fact brings its best few, and all together no more than `pairs_per_fact` for each seed; those that wait are always
    among them. `vectors` are unit rows in the order of `pool.facts`; `resolve` is the cosine of what is alike.
    """
    facts = pool.facts.filter(~pl.col("id").is_in(merges.losers["loser_id"].implode()))
    waiting = open_pairs_of(pool)
    found = [_alike(pool, merges, vectors, settings, resolve, by_pairs=by_pairs), pool.topics, waiting]
    every = pl.concat([part.select(*TOPICS) for part in found]).group_by("a_id", "b_id").agg(pl.all().max())
    fresh = every.join(pool.settled(), on=["a_id", "b_id"], how="anti")
    sides = beside(fresh, facts.select(_SHOWN))
    marked = sides.join(waiting.select("a_id", "b_id", waits=pl.lit(True)), on=["a_id", "b_id"], how="left")
    related = with_score(marked.filter(_are_related(pool.people) | pl.col("waits").is_not_null()))
    most = max(settings.per_call, ceil(len(pool.seeds()) * settings.pairs_per_fact))
    near = _first(related, "cosine", pool.seeds(), ceil(most * NEAR_SHARE))
    changed = _first(related, "score", pool.seeds(), most).join(near, on=["a_id", "b_id"], how="anti")
    return pl.concat([near, changed.head(max(0, most - len(near)))]).select(*TOPICS, "score")


def _first(related: pl.DataFrame, measure: str, seeds: pl.Series, most: int) -> pl.DataFrame:
    """The pairs that wait, and so many others, those first of which the measure is greatest."""
    ranked = related.sort(pl.col("waits").is_null(), -pl.col(measure).fill_null(0.0), "a_id", "b_id")
    best = _best(ranked, seeds)
    return best.filter(pl.col("waits").is_not_null() | (pl.int_range(pl.len()) < most))


def open_pairs_of(pool: Pool) -> pl.DataFrame:
    """TOPICS: the pairs that wait for a verdict."""
    open_ = pool.decided.filter(is_open_pair()).with_columns(shared=pl.lit(0.0))
    return open_.select(*TOPICS).unique(["a_id", "b_id"])


def _best(ranked: pl.DataFrame, seeds: pl.Series) -> pl.DataFrame:
    """The pairs that are among the best of a seed, or wait; in their order."""
    placed = ranked.with_row_index("place")
    ends = pl.concat([placed.select("place", "waits", seed="a_id"), placed.select("place", "waits", seed="b_id")])
    mine = ends.filter(pl.col("seed").is_in(seeds.implode())).sort("place")
    first = mine.group_by("seed", maintain_order=True).head(PER_FACT)
    chosen = pl.concat([first["place"], mine.filter(pl.col("waits").is_not_null())["place"]])
    return placed.filter(pl.col("place").is_in(chosen.implode())).drop("place")


def _alike(
    pool: Pool, merges: Merges, vectors: Vectors, settings: MergeSettings, resolve: float, *, by_pairs: bool
) -> pl.DataFrame:
    """TOPICS of undecided pairs that may say the same, of one cluster each where facts are compared in clusters."""
    is_alike = (pl.col("cosine") >= resolve) | (pl.col("jaccard") >= settings.text_dedup)
    pairs = merges.undecided.filter(is_alike.fill_null(False)).with_columns(shared=pl.lit(0.0))
    if by_pairs or pairs.is_empty():
        return pairs.select(*TOPICS)
    ends = pl.concat([pairs["a_id"], pairs["b_id"]])
    rows = pool.facts.select(keep=pl.col("id").is_in(ends.implode()))["keep"].arg_true()
    clusters = clusters_of(pool.facts["id"].gather(rows), vectors[rows.to_numpy()], pairs, settings, resolve)
    return pairs.join(clusters, left_on="a_id", right_on="id").join(
        clusters, left_on=["b_id", "cluster"], right_on=["id", "cluster"], how="semi"
    ).select(*TOPICS)  # fmt: skip


def _are_related(people: frozenset[str]) -> pl.Expr:
    """Not about two persons, neither of whom the other fact relates to: both may well be so."""
    a, b = pl.col("subject_id"), pl.col("subject_id_b")
    two_persons = a.is_in(list(people)) & b.is_in(list(people)) & (a != b)
    met = pl.any_horizontal((pl.col("object_id") == b).fill_null(False), (pl.col("object_id_b") == a).fill_null(False))
    return ~two_persons.fill_null(False) | met

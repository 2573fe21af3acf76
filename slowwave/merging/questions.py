"""What a model is asked: clusters of facts, or pairs in rounds (S1-03, S1-05, S1-13, S1-14)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import polars as pl

from slowwave.merging.clustering import clusters_of
from slowwave.merging.merges import Merges, Pool
from slowwave.merging.verdicts import SUPERSEDE, Cluster, ClusterFact, Judged, new_wording, survivor_of, wrong_indices
from slowwave.settings import MergeSettings
from slowwave.similarity import Vectors

Mode = Literal["auto", "pairwise", "cluster"]
_WEIGHTS = (0.7, 0.3)  # of cosine and words where candidates are reranked (S1-12)


def uses_pairs(seeds: int, mode: Mode, settings: MergeSettings) -> bool:
    """Whether facts are compared pair by pair: a small batch, or because it was asked for (S1-14)."""
    return mode == "pairwise" or (mode == "auto" and seeds <= settings.pairwise_max_batch)


def plan_clusters(
    pool: Pool, merges: Merges, vectors: Vectors, settings: MergeSettings, resolve: float
) -> tuple[Cluster, ...]:
    """Clusters of what the short-cut left, each with a seed and a pair that nobody settled (S1-03, S1-05).

    `vectors` are unit rows in the order of `pool.facts`; `resolve` is the cosine from which facts may say the same.
    """
    facts, seeds = _remaining(pool, merges), pool.seeds()
    pairs = _askable(pool, merges, facts, settings, resolve)
    ends = pl.concat([pairs["a_id"], pairs["b_id"]])
    rows = pool.facts.select(keep=pl.col("id").is_in(ends.implode()))["keep"].arg_true()
    clusters = clusters_of(pool.facts["id"].gather(rows), vectors[rows.to_numpy()], pairs, settings, resolve)
    inside = pairs.join(clusters, left_on="a_id", right_on="id").join(
        clusters, left_on=["b_id", "cluster"], right_on=["id", "cluster"], how="semi"
    )
    asked = clusters.filter(
        pl.col("cluster").is_in(inside["cluster"].implode()),
        pl.col("id").is_in(seeds.implode()).any().over("cluster"),
    )
    listed = asked.group_by("cluster", maintain_order=True).agg("id")["id"].to_list()
    return _as_clusters(listed, facts, {})


def plan_pairs(
    pool: Pool, merges: Merges, settings: MergeSettings, asked: Sequence[Judged] = (), resolve: float = 0.0
) -> tuple[Cluster, ...]:
    """One round of S1-13: for each seed its best candidate that was not asked about yet, the seed at index 0.

    Called again with everything judged so far until it returns nothing: a fact that was absorbed has no more
    candidates, one that absorbed another goes on, in its new words. No fact is in two pairs of a round, so that no
    answer is about a fact that another answer of the round has changed.
    """
    facts, seeds = _remaining(pool, merges), set(pool.seeds())
    gone, words = _told(asked)
    done = {frozenset(judged.cluster.ids()) for judged in asked}
    pairs = _askable(pool, merges, facts, settings, resolve).with_columns(score=_score(settings))
    taken: set[str] = set()
    chosen: list[list[str]] = []
    for a, b in pairs.sort("score", "a_id", "b_id", descending=[True, False, False]).select("a_id", "b_id").iter_rows():
        if {a, b} & gone or frozenset((a, b)) in done:
            continue
        if {a, b} & taken:  # its best candidate is busy: a seed waits for the next round
            taken |= {a, b} & seeds
            continue
        taken |= {a, b}
        chosen.append(_newest_first(a, b, seeds))
    return _as_clusters(sorted(chosen), facts, words)


def _told(asked: Sequence[Judged]) -> tuple[set[str], dict[str, str]]:
    """Who was absorbed in this run, and in which words their survivors go on."""
    gone: set[str] = set()
    words: dict[str, str] = {}
    for judged in asked:
        verdict, cluster = judged.verdict, judged.cluster
        if verdict is not None and verdict.outcome == SUPERSEDE and not wrong_indices(cluster, verdict):
            gone.update(cluster.ids()[index] for index in verdict.absorbed)
            if text := new_wording(cluster, verdict):
                words[survivor_of(cluster, verdict).id] = text
    return gone, words


def _remaining(pool: Pool, merges: Merges) -> pl.DataFrame:
    return pool.facts.filter(~pl.col("id").is_in(merges.losers["loser_id"].implode()))


def _askable(pool: Pool, merges: Merges, facts: pl.DataFrame, settings: MergeSettings, resolve: float) -> pl.DataFrame:
    """Undecided pairs with a seed, of facts that end at the same time, alike enough to be worth a question."""
    ends, seeds = facts.select("id", "valid_to"), pool.seeds().implode()
    alike = (pl.col("cosine") >= resolve) | (pl.col("jaccard") >= settings.text_dedup)
    pairs = merges.undecided.filter(alike.fill_null(False), pl.col("a_id").is_in(seeds) | pl.col("b_id").is_in(seeds))
    sides = pairs.join(ends, left_on="a_id", right_on="id", maintain_order="left").join(
        ends, left_on="b_id", right_on="id", maintain_order="left", suffix="_b"
    )
    return sides.filter(pl.col("valid_to").eq_missing(pl.col("valid_to_b"))).drop("valid_to", "valid_to_b")


def _score(settings: MergeSettings) -> pl.Expr:
    """How promising a pair is: its cosine, or with words weighed in (S1-12)."""
    cosine, words = pl.col("cosine").fill_null(0.0), pl.col("jaccard").fill_null(0.0)
    return _WEIGHTS[0] * cosine + _WEIGHTS[1] * words if settings.rerank else cosine


def _newest_first(a: str, b: str, seeds: set[str]) -> list[str]:
    """The seed first; of two seeds the one with the larger id, which is the later one."""
    first, second = (b, a) if b in seeds else (a, b)
    return [first, second]


def _as_clusters(listed: Sequence[Sequence[str]], facts: pl.DataFrame, words: Mapping[str, str]) -> tuple[Cluster, ...]:
    shown = ("id", "statement", "scope", "valid_from", "confidence", "entrenchment", "evidence_count", "pinned")
    wanted = facts.filter(pl.col("id").is_in([id_ for ids in listed for id_ in ids])).select(shown)
    known = {row[0]: row[1:] for row in wanted.iter_rows()}

    def members(ids: Sequence[str]) -> Iterator[ClusterFact]:
        for index, id_ in enumerate(ids):
            statement, scope, start, confidence, rank, count, pinned = known[id_]
            is_fixed = bool(pinned) or rank == "user_axiom"
            yield ClusterFact(
                index, id_, words.get(id_, statement), scope, start, confidence or 0.0, rank, count or 1, is_fixed
            )

    return tuple(Cluster(number, tuple(members(ids))) for number, ids in enumerate(listed))

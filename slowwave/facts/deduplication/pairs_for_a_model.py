"""Pairs for a model: the few that may be duplicates, changes or contradictions (S1-03, S1-13, S1-14)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.common import frames
from slowwave.common.comparison.guards import (
    GUARDS,
    guards_pass,
    may_yield,
    read_amounts,
    read_names,
    read_times,
    straight,
)
from slowwave.common.comparison.similarity import Vectors, connected
from slowwave.common.frames import beside
from slowwave.common.settings import MergeSettings

from .duplicates import TOPICS, CandidateSet, Merges, is_open_pair, unless_same, with_score

# Clusters for a model: connected facts, and never too many (S1-03, T28). Two facts with a common neighbour are
# connected. A component that is too large is cut by average linkage, at a higher threshold each time, until every part
# fits (decision 8).


CLUSTERS = {"cluster": pl.Int64(), "id": pl.String()}
STEP = 0.05
PARTITION_FROM = 2000  # facts of a component from which HDBSCAN parts it (S1-03)
LARGEST = 5000
"""Average linkage has all distances in memory, 200 MB for 5,000 facts; a larger part is cut in equal ones."""
_DIGITS = 6  # the precision of a cosine in float32; equal vectors get exactly 1
_EVEN = 1e-9

Rows = npt.NDArray[np.int64]


def clusters_of(
    ids: pl.Series, vectors: Vectors, pairs: pl.DataFrame, settings: MergeSettings, resolve: float
) -> pl.DataFrame:
    """(cluster, id): clusters of 2 to `max_cluster_size` facts that may say the same, without single facts.

    `ids` are distinct; `vectors` are their unit rows, in the same order. `pairs` (a_id, b_id, cosine, jaccard) connect
    two facts if the cosine reaches `resolve` or the Jaccard `text_dedup`; other pairs are ignored. The members of a
    part that was cut reach `resolve` on average. Clusters are numbered from 0 by their smallest id, members sorted by
    id.
    """
    order, most = ids.arg_sort(), settings.max_cluster_size
    names, rows = ids.gather(order), vectors[order.to_numpy()]
    links = _links(names, pairs, settings, resolve)
    found: list[Rows] = []
    for component in _connected(np.arange(len(ids)), links):
        found += [component] if len(component) <= most else _cohesive(component, rows, links, most, resolve)
    parts = sorted((part for part in found if len(part) > 1), key=lambda part: int(part[0]))
    numbers = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    places = np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
    return pl.DataFrame({"cluster": numbers, "id": names.gather(places)}, schema=CLUSTERS)


def _links(ids: pl.Series, pairs: pl.DataFrame, settings: MergeSettings, resolve: float) -> pl.DataFrame:
    """(a, b) by place in `ids`, each pair once."""
    places = pl.DataFrame({"id": ids, "place": np.arange(len(ids))}, schema={"id": pl.String, "place": pl.Int64})
    is_near = (pl.col("cosine").round(_DIGITS) >= resolve) | (pl.col("jaccard") >= settings.text_dedup)
    named = beside(pairs.filter(is_near.fill_null(False)).select("a_id", "b_id"), places)
    first, second = pl.min_horizontal("place", "place_b"), pl.max_horizontal("place", "place_b")
    return named.select(a=first, b=second).filter(pl.col("a") != pl.col("b")).unique().sort("a", "b")


def _connected(members: Rows, links: pl.DataFrame) -> Iterator[Rows]:
    """The sorted members by what these links connect."""
    inside = links.filter(pl.col("a").is_in(members), pl.col("b").is_in(members))
    labels = np.arange(int(members.max(initial=-1)) + 1)
    yield from _groups(members, connected(labels, inside["a"].to_numpy(), inside["b"].to_numpy())[members])


def _cohesive(members: Rows, vectors: Vectors, links: pl.DataFrame, most: int, resolve: float) -> Iterator[Rows]:
    """The parts of a component; a very large one is parted by HDBSCAN before."""
    is_large = len(members) > PARTITION_FROM
    dense = _dense_parts(members, vectors[members], resolve) if is_large else [members]
    for part in (each for parts in dense for each in (_connected(parts, links) if is_large else [parts])):
        yield from _linked(part, vectors, most, resolve)


def _dense_parts(members: Rows, vectors: Vectors, cut: float) -> Iterator[Rows]:
    """The members by HDBSCAN; a noise point is a part of its own.

    On unit vectors a cosine c is the distance sqrt(2(1 − c)). With `min_samples` 1 a point with one near neighbour is
    not noise, because a single pair is a cluster here. Equal vectors are one point; HDBSCAN takes many of them for
    noise.
    """
    from hdbscan import HDBSCAN

    points, which = np.unique(vectors.round(_DIGITS), axis=0, return_inverse=True)
    labels = np.zeros(len(points), dtype=np.int64)
    if len(points) > 2:
        finder = HDBSCAN(
            min_cluster_size=2, min_samples=1, metric="euclidean", cluster_selection_method="leaf",
            cluster_selection_epsilon=float(np.sqrt(2.0 * (1.0 - cut))), allow_single_cluster=True, core_dist_n_jobs=1,
        )  # fmt: skip
        labels = finder.fit_predict(points)
    noise = labels < 0
    labels[noise] = labels.max(initial=-1) + 1 + np.arange(noise.sum())
    yield from _groups(members, labels[which])


def _linked(members: Rows, vectors: Vectors, most: int, resolve: float) -> list[Rows]:
    """The parts by average linkage, a part that is too large again one step higher (S1-03)."""
    if not 2 < len(members) <= LARGEST:
        return np.array_split(members, -(-len(members) // most))
    from scipy.cluster.hierarchy import fcluster, linkage

    own = vectors[members].astype(np.float64)
    distances = 1.0 - np.round(own @ own.T, _DIGITS)[np.triu_indices(len(own), 1)]  # 1 − cosine of all pairs
    tree = linkage(distances.clip(0.0), method="average")

    def cut_at(part: Rows, cut: float) -> Iterator[Rows]:
        labels = fcluster(tree, max(1.0 - cut, 0.0) + _EVEN, criterion="distance")[part]
        for piece in _groups(part, labels):
            if len(piece) > most and cut < 1.0:
                yield from cut_at(piece, min(cut + STEP, 1.0))
            else:  # indistinguishable facts in equal parts
                yield from np.array_split(members[piece], -(-len(piece) // most))

    return list(cut_at(np.arange(len(members)), resolve))


def _groups(members: Rows, labels: npt.NDArray[np.integer]) -> Iterator[Rows]:
    """The members by label, each group sorted."""
    order = np.argsort(labels, kind="stable")
    for group in np.split(members[order], np.flatnonzero(np.diff(labels[order])) + 1):
        if len(group):
            yield group


Mode = Literal["auto", "pairwise", "cluster"]
PER_FACT = 4
"""Pairs of one fact, new or known: a known one that is near to many new ones would take the places of the others."""
NEAR_SHARE = 0.7
"""The share of pairs chosen by cosine alone: the extractor finds changes itself, but not duplicates."""
_SHOWN = ("id", "statement", "subject_id", "object_id")


def uses_pairs(seeds: int, mode: Mode, settings: MergeSettings) -> bool:
    """Whether facts are compared pair by pair: in a small batch, or in mode `pairwise` (S1-14)."""
    return mode == "pairwise" or (mode == "auto" and seeds <= settings.pairwise_max_batch)


def choose_pairs(
    candidates: CandidateSet,
    merges: Merges,
    vectors: Vectors,
    settings: MergeSettings,
    resolve: float,
    *,
    by_pairs: bool,
) -> pl.DataFrame:
    """TOPICS with score: the pairs for a model, best first, each with a seed.

    They are similar (in one cluster, unless `by_pairs`), or about one topic, or wait for a verdict. Each fact has its
    best PER_FACT pairs, and all seeds together `pairs_per_fact` for each; waiting pairs are always among them.
    `vectors` are unit rows in the order of `candidates.facts`; `resolve` is the least cosine of similar pairs.
    """
    facts = candidates.facts.filter(~pl.col("id").is_in(merges.duplicates["loser_id"].implode()))
    open_ = candidates.decided.filter(is_open_pair()).with_columns(shared=pl.lit(0.0))
    waiting = open_.select(*TOPICS).unique(["a_id", "b_id"])
    found = [_alike(candidates, merges, vectors, settings, resolve, by_pairs=by_pairs), candidates.topics, waiting]
    every = pl.concat([part.select(*TOPICS) for part in found]).group_by("a_id", "b_id").agg(pl.all().max())
    fresh = every.join(candidates.settled(), on=["a_id", "b_id"], how="anti")
    sides = beside(fresh, facts.select(_SHOWN))
    marked = sides.join(waiting.select("a_id", "b_id", waits=pl.lit(True)), on=["a_id", "b_id"], how="left")
    related = with_score(marked.filter(_are_related(candidates.people) | pl.col("waits").is_not_null()))
    most = max(settings.per_call, ceil(len(candidates.seeds()) * settings.pairs_per_fact))
    near = _first(related, "cosine", candidates.seeds(), ceil(most * NEAR_SHARE))
    changed = _first(related, "score", candidates.seeds(), most).join(near, on=["a_id", "b_id"], how="anti")
    return pl.concat([near, changed.head(max(0, most - len(near)))]).select(*TOPICS, "score")


def _first(related: pl.DataFrame, measure: str, seeds: pl.Series, most: int) -> pl.DataFrame:
    """The waiting pairs, and others among the best of a seed up to `most`, by the greatest measure."""
    ranked = related.sort(pl.col("waits").is_null(), -pl.col(measure).fill_null(0.0), "a_id", "b_id")
    placed = ranked.with_row_index("place")
    ends = pl.concat([placed.select("place", "waits", seed="a_id"), placed.select("place", "waits", seed="b_id")])
    is_seed, waits = pl.col("seed").is_in(seeds.implode()), pl.col("waits").is_not_null()
    mine = ends.filter(is_seed).sort("place")
    kept = mine.group_by("seed", maintain_order=True).head(1)["place"]  # the best of each new fact
    known = ends.filter(~is_seed, ~waits).sort("place")
    crowded = known.filter(pl.int_range(pl.len()).over("seed") >= PER_FACT, ~pl.col("place").is_in(kept.implode()))
    mine = mine.filter(~pl.col("place").is_in(crowded["place"].implode()))
    first = mine.group_by("seed", maintain_order=True).head(PER_FACT)
    chosen = pl.concat([first["place"], mine.filter(pl.col("waits").is_not_null())["place"]])
    best = placed.filter(pl.col("place").is_in(chosen.implode())).drop("place")
    return best.filter(pl.col("waits").is_not_null() | (pl.int_range(pl.len()) < most))


def _alike(
    candidates: CandidateSet,
    merges: Merges,
    vectors: Vectors,
    settings: MergeSettings,
    resolve: float,
    *,
    by_pairs: bool,
) -> pl.DataFrame:
    """TOPICS of undecided similar pairs; unless `by_pairs`, both sides are in one cluster."""
    is_alike = (pl.col("cosine") >= resolve) | (pl.col("jaccard") >= settings.text_dedup)
    pairs = merges.undecided.filter(is_alike.fill_null(False)).with_columns(shared=pl.lit(0.0))
    if by_pairs or pairs.is_empty():
        return pairs.select(*TOPICS)
    ends = pl.concat([pairs["a_id"], pairs["b_id"]])
    rows = candidates.facts.select(keep=pl.col("id").is_in(ends.implode()))["keep"].arg_true()
    clusters = clusters_of(candidates.facts["id"].gather(rows), vectors[rows.to_numpy()], pairs, settings, resolve)
    return pairs.join(clusters, left_on="a_id", right_on="id").join(
        clusters, left_on=["b_id", "cluster"], right_on=["id", "cluster"], how="semi"
    ).select(*TOPICS)  # fmt: skip


def _are_related(people: frozenset[str]) -> pl.Expr:
    """Not about two different persons without a relation between them; such facts may both be true."""
    a, b = pl.col("subject_id"), pl.col("subject_id_b")
    two_persons = a.is_in(list(people)) & b.is_in(list(people)) & (a != b)
    met = pl.any_horizontal((pl.col("object_id") == b).fill_null(False), (pl.col("object_id_b") == a).fill_null(False))
    return ~two_persons.fill_null(False) | met


# Effects of a verdict: guards limit merges, but not updates and corrections (S1-05, S1-22, T37).


SAME, UPDATES, CORRECTS, CONTRADICTS = "same", "updates", "corrects", "contradicts"
COVERS = "covers"  # the second fact says all that the first one says; only the extractor says so
_NEVER_MIXED = tuple(guard for guard in GUARDS if guard.name == "polarity")
"""Numbers, dates and names are looked at by what would be `lost`; in all else a model understands more than a rule."""
_WAYS = {"pair": pl.Int64, "turn": pl.Int64, "verdict": pl.String, "loser": pl.String, "winner": pl.String}
_RELATION = ("kind", "predicate", "object_id", "object_text")


@dataclass(frozen=True, slots=True)
class JudgedPair:
    """A pair of facts in message order, with the result of the question about it.

    Either a `verdict` (for `same` and `covers` with the sentence to keep, 1 or 2); or an `error`, if the answer was not
    usable; or neither, if the budget was spent before the question. `with_merges` adds `duplicate` and
    `representative` of a pair that is one, or the `guard` that prevents the merge.
    """

    first: str
    second: str
    verdict: str = ""
    keep: int = 1
    error: str = ""
    duplicate: str = ""
    representative: str = ""
    guard: str = ""

    @property
    def ids(self) -> tuple[str, str]:
        """Both ids, the smaller one first, as PAIR_DECISIONS name a pair."""
        return min(self.first, self.second), max(self.first, self.second)


def covering_pairs(pairs: Iterable[tuple[str, str]]) -> tuple[JudgedPair, ...]:
    """Pairs (covered, covering) with their verdict: a fact takes up what it covers before it is itself taken up."""
    left, found = sorted(pairs), list[tuple[str, str]]()
    while left:
        covering = {new for _, new in left}
        first = [pair for pair in left if pair[0] not in covering] or left  # in a circle none is the first
        found, left = [*found, *first], [pair for pair in left if pair not in first]
    return tuple(JudgedPair(old, new, COVERS, keep=2) for old, new in found)


def with_merges(judged: Sequence[JudgedPair], facts: pl.DataFrame) -> tuple[JudgedPair, ...]:
    """The pairs, those with the verdict `same` or `covers` with their merge. `facts` are FACTS with both sides.

    The sentence that the model keeps is the representative, unless rank forbids it or the other one's words would be
    lost; then it is the other one, if they say the same. If every way is forbidden, both facts stay.
    """
    ways = []
    for row, each in enumerate(judged):
        for turn in {SAME: (0, 1), COVERS: (0,)}.get(each.verdict, ()):
            loser, winner = (each.second, each.first) if (each.keep == 1) == (turn == 0) else (each.first, each.second)
            ways.append((row, turn, each.verdict, loser, winner))
    if not ways:
        return tuple(judged)
    merged = list(judged)
    read = _guarded(pl.DataFrame(ways, schema=_WAYS, orient="row"), facts).sort("pair", "turn", descending=True)
    for row, turn, _, duplicate, representative, guard in read.iter_rows():  # the first way last
        if guard is None:
            merged[row] = replace(judged[row], duplicate=duplicate, representative=representative)
        elif turn == 0 and not merged[row].representative:
            merged[row] = replace(judged[row], guard=guard)
    return tuple(merged)


def _guarded(ways: pl.DataFrame, facts: pl.DataFrame) -> pl.DataFrame:
    """Each way of merging a pair with the guard that forbids it, null where none does."""
    columns = ["scope", "subject_id", "polarity", "valid_to", "pinned", "entrenchment", "statement", *_RELATION]
    sides = frames.conform(facts, frames.FACTS).select("id", *columns).unique("id")
    both = frames.beside(ways, sides, "loser", "winner")
    texts, others = (both[name].fill_null("") for name in ("statement", "statement_b"))
    clash = guards_pass(texts, others, _NEVER_MIXED)["failed_guard"]
    # A fuller sentence with another relation, or none: what holds now of the earlier one could not end it.
    is_other = pl.any_horizontal(pl.col(name).ne_missing(pl.col(f"{name}_b")) for name in _RELATION)
    loses_relation = (pl.col("verdict") == COVERS) & (pl.col("kind") == "relation") & is_other
    guard = pl.coalesce(
        unless_same("scope", "scope"),
        unless_same("subject_id", "identity"),
        unless_same("polarity", "polarity"),
        unless_same("valid_to", "validity"),
        "clash",
        pl.when(~may_yield()).then(pl.lit("rank")),
        pl.when(loses_relation).then(pl.lit("relation")),
        pl.when(pl.col("lost").is_not_null()).then(pl.lit("words")),
    )
    return both.with_columns(clash=clash, lost=lost(texts, others)).select(*_WAYS, guard=guard)


def lost(texts: pl.Series, heirs: pl.Series) -> pl.Series:
    """Per pair the first number, identifier, date, time or name of `texts` that `heirs` lacks, or null."""
    texts_, kept = straight(texts), straight(heirs)
    sides = (
        (read_amounts(texts_), read_amounts(kept)),
        (read_times(texts_), read_times(kept)),
        (read_names(texts_).struct.field("names"), read_names(kept).struct.field("words")),
    )
    gone = pl.DataFrame({str(place): own.list.set_difference(other) for place, (own, other) in enumerate(sides)})
    return gone.select(lost=pl.coalesce(pl.all().list.sort().list.first()))["lost"]

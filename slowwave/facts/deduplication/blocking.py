"""Blocking: pairs of facts that are close in meaning or share most of their words (S1-02, S1-03, S1-12).

Facts of different scopes never pair (S1-09), nor do structural facts of the graph (T33).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.common.comparison.guards import read_amounts, read_polarities, straight
from slowwave.common.comparison.similarity import Vectors, cosines, word_overlap
from slowwave.common.comparison.similarity_joins import (
    best_of,
    close_pairs,
    distinct_words,
    overlap_of,
    shared_words,
)
from slowwave.common.frames import beside
from slowwave.common.settings import MergeSettings
from slowwave.common.words import content_stems

PAIRS = {"a_id": pl.String, "b_id": pl.String, "cosine": pl.Float64, "jaccard": pl.Float64}
COMPARED = ("relation", "observation", "note")
SEED_MATCHES = 32  # most pairs of seeds for one seed; clusters are much smaller (S1-03)
_MEASURED = 500_000
_PLACES = {"first": pl.Int32, "second": pl.Int32}
_MEASURES = {**_PLACES, "cosine": pl.Float64, "jaccard": pl.Float64}


def find_pairs(
    facts: pl.DataFrame, vectors: npt.NDArray[np.float32], settings: MergeSettings, resolve: float
) -> pl.DataFrame:
    """PAIRS with at least one seed, of one scope, with cosine ≥ `resolve` or Jaccard ≥ `text_dedup`.

    `facts` has id, scope, kind, statement and is_seed, its rows in the order of `vectors` (n, d), unit rows or zero
    where there is none. A seed keeps its best `max_existing_matches` facts that are not seeds, by (cosine desc, id),
    or with `rerank` those with the best 0.7 · cosine + 0.3 · Jaccard of `rerank_multiplier` times as many; other seeds
    do not count (S1-02, S1-12).

    The number of pairs is linear in the seeds: a pair of seeds stays if it is among the best SEED_MATCHES of either, by
    cosine or by Jaccard; of seeds with the same words, those with the lowest ids.
    The result is ordered by id and does not depend on the order of the rows.
    """
    ordered = _ordered(facts)
    seeds = int(ordered["is_seed"].sum())
    rows = vectors[ordered["row"].to_numpy()]
    wording, sets = distinct_words(ordered["statement"], ordered["scope"])
    ordered = ordered.with_columns(wording=wording, place=pl.int_range(pl.len(), dtype=pl.Int32))
    per_row = settings.max_existing_matches * (settings.rerank_multiplier if settings.rerank else 1)
    near = _by_meaning(ordered, rows, resolve, SEED_MATCHES, per_row)
    alike = _by_words(ordered, sets, seeds, settings)
    pairs = pl.concat([near, alike]).unique()
    return _named(_cut(_measured(pairs, ordered, rows, sets), seeds, settings), ordered)


def find_nearest_pairs(
    facts: pl.DataFrame, vectors: npt.NDArray[np.float32], least: float, neighbors: int
) -> pl.DataFrame:
    """PAIRS of one scope with cosine ≥ `least`, each among the `neighbors` nearest of a seed (S4-08).

    Frames and rows are those of `find_pairs`; Jaccard is measured but adds no pair. Nearest: the higher cosine, then
    the seed, then the lower id.
    """
    ordered = _ordered(facts).with_columns(place=pl.int_range(pl.len(), dtype=pl.Int32))
    is_in_order = len(ordered) == len(vectors) and ordered["row"].is_sorted()
    rows = vectors if is_in_order else vectors[ordered["row"].to_numpy()]
    near = _by_meaning(ordered, rows, least, neighbors, neighbors)
    first, second = near["first"], near["second"]
    words = word_overlap(ordered["statement"].gather(first), ordered["statement"].gather(second))
    exact = pl.Series(cosines(rows, first.to_numpy(), second.to_numpy()), dtype=pl.Float64)
    pairs = near.with_columns(words["jaccard"], cosine=exact)
    both = pl.concat(
        [pairs.with_columns(owner="first", other="second"), pairs.with_columns(owner="second", other="first")]
    )
    own = both.filter(pl.col("owner") < int(ordered["is_seed"].sum())).sort("owner", -pl.col("cosine"), "other")
    best = own.group_by("owner", maintain_order=True).head(neighbors)
    return _named(best.unique(["first", "second"], maintain_order=True), ordered)


def _ordered(facts: pl.DataFrame) -> pl.DataFrame:
    """The comparable facts, seeds first, each part by id, with `row`, their row before."""
    columns = ["id", "scope", "statement", "is_seed"]
    numbered = facts.with_row_index("row").filter(pl.col("kind").is_in(COMPARED))
    return numbered.select("row", *columns).sort(~pl.col("is_seed"), "id")


def _by_meaning(facts: pl.DataFrame, rows: Vectors, least: float, per_seed: int, per_row: int) -> pl.DataFrame:
    """Pairs of one scope at the cosine, scope by scope."""
    parts = [pl.DataFrame(schema=_PLACES)]
    for scope in facts.filter(pl.col("is_seed").any().over("scope")).partition_by("scope", maintain_order=True):
        places = scope["place"].to_numpy()
        # The usual store has one scope: its vectors are not copied.
        own = rows if len(places) == len(rows) else rows[places]
        found = close_pairs(own, int(scope["is_seed"].sum()), least, per_seed, per_row)
        parts.append(pl.DataFrame({"first": places[found.first], "second": places[found.second]}, schema=_PLACES))
    return pl.concat(parts)


def _by_words(facts: pl.DataFrame, sets: pl.DataFrame, seeds: int, settings: MergeSettings) -> pl.DataFrame:
    """Pairs of one scope with equal or overlapping sets of words."""
    members = facts.select("wording", "place", "is_seed")
    has_seed = sets["set"].is_in(members.filter("is_seed")["wording"].implode())
    overlaps = shared_words(sets, has_seed, settings.text_dedup)
    same = members.filter("is_seed").select(first="wording", second="wording", jaccard=1.0).unique()
    wordings = pl.concat([overlaps, same.cast(overlaps.schema)])
    leaders = members.filter("is_seed").group_by("wording", maintain_order=True).head(SEED_MATCHES + 1)
    met = [
        wordings.join(leaders, left_on=one, right_on="wording").join(
            members, left_on=other, right_on="wording", suffix="_b"
        )
        for one, other in (("first", "second"), ("second", "first"))
    ]
    pairs = pl.concat([each.select("place", "place_b", "jaccard") for each in met])
    unique = pairs.select(
        first=pl.min_horizontal("place", "place_b"), second=pl.max_horizontal("place", "place_b"), jaccard="jaccard"
    ).filter(pl.col("first") != pl.col("second")).unique()  # fmt: skip
    first, second, measure = (unique[name].to_numpy() for name in ("first", "second", "jaccard"))
    # Facts that are not seeds are cut later, by cosine, together with the pairs by meaning.
    stays = best_of(first, second, measure, seeds, SEED_MATCHES, len(unique))
    return unique[stays].select(*_PLACES)


def _measured(pairs: pl.DataFrame, facts: pl.DataFrame, rows: Vectors, sets: pl.DataFrame) -> pl.DataFrame:
    """Both measures of every pair, exact."""
    words = sets["words"]
    parts = [pl.DataFrame(schema=_MEASURES)]
    for part in pairs.iter_slices(_MEASURED):
        first, second = part["first"], part["second"]
        sides = [words.gather(facts["wording"].gather(ends)) for ends in (first, second)]
        cosine = pl.Series(cosines(rows, first.to_numpy(), second.to_numpy()), dtype=pl.Float64)
        parts.append(part.with_columns(cosine=cosine, jaccard=overlap_of(*sides)))
    return pl.concat(parts)


def _cut(pairs: pl.DataFrame, seeds: int, settings: MergeSettings) -> pl.DataFrame:
    """The pairs of seeds, and each seed's best pairs with other facts (S1-02, S1-12)."""
    limit = settings.max_existing_matches
    outer = pairs.filter(pl.col("second") >= seeds).sort("first", -pl.col("cosine"), "second")
    if settings.rerank:
        nearest = outer.group_by("first", maintain_order=True).head(limit * settings.rerank_multiplier)
        score = 0.7 * pl.col("cosine") + 0.3 * pl.col("jaccard")
        outer = nearest.sort("first", -score, "second")
    best = outer.group_by("first", maintain_order=True).head(limit)
    return pl.concat([pairs.filter(pl.col("second") < seeds), best.select(pairs.columns)])


def _named(pairs: pl.DataFrame, facts: pl.DataFrame) -> pl.DataFrame:
    ids = facts["id"]
    ends = pairs.select("cosine", "jaccard", one=ids.gather(pairs["first"]), two=ids.gather(pairs["second"]))
    named = ends.select(
        a_id=pl.min_horizontal("one", "two"), b_id=pl.max_horizontal("one", "two"), cosine="cosine", jaccard="jaccard"
    )
    return named.sort("a_id", "b_id")


# Topics: pairs of facts about one matter, which share rare words (S1-02, S2-58, S2-62). "The sprint ends on 1 April"
# and "the sprint was extended" are no near neighbours by meaning alone, nor are a statement and its denial.


TOPICS = {"a_id": pl.String, "b_id": pl.String, "cosine": pl.Float64, "jaccard": pl.Float64, "shared": pl.Float64}
LEAST_SHARED = 4.0  # one word that few facts have, or two that some have
MATCHES = 12  # most pairs of one seed
_COMMON = 100  # a word of more facts is too common
_BACKGROUND = 30  # added to the number of facts, so that weights in small stores are similar
_WORD_WEIGHT, _MOST_WORDS = 0.03, 15.0
_NUMBER_WEIGHT, _DENIAL_WEIGHT, _END_WEIGHT = 0.3, 0.15, 0.5
_ENDS = ("never", "no longer", "used to")


def find_topics(facts: pl.DataFrame, vectors: Vectors) -> pl.DataFrame:
    """TOPICS: pairs of one scope with a seed that share rare words; `shared` is the sum of their weights.

    `facts` has id, scope, kind, statement and is_seed, its rows in the order of `vectors`, unit rows or zero.
    """
    numbered = facts.with_row_index("row")
    words = (
        numbered.select("id", "scope", "is_seed", word=content_stems("statement")).explode("word").drop_nulls("word")
    )
    often = words.group_by("scope", "word").agg(often=pl.len()).filter(pl.col("often").is_between(2, _COMMON))
    weight = ((len(facts) + _BACKGROUND) / pl.col("often")).log()
    rare = words.join(often, on=["scope", "word"], nulls_equal=True).select(
        "id", "scope", "is_seed", "word", weight=weight
    )
    met = rare.filter("is_seed").join(rare, on=["scope", "word"], nulls_equal=True, suffix="_b")
    both = met.filter(~pl.col("is_seed_b") | (pl.col("id") < pl.col("id_b")))
    shared = both.group_by("id", "id_b").agg(shared=pl.col("weight").sum()).filter(pl.col("shared") >= LEAST_SHARED)
    ends = pl.concat([shared.with_columns(owner="id"), shared.with_columns(owner="id_b")])
    best = ends.sort("owner", -pl.col("shared"), "id", "id_b").group_by("owner", maintain_order=True).head(MATCHES)
    pairs = best.unique(["id", "id_b"]).select(
        "shared", a_id=pl.min_horizontal("id", "id_b"), b_id=pl.max_horizontal("id", "id_b")
    )
    sides = beside(pairs, numbered.select("id", "row", "statement"))
    return sides.with_columns(
        word_overlap(sides["statement"], sides["statement_b"])["jaccard"],
        cosine=pl.Series(cosines(vectors, sides["row"].to_numpy(), sides["row_b"].to_numpy()), dtype=pl.Float64),
    ).select(*TOPICS).sort("a_id", "b_id")  # fmt: skip


def with_score(pairs: pl.DataFrame) -> pl.DataFrame:
    """Pairs with `score`, the priority of a question to a model.

    `pairs` have cosine, shared, statement and statement_b. Different numbers or negations in similar words may be a
    change or a contradiction; "never" or "no longer" on one side alone is the strongest sign.
    """
    texts = [straight(pairs[name]) for name in ("statement", "statement_b")]
    (amounts, amounts_b), (denials, denials_b) = (
        [read(text) for text in texts] for read in (read_amounts, read_polarities)
    )
    ends = [_tells_an_end(each) for each in (denials, denials_b)]
    signs = (
        (_NUMBER_WEIGHT, (amounts.list.len() > 0) & (amounts_b.list.len() > 0) & (amounts != amounts_b)),
        (_DENIAL_WEIGHT, denials != denials_b),
        (_END_WEIGHT, ends[0] != ends[1]),
    )
    words = pl.col("shared").fill_null(0.0).clip(upper_bound=_MOST_WORDS)
    score = pl.col("cosine").fill_null(0.0) + _WORD_WEIGHT * words
    return pairs.with_columns(score=score + sum(weight * sign.cast(pl.Float64) for weight, sign in signs))


def _tells_an_end(denials: pl.Series) -> pl.Series:
    """Whether a text says that something never was or is over; not so "do not stop"."""
    over = denials.list.set_intersection(list(_ENDS)).list.len() > 0
    return over | (denials.list.contains("stop") & ~denials.list.contains("not"))

"""Blocking: pairs of facts that are close in meaning (S1-02, S1-03, S1-12, S4-08).

Facts of different scopes never pair (S1-09), nor do structural facts of the graph (T33). Facts that share most of their
words are close in meaning: their overlap is measured of each pair that is found.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.common.comparison.guards import read_amounts, read_polarities, straight
from slowwave.common.comparison.similarity import Vectors, close_pairs, cosines, word_overlap
from slowwave.common.frames import beside
from slowwave.common.settings import MergeSettings
from slowwave.common.words import content_stems

PAIRS = {"a_id": pl.String, "b_id": pl.String, "cosine": pl.Float64, "jaccard": pl.Float64}
COMPARED = ("relation", "observation", "note")
SEED_MATCHES = 32  # most pairs of seeds for one seed; clusters are much smaller (S1-03)


def find_pairs(
    facts: pl.DataFrame, vectors: npt.NDArray[np.float32], settings: MergeSettings, resolve: float
) -> pl.DataFrame:
    """PAIRS with at least one seed, of one scope, with cosine ≥ `resolve`.

    `facts` has id, scope, kind, statement and is_seed, its rows in the order of `vectors` (n, d), unit rows or zero
    where there is none. A seed keeps its best `max_existing_matches` facts that are not seeds, by (cosine desc, id),
    or with `rerank` those with the best 0.7 · cosine + 0.3 · Jaccard of `rerank_multiplier` times as many; other seeds
    do not count (S1-02, S1-12).

    The number of pairs is linear in the seeds: a pair of seeds stays if it is among the best SEED_MATCHES of either.
    The result is ordered by id and does not depend on the order of the rows.
    """
    ordered = facts.with_row_index("row").filter(pl.col("kind").is_in(COMPARED)).sort(~pl.col("is_seed"), "id")
    ordered = ordered.with_columns(place=pl.int_range(pl.len(), dtype=pl.Int32))
    per_row = settings.max_existing_matches * (settings.rerank_multiplier if settings.rerank else 1)
    parts = [pl.DataFrame(schema={"first": pl.Int32, "second": pl.Int32, "cosine": pl.Float64})]
    for scope in ordered.filter(pl.col("is_seed").any().over("scope")).partition_by("scope", maintain_order=True):
        is_whole = len(scope) == len(vectors) and scope["row"].is_sorted()  # the usual store: nothing is copied
        own, places = vectors if is_whole else vectors[scope["row"].to_numpy()], scope["place"].to_numpy()
        near = close_pairs(own, int(scope["is_seed"].sum()), resolve, SEED_MATCHES, per_row)
        ends = {"first": places[near.first], "second": places[near.second], "cosine": near.cosine}
        parts.append(pl.DataFrame(ends, schema=parts[0].schema))
    pairs, ids, texts = pl.concat(parts), ordered["id"], ordered["statement"]
    pairs = pairs.with_columns(word_overlap(*(texts.gather(pairs[end]) for end in ("first", "second")))["jaccard"])
    if settings.rerank:
        is_inner = pl.col("second") < int(ordered["is_seed"].sum())
        score = 0.7 * pl.col("cosine") + 0.3 * pl.col("jaccard")
        outer = pairs.filter(~is_inner).sort("first", -score, "second").group_by("first", maintain_order=True)
        pairs = pl.concat([pairs.filter(is_inner), outer.head(settings.max_existing_matches)])
    named = pairs.with_columns(one=ids.gather(pairs["first"]), two=ids.gather(pairs["second"]))
    first, second = pl.min_horizontal("one", "two"), pl.max_horizontal("one", "two")
    return named.select("cosine", "jaccard", a_id=first, b_id=second).select(*PAIRS).sort("a_id", "b_id")


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

"""Which facts are about one matter, however it is put: they share words that few facts have (S1-02, S2-58, S2-62).

"The sprint ends on 1 April" and "the sprint was extended" are no near neighbours by meaning alone, nor are a denial and
what it denies.
"""

from __future__ import annotations

import polars as pl

from slowwave.application.patches import content_stems
from slowwave.frames import beside
from slowwave.merging.close_vectors import Vectors, cosines
from slowwave.merging.guard_marks import read_amounts, read_polarities, straight
from slowwave.similarity import word_overlap

TOPICS = {"a_id": pl.String, "b_id": pl.String, "cosine": pl.Float64, "jaccard": pl.Float64, "shared": pl.Float64}
LEAST_SHARED = 4.0  # one word that few facts have, or two that some have
MATCHES = 12  # pairs that a seed brings at most
_COMMON = 100  # a word of more facts says nothing about which of them belong together
_BACKGROUND = 30  # facts that every store is taken to have besides, so that small stores are weighed like others
_WORD_WEIGHT, _MOST_WORDS = 0.03, 15.0
_NUMBER_WEIGHT, _DENIAL_WEIGHT, _END_WEIGHT = 0.3, 0.15, 0.5
_ENDS = ("never", "no longer", "used to")


def find_topics(facts: pl.DataFrame, vectors: Vectors) -> pl.DataFrame:
    """TOPICS: pairs of one scope, a seed among them, that share rare words; `shared` is how much these weigh.

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
    """Pairs with the `score` by which a question is worth its tokens.

    They have cosine, shared, statement and statement_b. Another number or another negation in the same words may be a
    change, or a contradiction; "never" and "no longer" on one side alone are the likeliest sign of one.
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
    """Whether a text says that something never was or is over; "do not stop" does not."""
    over = denials.list.set_intersection(list(_ENDS)).list.len() > 0
    return over | (denials.list.contains("stop") & ~denials.list.contains("not"))

"""Which known facts does a text mean? Those whose words a directive names, and those about the same matter (S1-21)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

import numpy as np
import polars as pl

from slowwave.common.comparison.similarity import Vectors
from slowwave.common.text import prose, sentences
from slowwave.common.words import subject_words

from .mutual_exclusion import telling
from .revision_state import Fact

_QUOTED_BY = re.compile(r"^[^\"“:]{2,80}:\s[\"“]?|[\"”]$")


def telling_words(words: str) -> list[str]:
    """The content words of a text in lower case, for the search in statements."""
    return [word.lower() for word in telling(words)]


LIKELY = 0.5
"""Share of the words `old` from which on a fact may be what they name."""
MOST_LIKELY = 2


def may_mean(old: str, facts: Iterable[Fact]) -> list[Fact]:
    """The MOST_LIKELY facts that say most of the words `old`, for a model to judge; of equals the shorter first."""
    words = set(telling_words(old))
    said = ((len(words & {*telling_words(unquoted(fact["statement"]))}), fact) for fact in facts)
    likely = [(n, fact) for n, fact in said if n and n >= LIKELY * len(words) and fact["polarity"] != "negated"]
    likely.sort(key=lambda pair: (-pair[0], len(pair[1]["statement"]), pair[1]["id"]))
    return [fact for _, fact in likely[:MOST_LIKELY]]


@lru_cache(maxsize=65_536)
def unquoted(statement: str) -> str:
    """A statement without the name of the quoted speaker and the quotation marks."""
    return _QUOTED_BY.sub("", statement)


# Counterparts: facts about the same matter that a statement may contradict or update. They differ in numbers and
# denials, so these are left out of the comparison; the other words are weighed by BM25, with the cosine beside it. A
# text of several claims is searched once for each claim, because a denial is a small part of a long text and of its
# vector. The weight of the cosine was chosen among 0, 4 and 8 on the development pairs; it moves one of them at most.


CANDIDATES = {"id": pl.String, "candidate_id": pl.String, "place": pl.Int64, "score": pl.Float64}
MEANING_WEIGHT = 4.0  # about the BM25 weight of one shared word of medium frequency
CLAIMS_THAT_COUNT = 2
"""What a window says of a matter it mostly says twice. Of the facts that updates of a development user replace, the
best 24 by two claims have .58, by one .51, by the claims in turn .44, by three .55."""
STANDS_OUT = 10
"""A claim speaks for a fact by how far the fact is above its tenth best: a long claim is a little like many facts, and
outweighed one in few words that is about a single one. Of the states and tastes that updates of a development user
replace (62), the best 36 have .53 so, by the scores themselves .40."""
_SATURATION, _LENGTH = 1.2, 0.75  # the usual k1 and b


def claims_of(text: str) -> list[str]:
    """The sentences of a text that state something, without questions; the whole prose if there is none.

    For texts longer than a fact; a fact is one claim.
    """
    plain = prose(text)
    return [each for each in sentences(plain) if not each.rstrip().endswith("?")] or [plain]


def find_counterparts(
    questions: pl.DataFrame,
    question_vectors: Vectors,
    candidates: pl.DataFrame,
    candidate_vectors: Vectors,
    k: int = 20,
    weights: Vectors | None = None,
) -> pl.DataFrame:
    """CANDIDATES: for each id of `questions` the `k` of `candidates` that are most about the same matter, best first.

    Only of its scope, and never itself. Both frames have id, scope and statement, with rows in the order of their
    vectors (unit, or zero if there is none). A claim and a candidate score BM25 of shared words + MEANING_WEIGHT ·
    cosine, times the candidate's weight (m,). An id may have several rows, one for each claim: for each candidate the
    CLAIMS_THAT_COUNT count that it scores best with, by the mean of what it is above the claim's STANDS_OUT-th best.
    Ties are broken by id.
    """
    parts = [pl.DataFrame(schema=CANDIDATES)]
    ordered = candidates.with_row_index("row").sort("id")
    numbered = questions.with_row_index("row")
    for (scope,), part in numbered.partition_by("scope", as_dict=True, maintain_order=True).items():
        options = ordered.filter(pl.col("scope") == scope)
        if len(options):
            rows = options["row"].to_numpy()
            each = np.ones(len(rows), np.float32) if weights is None else weights[rows]
            parts += _in_scope(part, question_vectors, options, candidate_vectors[rows], each, k)
    found = pl.concat(parts)
    order = questions.select("id").unique(maintain_order=True).with_row_index("order")
    return found.join(order, on="id").sort("order", "place").select(*CANDIDATES)


def _in_scope(
    questions: pl.DataFrame, asking: Vectors, options: pl.DataFrame, vectors: Vectors, weights: Vectors, k: int
) -> Iterator[pl.DataFrame]:
    postings, ids = _postings(options["statement"]), options["id"]
    for claims in questions.partition_by("id", maintain_order=True):
        name = claims["id"][0]
        scores = _scores(claims["statement"], asking[claims["row"].to_numpy()] @ vectors.T, postings) * weights
        usual = np.sort(scores, axis=1)[:, -min(STANDS_OUT, len(ids))]
        best = np.sort(scores - usual[:, None], axis=0)[-CLAIMS_THAT_COUNT:].mean(axis=0)
        best[(ids == name).to_numpy()] = -np.inf
        places = np.argsort(-best, kind="stable")[: min(k, int(np.isfinite(best).sum()))]
        yield pl.DataFrame(
            {"id": name, "candidate_id": ids.gather(places), "place": np.arange(1, len(places) + 1),
             "score": best[places]}, schema=CANDIDATES, strict=False,
        )  # fmt: skip


def _scores(claims: pl.Series, cosines: Vectors, postings: pl.DataFrame) -> Vectors:
    """(claims, candidates) the score of each pair."""
    scores = np.maximum(cosines, 0.0) * np.float32(MEANING_WEIGHT)
    words = pl.DataFrame({"claim": np.arange(len(claims)), "word": subject_words(claims)})
    met = words.explode("word").drop_nulls("word").unique().join(postings, on="word")
    sums = met.group_by("claim", "place").agg(pl.col("weight").sum())
    scores[sums["claim"].to_numpy(), sums["place"].to_numpy()] += sums["weight"].to_numpy().astype(np.float32)
    return scores


def _postings(statements: pl.Series) -> pl.DataFrame:
    """(word, place, weight): the BM25 weight of each word in each statement."""
    words = pl.DataFrame({"place": np.arange(len(statements)), "word": subject_words(statements)})
    counted = words.explode("word").drop_nulls("word").group_by("place", "word").len("count")
    length = pl.col("count").sum().over("place")
    mean = max(float(counted["count"].sum()) / max(len(statements), 1), 1.0)
    often = pl.len().over("word")
    rarity = (1 + (len(statements) - often + 0.5) / (often + 0.5)).log()
    norm = _SATURATION * (1 - _LENGTH + _LENGTH * length / mean)
    return counted.with_columns(weight=rarity * pl.col("count") * (_SATURATION + 1) / (pl.col("count") + norm))

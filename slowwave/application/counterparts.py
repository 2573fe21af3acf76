"""What a statement may contradict or bring up to date: facts about the same thing, whatever they say of it.

A redundant fact says the same; a counterpart says something else of the same matter. So what differs between the two is
left out of the comparison (numbers, denials), and what names the matter is weighed by how rare it is (BM25), with the
meaning beside it. A text of several claims asks once for each: a denial in a long request is a small part of its words
and of its vector. The weight of the cosine was chosen among
0, 4 and 8 on the development pairs, of which it moves one at most.
"""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from slowwave.merging.guard_words import FUNCTION_WORDS
from slowwave.ranking.ranking import prose
from slowwave.reading.clauses import split
from slowwave.similarity import Vectors, top_of
from slowwave.text import ENDING, sentences, word_set

CANDIDATES = {"id": pl.String, "candidate_id": pl.String, "place": pl.Int64, "score": pl.Float64}
MEANING_WEIGHT = 4.0  # a shared word of middling rarity weighs as much in BM25
_SATURATION, _LENGTH = 1.2, 0.75  # the usual k1 and b
_CELLS = 20_000_000  # scores held at once
_DENIALS = word_set(
    "not never no none nothing nobody cannot can't don't doesn't didn't haven't hasn't hadn't isn't aren't wasn't "
    "weren't won't wouldn't couldn't shouldn't"
)
_UNSAID = sorted({*FUNCTION_WORDS, *_DENIALS})
_CLAIMED = re.compile(
    r"\b(?:have|has|had|never|recently|already|now|been|he|ha|hemos|nunca|ya|ahora)\b|['’]ve\b|\b(?:I|we)\s(?:\w+ly\s)?\w+ed\b",
    re.IGNORECASE,
)
_ASKING = re.compile(
    r"(?:[,;:–—-]\s*|\s+)(?:(?:and|so|but)\s+)?(?:(?:can|could|would|will)\s+you|(?<=[,;:–—-]\s)(?:how|what|why|which|where"
    r"|when|should|is|are|do|does|(?:and|so|but)\s+(?:how|what|why|should)))\b[^?]*\?\s*$",
    re.IGNORECASE,
)


def claims_of(text: str) -> list[str]:
    """The clauses of a text that tell what was or is, without what is asked; the whole prose where none does.

    For texts longer than a fact; a fact is one claim.
    """
    told = prose(text)
    clauses = [_ASKING.sub("", clause) for sentence in sentences(told) for _, clause in split(sentence)]
    claims = [clause for clause in clauses if _CLAIMED.search(clause) and not clause.rstrip().endswith("?")]
    return claims or [told]


def find_counterparts(
    asked: pl.DataFrame, asked_vectors: Vectors, pool: pl.DataFrame, pool_vectors: Vectors, k: int = 20
) -> pl.DataFrame:
    """CANDIDATES: for each id of `asked` the `k` of `pool` that are most about the same, best first.

    Only of its scope, and never itself. Both frames have id, scope and statement, rows in the order of their vectors
    (unit, or zero where there is none).
    An id may be asked about in several rows, one for each claim: its candidates are then taken from the claims in turn,
    and `score` is the best claim's: BM25 of the words in common + MEANING_WEIGHT · cosine. Ties end in id.
    """
    parts = [pl.DataFrame(schema=CANDIDATES)]
    held = pool.with_row_index("row").sort("id")
    asking = asked.with_row_index("row")
    for (scope,), questions in asking.partition_by("scope", as_dict=True, maintain_order=True).items():
        options = held.filter(pl.col("scope") == scope)
        if len(options):
            vectors = pool_vectors[options["row"].to_numpy()]
            parts.append(_in_scope(questions, asked_vectors, options, vectors, k))
    found = pl.concat(parts)
    order = asked.select("id").unique(maintain_order=True).with_row_index("order")
    return found.join(order, on="id").sort("order", "place").select(*CANDIDATES)


def _in_scope(
    questions: pl.DataFrame, asked_vectors: Vectors, options: pl.DataFrame, vectors: Vectors, k: int
) -> pl.DataFrame:
    weights = _postings(options["statement"])
    width = min(k + 1, len(options))  # one more: it may be itself
    parts = [
        _best(part, asked_vectors[part["row"].to_numpy()] @ vectors.T, weights, options["id"], width)
        for part in questions.iter_slices(max(1, _CELLS // len(options)))
    ]
    ranked = pl.concat(parts).filter(pl.col("id") != pl.col("candidate_id"))
    ranked = ranked.with_columns(turn=pl.int_range(pl.len()).over("row"))
    merged = ranked.group_by("id", "candidate_id").agg(pl.col("turn").min(), pl.col("score").max())
    first = merged.sort("id", "turn", -pl.col("score"), "candidate_id").group_by("id", maintain_order=True).head(k)
    return first.with_columns(place=pl.int_range(1, pl.len() + 1).over("id")).select(
        pl.col(name).cast(kind) for name, kind in CANDIDATES.items()
    )


def _best(
    questions: pl.DataFrame, cosines: Vectors, postings: pl.DataFrame, ids: pl.Series, width: int
) -> pl.DataFrame:
    """(row, id, candidate_id, score) of the `width` best for each question, best first."""
    scores = np.maximum(cosines, 0.0) * np.float32(MEANING_WEIGHT)
    words = pl.DataFrame({"question": np.arange(len(questions)), "word": subject_words(questions["statement"])})
    met = words.explode("word").drop_nulls("word").unique().join(postings, on="word")
    sums = met.group_by("question", "place").agg(pl.col("weight").sum())
    scores[sums["question"].to_numpy(), sums["place"].to_numpy()] += sums["weight"].to_numpy().astype(np.float32)
    places, values = top_of(scores, width)
    return pl.DataFrame(
        {
            "row": np.repeat(questions["row"].to_numpy(), width),
            "id": questions["id"].gather(np.repeat(np.arange(len(questions)), width)),
            "candidate_id": ids.gather(places.ravel()),
            "score": values.ravel().astype(np.float64),
        }
    )


def _postings(statements: pl.Series) -> pl.DataFrame:
    """(word, place, weight): what each word of each statement adds to BM25."""
    words = pl.DataFrame({"place": np.arange(len(statements)), "word": subject_words(statements)})
    counted = words.explode("word").drop_nulls("word").group_by("place", "word").len("count")
    length = pl.col("count").sum().over("place")
    mean = max(float(counted["count"].sum()) / max(len(statements), 1), 1.0)
    often = pl.len().over("word")
    rarity = (1 + (len(statements) - often + 0.5) / (often + 0.5)).log()
    norm = _SATURATION * (1 - _LENGTH + _LENGTH * length / mean)
    return counted.with_columns(weight=rarity * pl.col("count") * (_SATURATION + 1) / (pl.col("count") + norm))


def subject_words(texts: pl.Series) -> pl.Series:
    """Per text the words that name what it is about, without common endings: no function words, denials, numbers."""
    word = pl.element()
    return (
        texts.cast(pl.String)
        .fill_null("")
        .str.to_lowercase()
        .str.replace_all("’", "'")
        .str.extract_all(r"[\p{L}\p{N}]+(?:'[\p{L}\p{N}]+)?")
        .list.eval(word.str.strip_suffix("'s"))
        .list.eval(word.filter(~word.is_in(_UNSAID) & ~word.str.contains(r"\p{N}")))
        .list.eval(pl.when(word.str.len_chars() > 4).then(word.str.replace(ENDING, "")).otherwise(word))
    )

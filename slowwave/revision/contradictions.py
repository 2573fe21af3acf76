"""Flags for possible contradictions that no rule settles (S2-75).

Three kinds: relations of one subject with almost the same spelling; two objects where one is allowed and the order is
not clear; and a statement that says itself that it contradicts a fact. A flag of the last kind stays as long as both
facts do, the others expire after some days.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta

import numpy as np
import polars as pl
from rapidfuzz.distance import Levenshtein

from slowwave import frames
from slowwave.comparison.similarity import Vectors, top_of
from slowwave.extraction.clauses import split
from slowwave.lexicon.statement_words import FUNCTION_WORDS
from slowwave.ranking.ranking import prose
from slowwave.settings import ReviseSettings
from slowwave.text import ENDING, row_id, sentences, word_set

from .revision_state import STATED, Doubt

KIND = "implicit_conflict"
PENDING, SETTLED = "pending", "settled"
_SIDES = ["id", "scope", "subject_id", "predicate", "object_key"]


def find_implicit_conflicts(
    fresh: pl.DataFrame, live: pl.DataFrame, settings: ReviseSettings, now: datetime
) -> pl.DataFrame:
    """PAIR_DECISIONS, pending for some days: relations of one subject with similar spelling and different objects.

    `fresh` are the candidates that stay, `live` the facts that were there before and still hold. Empty if the setting
    is off.
    """
    if not settings.implicit_conflicts or fresh.is_empty():
        return frames.empty(frames.PAIR_DECISIONS)
    related = (pl.col("kind") == "relation") & (pl.col("predicate").fill_null("") != "")
    new, known = (part.filter(related).select(_SIDES) for part in (fresh, live))
    pairs = new.join(pl.concat([new, known]), on=["scope", "subject_id"], suffix="_b").filter(
        pl.col("predicate") != pl.col("predicate_b"), pl.col("object_key") != pl.col("object_key_b")
    )
    alike = _spelt_alike(pairs, settings.implicit_similarity)
    found = pairs.join(alike, on=["predicate", "predicate_b"]).select(
        a_id=pl.min_horizontal("id", "id_b"), b_id=pl.max_horizontal("id", "id_b")
    )
    return _flagged(found, settings, now)


def flag_doubts(doubts: Iterable[Doubt], gone: pl.Series, settings: ReviseSettings, now: datetime) -> pl.DataFrame:
    """PAIR_DECISIONS, pending: conflicts that no rule settles, and stated contradictions; without facts of `gone`.

    The guard of a stated contradiction is STATED, and it does not expire.
    """
    rows = [(*sorted(pair), guard or None) for *pair, guard in doubts]
    found = pl.DataFrame(rows, schema={"a_id": pl.String, "b_id": pl.String, "guard": pl.String}, orient="row")
    there = found.filter(~pl.any_horizontal(pl.col("a_id", "b_id").is_in(gone.implode())))
    flagged = _flagged(there.sort("guard", nulls_last=True).unique(["a_id", "b_id"], keep="first"), settings, now)
    stays = (pl.col("guard") == STATED).fill_null(False)
    by = pl.when(stays).then(pl.lit("model")).otherwise("decided_by")  # the extractor said so: no second question
    return flagged.with_columns(expires_at=pl.when(~stays).then("expires_at"), decided_by=by)


def settle_flags(pending: pl.DataFrame, gone: pl.Series, now: datetime) -> pl.DataFrame:
    """The pending flags (PAIR_DECISIONS) with a fact of `gone`, as settled by a later statement."""
    is_pending = (pl.col("kind") == KIND) & (pl.col("outcome") == PENDING)
    over = pl.any_horizontal(pl.col("a_id", "b_id").is_in(gone.implode()))
    return pending.filter(is_pending, over).with_columns(
        outcome=pl.lit(SETTLED), decided_by=pl.lit("rule"), at=pl.lit(now, dtype=frames.TIME)
    )


def _flagged(found: pl.DataFrame, settings: ReviseSettings, now: datetime) -> pl.DataFrame:
    found = found.unique().sort("a_id", "b_id")
    ids = [row_id("pd", a, b, KIND) for a, b in found.select("a_id", "b_id").iter_rows()]
    rows = found.with_columns(
        id=pl.Series(ids, dtype=pl.String),
        kind=pl.lit(KIND),
        outcome=pl.lit(PENDING),
        decided_by=pl.lit("rule"),
        at=pl.lit(now, dtype=frames.TIME),
        expires_at=pl.lit(now + timedelta(days=settings.implicit_ttl_days), dtype=frames.TIME),
    )
    return frames.conform(rows, frames.PAIR_DECISIONS)


def _spelt_alike(pairs: pl.DataFrame, least: float) -> pl.DataFrame:
    """(predicate, predicate_b) with a Levenshtein similarity of at least `least`."""
    names = pairs.select("predicate", "predicate_b").unique()
    alike = [Levenshtein.normalized_similarity(a, b) >= least for a, b in names.iter_rows()]
    return names.filter(pl.Series(alike, dtype=pl.Boolean))


# Counterparts: facts about the same matter that a statement may contradict or update. They differ in numbers and
# denials, so these are left out of the comparison; the other words are weighed by BM25, with the cosine beside it. A
# text of several claims is searched once for each claim, because a denial is a small part of a long text and of its
# vector. The weight of the cosine was chosen among 0, 4 and 8 on the development pairs; it moves one of them at most.


CANDIDATES = {"id": pl.String, "candidate_id": pl.String, "place": pl.Int64, "score": pl.Float64}
MEANING_WEIGHT = 4.0  # about the BM25 weight of one shared word of medium frequency
_SATURATION, _LENGTH = 1.2, 0.75  # the usual k1 and b
_CELLS = 20_000_000  # scores in memory at once
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
    """The clauses of a text that state something, without questions; the whole prose if there is none.

    For texts longer than a fact; a fact is one claim.
    """
    plain = prose(text)
    clauses = [_ASKING.sub("", clause) for sentence in sentences(plain) for _, clause in split(sentence)]
    claims = [clause for clause in clauses if _CLAIMED.search(clause) and not clause.rstrip().endswith("?")]
    return claims or [plain]


def find_counterparts(
    questions: pl.DataFrame,
    question_vectors: Vectors,
    candidates: pl.DataFrame,
    candidate_vectors: Vectors,
    k: int = 20,
) -> pl.DataFrame:
    """CANDIDATES: for each id of `questions` the `k` of `candidates` that are most about the same matter, best first.

    Only of its scope, and never itself. Both frames have id, scope and statement, with rows in the order of their
    vectors (unit, or zero if there is none). An id may have several rows, one for each claim: its candidates are then
    taken from the claims in turn, and `score` is the best: BM25 of shared words + MEANING_WEIGHT · cosine. Ties are
    broken by id.
    """
    parts = [pl.DataFrame(schema=CANDIDATES)]
    ordered = candidates.with_row_index("row").sort("id")
    numbered = questions.with_row_index("row")
    for (scope,), part in numbered.partition_by("scope", as_dict=True, maintain_order=True).items():
        options = ordered.filter(pl.col("scope") == scope)
        if len(options):
            vectors = candidate_vectors[options["row"].to_numpy()]
            parts.append(_in_scope(part, question_vectors, options, vectors, k))
    found = pl.concat(parts)
    order = questions.select("id").unique(maintain_order=True).with_row_index("order")
    return found.join(order, on="id").sort("order", "place").select(*CANDIDATES)


def _in_scope(
    questions: pl.DataFrame, question_vectors: Vectors, options: pl.DataFrame, vectors: Vectors, k: int
) -> pl.DataFrame:
    weights = _postings(options["statement"])
    width = min(k + 1, len(options))  # one more: it may be itself
    parts = [
        _best(part, question_vectors[part["row"].to_numpy()] @ vectors.T, weights, options["id"], width)
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
    """(word, place, weight): the BM25 weight of each word in each statement."""
    words = pl.DataFrame({"place": np.arange(len(statements)), "word": subject_words(statements)})
    counted = words.explode("word").drop_nulls("word").group_by("place", "word").len("count")
    length = pl.col("count").sum().over("place")
    mean = max(float(counted["count"].sum()) / max(len(statements), 1), 1.0)
    often = pl.len().over("word")
    rarity = (1 + (len(statements) - often + 0.5) / (often + 0.5)).log()
    norm = _SATURATION * (1 - _LENGTH + _LENGTH * length / mean)
    return counted.with_columns(weight=rarity * pl.col("count") * (_SATURATION + 1) / (pl.col("count") + norm))


def subject_words(texts: pl.Series) -> pl.Series:
    """Per text the stems of its subject words: no function words, denials, numbers."""
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

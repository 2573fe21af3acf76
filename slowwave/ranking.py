"""What is searched, and in which order it is recalled.

Two channels see different things: BM25 finds the words of a message and of the turn that it answers, vectors find the
meaning of the single statements in it. A convex combination of the two scores beats rank fusion, because it keeps how
much better one hit is than the next (Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval",
ACM TOIS 42(1), 2023). `reciprocal_rank_fusion` is for channels whose scores cannot be compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from slowwave.text import strip_code

RRF_K = 60
VECTOR_WEIGHT = 1.0
CONTEXT_CHARACTERS = 200
CONTEXT_ROLES = ("user", "assistant")


def reciprocal_rank_fusion(
    rankings: Sequence[Sequence[str] | pl.Series], k: int = RRF_K, weights: Sequence[float] | None = None
) -> pl.DataFrame:
    """Rankings (ids, best first) → `id`, `score`, best first; ties by id.

    Score = Σ weight / (k + rank), ranks from 1 (Cormack, Clarke and Büttcher, SIGIR 2009; S0-26). An id that one
    ranking names twice counts at its better place.
    """
    factors = [1.0] * len(rankings) if weights is None else list(weights)
    if len(factors) != len(rankings):
        raise ValueError(f"{len(factors)} weights for {len(rankings)} rankings: give one weight for each ranking.")
    parts = [
        pl.DataFrame({"id": pl.Series(ids, dtype=pl.String).unique(maintain_order=True)})
        .with_row_index("rank", offset=1)
        .select("id", score=factor / (k + pl.col("rank").cast(pl.Float64)))
        for ids, factor in zip(rankings, factors, strict=True)
    ]
    whole = pl.concat(parts) if parts else pl.DataFrame(schema={"id": pl.String, "score": pl.Float64})
    return whole.group_by("id").agg(pl.col("score").sum()).sort("score", "id", descending=[True, False])


def prose(text: str) -> str:
    """What of a text or a query is compared: without fenced code, unless there is nothing else."""
    return strip_code(text).strip() or text


def search_texts(messages: pl.DataFrame) -> pl.Series:
    """The text under which each message is found: the end of the turn that it answers, then speaker and prose.

    Reads `conversation_id, ordinal, role, speaker, content, has_injection`; row order is kept. A question holds the
    words by which its answer is asked for later. Only turns of people and assistants give context, and none that gives
    orders to its reader; passages of documents take none. Earlier messages of a conversation must be in the frame for
    its first new one to get its context.
    """
    said = pl.format("{}: {}", pl.col("speaker").fill_null(""), pl.col("prose"))
    talks = pl.col("role").is_in(CONTEXT_ROLES)
    gives = talks & ~pl.col("has_injection").fill_null(False) & (pl.col("prose") != "")
    end = pl.format("{}: {}\n", pl.col("speaker").fill_null(""), pl.col("prose").str.tail(CONTEXT_CHARACTERS))
    before = pl.when(gives).then(end).forward_fill().shift(1).over("conversation_id")
    return (
        messages.with_row_index("place")
        .with_columns(prose=pl.col("content").fill_null("").map_elements(prose, pl.String))
        .sort("conversation_id", "ordinal", "place")
        .with_columns(search_text=pl.when(talks).then(before.fill_null("")).otherwise(pl.lit("")) + said)
        .sort("place")["search_text"]
    )


@dataclass(frozen=True, slots=True)
class Evidence:
    """One message that supports a fact, or a message without facts (`fact_id` None); its cosine to the query."""

    fact_id: str | None
    message_id: str
    cosine: float


@dataclass(frozen=True, slots=True)
class Recalled:
    """One place in the order of recall; `sources` are its messages, the one that has most of the words first."""

    fact_id: str | None
    sources: tuple[str, ...]
    cosine: float
    lexical: float
    score: float


def lexical_scores(bm25: Mapping[str, float]) -> dict[str, float]:
    """BM25 of the full-text hits by message → each as a share of the best one, in [0, 1]."""
    best = max(bm25.values(), default=0.0)
    return {message: score / best if best > 0.0 else 0.0 for message, score in bm25.items()}


def best_messages(
    lexical: Mapping[str, float], near: Iterable[tuple[str, float]], limit: int, vector_weight: float = VECTOR_WEIGHT
) -> list[str]:
    """The messages whose facts are worth reading, best first, ties by id, at most `limit`.

    `near` names a message with its cosine for each vector, of the message or of a fact of it, that was compared.
    """
    closest: dict[str, float] = {}
    for message, cosine in near:
        closest[message] = max(cosine, closest.get(message, 0.0))
    scores = {m: lexical.get(m, 0.0) + vector_weight * closest.get(m, 0.0) for m in {*lexical, *closest}}
    return sorted(scores, key=lambda message: (-scores[message], message))[:limit]


def rank_facts(
    evidence: Iterable[Evidence], lexical: Mapping[str, float], vector_weight: float = VECTOR_WEIGHT
) -> list[Recalled]:
    """Facts, and messages without facts, in the order of recall; ties by id.

    Score = lexical score of its best message + `vector_weight` · max(cosine, 0). The n-th fact of one message counts
    1/n, so that the first places name different messages.
    """
    messages: dict[tuple[str | None, str], set[str]] = {}
    cosines: dict[tuple[str | None, str], float] = {}
    for row in evidence:
        key = (row.fact_id, "" if row.fact_id is not None else row.message_id)
        messages.setdefault(key, set()).add(row.message_id)
        cosines[key] = max(row.cosine, cosines.get(key, row.cosine))
    whole = sorted(
        (_recalled(key[0], messages[key], cosines[key], lexical, vector_weight) for key in messages), key=_place
    )
    seen: Counter[str] = Counter()
    spread = []
    for fact in whole:
        seen[fact.sources[0]] += 1
        spread.append(replace(fact, score=fact.score / seen[fact.sources[0]]))
    return sorted(spread, key=_place)


def _recalled(
    fact_id: str | None, messages: set[str], cosine: float, lexical: Mapping[str, float], vector_weight: float
) -> Recalled:
    sources = tuple(sorted(messages, key=lambda message: (-lexical.get(message, 0.0), message)))
    words = lexical.get(sources[0], 0.0)
    return Recalled(fact_id, sources, cosine, words, words + vector_weight * max(cosine, 0.0))


def _place(fact: Recalled) -> tuple[float, str, str]:
    return (-fact.score, fact.fact_id or "", fact.sources[0])

"""What is searched, and in which order it is recalled.

Two channels see different things: BM25 finds the words of a message and of the turn that it answers, vectors find the
meaning of the single statements in it. A convex combination of the two scores beats rank fusion, because it keeps how
much better one hit is than the next (Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval",
ACM TOIS 42(1), 2023). `reciprocal_rank_fusion` is for channels whose scores cannot be compared.
"""

from __future__ import annotations

from collections.abc import Sequence

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

    Score = Σ weight / (k + rank), ranks from 1 (Cormack, Clarke and Büttcher, SIGIR 2009; S0-26). An id that one ranking
    names twice counts at its better place.
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

    Reads `conversation_id, ordinal, role, speaker, content, has_injection`; row order is kept. A question holds the words
    by which its answer is asked for later. Only turns of people and assistants give context, and none that gives
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


def lexical_scores(hits: pl.DataFrame) -> pl.DataFrame:
    """Full-text hits `message_id, bm25` → `message_id, lexical` in [0, 1]: each as a share of the best one."""
    return hits.select("message_id", lexical=(pl.col("bm25") / pl.col("bm25").max()).fill_nan(0.0).cast(pl.Float64))


def best_messages(
    lexical: pl.DataFrame, near: pl.DataFrame, limit: int, vector_weight: float = VECTOR_WEIGHT
) -> pl.DataFrame:
    """The messages whose facts are worth reading: `message_id, score`, best first, at most `limit`.

    `lexical` has `message_id, lexical`; `near` has `message_id, cosine`, a row for each vector (of a message or of a
    fact of it) that was compared with the query.
    """
    closest = near.group_by("message_id").agg(pl.col("cosine").max())
    both = lexical.join(closest, on="message_id", how="full", coalesce=True)
    return (
        both.select("message_id", score=_combined(vector_weight))
        .sort("score", "message_id", descending=[True, False])
        .head(limit)
    )


def rank_facts(evidence: pl.DataFrame, lexical: pl.DataFrame, vector_weight: float = VECTOR_WEIGHT) -> pl.DataFrame:
    """Facts in the order of recall: `fact_id, cosine, lexical, score, sources`, best first; ties by id.

    `evidence` has `fact_id, message_id, cosine`, a row for each message that supports a fact; a message without facts is
    a row without `fact_id` and stands for itself. A fact scores its cosine to the query (negative ones as 0) times
    `vector_weight`, plus the lexical score of its best message. The n-th fact of one message counts 1/n, so that the
    first places name different messages. `sources` are its messages, best first.
    """
    known = evidence.join(lexical, on="message_id", how="left").with_columns(pl.col("lexical").fill_null(0.0))
    alone = pl.when(pl.col("fact_id").is_null()).then("message_id").alias("alone")
    facts = (
        known.sort("lexical", "message_id", descending=[True, False])
        .group_by("fact_id", alone, maintain_order=True)
        .agg(pl.col("cosine").max(), pl.col("lexical").first(), sources=pl.col("message_id").unique(maintain_order=True))
        .with_columns(score=_combined(vector_weight), lead=pl.col("sources").list.first())
        .sort("score", "fact_id", "lead", descending=[True, False, False])
    )
    nth = pl.int_range(1, pl.len() + 1).over("lead")
    return (
        facts.with_columns(score=pl.col("score") / nth)
        .sort("score", "fact_id", "lead", descending=[True, False, False], nulls_last=True)
        .select("fact_id", "cosine", "lexical", "score", "sources")
    )


def _combined(vector_weight: float) -> pl.Expr:
    return pl.col("lexical").fill_null(0.0) + vector_weight * pl.col("cosine").fill_null(0.0).clip(lower_bound=0.0)

"""Statements: what somebody says of an entity outside any conversation becomes rows of candidates to store."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import polars as pl

from slowwave import frames
from slowwave.application.patches import MAX_QUOTE, build_candidates
from slowwave.embedded_texts import OBSERVATIONS
from slowwave.reading.hints import find_hint
from slowwave.settings import ExtractSettings
from slowwave.text import digest, row_id
from storage.rows import quoted
from storage.snapshots import Reading
from storage.transactions import Transaction

from .admission import episode_id
from .engine import log
from .runs import Run, embedder_of, vector_column
from .targets import Target

CONVERSATION = OBSERVATIONS
SPEAKER = "user"
RELATION = "observed"
SCOPE = "global"


@dataclass(frozen=True, slots=True, eq=False)
class Statements:
    """Rows to store, vectors included: one message and one candidate for each text."""

    target: Target
    entities: pl.DataFrame
    messages: pl.DataFrame
    facts: pl.DataFrame
    batches: pl.DataFrame


def state(run: Run, reading: Reading, target: Target, texts: pl.Series) -> Statements:
    """The texts as candidates about the target, in one batch that a person decided to bring in."""
    messages = _messages(run, reading, target, texts)
    hints = pl.Series("temporal_hint", [find_hint(text) or None for text in texts], dtype=pl.String)
    claims = messages.select(
        window=pl.lit(0, dtype=pl.Int64),
        message_id="id",
        kind=pl.lit("observation"),
        subject=pl.lit(target.name),
        relation=pl.lit(RELATION),
        statement="content",
        confidence=pl.lit(1.0),
    ).with_columns(hints)
    said = messages.with_columns(episode_id=pl.lit(episode_id(CONVERSATION)))
    made = build_candidates(
        claims, said, target.resolution.names, reading.frame("predicates"), ExtractSettings(), run.now
    )
    whose = [pl.lit(f"{CONVERSATION}:{target.id}").alias("source_key"), pl.lit("person").alias("decided_by")]
    facts = made.facts.with_columns(quote=pl.col("statement").str.slice(0, MAX_QUOTE), embed_model=pl.lit(run.embedder))
    return Statements(
        target,
        _entities(run, reading, target),
        _with_vectors(run, messages, messages.select("id", text="search_text")),
        _with_vectors(run, facts, facts.select("id", text="statement")),
        made.batches.with_columns(whose),
    )


def _messages(run: Run, reading: Reading, target: Target, texts: pl.Series) -> pl.DataFrame:
    """What was said, as messages of one conversation; nothing is left to extract from them."""
    first = reading.count("messages", f"conversation_id = {quoted(CONVERSATION)}")
    names = [f"observation-{digest(target.id, text, run.now)}" for text in texts]
    return pl.DataFrame({"message_id": names, "content": texts}).with_columns(
        id=pl.Series([row_id("m", CONVERSATION, name) for name in names], dtype=pl.String),
        conversation_id=pl.lit(CONVERSATION),
        ordinal=pl.int_range(first, first + len(texts), dtype=pl.Int64),
        role=pl.lit("user"),
        speaker=pl.lit(SPEAKER),
        search_text=pl.lit(f"{target.name}: ") + pl.col("content"),
        occurred_at=_moments(run, len(texts)),
        scope=pl.lit(SCOPE),
        has_injection=pl.lit(False),
        graph_state=pl.lit("done"),
        attempts=pl.lit(0, dtype=pl.Int64),
    )


def _moments(run: Run, count: int) -> pl.Series:
    """A microsecond for each text, the last of them now: they are decided in the order in which they were given."""
    moments = [run.now - timedelta(microseconds=left) for left in reversed(range(count))]
    return pl.Series(moments, dtype=frames.TIME)


def _entities(run: Run, reading: Reading, target: Target) -> pl.DataFrame:
    """The entity with its vector: a new one, or a known one that was seen again."""
    entities = target.resolution.entities
    if target.is_new:
        return _with_vectors(run, entities, target.resolution.to_embed)
    kept = reading.by_ids("entities", entities["id"], ["id", "vector"])
    return entities.join(kept, on="id", how="left")


def _with_vectors(run: Run, rows: pl.DataFrame, texts: pl.DataFrame) -> pl.DataFrame:
    """The rows with their vectors; without, where embedding fails: that never keeps an observation out (S0-02)."""
    seat = embedder_of(run)
    try:
        vectors = vector_column(seat.embed(texts["text"].to_list()))
    except Exception as error:
        log.warning("What was observed is stored without vectors, and not flagged: %s", error)
        return rows.with_columns(pl.lit(None, dtype=pl.Array(pl.Float32, seat.dims)).alias("vector"))
    return rows.join(texts.select("id").with_columns(vectors), on="id", how="left", maintain_order="left")


def write_statements(tx: Transaction, stated: Statements) -> None:
    """Store the rows; they were made of the state that `tx` holds."""
    tx.upsert("entities", stated.entities)
    tx.upsert("entity_aliases", stated.target.resolution.aliases)
    tx.upsert("decisions", stated.target.resolution.decisions)
    tx.upsert("messages", stated.messages)
    tx.upsert("episodes", _episode(tx, stated.messages))
    tx.upsert("episode_entities", _link(stated.target))
    tx.upsert("facts", stated.facts)
    tx.upsert("patch_batches", stated.batches)


def _episode(tx: Transaction, messages: pl.DataFrame) -> pl.DataFrame:
    """The conversation of all observations, grown by these."""
    own = episode_id(CONVERSATION)
    told = messages.select(
        pl.lit(own).alias("id"), "conversation_id", "scope", started_at="occurred_at", ended_at="occurred_at",
        messages=pl.lit(1, dtype=pl.Int64), created_at=pl.lit(None, dtype=frames.TIME),
    )  # fmt: skip
    grown = pl.concat([tx.by_ids("episodes", [own], told.columns).select(told.columns), told])
    return grown.group_by("id").agg(
        pl.col("conversation_id", "scope").first(),
        pl.col("created_at", "started_at").min(),
        pl.col("ended_at").max(),
        pl.col("messages").sum(),
    )


def _link(target: Target) -> pl.DataFrame:
    pair = (episode_id(CONVERSATION), target.id)
    return pl.DataFrame([{"id": row_id("ee", *pair), "episode_id": pair[0], "entity_id": pair[1]}])

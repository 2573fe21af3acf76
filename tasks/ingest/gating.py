"""Gating: what the gates of admission remember between batches, and what they decide about one (T46)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache

import numpy as np
import polars as pl

from inference.embedding import open_embedder
from slowwave.common.comparison.similarity import Vectors
from slowwave.common.settings import IngestSettings, NoiseSettings
from slowwave.common.text import row_id
from slowwave.common.validity import live_sql, time_sql
from slowwave.reading.extraction.names import spot
from slowwave.reading.filters.noise import (
    ContentScorer,
    is_relearning_due,
    plan_gates,
    plan_prototypes,
    prototype_texts,
)
from slowwave.reading.filters.novelty import SurpriseState, plan_surprise
from storage.residents import Condition
from storage.rows import ROW
from storage.search import unit_matrix
from storage.snapshots import Reading, last_rows, read_rows
from storage.transactions import Transaction

ACCEPTED = "graph_state IN ('pending', 'done', 'failed')"
_COMPARED = ("id", "role", "speaker", "scope", "content", "occurred_at", "vector")
_COMPARABLE = f"{ACCEPTED} AND vector IS NOT NULL"
LEARNED_AT = "noise.learned_at"
_LOOKED_AT = 4  # times as many of the newest messages as are wanted
_WRITTEN = 10  # times as many of those that were written last as these


def gate(
    embedder: str,
    snapshot: Reading,
    messages: pl.DataFrame,
    vectors: Vectors,
    settings: IngestSettings,
    now: datetime,
) -> tuple[pl.DataFrame, Mapping[str, SurpriseState]]:
    """The messages with the gate that refuses each, and what the surprise gate remembers afterwards."""
    accepted, accepted_vectors = _recent(snapshot, settings.noise)
    scorer = _scorer(embedder, settings.noise, snapshot)
    plan = plan_gates(messages, vectors, accepted_vectors, accepted, scorer, settings.noise)
    gated = _without_stale_repeats(snapshot, messages.hstack(plan), now)
    if not settings.surprise.enabled:
        return gated, {}
    passing = gated["gate"].is_null()
    new = messages.filter(passing)
    names = [list(dict.fromkeys(name.text.lower() for name in spot(text or ""))) for text in new["content"]]
    new = new.with_columns(names=pl.Series(names, dtype=pl.List(pl.String)))
    surprise = plan_surprise(new, vectors[passing.to_numpy()], _memories(snapshot, messages), settings.surprise)
    return _with_surprise(gated, passing, surprise.decisions, settings), surprise.states


def _without_stale_repeats(snapshot: Reading, gated: pl.DataFrame, now: datetime) -> pl.DataFrame:
    """A repetition is news, not evidence, where no fact of the first message holds any more."""
    originals = gated.filter(pl.col("gate") == "repeat")["similar_to_id"]
    evidence = snapshot.by_ids("fact_evidence", originals, ["message_id", "fact_id"], key="message_id")
    live = snapshot.by_ids("facts", evidence["fact_id"], ["id"], where=live_sql(now))["id"]
    holding = evidence.filter(pl.col("fact_id").is_in(live.to_list()))["message_id"]
    stale = [original for original in evidence["message_id"].unique() if original not in set(holding)]
    is_news = pl.col("similar_to_id").is_in(stale) & (pl.col("gate") == "repeat").fill_null(False)
    cleared = ("gate", "reason", "measure", "threshold", "similar_to_id")
    return gated.with_columns(pl.when(~is_news.fill_null(False)).then(pl.col(name)).alias(name) for name in cleared)


def _with_surprise(
    gated: pl.DataFrame, passing: pl.Series, decisions: pl.DataFrame, settings: IngestSettings
) -> pl.DataFrame:
    order = gated.with_row_index("row").filter(passing).select("row").hstack(decisions)
    both = gated.with_row_index("row").join(order, on="row", how="left", maintain_order="left")
    dull = ~pl.col("extract").fill_null(True)
    return both.with_columns(
        gate=pl.when(dull).then(pl.lit("surprise")).otherwise("gate"),
        reason=pl.when(dull).then(pl.lit("It tells nothing that the conversation has not told.")).otherwise("reason"),
        measure=pl.when(dull).then("surprise").otherwise("measure"),
        threshold=pl.when(dull).then(pl.lit(settings.surprise.threshold)).otherwise("threshold"),
    ).drop("row", *decisions.columns)


def _recent(snapshot: Reading, settings: NoiseSettings) -> tuple[pl.DataFrame, Vectors]:
    """The newest accepted messages, oldest first, with their vectors."""
    window = settings.exchange_window * 2  # an exchange is two messages
    if (resident := snapshot.resident("messages")) is not None and resident.has(_COMPARED):
        rows = resident.frame(resident.newest("occurred_at", window, Condition(ACCEPTED)), _COMPARED)
    else:
        rows = snapshot.by_numbers("messages", _newest(snapshot, window), _COMPARED)
    rows = rows.sort("occurred_at", "id")
    return rows.drop("vector"), unit_matrix(rows["vector"], snapshot.dims)


def _newest(reading: Reading, window: int) -> pl.Series:
    """Row numbers of the newest accepted messages that have a vector.

    They are looked for among a few more of the newest first: conditions on all messages would read all vectors. Of the
    messages that were written last as many are at least as new: the times of all others need not be put in order.
    """
    if not window or reading.is_blank("messages"):
        return pl.Series([], dtype=pl.UInt64)
    some, order = _LOOKED_AT * window, ["-occurred_at", "-id"]
    table, columns = reading.handle("messages"), {name: name for name in (ROW, "id", "occurred_at")}
    written = last_rows(table, _WRITTEN * some, ["occurred_at"])["occurred_at"]
    first = written.drop_nulls().top_k(some).min()
    if isinstance(first, datetime):
        if len(written) == _WRITTEN * some:  # there are more
            times = read_rows(table, f"occurred_at >= {time_sql(first)}", ["occurred_at"], some, order[:1])
            first = times["occurred_at"].min()
            assert isinstance(first, datetime)
        lately = read_rows(table, f"occurred_at >= {time_sql(first)}", {**columns, "is_comparable": _COMPARABLE})
        found = lately.filter("is_comparable").sort("occurred_at", "id", descending=True)
        if len(found) >= window:
            return found[ROW].head(window)
    return read_rows(table, _COMPARABLE, columns, window, order)[ROW]


def _scorer(embedder: str, settings: NoiseSettings, snapshot: Reading) -> ContentScorer:
    quality, noise = _prototypes(embedder, settings)
    learned = snapshot.frame("scorer_state", columns=["vector"])["vector"]
    return ContentScorer(quality, np.concatenate([noise, unit_matrix(learned, snapshot.dims)]), settings.noise_top_k)


@lru_cache(maxsize=4)
def _prototypes(embedder: str, settings: NoiseSettings) -> tuple[Vectors, Vectors]:
    texts, model = prototype_texts(settings), open_embedder(embedder)
    return model.embed(texts.quality), model.embed(texts.noise)


def _memories(snapshot: Reading, messages: pl.DataFrame) -> Mapping[str, SurpriseState]:
    keys = {row_id("cv", name): name for name in messages["conversation_id"].unique()}
    rows = snapshot.by_ids("conversation_state", list(keys))
    return {
        keys[row["id"]]: SurpriseState(
            tuple(row["recent_names"]),
            np.array(row["recent_turns"], np.float32).reshape(-1, snapshot.dims),
            row["consecutive_skips"],
        )
        for row in rows.to_dicts()
    }


def conversation_rows(states: Mapping[str, SurpriseState]) -> pl.DataFrame:
    rows = [
        {
            "id": row_id("cv", name),
            "recent_names": list(state.recent_names),
            "recent_turns": state.recent_turns.ravel().tolist(),
            "consecutive_skips": state.consecutive_skips,
        }
        for name, state in states.items()
    ]
    return pl.DataFrame(
        rows,
        schema={
            "id": pl.String,
            "recent_names": pl.List(pl.String),
            "recent_turns": pl.List(pl.Float32),
            "consecutive_skips": pl.Int64,
        },
    )


def learn_noise(tx: Transaction, embedder: str, settings: NoiseSettings) -> None:
    """Rebuild the learned noise prototypes when enough refusals have taught something, or some are gone (S4-18)."""
    marks = tx.by_ids("metadata", [LEARNED_AT])
    learned_at = int(marks["number"][0]) if len(marks) else 0
    count = tx.count("refusals", "teaches")
    if not is_relearning_due(count, learned_at, settings):
        return
    _, noise = _prototypes(embedder, settings)
    timed = tx.frame("refusals", "teaches", ["id", "created_at"]).sort("created_at", maintain_order=True)
    newest = timed.tail(settings.rejection_capacity).select("id").reverse()  # the others teach no more
    taught = tx.by_ids("refusals", newest["id"], ["id", "excerpt", "gate", "vector"])
    ring = newest.join(taught, on="id", maintain_order="left").rename({"excerpt": "text"})
    learned = plan_prototypes(ring, noise, settings)
    ids = [row_id("np", text) for text in learned.texts]
    rows = pl.DataFrame(
        {"id": ids, "text": learned.texts, "teaching_count": count, "vector": learned.vectors},
        schema_overrides={"vector": pl.Array(pl.Float32, tx.dims), "teaching_count": pl.Int64},
    ).unique("id", keep="first", maintain_order=True)
    tx.upsert("scorer_state", rows)
    tx.delete("scorer_state", list({*tx.frame("scorer_state", columns=["id"])["id"]} - {*ids}))
    tx.upsert("metadata", pl.DataFrame({"id": [LEARNED_AT], "number": [float(count)]}))

"""A store of any size, written by plain commits: as many messages as facts, one saying the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from random import Random

import numpy as np
import polars as pl
import pyarrow as pa

from inference.embedding import Embedder, open_embedder
from slowwave.common import frames
from slowwave.common.text import digest, normalise_name, normalise_statement, row_id
from slowwave.facts.aspects import aspect_rows, classify
from storage.migrations import make_text_indexes
from storage.rows import column_names, exact_rows
from storage.search import unit_matrix
from storage.snapshots import Reading, batches
from storage.store import Store
from storage.tables import TABLES, Role, tables_of
from storage.upkeep import tend

from . import synthetic

BATCH = 10_000
TURNS = 20
RUN = "bench"
EMBEDDED = ("messages", "facts", "entities")
TURN = 0.3  # the length of what is added to the unit vector of a copy: its cosine with the original is some .96
_ID = pl.col("^(id|.*_id)$")
_TEXT = pl.col("^(statement|statement_hash|quote|content|search_text|name|canonical_name|object_text)$")


def build_store(uri: str, facts: int, seed: int) -> list[str]:
    """Write so many facts as nights leave them, with messages and entities, and index them; returns a question each."""
    told = list(islice(synthetic.facts(facts, seed), facts))
    write_store(uri, told, seed, compared_at=synthetic.START)
    return [fact.question for fact in told]


def write_store(uri: str, told: Sequence[synthetic.FactText], seed: int, compared_at: datetime | None = None) -> None:
    """Write these facts with their messages, entities and aspects, and index them.

    `compared_at` is when consolidation looked at them; without, it is still to do so.
    """
    seat = open_embedder()
    store = Store.create(uri, "default", (seat.name, seat.dims))
    random = Random(seed)
    for start in range(0, len(told), BATCH):
        with store.commit(RUN, "bench", synthetic.START) as tx:
            for name, rows in _rows(told[start : start + BATCH], start, random, compared_at):
                tx.upsert(name, _with_vectors(rows, seat) if name in EMBEDDED else rows)
                if name == "facts":
                    tx.upsert("fact_aspects", aspect_rows(rows))
    tend(store, RUN, synthetic.START, thorough=True)


def multiply_store(source: str, target: str, times: int, *, messages: int) -> None:
    """Write a store that has each row of another so many times, much faster than by commits of small batches.

    The n-th copy has ids, names and texts of its own, " (n)" after each, and its vectors point a little elsewhere, so
    that no two rows are equal. Messages are copied `messages` times only: the n-th copy of a fact names the
    (n mod `messages`)-th of its message. Logs and aspect scores are left out.
    """
    snapshot = Store.open(source).snapshot()
    seat = open_embedder(snapshot.embed_model)
    store = Store.create(target, "default", (seat.name, seat.dims))
    random = np.random.default_rng(times)
    for name in tables_of(Role.STATE):
        if snapshot.is_blank(name) or name.startswith("aspect_"):
            continue
        copies = messages if name == "messages" else times
        with store.commit(RUN, "bench", synthetic.START) as tx:
            rows = (batch for n in range(copies) for batch in _copies(snapshot, name, n, messages, random))
            tx.write_anew(name, pa.RecordBatchReader.from_batches(TABLES[name].schema(tx.dims), rows))
            make_text_indexes(tx, [name])
    tend(store, RUN, synthetic.START, thorough=True)


def _copies(source: Reading, name: str, n: int, messages: int, random: np.random.Generator) -> Iterator[pa.RecordBatch]:
    """The rows of a table as their n-th copy; the first is the original."""
    has_vector = TABLES[name].has_vector
    for rows in batches(source, name, [*column_names(name), *(["vector"] if has_vector else [])]):
        own = rows.with_columns(_ID + f"-{n}", _TEXT + f" ({n})") if n else rows
        if "message_id" in rows.columns and n:
            own = own.with_columns(rows["message_id"] + (f"-{n % messages}" if n % messages else ""))
        if has_vector and n:
            own = own.with_columns(vector=_turned(rows["vector"], source.dims, random))
        yield from exact_rows(name, own, source.dims).to_batches()


def _turned(vectors: pl.Series, dims: int, random: np.random.Generator) -> pl.Series:
    matrix = unit_matrix(vectors, dims)
    other = matrix + random.normal(scale=TURN / dims**0.5, size=matrix.shape).astype(np.float32)
    return pl.Series(other / np.linalg.norm(other, axis=1, keepdims=True), dtype=pl.Array(pl.Float32, dims))


def _rows(
    told: Sequence[synthetic.FactText], start: int, random: Random, compared_at: datetime | None
) -> Iterator[tuple[str, pl.DataFrame]]:
    """Rows of each table for facts that come from one message each; `text` is what is embedded."""
    frame = _told(told, start, random)
    yield "entities", _entities(frame)
    yield "messages", _messages(frame)
    at = pl.lit(compared_at, dtype=frames.TIME)
    yield "facts", _facts(frame).with_columns(pl.Series("aspect_slugs", classify(_facts(frame))), consolidated_at=at)
    evidence = frame.select("message_id", quote="text", occurred_at="at", fact_id="id", confidence=pl.lit(0.9))
    ids = [row_id("v", *pair) for pair in evidence.select("fact_id", "message_id").iter_rows()]
    yield "fact_evidence", evidence.with_columns(pl.Series("id", ids))


def _told(told: Sequence[synthetic.FactText], start: int, random: Random) -> pl.DataFrame:
    """One row per fact with what its rows in the tables are made of."""
    numbers = range(start, start + len(told))
    openings = random.choices(("", "By the way: ", "For the record, ", "As far as I know, "), k=len(told))
    rows = {
        "id": [f"f_{digest(n)}" for n in numbers],
        "message_id": [f"m_{digest(n)}" for n in numbers],
        "conversation_id": [f"c{n // TURNS}" for n in numbers],
        "ordinal": [n % TURNS for n in numbers],
        "at": [synthetic.START + timedelta(minutes=n) for n in numbers],
        "text": [fact.statement for fact in told],
        "said": [opening + fact.statement for opening, fact in zip(openings, told, strict=True)],
        "predicate": [fact.predicate for fact in told],
        "subject": [fact.subject for fact in told],
        "object": [fact.object for fact in told],
    }
    return pl.DataFrame(rows).with_columns(subject_id=_entity("subject"), object_id=_entity("object"))


def _messages(frame: pl.DataFrame) -> pl.DataFrame:
    own = frame.select(
        "conversation_id", "ordinal", text="said", id="message_id", message_id="message_id", occurred_at="at"
    )
    return own.with_columns(
        content="text",
        search_text=pl.format("Ada: {}", "text"),
        role=pl.lit("user"),
        speaker=pl.lit("Ada"),
        scope=pl.lit("global"),
        graph_state=pl.lit("done"),
        attempts=pl.lit(0),
    )


def _facts(frame: pl.DataFrame) -> pl.DataFrame:
    own = frame.select(
        "id", "text", "message_id", "subject_id", "predicate", "object_id", valid_from="at", object_text="object"
    )
    hashed = pl.col("text").map_elements(lambda said: digest(normalise_statement(said)), pl.String)
    return own.with_columns(
        kind=pl.lit("relation"),
        predicate_raw="predicate",
        statement="text",
        statement_hash=hashed,
        owner_entity_id="subject_id",
        scope=pl.lit("global"),
        polarity=pl.lit("affirmed"),
        status=pl.lit("active"),
        confidence=pl.lit(0.9),
        evidence_count=pl.lit(1),
        quote="text",
    )


def _entity(column: str) -> pl.Expr:
    return pl.col(column).map_elements(lambda name: f"e_{digest(normalise_name(name))}", pl.String)


def _entities(frame: pl.DataFrame) -> pl.DataFrame:
    ends = [frame.select(id=f"{end}_id", name=end) for end in ("subject", "object")]
    distinct = pl.concat(ends).unique("id", keep="first", maintain_order=True)
    return distinct.with_columns(
        text="name",
        canonical_name=pl.col("name").str.to_lowercase(),
        entity_type=pl.lit("concept"),
        status=pl.lit("active"),
    )


def _with_vectors(rows: pl.DataFrame, seat: Embedder) -> pl.DataFrame:
    vectors = pl.Series("vector", seat.embed(rows["text"].to_list()), dtype=pl.Array(pl.Float32, seat.dims))
    return rows.drop("text").with_columns(vectors)


def fact_rows(told: Sequence[synthetic.FactText], seed: int) -> pl.DataFrame:
    """The rows of FACTS that these facts would have in a store, without vectors, in their order."""
    return _facts(_told(told, 0, Random(seed))).drop("text", strict=False)

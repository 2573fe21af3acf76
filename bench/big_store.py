"""A store of any size, written by plain commits: as many messages as facts, one saying the other."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import islice
from random import Random

import polars as pl

from inference.embedding import Embedder, open_embedder
from slowwave.text import digest, normalise_name, normalise_statement, row_id
from storage.store import Store
from storage.upkeep import tend

from . import synthetic

BATCH = 10_000
RUN = "bench"
EMBEDDED = ("messages", "facts", "entities")


def build_store(uri: str, facts: int, seed: int) -> list[str]:
    """Write so many facts with their messages and entities, and index them; returns a question for each fact."""
    seat = open_embedder()
    store = Store.create(uri, "default", (seat.name, seat.dims))
    questions: list[str] = []
    texts = synthetic.facts(facts, seed)
    random = Random(seed)
    for start in range(0, facts, BATCH):
        told = list(islice(texts, BATCH))
        questions += [fact.question for fact in told]
        with store.commit(RUN, "bench", synthetic.START) as tx:
            for name, rows in _rows(told, start, random):
                tx.upsert(name, _with_vectors(rows, seat) if name in EMBEDDED else rows)
    tend(store, RUN, synthetic.START, thorough=True)
    return questions


def _rows(told: list[synthetic.FactText], start: int, random: Random) -> Iterator[tuple[str, pl.DataFrame]]:
    """Rows of each table for facts that come from one message each; `text` is what is embedded."""
    at = [synthetic.START + timedelta(minutes=start + n) for n in range(len(told))]
    people = [fact.subject for fact in told]
    ids = [f"f_{digest(start + n)}" for n in range(len(told))]
    frame = pl.DataFrame(
        {
            "id": ids, "message_id": [f"m_{digest(start + n)}" for n in range(len(told))],
            "statement": [fact.statement for fact in told], "predicate": [fact.predicate for fact in told],
            "subject": people, "object": [fact.object for fact in told], "at": at,
            "opening": [random.choice(("", "By the way: ", "For the record, ", "As far as I know, ")) for _ in told],
        }
    )  # fmt: skip
    frame = frame.with_columns(
        subject_id=_entity("subject"), object_id=_entity("object"), said=pl.col("opening") + pl.col("statement"),
        conversation=pl.format("c{}", pl.int_range(pl.len()) // 20 + start // 20),
    )  # fmt: skip
    yield "entities", _entities(frame)
    yield "messages", frame.select(
        text="said", id="message_id", message_id="message_id", conversation_id="conversation", ordinal=pl.int_range(pl.len()),
        role=pl.lit("user"), speaker=pl.lit("Ada"), content="said", search_text=pl.format("Ada: {}", "said"),
        occurred_at="at", scope=pl.lit("global"), graph_state=pl.lit("done"), attempts=pl.lit(0),
    )  # fmt: skip
    yield "facts", frame.select(
        "id", "subject_id", "object_id", "predicate", "statement", "message_id", text="statement", kind=pl.lit("relation"),
        predicate_raw="predicate", object_text="object", scope=pl.lit("global"), polarity=pl.lit("affirmed"),
        statement_hash=pl.col("statement").map_elements(lambda said: digest(normalise_statement(said)), pl.String),
        owner_entity_id="subject_id", status=pl.lit("active"), valid_from="at", confidence=pl.lit(0.9),
        evidence_count=pl.lit(1), quote="statement",
    )  # fmt: skip
    evidence = [row_id("v", *pair) for pair in frame.select("id", "message_id").iter_rows()]
    yield (
        "fact_evidence",
        frame.select(
            fact_id="id", message_id="message_id", quote="statement", confidence=pl.lit(0.9), occurred_at="at"
        ).with_columns(pl.Series("id", evidence)),
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

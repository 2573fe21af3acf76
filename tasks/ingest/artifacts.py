"""Artifacts: documents are stored as wholes beside their passages, and linked to earlier ones."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from slowwave.common.comparison.similarity import Vectors
from slowwave.common.settings import ArtifactSettings, MergeSettings
from slowwave.common.text import readable
from slowwave.common.validity import live_sql
from slowwave.facts.deduplication.artifacts import (
    LINKED,
    NEAR,
    ArtifactPlan,
    as_filed,
    plan_artifacts,
)
from slowwave.reading.filters.injection import injection_reason
from slowwave.reading.filters.redaction import redact_lines
from slowwave.reading.ingestion.documents import document, drafts, embedded_text, without_orders
from slowwave.reading.ingestion.formats import MIXED
from slowwave.reading.ingestion.parsers import DOCUMENTS
from storage.rows import column_names, quoted
from storage.search import cosines_of, nearest, unit_matrix
from storage.snapshots import Reading
from storage.transactions import Transaction
from tasks.runtime.engine import task
from tasks.runtime.run_pages import TaskResult
from tasks.runtime.runs import Run, embedder_of, store_of, vector_column

from .reading import ReadBatch

MAX_CHARS = 2_000_000  # a longer one is kept as passages alone

_LEFT_OUT = "{} is filed as a document without what gives its reader orders; that is stored in its passages, marked."


@dataclass(frozen=True, slots=True)
class Documents:
    """Drafts of the documents that were read to their end, and what could not be filed as it is, in sentences."""

    drafts: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[str, ...] = ()


def read_documents(parts: Sequence[ReadBatch], settings: ArtifactSettings) -> Documents:
    """The whole texts of the documents that end in these parts, redacted (T39).

    A paragraph that gives its reader orders is left out: its passage is stored and marked, but of a whole text nobody
    could tell which part is the order.
    """
    found: list[Mapping[str, Any]] = []
    notes: list[str] = []
    for part in parts:
        if settings.enabled and part.is_last and part.source.format in DOCUMENTS and len(part.messages):
            draft, note = _read_document(part)
            found += [draft] if draft else []
            notes += [note] if note else []
    return Documents(tuple(found), tuple(notes))


def draft_artifacts(run: Run, documents: Documents, known: dict[str, Vectors]) -> pl.DataFrame:
    """What these documents would file, with vectors; `known` gains new vectors."""
    found = drafts(documents.drafts)
    embedder = embedder_of(run)
    texts = [embedded_text(row) for row in found.iter_rows(named=True)]
    new = [text for text in dict.fromkeys(texts) if text not in known]
    if new:
        known.update(zip(new, embedder.embed(new), strict=True))
    vectors = np.stack([known[text] for text in texts]) if texts else np.zeros((0, embedder.dims), np.float32)
    return found.with_columns(vector_column(vectors))


def file_artifacts(tx: Transaction, found: pl.DataFrame) -> None:
    """Add new artifacts, each a chain of its own until it is linked; the very same text again is counted (S1-17).

    Call it before the sources are written: a source that was read completely before is not counted again.
    """
    if found.is_empty():
        return
    read = tx.by_ids("sources", found["source_id"], ["id"], where="state = 'completed'")["id"]
    found = found.filter(~pl.col("source_id").is_in(read.to_list()))
    by_text = found.sort("made_at", "source_id").group_by("id", maintain_order=True)
    first = by_text.agg(pl.all().first(), times=pl.len().cast(pl.Int64))
    stored = tx.by_ids("artifacts", first["id"], with_vector=True)
    fresh = as_filed(first.join(stored, on="id", how="anti")).rename({"times": "seen_count"})
    tx.upsert("artifacts", pl.concat([fresh, _seen_again(stored, first)], how="diagonal_relaxed"))


def _read_document(part: ReadBatch) -> tuple[Mapping[str, Any] | None, str]:
    """The draft of a document and notes about it."""
    row, source = part.messages.row(0, named=True), part.source
    try:
        with source.path.open(encoding=source.encoding, errors=MIXED) as stream:
            raw = stream.read(MAX_CHARS + 1)
    except OSError as error:
        return None, f"{source.uri} was not filed as a document: {error.strerror or error}."
    if len(raw) > MAX_CHARS:
        return None, f"{source.uri} has more than {MAX_CHARS:,} characters: only its passages were stored."
    content = "".join(redact_lines(io.StringIO(readable(raw)))).strip()
    shown = without_orders(content)
    if reason := injection_reason(shown):  # an order over several paragraphs
        return None, f"{source.uri} was not filed as a document, only its passages were stored. {reason}"
    title = part.titles.get(row["conversation_id"], row["speaker"])
    draft = document(title, shown, source.format, row)
    return draft if shown else None, _LEFT_OUT.format(source.uri) if shown != content else ""


def _seen_again(stored: pl.DataFrame, first: pl.DataFrame) -> pl.DataFrame:
    """The stored rows with their count raised; what is not linked yet takes the earlier time."""
    both = stored.join(first.select("id", "times", again_at="made_at"), on="id", how="left", maintain_order="left")
    earlier = pl.min_horizontal("made_at", "again_at")
    return both.with_columns(
        seen_count=pl.col("seen_count") + pl.col("times"),
        made_at=pl.when(pl.col("consolidated_at").is_null()).then(earlier).otherwise("made_at"),
    ).drop("times", "again_at")


# Linking: documents that were filed are linked to earlier ones (S1-16 … S1-19).


NEAREST_HEADS = 5  # looked at for each artifact (S1-16)

_IS_UNLINKED = "consolidated_at IS NULL AND status = 'active' AND message_id IS NULL"  # pastes of older versions
_IS_HEAD = "is_head AND status = 'active'"


@dataclass(frozen=True, slots=True, eq=False)
class _Unlinked:
    """Unlinked artifacts, what they may be linked with, and how near the two are."""

    new: pl.DataFrame
    heads: pl.DataFrame
    near: pl.DataFrame


@task("link artifacts")
def link_artifacts(run: Run, settings: MergeSettings, *, dry_run: bool = False) -> TaskResult:
    """Link every artifact that is not linked yet; a dry run writes nothing."""
    store, chosen = store_of(run), settings.artifacts
    snapshot = store.snapshot()
    if not chosen.enabled or not snapshot.count("artifacts", _IS_UNLINKED):
        return TaskResult()
    unlinked = _unlinked(snapshot)
    plan = _link_plan(run, unlinked, chosen)
    if not dry_run:
        with store.commit(run.id, "consolidate.artifacts", run.now) as tx:
            if tx.is_overtaken(snapshot):
                plan = _link_plan(run, _unlinked(tx, unlinked.new["id"]), chosen)
            _write_links(tx, run, plan)
    alone = plan.artifacts.filter(pl.col("link") == "root", pl.col("id").is_in(unlinked.new["id"].to_list()))
    return TaskResult(
        {f"artifacts: {what}": number for what, number in {**plan.counts, "on their own": len(alone)}.items()}
    )


def _unlinked(reading: Reading, only: pl.Series | None = None) -> _Unlinked:
    """The unlinked artifacts (`only` those of them), the chains near to them, and the cosines of both (S1-16)."""
    new = reading.frame("artifacts", _IS_UNLINKED, [*column_names("artifacts"), "vector"])
    new = new if only is None else new.filter(pl.col("id").is_in(only.to_list()))
    near = pl.concat([_nearest_heads(reading, part) for part in new.partition_by("scope")] or [_nothing_near()])
    groups = reading.by_ids("artifacts", near["head_id"], ["group_id"], where="consolidated_at IS NOT NULL")["group_id"]
    linked = "status = 'active' AND consolidated_at IS NOT NULL"
    heads = reading.by_ids("artifacts", groups, key="group_id", where=linked)
    known = pl.concat([new["id"], heads["id"]])
    return _Unlinked(new.drop("vector"), heads, near.filter(pl.col("head_id").is_in(known.to_list())))


def _nothing_near() -> pl.DataFrame:
    return pl.DataFrame(schema=NEAR)


def _nearest_heads(reading: Reading, new: pl.DataFrame) -> pl.DataFrame:
    """The nearest heads of one scope for each of its unlinked artifacts, and earlier states of the same file."""
    embedded = new.filter(pl.col("vector").is_not_null())
    if embedded.is_empty():
        return _nothing_near()
    vectors = unit_matrix(embedded["vector"], reading.dims)
    where = f"{_IS_HEAD} AND scope = {quoted(embedded['scope'][0])}"
    found = nearest(reading, "artifacts", vectors, NEAREST_HEADS + 1, where)
    named = found.select(
        id=embedded["id"].gather(found["query"]), head_id="id", cosine=pl.col("cosine").cast(pl.Float64)
    )
    return pl.concat([named.filter(pl.col("id") != pl.col("head_id")), _same_files(reading, embedded, where)])


def _same_files(reading: Reading, new: pl.DataFrame, where: str) -> pl.DataFrame:
    """Pairs of documents that were read under one name, however many others are nearer."""
    documents = new.select("id", "conversation_id", "vector")
    names, columns = documents["conversation_id"], ["id", "conversation_id", "vector"]
    others = reading.by_ids("artifacts", names, columns, key="conversation_id", where=where).drop_nulls("vector")
    pairs = documents.join(others, on="conversation_id", suffix="_b").filter(pl.col("id") != pl.col("id_b"))
    return pairs.select("id", head_id="id_b", cosine=cosines_of(pairs["vector"], pairs["vector_b"], reading.dims))


def _link_plan(run: Run, unlinked: _Unlinked, settings: ArtifactSettings) -> ArtifactPlan:
    return plan_artifacts(unlinked.new, unlinked.heads, unlinked.near, settings, run.now)


def _write_links(tx: Transaction, run: Run, plan: ArtifactPlan) -> None:
    rows = tx.by_ids("artifacts", plan.artifacts["id"], with_vector=True)
    changed = rows.drop(*LINKED).join(plan.artifacts, on="id", how="left", maintain_order="left")
    facts = _facts_of(tx, run, changed)
    whole = changed.drop("linked_fact_ids").join(facts, on="id", how="left", maintain_order="left")
    tx.upsert("artifacts", whole)
    tx.upsert("decisions", plan.decisions)


def _facts_of(tx: Transaction, run: Run, artifacts: pl.DataFrame) -> pl.DataFrame:
    """Columns id and linked_fact_ids: live facts from the passages of the document.

    One file read at different times is one conversation: a fact belongs to every version that was its source or still
    holds its words.
    """
    columns = ["id", "conversation_id", "source_id"]
    passages = tx.by_ids("messages", artifacts["conversation_id"], columns, key="conversation_id")
    shared = artifacts.select("id", "conversation_id", "source_id", "content").join(
        passages.rename({"id": "message_id"}), on="conversation_id", suffix="_said"
    )
    is_own = pl.col("source_id") == pl.col("source_id_said")
    places = shared.select("id", "message_id", is_own=is_own.fill_null(False))
    facts = tx.by_ids(
        "facts", places["message_id"], ["id", "message_id", "quote"], key="message_id", where=live_sql(run.now)
    ).rename({"id": "fact_id"})
    linked = places.join(facts, on="message_id").join(artifacts.select("id", "content"), on="id")
    holds = _flat("content").str.contains(_flat("quote").fill_null(""), literal=True)
    return (
        linked.filter(pl.col("is_own") | holds)
        .group_by("id", maintain_order=True)
        .agg(linked_fact_ids=pl.col("fact_id").unique().sort())
    )


def _flat(column: str) -> pl.Expr:
    return pl.col(column).str.replace_all(r"\s+", " ").str.strip_chars()

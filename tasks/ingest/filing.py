"""Filing: documents and pasted texts are stored as wholes beside the messages that they came in (S1-15, S1-17)."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.deduplication.artifacts import as_filed
from slowwave.filters.injection import injection_reason
from slowwave.filters.redaction import redact_lines
from slowwave.ingestion.documents import document, drafts, embedded_text, pasted, type_of_file, without_orders
from slowwave.ingestion.formats import DOCUMENTS, MIXED
from slowwave.settings import ArtifactSettings
from slowwave.text import cut_long, digest, readable
from storage.transactions import Transaction
from tasks.runtime.runs import Run, embedder_of, vector_column

from .reading import ReadBatch
from .sources import SourceInfo

Vectors = npt.NDArray[np.float32]

MAX_CHARS = 2_000_000  # what is beyond stays in the passages

_LEFT_OUT = "{} is filed as a document without what gives its reader orders; that is stored in its passages, marked."
_MARGIN = 65_536  # no secret is longer than this, so none is cut in two


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
            draft, note = _read(part)
            found += [draft] if draft else []
            notes += [note] if note else []
    return Documents(tuple(found), tuple(notes))


def draft_artifacts(
    run: Run, messages: pl.DataFrame, documents: Documents, settings: ArtifactSettings, known: dict[str, Vectors]
) -> pl.DataFrame:
    """What these new messages and documents would file, with vectors; `known` gains new vectors."""
    found = pasted(messages, settings.min_chars) if settings.enabled else drafts([])
    found = pl.concat([drafts(documents.drafts), found])
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
    found = found.filter(~_is_counted(tx, found))
    by_text = found.sort("made_at", "source_id", "message_id").group_by("id", maintain_order=True)
    first = by_text.agg(pl.all().first(), times=pl.len().cast(pl.Int64))
    stored = tx.by_ids("artifacts", first["id"], with_vector=True)
    fresh = as_filed(first.join(stored, on="id", how="anti")).rename({"times": "seen_count"})
    tx.upsert("artifacts", pl.concat([fresh, _seen_again(stored, first)], how="diagonal_relaxed"))


def _read(part: ReadBatch) -> tuple[Mapping[str, Any] | None, str]:
    """The draft of a document and notes about it."""
    row, source = part.messages.row(0, named=True), part.source
    try:
        content, is_cut = _whole_text(source)
    except OSError as error:
        return None, f"{source.uri} was not filed as a document: {error.strerror or error}."
    shown = without_orders(content)
    if reason := injection_reason(shown):  # an order over several paragraphs
        return None, f"{source.uri} was not filed as a document, only its passages were stored. {reason}"
    title = part.titles.get(row["conversation_id"], row["speaker"])
    draft = document(title, shown, type_of_file(source.uri, source.format), row)
    notes = [_LEFT_OUT.format(source.uri)] if shown != content else []
    if is_cut:
        draft["content_hash"] = digest(shown, source.content_hash, size=16)
        notes.append(f"{source.uri} is filed by its first {MAX_CHARS:,} characters; all of its passages are stored.")
    return draft if shown else None, " ".join(notes)


def _whole_text(source: SourceInfo) -> tuple[str, bool]:
    """The readable text of a file without secrets, and whether it is only the beginning."""
    limit = MAX_CHARS + _MARGIN
    with source.path.open(encoding=source.encoding, errors=MIXED) as stream:
        raw = stream.read(limit)
    clean = "".join(redact_lines(io.StringIO(readable(raw))))
    is_whole = len(raw) < limit
    longest = MAX_CHARS if is_whole else max(min(MAX_CHARS, len(clean) - _MARGIN), 0)
    return cut_long(clean, longest).strip(), not is_whole or len(clean) > MAX_CHARS


def _is_counted(tx: Transaction, found: pl.DataFrame) -> pl.Expr:
    """Whole documents of sources that were read to their end before."""
    sources = found.filter(pl.col("message_id").is_null())["source_id"]
    done = tx.by_ids("sources", sources, ["id"], where="state = 'completed'")["id"]
    return pl.col("message_id").is_null() & pl.col("source_id").is_in(done.to_list())


def _seen_again(stored: pl.DataFrame, first: pl.DataFrame) -> pl.DataFrame:
    """The stored rows with their count raised; what is not linked yet takes the earlier time."""
    both = stored.join(first.select("id", "times", again_at="made_at"), on="id", how="left", maintain_order="left")
    earlier = pl.min_horizontal("made_at", "again_at")
    return both.with_columns(
        seen_count=pl.col("seen_count") + pl.col("times"),
        made_at=pl.when(pl.col("consolidated_at").is_null()).then(earlier).otherwise("made_at"),
    ).drop("times", "again_at")

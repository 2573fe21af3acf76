"""Admission: messages are embedded, filtered and stored, each in exactly one state.

Secrets were taken out when the messages were read (`slowwave.reading.ingestion.conversations`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from slowwave.common.comparison.similarity import Vectors
from slowwave.common.run_counts import RunCount
from slowwave.common.settings import IngestSettings
from slowwave.common.text import digest, row_id
from slowwave.facts.searched_texts import CONTEXT_ROLES, SILENT_ROLES, around, message_text, search_texts
from slowwave.reading.filters.injection import injection_flags
from slowwave.reading.filters.novelty import SurpriseState
from slowwave.reading.filters.redaction import redact_all
from slowwave.reading.ingestion.sessions import SUMMARY_COLUMNS
from storage.rows import quoted
from storage.snapshots import Reading
from storage.transactions import Transaction
from tasks.runtime.engine import task
from tasks.runtime.retrying import EMBEDS
from tasks.runtime.run_pages import TaskResult
from tasks.runtime.runs import Run, embedder_of, store_of, vector_column

from .artifacts import Documents, draft_artifacts, file_artifacts, read_documents
from .gating import conversation_rows, gate, learn_noise
from .reading import Intake

EXCERPT = 500


@dataclass(slots=True)
class _Batch:
    """The redacted messages and whole documents of a batch, and the vectors of the texts that were embedded."""

    messages: pl.DataFrame
    documents: Documents
    vectors: dict[str, Vectors] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class _AdmissionPlan:
    """The rows of a batch, for one state of the store."""

    gated: pl.DataFrame
    vectors: Vectors
    refusals: pl.DataFrame
    states: Mapping[str, SurpriseState]
    artifacts: pl.DataFrame
    answered: pl.DataFrame
    known: int
    renamed: int


@task("admit messages", about="{run.namespace}, {intake.messages.height} messages", tags=[EMBEDS])
def admit_messages(run: Run, intake: Intake, settings: IngestSettings, *, dry_run: bool = False) -> TaskResult:
    """Store the messages of a batch that are new, with the reason for each one that is refused."""
    store = store_of(run)
    snapshot = store.snapshot()
    batch = _batch(intake, settings)
    decided = _decide(run, snapshot, batch, settings)
    if not dry_run:
        with store.commit(run.id, "ingest.messages", run.now) as tx:
            if tx.is_overtaken(snapshot):
                decided = _decide(run, tx, batch, settings)
            _write(tx, run, intake, decided, settings)
    refused = dict(decided.refusals.group_by("gate").len().sort("gate").iter_rows())
    counts: dict[str, int] = {
        RunCount.MESSAGES_READ: len(intake.messages),
        RunCount.MESSAGES_KNOWN: decided.known,
        RunCount.MESSAGES_STORED: len(decided.gated),
        RunCount.MESSAGES_REDACTED: int(decided.gated["has_secret"].sum()),
        RunCount.MESSAGES_WITH_USED_ID: decided.renamed,
    }
    return TaskResult(counts, refused=refused, issues=batch.documents.notes)


def foresee_messages(run: Run, intake: Intake, settings: IngestSettings) -> pl.DataFrame:
    """The rows of `messages` that would be stored, new ones only; nothing is written."""
    decided = _decide(run, store_of(run).snapshot(), _batch(intake, settings), settings)
    return _rows(decided.gated, decided.vectors)


def _batch(intake: Intake, settings: IngestSettings) -> _Batch:
    documents = read_documents(intake.parts, settings.consolidate.artifacts)
    messages = intake.messages.unique("id", keep="first", maintain_order=True)
    suffix = pl.Series([digest(content, size=4) for content in messages["content"]], dtype=pl.String)  # see `identify`
    return _Batch(messages.with_columns(suffix=suffix, has_injection=injection_flags(messages["content"])), documents)


def _decide(run: Run, reading: Reading, batch: _Batch, settings: IngestSettings) -> _AdmissionPlan:
    identified = identify(reading, batch.messages)
    fresh, answered = _with_search_text(reading, _placed(reading, identified.messages, identified.fresh))
    vectors = _embed(run, fresh, batch.vectors)
    gated, states = gate(run.embedder, reading, fresh, vectors, settings, run.now)
    artifacts = draft_artifacts(run, batch.documents, batch.vectors)
    known = len(identified.messages) - len(fresh)
    refusals = _refusals(gated, vectors)
    return _AdmissionPlan(gated, vectors, refusals, states, artifacts, answered, known, identified.renamed)


def _placed(snapshot: Reading, messages: pl.DataFrame, fresh: pl.DataFrame) -> pl.DataFrame:
    """The fresh messages with ordinals that fit what is stored, when another file carries a conversation on."""
    place = ["id", "conversation_id", "ordinal"]
    stored = snapshot.by_ids("messages", fresh["conversation_id"], place, key="conversation_id")
    if stored.is_empty():
        return fresh
    shared = (
        messages.join(stored, on="id", suffix="_stored")
        .group_by("conversation_id")
        .agg(shared=(pl.col("ordinal_stored") - pl.col("ordinal")).max())
    )
    ends = stored.group_by("conversation_id").agg(end=pl.col("ordinal").max() + 1)
    both = fresh.join(shared, on="conversation_id", how="left", maintain_order="left").join(
        ends, on="conversation_id", how="left", maintain_order="left"
    )
    gap = (pl.col("end") - pl.col("ordinal").min().over("conversation_id")).clip(lower_bound=0)
    return both.with_columns(ordinal=pl.col("ordinal") + pl.coalesce("shared", gap, pl.lit(0))).select(fresh.columns)


def _with_search_text(snapshot: Reading, messages: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Under which text each message is found, and (id, search_text) of stored ones that the first new ones answer.

    The first new message of a conversation needs the last stored before it.
    """
    columns = ["id", "conversation_id", "ordinal", "role", "speaker", "content", "has_injection"]
    talks = f"role IN ({', '.join(map(quoted, CONTEXT_ROLES))})"
    stored = snapshot.by_ids(
        "messages",
        messages["conversation_id"],
        ["id", "conversation_id", "ordinal"],
        key="conversation_id",
        where=talks,
    )
    first = messages.group_by("conversation_id").agg(first=pl.col("ordinal").min())
    earlier = stored.join(first, on="conversation_id").filter(pl.col("ordinal") < pl.col("first"))
    last = earlier.sort("ordinal").group_by("conversation_id").tail(1)
    before = snapshot.by_ids("messages", last["id"], [*columns, "search_text"])
    texts = search_texts(pl.concat([before.select(columns), messages.select(columns)], how="vertical_relaxed"))
    added = around(before.with_columns(search_text=texts.head(len(before))))["answer"]
    answered = before.select("id", search_text=pl.col("search_text") + added).filter(added != "")
    return messages.with_columns(search_text=texts.tail(len(messages))), answered


def _embed(run: Run, messages: pl.DataFrame, known: dict[str, Vectors]) -> Vectors:
    """Unit rows in the order of the messages; zero rows for texts without a vector. `known` gains new vectors."""
    embedder = embedder_of(run)
    vectors = np.zeros((len(messages), embedder.dims), np.float32)
    wanted = (messages["role"].is_in(SILENT_ROLES) | messages["has_injection"]).not_().to_numpy()
    spoken = messages.filter(pl.Series(wanted, dtype=pl.Boolean)).select("speaker", "content")
    texts = [message_text(speaker, content) for speaker, content in spoken.iter_rows()]
    new = [text for text in dict.fromkeys(texts) if text not in known]
    if new:
        known.update(zip(new, embedder.embed(new), strict=True))
    if texts:
        vectors[wanted] = np.stack([known[text] for text in texts])
    return vectors


def _refusals(gated: pl.DataFrame, vectors: Vectors) -> pl.DataFrame:
    """One row for each refused message; those that teach the noise prototypes carry their vector."""
    listed = gated.with_columns(vector=vector_column(vectors)).filter(pl.col("gate").is_not_null())
    ids = [row_id("x", *pair) for pair in listed.select("id", "gate").iter_rows()]
    return listed.select(
        pl.Series("id", ids, dtype=pl.String),
        subject_id="id",
        subject_kind=pl.lit("message"),
        gate="gate",
        reason="reason",
        measure="measure",
        threshold="threshold",
        teaches="teaches",
        excerpt=pl.col("content").str.slice(0, EXCERPT),
        similar_to_id="similar_to_id",
        vector=pl.when("teaches").then("vector"),
    )


def _write(tx: Transaction, run: Run, intake: Intake, decided: _AdmissionPlan, settings: IngestSettings) -> None:
    rows = _rows(decided.gated, decided.vectors)
    if len(answered := decided.answered):  # stored messages are found by the answers that they got now
        tx.put_back("messages", tx.whole_rows("messages", answered["id"].to_list()).update(answered, on="id"))
    episodes = episode_rows(tx, rows)
    tx.upsert("messages", rows)
    tx.upsert("refusals", decided.refusals)
    _put(tx, "episodes", episodes)
    tx.upsert("conversation_state", conversation_rows(decided.states))
    file_artifacts(tx, decided.artifacts)
    _put(tx, "sources", _source_rows(tx, intake))
    if len(decided.refusals):
        learn_noise(tx, run.embedder, settings.noise)


def _put(tx: Transaction, name: str, rows: pl.DataFrame) -> None:
    """Store rows that were made beside those of their ids, which they have the birth of."""
    tx.upsert(name, rows.filter(pl.col("created_at").is_not_null()))
    tx.insert(name, rows.filter(pl.col("created_at").is_null()))


def _rows(gated: pl.DataFrame, vectors: Vectors) -> pl.DataFrame:
    state = pl.when(pl.col("gate").is_null()).then(pl.lit("pending")).otherwise(pl.lit("skipped_") + pl.col("gate"))
    return gated.select(
        "id",
        "message_id",
        "conversation_id",
        "ordinal",
        "role",
        "speaker",
        "content",
        "search_text",
        "occurred_at",
        "scope",
        "source_id",
        "has_injection",
        "content_score",
        graph_state=state,
        attempts=pl.lit(0, pl.Int64),
        vector=vector_column(vectors),
    )


def episode_rows(tx: Reading, rows: pl.DataFrame) -> pl.DataFrame:
    """One per conversation of these messages, with all that is stored of it (S2-74)."""
    place = ["id", "conversation_id", "occurred_at"]
    stored = tx.by_ids("messages", rows["conversation_id"].unique(), place, key="conversation_id")
    every = pl.concat([rows.select(place), stored.filter(~pl.col("id").is_in(rows["id"].implode()))])
    counted = every.group_by("conversation_id").agg(
        started_at=pl.col("occurred_at").min(),
        ended_at=pl.col("occurred_at").max(),
        messages=pl.len().cast(pl.Int64),
    )
    new = rows.unique("conversation_id", keep="first", maintain_order=True).select("conversation_id", "scope")
    ids = pl.Series("id", [episode_id(name) for name in new["conversation_id"]], dtype=pl.String)
    before = tx.by_ids("episodes", ids, ["id", "created_at", *SUMMARY_COLUMNS])
    named = new.with_columns(ids).join(before, on="id", how="left", maintain_order="left")
    return named.join(counted, on="conversation_id", maintain_order="left")


def episode_id(conversation_id: str) -> str:
    """The episode of a conversation."""
    return row_id("ep", conversation_id)


def _source_rows(tx: Transaction, intake: Intake) -> pl.DataFrame:
    """One row per source with what this run has read of it so far; a run that was interrupted is not added to."""
    rows = pl.DataFrame(
        [
            {
                "id": part.source.id,
                "uri": part.source.uri,
                "format": part.source.format,
                "content_hash": part.source.content_hash,
                "state": "completed" if part.is_last else "running",
                "messages": len(part.messages),
                "unreadable": sum(issue.count for issue in part.issues if issue.kind == "unreadable"),
            }
            for part in intake.parts
        ]
    )
    sums = rows.group_by("id", "uri", "format", "content_hash", maintain_order=True).agg(
        pl.col("state").last(), pl.col("messages", "unreadable").sum()
    )
    before = tx.by_ids("sources", sums["id"], ["id", "messages", "unreadable", "created_at", "run_id"])
    is_mine = pl.col("run_id") == tx.run_id
    before = before.with_columns(pl.when(is_mine).then(pl.col("messages", "unreadable")).otherwise(0))
    both = sums.join(before, on="id", how="left", suffix="_before", maintain_order="left")
    return both.select(
        "id",
        "uri",
        "format",
        "content_hash",
        "state",
        "created_at",
        *(pl.col(c) + pl.col(f"{c}_before").fill_null(0) for c in ("messages", "unreadable")),
    )


# Identity: which messages of a batch are stored already, and which only have the identifier of another one.

IDENTITY = ("role", "speaker", "content")


@dataclass(frozen=True, slots=True)
class Identified:
    """A batch under identifiers that are its own; `fresh` are the messages that are not stored, `renamed` of these."""

    messages: pl.DataFrame
    fresh: pl.DataFrame
    renamed: int


def identify(reading: Reading, messages: pl.DataFrame) -> Identified:
    """Tell messages that are stored from those that clash with another text, which get its suffix as within one run.

    `messages` are redacted and hold in `suffix` the digest of the text as it was read: the later of two texts is
    `message_id~suffix`, so that a second look finds it again.
    """
    clashing = _clashing(reading, messages)
    named = _renamed(messages, clashing) if clashing else messages
    named = named.unique("id", keep="first", maintain_order=True)
    known = reading.by_ids("messages", named["id"], ["id"])["id"].to_list()
    fresh = named.filter(~pl.col("id").is_in(known))
    renamed = len(fresh.filter(~pl.col("id").is_in(messages["id"].to_list())))
    return Identified(named, fresh, renamed)


def _clashing(reading: Reading, messages: pl.DataFrame) -> list[str]:
    """Rows whose stored namesake was said by somebody else, or says something else."""
    stored = reading.by_ids("messages", messages["id"], ["id", *IDENTITY])
    both = messages.select("id", *IDENTITY).join(stored, on="id", suffix="_stored")
    different = pl.any_horizontal(pl.col(name).ne_missing(pl.col(f"{name}_stored")) for name in IDENTITY)
    apart = both.filter(different)
    # What an older slowwave left readable may be hidden today: it is compared as it would be stored now.
    clean, _ = redact_all(apart["content_stored"])
    return apart.with_columns(content_stored=clean).filter(different)["id"].to_list()


def _renamed(messages: pl.DataFrame, clashing: list[str]) -> pl.DataFrame:
    """The messages; those that clash have the suffix of their text in their name."""
    is_clash = pl.col("id").is_in(clashing)
    name = pl.when(is_clash).then(pl.col("message_id") + "~" + pl.col("suffix")).otherwise("message_id")
    named = messages.with_columns(message_id=name)
    ids = [row_id("m", *pair) for pair in named.select("conversation_id", "message_id").iter_rows()]
    return named.with_columns(id=pl.when(is_clash).then(pl.Series(ids, dtype=pl.String)).otherwise("id"))

"""Re-embedding: vectors of another embedding model are staged, and published in one commit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar

import polars as pl

from inference.embedding import Embedder, open_embedder
from slowwave.common.comparison.similarity import has_profile
from slowwave.common.decisions import decision, decision_frame
from slowwave.common.errors import Refused, SlowwaveError
from slowwave.common.run_counts import RunCount
from slowwave.common.settings import ReembedSettings
from slowwave.common.text import as_json, digest
from storage.lease import is_surely_dead
from storage.reembedding import KIND, Staging, drop_staged, staged_hashes, write_renewed
from storage.rows import column_names
from storage.snapshots import Reading, Snapshot
from storage.store import Store
from storage.tables import WITH_VECTORS
from storage.transactions import Transaction
from tasks.nightly.gate import Frozen, freeze_probes
from tasks.orchestration.tallies import Tally
from tasks.runtime.engine import report_progress, task
from tasks.runtime.retrying import EMBEDS, LONGEST_WAIT_FOR_A_MODEL_S
from tasks.runtime.runs import Run, existing_store

from .wording import PARTS, Wording, columns_for

ROUNDS = 8  # in which what was written meanwhile is embedded outside the lease


@dataclass(frozen=True, slots=True)
class Staged:
    """What was embedded: of which versions of the tables, how many texts; `known` were staged."""

    versions: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    embedded: int = 0
    known: int = 0


@dataclass(frozen=True, slots=True)
class Published:
    """Rows by table that have new vectors, and what was embedded besides."""

    rows: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    caught_up: int = 0


class _Gap(Exception):
    """A text is not staged: a run was undone meanwhile, and rows that were not there before are back."""


def check_alone(run: Run) -> None:
    """Raise `Refused` while another re-embedding of the namespace goes on: two would drop each other's work."""
    running = existing_store(run).snapshot().frame("runs", "state = 'running' AND flow = 'reembed'", ["id", "owner"])
    alive = [id_ for id_, owner in running.iter_rows() if id_ != run.id and not is_surely_dead(owner or "")]
    if alive:
        raise Refused(
            f"The namespace is being re-embedded by {', '.join(alive)}.",
            f"Wait until it has ended; if its machine is gone: slowwave runs {alive[0]} --end",
        )


def texts_to_embed(run: Run, model: str) -> tuple[int, int]:
    """How many different texts have a vector, and how many of them are not staged; nothing is written."""
    store, hashes = existing_store(run), set[str]()
    for texts in Wording(store.snapshot()).every():
        hashes.update(digest(text) for text in texts if text)
    return len(hashes), len(hashes.difference(staged_hashes(store, model, open_embedder(model).dims)))


@task("freeze the questions of the gate on old vectors")
def freeze_old(run: Run, settings: ReembedSettings) -> Frozen | None:
    """Ask the questions of the gate before anything changes."""
    if not settings.gate.enabled:
        return None
    try:
        return freeze_probes(run, settings.gate)
    except SlowwaveError as error:
        raise Refused(
            f"The gate cannot ask with the model that the namespace has now. {error.message}",
            f"{error.remedy} Or run it with --no-gate.",
        ) from error


@task("stage vectors", about="{run.namespace}, {model}", longest_s=LONGEST_WAIT_FOR_A_MODEL_S, tags=[EMBEDS])
async def stage_vectors(run: Run, model: str, settings: ReembedSettings) -> Staged:
    """Embed every text that is not staged yet, batch by batch; what is done stays done, whatever becomes of the run."""
    store, embedder = existing_store(run), open_embedder(model)
    snapshot = store.snapshot()
    staging = Staging(store, model, embedder.dims)
    total = sum(snapshot.count(name) for name in WITH_VECTORS)
    work, rows = _Embedding(embedder, staging, settings.batch_size), 0
    for texts in Wording(snapshot).every():
        work.take(texts)
        rows += len(texts)
        await report_progress("rows embedded", min(rows, total), total)
    work.finish()
    return Staged(dict(snapshot.versions), work.embedded, work.known)


class _Embedding:
    """Texts on their way to the staging area."""

    def __init__(self, embedder: Embedder, staging: Staging, size: int) -> None:
        self._embedder, self._staging, self.size = embedder, staging, size
        self._done = set(staging.hashes())
        self.waiting: dict[str, str] = {}
        self.known, self.embedded = len(self._done), 0

    def note(self, texts: pl.Series) -> None:
        """Which texts are still to be embedded."""
        for text in texts:
            if text and (mark := digest(text)) not in self._done:
                self.waiting[mark] = text

    def take(self, texts: pl.Series) -> None:
        """Embed full batches of what is new among the texts."""
        self.note(texts)
        while len(self.waiting) >= self.size:
            self._embed(list(self.waiting)[: self.size])

    def finish(self) -> None:
        """Embed what is left."""
        while self.waiting:
            self._embed(list(self.waiting)[: self.size])

    def _embed(self, marks: Sequence[str]) -> None:
        self._staging.add(marks, self._embedder.embed([self.waiting.pop(mark) for mark in marks]))
        self._done.update(marks)
        self.embedded += len(marks)


@task("publish vectors", about="{run.namespace}, {model}")
def publish_vectors(run: Run, model: str, settings: ReembedSettings, staged: Staged) -> Published:
    """Put the staged vectors in the place of the old ones, in one commit.

    What was written since it was staged is embedded before the lease is taken, again where that goes on, and at last,
    if it fits into a batch, within it. Raises `Refused` where it does not, and `StoreMismatch` where somebody else
    re-embedded the namespace meanwhile.
    """
    embedder, store = open_embedder(model), existing_store(run)
    store.embedding = (run.embedder, store.head.dims)
    staging = Staging(store, embedder.name, embedder.dims)
    work = _Embedding(embedder, staging, settings.batch_size)
    since: Mapping[str, int] | None = staged.versions
    for left in reversed(range(ROUNDS)):
        try:
            with store.commit(run.id, KIND, run.now) as tx:
                if _has_caught_up(work, tx, since, is_last=not left):
                    rows = _publish(run, store, tx, staging, embedder)
                    return Published(rows, work.embedded)
        except _Gap:
            since = None
        snapshot = store.snapshot()
        for texts in Wording(snapshot).every(since):
            work.take(texts)
        work.finish()
        since = snapshot.versions
    raise Refused("What was written meanwhile could not be embedded in time.", "Run it again: what is done is kept.")


def _has_caught_up(work: _Embedding, tx: Transaction, since: Mapping[str, int] | None, *, is_last: bool) -> bool:
    """Whether every text is staged; the last time a few are embedded under the lease."""
    work.waiting.clear()
    for texts in Wording(tx).every(since):
        work.note(texts)
    if not work.waiting:
        return True
    if is_last and len(work.waiting) <= work.size:
        work.finish()
        return True
    work.waiting.clear()
    return False


def _publish(run: Run, store: Store, tx: Transaction, staging: Staging, embedder: Embedder) -> Mapping[str, int]:
    """Write all tables, and the decision; raises `_Gap` where a text is missing."""
    head = tx.lease
    old = Snapshot(store.db, tx.versions, head.sequence, (head.embed_model, head.dims))
    rows = _Writing(tx, old, staging, embedder).write()
    measures = {
        "from": head.embed_model,
        "to": embedder.name,
        "dims": [head.dims, embedder.dims],
        "rows": sum(rows.values()),
    }
    reason = f"Vectors of {head.embed_model} gave way to those of {embedder.name}."
    row = decision(KIND, embedder.name, None, None, reason, run.now, measures, key=(run.id,))
    tx.upsert("decisions", decision_frame([row]))
    return rows


class _Writing:
    """The new rows of every table that holds vectors, from the old ones and from what is staged."""

    def __init__(self, tx: Transaction, old: Reading, staging: Staging, embedder: Embedder) -> None:
        self._tx, self._old, self._staging, self._embedder = tx, old, staging, embedder
        self._wording, self._gaps = Wording(old), 0

    def write(self) -> Mapping[str, int]:
        """Write them; returns rows by table."""
        tx, old = self._tx, self._old
        proposals, talks = self._proposals(), old.frame("conversation_state")
        tx.turn_to(self._embedder.name, self._embedder.dims)
        rows = {
            name: write_renewed(tx, old, name, columns_for(name, column_names(name)), self._renewed)
            for name in WITH_VECTORS
        }
        talks = talks.with_columns(recent_turns=pl.lit([], dtype=talks.schema["recent_turns"]))
        tx.put_back("conversation_state", talks)  # the surprise filter begins again
        tx.put_back("proposals", proposals)
        if self._gaps:
            raise _Gap
        return {**rows, "conversation_state": len(talks), "proposals": len(proposals)}

    def _vectors(self, texts: pl.Series) -> pl.DataFrame:
        """(hash, vector) of texts, in their order."""
        marks = pl.Series("hash", [digest(text) if text else None for text in texts], dtype=pl.String)
        found = self._staging.vectors(marks)
        self._gaps += int((found["hash"].is_not_null() & ~found["is_staged"]).sum())
        return found

    def _renewed(self, name: str, rows: pl.DataFrame) -> pl.DataFrame:
        found = self._vectors(self._wording.of(name, rows))
        renewed = rows.drop("vector", strict=False).with_columns(found["vector"])
        if "embed_model" in rows.columns:
            is_named = pl.col("embed_model").is_not_null() | pl.col("vector").is_not_null()
            return renewed.with_columns(embed_model=pl.when(is_named).then(pl.lit(self._embedder.name)))
        if "embed_text_hash" in rows.columns:
            return renewed.with_columns(embed_text_hash=pl.coalesce(found["hash"], "embed_text_hash"))
        return renewed

    def _proposals(self) -> pl.DataFrame:
        """What waits for a person and would write vectors: the same rows with new ones."""
        waiting = self._wording.proposals()
        columns = {part: [self._proposed(text) for text in waiting[part]] for part in PARTS}
        renewed = waiting.with_columns(pl.Series(part, texts, dtype=pl.String) for part, texts in columns.items())
        return renewed.join(waiting, on=["id", *PARTS], how="anti", nulls_equal=True, maintain_order="left")

    def _proposed(self, changes: str | None) -> str | None:
        listed = json.loads(changes or "[]")
        rows = list(self._wording.proposed(listed))
        if not rows:
            return changes
        vectors = self._vectors(pl.Series("text", [text for _, text in rows], dtype=pl.String))["vector"]
        for (row, _), vector in zip(rows, vectors.to_list(), strict=True):
            row.pop("vector", None)
            row |= {"vector": vector} if vector is not None else {}
            row |= {"embed_model": self._embedder.name} if "embed_model" in row else {}
        return as_json(listed)


def has_links(run: Run) -> bool:
    """Whether entities are linked that are alike."""
    return bool(existing_store(run).snapshot().count("entity_links"))


@task("drop staged vectors")
def drop_staging(run: Run) -> None:
    """Once they are published."""
    drop_staged(existing_store(run))


# The counts of a re-embedding.


@dataclass
class ReembedTally(Tally):
    """Counts of one re-embedding, from the model `old` to `new`."""

    old: str = ""
    new: str = ""
    is_published: bool = False
    has_filled: bool = False
    always: ClassVar[tuple[RunCount, ...]] = (RunCount.TEXTS_EMBEDDED, RunCount.ROWS_REEMBEDDED)

    def surveyed(self, texts: int, left: int) -> None:
        """What a run would embed."""
        self.counts[RunCount.DIFFERENT_TEXTS] += texts
        self.counts[RunCount.TEXTS_TO_EMBED] += left

    def filled(self, rows: Mapping[str, int]) -> None:
        """Rows that lacked a vector of the model that the memory has."""
        self.counts.update({f"{name}: vectors filled": number for name, number in rows.items()})
        self.has_filled = any(rows.values())

    def published(self, staged: Staged, published: Published) -> None:
        """Counts of embedded texts and written rows."""
        self.counts[RunCount.TEXTS_EMBEDDED] += staged.embedded + published.caught_up
        self.counts[RunCount.TEXTS_STAGED_BEFORE] += staged.known
        self.counts[RunCount.ROWS_REEMBEDDED] += sum(published.rows.values())
        self.counts.update({f"{name}: rows": number for name, number in published.rows.items()})
        self.is_published = bool(published.rows)

    def linked_anew(self, links: int) -> None:
        """Links between entities that are alike by the new model."""
        self.counts[RunCount.LINKS] += links

    @property
    def has_written(self) -> bool:
        """Whether a vector changed."""
        return self.is_published or self.has_filled

    def notes(self, counts: Mapping[str, int]) -> list[str]:
        """Remarks on the counts, for a reader."""
        turn = f"From {self.old} to {self.new}."
        profile = (
            [] if has_profile(self.new) else
            [f"No thresholds were measured for {self.new}: those of a transformer are used where facts are compared, "
             "unless resolve_cosine is set."]
        )  # fmt: skip
        dry = ["A dry run: nothing was written."] if self.dry_run else []
        if self.old == self.new:
            idle = f"Every row that says something has a vector of {self.new}."
            return [*dry, f"The memory has vectors of {self.new} already.", *([] if self.has_written else [idle])]
        if self.dry_run:
            return [*dry, turn, *profile]
        if self.state == "undone":
            return [turn]
        set_it = f'Set embedder = "{self.new}" in slowwave.toml before anything else is written.'
        return [turn, set_it, *profile]

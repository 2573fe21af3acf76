"""Vectors: the text that the vector of a row stands for, and vectors of another model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, partial

import numpy as np
import polars as pl

from inference.embedding import REMOTE_TEXTS, Embedder, Vectors
from slowwave.common.comparison.similarity import has_profile
from slowwave.common.decisions import decision, decision_frame
from slowwave.common.errors import Refused
from slowwave.common.text import digest
from slowwave.facts.searched_texts import READ, texts_of
from storage.rows import column_names
from storage.snapshots import Reading, Snapshot, batches
from storage.store import Store
from storage.tables import WITH_VECTORS
from storage.transactions import Transaction
from storage.upkeep import ROUNDS, write_anew
from tasks.ingest.candidate_rows import CONVERSATIONS
from tasks.runtime.engine import report_progress, task
from tasks.runtime.retrying import EMBEDS, LONGEST_WAIT_FOR_A_MODEL_S, patiently
from tasks.runtime.runs import Run, existing_store, vector_column

KIND = "reembed"
"""The kind of commits that put vectors of another model in the place of all vectors."""
WAITING = """state = 'pending' AND (changes LIKE '%"vector"%' OR otherwise LIKE '%"vector"%')"""
OTHERS = {"refusals": ("id", "excerpt", "vector"), "scorer_state": ("id", "text")}
"""Columns of the tables of the filters: what was refused, and learned from it, is embedded as far as it is kept."""


class Wording:
    """The texts of one state of the store."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._adopted = frozenset(reading.frame("sources", f"NOT ({CONVERSATIONS})", ["id"])["id"])

    def of(self, name: str, rows: pl.DataFrame) -> pl.Series:
        """The text of each row; null where it has no vector. `rows` holds the columns of `READ` or `OTHERS`."""
        if name == "refusals":  # only some have a vector
            return rows.select(text=pl.when(pl.col("vector").is_not_null()).then("excerpt"))["text"]
        return rows["text"] if name == "scorer_state" else texts_of(name, rows, self._adopted)

    def every(self) -> Iterator[pl.Series]:
        """The texts of all rows, some thousands at a time."""
        for name in WITH_VECTORS:
            for rows in batches(self._reading, name, READ.get(name) or OTHERS[name]):
                yield self.of(name, rows)


# Vectors of another model, in memory by the hash of the text that they stand for, and published in one commit.


def count_texts(run: Run) -> int:
    """How many different texts have a vector; nothing is written."""
    texts = Wording(existing_store(run).snapshot()).every()
    return len({digest(text) for part in texts for text in part if text})


class NewVectors:
    """Vectors of one model, of each text once. A run has one, so that no try of its task embeds a text again."""

    def __init__(self, embedder: Embedder) -> None:
        self.embedder, self._places = embedder, dict[str, int]()

    def __len__(self) -> int:
        return len(self._places)

    @cached_property
    def _parts(self) -> list[Vectors]:
        return [np.zeros((1, self.embedder.dims), np.float32)]  # where a text has none

    def lacking(self, texts: Iterable[str | None]) -> Iterator[dict[str, str]]:
        """What is new among the texts, by hash, as much as is embedded at once."""
        fresh = [*{mark: text for text in texts if text and (mark := digest(text)) not in self._places}.items()]
        return (dict(fresh[start : start + REMOTE_TEXTS]) for start in range(0, len(fresh), REMOTE_TEXTS))

    def embed(self, texts: Mapping[str, str]) -> None:
        """Embed texts that are new, all or none of them."""
        parts, vectors = self._parts, self.embedder.embed([*texts.values()])
        parts.append(vectors)
        self._places |= {mark: place for place, mark in enumerate(texts, 1 + len(self))}

    def of(self, hashes: pl.Series) -> pl.Series:
        """The vectors of these hashes, in their order; null for a null one and for a text that says nothing."""
        self._parts = [np.concatenate(self._parts)] if len(self._parts) > 1 else self._parts
        return vector_column(self._parts[0][[self._places.get(mark, 0) for mark in hashes]])


@task("re-embed", about="{run.namespace}, {vectors.embedder.name}", longest_s=LONGEST_WAIT_FOR_A_MODEL_S, tags=[EMBEDS])
async def reembed_rows(run: Run, vectors: NewVectors) -> Mapping[str, int]:
    """Put vectors of another model in the place of all vectors, in one commit; rows by table.

    They are made before the lease is taken, and within it the few of what was written since. Raises `StoreMismatch`
    where somebody else re-embedded the namespace meanwhile, and `Refused` where changes with vectors wait for a person.
    """
    store = existing_store(run)
    _check_nothing_waits(store.snapshot())
    store.embedding = (run.embedder, store.snapshot().dims)
    snapshot = await _embed(store, vectors)
    with store.commit(run.id, KIND, run.now) as tx:
        _check_nothing_waits(tx)
        if tx.is_overtaken(snapshot):
            for texts in Wording(tx).every():
                tx.stay()
                for part in vectors.lacking(texts):
                    tx.stay()
                    vectors.embed(part)
        return _publish(run, store, tx, vectors)


def _check_nothing_waits(reading: Reading) -> None:
    if count := reading.count("proposals", WAITING):
        raise Refused(
            f"{count} changes wait for a person with vectors of the present model.",
            "Decide first: slowwave review list",
        )


async def _embed(store: Store, vectors: NewVectors) -> Snapshot:
    """Embed what has no new vector, and what others write meanwhile; returns the state whose texts all have one."""

    async def embed(part: Mapping[str, str]) -> None:
        vectors.embed(part)

    patient = patiently("embed", embed)
    for _ in range(ROUNDS):  # each has less to embed, unless others write faster than the model embeds
        snapshot, rows = store.snapshot(), 0
        total = sum(snapshot.count(name) for name in WITH_VECTORS)
        for texts in Wording(snapshot).every():
            for part in vectors.lacking(texts):
                await patient(part)
            rows += len(texts)
            await report_progress("rows embedded", min(rows, total), total)
        if store.head.sequence == snapshot.sequence:
            break
    return snapshot


def _publish(run: Run, store: Store, tx: Transaction, vectors: NewVectors) -> Mapping[str, int]:
    """Write all tables, of those with vectors every row with its new one, and the decision; rows by table."""
    head, embedder = tx.lease, vectors.embedder
    old = Snapshot(store.db, tx.versions, head.sequence, (head.embed_model, head.dims))
    wording, talks = Wording(old), old.frame("conversation_state")

    def renewed(name: str, rows: pl.DataFrame) -> pl.DataFrame:
        texts = wording.of(name, rows)
        marks = pl.Series("hash", [digest(text) if text else None for text in texts], dtype=pl.String)
        fresh = rows.drop("vector", strict=False).with_columns(vectors.of(marks))
        if "embed_model" in rows.columns:
            is_named = pl.col("embed_model").is_not_null() | pl.col("vector").is_not_null()
            return fresh.with_columns(embed_model=pl.when(is_named).then(pl.lit(embedder.name)))
        if "embed_text_hash" in rows.columns:
            return fresh.with_columns(embed_text_hash=pl.coalesce(marks, "embed_text_hash"))
        return fresh

    tx.turn_to(embedder.name, embedder.dims)
    read = {name: [*dict.fromkeys((*column_names(name), *OTHERS.get(name, ())))] for name in WITH_VECTORS}
    rows = {
        name: write_anew(tx, name, batches(old, name, columns), partial(renewed, name))
        for name, columns in read.items()
    }
    talks = talks.with_columns(recent_turns=pl.lit([], dtype=talks.schema["recent_turns"]))
    tx.put_back("conversation_state", talks)  # the surprise filter begins again
    rows["conversation_state"] = len(talks)
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


def has_links(run: Run) -> bool:
    """Whether entities are linked that are alike."""
    return bool(existing_store(run).snapshot().count("entity_links"))


def remarks_on(old: str, new: str, *, dry_run: bool) -> list[str]:
    """What a reader should know of a memory that turns to a new model."""
    is_unknown = f"No thresholds were measured for {new}: those of a transformer are used where facts are compared"
    return [
        f"From {old} to {new}.",
        *([] if dry_run else [f'Set embedder = "{new}" in slowwave.toml before anything else is written.']),
        *([] if has_profile(new) else [f"{is_unknown}, unless resolve_cosine is set."]),
    ]

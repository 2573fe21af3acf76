"""Wording: the text that the vector of every row stands for, and vectors for the rows that lack one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from inference.embedding import Embedder, open_embedder
from slowwave.common.errors import Refused
from slowwave.facts.searched_texts import READ, message_texts, texts_of
from storage.reembedding import KIND, batches, drop_staged
from storage.rows import MARK, column_names, empty_frame, quoted
from storage.snapshots import Reading
from storage.tables import TABLES, WITH_VECTORS
from tasks.ingest.candidate_rows import CONVERSATIONS
from tasks.runtime.engine import task
from tasks.runtime.retrying import EMBEDS, LONGEST_WAIT_FOR_A_MODEL_S
from tasks.runtime.runs import Run, existing_store, vector_column

PARTS = ("changes", "otherwise")
HOLDING = " OR ".join(f"""{part} LIKE '%"vector"%'""" for part in PARTS)
OTHERS = {"refusals": ("id", "subject_id", "excerpt", "vector"), "scorer_state": ("id", "text")}
"""Columns that the text follows from where other rows have a part in it."""


class Wording:
    """The texts of one state of the store."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._adopted = frozenset(reading.frame("sources", f"NOT ({CONVERSATIONS})", ["id"])["id"])

    def of(self, name: str, rows: pl.DataFrame) -> pl.Series:
        """The text of each row; null where it has no vector. `rows` holds the columns of `READ` or `OTHERS`."""
        if name == "refusals":
            return self._refused(rows)
        return self._learned(rows) if name == "scorer_state" else texts_of(name, rows, self._adopted)

    def every(self, since: Mapping[str, int] | None = None) -> Iterator[pl.Series]:
        """The texts of all rows, or of those that were written after these versions of the tables; some thousands at
        a time."""
        for name in WITH_VECTORS:
            if since is None or since[name] != self._version(name):
                newer = None if since is None else f"{MARK} > {since[name]}"
                for rows in batches(self._reading, name, READ.get(name) or OTHERS[name], newer):
                    yield self.of(name, rows)
        for row in self.proposals().iter_rows(named=True):
            texts = [text for part in PARTS for _, text in self.proposed(json.loads(row[part] or "[]"))]
            yield pl.Series("text", texts, dtype=pl.String)

    def proposals(self) -> pl.DataFrame:
        """What was proposed and holds vectors, decided or not, since a decision can be undone: whole rows."""
        return self._reading.frame("proposals", HOLDING)

    def proposed(self, changes: Sequence[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], str | None]]:
        """The new rows with a vector that a proposal would write, as they stand in it, and their texts."""
        for change in changes:
            name, row = change["table"], change["after"]
            if name in READ and change["before"] is None and row is not None:
                frame = empty_frame(name, self._reading.dims).select(READ[name])
                cells = {column: row.get(column) for column in READ[name]} | {"id": change["id"]}
                text = self.of(name, pl.DataFrame([cells], schema=frame.schema))[0]
                yield row, text

    def _version(self, name: str) -> int:
        return int(self._reading.handle(name).version)

    def _refused(self, rows: pl.DataFrame) -> pl.Series:
        """Of a refusal the text of the message, or what is kept of it where that is gone; only some have a vector."""
        messages = self._message_texts(rows.filter(pl.col("vector").is_not_null())["subject_id"])
        both = rows.join(messages, left_on="subject_id", right_on="id", how="left", maintain_order="left")
        text = pl.when(pl.col("vector").is_not_null()).then(pl.coalesce("text", "excerpt"))
        return both.select(text=text)["text"]

    def _learned(self, rows: pl.DataFrame) -> pl.Series:
        """Of a learned prototype the text of the newest refusal that it was learned from."""
        has_vector = "vector IS NOT NULL"
        columns = ["subject_id", "excerpt", "created_at"]
        found = self._reading.referring("refusals", "excerpt", rows["text"].drop_nulls(), columns, where=has_vector)
        newest = found.sort("created_at").unique("excerpt", keep="last")
        messages = newest.join(
            self._message_texts(newest["subject_id"]), left_on="subject_id", right_on="id", how="left"
        )
        both = rows.rename({"text": "own"}).join(
            messages.select("excerpt", "text"), left_on="own", right_on="excerpt", how="left", maintain_order="left"
        )
        return both.select(text=pl.coalesce("text", "own"))["text"]

    def _message_texts(self, ids: pl.Series) -> pl.DataFrame:
        """(id, text) of messages."""
        messages = self._reading.by_ids("messages", ids, READ["messages"])
        return messages.select("id").with_columns(message_texts(messages, self._adopted))


def columns_for(name: str, own: Sequence[str]) -> list[str]:
    """The columns of a table that are read to write it anew: its own, and what its texts follow from."""
    return list(dict.fromkeys([*own, *OTHERS.get(name, ())]))


# Rows that lack a vector get one.


@task("fill missing vectors", longest_s=LONGEST_WAIT_FOR_A_MODEL_S, tags=[EMBEDS])
def fill_vectors(run: Run, *, dry_run: bool = False) -> Mapping[str, int]:
    """Give a vector of the namespace's own model to rows that lack one, or have one of another; returns rows by table.

    They lack one where embedding failed when they were stored, and where undo brought a row back from before a
    re-embedding that no other row tells the vector of.
    """
    store, embedder = existing_store(run), open_embedder(run.embedder)
    snapshot = store.snapshot()
    store.embedding = (snapshot.embed_model, snapshot.dims)
    if not dry_run:
        drop_staged(store, store.embedding)  # a run that was killed after it had published left it
    found = _lacking(snapshot, embedder)
    if dry_run or not found:
        return {name: len(rows) for name, rows in found.items()}
    with store.commit(run.id, f"{KIND}.fill", run.now) as tx:
        if tx.is_overtaken(snapshot):
            raise Refused("Another run wrote meanwhile.", "Run it again.")
        for name, rows in found.items():
            tx.put_back(name, rows)
    return {name: len(rows) for name, rows in found.items()}


def _lacking(reading: Reading, embedder: Embedder) -> dict[str, pl.DataFrame]:
    """Whole rows with the vectors that they lacked, by table."""
    wording, found = Wording(reading), {}
    for name in (name for name in WITH_VECTORS if name not in OTHERS):
        foreign = f" OR embed_model != {quoted(embedder.name)}" if "embed_model" in TABLES[name].columns else ""
        parts = []
        for rows in batches(reading, name, column_names(name), f"vector IS NULL{foreign}"):
            lacking = rows.with_columns(wording.of(name, rows).alias("_text")).filter(
                pl.col("_text").fill_null("") != ""
            )
            if len(lacking):
                vectors = vector_column(embedder.embed(lacking["_text"].to_list()))
                parts.append(lacking.drop("_text").with_columns(vectors).filter(pl.col("vector").is_not_null()))
        if parts and (whole := pl.concat(parts)).height:
            is_fact = "embed_model" in whole.columns
            found[name] = whole.with_columns(embed_model=pl.lit(embedder.name)) if is_fact else whole
    return found

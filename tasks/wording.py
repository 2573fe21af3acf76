"""Wording: the text that the vector of every row stands for, as it is stored now."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from slowwave.embedded_texts import READ, message_texts, texts_of
from storage.reembedding import batches
from storage.rows import MARK, empty_frame
from storage.snapshots import Reading
from storage.tables import WITH_VECTORS

from .candidates import CONVERSATIONS

PARTS = ("changes", "otherwise")
HOLDING = " OR ".join(f"""{part} LIKE '%"vector"%'""" for part in PARTS)
OTHERS = {"refusals": ("id", "subject_id", "excerpt", "vector"), "scorer_state": ("id", "text")}
"""Columns that the text follows from where other rows have a part in it."""
_TEXT = pl.Series("text", [], dtype=pl.String)


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
            told = [text for part in PARTS for _, text in self.proposed(json.loads(row[part] or "[]"))]
            yield pl.Series("text", told, dtype=pl.String)

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
        said = self._said(rows.filter(pl.col("vector").is_not_null())["subject_id"])
        both = rows.join(said, left_on="subject_id", right_on="id", how="left", maintain_order="left")
        text = pl.when(pl.col("vector").is_not_null()).then(pl.coalesce("text", "excerpt"))
        return both.select(text=text)["text"]

    def _learned(self, rows: pl.DataFrame) -> pl.Series:
        """Of a learned prototype the text of the newest refusal that it was learned from."""
        told = "vector IS NOT NULL"
        columns = ["subject_id", "excerpt", "created_at"]
        found = self._reading.referring("refusals", "excerpt", rows["text"].drop_nulls(), columns, where=told)
        newest = found.sort("created_at").unique("excerpt", keep="last")
        said = newest.join(self._said(newest["subject_id"]), left_on="subject_id", right_on="id", how="left")
        both = rows.rename({"text": "own"}).join(
            said.select("excerpt", "text"), left_on="own", right_on="excerpt", how="left", maintain_order="left"
        )
        return both.select(text=pl.coalesce("text", "own"))["text"]

    def _said(self, ids: pl.Series) -> pl.DataFrame:
        """(id, text) of messages."""
        messages = self._reading.by_ids("messages", ids, READ["messages"])
        return messages.select("id").with_columns(message_texts(messages, self._adopted))


def columns_for(name: str, own: Sequence[str]) -> list[str]:
    """The columns of a table that are read to write it anew: its own, and what its texts follow from."""
    return list(dict.fromkeys([*own, *OTHERS.get(name, ())]))

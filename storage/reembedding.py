"""Re-embedding in the store: vectors of another model are staged beside it, and published with all tables at once.

Staged vectors lie in a table of their own, by the hash of the text that they stand for, outside the history of the
namespace: a run that is killed finds there what it had done, and a text that occurs in many rows is embedded once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from slowwave.common.text import digest

from .migrations import make_indexes, make_text_indexes
from .rows import exact_rows
from .tables import TABLES

if TYPE_CHECKING:
    from lancedb.table import Table

    from .snapshots import Reading
    from .store import Store
    from .transactions import Transaction

KIND = "reembed"
"""The kind of commits that put vectors of another model in the place of all vectors."""
PREFIX = "_reembed_"
ROWS = 4096  # that are held in memory at a time
_FEW = 64  # tables of a namespace beside those that slowwave declares

Vectors = npt.NDArray[np.float32]


class Staging:
    """Vectors (hash of the text → vector) of one model that are not published yet; null where a text says nothing."""

    def __init__(self, store: Store, model: str, dims: int) -> None:
        fields = [pa.field("hash", pa.string(), nullable=False), pa.field("vector", pa.list_(pa.float32(), dims))]
        name = _name(model, dims)
        self._schema, self.dims = pa.schema(fields), dims
        self._table: Table = store.db.create_table(name, schema=self._schema, exist_ok=True)
        self._places: pl.DataFrame | None = None

    def hashes(self) -> pl.Series:
        """Of every text that is staged."""
        return self._read()["hash"]

    def add(self, hashes: Sequence[str], vectors: Vectors) -> None:
        """Keep the vectors, (n, d) unit rows or zero, of texts that are not staged yet; they are on disk afterwards."""
        is_empty = ~vectors.any(axis=1)
        flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).ravel())
        column = pa.FixedSizeListArray.from_arrays(flat, self.dims, mask=pa.array(is_empty))
        self._table.add(pa.table([pa.array(hashes, pa.string()), column], schema=self._schema))
        self._places = None

    def vectors(self, hashes: pl.Series) -> pl.DataFrame:
        """(hash, vector, is_staged) in the order of the hashes; null for a null hash and for what is not staged."""
        wanted = hashes.rename("hash").to_frame()
        places = wanted.drop_nulls().unique().join(self._read(), on="hash")["_rowid"].sort().to_list()
        rows = self._table.take_row_ids(places).select(["hash", "vector"]).to_arrow() if places else self._empty()
        found = pl.from_arrow(rows)
        assert isinstance(found, pl.DataFrame)
        once = found.unique("hash", keep="any").with_columns(is_staged=pl.lit(True))
        both = wanted.join(once, on="hash", how="left", maintain_order="left")
        return both.with_columns(pl.col("is_staged").fill_null(False))

    def _empty(self) -> pa.Table:
        return self._schema.empty_table()

    def _read(self) -> pl.DataFrame:
        """(hash, _rowid) of all rows; kept until more are added."""
        if self._places is None:
            rows = pl.from_arrow(self._table.search().with_row_id(True).select(["hash"]).limit(None).to_arrow())
            assert isinstance(rows, pl.DataFrame)
            self._places = rows.select("hash", "_rowid").unique("hash", keep="any")
        return self._places


def staged_hashes(store: Store, model: str, dims: int) -> pl.Series:
    """Hashes of the texts that are staged; makes no table."""
    if _name(model, dims) in _staged(store):
        return Staging(store, model, dims).hashes()
    return pl.Series("hash", [], dtype=pl.String)


def drop_staged(store: Store, only: tuple[str, int] | None = None) -> int:
    """Drop everything that is staged, or what is of `only` this (model, dims); returns how many tables that were."""
    names = [name for name in _staged(store) if only is None or name == _name(*only)]
    for name in names:
        store.db.drop_table(name)
    return len(names)


def _name(model: str, dims: int) -> str:
    return f"{PREFIX}{digest(model, dims, size=8)}"


def _staged(store: Store) -> list[str]:
    names = store.db.list_tables(limit=len(TABLES) + _FEW).tables
    return [name for name in names if name.startswith(PREFIX)]


def batches(reading: Reading, name: str, columns: Sequence[str], where: str | None = None) -> Iterator[pl.DataFrame]:
    """Rows of a table, some thousands at a time."""
    query = reading.handle(name).search().select(list(columns))
    for batch in (query.where(where) if where else query).limit(None).to_batches(ROWS):
        rows = pl.from_arrow(batch)
        assert isinstance(rows, pl.DataFrame)
        if len(rows):
            yield rows


Renewal = Callable[[str, pl.DataFrame], pl.DataFrame]
"""Rows of a table with vectors of the new model and all that goes with them."""


def write_renewed(tx: Transaction, old: Reading, name: str, columns: Sequence[str], renew: Renewal) -> int:
    """Put the rows of `old`, renewed from these columns, in the place of a table's rows; returns how many.

    They are written into new files with new indexes, stamps as they were; the older version keeps the old vectors.
    """
    counts: list[int] = []
    renewed = _renewed(tx, batches(old, name, columns), name, renew, counts)
    tx.write_anew(name, pa.RecordBatchReader.from_batches(TABLES[name].schema(tx.dims), renewed))
    make_text_indexes(tx, [name])
    make_indexes(tx, name)
    return sum(counts)


def _renewed(
    tx: Transaction, parts: Iterator[pl.DataFrame], name: str, renew: Renewal, counts: list[int]
) -> Iterator[pa.RecordBatch]:
    for rows in parts:
        tx.stay()
        counts.append(len(rows))
        yield from exact_rows(name, renew(name, rows), tx.dims).to_batches()

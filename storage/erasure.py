"""Erasure on disk: tables are written anew without what is to be forgotten, and everything older is dropped.

A deleted row stays in its data file until that is compacted, its words in the dictionary of the full-text index, its
vector in a partition, and all of it in every older version. So every table is written into new files, its indexes are
made from these, and only once that is published are older versions and their files dropped. A writer that dies before
has changed nothing that can be seen, one that dies afterwards leaves older versions for the next one to drop.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from slowwave.common.errors import Refused
from slowwave.lifecycle.erasure import VOCABULARY, with_words_of
from slowwave.lifecycle.forgotten_names import NameMatcher

from .connection import HEAD
from .migrations import make_indexes, make_text_indexes
from .object_storage import files
from .rows import exact_rows, id_filters
from .schema import Role
from .snapshots import read_rows
from .tables import TABLES, tables_of
from .upkeep import NEVER

if TYPE_CHECKING:
    from lancedb.table import Table

    from .store import Store
    from .transactions import Transaction

LEDGER = "commits"  # every commit adds to it, so that it never comes to rest; it holds no text of anybody
ROUNDS = 4
_BATCH = 4096
_LOG_ROWS = 50_000


@dataclass(frozen=True, slots=True, eq=False)
class TableErasure:
    """The erasure in one table: ids to delete, rows with erased text (every column but the vector), and their vectors.

    `vectors` (id, vector) are new vectors, empty where no text is left; other rows keep theirs.
    """

    gone: frozenset[str]
    struck: pl.DataFrame
    vectors: pl.DataFrame


def write_anew(tx: Transaction, name: str, change: TableErasure) -> None:
    """One table in new files with new indexes, as part of a commit; a table that never had rows is left alone."""
    if tx.handle(name).version == 1:
        return
    tx.write_anew(name, _reader(tx, name, change))
    make_text_indexes(tx, [name])
    make_indexes(tx, name)


def _reader(tx: Transaction, name: str, change: TableErasure) -> pa.RecordBatchReader:
    source = tx.handle(name)
    old = tx.open_again(name)
    old.checkout(source.version)
    schema = TABLES[name].schema(tx.dims)
    return pa.RecordBatchReader.from_batches(schema, _batches(tx, name, old, change))


def _batches(tx: Transaction, name: str, old: Table, change: TableErasure) -> Iterator[pa.RecordBatch]:
    for batch in old.search().limit(None).to_batches(_BATCH):
        tx.stay()
        rows = pl.from_arrow(batch)
        assert isinstance(rows, pl.DataFrame)
        staying = rows.filter(~pl.col("id").is_in(list(change.gone)))
        yield from exact_rows(name, _changed(staying, change), tx.dims).to_batches()


def _changed(rows: pl.DataFrame, change: TableErasure) -> pl.DataFrame:
    ids = rows["id"].implode()
    struck = change.struck.filter(pl.col("id").is_in(ids))
    if struck.is_empty():
        return rows
    new = struck
    if "vector" in rows.columns:
        new = struck.join(rows.select("id", "vector"), on="id", how="left", maintain_order="left")
        fresh = change.vectors.filter(pl.col("id").is_in(ids)).select("id", fresh="vector", is_fresh=pl.lit(True))
        vector = pl.when(pl.col("is_fresh").fill_null(False)).then("fresh").otherwise("vector")
        new = new.join(fresh, on="id", how="left", maintain_order="left").with_columns(vector=vector)
    kept = rows.filter(~pl.col("id").is_in(struck["id"].implode()))
    return pl.concat([kept, new.select(kept.columns).cast(kept.schema)])


def purge_log(store: Store, name: str, gone: Collection[str]) -> None:
    """Delete rows of a log and write the others into new files, which stay in the order in which they were counted.

    Appends of other processes meanwhile are kept.
    """
    log = store.db.open_table(name)
    if log.version == 1:
        return
    for where in id_filters(sorted(gone)):
        log.delete(where)
    rest = read_rows(log)  # of two rows with one key the newer one holds
    newest = rest.sort("created_at").unique("id", keep="last", maintain_order=True)
    for part in newest.iter_slices(_LOG_ROWS):
        rows = exact_rows(name, part, store.head.dims)
        log.merge_insert("id").use_index(False).when_matched_update_all().execute(rows)
    for _ in range(2):  # the first makes a version when it brings indexes up to date
        _optimize(log, timedelta(0))


def drop_versions(store: Store, run_id: str, now: datetime) -> None:
    """Drop every version but the newest of every table, and files that no version knows.

    Nothing is dropped while compaction would still move a table: the head would name a version that is gone if this
    process died then.
    """
    for _ in range(ROUNDS):
        with store.commit(run_id, "forget.settle", now) as tx:
            tx.keep_recovered()
            for name in _pinned():
                tx.rebuild(name, lambda table: table.optimize(cleanup_older_than=NEVER))
            if not tx.before:
                for name in _pinned():
                    tx.rebuild(name, lambda table: _optimize(table, timedelta(0), is_alone=True))
                break
    else:
        raise Refused("Compaction does not come to rest, so older versions are still there.", "Run it again.")
    _optimize(store.db.open_table(HEAD), timedelta(0))


def _pinned() -> list[str]:
    return [name for name in tables_of(Role.STATE, Role.HISTORY) if name != LEDGER]


def _optimize(table: Table, age: timedelta, *, is_alone: bool = False) -> None:
    with warnings.catch_warnings(action="ignore"):  # about readers of older versions, who must not have them any more
        table.optimize(cleanup_older_than=age, delete_unverified=is_alone)


def versions_of(store: Store) -> Mapping[str, int]:
    """How many versions of each table there are."""
    return {name: len(store.db.open_table(name).list_versions()) for name in TABLES}


# The proof of an erasure: no text of any version names the subject, and no file from before is left. Rows are what
# anybody can read, but a deleted row or an old vector is in no row; what is in no row of now was in a file of before.


_PROOF_BATCH = 8192
_RESTING = (f"{LEDGER}.lance/", f"{HEAD}.lance/")
_CONTENT = ("/data/", "/_indices/", "/_deletions/")


@dataclass(frozen=True, slots=True)
class Naming:
    """Cells that name the subject, by table, and longer words with a name inside.

    `general` are rows with single words of a name among general words, by table.
    """

    cells: Mapping[str, int]
    general: Mapping[str, int]
    words: frozenset[str]


def read_rows_naming(store: Store, names: NameMatcher, *, only_newest: bool = False) -> Naming:
    """Look at every text of every table, at every version there is."""
    cells: Counter[str] = Counter()
    general: Counter[str] = Counter()
    words: set[str] = set()
    for name in (*TABLES, HEAD):
        for rows in _versions(store.db.open_table(name), only_newest=only_newest or name == LEDGER):
            general[name] += int(with_words_of(rows, names).sum())
            maybe = names.candidates(rows, rows.columns)
            for texts in maybe.iter_columns() if len(maybe) else ():
                if texts.name not in VOCABULARY or name == HEAD:
                    cells[name] += int(names.named(texts).sum())
                listed = texts.explode() if texts.dtype == pl.List else texts
                words |= names.words_around(listed.drop_nulls().unique())
    return Naming(dict(+cells), dict(+general), frozenset(words))


def _versions(table: Table, *, only_newest: bool) -> Iterator[pl.DataFrame]:
    """Batches of the rows of each version, texts only."""
    columns = [f.name for f in table.schema if str(f.type) in ("string", "list<item: string>")]
    listed = [version["version"] for version in table.list_versions()]
    for version in listed[-1:] if only_newest else listed:
        table.checkout(version)
        for batch in table.search().select(columns).limit(None).to_batches(_PROOF_BATCH):
            rows = pl.from_arrow(batch)
            assert isinstance(rows, pl.DataFrame)
            yield rows


def files_of(store: Store) -> frozenset[str]:
    """Every file of the namespace."""
    return frozenset(files(f"{store.uri.rstrip('/')}/{store.namespace}", store.db.storage_options))


def files_left(before: frozenset[str], after: frozenset[str]) -> list[str]:
    """Files with rows or indexes from before that are still there.

    Those of the ledger of commits and of the head do not count: they hold no text of anybody, and are read like all
    others.
    """
    kept = (file for file in before & after if not file.startswith(_RESTING))
    return sorted(file for file in kept if any(part in file for part in _CONTENT))

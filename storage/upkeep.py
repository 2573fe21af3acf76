"""Upkeep: compaction, indexes and retention as a commit that changes no row; and tables that are written anew.

These are without what is to be forgotten, or have vectors of another model.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from slowwave.common.errors import Refused
from slowwave.lifecycle.erasure import VOCABULARY, with_words_of
from slowwave.lifecycle.forgotten_names import NameMatcher

from .connection import HEAD, LEFT, all_left, files, remove_left
from .lease import LEFT_HEAD
from .migrations import (
    index_lookups,
    is_behind,
    make_indexes,
    make_text_indexes,
    missing_lookups,
    vector_index_is_due,
)
from .row_steps import tidy_steps
from .rows import exact_rows, id_filters
from .snapshots import batches_of, read_rows
from .tables import TABLES, Role, tables_of

if TYPE_CHECKING:
    from lancedb.table import Table

    from .store import Store
    from .transactions import Transaction

MANY_SEGMENTS = {Role.STATE: 8, Role.HISTORY: 32, Role.LOG: 8}
"""Fragments that a table may have: of state each makes a question slower, history is read by a handful of columns."""
LOOKED_AT_EVERY, OF_A_SMALL_RUN = 32, 6  # commits; a small ingest makes three to six, a fragment of each table
WHILE_AT_IT = 0.5  # of those fragments: what is soon due is compacted with what is due, in one commit
HEAD_HISTORY = timedelta(hours=1)
NEVER = timedelta(days=36_500)


@dataclass(frozen=True, slots=True)
class UpkeepReport:
    """What upkeep did: tables compacted and indexes made."""

    compacted: tuple[str, ...]
    indexed: tuple[str, ...]


def tend(
    store: Store, run_id: str, now: datetime, *, thorough: bool = False, after_little: bool = False
) -> UpkeepReport:
    """Compact what is fragmented, index what has grown, drop versions older than the retention.

    Compaction takes into the indexes what was written since. `thorough` tends every table that was ever written;
    otherwise those with many fragments or much that is not indexed, where there are any: else no lease is taken. To
    look at all tables takes longer than to write a message: `after_little` that is done only every few commits.
    """
    compacted, indexed = [], []
    snapshot = store.snapshot()
    if after_little and snapshot.sequence % LOOKED_AT_EVERY >= OF_A_SMALL_RUN:
        return UpkeepReport((), ())
    tidy_steps(str(store.db.uri), now - timedelta(days=store.retention.undo_days))
    pinned = [name for name in tables_of(Role.STATE, Role.HISTORY) if not snapshot.is_blank(name)]
    if thorough or any(_is_due(snapshot.handle(name), name) for name in pinned):
        with store.commit(run_id, "upkeep", now) as tx:
            for name in pinned:
                always = thorough and name != "commits"  # upkeep is a commit itself and would never come to rest
                if always or _is_fragmented(tx.handle(name), name, WHILE_AT_IT) or is_behind(tx.handle(name)):
                    tx.rebuild(name, lambda table: table.optimize(cleanup_older_than=NEVER))
                    compacted.append(name)
                indexed += [f"{name}.{column}" for column in make_indexes(tx, name)]
            tx.keep_recovered()
            if not compacted:
                _tend_head(store)
    if compacted:
        _drop_old_versions(store, run_id, now, compacted)
    for name in tables_of(Role.LOG):
        log = store.db.open_table(name)
        if thorough or _is_due(log, name):
            log.optimize(cleanup_older_than=HEAD_HISTORY)
            indexed += [f"{name}.{column}" for column in index_lookups(log, name)]
    return UpkeepReport(tuple(compacted), tuple(indexed))


def _is_due(table: Table, name: str) -> bool:
    """Whether the table is to be compacted, or has grown into an index."""
    return (
        _is_fragmented(table, name)
        or is_behind(table)
        or bool(missing_lookups(table, name))
        or (TABLES[name].has_vector and vector_index_is_due(table))
    )


def _drop_old_versions(store: Store, run_id: str, now: datetime, names: Sequence[str]) -> None:
    """Only once compaction is published: until then the head may name a version older than the retention."""
    keep = timedelta(days=store.retention.undo_days)
    with store.commit(run_id, "upkeep", now) as tx:
        for name in names:
            if not tx.was_ahead(name):
                tx.rebuild(name, lambda table: table.optimize(cleanup_older_than=keep))
        _tend_head(store)


def _tend_head(store: Store) -> None:
    """Only under the lease: a swap of the head that meets its compaction would look like a lost lease."""
    store.db.open_table(HEAD).optimize(cleanup_older_than=HEAD_HISTORY)


def _is_fragmented(table: Table, name: str, share: float = 1.0) -> bool:
    stats: Any = table.stats()  # a dict, whatever its annotation says
    return int(stats["fragment_stats"]["num_small_fragments"]) > MANY_SEGMENTS[TABLES[name].role] * share


# Tables that are written anew.


LEDGER = "commits"  # every commit adds to it, so that it never comes to rest; it holds no text of anybody
ROUNDS = 4
_LOG_ROWS = 50_000


def write_anew(
    tx: Transaction, name: str, parts: Iterable[pl.DataFrame], renew: Callable[[pl.DataFrame], pl.DataFrame]
) -> int:
    """Put rows, renewed part by part, in the place of a table's rows, in new files; returns how many were read."""
    counts: list[int] = []
    failed: list[Exception] = []

    def renewed() -> Iterator[pa.RecordBatch]:
        try:
            for rows in parts:
                tx.stay()
                counts.append(len(rows))
                yield from exact_rows(name, renew(rows), tx.dims).to_batches()
        except Exception as error:
            failed.append(error)
            raise

    try:
        tx.write_anew(name, pa.RecordBatchReader.from_batches(TABLES[name].schema(tx.dims), renewed()))
    except Exception:
        if failed:
            raise failed[0] from None  # LanceDB makes an error of its own of it
        raise
    make_text_indexes(tx, [name])
    make_indexes(tx, name)
    return sum(counts)


# Erasure. A deleted row stays in its data file until that is compacted, its words in the dictionary of the full-text
# index, its vector in a partition, and all of it in every older version. So every table is written into new files, its
# indexes are made from these, and only once that is published are older versions and their files dropped. A writer that
# dies before has changed nothing that can be seen, one that dies afterwards leaves older versions for the next one.


@dataclass(frozen=True, slots=True, eq=False)
class TableErasure:
    """The erasure in one table: ids to delete, rows with erased text (every column but the vector), and their vectors.

    `vectors` (id, vector) are new vectors, empty where no text is left; other rows keep theirs.
    """

    gone: frozenset[str]
    struck: pl.DataFrame
    vectors: pl.DataFrame


def erase(tx: Transaction, name: str, change: TableErasure) -> None:
    """One table without what is to be forgotten; a table that never had rows is left alone."""
    if tx.handle(name).version == 1:
        return
    old = tx.open_again(name)
    old.checkout(tx.handle(name).version)

    def without(rows: pl.DataFrame) -> pl.DataFrame:
        return _changed(rows.filter(~pl.col("id").is_in(list(change.gone))), change)

    write_anew(tx, name, batches_of(old), without)


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
    address = str(store.db.uri)
    remove_left(address, all_left(address))
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
    # a writer that was overtaken may have left rows since
    remove_left(address, all_left(address))


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


_RESTING = (f"{LEDGER}.lance/", f"{HEAD}.lance/", f"{LEFT}/{LEFT_HEAD}")
_CONTENT = ("/data/", "/_indices/", "/_deletions/", f"{LEFT}/")


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
        yield from batches_of(table, columns)


def files_of(store: Store) -> frozenset[str]:
    """Every file of the namespace."""
    return frozenset(files(f"{store.uri.rstrip('/')}/{store.namespace}"))


def files_left(before: frozenset[str], after: frozenset[str]) -> list[str]:
    """Files with rows or indexes from before that are still there."""
    kept = (file for file in before & after if not file.startswith(_RESTING))
    return sorted(file for file in kept if any(part in file for part in _CONTENT))

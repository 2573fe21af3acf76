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
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import reduce
from math import ceil, sqrt
from operator import or_
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from slowwave.errors import Refused
from slowwave.lifecycle.erasure import VOCABULARY, with_words_of
from slowwave.lifecycle.forgotten_names import NameMatcher

from .connection import HEAD
from .object_storage import files, is_remote
from .rows import exact_rows, id_filters
from .schema import Role
from .snapshots import read_rows
from .tables import TABLES, tables_of
from .upkeep import NEVER, make_indexes, make_text_indexes

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


# The proof of an erasure: what still names the subject, by reading every row and by searching the bytes of every
# file. Neither is enough alone. Rows are what anybody can read, but a deleted row or an old vector is in no row.
# Bytes are all there is, but LanceDB compresses columns of more than some ten kilobytes, in which a search may miss
# what is there. So the files are compared, too: a table that was written anew keeps no file from before.


_PROOF_BATCH = 8192
_CHUNK = 1 << 26
_OVERLAP = 4096
_OWN = frozenset(name for table in TABLES.values() for name in (table.name, *table.columns))


@dataclass(frozen=True, slots=True)
class Rows:
    """Cells that name the subject, by table; longer words with a name inside; names among slowwave's own words.

    `general` are rows with single words of a name among general words, by table.
    """

    cells: Mapping[str, int]
    general: Mapping[str, int]
    words: frozenset[str]
    own: frozenset[str]


@dataclass(frozen=True, slots=True)
class Bytes:
    """Files searched, their bytes, and how often a name stands in each file that has one.

    `excused` hits are inside longer words that rows still hold, or are of names that slowwave itself uses;
    `by_chance` is how many others so many bytes would have that say nothing.
    """

    files: int = 0
    size: int = 0
    hits: Mapping[str, int] = field(default_factory=dict)
    excused: int = 0
    by_chance: int = 0

    @property
    def is_clean(self) -> bool:
        """Whether no more traces are left than chance explains."""
        return sum(self.hits.values()) <= self.by_chance

    def by_table(self) -> dict[str, int]:
        """Hits by table."""
        found: Counter[str] = Counter()
        for file, count in self.hits.items():
            found[file.split("/")[0].removesuffix(".lance")] += count
        return dict(found)


def read_rows_naming(store: Store, names: NameMatcher, *, only_newest: bool = False) -> Rows:
    """Look at every text of every table, at every version there is."""
    cells: Counter[str] = Counter()
    general: Counter[str] = Counter()
    words: set[str] = set()
    own = {name for name in names.listed for phrase in _OWN if NameMatcher.of([name]).are_in(phrase)}
    for name in (*TABLES, HEAD):
        for rows in _versions(store.db.open_table(name), only_newest=only_newest or name == LEDGER):
            general[name] += int(with_words_of(rows, names).sum())
            maybe = names.candidates(rows, rows.columns)
            for texts in maybe.iter_columns() if len(maybe) else ():
                hits = names.named(texts)
                if texts.name in VOCABULARY and name != HEAD:
                    own |= {each for each in names.listed if NameMatcher.of([each]).named(texts).any()}
                else:
                    cells[name] += int(hits.sum())
                listed = texts.explode() if texts.dtype == pl.List else texts
                words |= names.words_around(listed.drop_nulls().unique())
    return Rows(dict(+cells), dict(+general), frozenset(words), frozenset(own))


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


def files_of(store: Store) -> dict[str, int]:
    """Every file of the namespace with its size."""
    return files(f"{store.uri.rstrip('/')}/{store.namespace}", store.db.storage_options)


def _files_below(root: Path) -> dict[str, int]:
    files = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {path.relative_to(root).as_posix(): path.stat().st_size for path in files}


def survivors(before: Mapping[str, int], after: Mapping[str, int]) -> list[str]:
    """Files of rows and indexes from before that are still there, but for those of the ledger of commits and the head.

    These two hold no text of anybody, and are searched like all others.
    """
    kept = (f"{LEDGER}.lance/", f"{HEAD}.lance/")
    parts = ("/data/", "/_indices/", "/_deletions/")
    return sorted(
        file for file in before.keys() & after.keys()
        if not file.startswith(kept) and any(part in file for part in parts)
    )  # fmt: skip


def search_files(store: Store, names: NameMatcher, rows: Rows, *, is_proof: bool = True) -> Bytes:
    """Search the bytes of every file for the names, in any case; nothing for a store on object storage.

    As a proof, names that the files of any store hold are excused.
    """
    root = None if is_remote(store.uri) else Path(store.uri.removeprefix("file://"), store.namespace)
    if root is None:
        return Bytes()
    longer = rows.words | names.words_around(_OWN)
    found = _search_all(root, names, longer, rows.own)
    if is_proof and found.hits and (excused := _words_of_the_format(store, names, longer)):
        return _search_all(root, names, longer, rows.own | excused)
    return found


def _search_all(root: Path, names: NameMatcher, longer: Collection[str], own: Collection[str]) -> Bytes:
    hits: dict[str, int] = {}
    excused = 0
    files = _files_below(root)
    for file in files:
        counted, pardoned = _search(root / file, names, longer, own)
        excused += pardoned
        if counted:
            hits[file] = counted
    size = sum(files.values())
    return Bytes(len(files), size, hits, excused, _by_chance(names, size))


def _words_of_the_format(store: Store, names: NameMatcher, longer: Collection[str]) -> frozenset[str]:
    """Names that are in the files of a store that knows nobody: words of LanceDB and of the schema."""
    from .store import Store as Control

    head = store.head
    with TemporaryDirectory() as place:
        control = Control.create(place, "control", (head.embed_model, head.dims))
        with control.commit("control", "control") as tx:
            tx.upsert("metadata", pl.DataFrame({"id": ["0"]}))
            tx.upsert("messages", pl.DataFrame({"id": ["0"], "message_id": ["0"], "conversation_id": ["0"]}))
        root = Path(place, "control")
        return frozenset(
            name for name in names.listed if _search_all(root, NameMatcher.of([name]), longer, frozenset()).hits
        )


def _search(path: Path, names: NameMatcher, longer: Collection[str], own: Collection[str]) -> tuple[int, int]:
    """Hits in one file: those that count, and those that are excused."""
    counted = excused = 0
    words = [word.encode() for word in sorted(longer)]
    is_index = "_indices" in path.parts
    for text, start, end in _pieces(path):
        for name, raws in names.as_bytes().items():
            for place, raw in _places(text, raws, start, end):
                is_pardoned = name in own or _is_inside(text, place, raw, words, is_index)
                excused, counted = excused + is_pardoned, counted + (not is_pardoned)
    return counted, excused


def _pieces(path: Path) -> Iterator[tuple[bytes, int, int]]:
    """A file in lower case, piece by piece, and between which places of a piece a name may begin."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        for offset in range(0, size, _CHUNK):
            base = max(0, offset - _OVERLAP)
            stream.seek(base)
            yield stream.read(offset - base + _CHUNK + _OVERLAP).lower(), offset - base, offset - base + _CHUNK


def _places(text: bytes, raws: tuple[bytes, ...], start: int, end: int) -> Iterator[tuple[int, bytes]]:
    for raw in raws:
        place = text.find(raw, start, end + len(raw) - 1)
        while place >= 0:
            yield place, raw
            place = text.find(raw, place + 1, end + len(raw) - 1)


def _is_inside(text: bytes, place: int, raw: bytes, longer: list[bytes], is_index: bool) -> bool:
    """Whether the hit is part of one of the longer words; an index holds their stems."""
    for word in longer:
        offset = word.find(raw)
        while offset >= 0:
            stem = word[: offset + len(raw) + (not offset)] if is_index else word
            if place >= offset and text[place - offset : place - offset + len(stem)] == stem:
                return True
            offset = word.find(raw, offset + 1)
    return False


def _by_chance(names: NameMatcher, size: int) -> int:
    """Hits that as many bytes of noise would hardly exceed: a name of three letters is in a gigabyte of vectors."""
    raws = reduce(or_, ({*each} for each in names.as_bytes().values()), set[bytes]())
    expected = 0.0
    for raw in raws:
        share = 1.0
        for byte in raw:
            share *= (2 if chr(byte).isalpha() and byte < 128 else 1) / 256
        expected += size * share
    return ceil(expected + 5 * sqrt(expected)) if expected > 0.01 else 0

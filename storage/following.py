"""Following: tables in memory go with the commits, so that the next question finds them at the newest.

What commits wrote, those of others too, is handed over (`row_steps`). Where it is not known, two versions are compared:
each row has the version that last wrote it, its mark, and a restored version has the marks it had.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa

from slowwave.common.frames import of_arrow

from .columns import Column, Columns, WordIndex, column_of, release_unused_memory
from .disk import folder_on_disk, manifest_on_disk
from .residents import Part, Resident, ResidentSpec
from .row_steps import BY_KEY, Change, RowStep, follow, kept_rows, kept_steps, lose_track
from .rows import MARK, ROW, id_filters
from .snapshots import IN_MEMORY
from .vectors import VectorRows
from .warm import Tables

if TYPE_CHECKING:
    from lancedb import AsyncTable

    from .store import Store

log = logging.getLogger("slowwave")

AT_ONCE = 16 << 20
"""Bytes on disk up to which the first question reads the tables into memory: faster than one question by queries.
Larger ones are read beside the questions, which are answered by queries until then: from the second question of a
process on, since one that asks once gains nothing."""
PART = 4_096
"""Vectors that are read at a time."""
TOO_MANY, FEW = 0.2, 1_000
"""Share of changed rows from which reading the whole table is faster than following it, and what is never many."""
KEPT_STEPS = 128
"""Steps of a table that are remembered, for what else follows it."""

State = Mapping[str, Resident]


class Residents:
    """The tables in memory, by name, at the state of the last question; none if they take more than `most` bytes.

    What commits change is taken over. A table of which too much changed is read anew, beside the old one where that can
    still follow. May be asked in any thread; tables are read on one event loop.
    """

    def __init__(self, store: Store, wanted: Mapping[str, ResidentSpec], most: int, *, is_pinned: bool = False) -> None:
        """Those that are pinned stay at the state that they are first asked for, and nobody hands them anything."""
        self._store, self._address, self._wanted, self._most = store, str(store.db.uri), wanted, most
        self._tables: dict[str, tuple[int, Resident]] = {}
        self._places: dict[str, object] = {}
        self._state: State = {}
        self._at: Mapping[str, int] = {}
        self._of: tuple[object, str] | None = None
        self._is_asked_again = False
        self._reading: asyncio.Task[None] | None = None
        self._failed: Mapping[str, int] = {}
        self._steps: dict[str, list[RowStep]] = {name: [] for name in wanted}
        self._renewed: dict[str, asyncio.Task[None]] = {}
        self._loading, self._lock = asyncio.Lock(), threading.RLock()
        if not is_pinned:
            follow(self._address, (*wanted, *BY_KEY))
            IN_MEMORY[self._address] = self

    def belong_to(self, folder: object, model: str) -> None:
        """Forget everything if another store lies in the folder now, or its vectors are of another model."""
        with self._lock:
            if self._of not in (None, (folder, model)):
                self.forget()
            self._of = folder, model

    def forget(self) -> None:
        """Drop everything, to be read anew."""
        with self._lock:
            lose_track(self._address)
            self._tables, self._state, self._at = {}, {}, {}
            self._steps, self._failed = {name: [] for name in self._wanted}, {}
            if self._reading is not None:
                self._reading.get_loop().call_soon_threadsafe(self._reading.cancel)
                self._reading = None

    def current(self, versions: Mapping[str, int]) -> State | None:
        """The tables of this state; None if `of` must first read something, or another store lies there now."""
        if self._of is not None and folder_on_disk(self._address) != self._of[0]:
            return None
        at = {name: versions.get(name, 1) for name in self._wanted}
        with self._lock:
            if at == self._at:
                return self._state
            if self._is_replaced():
                self.forget()
            return self._state if self._state and self._follow(at, partial(kept_steps, self._address)) else None

    def written(self, name: str, version: int, ids: Sequence[str], columns: Sequence[str]) -> pl.DataFrame | None:
        """Those of the rows that are there in a version of any table, if the kept steps have all of them."""
        rows = kept_rows(self._address, name, version, ids)
        if not rows:
            return None if rows is None else pl.DataFrame()
        return of_arrow(pa.concat_tables(row.select(columns) for row in rows))

    def is_ahead(self, versions: Mapping[str, int]) -> bool:
        """Whether a commit that came after this state was taken over meanwhile."""
        with self._lock:
            return any(version > versions.get(name, 1) for name, (version, _) in self._tables.items())

    async def of(self, tables: Tables, *, is_eager: bool = False) -> State:
        """The tables of this state, none while they are read; with `is_eager` they are waited for."""
        versions = {name: tables.versions[name] for name in self._wanted}
        if is_eager and (reading := self._reading) is not None:
            await asyncio.wait({reading})
        async with self._loading:
            if (state := self.current(versions)) is not None:
                return state
            if self._reading is not None or (versions == self._failed and not is_eager):
                return {}
            if self._state and await self._follow_others(tables, versions):
                return self._state
            stats = await asyncio.gather(*[(await tables.table(name)).stats() for name in self._wanted])
            size = sum(int(each["total_bytes"]) for each in stats)
            if size > self._most:
                self._adopt({}, tables)
            elif size <= AT_ONCE or is_eager:
                self._adopt(await self._read_whole(tables), tables)
            else:
                if self._state or self._is_asked_again:
                    self._reading = asyncio.create_task(self._read_beside(tables))
                self._is_asked_again = True
                return {}
        return self._state

    async def _read_whole(self, tables: Tables) -> dict[str, tuple[int, Resident]]:
        read: dict[str, tuple[int, Resident]] = {}
        for name in self._wanted:
            version, known = tables.versions[name], self._tables.get(name)
            is_same = known is not None and known[0] == version
            read[name] = known if known and is_same else (version, await self._loaded(tables, name))
            release_unused_memory()
        return read

    async def _read_beside(self, tables: Tables) -> None:
        """Read the tables while questions go by queries; commits that come meanwhile are followed afterwards."""
        try:
            read = await self._read_whole(tables)
            with self._lock:
                if self._reading is asyncio.current_task():  # else everything was dropped meanwhile
                    self._adopt(read, tables)
        except Exception as error:  # questions of this state go on by queries
            log.warning("tables of this state are not read into memory: %s", error)
            self._failed = {name: tables.versions[name] for name in self._wanted}
        finally:
            with self._lock:
                if self._reading is asyncio.current_task():
                    self._reading = None

    def _adopt(self, read: dict[str, tuple[int, Resident]], tables: Tables) -> None:
        with self._lock:
            self._steps = {name: [] for name in self._wanted}
            self._take(read, {name: tables.versions[name] for name in self._wanted})

    def steps(self, name: str, before: int, after: int) -> list[RowStep] | None:
        """What was taken over between two versions of a table; None where that is not known."""
        if before == after:
            return []
        with self._lock:
            steps = self._steps.get(name, [])
            begun = next((n for n, step in enumerate(steps) if step.before == before), None)
            ended = next((n for n, step in enumerate(steps) if step.after == after), None)
            return None if begun is None or ended is None or ended < begun else steps[begun : ended + 1]

    def _take(self, tables: dict[str, tuple[int, Resident]], at: Mapping[str, int]) -> None:
        self._tables, self._at = tables, dict(at)
        self._state = {name: table for name, (_, table) in tables.items()}
        self._places = {name: self._place(name) for name in tables}

    def _place(self, name: str) -> object:
        return manifest_on_disk(self._address, name, self._tables[name][0])

    def _is_replaced(self) -> bool:
        """Whether the folder has other tables than those that were read, as a backup that was copied over them."""
        return any(self._place(name) not in (None, self._places[name]) for name in self._tables)

    def _follow(self, at: Mapping[str, int], find: Callable[[str, int, int], list[RowStep] | None]) -> bool:
        """Take over the steps that `find` gives for each table; whether they lead to this state."""
        found = {name: find(name, self._tables[name][0], version) for name, version in at.items()}
        if any(steps is None for steps in found.values()):
            return False
        tables = {}
        try:
            for name, steps in found.items():
                resident = self._tables[name][1]
                for step in steps or ():
                    resident = resident.after(step)
                tables[name] = at[name], resident
        except Exception as error:  # whatever it is, the tables themselves are right
            log.warning("tables in memory are read anew: %s", error)
            return False
        for name, steps in found.items():
            self._steps[name] = [*self._steps[name], *(steps or ())][-KEPT_STEPS:]
        self._take(tables, at)
        return True

    async def _follow_others(self, tables: Tables, at: Mapping[str, int]) -> bool:
        """Read what the commits of others changed, of all tables at once."""
        known = self._tables

        async def read(name: str) -> list[RowStep] | None:
            have, resident = known[name]
            if (own := kept_steps(self._address, name, have, at[name])) is not None:
                return own
            spec = self._wanted[name]
            step = await read_step(tables, name, have, resident, [*spec.read, *spec.followed])
            return None if step is None else [step]

        steps = dict(zip(at, await asyncio.gather(*map(read, at)), strict=True))
        with self._lock:
            if self._tables is not known:  # a commit of this process was taken over meanwhile
                return self.current(at) is not None
            return self._follow(at, lambda name, have, want: steps[name])

    def renew(self, tables: Tables) -> None:
        """Begin to read tables anew of which much changed; the old ones answer meanwhile."""
        for name, (version, resident) in self._tables.items():
            if resident.is_ragged and name not in self._renewed:
                self._renewed[name] = asyncio.create_task(self._read_anew(tables, name, version))

    async def _read_anew(self, tables: Tables, name: str, version: int) -> None:
        try:
            fresh = await self._loaded(tables, name)
            with self._lock:
                now, _ = self._tables[name]
                steps = self.steps(name, version, now)
                if steps is not None and self._at.get(name) == now:
                    for step in steps:
                        fresh = fresh.after(step)
                    self._take({**self._tables, name: (now, fresh)}, self._at)
            release_unused_memory()
        finally:
            self._renewed.pop(name, None)

    async def _loaded(self, tables: Tables, name: str) -> Resident:
        spec = self._wanted[name]
        table = await tables.table(name)
        size = await table.count_rows()
        wanted = dict.fromkeys((*spec.columns, spec.words or "id", ROW))
        # a small table by one query, as each opens all its files; of a large one, all columns would be in memory twice
        whole = await tables.all_rows(name, [*wanted]) if size <= PART else None

        async def read(column: str) -> pl.Series:
            return (await tables.all_rows(name, [column]) if whole is None else whole)[column]

        columns, kinds = dict[str, Column](), dict[str, pl.DataType]()
        for column in spec.columns:
            values = await read(column)
            columns[column], kinds[column] = column_of(values), values.dtype
        vectors = await _vectors(table, size, spec.is_compared) if spec.has_vectors else VectorRows(size, 0)
        earlier = [self._tables[name][1].words] if name in self._tables else []
        words = None
        if spec.words:
            texts = (await read(spec.words)).fill_null("")
            words = await asyncio.to_thread(WordIndex, texts, *(each for each in earlier if each))
            kinds.setdefault(spec.words, pl.String())
        if spec.has_vectors:
            kinds["vector"] = pl.Array(pl.Float32, vectors.dims)
        numbers = (await read(ROW)).to_numpy().astype(np.int64)
        large = Part(Columns(columns, size), vectors, words, spec.end, numbers=numbers)
        return Resident(spec, pl.Schema(kinds), [large])


async def _vectors(table: AsyncTable, count: int, is_compared: bool) -> VectorRows:
    """The vectors of a table, zeros where there is none.

    Read in parts and apart from other columns: what LanceDB reads at once it keeps for as long as any column lives.
    """
    query = table.query().select(["vector"])
    dims = (await table.schema()).field("vector").type.list_size
    vectors = VectorRows(count, dims)
    for start in range(0, count, PART):
        begun = start
        for chunk in (await query.limit(PART).offset(start).to_arrow())["vector"].chunks:
            own = np.zeros((len(chunk), dims), np.float32)
            own[chunk.is_valid().to_numpy(zero_copy_only=False)] = chunk.flatten().to_numpy().reshape(-1, dims)
            vectors.write(begun, own)
            begun += len(chunk)
    if is_compared:
        await asyncio.to_thread(vectors.seal)
    return vectors


# What the commits of others did to a table.


async def read_step(tables: Tables, name: str, before: int, known: Resident, columns: Sequence[str]) -> RowStep | None:
    """The difference of two versions as a step with these columns; None where it is large, or cannot be read.

    `known` is the table at the version `before`.
    """
    after, most = tables.versions[name], max(int(TOO_MANY * len(known)), FEW)
    if after < before:
        return None
    try:
        table = await tables.table(name)
        both = [await _rows(each, None, ["id", MARK]) for each in (await tables.open(name, before), table)]
        marks = [of_arrow(each) for each in both]
        changed = marks[1].join(marks[0], on=["id", MARK], how="anti")["id"]
        gone = frozenset(known.column("id")) - {*marks[1]["id"]}
        if len(changed) + len(gone) > most:
            return None
        parts = [await _rows(table, where, columns) for where in id_filters(changed.to_list())]
    except (ValueError, RuntimeError, OSError):
        return None
    changes: list[Change] = [part for part in parts if len(part)]
    return RowStep(before, after, (*changes, gone) if gone else (*changes,))


async def _rows(table: AsyncTable, where: str | None, columns: Sequence[str]) -> pa.Table:
    query = table.query().select(list(columns))
    return await (query.where(where) if where else query).to_arrow()

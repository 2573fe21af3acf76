"""Warm tables: handles of a few tables on LanceDB's asynchronous road, for reads that count milliseconds.

What is held in memory (`residents`) is read there; all else is asked of LanceDB.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from .connection import HEAD, freshness, newest_on_disk
from .residents import Condition, Found, Key, Resident, Residents, Row
from .rows import id_filters, quoted

if TYPE_CHECKING:
    from lancedb import AsyncConnection, AsyncTable


@dataclass(frozen=True, slots=True)
class Tables:
    """Open tables, the versions at which they are, the model of their vectors, and those that are held in memory."""

    handles: Mapping[str, AsyncTable]
    versions: Mapping[str, int]
    embed_model: str = ""
    residents: Mapping[str, Resident] = field(default_factory=lambda: MappingProxyType({}))

    def __getitem__(self, name: str) -> AsyncTable:
        """One table."""
        return self.handles[name]

    async def rows(
        self, name: str, key: str, ids: Iterable[str], columns: Sequence[str], where: Condition | None = None
    ) -> Sequence[Row]:
        """Rows whose `key` is among the ids and that meet a condition: these columns, and perhaps others.

        For the hundred rows of a question: plain rows take a tenth of the time of frames there. They are shared, and to
        be read only.
        """
        held = self.residents.get(name)
        if held is not None:
            return held.rows(held.places(key, ids, where))
        return (await self._fetched(name, key, ids, columns, where)).rows(named=True)

    async def with_vectors(
        self, name: str, key: str, ids: Iterable[str], columns: Sequence[str], where: Condition | None = None
    ) -> Found:
        """`rows` with their vectors."""
        held = self.residents.get(name)
        if held is not None:
            places = held.places(key, ids, where)
            return Found(held.rows(places), held.vectors[places])
        return found_in(await self._fetched(name, key, ids, [*columns, "vector"], where))

    async def at_turns(self, name: str, turns: Sequence[tuple[str, int]], columns: Sequence[str]) -> Sequence[Row]:
        """Rows of these turns of conversations (conversation_id, ordinal), and perhaps of others."""
        held = self.residents.get(name)
        if held is not None:
            return held.rows(held.places(TURN, turns))
        talks = ", ".join(map(quoted, sorted({talk for talk, _ in turns})))
        places = ", ".join(map(str, sorted({place for _, place in turns})))
        query = self[name].query().where(f"conversation_id IN ({talks}) AND ordinal IN ({places})")
        return frame_of(await query.select(list(columns)).to_arrow()).rows(named=True)

    async def _fetched(
        self, name: str, key: str, ids: Iterable[str], columns: Sequence[str], where: Condition | None
    ) -> pl.DataFrame:
        return await fetch(self[name], key, sorted({*ids}), columns, where.sql if where is not None else None)


TURN: Key = ("conversation_id", "ordinal")


def found_in(frame: pl.DataFrame) -> Found:
    """The rows of a frame apart from its vectors."""
    kind = frame.schema["vector"]
    assert isinstance(kind, pl.Array)
    vectors = np.nan_to_num(frame["vector"].to_numpy().reshape(len(frame), kind.size)).astype(np.float32, copy=False)
    return Found(frame.drop("vector").rows(named=True), vectors)


def frame_of(rows: object) -> pl.DataFrame:
    """What LanceDB answered, as a frame."""
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    return frame


class WarmTables:
    """The named tables of a namespace at its newest commit, reopened only where a commit moved them.

    Belongs to the event loop it is first used on. `held` is what was newest when it was last asked for. With `pinned`
    versions and the model of their vectors, those of an earlier commit, it stays at them. `residents` say which tables
    are held in memory, and may be shared by several of one namespace.
    """

    def __init__(
        self,
        address: str,
        names: Sequence[str],
        storage_options: dict[str, str] | None = None,
        pinned: tuple[Mapping[str, int], str] | None = None,
        residents: Residents | None = None,
    ) -> None:
        self._address, self._names, self._options, self._pinned = address, tuple(names), storage_options, pinned
        self._residents = residents
        self._seen: int | None = None
        self._db: AsyncConnection | None = None
        self._head: AsyncTable | None = None
        self.held: Tables | None = None

    async def newest(self, *, is_asked_often: bool = False) -> Tables:
        """The tables of the newest commit; the very object of the last time if nothing has moved.

        Where much `is_asked_often` of one state, what is held in memory is read at once.
        """
        seen = None if self._pinned else newest_on_disk(self._address, HEAD)
        held = self.held
        if held is None or (seen is None and not self._pinned) or seen != self._seen:
            held = await self._opened(held or Tables({}, {}))
        if self._residents is not None:
            residents = await self._residents.of(held, is_asked_often=is_asked_often)
            held = held if residents is held.residents else replace(held, residents=residents)
        self.held, self._seen = held, seen
        return held

    async def _opened(self, held: Tables) -> Tables:
        versions, model = await self._state()
        wanted = {name: versions.get(name, 1) for name in self._names}  # version 1 is the table before its first row
        if wanted == held.versions:
            return held
        moved = [name for name, version in wanted.items() if held.versions.get(name) != version]
        opened = await asyncio.gather(*(self._open(name, wanted[name]) for name in moved))
        return Tables({**held.handles, **dict(zip(moved, opened, strict=True))}, wanted, model)

    async def _state(self) -> tuple[Mapping[str, int], str]:
        if self._pinned is not None:
            return self._pinned
        if self._head is None:
            self._head = await self._open(HEAD)
        else:
            await self._head.checkout_latest()
        row = (await self._head.query().select(["versions", "embed_model"]).to_arrow()).to_pylist()[0]
        return json.loads(row["versions"]), row["embed_model"]

    async def _open(self, name: str, version: int | None = None) -> AsyncTable:
        if self._db is None:
            import lancedb

            self._db = await lancedb.connect_async(
                self._address, storage_options=self._options, read_consistency_interval=freshness(self._address)
            )
        table = await self._db.open_table(name)
        if version is not None:
            await table.checkout(version)
        return table


async def fetch(
    table: AsyncTable, key: str, ids: Sequence[str], columns: Sequence[str], where: str | None = None
) -> pl.DataFrame:
    """Rows whose `key` is among the ids, and that pass a filter."""
    more = f" AND ({where})" if where else ""
    wanted = [f"{part}{more}" for part in id_filters(list(ids), key)] or ["false"]
    parts = [await table.query().where(part).select(list(columns)).to_arrow() for part in wanted]
    return pl.concat([frame_of(part) for part in parts])

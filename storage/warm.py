"""Warm tables: handles of a few tables on LanceDB's asynchronous road, for reads that count milliseconds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import polars as pl

from .connection import HEAD
from .rows import id_filters

if TYPE_CHECKING:
    from lancedb import AsyncConnection, AsyncTable


@dataclass(frozen=True, slots=True)
class Tables:
    """Open tables and the versions at which they are."""

    handles: Mapping[str, AsyncTable]
    versions: Mapping[str, int]

    def __getitem__(self, name: str) -> AsyncTable:
        """One table."""
        return self.handles[name]


class WarmTables:
    """The named tables of a namespace at its newest commit, reopened only where a commit moved them.

    Belongs to the event loop it is first used on. `held` is what was newest when it was last asked for. With `pinned`
    versions, those of an earlier commit, it stays at them.
    """

    def __init__(
        self,
        address: str,
        names: Sequence[str],
        storage_options: dict[str, str] | None = None,
        pinned: Mapping[str, int] | None = None,
    ) -> None:
        self._address, self._names, self._options, self._pinned = address, tuple(names), storage_options, pinned
        self._db: AsyncConnection | None = None
        self._head: AsyncTable | None = None
        self.held: Tables | None = None

    async def newest(self) -> Tables:
        """The tables of the newest commit; the very object of the last time if nothing has moved."""
        held = self.held or Tables({}, {})
        versions = await self._versions()
        wanted = {name: versions.get(name, 1) for name in self._names}  # version 1 is the table before its first row
        if wanted == held.versions:
            return held
        moved = [name for name, version in wanted.items() if held.versions.get(name) != version]
        opened = await asyncio.gather(*(self._open(name, wanted[name]) for name in moved))
        self.held = Tables({**held.handles, **dict(zip(moved, opened, strict=True))}, wanted)
        return self.held

    async def _versions(self) -> Mapping[str, int]:
        if self._pinned is not None:
            return self._pinned
        if self._head is None:
            self._head = await self._open(HEAD)
        rows = (await self._head.query().select(["versions"]).to_arrow()).to_pylist()
        versions: dict[str, int] = json.loads(rows[0]["versions"])
        return versions

    async def _open(self, name: str, version: int | None = None) -> AsyncTable:
        if self._db is None:
            import lancedb

            self._db = await lancedb.connect_async(
                self._address, storage_options=self._options, read_consistency_interval=timedelta(0)
            )
        table = await self._db.open_table(name)
        if version is not None:
            await table.checkout(version)
        return table


async def fetch(table: AsyncTable, key: str, ids: Sequence[str], columns: Sequence[str]) -> pl.DataFrame:
    """Rows whose `key` is among the ids."""
    wanted = list(id_filters(list(ids), key)) or ["false"]
    parts = [await table.query().where(where).select(list(columns)).to_arrow() for where in wanted]
    frames = [pl.from_arrow(part) for part in parts]
    return pl.concat([frame for frame in frames if isinstance(frame, pl.DataFrame)])

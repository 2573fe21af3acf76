"""Warm tables: handles of a few tables on LanceDB's asynchronous road, for reads that count milliseconds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import polars as pl

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
    """The named tables of a namespace at the versions of one commit, reopened only where that changes a version.

    Belongs to the event loop it is first used on.
    """

    def __init__(self, address: str, names: Sequence[str], storage_options: dict[str, str] | None = None) -> None:
        self._address, self._names, self._options = address, tuple(names), storage_options
        self._db: AsyncConnection | None = None
        self._tables = Tables({}, {})

    async def at(self, versions: Mapping[str, int]) -> Tables:
        """The tables, checked out at these versions."""
        held = self._tables
        wanted = {name: versions[name] for name in self._names}
        moved = [name for name, version in wanted.items() if held.versions.get(name) != version]
        if moved:
            opened = await asyncio.gather(*(self._open(name, wanted[name]) for name in moved))
            self._tables = Tables({**held.handles, **dict(zip(moved, opened, strict=True))}, wanted)
            return self._tables
        return held

    async def _open(self, name: str, version: int) -> AsyncTable:
        if self._db is None:
            import lancedb

            self._db = await lancedb.connect_async(
                self._address, storage_options=self._options, read_consistency_interval=timedelta(0)
            )
        table = await self._db.open_table(name)
        await table.checkout(version)
        return table


async def fetch(table: AsyncTable, key: str, ids: Sequence[str], columns: Sequence[str]) -> pl.DataFrame:
    """Rows whose `key` is among the ids."""
    wanted = list(id_filters(list(ids), key)) or ["false"]
    parts = [await table.query().where(where).select(list(columns)).to_arrow() for where in wanted]
    frames = [pl.from_arrow(part) for part in parts]
    return pl.concat([frame for frame in frames if isinstance(frame, pl.DataFrame)])

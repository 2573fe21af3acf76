"""Warm tables: handles of a few tables on LanceDB's asynchronous road, for reads that count milliseconds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from .connection import HEAD, freshness
from .rows import id_filters

if TYPE_CHECKING:
    from lancedb import AsyncConnection, AsyncTable


@dataclass(frozen=True, slots=True)
class Tables:
    """Open tables, the versions at which they are, and the model of their vectors."""

    handles: Mapping[str, AsyncTable]
    versions: Mapping[str, int]
    embed_model: str = ""

    def __getitem__(self, name: str) -> AsyncTable:
        """One table."""
        return self.handles[name]


class WarmTables:
    """The named tables of a namespace at its newest commit, reopened only where a commit moved them.

    Belongs to the event loop it is first used on. `held` is what was newest when it was last asked for. With `pinned`
    versions and the model of their vectors, those of an earlier commit, it stays at them.
    """

    def __init__(
        self,
        address: str,
        names: Sequence[str],
        storage_options: dict[str, str] | None = None,
        pinned: tuple[Mapping[str, int], str] | None = None,
    ) -> None:
        self._address, self._names, self._options, self._pinned = address, tuple(names), storage_options, pinned
        self._db: AsyncConnection | None = None
        self._head: AsyncTable | None = None
        self.held: Tables | None = None

    async def newest(self) -> Tables:
        """The tables of the newest commit; the very object of the last time if nothing has moved."""
        held = self.held or Tables({}, {})
        versions, model = await self._state()
        wanted = {name: versions.get(name, 1) for name in self._names}  # version 1 is the table before its first row
        if wanted == held.versions:
            return held
        moved = [name for name, version in wanted.items() if held.versions.get(name) != version]
        opened = await asyncio.gather(*(self._open(name, wanted[name]) for name in moved))
        self.held = Tables({**held.handles, **dict(zip(moved, opened, strict=True))}, wanted, model)
        return self.held

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


async def fetch(table: AsyncTable, key: str, ids: Sequence[str], columns: Sequence[str]) -> pl.DataFrame:
    """Rows whose `key` is among the ids."""
    wanted = list(id_filters(list(ids), key)) or ["false"]
    parts = [await table.query().where(where).select(list(columns)).to_arrow() for where in wanted]
    frames = [pl.from_arrow(part) for part in parts]
    return pl.concat([frame for frame in frames if isinstance(frame, pl.DataFrame)])

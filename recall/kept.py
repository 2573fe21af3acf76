"""What the query path reads once, and keeps as long as no commit changes the tables that it was read from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

import polars as pl

from storage.warm import Tables, frame_of

T = TypeVar("T")


class Kept(Generic[T]):
    """The result of a read of some tables; read again where one of them has another version."""

    def __init__(self, names: Sequence[str], read: Callable[[Tables], Awaitable[T]]) -> None:
        self._names, self._read = names, read
        self._kept: tuple[tuple[int, ...], T] | None = None

    async def of(self, tables: Tables) -> T:
        """As these tables have it."""
        versions = tuple(tables.versions[name] for name in self._names)
        if self._kept is None or self._kept[0] != versions:
            self._kept = versions, await self._read(tables)
        return self._kept[1]


async def rows_where(tables: Tables, name: str, columns: Sequence[str], where: str | None = None) -> pl.DataFrame:
    """These columns of all rows of a table, or of those that pass a filter; always by query."""
    query = (await tables.table(name)).query().select(list(columns))
    return frame_of(await (query.where(where) if where else query).to_arrow())

"""Warm tables: open handles of a few tables in the asynchronous API of LanceDB, for reads within milliseconds.

Tables in memory (`residents`) are read there, all others with queries of LanceDB.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.common.frames import of_arrow

from .residents import Condition, Key, MatchedRows, Resident, Row
from .row_steps import RowStep
from .rows import ROW, filled, id_filters, kinds_of, quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb import AsyncTable
    from lancedb.query import AsyncVectorQuery


Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class Tables:
    """Tables at their versions, opened when they are used, with the model of their vectors and what is in memory.

    `handles` are those that are open, with the columns that each has: what was added to a table later is read as empty.
    """

    versions: Mapping[str, int]
    handles: dict[str, tuple[AsyncTable, frozenset[str]]]
    open: Callable[[str, int], Coroutine[None, None, AsyncTable]]
    embed_model: str = ""
    residents: Mapping[str, Resident] = field(default_factory=lambda: MappingProxyType({}))
    steps: Callable[[str, int, int], Sequence[RowStep] | None] = lambda name, before, after: None

    async def table(self, name: str) -> AsyncTable:
        """One table, open."""
        if name not in self.handles:
            table = await self.open(name, self.versions[name])
            self.handles[name] = table, frozenset((await table.schema()).names)
        return self.handles[name][0]

    async def columns(self, name: str) -> frozenset[str]:
        """The columns of a table."""
        await self.table(name)
        return self.handles[name][1]

    async def together(self, *work: Coroutine[Any, Any, Any]) -> list[Any]:
        """What several reads give: at once where they are queries; of tables in memory nothing is waited for."""
        if not self.residents:
            return await _at_once(work)
        try:
            return [await each for each in work]
        finally:
            for each in work:
                each.close()  # does nothing to what has ended

    async def rows(self, name: str, key: str, ids: Iterable[str], columns: Sequence[str]) -> Sequence[Row]:
        """Rows whose `key` is among the ids: these columns, and perhaps others.

        For the hundred rows of a question: plain rows take a tenth of the time of frames there. They are shared, and to
        be read only.
        """
        resident = self.residents.get(name)
        if resident is not None:
            return resident.rows(resident.places(key, ids), columns)
        return (await self.fetch(name, key, sorted({*ids}), columns)).rows(named=True)

    async def with_vectors(
        self, name: str, keys: Mapping[str, Iterable[str]], columns: Sequence[str], where: Condition | None = None
    ) -> MatchedRows:
        """Rows of which one of the keys is among its ids, and that meet a condition, each once, with their vectors."""
        resident = self.residents.get(name)
        if resident is not None:
            places = np.unique(np.concatenate([resident.places(key, ids, where) for key, ids in keys.items()]))
            return MatchedRows(resident.rows(places, columns), resident.vectors(places))
        wanted = [*columns, "vector"]
        sql = where.sql if where is not None else None
        parts = await _at_once([self.fetch(name, key, sorted({*ids}), wanted, sql) for key, ids in keys.items()])
        return found_in(pl.concat(parts).unique("id", keep="first", maintain_order=True))

    async def at_turns(self, name: str, turns: Sequence[tuple[str, int]], columns: Sequence[str]) -> Sequence[Row]:
        """Rows of these turns of conversations (conversation_id, ordinal), and perhaps of others."""
        resident = self.residents.get(name)
        if resident is not None:
            return resident.rows(resident.places(TURN, turns), columns)
        talks = ", ".join(map(quoted, sorted({talk for talk, _ in turns})))
        places = ", ".join(map(str, sorted({place for _, place in turns})))
        query = (await self.table(name)).query().where(f"conversation_id IN ({talks}) AND ordinal IN ({places})")
        return of_arrow(await query.select(list(columns)).to_arrow()).rows(named=True)

    async def fetch(
        self, name: str, key: str, ids: Sequence[str], columns: Sequence[str], where: str | None = None
    ) -> pl.DataFrame:
        """Rows whose `key` is among the ids, and that pass a filter, always by query."""
        there = await self.columns(name)
        known = [column for column in columns if column in there]
        more = f" AND ({where})" if where else ""
        wanted = [f"{part}{more}" for part in id_filters(list(ids), key)] or ["false"]
        table = await self.table(name)
        parts = [await table.query().where(part).select(known).to_arrow() for part in wanted]
        found = pl.concat([of_arrow(part) for part in parts])
        return found if len(known) == len(columns) else filled(found, kinds_of(name, columns)).select(columns)

    async def nearest(self, name: str, vector: npt.NDArray[np.float32], limit: int) -> AsyncVectorQuery:
        """A query for the rows of a table whose vectors are nearest; `with_cosines` reads what it answers."""
        return (await self.table(name)).query().nearest_to(vector).column("vector").distance_type("dot").limit(limit)

    async def columns_of(self, name: str, columns: Sequence[str]) -> pl.DataFrame:
        """These columns of all rows of a table."""
        resident = self.residents.get(name)
        if resident is not None:
            return pl.DataFrame({column: resident.column(column) for column in columns})
        return await self.all_rows(name, columns)

    async def all_rows(self, name: str, columns: Sequence[str]) -> pl.DataFrame:
        """These columns of all rows of a table, always by query and in the order of the table."""
        there = {*await self.columns(name), ROW}
        known = [column for column in columns if column in there] or ["id"]
        rows = of_arrow(await (await self.table(name)).query().select(known).to_arrow())
        return rows if known == [*columns] else filled(rows, kinds_of(name, [*{*columns} - {ROW}])).select(columns)


async def _at_once(work: Iterable[Coroutine[Any, Any, Read]]) -> list[Read]:
    """What all of them give; after the first error, which is raised, the others are cancelled."""
    try:
        async with asyncio.TaskGroup() as group:
            begun = [group.create_task(each) for each in work]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [each.result() for each in begun]


TURN: Key = ("conversation_id", "ordinal")


def found_in(frame: pl.DataFrame) -> MatchedRows:
    """The rows of a frame apart from its vectors."""
    kind = frame.schema["vector"]
    assert isinstance(kind, pl.Array)
    vectors = np.nan_to_num(frame["vector"].to_numpy().reshape(len(frame), kind.size)).astype(np.float32, copy=False)
    return MatchedRows(frame.drop("vector").rows(named=True), vectors)


def with_cosines(rows: pa.Table) -> pl.DataFrame:
    """What a query of `Tables.nearest` answered, with `cosine` in place of `_distance`."""
    return of_arrow(rows).with_columns(cosine=1.0 - pl.col("_distance").cast(pl.Float64)).drop("_distance")

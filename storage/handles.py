"""Handles: the tables of a namespace, open for questions, with what is in memory of them (`following`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from .connection import CACHES_OF_QUESTIONS, engine_session, freshness, is_remote
from .disk import folder_on_disk, is_of_files, manifest_on_disk
from .following import Residents
from .snapshots import version_gone
from .warm import Tables

if TYPE_CHECKING:
    from lancedb import AsyncConnection, AsyncTable

    from .store import Store

HEADS = 3
"""How often the head is read again, at most, where memory is ahead of it."""


class WarmTables:
    """The named tables of a namespace at its newest commit, reopened only where a commit moved them.

    Belongs to the event loop it is first used on. `latest` is the newest state at the last call. With `pinned`
    versions and the model of their vectors, those of an earlier commit, it stays at them. `residents` say which tables
    are held in memory, and may be shared by several of one namespace.
    """

    def __init__(
        self,
        store: Store,
        names: Sequence[str],
        pinned: tuple[Mapping[str, int], str] | None = None,
        residents: Residents | None = None,
    ) -> None:
        self._store, self._names, self._pinned, self._residents = store, tuple(names), pinned, residents
        self._folder: tuple[int, int] | None = None
        self._db: AsyncConnection | None = None
        self._looked_at: int | None = None
        self.latest: Tables | None = None

    async def newest(self, *, is_eager: bool = False, on_change: Callable[[], None] = lambda: None) -> Tables:
        """The tables of the newest commit; the very object of the last time if nothing has moved.

        With `is_eager` the tables in memory are read at once. `on_change` is called before they are, which may take
        long.
        """
        if (folder := folder_on_disk(str(self._store.db.uri))) != self._folder:
            self._folder, self._db, self.latest = folder, None, None
        versions, model = await self._state()
        if self._pinned:
            await self._require_versions(versions)
        if self._residents is not None:
            self._residents.belong_to(folder, model)
            for tries in range(HEADS):
                if self._pinned or not self._residents.is_ahead(versions):
                    break
                if tries == HEADS - 1:
                    self._residents.forget()  # the folder holds an earlier state, as a copy that was put back
                versions, model = await self._state()  # a commit was taken over after the head was read
        wanted = {name: versions.get(name, 1) for name in self._names}  # version 1 is the table before its first row
        tables = self.latest
        if tables is None or tables.versions != wanted or tables.embed_model != model:
            known = tables.versions if tables is not None else {}
            handles = {} if tables is None else tables.handles
            stays = {name: handle for name, handle in handles.items() if known.get(name) == wanted[name]}
            tables = Tables(wanted, stays, self._open, model)
        if self._residents is not None:
            residents = self._residents.current(tables.versions)
            if residents is None:
                on_change()
                reading = self._residents.of(tables, is_eager=is_eager)
                residents = await asyncio.shield(reading)  # goes on for the next question if this one is given up
            if residents is not tables.residents:
                tables = replace(tables, residents=residents, steps=self._residents.steps)
                if residents:
                    self._residents.renew(tables)
        self.latest = tables
        return tables

    async def _state(self) -> tuple[Mapping[str, int], str]:
        """The versions that are to be read, and the model of their vectors."""
        if self._pinned:
            return self._pinned
        is_far = is_remote(self._store.uri)  # a look at its head is a request over the network
        head = await asyncio.to_thread(lambda: self._store.head) if is_far else self._store.head
        return head.versions, head.embed_model

    async def _require_versions(self, versions: Mapping[str, int]) -> None:
        """Raise `StoreMismatch` where a pinned version is gone, whatever of it is in memory: it may be erased."""
        address = str(self._store.db.uri)
        wanted = {name: versions.get(name, 1) for name in self._names}
        if not is_remote(address):
            gone = [name for name, version in wanted.items() if manifest_on_disk(address, name, version) is None]
        else:  # opened again where a commit came since
            sequence = (await asyncio.to_thread(lambda: self._store.head)).sequence
            looked = [] if sequence == self._looked_at else [self._is_gone(*each) for each in wanted.items()]
            gone = [name for name, is_gone in zip(wanted, await asyncio.gather(*looked), strict=False) if is_gone]
            self._looked_at = sequence
        if gone:
            if self._residents is not None:
                self._residents.forget()
            self._looked_at = None
            raise version_gone(gone[0], wanted[gone[0]])

    async def _is_gone(self, name: str, version: int) -> bool:
        try:
            await self._open(name, version)
        except (ValueError, RuntimeError, OSError) as error:
            return is_of_files(error)  # whatever else it is, the question says
        return False

    async def _open(self, name: str, version: int) -> AsyncTable:
        if self._db is None:
            import lancedb

            address, options = str(self._store.db.uri), self._store.db.storage_options
            self._db = await lancedb.connect_async(
                address,
                storage_options=options,
                read_consistency_interval=freshness(address),
                session=engine_session(CACHES_OF_QUESTIONS),
            )
        table = await self._db.open_table(name)
        await table.checkout(version)
        return table

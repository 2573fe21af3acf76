"""A reader that lives through the deaths of others: what it has in memory is compared with what a fresh one reads."""

from __future__ import annotations

import asyncio
from pathlib import Path

import polars as pl

from recall.search import RESIDENT
from storage.following import Residents
from storage.handles import WarmTables
from storage.residents import Resident
from storage.store import Store

from .states import opened

MOST = 1 << 30


class LivingReader:
    """Follows a namespace from when it is made, or from when the namespace is there. Belongs to one thread."""

    def __init__(self, place: Path) -> None:
        self._place, self._loop = place, asyncio.new_event_loop()
        self._warm: WarmTables | None = None
        self.differences()

    def differences(self) -> list[str]:
        """The tables whose rows in memory are not those that a fresh reader finds."""
        store = opened(self._place)
        if store is None:
            return []
        self._warm = self._warm or _warm(store, is_living=True)
        own, fresh = self._rows(self._warm), self._rows(_warm(store, is_living=False))
        return [f"memory is not as the store: {name}" for name in fresh if not own[name].equals(fresh[name])]

    def close(self) -> None:
        """End its loop."""
        self._loop.close()

    def _rows(self, warm: WarmTables) -> dict[str, pl.DataFrame]:
        tables = self._loop.run_until_complete(warm.newest(is_eager=True)).residents
        return {name: _rows_of(resident) for name, resident in tables.items()}


def _warm(store: Store, *, is_living: bool) -> WarmTables:
    return WarmTables(store, [*RESIDENT], residents=Residents(store, RESIDENT, MOST, is_pinned=not is_living))


def _rows_of(resident: Resident) -> pl.DataFrame:
    places = resident.places("id", resident.column("id"))
    vectors = ["vector"] if resident.spec.has_vectors else []
    return resident.frame(places, [*resident.spec.columns, *vectors]).sort("id")

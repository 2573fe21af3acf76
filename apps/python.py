"""The Python door from within: what `slowwave.open_memory` opens, with the settings that the command line has."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from slowwave.answers import Added

from .configuration import load_settings, store_uri

if TYPE_CHECKING:
    from recall.memory import Memory


class Opened:
    """A namespace as one program uses it; threads may share it, and what they add is added one after the other."""

    def __init__(self, store: str | None, namespace: str, settings: Path | None, *, is_logged: bool) -> None:
        self._uri, self._namespace, self._is_logged = store_uri(store), namespace, is_logged
        self._settings = load_settings(settings)
        self._memory: Memory | None = None
        self._opening, self._adding = threading.Lock(), threading.Lock()

    @property
    def memory(self) -> Memory:
        """The read road, opened when it is first asked; raises where there is no such store or namespace yet."""
        from recall.memory import Memory

        with self._opening:
            if self._memory is None:
                recall = self._settings.recall
                self._memory = Memory.open(self._uri, self._namespace, settings=recall, is_logged=self._is_logged)
            return self._memory

    def add_observations(self, entity: str, texts: Sequence[str], type: str | None, *, create: bool) -> Added:
        """A run of its own on the write road; a store that does not exist is made with `create`."""
        from tasks.observations import observe  # imports Prefect, which reading does not need
        from tasks.runs import new_run

        kept = self._settings.retention
        settings = self._settings.ingest.model_copy(update={"retention": kept})
        with self._adding:
            run = new_run("observe", self._uri, self._namespace, self._settings.embedder, retention=kept)
            return observe(run, entity, texts, settings, entity_type=type, create=create)

    def close(self) -> None:
        """Write the access events that are still held."""
        with self._opening:
            if self._memory is not None:
                self._memory.close()

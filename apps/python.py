"""The Python door from within: what `slowwave.open_memory` opens, with the settings that the command line has."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from slowwave.errors import Refused
from slowwave.types import Added

from .configuration import answering, load_settings, store_uri

if TYPE_CHECKING:
    from recall.memory import Memory
    from slowwave.settings import LanguageSettings

_process = 0  # the one that first used a memory; a child that is forked from it inherits the number


def _refuse_a_fork() -> None:
    """Raise in a fork of a process that used a memory: Polars and LanceDB would wait for threads that it has not."""
    global _process
    _process = _process or os.getpid()
    if _process != os.getpid():
        raise Refused(
            "This process was forked from one that has used a memory, which no fork survives.",
            'Start it with multiprocessing.get_context("spawn"), or use a memory only after the fork.',
        )


class Opened:
    """A namespace as one program uses it; threads may share it, and their additions run one after the other."""

    def __init__(self, store: str | None, namespace: str, settings: Path | None, *, is_logged: bool) -> None:
        self._uri, self._namespace, self._is_logged = store_uri(store), namespace, is_logged
        self._settings = load_settings(settings)
        self._memory: Memory | None = None
        self._opening, self._adding = threading.Lock(), threading.Lock()

    @property
    def memory(self) -> Memory:
        """The read road, opened when it is first asked; raises where there is no such store or namespace yet."""
        _refuse_a_fork()
        from recall.memory import Memory

        with self._opening:
            if self._memory is None:
                recall = self._settings.recall
                self._memory = Memory.open(self._uri, self._namespace, settings=recall, is_logged=self._is_logged)
            return self._memory

    def answering(self, model: str | None, max_usd: float | None, max_calls: int | None) -> LanguageSettings:
        """Who answers questions, and within which limits."""
        return answering(self._settings, model, max_usd=max_usd, max_calls=max_calls)

    def add_observations(self, entity: str, texts: Sequence[str], type: str | None, *, create: bool) -> Added:
        """A run of its own on the write road; a store that does not exist is made with `create`."""
        _refuse_a_fork()
        from tasks.people.observations import observe  # imports Prefect, which reading does not need
        from tasks.runtime.runs import new_run

        from .options import Place

        place = Place(self._uri, self._namespace, self._settings)
        settings, retention = place.kept(self._settings.ingest), self._settings.retention
        with self._adding:
            run = new_run("observe", self._uri, self._namespace, self._settings.embedder, retention=retention)
            return observe(run, entity, texts, settings, entity_type=type, create=create)

    def close(self) -> None:
        """Write the access events that are still held; those of a process that this one was forked from are its own."""
        if _process not in (0, os.getpid()):
            return
        with self._opening:
            if self._memory is not None:
                self._memory.close()

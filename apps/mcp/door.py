"""What all sessions of a server share: one namespace, one memory, and the runs that write."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from apps.configuration import answering
from apps.options import Place

if TYPE_CHECKING:
    from recall.context import ContextBlock
    from recall.memory import Memory
    from slowwave.settings import IngestSettings
    from slowwave.types import Reply
    from storage.snapshots import Snapshot
    from tasks.runtime.runs import Run


class Door:
    """One namespace, open for all sessions at once. The namespace is fixed here, and no tool can name another one.

    Tools run in threads and share the memory, so that questions are answered side by side: one that waits, for an
    embedder or for a disk, stops no other.
    """

    def __init__(self, place: Place) -> None:
        """Open the namespace; raises `UnusableInput` or `UnknownName` where there is none."""
        self.place, self.settings, self.locale = place, place.settings, place.locale
        self._store, self.memory = place.store(), place.memory()

    def ask(self, question: str, find: Callable[[Memory], ContextBlock], as_of: datetime | None = None) -> Reply:
        """The answer of a model from what `find` recalls."""
        from recall.asking import ask

        return ask(question, lambda _: find(self.memory), self._store, answering(self.settings), self.now(), as_of)

    def snapshot(self) -> Snapshot:
        """The newest state."""
        return self._store.snapshot()

    def run(self, flow: str) -> Run:
        """A new run that may write; it waits for the lease of the namespace like every other writer."""
        from tasks.runtime.runs import existing_run

        return existing_run(flow, self.place.uri, self.place.namespace, retention=self.settings.retention)

    def ingest_settings(self) -> IngestSettings:
        """The settings for statements of agents: reading, gates and approval as for all other input."""
        return self.place.kept(self.settings.ingest)

    def require(self) -> None:
        """Raise `UnusableInput` or `UnknownName` where the namespace is no longer there."""
        self.place.attached()

    def flush(self) -> None:
        """Write the access events that are still in memory; an error here never makes a call fail."""
        self.memory.close()

    @staticmethod
    def now() -> datetime:
        """The time of a question."""
        return datetime.now(UTC)

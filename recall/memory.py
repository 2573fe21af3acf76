"""The read road: one namespace, opened once, asked many times. Reads write nothing but access events."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from inference.embedding import Embedder, open_embedder
from slowwave.settings import RecallSettings
from storage.snapshots import Snapshot
from storage.store import Store
from storage.warm import Tables, WarmTables

from .accesses import AccessLog
from .answers import Names, answers
from .entities import Entity, find_entity, list_entities
from .episodes import Episode, entities_in, episodes_of, last_episodes
from .facts import facts_about
from .loop import run
from .records import RecalledFact, Recollection
from .search import TABLES, Question, rank
from .stories import Story, story_of


class Memory:
    """What an agent or a person asks. Sees new commits at once; use it as a context manager, or `close` it."""

    def __init__(self, store: Store, embedder: Embedder, settings: RecallSettings) -> None:
        self._store, self._embedder, self._settings = store, embedder, settings
        self._accesses = AccessLog(store)
        self._warm = WarmTables(store.db.uri, TABLES, store.db.storage_options)
        self._names = Names()
        self._seen: Snapshot | None = None

    @classmethod
    def open(
        cls,
        uri: str,
        namespace: str = "default",
        *,
        embedder: str | None = None,
        settings: RecallSettings | None = None,
    ) -> Memory:
        """Open a namespace; by default with the embedding model that the store was made with."""
        store = Store.open(uri, namespace)
        seat = open_embedder(embedder or store.head.embed_model)
        store.require((seat.name, seat.dims))
        return cls(store, seat, settings or RecallSettings())

    @property
    def snapshot(self) -> Snapshot:
        """The newest state; kept open until a commit moves the head."""
        head = self._store.head
        if self._seen is None or self._seen.sequence != head.sequence:
            self._seen = self._store.snapshot()
        return self._seen

    def recall(
        self,
        query: str,
        k: int | None = None,
        *,
        scope: str | None = None,
        as_of: datetime | None = None,
        now: datetime | None = None,
    ) -> Recollection:
        """The facts that answer a query, best first: live ones, or those that were true at `as_of`."""
        started = time.perf_counter()
        at = now or datetime.now(UTC)
        question = Question(query, self._embedder.embed([query])[0], k or self._settings.k, at, scope, as_of)
        found = run(self._answer(question))
        self._accesses.note(query, found, at)
        return Recollection(query, found, (time.perf_counter() - started) * 1000)

    async def _answer(self, question: Question) -> tuple[RecalledFact, ...]:
        """Asked of the state that was seen last while the head is read, and once more where the head has moved."""
        held = self._warm.held
        guess = asyncio.create_task(self._answer_from(held, question)) if held else None
        newest = await self._warm.newest()
        if guess is not None and newest is held:
            return await guess
        if guess is not None:
            guess.cancel()
        return await self._answer_from(newest, question)

    async def _answer_from(self, tables: Tables, question: Question) -> tuple[RecalledFact, ...]:
        return await answers(tables, await rank(tables, question, self._settings), self._names)

    def facts_of(
        self, name: str, *, as_of: datetime | None = None, everything: bool = False, now: datetime | None = None
    ) -> tuple[Entity, tuple[RecalledFact, ...]]:
        """An entity and what is known about it, newest first; `everything` includes what no longer holds."""
        at = now or datetime.now(UTC)
        entity = find_entity(self.snapshot, at, name)
        known = facts_about(self.snapshot, entity, at, as_of, everything)
        self._accesses.note_entities([entity.id], name, at)
        return entity, known

    def entities(self, limit: int = 50, entity_type: str | None = None) -> tuple[int, list[Entity]]:
        """How many entities there are, and those that most is known about."""
        return list_entities(self.snapshot, datetime.now(UTC), limit, entity_type)

    def episodes_of(self, name: str) -> tuple[Episode, ...]:
        """The conversations that are about an entity, newest first."""
        return episodes_of(self.snapshot, find_entity(self.snapshot, datetime.now(UTC), name).id)

    def recent_entities(self, episodes: int = 3) -> list[str]:
        """Ids of the entities of the last conversations, without traversal; most frequent first."""
        return entities_in(self.snapshot, last_episodes(self.snapshot, episodes))

    def why(self, asked: str) -> Story:
        """The whole story of a fact, message, entity or run."""
        return story_of(self.snapshot, asked)

    def close(self) -> None:
        """Write the access events that are still held."""
        self._accesses.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

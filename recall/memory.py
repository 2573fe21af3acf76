"""The read road: one namespace, opened once, asked many times. Reads write nothing but access events."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from inference.embedding import Embedder, open_embedder
from slowwave.moments import Moment
from slowwave.settings import BeliefSettings, RecallSettings
from storage.snapshots import Snapshot
from storage.store import Store
from storage.warm import Tables, WarmTables

from .accesses import AccessLog
from .answers import Names, answers
from .artifacts import Artifact, artifacts, versions_of
from .beliefs import UncertainFact, uncertain
from .doubts import Conflicts
from .duplicates import DuplicateReport, duplicates_of
from .entities import Entity, find_entity, list_entities
from .episodes import Episode, entities_in, episodes_of, last_episodes
from .facts import facts_about
from .history import LIMIT, Chain, Version, chain_of, history_of
from .loop import run
from .quality import Faded
from .records import RecalledFact, Recollection
from .search import PAST_TABLES, TABLES, Question, rank
from .stories import Story, fact_named, story_of
from .traversal import Neighbourhood, neighbours_of


class Memory:
    """What an agent or a person asks. Sees new commits at once; use it as a context manager, or `close` it.

    One that stays at a commit answers as that state did.
    """

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        settings: RecallSettings,
        *,
        is_logged: bool = True,
        commit: int | None = None,
    ) -> None:
        self._store, self._embedder, self._settings = store, embedder, settings
        self._accesses = AccessLog(store, is_logged=is_logged)
        self._seen: Snapshot | None = None if commit is None else store.snapshot(commit=commit)
        self._stays = commit is not None
        pinned = self._seen.versions if self._seen else None
        self._warm = WarmTables(store.db.uri, TABLES, store.db.storage_options, pinned)
        self._warm_past = WarmTables(store.db.uri, PAST_TABLES, store.db.storage_options, pinned)
        self._names, self._conflicts, self._faded = Names(), Conflicts(), Faded(settings.min_quality)

    @classmethod
    def open(
        cls,
        uri: str,
        namespace: str = "default",
        *,
        embedder: str | None = None,
        settings: RecallSettings | None = None,
        is_logged: bool = True,
        commit: int | None = None,
    ) -> Memory:
        """Open a namespace; by default with the embedding model that the store was made with.

        Maintenance reads with `is_logged=False`, so that it makes nothing look used (T27). With `commit` the state
        after that one is asked, whatever is written later; raises `UnknownName` where there is none.
        """
        store = Store.open(uri, namespace)
        seat = open_embedder(embedder or store.head.embed_model)
        store.require((seat.name, seat.dims))
        return cls(store, seat, settings or RecallSettings(), is_logged=is_logged, commit=commit)

    @property
    def snapshot(self) -> Snapshot:
        """The newest state, kept open until a commit moves the head; or the one that this memory stays at."""
        if self._seen is None or not (self._stays or self._seen.sequence == self._store.head.sequence):
            self._seen = self._store.snapshot()
        return self._seen

    def recall(
        self,
        query: str,
        k: int | None = None,
        *,
        scope: str | None = None,
        as_of: datetime | None = None,
        known_as_of: datetime | None = None,
        now: datetime | None = None,
    ) -> Recollection:
        """The facts that answer a query, best first: live ones, or those that were true at `as_of`.

        `known_as_of` asks what the store believed at that time, whatever it learned since; both together, what it then
        took to be true at `as_of`.
        """
        started = time.perf_counter()
        at = now or datetime.now(UTC)
        moment = Moment(at, as_of, known_as_of)
        question = Question(query, self._embedder.embed([query])[0], k or self._settings.k, moment, scope)
        found = run(self._answer(question))
        self._accesses.note(query, found, question.k, at)
        return Recollection(query, found, (time.perf_counter() - started) * 1000)

    async def _answer(self, question: Question) -> tuple[RecalledFact, ...]:
        """Asked of the state that was seen last while the head is read, and once more where the head has moved."""
        warm = self._warm_past if question.moment.is_past else self._warm
        held = warm.held
        guess = asyncio.create_task(self._answer_from(held, question)) if held else None
        newest = await warm.newest()
        if guess is not None and newest is held:
            return await guess
        if guess is not None:
            guess.cancel()
        return await self._answer_from(newest, question)

    async def _answer_from(self, tables: Tables, question: Question) -> tuple[RecalledFact, ...]:
        ranked = await rank(tables, question, self._settings, self._faded)
        return await answers(tables, ranked, question.moment, self._names, self._conflicts)

    def facts_of(
        self,
        name: str,
        *,
        as_of: datetime | None = None,
        known_as_of: datetime | None = None,
        everything: bool = False,
        now: datetime | None = None,
    ) -> tuple[Entity, tuple[RecalledFact, ...]]:
        """An entity and what is known about it, newest first: now, or as in `recall` at another time (S2-36).

        `everything` includes what no longer holds and what was rejected; a time goes before it.
        """
        at = now or datetime.now(UTC)
        entity = find_entity(self.snapshot, at, name)
        known = facts_about(self.snapshot, entity, Moment(at, as_of, known_as_of), everything)
        self._accesses.note_entities([entity.id], name, at)
        return entity, known

    def history(
        self,
        subject: str,
        predicate: str | None = None,
        *,
        relation: str | None = None,
        known_as_of: datetime | None = None,
        limit: int = LIMIT,
        now: datetime | None = None,
    ) -> tuple[Entity, tuple[Version, ...]]:
        """An entity and all versions of what was said of it, the latest first (S2-38).

        `predicate` is part of the statement or of the canonical relation, `relation` the whole canonical relation.
        """
        at = now or datetime.now(UTC)
        entity = find_entity(self.snapshot, at, subject)
        moment = Moment(at, known_as_of=known_as_of)
        versions = history_of(self.snapshot, entity, predicate, relation, moment, limit)
        self._accesses.note_entities([entity.id], subject, at)
        return entity, versions

    def chain(self, fact_id: str, *, now: datetime | None = None) -> Chain:
        """The facts that replaced each other, with this one among them, oldest first; at most 64, each once (T35)."""
        moment = Moment(now or datetime.now(UTC))
        return chain_of(self.snapshot, fact_named(self.snapshot, fact_id), moment)

    def neighbours(
        self,
        name: str,
        hops: int = 2,
        *,
        as_of: datetime | None = None,
        known_as_of: datetime | None = None,
        now: datetime | None = None,
    ) -> Neighbourhood:
        """The entities at most `hops` relations away, with their distance, and the facts between them (S2-37)."""
        at = now or datetime.now(UTC)
        entity = find_entity(self.snapshot, at, name)
        around = neighbours_of(self.snapshot, entity, Moment(at, as_of, known_as_of), hops)
        self._accesses.note_relations([fact.id for fact in around.facts], name, at)
        self._accesses.note_entities([one.id for one in around.entities], name, at)
        return around

    def duplicates(
        self,
        name: str,
        threshold: float = 0.85,
        containment_threshold: float = 0.70,
        *,
        limit: int | None = 1000,
        now: datetime | None = None,
    ) -> DuplicateReport:
        """Observations of an entity that look alike, as pairs and clusters, for review; nothing is changed (S0-04).

        At most `limit` pairs are listed, the nearest; all are counted. Thresholds are ratios in [0, 1].
        """
        at = now or datetime.now(UTC)
        return duplicates_of(self.snapshot, at, name, threshold, containment_threshold, limit)

    def entities(
        self, limit: int = 50, entity_type: str | None = None, *, everything: bool = False
    ) -> tuple[int, list[Entity]]:
        """How many entities there are, and those that most is known about; with `everything` archived ones, too."""
        return list_entities(self.snapshot, datetime.now(UTC), limit, entity_type, everything=everything)

    def uncertain(
        self, a: str, b: str, *, settings: BeliefSettings | None = None, now: datetime | None = None
    ) -> tuple[UncertainFact, ...]:
        """What may hold between two entities, most probable first; empty where something is known of the two."""
        at = now or datetime.now(UTC)
        ends = [find_entity(self.snapshot, at, name).id for name in (a, b)]
        return uncertain(self.snapshot, ends[0], ends[1], at, settings or BeliefSettings())

    def episodes_of(self, name: str) -> tuple[Episode, ...]:
        """The conversations that are about an entity, newest first."""
        return episodes_of(self.snapshot, find_entity(self.snapshot, datetime.now(UTC), name).id)

    def recent_entities(self, episodes: int = 3) -> list[str]:
        """Ids of the entities of the last conversations, without traversal; most frequent first."""
        return entities_in(self.snapshot, last_episodes(self.snapshot, episodes))

    def artifacts(
        self, limit: int = 50, *, type: str | None = None, scope: str | None = None
    ) -> tuple[int, tuple[Artifact, ...]]:
        """How many documents and pasted texts there are, and the newest version of the latest ones (S1-15)."""
        return artifacts(self.snapshot, limit, type=type, scope=scope)

    def versions(self, asked: str) -> tuple[Artifact, ...]:
        """All versions of an artifact, by id or title, oldest first, with their texts (S1-19)."""
        return versions_of(self.snapshot, asked)

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

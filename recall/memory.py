"""The facade of all reads: one namespace, opened once, for many questions. Reads write access events only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from inference.embedding import open_embedder
from slowwave.errors import UnusableInput
from slowwave.settings import BeliefSettings, LanguageSettings, RecallSettings
from slowwave.types import (
    Chain,
    Community,
    DuplicateReport,
    Entity,
    FoundEntity,
    Neighbourhood,
    Path,
    RankedEntity,
    RecalledFact,
    Reply,
    Story,
    UncertainFact,
    Version,
)
from slowwave.validity import Moment
from storage.store import Store

from .artifacts import Artifact, artifacts, versions_of
from .aspects import Profile, aspects, facts_with_aspect, stored_aspects
from .beliefs import uncertain
from .communities import communities, community_of
from .entities import find_entity, list_entities
from .entity_search import TABLES as ENTITY_TABLES
from .entity_search import find_entities, ranked_entities
from .episodes import Episode, entities_in, episodes_of, last_episodes
from .facts import facts_about, speakers_of
from .history import chain_of, history_of
from .recalling import UNASKED, WORDINGS, Recaller, check_at_least_one, check_embedded, check_wordings
from .search import Question
from .walks import FARTHEST, known_types, neighbours_of, path_between

if TYPE_CHECKING:
    from .context import ContextBlock


class Memory(Recaller):
    """All that an agent or a person can read of a namespace. Use it as a context manager, or `close` it."""

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
        """Open a namespace; by default with the embedding model of its vectors.

        Maintenance reads with `is_logged=False`, so that it makes nothing look used (T27). With `commit` the state
        after that one answers, with the model of its vectors, whatever is written later; raises
        `UnknownName` where there is none.
        """
        store = Store.open(uri, namespace)
        seen = store.snapshot(commit=commit)
        own = open_embedder(embedder or seen.embed_model)
        seen.require((own.name, own.dims))
        return cls(store, own, settings or RecallSettings(), is_logged=is_logged, snapshot=seen if commit else None)

    def context_for(
        self,
        query: str,
        token_budget: int | None,
        *,
        k: int | None = None,
        scope: str | None = None,
        as_of: datetime | None = None,
        known_as_of: datetime | None = None,
        only: str | None = None,
        also: Sequence[str] = (),
        now: datetime | None = None,
    ) -> str:
        """What is known about a query, as a block for the prompt of another model, within so many tokens (S2-40).

        Empty without a budget, where nothing fits, and where the time of the recall was over (see `recall`). `k` facts
        and passages are recalled, as in `recall`; unless given more than any block has room for.
        `recall.context.context_share` gives the budget that is due to it in a whole context.
        """
        return self.block_for(
            query,
            token_budget,
            k=k,
            scope=scope,
            as_of=as_of,
            known_as_of=known_as_of,
            only=only,
            also=also,
            now=now,
        ).text

    def block_for(self, query: str, token_budget: int | None, *, k: int | None = None, **how: Any) -> ContextBlock:
        """The block of `context_for` with the facts and passages that stand in it; `how` are its other arguments."""
        from .context import (
            MOST_FACTS,  # slow to import: what tells facts apart by words
            ContextBlock,  # slow to import: what tells facts apart by words
            render_context,  # slow to import: what tells facts apart by words
        )

        if not token_budget or token_budget < 0:
            return ContextBlock()
        found = self.recall(query, k or MOST_FACTS, **how)
        block = render_context(found.facts, token_budget, found.passages)
        return replace(block, is_timed_out=found.is_timed_out)

    def ask(
        self,
        question: str,
        llm: LanguageSettings,
        token_budget: int = 2000,
        *,
        scope: str | None = None,
        as_of: datetime | None = None,
        known_as_of: datetime | None = None,
        also: Sequence[str] = (),
        rewrite: bool = False,
        now: datetime | None = None,
    ) -> Reply:
        """What a model answers from the block of `context_for`, in one call, with what the answer rests on.

        With `rewrite` the model first puts the question into other words, in a call of its own, and they are searched,
        too. The model and the limits of `llm` are those of the role "answer". Raises as `recall.asking.ask`.
        """
        from .asking import ask  # imports the model embedder, which no other read needs

        at = now or datetime.now(UTC)
        how: dict[str, Any] = {"scope": scope, "as_of": as_of, "known_as_of": known_as_of, "now": at}
        check_wordings(also)

        def find(wordings: Sequence[str]) -> ContextBlock:
            every = [*dict.fromkeys((*wordings, *also))][:WORDINGS]
            return self.block_for(question, token_budget, also=every, **how)

        return ask(question, find, self._store, llm, at, as_of, rewrite=rewrite)

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
        at, seen = now or datetime.now(UTC), self.snapshot
        entity = find_entity(seen, at, name)
        known = facts_about(seen, entity, Moment(at, as_of, known_as_of), everything)
        self._accesses.note_entities([entity.id], name, at)
        return entity, known

    def history(
        self,
        subject: str,
        predicate: str | None = None,
        *,
        relation: str | None = None,
        known_as_of: datetime | None = None,
        limit: int | None = None,
        now: datetime | None = None,
    ) -> tuple[Entity, tuple[Version, ...]]:
        """An entity and all versions of its facts, the latest first (S2-38).

        `predicate` is part of the statement or of the canonical relation, `relation` the whole canonical relation.
        At most `limit` versions, or as many as the settings say.
        """
        check_at_least_one("limit", limit)
        at, seen = now or datetime.now(UTC), self.snapshot
        entity = find_entity(seen, at, subject)
        moment = Moment(at, known_as_of=known_as_of)
        versions = history_of(seen, entity, predicate, relation, moment, limit or self._settings.history_limit)
        self._accesses.note_entities([entity.id], subject, at)
        return entity, versions

    def chain(self, fact_id: str, *, now: datetime | None = None) -> Chain:
        """The facts that replaced each other, with this one among them, oldest first; at most 64, each once (T35)."""
        from .stories import fact_named

        moment, seen = Moment(now or datetime.now(UTC)), self.snapshot
        return chain_of(seen, fact_named(seen, fact_id), moment)

    def neighbours(
        self,
        name: str,
        hops: int = 2,
        *,
        edge_types: Sequence[str] = (),
        limit: int | None = None,
        as_of: datetime | None = None,
        known_as_of: datetime | None = None,
        now: datetime | None = None,
    ) -> Neighbourhood:
        """The entities at most `hops` relations away, with their distance, and the facts between them (S2-37).

        Only relations of these types are followed, if any are named; at most `limit` facts come, the nearest.
        """
        check_at_least_one("limit", limit)
        if hops < 0:
            raise UnusableInput(f"Nothing is {hops} relations away.", "Ask for none or more.")
        at, types, seen = now or datetime.now(UTC), known_types(edge_types), self.snapshot
        entity, moment = find_entity(seen, at, name), Moment(at, as_of, known_as_of)
        around = neighbours_of(seen, self._graphs.of(seen, moment), entity, moment, hops, types, limit)
        self._note_walk(around, name, at)
        return around

    def path(
        self,
        a: str,
        b: str,
        hops: int = FARTHEST,
        *,
        edge_types: Sequence[str] = (),
        as_of: datetime | None = None,
        known_as_of: datetime | None = None,
        now: datetime | None = None,
    ) -> Path | None:
        """How two entities are related: the fewest relations that lead from one to the other, at most `hops`."""
        check_at_least_one("hops", hops)
        at, types, seen = now or datetime.now(UTC), known_types(edge_types), self.snapshot
        one, other = (find_entity(seen, at, name) for name in (a, b))
        moment = Moment(at, as_of, known_as_of)
        way = path_between(seen, self._graphs.of(seen, moment), one, other, moment, hops, types)
        if way is not None:
            self._note_walk(way, f"{a} {b}", at)
        return way

    def _note_walk(self, around: Neighbourhood, query: str, at: datetime) -> None:
        self._accesses.note_relations([fact.id for fact in around.facts], query, at)
        self._accesses.note_entities([one.id for one in around.entities], query, at)

    def find_entities(self, query: str, limit: int = 10) -> tuple[FoundEntity, ...]:
        """The entities that a few words mean, best first: by name, alias and summary, else by meaning (S2-26)."""
        check_at_least_one("limit", limit)
        seen = self.snapshot
        self._embedder = self._embedder_of(seen.embed_model)
        return find_entities(seen, self._graphs.names.of(seen).every, query, self._embedder.embed([query])[0], limit)

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
        from .duplicates import duplicates_of  # slow to import: what judges observations

        check_at_least_one("limit", limit)
        at = now or datetime.now(UTC)
        return duplicates_of(self.snapshot, at, name, threshold, containment_threshold, limit)

    def entities(
        self, limit: int = 50, entity_type: str | None = None, *, everything: bool = False
    ) -> tuple[int, list[Entity]]:
        """How many entities there are, and those that most is known about; with `everything` archived ones, too."""
        check_at_least_one("limit", limit)
        return list_entities(self.snapshot, datetime.now(UTC), limit, entity_type, everything=everything)

    def search_entities(
        self, query: str, limit: int | None = None, *, now: datetime | None = None
    ) -> tuple[RankedEntity, ...]:
        """The entities that a query means, by meaning, words and use; best first (S0-26)."""
        at = now or datetime.now(UTC)
        question = Question(query, UNASKED, limit or self._settings.k, Moment(at))
        found = self._answered_by([question], self._find_entities)
        self._accesses.note_entities([entity.id for entity in found], query, at)
        return found

    async def _find_entities(self, questions: Sequence[Question]) -> tuple[RankedEntity, ...]:
        question, tables = questions[0], await self._warm[ENTITY_TABLES].newest()
        check_embedded(tables, question.model)
        names = (await self._graphs.names.at(tables)).every
        return await ranked_entities(tables, names, question, self._settings, self._use)

    def uncertain(
        self, a: str, b: str, *, settings: BeliefSettings | None = None, now: datetime | None = None
    ) -> tuple[UncertainFact, ...]:
        """What may hold between two entities, most probable first; empty where something is known of the two."""
        at, seen = now or datetime.now(UTC), self.snapshot
        ends = [find_entity(seen, at, name).id for name in (a, b)]
        return uncertain(seen, ends[0], ends[1], at, settings or BeliefSettings(), self._settings.uncertain_limit)

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

    def communities(self, limit: int = 50, *, now: datetime | None = None) -> tuple[int, tuple[Community, ...]]:
        """How many communities there are, and the largest, with their members and what they are about (S2-46)."""
        check_at_least_one("limit", limit)
        return communities(self.snapshot, now or datetime.now(UTC), limit)

    def community_of(self, name: str, *, now: datetime | None = None) -> Community | None:
        """The community that an entity belongs to; None where it belongs to none."""
        at = now or datetime.now(UTC)
        return community_of(self.snapshot, find_entity(self.snapshot, at, name).id, at)

    def versions(self, name: str) -> tuple[Artifact, ...]:
        """All versions of an artifact, by id or title, oldest first, with their texts (S1-19)."""
        return versions_of(self.snapshot, name)

    def aspects(self, fresh: bool = True, *, now: datetime | None = None) -> Profile:
        """How well each of the fourteen aspects of a life is known: counted now, or as the last run left it (S3-19)."""
        how = self._settings.aspects
        return aspects(self.snapshot, now or datetime.now(UTC), how) if fresh else stored_aspects(self.snapshot, how)

    def facts_with_aspect(
        self, slug: str, limit: int = 50, *, now: datetime | None = None
    ) -> tuple[int, tuple[RecalledFact, ...]]:
        """How many live facts touch an aspect, and the strongest of them; `UnknownName` lists the fourteen."""
        return facts_with_aspect(self.snapshot, slug, Moment(now or datetime.now(UTC)), limit)

    def speakers(self, facts: Sequence[RecalledFact]) -> dict[tuple[str, str], str]:
        """The speaker of each source message of these facts, by its conversation and its id there."""
        return speakers_of(self.snapshot, (source for fact in facts for source in fact.provenance))

    def why(self, name: str, *, now: datetime | None = None) -> Story:
        """The whole story of a fact, message, entity, community, conversation or run."""
        from .stories import story_of

        return story_of(self.snapshot, name, now)

    def close(self) -> None:
        """Write the pending access events."""
        self._accesses.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

"""The Python API: one class that reads a memory and adds to it. The command line and the MCP server use it too.

Importing it needs nothing but Python: the parts of the project are imported inside the calls.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from os import PathLike, fspath
from pathlib import Path as File
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from slowwave.common.arguments import (
    TOKEN_BUDGET,
    Time,
    at_least_one,
    checked_text,
    checked_texts,
    checked_time,
    is_fork,
    refuse_a_fork,
)
from slowwave.common.errors import UnusableInput
from slowwave.common.installation import bring_in
from slowwave.common.types import (
    Artifact,
    Chain,
    Community,
    DuplicateReport,
    Entity,
    Episode,
    FoundEntity,
    Neighbourhood,
    RankedEntity,
    RecalledFact,
    Recollection,
    Reply,
    Story,
    Version,
)
from slowwave.integrations.additions import Additions

if TYPE_CHECKING:
    from apps.configuration import Place
    from recall.context import ContextBlock
    from recall.recaller import Recaller
    from slowwave.common.settings import RecallSettings
    from slowwave.common.validity import Moment
    from storage.snapshots import Snapshot

GraphMode = Literal["none", "bfs", "spread"]
"""How relations are followed: not at all, breadth first, or by spreading activation."""
Only = Literal["facts", "messages"]
"""What alone is recalled: facts, or passages of messages."""


def open_memory(
    store: str | PathLike[str] | None = None,
    namespace: str = "default",
    *,
    settings: str | PathLike[str] | None = None,
    is_logged: bool = True,
) -> OpenMemory:
    """Open a memory, to be used as a context manager or closed.

    By default the store is SLOWWAVE_STORE or `./memory`, and `settings` is the file SLOWWAVE_CONFIG or
    `./slowwave.toml`. Nothing is read before the first call. Without `is_logged` reading makes nothing look used.
    Raises `UnusableInput` for wrong settings, and where a module of the program has the name of one of the project's.
    """
    bring_in()
    from apps.configuration import Place

    uri, file = (None if given is None else fspath(given) for given in (store, settings))
    return OpenMemory(Place.of(uri, namespace, None if file is None else File(file)), is_logged=is_logged)


class OpenMemory(Additions):
    """One namespace of a store. Every call blocks, may be made in any thread, and sees the newest state.

    Times without a zone are UTC; `now`, where a call takes it, stands for the present moment, for replays and tests.
    Reading raises `UnusableInput` without such a store, `UnknownName` without such a namespace, entity or id.
    """

    def __init__(
        self, place: Place, *, embedder: str | None = None, is_logged: bool = True, commit: int | None = None
    ) -> None:
        """A memory that is opened by its first call; with `commit` it stays at the state after that one."""
        super().__init__(place)
        self._how: dict[str, Any] = {"embedder": embedder, "is_logged": is_logged, "commit": commit}
        self._opened: Recaller | None = None
        self._opening = threading.Lock()

    @classmethod
    def open(
        cls,
        store: str,
        namespace: str = "default",
        *,
        settings: RecallSettings | None = None,
        embedder: str | None = None,
        is_logged: bool = True,
        commit: int | None = None,
    ) -> OpenMemory:
        """A memory that is open already and reads no file of settings, for measurements."""
        bring_in()
        from apps.configuration import Place
        from slowwave.common.settings import RecallSettings, Settings

        place = Place(store, namespace, Settings(recall=settings or RecallSettings()))
        made = cls(place, embedder=embedder, is_logged=is_logged, commit=commit)
        made._reader  # noqa: B018 (opens it)
        return made

    @property
    def _reader(self) -> Recaller:
        """What searches the namespace, opened by the first call."""
        refuse_a_fork()
        from recall.recaller import Recaller

        with self._opening:
            if self._opened is None:
                place = self.place
                self._opened = Recaller.open(place.uri, place.namespace, place.settings.recall, **self._how)
            return self._opened

    @property
    def snapshot(self) -> Snapshot:
        """The newest state of all tables, for reads that have no call here."""
        return self._reader.snapshot

    # Questions

    def likeness(self, query: str, facts: Sequence[str]) -> dict[str, float]:
        """The cosine of each of these facts to a query, by id, in [-1, 1]; facts that are not there are left out."""
        return self._reader.likeness(checked_text("query", query), checked_texts("facts", facts))

    def recall(
        self,
        query: str,
        k: int | None = None,
        *,
        as_of: Time | None = None,
        known_as_of: Time | None = None,
        scope: str | None = None,
        graph: GraphMode | None = None,
        conversation: str | None = None,
        last: int | None = None,
        only: Only | None = None,
        also: Sequence[str] = (),
        over_time: bool = False,
        now: Time | None = None,
    ) -> Recollection:
        """The `k` facts that answer a query best (by default as many as the settings say), and passages of messages.

        Passages say what none of the facts says; `only` leaves one of the two out. `also` are other wordings of the
        query.

        `as_of` asks what was true then, `known_as_of` what was believed then. `graph` says whether relations are
        followed. Facts of the `conversation` that is going on come sooner; with `last`, only facts about entities of so
        many last conversations come at all (S2-74). With `over_time`, for an order, a development or a summary, the
        answer also has the `outline` of the conversations.

        After `recall_timeout_ms` of the settings it ends without an answer and `is_timed_out` is true: this does not
        mean that nothing is known.
        """
        moment = _moment(now, as_of, known_as_of)
        (found,) = self._reader.recall(
            [checked_text("query", query)], k, moment, scope=scope, graph=graph, conversation=conversation, last=last,
            only=only, also=also, over_time=over_time,
        )  # fmt: skip
        return found

    def recall_many(
        self,
        queries: Sequence[str],
        k: int | None = None,
        *,
        as_of: Time | None = None,
        known_as_of: Time | None = None,
        scope: str | None = None,
        graph: GraphMode | None = None,
        only: Only | None = None,
        now: Time | None = None,
    ) -> list[Recollection]:
        """The answers of `recall` to many queries, in their order, from one state; much faster than one by one.

        `took_ms` of each is the mean of all. Together they have the time of so many recalls.
        """
        if isinstance(queries, str):
            raise UnusableInput("The queries are one text.", "Give a list of them, or use `recall`.")
        moment = _moment(now, as_of, known_as_of)
        return self._reader.recall(checked_texts("query", queries), k, moment, scope=scope, graph=graph, only=only)

    def context_for(
        self,
        query: str,
        token_budget: int | None,
        *,
        k: int | None = None,
        as_of: Time | None = None,
        known_as_of: Time | None = None,
        scope: str | None = None,
        only: Only | None = None,
        also: Sequence[str] = (),
        fill: bool = False,
        over_time: bool = False,
        now: Time | None = None,
    ) -> str:
        """The facts for a query as a block for a prompt, within so many tokens (S2-40).

        It ends where the next line is not likely to answer; with `fill` where nothing more fits. With `over_time`, for
        an order of events, a development or a summary, its lines are taken from the whole time. Empty without a budget,
        where nothing fits, and where the recall ended without an answer. `recall.context.context_share` gives the
        budget of the block in a context.
        """
        how: dict[str, Any] = {"as_of": as_of, "known_as_of": known_as_of, "scope": scope, "only": only, "now": now}
        return self._block(query, token_budget, k=k, also=also, fill=fill, over_time=over_time, **how).text

    def ask(
        self,
        question: str,
        token_budget: int = TOKEN_BUDGET,
        *,
        as_of: Time | None = None,
        known_as_of: Time | None = None,
        scope: str | None = None,
        also: Sequence[str] = (),
        over_time: bool = False,
        model: str | None = None,
        max_usd: float | None = None,
        max_calls: int | None = None,
        now: Time | None = None,
    ) -> Reply:
        """The answer of a model from the block of `context_for`, in one paid call, with its sources.

        `model` is provider/model, `max_usd` and `max_calls` are limits of this question; each stands in place of that
        of the settings ([ingest.llm]). Where nothing is found no model is called. Raises `MissingKey` where there is no
        model, `BudgetReached` where the limits leave no room, `UnusableInput` for a limit out of its range or in
        dollars where the model has no known price, `Transient` where the model does not answer now, `Terminal` where
        its answer is no use, and `TookTooLong` where the memory is too slow.
        """
        from apps.configuration import answering
        from recall.ask import ask  # imports the model clients, which no other read needs
        from recall.recaller import check_wordings

        llm = answering(self.place.settings, model, max_usd=max_usd, max_calls=max_calls)
        moment = _moment(now, as_of, known_as_of)
        check_wordings(also)
        how: dict[str, Any] = {"as_of": as_of, "known_as_of": known_as_of, "scope": scope, "now": moment.now}

        def find() -> ContextBlock:
            return self._block(question, token_budget, also=also, over_time=over_time, **how)

        return ask(checked_text("question", question), find, self._reader.store, llm, moment.now, moment.as_of)

    def _block(
        self,
        query: str,
        token_budget: int | None,
        *,
        k: int | None = None,
        fill: bool = False,
        over_time: bool = False,
        **how: Any,
    ) -> ContextBlock:
        """The block of `context_for` with its facts and passages."""
        from recall.context import MOST_FACTS, ContextBlock, block_of

        if not token_budget or token_budget < 0:
            return ContextBlock()
        found = self.recall(query, k or MOST_FACTS, over_time=over_time, **how)
        return block_of(found, token_budget, fill=fill, over_time=over_time)

    # Facts

    def facts_of(
        self,
        name: str,
        *,
        as_of: Time | None = None,
        known_as_of: Time | None = None,
        everything: bool = False,
        now: Time | None = None,
    ) -> tuple[Entity, tuple[RecalledFact, ...]]:
        """An entity and what is known about it, newest first; with `everything` also what no longer holds (S2-36)."""
        from recall.facts import facts_about

        seen, moment = self.snapshot, _moment(now, as_of, known_as_of)
        entity = _entity(seen, moment, name)
        known = facts_about(seen, entity, moment, everything)
        self._reader.accesses.note_entities([entity.id], name, moment.now)
        return entity, known

    def facts(self, limit: int | None = 50, *, now: Time | None = None) -> tuple[int, tuple[RecalledFact, ...]]:
        """How many facts are live, and those of them that were stored last; with `limit=None` all of them."""
        from recall.facts import latest_facts

        at_least_one("limit", limit)
        return latest_facts(self.snapshot, _moment(now), limit)

    def history(
        self,
        subject: str,
        predicate: str | None = None,
        *,
        relation: str | None = None,
        known_as_of: Time | None = None,
        limit: int | None = None,
        now: Time | None = None,
    ) -> tuple[Entity, tuple[Version, ...]]:
        """An entity and the versions of its facts, the latest first, at most `limit` or as set (S2-38).

        `predicate` is part of a statement or of a relation, `relation` a whole relation, in English or Spanish.
        """
        from recall.history import history_of

        at_least_one("limit", limit)
        seen, moment = self.snapshot, _moment(now, known_as_of=known_as_of)
        entity = _entity(seen, moment, subject, "subject")
        most = limit or self.place.settings.recall.history_limit
        versions = history_of(seen, entity, predicate, relation, moment, most)
        self._reader.accesses.note_entities([entity.id], subject, moment.now)
        return entity, versions

    def chain(self, fact: str, *, now: Time | None = None) -> Chain:
        """The facts that replaced each other, with this one among them, oldest first; at most 64, each once (T35)."""
        from recall.history import chain_of, fact_named

        seen = self.snapshot
        return chain_of(seen, fact_named(seen, checked_text("fact", fact)), _moment(now))

    def why(self, id: str, *, now: Time | None = None) -> Story:
        """The whole story of a fact, message, entity, community, conversation or run; `id` may be its beginning."""
        from recall.history import story_of

        return story_of(self.snapshot, checked_text("id", id), checked_time(now))

    def speakers(self, facts: Sequence[RecalledFact]) -> dict[tuple[str, str], str]:
        """The speaker of each source message of these facts, by its conversation and its id there."""
        from recall.facts import speakers_of

        return speakers_of(self.snapshot, (source for fact in facts for source in fact.provenance))

    # Entities and relations

    def neighbours(
        self,
        name: str,
        hops: int = 2,
        *,
        edge_types: Sequence[str] = (),
        limit: int | None = None,
        as_of: Time | None = None,
        known_as_of: Time | None = None,
        now: Time | None = None,
    ) -> Neighbourhood:
        """The entities at most `hops` relations away, and the facts between them, at most `limit`, the nearest (S2-37).

        `edge_types` (causal, temporal, semantic, hierarchical, co_occurrence): only those are followed.
        """
        from recall.walks import known_types, neighbours_of

        at_least_one("limit", limit)
        if hops < 0:
            raise UnusableInput(f"Nothing is {hops} relations away.", "Ask for none or more.")
        types, seen, moment = known_types(edge_types), self.snapshot, _moment(now, as_of, known_as_of)
        entity = _entity(seen, moment, name)
        around = neighbours_of(seen, self._reader.graphs.of(seen, moment), entity, moment, hops, types, limit)
        self._reader.accesses.note_walk(around, name, moment.now)
        return around

    def entities(
        self, limit: int = 50, type: str | None = None, *, everything: bool = False
    ) -> tuple[int, tuple[Entity, ...]]:
        """How many entities there are, of a type (C8), and those that most is known about; archived by `everything`."""
        from recall.entities import list_entities

        at_least_one("limit", limit)
        total, listed = list_entities(self.snapshot, datetime.now(UTC), limit, type, everything=everything)
        return total, tuple(listed)

    def find_entities(self, query: str, limit: int = 10) -> tuple[FoundEntity, ...]:
        """The entities that a few words mean, best first: by their names and descriptions, else by meaning (S2-26)."""
        at_least_one("limit", limit)
        return self._reader.find_entities(checked_text("query", query), limit)

    def search_entities(
        self, query: str, limit: int | None = None, *, now: Time | None = None
    ) -> tuple[RankedEntity, ...]:
        """The entities that a query means, by meaning, words and use; best first (S0-26)."""
        at_least_one("limit", limit)
        return self._reader.search_entities(checked_text("query", query), limit, _moment(now))

    def communities(self, limit: int = 50, *, now: Time | None = None) -> tuple[int, tuple[Community, ...]]:
        """How many communities there are, and the largest, with their members and what they are about (S2-46)."""
        from recall.groups import communities

        at_least_one("limit", limit)
        return communities(self.snapshot, _moment(now).now, limit)

    def episodes_of(self, name: str) -> tuple[Episode, ...]:
        """The conversations that are about an entity, newest first (S2-74)."""
        from recall.facts import episodes_of

        seen = self.snapshot
        return episodes_of(seen, _entity(seen, _moment(), name).id)

    def artifacts(self, limit: int = 50) -> tuple[int, tuple[Artifact, ...]]:
        """How many documents there are, and the newest version of the latest ones (S1-15)."""
        from recall.facts import artifacts

        at_least_one("limit", limit)
        return artifacts(self.snapshot, limit)

    def versions(self, name: str) -> tuple[Artifact, ...]:
        """All versions of an artifact, by id or title, oldest first, with their texts (S1-19)."""
        from recall.facts import versions_of

        return versions_of(self.snapshot, checked_text("name", name))

    def duplicates(
        self,
        entity: str,
        threshold: float = 0.85,
        containment_threshold: float = 0.70,
        *,
        limit: int | None = 1000,
        now: Time | None = None,
    ) -> DuplicateReport:
        """Observations of an entity that look alike, as pairs and clusters, for review; nothing is changed (S0-04).

        At most `limit` pairs are listed, the nearest. Thresholds are ratios in [0, 1].
        """
        from recall.report import duplicates_of

        at_least_one("limit", limit)
        named = checked_text("entity", entity)
        return duplicates_of(self.snapshot, _moment(now).now, named, threshold, containment_threshold, limit)

    def close(self) -> None:
        """Write the pending access events; the memory can be used again after that."""
        if is_fork():
            return  # the events belong to the process that this one was forked from
        with self._opening:
            opened = self._opened
        if opened is not None:
            opened.accesses.flush()  # outside the lock: a log that is slow to write stops no other call

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _moment(now: Time | None = None, as_of: Time | None = None, known_as_of: Time | None = None) -> Moment:
    from slowwave.common.validity import Moment  # imports Polars

    return Moment(checked_time(now) or datetime.now(UTC), checked_time(as_of), checked_time(known_as_of))


def _entity(seen: Snapshot, moment: Moment, name: str, parameter: str = "name") -> Entity:
    from recall.entities import find_entity

    return find_entity(seen, moment.now, checked_text(parameter, name))

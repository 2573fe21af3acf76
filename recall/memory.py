"""The read road: one namespace, opened once, asked many times. Reads write nothing but access events."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, get_args

import numpy as np

from inference.embedding import Embedder, open_embedder
from slowwave.errors import StoreMismatch, UnusableInput
from slowwave.ranking.periods import Period, event_in, period_beside, period_of
from slowwave.ranking.placing import Step
from slowwave.ranking.ranking import is_weak
from slowwave.settings import BeliefSettings, GraphMode, LanguageSettings, RecallSettings
from slowwave.types import (
    Chain,
    Community,
    DuplicateReport,
    Entity,
    FoundEntity,
    Neighbourhood,
    Passage,
    Path,
    RankedEntity,
    RecalledFact,
    Recollection,
    Reply,
    Story,
    UncertainFact,
    Version,
)
from slowwave.validity import Moment
from storage.disk import told_plainly
from storage.residents import Residents
from storage.snapshots import Snapshot
from storage.store import Store
from storage.warm import Tables, WarmTables

from .access_events import TABLES as USE_TABLES
from .access_events import AccessLog, Use
from .answers import answers, beside, passages
from .artifacts import Artifact, artifacts, versions_of
from .aspects import Profile, aspects, facts_with_aspect, stored_aspects
from .beliefs import TABLES as PENDING_TABLES
from .beliefs import Hopes, Pending, hoped, uncertain
from .candidates import TABLES as QUALITY_TABLES
from .candidates import Faded
from .doubts import Conflicts
from .entities import find_entity, list_entities
from .entity_search import TABLES as ENTITY_TABLES
from .entity_search import find_entities, ranked_entities
from .episodes import Episode, entities_in, entities_of_last, episodes_of, last_episodes, messages_of
from .facts import Names, facts_about, speakers_of
from .graphs import GRAPH_TABLES, Graphs, communities, community_of
from .history import chain_of, history_of
from .loop import Deadline, OutOfTime, note_recall, run
from .placing import place
from .search import HELD, NO_WALK, PAST_TABLES, TABLES, Question, Walk, search, together
from .walks import FARTHEST, known_types, neighbours_of, path_between, walked

if TYPE_CHECKING:
    from .context import Block

log = logging.getLogger("slowwave")

GRAPHS = get_args(GraphMode)
AT_ONCE = 32
"""Questions of one call that are answered at a time: their cosines to 100,000 facts take 13 MB."""
OFTEN = 8
"""Questions of one call that are worth reading a namespace into memory for, if it may be."""
MODELS = 3
"""How often a question is embedded anew where the model of the namespace changes while it is asked."""
UNASKED = np.zeros(0, np.float32)
T = TypeVar("T")

WORDINGS = 8
"""Other wordings of a question that are searched with it, at most."""
ONLY = ("facts", "messages")
Answer = tuple[tuple[RecalledFact, ...], tuple[Passage, ...], Hopes]


class _Reembedded(Exception):
    """The tables hold vectors of this model, and not of the one that the question was embedded with."""


def _tables(is_past: bool, is_walked: bool, is_weighed: bool) -> tuple[str, ...]:
    """The tables that are read to answer."""
    more = ((PAST_TABLES, is_past), (GRAPH_TABLES, is_walked), (USE_TABLES, is_weighed))
    others = (name for names, is_read in more if is_read for name in names)
    return tuple(dict.fromkeys((*TABLES, *PENDING_TABLES, *others)))


class Memory:
    """What an agent or a person asks. Sees new commits at once; use it as a context manager, or `close` it.

    One that stays at a snapshot answers as that state did. Where the namespace is re-embedded meanwhile, questions are
    embedded with the new model from then on.
    """

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        settings: RecallSettings,
        *,
        is_logged: bool = True,
        snapshot: Snapshot | None = None,
    ) -> None:
        self._store, self._embedder, self._settings = store, embedder, settings
        self._accesses = AccessLog(store, is_logged=is_logged)
        self._seen, self._stays = snapshot, snapshot is not None
        pinned = (snapshot.versions, snapshot.embed_model) if snapshot else None
        self._reads = {
            (past, walked): _tables(past, walked, settings.limbic) for past in (False, True) for walked in (False, True)
        }
        residents = Residents(HELD, settings.held_mb << 20)
        self._warm = {
            names: WarmTables(
                store.db.uri, names, store.db.storage_options, pinned, None if names == ENTITY_TABLES else residents
            )
            for names in {*self._reads.values(), ENTITY_TABLES}
        }
        self._names, self._conflicts, self._faded = Names(), Conflicts(), Faded(settings.min_quality)
        self._use, self._pending, self._graphs = Use(), Pending(), Graphs()
        self._answered: dict[tuple[str, ...], Tables] = {}

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
        after that one is asked, with the model that its vectors were made with, whatever is written later; raises
        `UnknownName` where there is none.
        """
        store = Store.open(uri, namespace)
        seen = store.snapshot(commit=commit)
        seat = open_embedder(embedder or seen.embed_model)
        seen.require((seat.name, seat.dims))
        return cls(store, seat, settings or RecallSettings(), is_logged=is_logged, snapshot=seen if commit else None)

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
        graph: str | None = None,
        episode: str | None = None,
        last: int | None = None,
        only: str | None = None,
        also: Sequence[str] = (),
        now: datetime | None = None,
    ) -> Recollection:
        """The facts that answer a query, best first: live ones, or those that were true at `as_of`; and passages.

        Passages are pieces of messages that say what none of these facts says; `only` "facts" or "messages" leaves the
        other out. `also` are other wordings of the query, general and special ones: what any of them finds answers.

        `known_as_of` asks what the store believed at that time, whatever it learned since; both together, what it then
        took to be true at `as_of`. `graph` says whether relations are followed (none, bfs, spread), else the settings
        do. Facts of the conversation `episode` come a little sooner, and with `last` only facts about entities of so
        many last conversations come at all (S2-74).

        After `recall_timeout_ms` of the settings it ends without an answer, and says so with `is_timed_out`: that
        nothing came does not mean that nothing is known. A walk that takes long is left out sooner.
        """
        _check_wordings(also)
        moment, settings = Moment(now or datetime.now(UTC), as_of, known_as_of), self._walking(graph)
        deadline = self._deadline(moment, settings)
        try:
            question = Question(
                query,
                UNASKED,
                k or self._settings.k,
                moment,
                scope,
                None if last is None else self._read(lambda: entities_of_last(self.snapshot, last), deadline),
                frozenset() if episode is None else self._read(lambda: messages_of(self.snapshot, episode), deadline),
                period=self._period(query, moment, scope, deadline),
                others=tuple((text, UNASKED) for text in dict.fromkeys(also) if text != query),
            )
            return self._recollect([question], k, settings, only, deadline)[0]
        except OutOfTime:
            return _given_up([query], deadline)[0]

    def recall_many(
        self,
        queries: Sequence[str],
        k: int | None = None,
        *,
        scope: str | None = None,
        as_of: datetime | None = None,
        known_as_of: datetime | None = None,
        graph: str | None = None,
        only: str | None = None,
        now: datetime | None = None,
    ) -> list[Recollection]:
        """What `recall` answers to each of these queries, in their order, of one state and at one time; much faster.

        All are embedded in one call and compared with all facts in one product. `took_ms` is the mean of all. They may
        take so many times `recall_timeout_ms` as there are queries, and where that is over none has an answer.
        """
        if isinstance(queries, str):
            raise UnusableInput("The queries are one text.", "Give a list of them, or use `recall`.")
        moment, settings = Moment(now or datetime.now(UTC), as_of, known_as_of), self._walking(graph)
        deadline = self._deadline(moment, settings, len(queries))
        try:
            periods = [self._period(query, moment, scope, deadline) for query in queries]
            questions = [
                Question(query, UNASKED, k or self._settings.k, moment, scope, period=period)
                for query, period in zip(queries, periods, strict=True)
            ]
            return self._recollect(questions, k, settings, only, deadline)
        except OutOfTime:
            return _given_up(queries, deadline)

    def _deadline(self, moment: Moment, settings: RecallSettings, questions: int = 1) -> Deadline:
        """When a recall ends that begins now; later where nothing was answered from this state before."""
        names = self._reads[moment.is_past, settings.graph != "none"]
        is_known = names in self._answered and self._answered[names] is self._warm[names].held
        limit = settings.walk.recall_timeout_ms * questions
        return Deadline(limit, is_first=moment.is_past or not is_known)

    def _read(self, read: Callable[[], T], deadline: Deadline) -> T:
        """What a read from a snapshot gives, which is waited for until the deadline."""
        return run(asyncio.to_thread(read), deadline)

    def _period(self, query: str, moment: Moment, scope: str | None, deadline: Deadline) -> Period | None:
        """The time that a query names, in words or by an event that is looked for first; none where `as_of` says it."""
        if moment.as_of is not None:
            return None
        named = event_in(query)
        if (period := period_of(query, moment.now)) is not None or named is None:
            return period
        side, event = named
        question = Question(event, UNASKED, 1, moment, scope)
        ask = partial(self._answer, settings=self._settings, only="facts", deadline=deadline)
        ((facts, _, _),) = self._asked([question], ask, deadline)
        if not facts or is_weak(facts[0].match):
            return None
        return period_beside(side, facts[0].event_at, facts[0].valid_from)

    def _recollect(
        self,
        questions: Sequence[Question],
        k: int | None,
        settings: RecallSettings,
        only: str | None,
        deadline: Deadline,
    ) -> list[Recollection]:
        """What is recalled to these questions; all that is known of a call beside them is checked here."""
        _check_at_least_one("k", k)
        if only is not None and only not in ONLY:
            raise UnusableInput(f"There is no {only!r} to recall.", f"Use {' or '.join(ONLY)}, or leave it out.")
        started = time.perf_counter()
        if not questions:
            return []
        answered = self._asked(
            questions, partial(self._answer, settings=settings, only=only, deadline=deadline), deadline
        )
        perhaps = [
            self._perhaps(question, hopes, deadline)
            for question, (_, _, hopes) in zip(questions, answered, strict=True)
        ]
        for question, (facts, _, _) in zip(questions, answered, strict=True):
            self._accesses.note(question.text, facts, question.k, question.moment.now)
        took_ms = (time.perf_counter() - started) * 1000 / len(questions)
        recalled = [
            Recollection(question.text, facts, took_ms, uncertain, quoted)
            for question, (facts, quoted, _), uncertain in zip(questions, answered, perhaps, strict=True)
        ]
        if self._accesses.is_logged:  # what maintenance asks says nothing about how people are served
            for question, one in zip(questions, recalled, strict=True):
                note_recall(one, question.k)
        return recalled

    def _asked(
        self,
        questions: Sequence[Question],
        ask: Callable[[Sequence[Question]], Coroutine[None, None, T]],
        deadline: Deadline | None = None,
    ) -> T:
        """The answer to questions; asked again where the namespace was re-embedded since the last one."""
        for _ in range(MODELS):
            seat, started = self._embedder, time.monotonic()
            embedded = _embedded(questions, seat)
            if deadline is not None:
                deadline.leave_out(time.monotonic() - started)
            try:
                with told_plainly(str(self._store.db.uri)):
                    return run(ask(embedded), deadline)
            except _Reembedded as other:
                self._embedder = self._seat(str(other))
        raise StoreMismatch("The namespace was re-embedded again and again while it was asked.", "Ask again.")

    def _seat(self, model: str) -> Embedder:
        return self._embedder if model == self._embedder.name else open_embedder(model)

    def _walking(self, graph: str | None) -> RecallSettings:
        if graph is None or graph == self._settings.graph:
            return self._settings
        if graph not in GRAPHS:
            raise UnusableInput(f"There is no way to follow relations called {graph!r}.", f"Use {', '.join(GRAPHS)}.")
        return self._settings.model_copy(update={"graph": graph})

    def _perhaps(self, question: Question, hopes: Hopes, deadline: Deadline) -> tuple[UncertainFact, ...]:
        """What may hold between entities that the query names, where nothing is known of the two (S2-69)."""
        if question.moment.is_past or not self._settings.uncertain_limit or not hopes.named_in(question.text):
            return ()
        now, most = question.moment.now, self._settings.uncertain_limit
        return self._read(
            lambda: hoped(self.snapshot, hopes, question.text, now, question.scope, BeliefSettings(), most), deadline
        )

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

    def block_for(self, query: str, token_budget: int | None, *, k: int | None = None, **how: Any) -> Block:
        """The block of `context_for` with the facts and passages that stand in it; `how` are its other arguments."""
        from .context import (
            MOST_FACTS,  # slow to import: what tells facts apart by words
            Block,  # slow to import: what tells facts apart by words
            render_context,  # slow to import: what tells facts apart by words
        )

        if not token_budget or token_budget < 0:
            return Block()
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
        from .asking import ask  # imports the model seat, which no other read needs

        at = now or datetime.now(UTC)
        how: dict[str, Any] = {"scope": scope, "as_of": as_of, "known_as_of": known_as_of, "now": at}
        _check_wordings(also)

        def find(wordings: Sequence[str]) -> Block:
            every = [*dict.fromkeys((*wordings, *also))][:WORDINGS]
            return self.block_for(question, token_budget, also=every, **how)

        return ask(question, find, self._store, llm, at, as_of, rewrite=rewrite)

    async def _answer(
        self,
        questions: Sequence[Question],
        *,
        settings: RecallSettings,
        deadline: Deadline,
        only: str | None = None,
    ) -> list[Answer]:
        """Asked of the state that was seen last while the head is read, and once more where the head has moved."""
        names = self._reads[questions[0].moment.is_past, settings.graph != "none"]
        warm, model = self._warm[names], questions[0].model
        held, answer = warm.held, partial(self._answers_from, questions, settings, only, deadline)
        guess = asyncio.create_task(answer(held)) if held else None
        try:
            newest = await warm.newest(is_asked_often=len(questions) >= OFTEN, on_change=deadline.extend)
            if newest is not self._answered.get(names):
                deadline.extend()
            if guess is not None and newest is held and newest.embed_model == model:
                answered = await guess
            else:
                if guess is not None:
                    guess.cancel()
                _check(newest, model)
                answered = await answer(newest)
        finally:
            if guess is not None:
                guess.cancel()  # does nothing to what has ended
        self._answered[names] = newest
        return answered

    async def _answers_from(
        self,
        questions: Sequence[Question],
        settings: RecallSettings,
        only: str | None,
        deadline: Deadline,
        tables: Tables,
    ) -> list[Answer]:
        """Some at a time; the vectors of many are compared with what is held in memory at once."""
        answered: list[Answer] = []
        for start in range(0, len(questions), AT_ONCE):
            some = questions[start : start + AT_ONCE]
            with ExitStack() as foreseen:
                if len(some) > 1:
                    vectors = np.stack([question.vector for question in some])
                    for resident in (tables.residents[name] for name in some[0].tables if name in tables.residents):
                        foreseen.enter_context(resident.vectors.foreseen(vectors))
                work = (self._answer_from(tables, question, settings, only, deadline) for question in some)
                answered += await tables.together(*work)
        return answered

    async def _answer_from(
        self, tables: Tables, question: Question, settings: RecallSettings, only: str | None, deadline: Deadline
    ) -> Answer:
        walk = asyncio.create_task(self._walk(tables, question, settings, deadline.walk_ends))
        try:
            asked = (search(tables, each, settings, self._faded, walk) for each in question.wordings)
            found = together(await tables.together(*asked))
            placed = await place(tables, question, settings, found, await walk, self._use, self._names)
        finally:
            walk.cancel()
        if only == "messages":
            placed = replace(placed, order=[])
        facts, quoted, hopes = await tables.together(
            answers(tables, placed, question.moment, self._names, self._conflicts),
            passages(tables, question, found, 0 if only == "facts" else question.k),
            self._pending.of(tables),
        )
        return facts, beside(quoted, facts), hopes

    async def _walk(self, tables: Tables, question: Question, settings: RecallSettings, ends: float | None) -> Walk:
        if settings.graph == "none":
            return NO_WALK
        found = await walked(tables, self._graphs, question, settings, ends=ends)
        return {step.fact_id: Step(step.score, step.hops) for step in found}

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
        """An entity and all versions of what was said of it, the latest first (S2-38).

        `predicate` is part of the statement or of the canonical relation, `relation` the whole canonical relation.
        At most `limit` versions, or as many as the settings say.
        """
        _check_at_least_one("limit", limit)
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

        Only relations of these types are followed, if any are named; at most `limit` facts are told, the nearest.
        """
        _check_at_least_one("limit", limit)
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
        _check_at_least_one("hops", hops)
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
        _check_at_least_one("limit", limit)
        seen = self.snapshot
        self._embedder = self._seat(seen.embed_model)
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

        _check_at_least_one("limit", limit)
        at = now or datetime.now(UTC)
        return duplicates_of(self.snapshot, at, name, threshold, containment_threshold, limit)

    def entities(
        self, limit: int = 50, entity_type: str | None = None, *, everything: bool = False
    ) -> tuple[int, list[Entity]]:
        """How many entities there are, and those that most is known about; with `everything` archived ones, too."""
        _check_at_least_one("limit", limit)
        return list_entities(self.snapshot, datetime.now(UTC), limit, entity_type, everything=everything)

    def search_entities(
        self, query: str, limit: int | None = None, *, now: datetime | None = None
    ) -> tuple[RankedEntity, ...]:
        """The entities that a query means, by meaning, words and use; best first (S0-26)."""
        at = now or datetime.now(UTC)
        question = Question(query, UNASKED, limit or self._settings.k, Moment(at))
        found = self._asked([question], self._find_entities)
        self._accesses.note_entities([entity.id for entity in found], query, at)
        return found

    async def _find_entities(self, questions: Sequence[Question]) -> tuple[RankedEntity, ...]:
        question, tables = questions[0], await self._warm[ENTITY_TABLES].newest()
        _check(tables, question.model)
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
        _check_at_least_one("limit", limit)
        return communities(self.snapshot, now or datetime.now(UTC), limit)

    def community_of(self, name: str, *, now: datetime | None = None) -> Community | None:
        """The community that an entity belongs to; None where it belongs to none."""
        at = now or datetime.now(UTC)
        return community_of(self.snapshot, find_entity(self.snapshot, at, name).id, at)

    def versions(self, asked: str) -> tuple[Artifact, ...]:
        """All versions of an artifact, by id or title, oldest first, with their texts (S1-19)."""
        return versions_of(self.snapshot, asked)

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
        """Who said each message that these facts rest on, by its conversation and its id there."""
        return speakers_of(self.snapshot, (source for fact in facts for source in fact.provenance))

    def why(self, asked: str, *, now: datetime | None = None) -> Story:
        """The whole story of a fact, message, entity, community, conversation or run."""
        from .stories import story_of

        return story_of(self.snapshot, asked, now)

    def close(self) -> None:
        """Write the access events that are still held."""
        self._accesses.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _embedded(questions: Sequence[Question], seat: Embedder) -> list[Question]:
    """The questions with the vectors of all their wordings, embedded in one call."""
    texts = [text for question in questions for text in (question.text, *(other for other, _ in question.others))]
    vectors = iter(seat.embed(texts))
    return [
        replace(
            question,
            vector=next(vectors),
            model=seat.name,
            others=tuple((text, next(vectors)) for text, _ in question.others),
        )
        for question in questions
    ]


def _given_up(queries: Sequence[str], deadline: Deadline) -> list[Recollection]:
    """What is recalled where the time is over: nothing, and that it is not all (S2-44)."""
    log.warning("a recall took longer than recall_timeout_ms allows and was given up")
    took_ms = deadline.spent * 1000 / len(queries)
    return [Recollection(query, took_ms=took_ms, is_timed_out=True) for query in queries]


def _check(tables: Tables, model: str) -> None:
    """Vectors of two models cannot be compared."""
    if tables.embed_model != model:
        raise _Reembedded(tables.embed_model)


def _check_at_least_one(name: str, number: int | None) -> None:
    if number is not None and number < 1:
        raise UnusableInput(f"{name} is {number}.", "Ask for one or more, or leave it out.")


def _check_wordings(also: Sequence[str]) -> None:
    if isinstance(also, str) or len(also) > WORDINGS or not all(text.strip() for text in also):
        raise UnusableInput("Other wordings are a list of texts.", f"Give at most {WORDINGS}, none empty.")


def read_versions(state: Snapshot, settings: RecallSettings) -> tuple[int, ...]:
    """The versions of all that a question about now reads: in two states that share them it has the same answer."""
    unread = () if settings.min_quality else QUALITY_TABLES
    names = _tables(False, settings.graph != "none", settings.limbic)
    return tuple(state.versions.get(name, 1) for name in names if name not in unread)

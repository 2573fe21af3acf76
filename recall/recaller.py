"""The path of a question: embedded, searched, followed along relations, ranked, and given back within its time."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TypeVar, get_args

import numpy as np

from inference.embedding import Embedder, open_embedder
from slowwave.common.arguments import at_least_one
from slowwave.common.errors import StoreMismatch, UnusableInput
from slowwave.common.settings import GraphMode, RecallSettings
from slowwave.common.types import (
    FoundEntity,
    Passage,
    RankedEntity,
    RecalledFact,
    Recollection,
    UncertainFact,
)
from slowwave.common.validity import Moment
from storage.disk import plain_errors
from storage.following import Residents
from storage.handles import WarmTables
from storage.search import unit_matrix
from storage.snapshots import Snapshot
from storage.store import Store
from storage.warm import Tables

from .doubts import TABLES as PENDING_TABLES
from .doubts import hoped, pending_pairs
from .entities import TABLES as ENTITY_TABLES
from .entities import find_entities, ranked_entities
from .facts import NameCache, entities_of_last, messages_of
from .graphs import GRAPH_TABLES, Graphs
from .loop import Deadline, Kept, OutOfTime, note_recall, run
from .outline import outline_lines
from .question import TABLES as QUALITY_TABLES
from .question import Faded, Question, period_of
from .search import PAST_TABLES, RESIDENT, TABLES, search, together
from .search_results import final_order, passages, passages_beside_facts, with_sources
from .use import TABLES as USE_TABLES
from .use import AccessLog, known_use
from .walks import walked

log = logging.getLogger("slowwave")

GRAPHS = get_args(GraphMode)
AT_ONCE = 32
"""Questions of one call that are answered at a time: their cosines to 100,000 facts take 13 MB."""
OFTEN = 8
"""Questions of one call that are worth reading a namespace into memory for, if it may be."""
MODELS = 3
"""How often a question is embedded again if the model of the namespace changes meanwhile."""
UNASKED = np.zeros(0, np.float32)
T = TypeVar("T")

WORDINGS = 8
"""Other wordings of a question that are searched with it, at most."""
ONLY = ("facts", "messages")
Answer = tuple[tuple[RecalledFact, ...], tuple[UncertainFact, ...], tuple[Passage, ...], tuple[Passage, ...]]


class _Reembedded(Exception):
    """The tables hold vectors of this model, and not of the one that the question was embedded with."""


def _tables(is_past: bool, is_walked: bool, is_weighed: bool) -> tuple[str, ...]:
    """The tables that are read to answer."""
    more = ((PAST_TABLES, is_past), (GRAPH_TABLES, is_walked), (USE_TABLES, is_weighed))
    others = (name for names, is_read in more if is_read for name in names)
    return tuple(dict.fromkeys((*TABLES, *PENDING_TABLES, *others)))


class Recaller:
    """Answers questions about one namespace from its newest state, or with a `snapshot` from that state alone."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        settings: RecallSettings,
        *,
        is_logged: bool = True,
        snapshot: Snapshot | None = None,
    ) -> None:
        self.store, self.settings, self._embedder = store, settings, embedder
        self.accesses = AccessLog(store, is_logged=is_logged)
        self._seen, self._stays = snapshot, snapshot is not None
        pinned = (snapshot.versions, snapshot.embed_model) if snapshot else None
        self._reads = {
            (past, walked): _tables(past, walked, settings.limbic) for past in (False, True) for walked in (False, True)
        }
        residents = Residents(store, RESIDENT, settings.held_mb << 20, is_pinned=self._stays)
        self._warm = {
            names: WarmTables(store, names, pinned, None if names == ENTITY_TABLES else residents)
            for names in {*self._reads.values(), ENTITY_TABLES}
        }
        self._names, self._faded, self.graphs = NameCache(), Faded(settings.min_quality), Graphs()
        self._use, self._conflicts = Kept(USE_TABLES, known_use), Kept(("pair_decisions",), pending_pairs)
        self._answered: dict[tuple[str, ...], Tables] = {}

    @classmethod
    def open(
        cls,
        uri: str,
        namespace: str,
        settings: RecallSettings,
        *,
        embedder: str | None = None,
        is_logged: bool = True,
        commit: int | None = None,
    ) -> Recaller:
        """Open a namespace; by default with the embedding model of its vectors.

        Maintenance reads with `is_logged=False` (T27). With `commit` the state after that one answers, whatever is
        written later; raises `UnknownName` where there is none.
        """
        store = Store.open(uri, namespace)
        seen = store.snapshot(commit=commit)
        own = open_embedder(embedder or seen.embed_model)
        seen.require((own.name, own.dims))
        return cls(store, own, settings, is_logged=is_logged, snapshot=seen if commit else None)

    @property
    def snapshot(self) -> Snapshot:
        """The newest state, kept open until a commit moves the head; or the one that this memory stays at."""
        if self._seen is None or not (self._stays or self._seen.sequence == self.store.head.sequence):
            self._seen = self.store.snapshot()
        return self._seen

    def recall(
        self,
        queries: Sequence[str],
        k: int | None,
        moment: Moment,
        *,
        scope: str | None = None,
        graph: str | None = None,
        conversation: str | None = None,
        last: int | None = None,
        only: str | None = None,
        also: Sequence[str] = (),
        over_time: bool = False,
    ) -> list[Recollection]:
        """The answers to these queries, in their order, from one state; see `slowwave.integrations.python_api`.

        They may take so many times `recall_timeout_ms` as there are queries; where that is over none has an answer.
        """
        check_wordings(also)
        settings = self._walking(graph)
        names = self._reads[moment.is_past, settings.graph != "none"]
        is_known = names in self._answered and self._answered[names] is self._warm[names].latest
        deadline = Deadline(settings.walk.recall_timeout_ms * len(queries), is_first=moment.is_past or not is_known)
        others = tuple((text, UNASKED) for text in dict.fromkeys(also) if text not in queries)
        try:
            about = None if last is None else self._read(lambda: entities_of_last(self.snapshot, last), deadline)
            current = frozenset[str]()
            if conversation is not None:
                current = self._read(lambda: messages_of(self.snapshot, conversation), deadline)
            questions = [
                Question(
                    query, UNASKED, k or self.settings.k, moment, scope, about, current,
                    period=None if moment.as_of else period_of(query, moment.now), others=others, over_time=over_time,
                )
                for query in queries
            ]  # fmt: skip
            return self._recollect(questions, k, settings, only, deadline)
        except OutOfTime:
            log.warning("a recall took longer than recall_timeout_ms allows and was given up")
            took_ms = deadline.spent * 1000 / len(queries)
            return [Recollection(query, took_ms=took_ms, is_timed_out=True) for query in queries]

    def find_entities(self, query: str, limit: int) -> tuple[FoundEntity, ...]:
        """The entities that a few words mean, best first: by name, alias and summary, else by meaning (S2-26)."""
        seen = self.snapshot
        self._embedder = self._embedder_of(seen.embed_model)
        return find_entities(seen, self.graphs.names.of(seen).every, query, self._embedder.embed([query])[0], limit)

    def likeness(self, query: str, facts: Sequence[str]) -> dict[str, float]:
        """The cosine of each of these facts to a query, by id."""
        seen = self.snapshot
        self._embedder = self._embedder_of(seen.embed_model)
        rows = seen.by_ids("facts", facts, ["id", "vector"])
        cosines = unit_matrix(rows["vector"], seen.dims) @ self._embedder.embed([query])[0]
        return dict(zip(rows["id"], cosines.tolist(), strict=True))

    def search_entities(self, query: str, limit: int | None, moment: Moment) -> tuple[RankedEntity, ...]:
        """The entities that a query means, by meaning, words and use; best first (S0-26)."""
        question = Question(query, UNASKED, limit or self.settings.k, moment)
        found = self._answered_by([question], self._ranked_entities)
        self.accesses.note_entities([entity.id for entity in found], query, moment.now)
        return found

    async def _ranked_entities(self, questions: Sequence[Question]) -> tuple[RankedEntity, ...]:
        question, tables = questions[0], await self._warm[ENTITY_TABLES].newest()
        check_embedded(tables, question.model)
        names = (await self.graphs.names.at(tables)).every
        return await ranked_entities(tables, names, question, self.settings, self._use)

    def _read(self, read: Callable[[], T], deadline: Deadline) -> T:
        """The result of a read from a snapshot; waits for it until the deadline."""
        return run(asyncio.to_thread(read), deadline)

    def _recollect(
        self,
        questions: Sequence[Question],
        k: int | None,
        settings: RecallSettings,
        only: str | None,
        deadline: Deadline,
    ) -> list[Recollection]:
        """The recollections of these questions; the other arguments of the call are checked here."""
        at_least_one("k", k)
        if only is not None and only not in ONLY:
            raise UnusableInput(f"There is no {only!r} to recall.", f"Use {' or '.join(ONLY)}, or leave it out.")
        started = time.perf_counter()
        if not questions:
            return []
        answered = self._answered_by(
            questions, partial(self._answer, settings=settings, only=only, deadline=deadline), deadline
        )
        for question, (facts, *_) in zip(questions, answered, strict=True):
            self.accesses.note(question.text, facts, question.k, question.moment.now)
        took_ms = (time.perf_counter() - started) * 1000 / len(questions)
        recalled = [
            Recollection(question.text, facts, took_ms, uncertain, quoted, outline=outline)
            for question, (facts, uncertain, quoted, outline) in zip(questions, answered, strict=True)
        ]
        if self.accesses.is_logged:  # what maintenance asks says nothing about how people are served
            for question, one in zip(questions, recalled, strict=True):
                note_recall(one, question.k)
        return recalled

    def _answered_by(
        self,
        questions: Sequence[Question],
        ask: Callable[[Sequence[Question]], Coroutine[None, None, T]],
        deadline: Deadline | None = None,
    ) -> T:
        """The answer to questions; repeated if the namespace was re-embedded since the last one."""
        for _ in range(MODELS):
            embedder, started = self._embedder, time.monotonic()
            embedded = _embedded(questions, embedder)
            if deadline is not None:
                deadline.leave_out(time.monotonic() - started)
            try:
                with plain_errors(str(self.store.db.uri)):
                    return run(ask(embedded), deadline)
            except _Reembedded as other:
                self._embedder = self._embedder_of(str(other))
        raise StoreMismatch("The namespace was re-embedded again and again while it was asked.", "Ask again.")

    def _embedder_of(self, model: str) -> Embedder:
        return self._embedder if model == self._embedder.name else open_embedder(model)

    def _walking(self, graph: str | None) -> RecallSettings:
        if graph is None or graph == self.settings.graph:
            return self.settings
        if graph not in GRAPHS:
            raise UnusableInput(f"There is no way to follow relations called {graph!r}.", f"Use {', '.join(GRAPHS)}.")
        return self.settings.model_copy(update={"graph": graph})

    async def _perhaps(self, tables: Tables, question: Question) -> tuple[UncertainFact, ...]:
        """What may hold between entities that the query names, where nothing is known of the two (S2-69)."""
        most, is_blank = self.settings.uncertain_limit, tables.versions["pending_beliefs"] <= 1
        if question.moment.is_past or not most or is_blank:
            return ()
        now, scope = question.moment.now, question.scope
        return await asyncio.to_thread(lambda: hoped(self.snapshot, question.text, now, scope, most))

    async def _answer(
        self,
        questions: Sequence[Question],
        *,
        settings: RecallSettings,
        deadline: Deadline,
        only: str | None = None,
    ) -> list[Answer]:
        """Answers from the newest state, some at a time; their vectors are compared with others in one product."""
        names = self._reads[questions[0].moment.is_past, settings.graph != "none"]
        tables = await self._warm[names].newest(is_eager=len(questions) >= OFTEN, on_change=deadline.extend)
        if tables is not self._answered.get(names):
            deadline.extend()
        check_embedded(tables, questions[0].model)
        answered: list[Answer] = []
        for start in range(0, len(questions), AT_ONCE):
            some = questions[start : start + AT_ONCE]
            with ExitStack() as foreseen:
                if len(some) > 1:
                    vectors = np.stack([question.vector for question in some])
                    for resident in (tables.residents[name] for name in some[0].tables if name in tables.residents):
                        foreseen.enter_context(resident.foreseen(vectors))
                work = (self._answer_from(tables, question, settings, only, deadline) for question in some)
                answered += await tables.together(*work)
        self._answered[names] = tables
        return answered

    async def _named(self, tables: Tables, text: str, ends: float | None) -> tuple[tuple[str, float], ...]:
        """Words of names, with the share of facts about those called so; none where the index takes as long as a walk.

        The index is made on, for the walk and the next question.
        """
        shares = asyncio.ensure_future(self.graphs.names.shares_of_facts(tables, text))
        if ends is not None:
            await asyncio.wait([shares], timeout=max(ends - time.monotonic(), 0.0))
        return await shares if ends is None or shares.done() else ()

    async def _answer_from(
        self, tables: Tables, question: Question, settings: RecallSettings, only: str | None, deadline: Deadline
    ) -> Answer:
        wide = replace(question, k=question.ranked)
        walk = asyncio.create_task(walked(tables, self.graphs, wide, settings, deadline.walk_ends))
        try:
            if settings.graph != "none":
                question = replace(question, named=await self._named(tables, question.text, deadline.walk_ends))
            searches = (search(tables, each, settings, self._faded, walk) for each in question.wordings)
            found = together(await tables.together(*searches))
            placed = await final_order(tables, question, settings, found, await walk, self._use, self._names)
        finally:
            walk.cancel()
        if only == "messages":
            placed = replace(placed, order=[])
        facts, quoted, uncertain = await tables.together(
            with_sources(tables, placed, question.moment, self._names, self._conflicts),
            passages(tables, question, found, 0 if only == "facts" else question.k),
            self._perhaps(tables, question),
        )
        is_wide = question.over_time and only is None
        outline = await outline_lines(tables, question, found, self._embedder.embed) if is_wide else ()
        return facts, uncertain, passages_beside_facts(quoted, facts), outline


def _embedded(questions: Sequence[Question], embedder: Embedder) -> list[Question]:
    """The questions with the vectors of all their wordings, embedded in one call."""
    texts = [text for question in questions for text in (question.text, *(other for other, _ in question.others))]
    vectors = iter(embedder.embed(texts))
    return [
        replace(
            question,
            vector=next(vectors),
            model=embedder.name,
            others=tuple((text, next(vectors)) for text, _ in question.others),
        )
        for question in questions
    ]


def check_embedded(tables: Tables, model: str) -> None:
    """Vectors of two models cannot be compared."""
    if tables.embed_model != model:
        raise _Reembedded(tables.embed_model)


def check_wordings(also: Sequence[str]) -> None:
    if isinstance(also, str) or len(also) > WORDINGS or not all(text.strip() for text in also):
        raise UnusableInput("Other wordings are a list of texts.", f"Give at most {WORDINGS}, none empty.")


def read_versions(state: Snapshot, settings: RecallSettings) -> tuple[int, ...]:
    """The versions of all that a question about now reads: in two states that share them it has the same answer."""
    unread = () if settings.min_quality else QUALITY_TABLES
    names = _tables(False, settings.graph != "none", settings.limbic)
    return tuple(state.versions.get(name, 1) for name in names if name not in unread)

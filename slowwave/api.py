"""The Python door: a memory that a program opens, asks and adds to, in the words of the command line.

This module and the records that it gives back need nothing but Python, so that a type checker sees all of them where
only the wheel is installed; what they stand for is imported when a memory is opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from os import PathLike, fspath
from pathlib import Path as File
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from .errors import UnusableInput
from .launcher import bring_in
from .timestamps import in_utc, parse_moment
from .types import (
    Added,
    Chain,
    Community,
    DuplicateReport,
    Entity,
    FoundEntity,
    Neighbourhood,
    Path,
    RecalledFact,
    Recollection,
    Reply,
    Story,
    Version,
)

if TYPE_CHECKING:
    from apps.python import Opened

GraphMode = Literal["none", "bfs", "spread"]
"""How relations are followed: not at all, breadth first, or by spreading activation."""
Time = datetime | date | str
"""A moment, or text like 2026-01-31 or 2026-01-31T14:30:00+01:00; without a zone it is UTC."""


def open_memory(
    store: str | PathLike[str] | None = None,
    namespace: str = "default",
    *,
    settings: str | PathLike[str] | None = None,
    is_logged: bool = True,
) -> OpenMemory:
    """Open a memory, to be used as a context manager or closed.

    Unless given, the store is SLOWWAVE_STORE or `./memory`, and `settings` is the file SLOWWAVE_CONFIG or
    `./slowwave.toml`. Nothing is read before it is asked, so that a store may be made by what is first added to it.
    Without `is_logged` reading leaves no access events, and makes nothing look used. Raises `UnusableInput` for wrong
    settings, and where a module of the program has the name of one of the project's.
    """
    bring_in()
    from apps.python import Opened

    uri, file = (None if given is None else fspath(given) for given in (store, settings))
    return OpenMemory(Opened(uri, namespace, None if file is None else File(file), is_logged=is_logged))


class OpenMemory:
    """One namespace of a store. Every call blocks, may be made in any thread, and sees the newest state.

    Times without a zone are UTC. Where there is no such store, reading raises `UnusableInput`; where there is no such
    namespace, entity or id, `UnknownName`.
    """

    def __init__(self, opened: Opened) -> None:
        self._opened = opened

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
        only: Literal["facts", "messages"] | None = None,
        also: Sequence[str] = (),
    ) -> Recollection:
        """The `k` facts that answer a query best, as many as the settings say unless given; and passages of messages.

        Passages say what none of the facts says; `only` leaves one of the two out. `also` are other wordings of the
        query, searched with it.

        `as_of` asks what was true then, `known_as_of` what was believed then. Facts of the `conversation` that is going
        on come sooner; with `last`, only facts about entities of so many last conversations come at all (S2-74).
        """
        return self._opened.memory.recall(
            _text("query", query),
            k,
            scope=scope,
            as_of=_time(as_of),
            known_as_of=_time(known_as_of),
            graph=graph,
            episode=conversation,
            last=last,
            only=only,
            also=also,
        )

    def recall_many(
        self,
        queries: Sequence[str],
        k: int | None = None,
        *,
        as_of: Time | None = None,
        known_as_of: Time | None = None,
        scope: str | None = None,
        graph: GraphMode | None = None,
        only: Literal["facts", "messages"] | None = None,
    ) -> list[Recollection]:
        """The answers of `recall` to many queries, in their order, from one state; much faster than one by one.

        `took_ms` of each is the mean of all.
        """
        if isinstance(queries, str):
            raise UnusableInput("The queries are one text.", "Give a list of them, or use `recall`.")
        return self._opened.memory.recall_many(
            [_text("query", query) for query in queries],
            k,
            scope=scope,
            as_of=_time(as_of),
            known_as_of=_time(known_as_of),
            graph=graph,
            only=only,
        )

    def context_for(
        self,
        query: str,
        token_budget: int,
        *,
        k: int | None = None,
        as_of: Time | None = None,
        known_as_of: Time | None = None,
        scope: str | None = None,
        only: Literal["facts", "messages"] | None = None,
        also: Sequence[str] = (),
    ) -> str:
        """The facts for a query as a block for a prompt, in so many tokens; empty if nothing fits (S2-40)."""
        return self._opened.memory.context_for(
            _text("query", query),
            token_budget,
            k=k,
            scope=scope,
            as_of=_time(as_of),
            known_as_of=_time(known_as_of),
            only=only,
            also=also,
        )

    def ask(
        self,
        question: str,
        token_budget: int = 2000,
        *,
        as_of: Time | None = None,
        known_as_of: Time | None = None,
        scope: str | None = None,
        also: Sequence[str] = (),
        rewrite: bool = False,
        model: str | None = None,
        max_usd: float | None = None,
        max_calls: int | None = None,
    ) -> Reply:
        """The answer of a model from the block of `context_for`, in one paid call, with its sources.

        With `rewrite` the model first puts the question into two to four other wordings, in one more paid call, and
        they are searched as those of `also` are.

        `model` is provider/model, `max_usd` and `max_calls` are limits of this question; each stands in place of that
        of the settings ([ingest.llm], whose other limits count). Where nothing is found nobody is asked. Raises
        `MissingKey` where there is no model, `BudgetReached` where the limits leave no room, `UnusableInput` for a
        limit out of its range or in dollars where the model has no known price, `Transient` where the model does not
        answer now, `Terminal` where its answer is no use, and `TookTooLong` where the memory is too slow.
        """
        return self._opened.memory.ask(
            _text("question", question),
            self._opened.answering(model, max_usd, max_calls),
            token_budget,
            scope=scope,
            as_of=_time(as_of),
            known_as_of=_time(known_as_of),
            also=also,
            rewrite=rewrite,
        )

    def facts_of(
        self,
        name: str,
        *,
        as_of: Time | None = None,
        known_as_of: Time | None = None,
        everything: bool = False,
    ) -> tuple[Entity, tuple[RecalledFact, ...]]:
        """An entity and what is known about it, newest first; with `everything` also what no longer holds (S2-36)."""
        return self._opened.memory.facts_of(
            _text("name", name), as_of=_time(as_of), known_as_of=_time(known_as_of), everything=everything
        )

    def history(
        self,
        subject: str,
        predicate: str | None = None,
        *,
        relation: str | None = None,
        known_as_of: Time | None = None,
        limit: int | None = None,
    ) -> tuple[Entity, tuple[Version, ...]]:
        """An entity and the versions of what was said of it, the latest first, at most `limit` or as set (S2-38).

        `predicate` is part of a statement or of a relation, `relation` a whole relation, in English or Spanish.
        """
        return self._opened.memory.history(
            _text("subject", subject), predicate, relation=relation, known_as_of=_time(known_as_of), limit=limit
        )

    def chain(self, fact: str) -> Chain:
        """The facts that replaced each other, with this one among them, oldest first (T35)."""
        return self._opened.memory.chain(_text("fact", fact))

    def neighbours(
        self,
        name: str,
        hops: int = 2,
        *,
        edge_types: Sequence[str] = (),
        limit: int | None = None,
        as_of: Time | None = None,
        known_as_of: Time | None = None,
    ) -> Neighbourhood:
        """The entities at most `hops` relations away, and the facts between them (S2-37).

        Of `edge_types` (causal, temporal, semantic, hierarchical, co_occurrence) only those named are followed, or all.
        """
        return self._opened.memory.neighbours(
            _text("name", name),
            hops,
            edge_types=edge_types,
            limit=limit,
            as_of=_time(as_of),
            known_as_of=_time(known_as_of),
        )

    def path(
        self,
        a: str,
        b: str,
        hops: int = 6,
        *,
        edge_types: Sequence[str] = (),
        as_of: Time | None = None,
        known_as_of: Time | None = None,
    ) -> Path | None:
        """The fewest relations that lead from one entity to another; None where there are more than `hops`, or none."""
        return self._opened.memory.path(
            _text("a", a),
            _text("b", b),
            hops,
            edge_types=edge_types,
            as_of=_time(as_of),
            known_as_of=_time(known_as_of),
        )

    def why(self, id: str) -> Story:
        """The whole story of a fact, message, entity, community or run; `id` may be the beginning of it."""
        return self._opened.memory.why(_text("id", id))

    def communities(self, limit: int = 50) -> tuple[int, tuple[Community, ...]]:
        """How many communities there are, and the largest (S2-46)."""
        return self._opened.memory.communities(limit)

    def entities(
        self, limit: int = 50, type: str | None = None, *, everything: bool = False
    ) -> tuple[int, tuple[Entity, ...]]:
        """How many entities there are, of a type or of all, and those that most is known about.

        The type may be named in English or Spanish (C8); with `everything` archived ones too.
        """
        total, listed = self._opened.memory.entities(limit, type, everything=everything)
        return total, tuple(listed)

    def find_entities(self, query: str, limit: int = 10) -> tuple[FoundEntity, ...]:
        """The entities that a few words mean, best first: by their names and descriptions, else by meaning (S2-26)."""
        return self._opened.memory.find_entities(_text("query", query), limit)

    def duplicates(
        self, entity: str, threshold: float = 0.85, containment_threshold: float = 0.70, *, limit: int | None = 1000
    ) -> DuplicateReport:
        """Observations of an entity that look alike, for review; nothing is changed (S0-04)."""
        return self._opened.memory.duplicates(_text("entity", entity), threshold, containment_threshold, limit=limit)

    def add_observations(
        self, entity: str, texts: str | Sequence[str], type: str | None = None, *, create: bool = True
    ) -> Added:
        """State something about an entity, as a run of its own; returns the outcome of each text (S0-02).

        An entity that is unknown is made, of this type (concept if none is given, in English or Spanish), or with
        `create=False` is an error. A text that looks like an observation of the entity is stored and flagged; one that
        is known word for word is passed over. Raises `UnusableInput` where there is nothing to add or no such type.
        """
        statements = [_text("texts", each) for each in ((texts,) if isinstance(texts, str) else _listed(texts))]
        return self._opened.add_observations(_text("entity", entity), statements, type, create=create)

    def close(self) -> None:
        """Write the access events that are still held; the memory may be asked again after that."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _text(name: str, given: object) -> str:
    if not isinstance(given, str):
        raise UnusableInput(f"{name}: {given!r} is no text.", "Give it as a str.")
    return given


def _listed(texts: object) -> Iterable[object]:
    if not isinstance(texts, Iterable) or isinstance(texts, bytes):
        raise UnusableInput(f"texts: {texts!r} is no list of texts.", "Give one text, or a list of them.")
    return texts


def _time(given: object) -> datetime | None:
    """The moment that is meant, in UTC where it names no zone. Raises `UnusableInput` for what is none."""
    if isinstance(given, datetime):
        return in_utc(given)
    if isinstance(given, date):
        return datetime(given.year, given.month, given.day, tzinfo=UTC)
    if given is None:
        return None
    return parse_moment(_text("time", given))

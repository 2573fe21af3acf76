"""`Memory` with the calls of mem0: a program changes one import, and talks to a memory of slowwave (docs/mem0.md).

Each user has a namespace of the store; an id is the namespace and the fact.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import md5, sha256
from os import PathLike
from re import fullmatch, sub
from threading import Lock
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar
from urllib.parse import parse_qsl, urlencode

from slowwave.common.errors import Refused, UnknownName, UnusableInput
from slowwave.common.types import RecalledFact
from slowwave.integrations.python_api import OpenMemory, open_memory

from .shared import dated, read_or, recalled

SCOPES = ("user_id", "agent_id", "run_id")
"""The ids of mem0; the first one given names the namespace, the others the conversation."""

Messages = str | Mapping[str, Any] | Sequence[Mapping[str, Any]]
Item = dict[str, Any]
NO_FACTS: tuple[RecalledFact, ...] = ()
T = TypeVar("T")


class _Scope(NamedTuple):
    """Whose memories are meant: the namespace, the id that names it, and the ids of the conversation."""

    namespace: str
    owner: tuple[str, str]
    conversation: Mapping[str, str]

    def covers(self, fact: RecalledFact) -> bool:
        """Whether a message of such a conversation says it."""
        wanted = set(self.conversation.items())
        return not wanted or any(wanted <= set(parse_qsl(each.conversation_id)) for each in fact.provenance)


class Memory:
    """The calls of mem0's `Memory`, sync. Raises mem0's `ValueError` where no id is given, else errors of slowwave."""

    def __init__(
        self, store: str | PathLike[str] | None = None, *, settings: str | PathLike[str] | None = None
    ) -> None:
        """Memories in `store`, by default SLOWWAVE_STORE or `./memory`; `settings` is a file as for `open_memory`."""
        self._where: dict[str, Any] = {"store": store, "settings": settings}
        self._opened: dict[str, OpenMemory] = {}
        self._opening = Lock()

    @classmethod
    def from_config(cls, config_dict: Mapping[str, Any]) -> Self:
        """`{"slowwave": {"store": …, "settings": …}}`; the keys of mem0 (vector_store, llm …) have no meaning here."""
        if others := sorted({*config_dict} - {"slowwave", "version"}):
            warnings.warn(f"slowwave has no use for {', '.join(others)}: see docs/mem0.md.", stacklevel=2)
        return cls(**config_dict.get("slowwave", {}))

    # Adding

    def add(
        self,
        messages: Messages,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        infer: bool = True,
    ) -> dict[str, Any]:
        """Learn from messages, or without `infer` keep each as it is; `run` can be undone, or is None."""
        scope = _scope({"user_id": user_id, "agent_id": agent_id, "run_id": run_id})
        if metadata:
            warnings.warn("slowwave keeps no metadata of memories.", stacklevel=2)
        spoken = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
        turns = [_turn(each) for each in ([spoken] if isinstance(spoken, Mapping) else spoken)]
        turns = [each for each in turns if each["content"] and str(each["content"]).strip()]
        if not infer:
            turns = [each for each in turns if each["role"] != "system"]
        memory = self._memory(scope.namespace)
        if not turns:
            return {"results": [], "run": None, "refused": {}}
        if infer:
            return _learn(memory, scope, turns)
        texts = [str(each["content"]) for each in turns]
        added = memory.add_observations(" ".join(scope.owner), texts)
        results = [
            {
                "id": each.fact_id and _id(scope.namespace, each.fact_id),
                "memory": each.content,
                "event": {"added": "ADD", "refused": "REFUSED"}.get(each.outcome, "NONE"),
            }
            | ({"reason": each.reason} if each.reason else {})
            for each in added.outcomes
        ]
        return {"results": results, "run": added.run}

    # Reading

    def get(self, memory_id: str) -> Item | None:
        """A memory, or what took its place; None where it is unknown or gone."""
        namespace, _, fact = memory_id.partition(":")
        current = self._read(namespace, lambda memory: _current(memory, fact), None)
        return None if current is None else self._items(namespace, [current])[0]

    def get_all(
        self,
        *,
        filters: Mapping[str, Any] | None = None,
        top_k: int | None = None,
        limit: int | None = None,
        show_expired: bool = False,
        **ids: Any,
    ) -> dict[str, list[Item]]:
        """The live memories of a user, those that were stored last first; ids may stand in `filters` or alone."""
        scope = _scope({**(filters or {}), **ids})
        found = self._read(scope.namespace, lambda memory: memory.facts(None)[1], NO_FACTS)
        chosen = _distinct(filter(scope.covers, found))[: top_k or limit or 100]
        return {"results": self._items(scope.namespace, chosen)}

    def search(
        self,
        query: str,
        *,
        filters: Mapping[str, Any] | None = None,
        top_k: int | None = None,
        limit: int | None = None,
        threshold: float | None = None,
        rerank: bool = False,
        explain: bool = False,
        show_expired: bool = False,
        **ids: Any,
    ) -> dict[str, list[Item]]:
        """The memories that answer a query, best first; `score` is that of recall, not a cosine."""
        scope, k = _scope({**(filters or {}), **ids}), top_k or limit or 20
        wanted = 4 * k if scope.conversation else 2 * k  # some say the same, some are of other conversations
        found = self._read(scope.namespace, lambda memory: recalled(memory, query, wanted), NO_FACTS)
        chosen = [fact for fact in _distinct(filter(scope.covers, found)) if fact.score >= (threshold or 0.0)][:k]
        items = self._items(scope.namespace, chosen)
        return {"results": [item | {"score": fact.score} for item, fact in zip(items, chosen, strict=True)]}

    def history(self, memory_id: str) -> list[Item]:
        """What became of a memory, oldest first: ADD, then UPDATE for each version, then DELETE where it is gone."""
        namespace, fact = _parts(memory_id)
        chain = self._memory(namespace).chain(fact).versions
        events: list[Item] = []
        before: str | None = None
        for place, version in enumerate(chain):
            event = "UPDATE" if place else "ADD"
            events.append(_event(memory_id, event, before, version.fact.statement, version.known_from))
            before = version.fact.statement
        if chain and chain[-1].known_to is not None:
            events.append(_event(memory_id, "DELETE", before, None, chain[-1].known_to))
        return events

    # Changing

    def update(self, memory_id: str, text: str | None = None, *, data: str | None = None) -> dict[str, str]:
        """State a memory anew. Its old id leads to the new one, which the answer has as `id`."""
        statement = text if text is not None else data
        if statement is None:
            raise ValueError("There is no text: give `text`.")
        namespace, fact = _parts(memory_id)
        memory = self._memory(namespace)
        current = self._known(namespace, fact, memory_id)
        twins = _twins(memory, current)
        (outcome,) = memory.revise(current.id, statement).outcomes
        if outcome.outcome == "refused":
            raise Refused(f"The memory was not updated: {outcome.reason}", "Say it in other words.")
        if twins and outcome.fact_id not in (current.id, *twins):
            memory.retire(twins)
        message = "Memory updated successfully!"
        return {"message": message, "id": _id(namespace, outcome.fact_id or current.id)}

    def delete(self, memory_id: str) -> dict[str, Any]:
        """Retire a memory, and what says the very same; undo of the `runs` of the answer brings it back."""
        namespace, fact = _parts(memory_id)
        memory = self._memory(namespace)
        current = self._known(namespace, fact, memory_id)
        runs = memory.retire([current.id, *_twins(memory, current)])
        return {"message": "Memory deleted successfully!", "runs": [*runs]}

    def delete_all(
        self, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None
    ) -> dict[str, Any]:
        """Retire all memories of a user, or those of a conversation; pinned ones stay, and `Refused` names them.

        Undo of the `runs` of the answer, the last one first, brings them back.
        """
        scope = _scope({"user_id": user_id, "agent_id": agent_id, "run_id": run_id})
        found = self._read(scope.namespace, lambda memory: memory.facts(None)[1], NO_FACTS)
        runs: tuple[str, ...] = ()
        if chosen := [fact.id for fact in found if scope.covers(fact)]:
            memory = self._memory(scope.namespace)
            pinned = memory.snapshot.by_ids("facts", chosen, ["id"], where="pinned")["id"].sort().to_list()
            if gone := [each for each in chosen if each not in pinned]:
                runs = memory.retire(gone)
            if pinned:
                names = ", ".join(_id(scope.namespace, each) for each in pinned)
                undo = f" Undo of {', '.join(runs)} brings the others back." if runs else ""
                raise Refused(f"All memories were deleted but the pinned ones: {names}.", f"Unpin them first.{undo}")
        return {"message": "Memories deleted successfully!", "runs": [*runs]}

    def reset(self) -> None:
        """Not offered: nothing here deletes a store."""
        raise UnusableInput("A store is not deleted from here.", "Remove its folder, or use `delete_all` of a user.")

    def close(self) -> None:
        """Write pending access events."""
        for memory in self._opened.values():
            memory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _memory(self, namespace: str) -> OpenMemory:
        with self._opening:
            if namespace not in self._opened:
                self._opened[namespace] = open_memory(namespace=namespace, **self._where)
            return self._opened[namespace]

    def _read(self, namespace: str, read: Callable[[OpenMemory], T], nothing: T) -> T:
        """What is read, or `nothing` where the user has no memory yet."""
        return read_or(nothing, lambda: read(self._memory(namespace)))

    def _known(self, namespace: str, fact: str, memory_id: str) -> RecalledFact:
        current = self._read(namespace, lambda memory: _current(memory, fact), None)
        if current is None:
            raise ValueError(f"Memory with id {memory_id} not found")
        return current

    def _items(self, namespace: str, facts: Sequence[RecalledFact]) -> list[Item]:
        """The facts as mem0 shows memories."""
        if not facts:
            return []
        columns = ["id", "created_at", "updated_at"]
        rows = self._memory(namespace).snapshot.by_ids("facts", [fact.id for fact in facts], columns)
        times = {row["id"]: row for row in rows.iter_rows(named=True)}
        return [
            {
                "id": _id(namespace, fact.id),
                "memory": fact.statement,
                "hash": md5(fact.statement.encode(), usedforsecurity=False).hexdigest(),
                "created_at": times[fact.id]["created_at"].isoformat(),
                "updated_at": times[fact.id]["updated_at"].isoformat(),
            }
            for fact in facts
        ]


def _learn(memory: OpenMemory, scope: _Scope, turns: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    learned = memory.ingest(dated(turns), urlencode(scope.conversation) or None)
    changes = [(each, "ADD") for each in learned.learned] + [(each, "DELETE") for each in learned.ended]
    distinct = {(each.statement, event): each.id for each, event in reversed(changes)}
    results = [
        {"id": _id(scope.namespace, id_), "memory": statement, "event": event}
        for (statement, event), id_ in reversed(distinct.items())
    ]
    return {"results": results, "run": learned.run, "refused": dict(learned.refused)}


def _turn(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """A message with its role; one without is the user's, as a plain text is."""
    if not isinstance(message, Mapping) or "content" not in message:
        raise UnusableInput(f"{message!r} is no message.", "A message is a dict with `role` and `content`.")
    return {"role": "user", **message}


def _scope(given: Mapping[str, Any]) -> _Scope:
    """Whose memories these ids mean; `ValueError` where there is none, or another filter."""
    if unknown := sorted({*given} - {*SCOPES}):
        raise UnusableInput(f"There is no filter {unknown[0]!r}.", f"Use {', '.join(SCOPES)}: metadata is not kept.")
    for name, value in given.items():
        if value == "*" or isinstance(value, Mapping | list | tuple | set):
            raise UnusableInput(f"{name} cannot be {value!r}: an id is one text.", "Ask once for each id.")
    ids = {name: str(given[name]).strip() for name in SCOPES if given.get(name) is not None}
    if not ids or not all(ids.values()):
        raise ValueError("At least one of user_id, agent_id and run_id is needed, and none may be empty.")
    (kind, value), *others = ids.items()
    return _Scope(_namespace(kind, value), (kind.removesuffix("_id"), value), dict(others))


def _namespace(kind: str, value: str) -> str:
    """The namespace of an id: with its name where that can be one, else with a hash, so that no two ids share one."""
    kind = kind.removesuffix("_id")
    if fullmatch(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", value):
        return f"{kind}-{value}"
    words = sub(r"[^a-z0-9]+", "-", value.casefold()).strip("-")[:24]
    return f"{kind}_{words or 'id'}_{sha256(value.encode()).hexdigest()[:16]}"


def _id(namespace: str, fact: str) -> str:
    return f"{namespace}:{fact}"


def _parts(memory_id: str) -> tuple[str, str]:
    namespace, colon, fact = str(memory_id).partition(":")
    if not colon:
        raise ValueError(f"Memory with id {memory_id} not found")
    return namespace, fact


def _current(memory: OpenMemory, fact: str) -> RecalledFact | None:
    """The live fact at the end of the chain that a fact belongs to."""
    try:
        last = memory.chain(fact).versions[-1]
    except UnknownName as error:
        if error.kind == "namespace":
            raise
        return None
    return last.fact if last.known_to is None and last.fact.status == "active" else None


def _twins(memory: OpenMemory, fact: RecalledFact) -> list[str]:
    """Other live facts that one sentence stands for: it may hold several relations."""
    live = memory.facts(None)[1]
    return [each.id for each in live if each.statement == fact.statement and each.id != fact.id]


def _distinct(facts: Iterable[RecalledFact]) -> list[RecalledFact]:
    """The first fact of each sentence."""
    return list({fact.statement: fact for fact in reversed([*facts])}.values())[::-1]


def _event(memory_id: str, event: str, old: str | None, new: str | None, at: Any) -> Item:
    moment = None if at is None else at.isoformat()
    return {
        "id": f"{memory_id}@{moment}", "memory_id": memory_id, "old_memory": old, "new_memory": new, "event": event,
        "created_at": moment, "updated_at": moment, "is_deleted": event == "DELETE",
    }  # fmt: skip

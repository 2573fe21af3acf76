"""A `BaseStore` of LangGraph whose items are facts: `put` goes through the gates, and `search` with a query is recall.

An item is one observation of the entity of its LangGraph namespace, in words from which it can be read back. So it has
provenance, history and undo, and is found by any other recall of the memory. `pip install 'slowwave[langgraph]'`.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from slowwave.common.errors import Refused, UnusableInput
from slowwave.common.grouped_calls import GroupedCalls
from slowwave.integrations.python_api import OpenMemory

from .shared import checked_memory, read_or, recalled

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        validate_op_namespace,
    )
    from langgraph.store.memory import InMemoryStore
except ModuleNotFoundError as error:
    how = "Install what this module needs: pip install 'slowwave[langgraph]'"
    raise ModuleNotFoundError(f"{error.msg}. {how}", name=error.name) from error

if TYPE_CHECKING:
    from storage.snapshots import Snapshot

Place = tuple[tuple[str, ...], str]
"""Namespace and key of an item."""

_HEAD = 'Item "'
_SAVED = re.compile(r'Item ("(?:[^"\\]|\\.)*") of ("(?:[^"\\]|\\.)*"): ')
_BARE = re.compile(r"(?<=[:,\[])( ?)(\[redacted:\w+\])(?=[,}\]])")
"""What took the place of a secret together with its quotes."""
_SPACES = re.compile(r"(?<=\s)\s|[^\S ]")
"""White space that a statement would lose."""


class _Kept(NamedTuple):
    """A live item with the fact that says it; `others` are older live facts of the same place."""

    item: Item
    fact: str
    statement: str
    others: tuple[str, ...]


class _NotStored(str):
    """Why an item was refused."""


class SlowwaveStore(BaseStore):
    """Items of LangGraph in an open memory; they have no time to live.

    Raises `Refused` where a gate refuses a value, after all other operations of the batch were done; `TookTooLong`
    where a search takes longer than the memory's settings allow.
    """

    __slots__ = ("_calls", "_kept", "_memory", "_sequence")

    def __init__(self, memory: OpenMemory) -> None:
        """A store over an open memory, which may hold other facts besides."""
        self._memory = checked_memory(memory)
        self._kept: dict[Place, _Kept] = {}
        self._sequence: int | None = None
        # A batch reads before it writes: two of them at once would put one key twice.
        self._calls = GroupedCalls[Op, "list[Result | _NotStored]"](Lock())

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """The results of the operations; all reads see the state before the writes, as in LangGraph's own stores.

        What several threads want meanwhile is one batch.
        """
        operations = list(ops)
        for op in operations:
            validate_op_namespace(op)
            if isinstance(op, PutOp) and op.value is not None:
                _statement((op.namespace, op.key), op.value)  # raises before anything of others is joined with it
        found = self._calls.call("", operations, self._batch, lambda every, own: every[own]) if operations else []
        if refused := list(dict.fromkeys(one for one in found if isinstance(one, _NotStored))):
            raise Refused(f"Not stored: {'; '.join(refused)}", "docs/integrations.md says what can be kept.")
        return [one for one in found if not isinstance(one, _NotStored)]

    def _batch(self, operations: Sequence[Op]) -> list[Result | _NotStored]:
        is_wide = any(isinstance(op, SearchOp | ListNamespacesOp) for op in operations)
        kept = self._all(is_read=not all(isinstance(op, PutOp) for op in operations))
        shelf = InMemoryStore()  # LangGraph's own store knows filters, paging and conditions of namespaces
        if is_wide:
            shelf.batch([PutOp(*place, each.item.value) for place, each in kept.items()])
        results: list[Result | _NotStored] = [self._read(op, kept, shelf) for op in operations]
        writes = {(op.namespace, op.key): op for op in operations if isinstance(op, PutOp)}
        refused = self._write(writes) if writes else {}
        for number, op in enumerate(operations):
            if isinstance(op, PutOp) and (why := refused.get((op.namespace, op.key))):
                results[number] = why
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """`batch` in another thread, so that the event loop goes on."""
        return await asyncio.to_thread(self.batch, list(ops))

    # Reading

    def _all(self, *, is_read: bool = False) -> dict[Place, _Kept]:
        """All items of the newest state, oldest first; read again only where the memory has changed."""
        snapshot = read_or(None, lambda: self._memory.snapshot, is_warned=is_read)
        if snapshot is None:
            return {}
        if snapshot.sequence != self._sequence:
            self._kept, self._sequence = _items(_rows(snapshot), self._kept), snapshot.sequence
        return self._kept

    def _read(self, op: Op, kept: Mapping[Place, _Kept], shelf: InMemoryStore) -> Result:
        if isinstance(op, GetOp):
            found = kept.get((op.namespace, op.key))
            return None if found is None else found.item
        if isinstance(op, SearchOp):
            return self._search(op, kept, shelf)
        return None if isinstance(op, PutOp) else shelf.batch([op])[0]

    def _search(self, op: SearchOp, kept: Mapping[Place, _Kept], shelf: InMemoryStore) -> list[SearchItem]:
        """What the filter leaves, best first where there is a query; what recall does not find comes last."""
        found = shelf.search(op.namespace_prefix, filter=op.filter, limit=len(kept) or 1)
        left = {kept[each.namespace, each.key].fact: kept[each.namespace, each.key].item for each in found}
        wanted = op.offset + op.limit
        scores = self._scores(op.query, left, wanted) if op.query and left else {}
        order = sorted(left, key=lambda fact: -scores.get(fact, float("-inf")))
        items = ((left[fact], scores.get(fact)) for fact in order[op.offset : wanted])
        return [SearchItem(i.namespace, i.key, i.value, i.created_at, i.updated_at, score) for i, score in items]

    def _scores(self, query: str, among: Mapping[str, Item], wanted: int) -> dict[str, float]:
        """The scores of these facts for a query; where recall finds too few, the meaning orders the rest below."""
        found = recalled(self._memory, query, 4 * wanted)
        scores = {fact.id: fact.score for fact in found if fact.id in among}
        if len(scores) < min(wanted, len(among)) and len(found) == 4 * wanted:
            rest = self._memory.likeness(query, [fact for fact in among if fact not in scores])
            scores |= {fact: cosine - 1.0 for fact, cosine in rest.items()}
        return scores

    # Writing

    def _write(self, writes: Mapping[Place, PutOp]) -> dict[Place, _NotStored]:
        """Retire what is deleted, state anew what has changed, and add what is new, all that is new in one run.

        Returns why some were refused.
        """
        stored = self._all()
        gone: list[str] = []
        for place, op in writes.items():
            if old := stored.get(place):
                gone += old.others if op.value is not None else (*old.others, old.fact)
        if gone:
            self._memory.retire(gone)
        fresh, refused = dict[Place, str](), dict[Place, _NotStored]()
        for place, op in writes.items():
            if op.value is None:
                continue
            statement = _statement(place, op.value)
            old = stored.get(place)
            if old is not None and old.statement != statement:
                (outcome,) = self._memory.revise(old.fact, statement).outcomes
                if outcome.outcome == "refused":
                    refused[place] = _NotStored(f"{statement[:80]}: {outcome.reason}")
                elif outcome.outcome == "confirmed":  # the same in other words; a store keeps the words
                    self._memory.retire(old.fact)
                    old = None
            if old is None:
                fresh[place] = statement
        return refused | self._add(fresh)

    def _add(self, fresh: Mapping[Place, str]) -> dict[Place, _NotStored]:
        """Add new items; returns why some were refused."""
        places: dict[str, list[Place]] = {}
        for place in fresh:
            places.setdefault(f"items of {'.'.join(place[0])}", []).append(place)
        added = self._memory.add_to_entities({name: [fresh[each] for each in own] for name, own in places.items()})
        reasons = {"confirmed": "Another item says the same under nearly the same key.", "refused": ""}
        return {
            place: _NotStored(f"{each.content[:80]}: {each.reason or reasons[each.outcome]}")
            for own, one in zip(places.values(), added, strict=True)
            for place, each in zip(own, one.outcomes, strict=True)
            if each.outcome in reasons
        }


def _statement(place: Place, value: Mapping[str, Any]) -> str:
    """An item in words from which it can be read back."""
    namespace, key = place
    if not isinstance(value, Mapping):
        raise UnusableInput(
            f"The value of {key!r} is {type(value).__name__}; a value is a dict.", f'Put {{"value": {value!r}}}.'
        )
    try:
        words = json.dumps(dict(value), ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise UnusableInput(
            f"The value of {key!r} is not JSON: {error}.", "Store texts, numbers, lists, dicts."
        ) from error
    head = f"Item {json.dumps(key, ensure_ascii=False)} of {json.dumps('.'.join(namespace), ensure_ascii=False)}: "
    return _SPACES.sub(lambda found: f"\\u{ord(found[0]):04x}", head + words)


def _rows(snapshot: Snapshot) -> Iterable[dict[str, Any]]:
    """The facts that say an item, or said one, the oldest first."""
    columns = ["id", "statement", "status", "created_at", "expired_at", "replaced_by"]
    rows = snapshot.frame("facts", f"starts_with(statement, '{_HEAD}')", columns)
    return rows.sort("created_at", "id").iter_rows(named=True)


def _items(rows: Iterable[dict[str, Any]], before: Mapping[Place, _Kept]) -> dict[Place, _Kept]:
    """The live items among facts, oldest first; an item is as old as the first of the versions that led to it."""
    known = {each.fact: (place, each.item.value) for place, each in before.items()}
    since: dict[str, datetime] = {}
    found: dict[Place, _Kept] = {}
    for row in rows:
        born = since.get(row["id"], row["created_at"])
        if row["replaced_by"]:
            since[row["replaced_by"]] = born
        is_live = row["status"] == "active" and row["expired_at"] is None
        if is_live and (parsed := known.get(row["id"]) or _parsed(row["statement"])):
            (namespace, key), value = parsed
            item = Item(value=value, key=key, namespace=namespace, created_at=born, updated_at=row["created_at"])
            older = found.get((namespace, key))
            others = (*older.others, older.fact) if older else ()
            found[namespace, key] = _Kept(item, row["id"], row["statement"], others)
    return dict(sorted(found.items(), key=lambda each: (each[1].item.created_at, each[0])))


def _parsed(statement: str) -> tuple[Place, dict[str, Any]] | None:
    """Place and value of an item; None for another statement, and for one that can no longer be read."""
    head = _SAVED.match(statement)
    if head is None:
        return None
    body = statement[head.end() :]
    for text in (body, _BARE.sub(r'\1"\2"', body)):
        try:
            key, namespace, value = json.loads(head[1]), json.loads(head[2]), json.loads(text)
        except ValueError:
            continue
        return (tuple(namespace.split(".")), key), value
    return None

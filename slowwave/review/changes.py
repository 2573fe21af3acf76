"""Changes: rows before and after, as text that a person can read and a store can write."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from slowwave.text import as_json, digest

NOW = "@now"
"""Stands for the time of approval wherever a plan wrote its own: a fact is believed until somebody said yes."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RowChange:
    """One row of a table: what changes, before and after; no `before` is a new row, no `after` one that goes."""

    table: str
    id: str
    before: Row | None
    after: Row | None

    @property
    def is_new(self) -> bool:
        """Whether the row does not exist yet."""
        return self.before is None

    @property
    def is_removal(self) -> bool:
        """Whether the row goes."""
        return self.after is None


def encoded(changes: Iterable[RowChange], now: datetime) -> str:
    """JSON; times that equal the plan's `now` follow the time of approval."""
    return as_json(
        [
            {"table": each.table, "id": each.id, "before": _plain(each.before), "after": _plain(each.after, now)}
            for each in changes
        ]
    )


def decoded(text: str | None) -> tuple[RowChange, ...]:
    """The changes of a stored proposal; times stay text."""
    return tuple(RowChange(row["table"], row["id"], row["before"], row["after"]) for row in json.loads(text or "[]"))


def _plain(row: Row | None, now: datetime | None = None) -> dict[str, Any] | None:
    return None if row is None else {name: _value(value, now) for name, value in row.items()}


def _value(value: Any, now: datetime | None) -> Any:
    if isinstance(value, datetime):
        return NOW if value == now else value.isoformat()
    if isinstance(value, date):
        return value.isoformat()
    return list(value) if isinstance(value, tuple) else value


def hash_of(basis: Mapping[str, Any]) -> str:
    """The plan hash: equal as long as everything that the plan rests on is as it was (S0-13).

    That a row which would be new does not exist yet says nothing of two plans for the same state.
    """
    return digest(as_json({key: value for key, value in basis.items() if value is not None}), size=16)


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The keys under which two bases differ, sorted: what became stale."""
    return sorted(key for key in {*before, *now} if before.get(key) != now.get(key))


def repeat_key(action: str, changes: Iterable[RowChange]) -> str:
    """The same for two plans that would do the same to the same rows, whenever they are made (T41)."""
    keys = []
    for each in changes:
        after = each.after or {}
        names: tuple[str, ...]
        if each.is_new:
            names = ("statement_hash", "alias_name", "canonical_name", "title")
        else:
            names = ("status", "owner_entity_id", "replaced_by", "merged_into", "object_id", "subject_id")
        cells = {name: after[name] for name in names if after.get(name) is not None}
        if cells.get("replaced_by") and each.table.startswith("facts") and not each.is_new:
            cells["replaced_by"] = "another"
        is_named = each.table == "fact_evidence" or not each.is_new  # by the message, or because the row exists
        keys.append((each.table, each.id if is_named else "", each.is_removal, as_json(cells)))
    return digest(action, sorted(keys), size=16)


# Staleness: changes since a plan was made, in words.


SHOWN = 3


def changed_words(
    before: Mapping[str, Any], now: Mapping[str, Any], state: Sequence[str], words: Mapping[str, str]
) -> tuple[str, ...]:
    """One sentence for each thing that is no longer as it was, none where nothing changed (T49, T50).

    `before` and `now` are bases of one plan (`storage.changes`); `state` names the columns that a fact's list holds,
    `words` are the statements and names of ids.
    """
    keys = differences(before, now)
    facts = {key for key in keys if " " not in key}
    lines = []
    for key in keys:
        kind, _, row = key.rpartition(" ")
        if kind and row in facts:
            continue  # the fact itself has a line
        old, new = before.get(key), now.get(key)
        if not kind:
            lines.append(_fact(_named(key, words), old, new, state))
        elif kind.startswith("slot "):
            lines.append("Something that it did not know of holds in its place")
        elif kind == "filed under":
            lines.append(_filed(_named(row, words), old or [], new or [], words))
        elif kind == "entity":
            lines.append(_cells(_named(row, words), _zipped(old), _zipped(new)))
        else:
            lines.append(_row(f"{kind} {_named(row, words)}", old, new))
    return tuple(lines)


def in_brief(changed: Sequence[str]) -> str:
    """The first SHOWN changes, as one sentence."""
    more = f"; and {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
    return f"Changed since it was proposed: {'; '.join(changed[:SHOWN])}{more}."


def _named(row: str, words: Mapping[str, str]) -> str:
    return f"“{words[row]}”" if words.get(row) else row


def _zipped(cells: Sequence[str] | None) -> dict[str, str]:
    return dict(zip(("name", "status", "merged into"), cells or (), strict=False))


def _fact(name: str, old: Sequence[str] | None, new: Sequence[str] | None, state: Sequence[str]) -> str:
    if old is None or new is None:
        return _row(name, old, new)
    return _cells(name, dict(zip(state, old, strict=False)), dict(zip(state, new, strict=False)))


def _row(name: str, old: Any, new: Any) -> str:
    if new is None:
        return f"{name} is gone"
    if old is None:
        return f"{name} exists by now"
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return _cells(name, old, new)
    return f"{name} is another one"


def _cells(name: str, old: Mapping[str, str], new: Mapping[str, str]) -> str:
    changed = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    if not new:
        return f"{name} is gone"
    first = "status" if "status" in changed else changed[0]
    return f"{name}: {first} {_cell(old.get(first))} → {_cell(new.get(first))}"


def _cell(value: str | None) -> str:
    return "nothing" if value in (None, "None", "") else str(value)


def _filed(name: str, old: Sequence[str], new: Sequence[str], words: Mapping[str, str]) -> str:
    parts = []
    for verb, ids in (("came to", sorted({*new} - {*old})), ("went from", sorted({*old} - {*new}))):
        if ids:
            more = f" and {len(ids) - 1} more" if len(ids) > 1 else ""
            parts.append(f"{_named(ids[0], words)}{more} {verb} {name}")
    return ", ".join(parts)

"""Staleness: what became of that on which a plan rests, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .changes import differences

TOLD = 3


def changed_words(
    before: Mapping[str, Any], now: Mapping[str, Any], state: Sequence[str], words: Mapping[str, str]
) -> tuple[str, ...]:
    """One sentence for each thing that is no longer as it was, none where nothing changed (T49, T50).

    `before` and `now` are bases of one plan (`storage.basis`); `state` names the columns that a fact's list holds,
    `words` are the statements and names of ids.
    """
    keys = differences(before, now)
    facts = {key for key in keys if " " not in key}
    told = []
    for key in keys:
        kind, _, row = key.rpartition(" ")
        if kind and row in facts:
            continue  # the fact itself is told of
        old, new = before.get(key), now.get(key)
        if not kind:
            told.append(_fact(_named(key, words), old, new, state))
        elif kind.startswith("slot "):
            told.append("Something that it did not know of holds in its place")
        elif kind == "filed under":
            told.append(_filed(_named(row, words), old or [], new or [], words))
        elif kind == "entity":
            told.append(_cells(_named(row, words), _zipped(old), _zipped(new)))
        else:
            told.append(_row(f"{kind} {_named(row, words)}", old, new))
    return tuple(told)


def in_brief(changed: Sequence[str]) -> str:
    """What changed, at most three things of it."""
    more = f"; and {len(changed) - TOLD} more" if len(changed) > TOLD else ""
    return f"Changed since it was proposed: {'; '.join(changed[:TOLD])}{more}."


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

"""What a run changed, in words: decisions of one kind and reason together, with the rows that they are about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slowwave.types.stories import ACTIONS, Decided, plain_reason
from storage.snapshots import Snapshot

from .history import story_of
from .proposals import texts_of

WORDS: Mapping[str, str] = {
    **ACTIONS, "archive": "Archived", "prune": "Archived", "merge_entity": "Joined", "gather": "Grouped",
    "move": "Filed elsewhere", "delete": "Deleted", "pin": "Pinned", "undo": "Taken back",
}  # fmt: skip
_BESIDE = {"supersede": "now", "absorb": "also stands for", "contradict": "against", "dispute": "against"}
"""Decisions that are told with the other row, and what stands between the two."""
_MANY = ("create", "reassert", "repeat")
"""Decisions that differ in their reasons only, which are of no interest in a list."""


@dataclass(frozen=True, slots=True)
class RunChange:
    """Decisions of one kind: what was done, to which rows (id, words), how many rows, and why."""

    what: str
    rows: tuple[tuple[str, str], ...]
    count: int
    reason: str

    @property
    def is_short(self) -> bool:
        """Whether the rows are names, not sentences."""
        return all(len(words) <= 40 for _, words in self.rows)


def changes_of_run(snapshot: Snapshot, run: str, most: int = 12) -> list[RunChange]:
    """The changes of a run, those that only add last; of each kind at most so many rows are named."""
    decisions = story_of(snapshot, run).decisions
    words = texts_of(snapshot, {row for each in decisions for row in (each.about, *each.beside)})
    kinds: dict[tuple[bool, str, str], list[Decided]] = {}
    for each in decisions:
        is_routine = each.action in _MANY
        reason = "" if is_routine else plain_reason(each.reason, words)
        what = WORDS.get(each.action, each.action.replace("_", " ").capitalize())
        kinds.setdefault((is_routine, what, reason), []).append(each)
    return [
        RunChange(what, tuple(_row(each, words) for each in alike[:most] if each.about in words), len(alike), reason)
        for (_, what, reason), alike in sorted(kinds.items(), key=lambda kind: kind[0][0])
    ]


def _row(each: Decided, words: Mapping[str, str]) -> tuple[str, str]:
    others = [f"“{words[row]}”" for row in each.beside if row != each.about and row in words]
    between = _BESIDE.get(each.action)
    if not (between and others):
        return each.about, words[each.about]
    return each.about, f"“{words[each.about]}” – {between}: {', '.join(others)}"

"""The changes of a run, from its counts, in a few words: `+34 facts, 5 merged, 2 retired, 12 archived`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

_PHASES = ("consolidate", "steward", "decay", "communities", "upkeep")
_WRITTEN = ("facts learned", "facts reworded")
_RETIRED = (
    "facts superseded", "facts retracted", "facts ended", "facts retired", "facts merged", "facts pruned",
    "facts archived",
)  # fmt: skip
_WORDS: Mapping[str, str] = {
    "facts learned": "+{} facts",
    "facts confirmed": "{} confirmed",
    "facts merged": "{} merged",
    "facts reworded": "{} reworded",
    "facts superseded": "{} retired",
    "facts retracted": "{} retired",
    "facts ended": "{} retired",
    "facts retired": "{} retired",
    "facts pruned": "{} faded",
    "facts archived": "{} archived",
    "facts moved to the archive": "{} archived",
    "entities archived": "{} entities archived",
    "facts restored": "{} restored",
    "facts now suspect": "{} now suspect",
    "communities summarised": "{} summarised",
}
"""In the order of the output; counts with the same words are added up."""
_OTHERS = (
    "messages stored", "messages left", "messages failed", "patches", "facts not", "facts left", "facts deleted",
    "entities merged", "entities renamed", "entities deleted", "new entities", "names", "pinned", "unpinned",
    "items new", "changes proposed", "proposals", "phases", "rows", "vectors", "windows",
)  # fmt: skip
"""Beginnings of other counts that a reader wants to see, told as they are."""


def effects(counts: Mapping[str, int]) -> list[str]:
    """The changes, each in a few words, knowledge first; for a nightly run all phases together."""
    total = _without_phases(counts)
    by_phrase: Counter[str] = Counter()
    for what, words in _WORDS.items():
        by_phrase[words] += total[what]
    known = [words.format(f"{number:,}") for words, number in by_phrase.items() if number]
    others = [what for what in total if what.startswith(_OTHERS) and what not in _WORDS and total[what]]
    return known + [f"{total[what]:,} {what}" for what in others]


def written(counts: Mapping[str, int]) -> int:
    """How many facts a run made."""
    return sum(_without_phases(counts)[what] for what in _WRITTEN)


def retired(counts: Mapping[str, int]) -> int:
    """How many facts a run retired."""
    return sum(_without_phases(counts)[what] for what in _RETIRED)


def _without_phases(counts: Mapping[str, int]) -> Counter[str]:
    """The counts of a night by what was counted, those of its phases added up."""
    total: Counter[str] = Counter()
    for what, number in counts.items():
        phase, _, rest = what.partition(": ")
        total[rest if rest and phase in _PHASES else what] += number
    return total

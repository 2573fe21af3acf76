"""The changes of a run, from its counts, in a few words: `+34 facts, 5 merged, 2 retired, 12 archived`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from slowwave.lifecycle import run_counts

_PHASES = ("consolidate", "steward", "decay", "communities", "upkeep")
_WRITTEN = (run_counts.FACTS_LEARNED, run_counts.FACTS_REWORDED)
_RETIRED = (
    run_counts.FACTS_SUPERSEDED,
    run_counts.FACTS_RETRACTED,
    run_counts.FACTS_ENDED,
    run_counts.FACTS_RETIRED,
    run_counts.FACTS_MERGED,
    run_counts.FACTS_PRUNED,
    run_counts.FACTS_ARCHIVED,
)
_WORDS: Mapping[str, str] = {
    run_counts.FACTS_LEARNED: "+{} facts",
    run_counts.FACTS_CONFIRMED: "{} confirmed",
    run_counts.FACTS_MERGED: "{} merged",
    run_counts.FACTS_REWORDED: "{} reworded",
    run_counts.FACTS_SUPERSEDED: "{} retired",
    run_counts.FACTS_RETRACTED: "{} retired",
    run_counts.FACTS_ENDED: "{} retired",
    run_counts.FACTS_RETIRED: "{} retired",
    run_counts.FACTS_PRUNED: "{} faded",
    run_counts.FACTS_ARCHIVED: "{} archived",
    run_counts.FACTS_MOVED: "{} archived",
    run_counts.ENTITIES_ARCHIVED: "{} entities archived",
    run_counts.FACTS_RESTORED: "{} restored",
    run_counts.FACTS_SUSPECT: "{} now suspect",
    run_counts.COMMUNITIES_SUMMARISED: "{} summarised",
}
"""In the order of the output; counts with the same words are added up."""
_OTHERS = (
    "messages stored", "messages left", "messages failed", "patches", "facts not", "facts left", "facts deleted",
    "entities merged", "entities renamed", "entities deleted", "new entities", "names", "pinned", "unpinned",
    "items new", "changes proposed", "proposals", "phases", "rows", "vectors", "windows",
)  # fmt: skip
"""Beginnings of other counts that a reader wants to see, under their own names."""


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

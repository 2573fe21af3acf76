"""The changes of a run, from its counts, in a few words: `+34 facts, 5 merged, 2 retired, 12 archived`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from slowwave.lifecycle.run_counts import RunCount

_PHASES = ("consolidate", "steward", "decay", "communities", "upkeep")
_WRITTEN = (RunCount.FACTS_LEARNED, RunCount.FACTS_REWORDED)
_RETIRED = (
    RunCount.FACTS_SUPERSEDED,
    RunCount.FACTS_RETRACTED,
    RunCount.FACTS_ENDED,
    RunCount.FACTS_RETIRED,
    RunCount.FACTS_MERGED,
    RunCount.FACTS_PRUNED,
    RunCount.FACTS_ARCHIVED,
)
_WORDS: Mapping[str, str] = {
    RunCount.FACTS_LEARNED: "+{} facts",
    RunCount.FACTS_CONFIRMED: "{} confirmed",
    RunCount.FACTS_MERGED: "{} merged",
    RunCount.FACTS_REWORDED: "{} reworded",
    RunCount.FACTS_SUPERSEDED: "{} retired",
    RunCount.FACTS_RETRACTED: "{} retired",
    RunCount.FACTS_ENDED: "{} retired",
    RunCount.FACTS_RETIRED: "{} retired",
    RunCount.FACTS_PRUNED: "{} faded",
    RunCount.FACTS_ARCHIVED: "{} archived",
    RunCount.FACTS_MOVED_TO_ARCHIVE: "{} archived",
    RunCount.ENTITIES_ARCHIVED: "{} entities archived",
    RunCount.FACTS_RESTORED: "{} restored",
    RunCount.FACTS_NOW_SUSPECT: "{} now suspect",
    RunCount.COMMUNITIES_SUMMARISED: "{} summarised",
}
"""In the order of the output; counts with the same words are added up."""
_OTHERS = frozenset(
    {
        RunCount.MESSAGES_STORED,
        RunCount.MESSAGES_LEFT_FOR_LATER,
        RunCount.MESSAGES_FAILED,
        RunCount.PATCHES_WAITING,
        RunCount.FACTS_NOT_RESTORED,
        RunCount.FACTS_LEFT_FOR_LATER,
        RunCount.FACTS_DELETED,
        RunCount.ENTITIES_MERGED,
        RunCount.ENTITIES_RENAMED,
        RunCount.ENTITIES_DELETED,
        RunCount.NEW_ENTITIES,
        RunCount.NAMES_ADDED,
        RunCount.PINNED,
        RunCount.UNPINNED,
        RunCount.ITEMS_NEW,
        RunCount.CHANGES_PROPOSED,
        RunCount.PROPOSALS,
        RunCount.PROPOSALS_APPROVED_FOR_LATER,
        RunCount.PROPOSALS_CARRIED_OUT,
        RunCount.PROPOSALS_REJECTED,
        RunCount.PROPOSALS_REFUSED_AS_STALE,
        RunCount.PROPOSALS_WAITING,
        RunCount.PHASES_FAILED,
        RunCount.PHASES_TAKEN_BACK,
        RunCount.ROWS_IMPORTED,
        RunCount.ROWS_REEMBEDDED,
        RunCount.ROWS_REMOVED,
        RunCount.ROWS_STRUCK,
        RunCount.WINDOWS,
        RunCount.WINDOWS_DONE_BEFORE,
        RunCount.WINDOWS_FAILED,
    }
)
"""Other counts that a reader wants to see, under their own names."""


def effects(counts: Mapping[str, int]) -> list[str]:
    """The changes, each in a few words, knowledge first; for a nightly run all phases together."""
    total = _without_phases(counts)
    by_phrase: Counter[str] = Counter()
    for what, words in _WORDS.items():
        by_phrase[words] += total[what]
    known = [words.format(f"{number:,}") for words, number in by_phrase.items() if number]
    others = [what for what in total if what in _OTHERS and total[what]]
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

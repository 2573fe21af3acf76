"""What runs count, and how a few words tell it: `+34 facts, 5 merged, 2 retired, 12 archived`.

The labels are stored: keys of a run's summary and of `--json`, rows of the table on its page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum


class RunCount(StrEnum):
    """The name of a count; its value is the label that is stored and shown."""

    SOURCES = "sources"
    SOURCES_KNOWN = "sources known already"
    FILES_PASSED_OVER = "files passed over"
    LINES_SKIPPED = "lines skipped"

    MESSAGES_EXTRACTED = "messages extracted"
    MESSAGES_FAILED = "messages failed"
    MESSAGES_KNOWN = "messages known already"
    MESSAGES_LEFT_FOR_LATER = "messages left for later"
    MESSAGES_READ = "messages read"
    MESSAGES_STORED = "messages stored"
    MESSAGES_WITH_USED_ID = "messages with a used id"
    MESSAGES_REDACTED = "messages with secrets redacted"

    CANDIDATE_FACTS = "candidate facts"
    CANDIDATES = "candidates"

    CLAIMS_DROPPED = "claims dropped"
    CLAIMS_TOO_UNSURE = "claims too unsure to hold"

    BELIEFS_DROPPED = "beliefs dropped"
    BELIEFS_HELD_BACK = "beliefs held back"
    BELIEFS_PROMOTED = "beliefs promoted"

    RELATIONS_LEARNED = "relations learned"
    RELATIONS_UNKNOWN = "relations unknown"

    FACTS_ARCHIVED = "facts archived"
    FACTS_COMPARED = "facts compared"
    FACTS_CONFIRMED = "facts confirmed"
    FACTS_ENDED = "facts ended"
    FACTS_ENDED_EARLIER = "facts ended earlier"
    FACTS_LEARNED = "facts learned"
    FACTS_LEFT_FOR_LATER = "facts left for later"
    FACTS_MERGED = "facts merged"
    FACTS_MOVED_TO_ARCHIVE = "facts moved to the archive"
    FACTS_NO_LONGER_SUSPECT = "facts no longer suspect"
    FACTS_NOW_SUSPECT = "facts now suspect"
    FACTS_PREFERRED = "facts preferred"
    FACTS_PRUNED = "facts pruned"
    FACTS_RESTORED = "facts restored"
    FACTS_RETIRED = "facts retired"
    FACTS_RETRACTED = "facts retracted"
    FACTS_REWORDED = "facts reworded"
    FACTS_SCORED = "facts scored"
    FACTS_SUPERSEDED = "facts superseded"
    FACTS_DELETED = "facts deleted"
    FACTS_MOVED = "facts moved"
    FACTS_NOT_RESTORED = "facts not restored"

    CHANGES_PROPOSED = "changes proposed"
    CHANGES_REFUSED = "changes refused"

    CONTRADICTIONS_FOUND = "contradictions found"
    CONTRADICTIONS_NOTED = "contradictions noted"
    CONFLICTS_EXPIRED = "conflicts expired"
    CONFLICTS_FOUND = "conflicts found"

    PAIRS_KEPT_APART = "pairs kept apart"
    PAIRS_LEFT_UNDECIDED = "pairs left undecided"
    PAIRS_NOT_DECIDED = "pairs not decided"

    ARTIFACTS_LEFT_FOR_LATER = "artifacts left for later"

    ENTITIES_ARCHIVED = "entities archived"
    ENTITIES_JOINED = "entities that joined a community"
    ENTITIES_WEIGHED = "entities weighed"
    ENTITIES_DELETED = "entities deleted"
    NEW_ENTITIES = "new entities"
    ENTITIES_MERGED = "entities merged"
    ENTITIES_RENAMED = "entities renamed"
    ENTITIES_READ = "entities read"
    ENTITIES_OF_OTHER_TYPE = "entities of another type here"

    LINKS = "links between entities"
    LINKS_FADED = "links faded"

    CONVERSATIONS_LEFT_FOR_LATER = "conversations left for later"
    CONVERSATIONS_NOT_SUMMARISED = "conversations not summarised"
    CONVERSATIONS_SUMMARISED = "conversations summarised"

    COMMUNITIES = "communities"
    COMMUNITIES_FOUND = "communities found"
    COMMUNITIES_LEFT_FOR_LATER = "communities left for later"
    COMMUNITIES_NOT_SUMMARISED = "communities not summarised"
    COMMUNITIES_SUMMARISED = "communities summarised"
    COMMUNITIES_CHANGED = "communities changed"
    COMMUNITIES_DISSOLVED = "communities dissolved"

    PROFILES_RENEWED = "profiles renewed"
    FLAGS_CLEARED = "flags cleared"
    RECALLS_COUNTED = "recalls counted"
    SCORES_CHANGED = "scores changed"

    PHASES_FAILED = "phases failed"
    PHASES_TAKEN_BACK = "phases taken back"

    WINDOWS = "windows"
    WINDOWS_DONE_BEFORE = "windows done before"
    WINDOWS_FAILED = "windows failed"

    TABLES_COMPACTED = "tables compacted"
    INDEXES_MADE = "indexes made"
    QUESTIONS_FOR_A_MODEL = "questions that a model would be asked"
    NAMES_ADDED = "names added"

    PINNED = "pinned"
    UNPINNED = "unpinned"

    OBSERVATIONS_KNOWN = "observations known already"
    OBSERVATIONS_MOVED = "observations moved"
    OBSERVATIONS_REFUSED = "observations refused"

    PATCHES_WAITING = "patches waiting for review"

    PROPOSALS = "proposals"
    PROPOSALS_APPROVED_FOR_LATER = "proposals approved for later"
    PROPOSALS_CARRIED_OUT = "proposals carried out"
    PROPOSALS_REJECTED = "proposals rejected"
    PROPOSALS_REFUSED_AS_STALE = "proposals refused as stale"
    PROPOSALS_WAITING = "proposals that wait"

    ITEMS_READ = "items read"
    ITEMS_KNOWN = "items known"
    ITEMS_NEW = "items new"
    ITEMS_REFUSED = "items refused"
    ITEMS_UNREADABLE = "items that could not be read"
    ITEMS_DELETED_OR_DERIVED = "items deleted or derived"
    ITEMS_ABOUT_NOBODY = "items about nobody"
    ITEMS_WITH_ORDERS = "items that give orders"

    ENDS_KEPT = "ends taken away, kept here"
    SOURCE_TEXTS_READ = "source texts read"

    TEXTS_WITH_SECRETS = "texts with secrets taken out"
    DIFFERENT_TEXTS = "different texts"
    TEXTS_EMBEDDED = "texts embedded"
    TEXTS_STAGED_BEFORE = "texts staged before"
    TEXTS_TO_EMBED = "texts to embed"

    ROWS_IMPORTED = "rows imported"
    ROWS_REEMBEDDED = "rows re-embedded"
    ROWS_REMOVED = "rows removed"
    ROWS_STRUCK = "rows struck"
    VERSIONS_DROPPED = "versions dropped"
    FILES_DROPPED = "files dropped"
    PLACES_LEFT = "places left"


FACT_COUNTS = frozenset(
    {
        RunCount.FACTS_ARCHIVED,
        RunCount.FACTS_COMPARED,
        RunCount.FACTS_CONFIRMED,
        RunCount.FACTS_ENDED,
        RunCount.FACTS_ENDED_EARLIER,
        RunCount.FACTS_LEARNED,
        RunCount.FACTS_LEFT_FOR_LATER,
        RunCount.FACTS_MERGED,
        RunCount.FACTS_MOVED_TO_ARCHIVE,
        RunCount.FACTS_PREFERRED,
        RunCount.FACTS_PRUNED,
        RunCount.FACTS_RESTORED,
        RunCount.FACTS_RETIRED,
        RunCount.FACTS_RETRACTED,
        RunCount.FACTS_REWORDED,
        RunCount.FACTS_SCORED,
        RunCount.FACTS_SUPERSEDED,
        RunCount.FACTS_NOW_SUSPECT,
        RunCount.FACTS_NO_LONGER_SUSPECT,
    }
)
"""Counts of facts that a run compared or changed."""


def by_label(counts: Mapping[RunCount, int] | Mapping[str, int]) -> dict[str, int]:
    """The counts by their labels, as plain data."""
    return {str(what): number for what, number in counts.items()}


# The changes of a run in a few words, from its counts.


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

"""What runs count, and how a few words tell it: `+34 facts, 5 merged, 2 ended, 12 archived`.

The keys are stored: they are in a run's summary and in `--json`. Tables on a page and in a terminal show the labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import Self

IN_SHORT = True


class RunCount(StrEnum):
    """The name of a count; its value is the key that is stored, its `label` what people read.

    One that `is_in_short` stands among the changes of a run in a few words, too.
    """

    label: str
    is_in_short: bool

    def __new__(cls, key: str, label: str = "", is_in_short: bool = False) -> Self:
        """The count under this key, shown as `label`, or as the key where that says it already."""
        made = str.__new__(cls, key)
        made._value_, made.label, made.is_in_short = key, label or key, is_in_short
        return made

    SOURCES = "sources", "sources found"
    SOURCES_KNOWN = "sources known already", "sources read before and skipped"
    FILES_PASSED_OVER = "files passed over", "files skipped"
    LINES_SKIPPED = "lines skipped", "lines skipped as unreadable"

    MESSAGES_READ = "messages read"
    MESSAGES_KNOWN = "messages known already", "messages known before and skipped"
    MESSAGES_STORED = "messages stored", "new messages stored", IN_SHORT
    MESSAGES_REDACTED = "messages with secrets redacted", "messages with secrets removed"
    MESSAGES_WITH_USED_ID = "messages with a used id", "messages renamed because their id was taken"
    MESSAGES_EXTRACTED = "messages extracted", "messages searched for facts"
    MESSAGES_FAILED = "messages failed", "messages that could not be searched for facts", IN_SHORT
    MESSAGES_LEFT_FOR_LATER = "messages left for later", "messages left for a later run", IN_SHORT

    CANDIDATE_FACTS = "candidate facts", "possible facts found"
    CANDIDATES = "candidates", "possible facts found"

    CLAIMS_DROPPED = "claims dropped", "statements dropped as unusable"
    CLAIMS_TOO_UNSURE = "claims too unsure to hold", "statements dropped as too uncertain"

    BELIEFS_DROPPED = "beliefs dropped", "uncertain statements dropped"
    BELIEFS_HELD_BACK = "beliefs held back", "uncertain statements that need more evidence"
    BELIEFS_PROMOTED = "beliefs promoted", "uncertain statements that became facts"

    RELATIONS_LEARNED = "relations learned", "kinds of relations learned from a model"
    RELATIONS_UNKNOWN = "relations unknown", "kinds of relations outside the built-in list"

    FACTS_ARCHIVED = "facts archived"
    FACTS_COMPARED = "facts compared", "facts compared with similar ones"
    FACTS_CONFIRMED = "facts confirmed", "known facts confirmed"
    FACTS_ENDED = "facts ended", "facts that no longer hold"
    FACTS_LEARNED = "facts learned", "new facts"
    FACTS_LEFT_FOR_LATER = "facts left for later", "facts left for a later run", IN_SHORT
    FACTS_MERGED = "facts merged", "duplicate facts merged"
    FACTS_MOVED_TO_ARCHIVE = "facts moved to the archive", "ended facts moved to the archive"
    FACTS_PRUNED = "facts pruned", "unused facts archived"
    FACTS_RESTORED = "facts restored"
    FACTS_RETIRED = "facts retired", "facts archived"
    FACTS_RETRACTED = "facts retracted", "facts denied by a later message"
    FACTS_SCORED = "facts scored"
    FACTS_SUPERSEDED = "facts superseded", "facts replaced by newer ones"
    FACTS_MOVED = "facts moved", "facts moved to another entity"

    QUOTATIONS_REPLACED = "quotations replaced", "quotations replaced by what a model read"

    CHANGES_PROPOSED = "changes proposed", "changes that wait for a person", IN_SHORT
    CHANGES_REFUSED = "changes refused", "changes refused in favour of a known fact"

    CONTRADICTIONS_FOUND = "contradictions found", "contradictions found by a model"
    CONTRADICTIONS_NOTED = "contradictions noted", "contradictions found by rules"
    CONFLICTS_EXPIRED = "conflicts expired", "undecided contradictions dropped after their time"

    PAIRS_KEPT_APART = "pairs kept apart", "pairs of facts that a model keeps apart"
    PAIRS_LEFT_UNDECIDED = "pairs left undecided", "pairs of similar facts left undecided"
    PAIRS_NOT_DECIDED = "pairs not decided", "pairs of facts without a usable answer"

    ARTIFACT_VERSIONS = "artifacts: versions", "documents linked as versions of one document"
    ARTIFACT_DERIVATIVES = "artifacts: derivatives", "documents linked as made from another one"
    ARTIFACT_DUPLICATES = "artifacts: duplicates", "documents linked as duplicates"
    ARTIFACTS_ALONE = "artifacts: on their own", "documents like no other"

    ENTITIES_ARCHIVED = "entities archived"
    ENTITIES_JOINED = "entities that joined a community"
    ENTITIES_WEIGHED = "entities weighed", "entities with a new weight"
    NEW_ENTITIES = "new entities", "", IN_SHORT
    ENTITIES_MERGED = "entities merged", "", IN_SHORT
    ENTITIES_RENAMED = "entities renamed", "", IN_SHORT
    ENTITIES_READ = "entities read", "entities in the export"

    LINKS = "links between entities", "links between similar entities changed"
    LINKS_FADED = "links faded", "unused links weakened"

    CONVERSATIONS_LEFT_FOR_LATER = "conversations left for later", "conversations left for a later run"
    CONVERSATIONS_NOT_SUMMARISED = "conversations not summarised", "conversations that could not be summarised"
    CONVERSATIONS_SUMMARISED = "conversations summarised"

    COMMUNITIES = "communities", "communities in all"
    COMMUNITIES_FOUND = "communities found", "new communities"
    COMMUNITIES_LEFT_FOR_LATER = "communities left for later", "communities left for a later run"
    COMMUNITIES_NOT_SUMMARISED = "communities not summarised", "communities that could not be summarised"
    COMMUNITIES_SUMMARISED = "communities summarised"
    COMMUNITIES_CHANGED = "communities changed"
    COMMUNITIES_DISSOLVED = "communities dissolved"

    PROFILES_RENEWED = "profiles renewed", "entity descriptions renewed"
    FLAGS_CLEARED = "flags cleared", "facts no longer marked as similar"
    RECALLS_COUNTED = "recalls counted"
    SCORES_CHANGED = "scores changed"

    PHASES_FAILED = "phases failed", "", IN_SHORT
    PHASES_TAKEN_BACK = "phases taken back", "phases undone", IN_SHORT

    WINDOWS = "windows", "windows of time read", IN_SHORT

    TABLES_COMPACTED = "tables compacted"
    INDEXES_MADE = "indexes made", "indexes built"
    QUESTIONS_FOR_A_MODEL = "questions that a model would be asked"
    NAMES_ADDED = "names added", "", IN_SHORT

    PINNED = "pinned", "pins set", IN_SHORT
    UNPINNED = "unpinned", "pins removed", IN_SHORT

    OBSERVATIONS_KNOWN = "observations known already", "observations known before"
    OBSERVATIONS_REFUSED = "observations refused"

    PATCHES_WAITING = "patches waiting for review", "changes that wait for a person", IN_SHORT

    PROPOSALS = "proposals", "changes that wait for a person", IN_SHORT
    PROPOSALS_CARRIED_OUT = "proposals carried out", "", IN_SHORT
    PROPOSALS_REJECTED = "proposals rejected", "", IN_SHORT
    PROPOSALS_REFUSED_AS_STALE = "proposals refused as stale", "proposals refused as out of date", IN_SHORT

    ITEMS_READ = "items read"
    ITEMS_KNOWN = "items known", "items known before"
    ITEMS_NEW = "items new", "new items", IN_SHORT
    ITEMS_REFUSED = "items refused"
    ITEMS_LEFT_OUT = "items left out"
    ITEMS_ABOUT_NOBODY = "items about nobody", "items dropped because they name nobody"
    ITEMS_WITH_ORDERS = "items that give orders", "items refused because they give orders"

    TEXTS_WITH_SECRETS = "texts with secrets taken out", "texts with secrets removed"
    DIFFERENT_TEXTS = "different texts"
    TEXTS_EMBEDDED = "texts embedded"

    ROWS_IMPORTED = "rows imported", "", IN_SHORT
    ROWS_REEMBEDDED = "rows re-embedded", "", IN_SHORT
    ROWS_REMOVED = "rows removed", "", IN_SHORT
    ROWS_STRUCK = "rows struck", "rows changed", IN_SHORT
    VERSIONS_DROPPED = "versions dropped", "old versions of tables dropped"
    FILES_DROPPED = "files dropped", "files deleted"
    PLACES_LEFT = "places left", "places that still name it"


FACT_COUNTS = frozenset(count for count in RunCount if count.startswith("facts "))
"""Counts of facts that a run compared or changed."""


# The changes of a run in a few words, from its counts.


_PHASES = ("ingest", "consolidate", "steward", "decay", "communities", "upkeep")
_WORDS: Mapping[str, str] = {
    RunCount.FACTS_LEARNED: "+{} facts",
    RunCount.FACTS_CONFIRMED: "{} confirmed",
    RunCount.FACTS_MERGED: "{} merged",
    RunCount.FACTS_SUPERSEDED: "{} ended",
    RunCount.FACTS_RETRACTED: "{} ended",
    RunCount.FACTS_ENDED: "{} ended",
    RunCount.FACTS_RETIRED: "{} archived",
    RunCount.FACTS_PRUNED: "{} archived",
    RunCount.FACTS_ARCHIVED: "{} archived",
    RunCount.FACTS_MOVED_TO_ARCHIVE: "{} archived",
    RunCount.ENTITIES_ARCHIVED: "{} entities archived",
    RunCount.FACTS_RESTORED: "{} restored",
    RunCount.COMMUNITIES_SUMMARISED: "{} communities summarised",
    RunCount.QUOTATIONS_REPLACED: "{} quotations read",
}
"""In the order of the output; counts with the same words are added up."""
_LABELS = {str(count): count.label for count in RunCount}
_IN_SHORT = {str(count) for count in RunCount if count.is_in_short}
_PLACES = {str(count): place for place, count in enumerate(RunCount)}


def shown_counts(counts: Mapping[str, int]) -> dict[str, int]:
    """The counts by the labels that people read, in the order of `RunCount`, those of a night by phase.

    Counts of one label are added up; zeros are left out.
    """
    shown: Counter[str] = Counter()
    for phase, count in sorted(map(_parts, counts), key=_place):
        key = f"{phase}: {count}" if phase else count
        label = _LABELS.get(count, count)
        shown[f"{phase}: {label}" if phase else label] += counts[key]
    return {label: number for label, number in shown.items() if number}


def _parts(key: str) -> tuple[str, str]:
    """The phase of a night, or nothing, and what was counted."""
    phase, _, count = key.partition(": ")
    return (phase, count) if count and phase in _PHASES else ("", key)


def _place(parts: tuple[str, str]) -> tuple[int, int]:
    phase, count = parts
    return _PHASES.index(phase) if phase else -1, _PLACES.get(count, len(_PLACES))


def effects(counts: Mapping[str, int]) -> list[str]:
    """The changes, each in a few words, knowledge first; for a nightly run all phases together."""
    total: Counter[str] = Counter()
    for what, number in counts.items():
        total[_parts(what)[1]] += number
    by_phrase: Counter[str] = Counter()
    for what, words in _WORDS.items():
        by_phrase[words] += total[what]
    known = [words.format(f"{number:,}") for words, number in by_phrase.items() if number]
    others = shown_counts({what: number for what, number in total.items() if what in _IN_SHORT})
    return known + [f"{number:,} {label}" for label, number in others.items()]

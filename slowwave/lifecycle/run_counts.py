"""The names of what a run counts: keys of its summary, of `--json` and of the table on its page. They are stored."""

from __future__ import annotations

from typing import Final

SOURCES: Final = "sources"
SOURCES_KNOWN: Final = "sources known already"

MESSAGES_EXTRACTED: Final = "messages extracted"
MESSAGES_FAILED: Final = "messages failed"
MESSAGES_KNOWN: Final = "messages known already"
MESSAGES_LEFT_FOR_LATER: Final = "messages left for later"
MESSAGES_READ: Final = "messages read"
MESSAGES_STORED: Final = "messages stored"
MESSAGES_RENAMED: Final = "messages with a used id"
MESSAGES_REDACTED: Final = "messages with secrets redacted"

CANDIDATES: Final = "candidate facts"

CLAIMS_DROPPED: Final = "claims dropped"
CLAIMS_TOO_UNSURE: Final = "claims too unsure to hold"

BELIEFS_DROPPED: Final = "beliefs dropped"
BELIEFS_HELD_BACK: Final = "beliefs held back"
BELIEFS_PROMOTED: Final = "beliefs promoted"

RELATIONS_LEARNED: Final = "relations learned"
RELATIONS_UNKNOWN: Final = "relations unknown"

FACTS_ARCHIVED: Final = "facts archived"
FACTS_COMPARED: Final = "facts compared"
FACTS_CONFIRMED: Final = "facts confirmed"
FACTS_ENDED: Final = "facts ended"
FACTS_ENDED_EARLIER: Final = "facts ended earlier"
FACTS_LEARNED: Final = "facts learned"
FACTS_LEFT_FOR_LATER: Final = "facts left for later"
FACTS_MERGED: Final = "facts merged"
FACTS_MOVED: Final = "facts moved to the archive"
FACTS_TRUSTED: Final = "facts no longer suspect"
FACTS_SUSPECT: Final = "facts now suspect"
FACTS_PREFERRED: Final = "facts preferred"
FACTS_PRUNED: Final = "facts pruned"
FACTS_RESTORED: Final = "facts restored"
FACTS_RETIRED: Final = "facts retired"
FACTS_RETRACTED: Final = "facts retracted"
FACTS_REWORDED: Final = "facts reworded"
FACTS_SCORED: Final = "facts scored"
FACTS_SUPERSEDED: Final = "facts superseded"

CHANGES_PROPOSED: Final = "changes proposed"
CHANGES_REFUSED: Final = "changes refused"

CONTRADICTIONS_FOUND: Final = "contradictions found"
CONTRADICTIONS_NOTED: Final = "contradictions noted"

PAIRS_KEPT_APART: Final = "pairs kept apart"
PAIRS_LEFT_UNDECIDED: Final = "pairs left undecided"
PAIRS_NOT_DECIDED: Final = "pairs not decided"

ARTIFACTS_LEFT_FOR_LATER: Final = "artifacts left for later"

ENTITIES_ARCHIVED: Final = "entities archived"
ENTITIES_JOINED: Final = "entities that joined a community"
ENTITIES_WEIGHED: Final = "entities weighed"

LINKS_CHANGED: Final = "links between entities"
LINKS_FADED: Final = "links faded"

CONVERSATIONS_LEFT_FOR_LATER: Final = "conversations left for later"
CONVERSATIONS_NOT_SUMMARISED: Final = "conversations not summarised"
CONVERSATIONS_SUMMARISED: Final = "conversations summarised"

COMMUNITIES: Final = "communities"
COMMUNITIES_FOUND: Final = "communities found"
COMMUNITIES_LEFT_FOR_LATER: Final = "communities left for later"
COMMUNITIES_NOT_SUMMARISED: Final = "communities not summarised"
COMMUNITIES_SUMMARISED: Final = "communities summarised"

PROFILES_RENEWED: Final = "profiles renewed"

FLAGS_CLEARED: Final = "flags cleared"

RECALLS_COUNTED: Final = "recalls counted"

SCORES_CHANGED: Final = "scores changed"

PHASES_FAILED: Final = "phases failed"
PHASES_TAKEN_BACK: Final = "phases taken back"

WINDOWS: Final = "windows"
WINDOWS_DONE_BEFORE: Final = "windows done before"
WINDOWS_FAILED: Final = "windows failed"

TABLES_COMPACTED: Final = "tables compacted"

INDEXES_MADE: Final = "indexes made"

QUESTIONS_FOR_A_MODEL: Final = "questions that a model would be asked"

FACTS: Final = frozenset(
    {
        FACTS_ARCHIVED,
        FACTS_COMPARED,
        FACTS_CONFIRMED,
        FACTS_ENDED,
        FACTS_ENDED_EARLIER,
        FACTS_LEARNED,
        FACTS_LEFT_FOR_LATER,
        FACTS_MERGED,
        FACTS_MOVED,
        FACTS_PREFERRED,
        FACTS_PRUNED,
        FACTS_RESTORED,
        FACTS_RETIRED,
        FACTS_RETRACTED,
        FACTS_REWORDED,
        FACTS_SCORED,
        FACTS_SUPERSEDED,
        FACTS_SUSPECT,
        FACTS_TRUSTED,
    }
)
"""Counts of facts that a run compared or changed."""

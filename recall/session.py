"""The conversation that is going on, and what the last ones were about (S2-74)."""

from __future__ import annotations

from difflib import get_close_matches

from slowwave.errors import UnknownName, UnusableInput
from storage.rows import quoted
from storage.snapshots import Snapshot

from .episodes import entities_in, last_episodes

_NAMED = 50  # conversations that an error lists


def messages_of(snapshot: Snapshot, conversation: str) -> frozenset[str]:
    """The messages (row ids) of a conversation. Raises `UnknownName` with near names where there is none."""
    said = snapshot.frame("messages", f"conversation_id = {quoted(conversation)}", ["id"])
    if len(said):
        return frozenset(said["id"])
    known = snapshot.frame("messages", columns=["conversation_id"])["conversation_id"].unique().sort().to_list()
    near = get_close_matches(conversation, known, n=5, cutoff=0.5)
    raise UnknownName("conversation", conversation, near or known[:_NAMED])


def entities_of_last(snapshot: Snapshot, conversations: int) -> frozenset[str]:
    """The entities that the last conversations were about, without traversal. Raises `UnusableInput` below one."""
    if conversations < 1:
        raise UnusableInput(f"The last {conversations} conversations are none.", "Ask for at least one.")
    return frozenset(entities_in(snapshot, last_episodes(snapshot, conversations)))

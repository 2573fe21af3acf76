"""Episodes: conversations as things that happened, and who they were about (S2-74)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches

import polars as pl

from slowwave.errors import UnknownName, UnusableInput
from storage.rows import quoted
from storage.snapshots import Snapshot


@dataclass(frozen=True, slots=True)
class Episode:
    """One conversation: when it took place, how long it was, and what it was about, if it was summarised (S4-23)."""

    id: str
    conversation_id: str
    started_at: datetime
    ended_at: datetime
    messages: int
    summary: str | None = None


def episodes_of(snapshot: Snapshot, entity_id: str) -> tuple[Episode, ...]:
    """The conversations that are about an entity, newest first."""
    links = snapshot.by_ids("episode_entities", [entity_id], ["episode_id"], key="entity_id")
    return _episodes(snapshot.by_ids("episodes", links["episode_id"]))


def last_episodes(snapshot: Snapshot, count: int) -> tuple[Episode, ...]:
    """The conversations that ended last, newest first."""
    ends = snapshot.frame("episodes", columns=["id", "ended_at"]).sort("ended_at", "id", descending=True).head(count)
    return _episodes(snapshot.by_ids("episodes", ends["id"]))


def entities_in(snapshot: Snapshot, episodes: tuple[Episode, ...]) -> list[str]:
    """Ids of the entities that these conversations are about, in order of how many they occur in, then of id."""
    ids = [episode.id for episode in episodes]
    links = snapshot.by_ids("episode_entities", ids, ["entity_id"], key="episode_id")
    counted = links.group_by("entity_id").agg(times=pl.len()).sort("times", "entity_id", descending=[True, False])
    return counted["entity_id"].to_list()


def _episodes(rows: pl.DataFrame) -> tuple[Episode, ...]:
    newest = rows.sort("ended_at", "id", descending=True)
    columns = ("id", "conversation_id", "started_at", "ended_at", "messages", "summary")
    return tuple(Episode(*row) for row in newest.select(columns).iter_rows())


# The conversation that is going on, and what the last ones were about (S2-74).


_NAMED = 50  # conversations that an error lists


def messages_of(snapshot: Snapshot, conversation: str) -> frozenset[str]:
    """The messages (row ids) of a conversation. Raises `UnknownName` with near names where there is none."""
    messages = snapshot.frame("messages", f"conversation_id = {quoted(conversation)}", ["id"])
    if len(messages):
        return frozenset(messages["id"])
    known = snapshot.frame("messages", columns=["conversation_id"])["conversation_id"].unique().sort().to_list()
    near = get_close_matches(conversation, known, n=5, cutoff=0.5)
    raise UnknownName("conversation", conversation, near or known[:_NAMED])


def entities_of_last(snapshot: Snapshot, conversations: int) -> frozenset[str]:
    """The entities that the last conversations were about, without traversal. Raises `UnusableInput` below one."""
    if conversations < 1:
        raise UnusableInput(f"The last {conversations} conversations are none.", "Ask for at least one.")
    return frozenset(entities_in(snapshot, last_episodes(snapshot, conversations)))

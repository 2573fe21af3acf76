"""Episodes: conversations as things that happened, and who they were about (S2-74)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import polars as pl

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

"""Where knowledge comes from: documents with their versions (S1-19), and conversations (S2-74)."""

from __future__ import annotations

from dataclasses import fields
from difflib import get_close_matches

import polars as pl

from slowwave.common import frames
from slowwave.common.errors import UnknownName, UnusableInput
from slowwave.common.types import Artifact, Episode
from slowwave.facts.searched_texts import OBSERVATIONS
from storage.rows import quoted
from storage.snapshots import Snapshot

_SOME = 5

_COLUMNS = tuple(one.name for one in fields(Artifact) if one.name != "chars")


def artifacts(snapshot: Snapshot, limit: int) -> tuple[int, tuple[Artifact, ...]]:
    """How many chains there are, and the newest version of those that were written last; without their texts."""
    where = "is_head AND status = 'active'"
    newest = snapshot.frame("artifacts", where, ["id"], limit, ["-made_at", "id"])["id"]
    rows = snapshot.by_ids("artifacts", newest, _COLUMNS).sort("made_at", "id", descending=[True, False])
    return snapshot.count("artifacts", where), _shown_artifacts(rows, with_content=False)


def versions_of(snapshot: Snapshot, name: str) -> tuple[Artifact, ...]:
    """The whole chain of the artifact with this id, beginning of an id, or title: oldest first, texts included.

    A repeated text is in no chain: its id gives the chain of the text that it repeats.
    """
    where = f"group_id = {quoted(_group_of(snapshot, name))} AND status = 'active'"
    return _shown_artifacts(snapshot.frame("artifacts", where, _COLUMNS).sort("version_no", "id"), with_content=True)


def _group_of(snapshot: Snapshot, name: str) -> str:
    """The one chain that is meant; raises UnknownName with some names, or with those that it may be."""
    title = f"lower(title) = {quoted(name.lower())}"
    for where in (f"id = {quoted(name)}", f"starts_with(id, {quoted(name)})" if name else "false", title):
        found = snapshot.frame("artifacts", where, ["id", "group_id"])
        groups = found["group_id"].unique().to_list()
        if len(groups) == 1:
            return str(groups[0])
        if groups:
            raise UnknownName("artifact (several are called so)", name, found["id"].sort())
    raise UnknownName("artifact", name, snapshot.frame("artifacts", "is_head", ["title"], _SOME)["title"])


def _shown_artifacts(rows: pl.DataFrame, *, with_content: bool) -> tuple[Artifact, ...]:
    made = []
    for row in rows.with_columns(chars=pl.col("content").str.len_chars()).iter_rows(named=True):
        content = row["content"] if with_content else ""
        facts = tuple(row["linked_fact_ids"] or ())
        made.append(Artifact(**{**row, "content": content, "linked_fact_ids": facts}))
    return tuple(made)


# Conversations as episodes, and the entities that they are about (S2-74).


def episodes_of(snapshot: Snapshot, entity_id: str) -> tuple[Episode, ...]:
    """The conversations that are about an entity, newest first."""
    links = snapshot.by_ids("episode_entities", [entity_id], ["episode_id"], key="entity_id")
    return _episodes(snapshot, snapshot.by_ids("episodes", links["episode_id"]))


def last_episodes(snapshot: Snapshot, count: int) -> tuple[Episode, ...]:
    """The conversations that ended last, newest first."""
    rows = snapshot.frame("episodes", columns=["id", "conversation_id", "ended_at"])
    last = rows.sort("ended_at", "id", descending=True).head(count)["id"]
    observed = rows.filter(pl.col("conversation_id") == OBSERVATIONS)["id"]
    return _episodes(snapshot, snapshot.by_ids("episodes", pl.concat([last, observed]).unique()))[:count]


def entities_in(snapshot: Snapshot, episodes: tuple[Episode, ...]) -> list[str]:
    """Ids of the entities that these conversations are about, in order of how many they occur in, then of id."""
    ids = [episode.id for episode in episodes]
    links = snapshot.by_ids("episode_entities", ids, ["entity_id"], key="episode_id")
    counted = links.group_by("entity_id").agg(times=pl.len()).sort("times", "entity_id", descending=[True, False])
    return counted["entity_id"].to_list()


def _episodes(snapshot: Snapshot, rows: pl.DataFrame) -> tuple[Episode, ...]:
    """These episodes, newest first. The end and the length of the observations are those of their messages."""
    is_observed = pl.col("conversation_id") == OBSERVATIONS
    if len(rows.filter(is_observed)):
        where = f"conversation_id = {quoted(OBSERVATIONS)}"
        times = snapshot.frame("messages", where, ["occurred_at"])["occurred_at"]
        ended, messages = pl.lit(times.max(), dtype=frames.TIME), pl.lit(len(times), dtype=pl.Int64)
        rows = rows.with_columns(
            ended_at=pl.when(is_observed).then(ended).otherwise("ended_at"),
            messages=pl.when(is_observed).then(messages).otherwise("messages"),
        )
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

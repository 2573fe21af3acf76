"""Artifacts as they are shown: whole documents and pasted texts, and the chains of their versions (S1-19)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

import polars as pl

from slowwave.errors import UnknownName
from storage.rows import quoted
from storage.snapshots import Snapshot

_SOME = 5


@dataclass(frozen=True, slots=True)
class Artifact:
    """One document or pasted text; `chars` is its length, `content` its text if requested, else empty."""

    id: str
    title: str
    type: str
    summary: str
    version_no: int | None
    is_head: bool
    link: str
    status: str
    scope: str
    group_id: str
    parent_id: str | None
    derived_from: str | None
    replaced_by: str | None
    conversation_id: str
    message_id: str | None
    made_at: datetime | None
    seen_count: int
    confidence: float | None
    linked_fact_ids: tuple[str, ...]
    chars: int
    content: str = ""

    def as_json(self) -> dict[str, Any]:
        """One document."""
        return asdict(self)


_COLUMNS = tuple(one.name for one in fields(Artifact) if one.name != "chars")


def artifacts(
    snapshot: Snapshot, limit: int = 50, *, type: str | None = None, scope: str | None = None
) -> tuple[int, tuple[Artifact, ...]]:
    """How many chains there are, and the newest version of those that were written last; without their texts."""
    chosen = [f"{name} = {quoted(value)}" for name, value in (("type", type), ("scope", scope)) if value is not None]
    where = " AND ".join(["is_head", "status = 'active'", *chosen])
    newest = snapshot.frame("artifacts", where, ["id"], limit, ["-made_at", "id"])["id"]
    rows = snapshot.by_ids("artifacts", newest, _COLUMNS).sort("made_at", "id", descending=[True, False])
    return snapshot.count("artifacts", where), _shown(rows, with_content=False)


def versions_of(snapshot: Snapshot, name: str) -> tuple[Artifact, ...]:
    """The whole chain of the artifact with this id, beginning of an id, or title: oldest first, texts included.

    A repeated text is in no chain: its id gives the chain of the text that it repeats.
    """
    where = f"group_id = {quoted(_group_of(snapshot, name))} AND status = 'active'"
    return _shown(snapshot.frame("artifacts", where, _COLUMNS).sort("version_no", "id"), with_content=True)


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


def _shown(rows: pl.DataFrame, *, with_content: bool) -> tuple[Artifact, ...]:
    made = []
    for row in rows.with_columns(chars=pl.col("content").str.len_chars()).iter_rows(named=True):
        content = row["content"] if with_content else ""
        facts = tuple(row["linked_fact_ids"] or ())
        made.append(Artifact(**{**row, "content": content, "linked_fact_ids": facts}))
    return tuple(made)

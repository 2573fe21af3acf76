"""The story of one row: what it is, who said it, what was decided about it, and what came before and after."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from slowwave.errors import UnknownName
from storage.rows import quoted
from storage.snapshots import Snapshot

from .records import Provenance

_KINDS = ("facts", "entities", "messages", "runs", "patch_batches")
_TITLES = {"facts": "statement", "entities": "name", "messages": "content", "runs": "id", "patch_batches": "id"}
_SHORT = re.compile(r"[0-9a-f]{6,16}")
_HIDDEN = ("created_at", "updated_at", "search_text", "statement_hash", "embed_text_hash")


@dataclass(frozen=True, slots=True)
class Story:
    """Everything the store knows about how a row came to be what it is."""

    id: str
    kind: str
    title: str
    columns: dict[str, Any]
    evidence: tuple[Provenance, ...]
    lineage: tuple[tuple[str, str, str], ...]
    decisions: tuple[tuple[Any, str, str, str, str], ...]

    def as_json(self) -> dict[str, Any]:
        """One document."""
        named = ("at", "action", "decided_by", "reason", "run")
        return {**asdict(self), "decisions": [dict(zip(named, row, strict=True)) for row in self.decisions]}


def story_of(snapshot: Snapshot, asked: str) -> Story:
    """The story of the row whose id is, or alone begins with, `asked`."""
    kind, row = _find(snapshot, asked)
    facts = [row["id"]] if kind == "facts" else []
    lineage = _lineage(snapshot, facts)
    concerned = sorted({row["id"], *(fact for step in lineage for fact in step[:2])})
    return Story(
        id=row["id"],
        kind=kind,
        title=str(row[_TITLES[kind]]),
        columns=_told(row),
        evidence=_evidence(snapshot, facts),
        lineage=tuple(lineage),
        decisions=_decisions(snapshot, concerned)
        if kind != "runs"
        else _decisions(snapshot, [row["id"]], key="run_id"),
    )


def _find(snapshot: Snapshot, asked: str) -> tuple[str, dict[str, Any]]:
    """The row of that id, or of an id that begins so, or whose short form is that; messages also by their own name."""
    for kind in _KINDS:
        names = [f"id = {quoted(asked)}", f"starts_with(id, {quoted(asked)})"]
        if _SHORT.fullmatch(asked):
            names.append(f"id LIKE {quoted(f'%_{asked}%')}")
        if kind == "messages":
            names.append(f"message_id = {quoted(asked)}")
        rows = snapshot.frame(kind, " OR ".join(names), limit=6)
        exact = rows.filter(pl.col("id") == asked)
        if len(exact):
            return kind, exact.to_dicts()[0]
        if len(rows) == 1:
            return kind, rows.to_dicts()[0]
        if len(rows) > 1:
            raise UnknownName("id (several begin like that)", asked, rows["id"])
    some = snapshot.frame("facts", columns=["id"], limit=3)["id"].to_list()
    raise UnknownName("id", asked, some)


def _told(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if value not in (None, "", []) and key not in _HIDDEN}


def _evidence(snapshot: Snapshot, facts: list[str]) -> tuple[Provenance, ...]:
    rows = snapshot.by_ids("fact_evidence", facts, key="fact_id")
    messages = snapshot.by_ids("messages", rows["message_id"], ["id", "conversation_id", "message_id"])
    both = rows.join(messages, left_on="message_id", right_on="id", how="left", suffix="_said").sort(
        "occurred_at", "id"
    )
    return tuple(
        Provenance(
            r["conversation_id"] or "", r["message_id_said"] or r["message_id"], r["quote"] or "", r["occurred_at"]
        )
        for r in both.to_dicts()
    )


def _lineage(snapshot: Snapshot, facts: list[str]) -> list[tuple[str, str, str]]:
    """All steps of replacement that lead to or from the facts, in both directions, to the end of each chain."""
    steps: dict[str, tuple[str, str, str]] = {}
    seen: set[str] = set()
    while fresh := sorted(set(facts) - seen):
        seen |= set(fresh)
        rows = pl.concat(
            [snapshot.by_ids("lineage", fresh, key="old_id"), snapshot.by_ids("lineage", fresh, key="new_id")]
        )
        for row in rows.to_dicts():
            steps[row["id"]] = (row["old_id"], row["new_id"], row["reason"])
        facts = [fact for step in steps.values() for fact in step[:2]]
    return sorted(steps.values())


def _decisions(
    snapshot: Snapshot, ids: list[str], key: str = "subject_id"
) -> tuple[tuple[Any, str, str, str, str], ...]:
    rows = snapshot.by_ids("decisions", ids, key=key).sort("at", "created_at", "id")
    return tuple(rows.select("at", "action", "decided_by", "reason", "run_id").iter_rows())

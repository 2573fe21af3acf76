"""A consolidation report as tables: what each section shows, and which command comes next (S0-17)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Report = Mapping[str, Any]
"""A report as plain data: `ConsolidationReport.as_json`."""
Line = tuple[str | None, tuple[Any, ...]]
"""The entity that a row is about, if there is one, and the cells of the row."""
PREVIEW = 80


@dataclass(frozen=True, slots=True)
class Section:
    """One table: `count` findings in all, `lines` of the first of them, and what to do next, a sentence each."""

    key: str
    title: str
    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    count: int
    following: tuple[str, ...]

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """The cells."""
        return [cells for _, cells in self.lines]

    def findings(self) -> Iterator[tuple[str | None, str, tuple[tuple[str, Any], ...]]]:
        """Of each row the entity, its name, which a table shows once above several rows, and (column, cell)."""
        name = ""
        for entity, (called, *rest) in self.lines:
            name = called or name
            yield entity, name, tuple(zip(self.columns[1:], rest, strict=True))


@dataclass(frozen=True, slots=True)
class _Kind:
    title: str
    columns: tuple[str, ...]
    lines: Callable[[Any], Iterator[Line]]
    following: tuple[str, ...]


def sections(report: Report, limit: int | None = None) -> tuple[Section, ...]:
    """The tables of those sections in which anything was found, each with the first `limit` rows."""
    found = []
    for key, kind in _KINDS.items():
        lines = tuple(kind.lines(report[key])) if report[key] else ()
        if lines:
            found.append(Section(key, kind.title, kind.columns, lines[:limit], len(lines), kind.following))
    return tuple(found)


def counts(report: Report) -> list[tuple[str, int]]:
    """The summary in words, in its order."""
    words = {
        "total_entities": "entities",
        "total_observations": "observations",
        "split_candidates_count": "split candidates",
        "flagged_observations_count": "flagged observations",
        "stale_entities_count": f"stale entities (unread for {report['stale_days']:g} days)",
        "large_entities_count": "large entities",
        "archival_candidates_count": "archival candidates",
        "suspects_count": "suspects",
        "pending_proposals_count": "proposals that wait for a person",
    }
    return [(what, report["summary"][name]) for name, what in words.items()]


def verdict(report: Report) -> str:
    """What a person should know before the tables, as one sentence; empty where the tables say it."""
    if not report["summary"]["total_entities"] and not report["summary"]["total_observations"]:
        return "Nothing is remembered yet, so there is nothing to report. It begins with: slowwave ingest PATH"
    if report["summary"]["pending_proposals_count"]:
        return "What waits for you: slowwave review list"
    return "" if any(report[key] for key in _KINDS) else "Nothing needs a hand."


def _split(rows: Sequence[Report]) -> Iterator[Line]:
    for row in rows:
        columns = ("name", "type", "count", "threshold", "topics", "topic_diversity")
        yield row["entity_id"], tuple(row[column] for column in columns)


def _flagged(rows: Mapping[str, Sequence[Report]]) -> Iterator[Line]:
    for name, observations in rows.items():
        for n, row in enumerate(observations):
            yield row["entity_id"], ("" if n else name, row["content_preview"], row["id"])


def _stale(rows: Sequence[Report]) -> Iterator[Line]:
    for row in rows:
        entity, cells = _about(row, "observation_count", "access_count")
        yield entity, (*cells, _day(row["last_access"]))


def _large(rows: Sequence[Report]) -> Iterator[Line]:
    for row in rows:
        entity, cells = _about(row, "observation_count", "threshold")
        apart = f"; {row['topics']} topics clearly apart" if row["is_distinct"] else ""
        yield entity, (*cells, f"{row['band']}{apart}")


def _archival(rows: Sequence[Report]) -> Iterator[Line]:
    for row in rows:
        entity, cells = _about(row, "observation_count", "importance")
        yield entity, (*cells, _day(row["last_access"]))


def _suspect(rows: Sequence[Report]) -> Iterator[Line]:
    for row in rows:
        yield row["entity_id"], (row["entity_name"] or "", row["content"], row["leans_on"], row["id"])


def _alike(rows: Sequence[Report]) -> Iterator[Line]:
    for row in rows:
        pairs = row["pairs"]
        nearest = "".join(f"“{_cut(pairs[0]['a_content'])}” and “{_cut(pairs[0]['b_content'])}”" for _ in pairs[:1])
        cells = (row["entity_name"], row["access_count"], row["total_observations"], row["duplicates_found"], nearest)
        yield row["entity_id"], cells


def _about(row: Report, *columns: str) -> Line:
    return row["entity_id"], (row["entity_name"], row["entity_type"], *(row[column] for column in columns))


def _day(at: str | None) -> str:
    return at[:10] if at else "never"


def _cut(text: str) -> str:
    return text if len(text) <= PREVIEW else f"{text[:PREVIEW]}..."


_KINDS: Mapping[str, _Kind] = {
    "split_candidates": _Kind(
        "Split candidates: too much of several topics",
        ("entity", "type", "count", "threshold", "topics", "score"),
        _split,
        ("See the parts: slowwave split analyze ENTITY", "Leave them for review: slowwave split propose ENTITY"),
    ),
    "flagged_observations": _Kind(
        "Flagged observations: each looked like another one",
        ("entity", "observation", "id"),
        _flagged,
        ("Compare: slowwave duplicates ENTITY", "Let one go: slowwave retire ENTITY ID"),
    ),
    "stale_entities": _Kind(
        "Stale entities: hardly ever read, and not lately",
        ("entity", "type", "count", "reads", "last read"),
        _stale,
        ("Look: slowwave facts ENTITY", "Let go: slowwave retire ENTITY ID, and back: slowwave restore ID"),
    ),
    "large_entities": _Kind(
        "Large entities: near their threshold or beyond it",
        ("entity", "type", "count", "threshold", "what"),
        _large,
        ("See topics: slowwave split analyze ENTITY", "Part what is clearly apart: slowwave split propose ENTITY"),
    ),
    "archival_candidates": _Kind(
        "Archival candidates: of no weight, and unread for years",
        ("entity", "type", "count", "importance", "last read"),
        _archival,
        ("Look: slowwave facts ENTITY", "Keep it for ever: slowwave entity pin ENTITY"),
    ),
    "suspects": _Kind(
        "Suspects: what each leans on no longer holds",
        ("entity", "observation", "leans on", "id"),
        _suspect,
        ("The story of one: slowwave why ID", "Let it go: slowwave retire ENTITY ID"),
    ),
    "duplicates": _Kind(
        "Alike: pairs among the observations of the most read entities",
        ("entity", "reads", "count", "pairs", "the nearest pair"),
        _alike,
        ("Judge all: slowwave duplicates ENTITY", "Let one go: slowwave retire ENTITY ID"),
    ),
}

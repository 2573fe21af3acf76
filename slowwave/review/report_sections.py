"""A consolidation report as tables: what each section shows, and which command comes next (S0-17)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Report = Mapping[str, Any]
"""A report as plain data, as `recall.report` makes it."""
Cells = tuple[Any, ...]
PREVIEW = 80


@dataclass(frozen=True, slots=True)
class ReportSection:
    """One table: `count` findings in all, `rows` of the first of them, and what to do next, a sentence each."""

    key: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[Cells, ...]
    count: int
    following: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Kind:
    title: str
    columns: tuple[str, ...]
    rows: Callable[[Any], Iterator[Cells]]
    following: tuple[str, ...]


def sections(report: Report, limit: int | None = None) -> tuple[ReportSection, ...]:
    """The tables of those sections in which anything was found, each with the first `limit` rows."""
    found = []
    for key, kind in _KINDS.items():
        rows = tuple(kind.rows(report[key])) if report[key] else ()
        if rows:
            found.append(ReportSection(key, kind.title, kind.columns, rows[:limit], len(rows), kind.following))
    return tuple(found)


def counts(report: Report) -> list[tuple[str, int]]:
    """The summary in words, in its order, findings by the titles of their tables; what was not found is left out."""
    titles = {f"{key}_count": kind.title for key, kind in _KINDS.items()}
    titles["stale_entities_count"] += f" (for {report['stale_days']:g} days)"
    others = {"total_entities": "Entities", "total_observations": "Observations"}
    words = {**others, **titles, "pending_proposals_count": "Changes that wait for a person"}
    found = report["summary"]
    return [(words[name], number) for name, number in found.items() if number or name in others]


def verdict(report: Report) -> str:
    """A sentence that a person should read before the tables; empty if the tables are enough."""
    if not report["summary"]["total_entities"] and not report["summary"]["total_observations"]:
        return "Nothing is remembered yet, so there is nothing to report. It begins with: slowwave ingest PATH"
    if report["summary"]["pending_proposals_count"]:
        return "What waits for you: slowwave review list"
    return "" if any(report[key] for key in _KINDS) else "Nothing needs a hand."


def _rows(*fields: str | Callable[[Report], Any]) -> Callable[[Any], Iterator[Cells]]:
    """A line for each row, of these fields of it."""

    def lines(rows: Sequence[Report]) -> Iterator[Cells]:
        for row in rows:
            yield tuple(row[each] if isinstance(each, str) else each(row) for each in fields)

    return lines


def _flagged(rows: Mapping[str, Sequence[Report]]) -> Iterator[Cells]:
    for name, observations in rows.items():
        for n, row in enumerate(observations):
            yield ("" if n else name, row["content_preview"], row["id"])


def _band(row: Report) -> str:
    apart = f"; {row['topics']} topics clearly apart" if row["is_distinct"] else ""
    return f"{row['band']}{apart}"


def _nearest(row: Report) -> str:
    return "".join(f"“{_cut(pair['a_content'])}” and “{_cut(pair['b_content'])}”" for pair in row["pairs"][:1])


def _last_read(row: Report) -> str:
    return str(row["last_access"] or "never")[:10]


def _cut(text: str) -> str:
    return text if len(text) <= PREVIEW else f"{text[:PREVIEW]}..."


_ENTITY = ("entity_name", "entity_type", "observation_count")
_KINDS: Mapping[str, _Kind] = {
    "split_candidates": _Kind(
        "Split candidates: too much of several topics",
        ("entity", "type", "count", "threshold", "topics", "score"),
        _rows("name", "type", "count", "threshold", "topics", "topic_diversity"),
        (
            "See the parts: slowwave split propose ENTITY --dry-run",
            "Leave them for review: slowwave split propose ENTITY",
        ),
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
        _rows(*_ENTITY, "access_count", _last_read),
        ("Look: slowwave facts ENTITY", "Let go: slowwave retire ENTITY ID, and back: slowwave restore ID"),
    ),
    "large_entities": _Kind(
        "Large entities: near the threshold for a split, or beyond it",
        ("entity", "type", "count", "threshold", "what"),
        _rows(*_ENTITY, "threshold", _band),
        ("Look: slowwave facts ENTITY", "Part what is clearly apart: slowwave split propose ENTITY"),
    ),
    "archival_candidates": _Kind(
        "Archival candidates: of no weight, and unread for years",
        ("entity", "type", "count", "importance", "last read"),
        _rows(*_ENTITY, "importance", _last_read),
        ("Look: slowwave facts ENTITY", "Keep it for ever: slowwave entity pin ENTITY"),
    ),
    "suspects": _Kind(
        "Doubtful facts: what each leans on no longer holds",
        ("entity", "observation", "leans on", "id"),
        _rows(lambda row: row["entity_name"] or "", "content", "leans_on", "id"),
        ("The story of one: slowwave why ID", "Let it go: slowwave retire ENTITY ID"),
    ),
    "duplicates": _Kind(
        "Alike: pairs among the observations of the most read entities",
        ("entity", "reads", "count", "pairs", "the nearest pair"),
        _rows("entity_name", "access_count", "total_observations", "duplicates_found", _nearest),
        ("Judge all: slowwave duplicates ENTITY", "Let one go: slowwave retire ENTITY ID"),
    ),
}

"""Records of a consolidation report: one for each finding, with a sentence that names the next command (S0-17).

`entity_name` is that by which commands find the entity alone: its name, where others have the same one `name (type)`,
and where that is shared, too, its id. A count of observations is of those of entities that are not archived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class ReportedSplit:
    """An entity that holds too much of several topics; `topic_diversity` is its split score, 2 decimals (S0-18).

    `topics` counts those that are no singletons.
    """

    entity_id: str
    entity_name: str
    entity_type: str
    observation_count: int
    threshold: int
    topic_diversity: float
    topics: int
    recommendation: str


@dataclass(frozen=True, slots=True)
class FlaggedObservation:
    """An observation that looked like another when it came in; the preview is its first 80 characters (S0-19)."""

    id: str
    entity_id: str
    content_preview: str
    content_length: int
    similar_to_id: str | None
    similarity_score: float | None


@dataclass(frozen=True, slots=True)
class FlaggedEntity:
    """The flagged observations of one entity, in order of their ids."""

    entity_id: str
    entity_name: str
    observations: tuple[FlaggedObservation, ...]
    recommendation: str


@dataclass(frozen=True, slots=True)
class StaleEntity:
    """An entity with few reads and none lately; without `last_access`: never read (S0-20).

    `days_since_access` are whole days. `archival_candidate`: it is also among those of S0-22.
    """

    entity_id: str
    entity_name: str
    entity_type: str
    status: str
    observation_count: int
    created_at: datetime | None
    last_access: datetime | None
    access_count: int
    days_since_access: int | None
    archival_candidate: bool
    recommendation: str


@dataclass(frozen=True, slots=True)
class LargeEntity:
    """An entity near its threshold or beyond it that is no split candidate; `ratio` is count by threshold (S0-21).

    `band` says it in words: approaching, near threshold — monitor, or evaluate for split. `is_distinct`: its topics are
    clearly apart, so that it may be split early (S0-16).
    """

    entity_id: str
    entity_name: str
    entity_type: str
    observation_count: int
    threshold: int
    ratio: float
    band: str
    topics: int
    is_distinct: bool
    recommendation: str


@dataclass(frozen=True, slots=True)
class ArchivalCandidate:
    """An entity of no importance (0 to 1.38) that was not read for years, and is not pinned (S0-22)."""

    entity_id: str
    entity_name: str
    entity_type: str
    observation_count: int
    importance: float
    temporal: float
    last_access: datetime | None
    recommendation: str


@dataclass(frozen=True, slots=True)
class Suspect:
    """A live fact that leans on one that no longer holds."""

    id: str
    content: str
    entity_id: str | None
    entity_name: str | None
    suspect_of: str
    leans_on: str
    recommendation: str


@dataclass(frozen=True, slots=True)
class AlikePair:
    """Two observations that look alike, the earlier one first (S0-04)."""

    a_id: str
    a_content: str
    b_id: str
    b_content: str
    similarity_score: float
    containment: float
    match_type: str


@dataclass(frozen=True, slots=True)
class ReviewedEntity:
    """Similar observations of one of the most read entities: the number of pairs, and the nearest few (S0-28)."""

    entity_id: str
    entity_name: str
    access_count: int
    total_observations: int
    duplicates_found: int
    pairs: tuple[AlikePair, ...]
    recommendation: str


@dataclass(frozen=True, slots=True)
class ReportSummary:
    """The counts of the whole report, also of records that are not shown."""

    total_entities: int
    total_observations: int
    split_candidates_count: int
    flagged_observations_count: int
    stale_entities_count: int
    large_entities_count: int
    archival_candidates_count: int
    suspects_count: int
    pending_proposals_count: int


@dataclass(frozen=True, slots=True)
class ConsolidationReport:
    """The health of a memory at `generated_at`, as of commit `commit`; nothing was changed to find it (S0-17).

    `duplicates` are those of the `reviewed` most read entities in which anything looks alike.
    """

    commit: int
    generated_at: datetime
    stale_days: float
    summary: ReportSummary
    split_candidates: tuple[ReportedSplit, ...]
    flagged_observations: tuple[FlaggedEntity, ...]
    stale_entities: tuple[StaleEntity, ...]
    large_entities: tuple[LargeEntity, ...]
    archival_candidates: tuple[ArchivalCandidate, ...]
    suspects: tuple[Suspect, ...]
    duplicates: tuple[ReviewedEntity, ...]
    reviewed: int

    def as_json(self) -> dict[str, Any]:
        """The report in the names of sofia's `consolidation_report`; times are ISO 8601, flags by name of entity."""
        plain = {name: _plain(getattr(self, name)) for name in ("summary", *SECTIONS)}
        plain["split_candidates"] = [
            {_SHORT.get(name, name): cell for name, cell in each.items()} for each in plain["split_candidates"]
        ]
        flagged = {each["entity_name"]: each["observations"] for each in plain["flagged_observations"]}
        about = {"commit": self.commit, "generated_at": self.generated_at.isoformat(), "stale_days": self.stale_days}
        return {**plain, "flagged_observations": flagged, "reviewed_entities": self.reviewed, **about}


SECTIONS = (
    "split_candidates", "flagged_observations", "stale_entities", "large_entities", "archival_candidates", "suspects",
    "duplicates",
)  # fmt: skip
"""The sections of a report, in the order in which they are shown."""


_SHORT = {"entity_name": "name", "entity_type": "type", "observation_count": "count"}


def _plain(value: Any) -> Any:
    """A record as JSON has it."""
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, datetime):
        return value.isoformat()
    if hasattr(value, "__dataclass_fields__"):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    return value


# A consolidation report as tables: what each section shows, and which command comes next (S0-17).


Report = Mapping[str, Any]
"""A report as plain data: `ConsolidationReport.as_json`."""
Line = tuple[str | None, tuple[Any, ...]]
"""The entity that a row is about, if there is one, and the cells of the row."""
PREVIEW = 80


@dataclass(frozen=True, slots=True)
class ReportSection:
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


def sections(report: Report, limit: int | None = None) -> tuple[ReportSection, ...]:
    """The tables of those sections in which anything was found, each with the first `limit` rows."""
    found = []
    for key, kind in _KINDS.items():
        lines = tuple(kind.lines(report[key])) if report[key] else ()
        if lines:
            found.append(ReportSection(key, kind.title, kind.columns, lines[:limit], len(lines), kind.following))
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


def _rows(*fields: str | Callable[[Report], Any]) -> Callable[[Any], Iterator[Line]]:
    """A line for each row, of these fields of it."""

    def lines(rows: Sequence[Report]) -> Iterator[Line]:
        for row in rows:
            yield row["entity_id"], tuple(row[each] if isinstance(each, str) else each(row) for each in fields)

    return lines


def _flagged(rows: Mapping[str, Sequence[Report]]) -> Iterator[Line]:
    for name, observations in rows.items():
        for n, row in enumerate(observations):
            yield row["entity_id"], ("" if n else name, row["content_preview"], row["id"])


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
        _rows(*_ENTITY, "access_count", _last_read),
        ("Look: slowwave facts ENTITY", "Let go: slowwave retire ENTITY ID, and back: slowwave restore ID"),
    ),
    "large_entities": _Kind(
        "Large entities: near the threshold for a split, or beyond it",
        ("entity", "type", "count", "threshold", "what"),
        _rows(*_ENTITY, "threshold", _band),
        ("See topics: slowwave split analyze ENTITY", "Part what is clearly apart: slowwave split propose ENTITY"),
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

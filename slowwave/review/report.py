"""The rules of the consolidation report: what in a memory wants a person's eye, and what to do next (S0-17 … S0-22).

Frames in (ENTITIES: all that are merged into no other), rows out, in the names of sofia's `consolidation_report`.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from slowwave.common import frames
from slowwave.common.settings import ReportSettings, SplitSettings

Row = dict[str, Any]

ENTITIES: frames.Schema = {
    **dict.fromkeys(("id", "name", "called", "entity_type", "status"), frames.TEXT),
    "created_at": frames.TIME,
    "pinned": frames.FLAG,
    "count": frames.COUNT,
}
"""An entity with `called`, by which a command finds it alone, and `count`, of its live observations."""
ARCHIVED = "archived"
_RATIO = pl.col("count") / pl.col("threshold")
_NAMED = (
    pl.col("id").alias("entity_id"), pl.col("called").alias("entity_name"), pl.col("entity_type"),
    pl.col("count").alias("observation_count"),
)  # fmt: skip
PREVIEW = 80
NEAR, BEYOND = 1.0, 1.5
"""From these ratios on a large entity is near its threshold, and is to be evaluated for a split (S0-21)."""


def called_names(names: pl.Series, types: pl.Series, ids: pl.Series) -> pl.Series:
    """The words by which a command finds each entity: its name, with its type if others have it too, else its id."""
    frame = pl.DataFrame({"name": names.fill_null(""), "kind": types.fill_null(""), "id": ids})
    is_shared = pl.len().over(pl.col("name").str.to_lowercase()) > 1
    whole = pl.format("{} ({})", "name", "kind")
    called = frame.with_columns(called=pl.when(is_shared).then(whole).otherwise("name"))
    still_shared = pl.len().over(pl.col("called").str.to_lowercase()) > 1
    return called.select(called=pl.when(still_shared).then("id").otherwise("called"))["called"]


def command(words: str, *names: str) -> str:
    """A command as it is typed in a shell."""
    return " ".join(["slowwave", words, *map(shlex.quote, names)])


# Too large


def split_candidates(sizes: pl.DataFrame, entities: pl.DataFrame) -> list[Row]:
    """Entities that hold too much of several topics, highest score first (S0-18); `topic_diversity` is the score."""
    rows = _of(entities, sizes.filter("is_candidate")).sort(-pl.col("split_score"), "name", "id")
    advice = [
        f"It holds {count} observations of {apart} topics, {ratio:.1f} times its threshold. "
        f"Part it: {command('split propose', called)}"
        for called, count, apart, ratio in rows.select("called", "count", "n_apart", "ratio").iter_rows()
    ]
    return rows.select(
        "entity_id", "count", "threshold", name="called", type="entity_type",
        topic_diversity=pl.col("split_score").round(2), topics="n_apart",
        recommendation=pl.Series(advice, dtype=pl.String),
    ).to_dicts()  # fmt: skip


def large_entities(sizes: pl.DataFrame, entities: pl.DataFrame, settings: SplitSettings) -> list[Row]:
    """Entities from `proactive_ratio` of their threshold on that are no candidates, largest ratio first (S0-21)."""
    is_large = ~pl.col("is_candidate") & (settings.proactive_ratio <= _RATIO)
    rows = _of(entities, sizes.filter(is_large)).sort(-pl.col("ratio"), "name", "id")
    far, near = (pl.col("ratio") >= least for least in (BEYOND, NEAR))
    band = pl.when(far).then(pl.lit("evaluate for split")).when(near).then(pl.lit("near threshold — monitor"))
    rows = rows.with_columns(pl.col("ratio").round(2), band=band.otherwise(pl.lit("approaching")))
    advice = pl.Series("recommendation", map(_advice, rows.iter_rows(named=True)), dtype=pl.String)
    return rows.select(*_NAMED, "threshold", "ratio", "band", "is_distinct", advice, topics="n_apart").to_dicts()


def _of(entities: pl.DataFrame, sizes: pl.DataFrame) -> pl.DataFrame:
    known = entities.select("id", "name", "called")
    named = sizes.drop("name", strict=False).join(known, left_on="entity_id", right_on="id")
    return named.with_columns(id="entity_id", ratio=_RATIO)


def _advice(row: Row) -> str:
    how = f"{row['band']}: {row['count']} observations, threshold {row['threshold']}".capitalize()
    if row["is_distinct"]:
        apart = f"{how}, {row['n_apart']} topics clearly apart"
        return f"{apart}. Part it before it hurts: {command('split propose', row['called'])}"
    return f"{how}, no topics clearly apart. See: {command('facts', row['called'])}"


# Flagged


def flagged_observations(facts: pl.DataFrame, entities: pl.DataFrame) -> dict[str, list[Row]]:
    """Flagged observations by name of their entity (S0-19); `facts` are those that are live and flagged."""
    owners = entities.select("called", owner_entity_id="id")
    text = pl.col("statement").fill_null("")
    cut = pl.when(text.str.len_chars() > PREVIEW).then(text.str.slice(0, PREVIEW) + "...").otherwise(text)
    rows = facts.join(owners, on="owner_entity_id").sort("called", "owner_entity_id", "id").select(
        "called", "id", "similar_to_id", "similarity_score", entity_id="owner_entity_id", content_preview=cut,
        content_length=text.str.len_chars(),
    )  # fmt: skip
    parts = rows.partition_by("called", as_dict=True, maintain_order=True, include_key=False)
    return {str(name): part.to_dicts() for (name,), part in parts.items()}


# Unread


def stale_entities(
    entities: pl.DataFrame,
    usage: pl.DataFrame,
    archival: Collection[str],
    settings: ReportSettings,
    now: datetime,
    stale_days: float,
) -> list[Row]:
    """Entities with observations that were read at most `stale_max_access` times, and not for `stale_days` (S0-20).

    What was never read is stale if it was made before then (T5), and comes first. `usage` is ENTITY_USAGE, `archival`
    ids of archival candidates; `days_since_access` are whole days, none before it (T48).
    """
    with_reads = entities.join(usage.select("id", "access_count", "last_access_at"), on="id", how="left")
    is_unread = pl.coalesce("last_access_at", "created_at") < now - timedelta(days=stale_days)
    is_rare = pl.col("access_count").fill_null(0) <= settings.stale_max_access
    age = (pl.lit(now, dtype=frames.TIME) - pl.col("last_access_at")).dt.total_days()
    rows = with_reads.filter(is_unread & is_rare & _is_current()).with_columns(
        days_since_access=age.clip(lower_bound=0), archival_candidate=pl.col("id").is_in(list(archival))
    )
    return rows.sort("last_access_at", "created_at", "name", "id", nulls_last=False).select(
        *_NAMED, pl.col("status").fill_null("active"), _time("created_at"), pl.col("access_count").fill_null(0),
        "days_since_access", "archival_candidate", last_access=_time("last_access_at"),
    ).to_dicts()  # fmt: skip


def _time(column: str) -> pl.Expr:
    """A time as ISO 8601; null where there is none."""
    return pl.col(column).map_elements(datetime.isoformat, return_dtype=pl.String)


def _is_current() -> pl.Expr:
    """Whether an entity has facts and is not archived."""
    return (pl.col("count") > 0) & is_listed()


def is_listed() -> pl.Expr:
    """Whether an entity is not archived."""
    return pl.col("status").fill_null("active") != ARCHIVED


def archival_candidates(entities: pl.DataFrame, scores: pl.DataFrame, usage: pl.DataFrame) -> list[Row]:
    """Entities with observations that weigh nothing, longest unread first; no pinned one (S0-22)."""
    weighed = scores.filter("is_stale").select("id", "importance", "temporal")
    candidates = entities.filter(_is_current()).join(weighed, on="id")
    candidates = candidates.join(usage.select("id", "last_access_at"), on="id", how="left")
    return candidates.sort(pl.coalesce("last_access_at", "created_at"), "name", "id").select(
        *_NAMED, pl.col("importance").round(4), pl.col("temporal").round(4), last_access=_time("last_access_at")
    ).to_dicts()  # fmt: skip


# The report as tables: what each section shows, and which command comes next (S0-17).


Report = Mapping[str, Any]
"""A report as plain data, as `recall.report` makes it."""
Cells = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A table: its title and columns, how the rows of a report become cells, and what to do next, a sentence each."""

    title: str
    columns: tuple[str, ...]
    rows: Callable[[Any], Iterator[Cells]]
    following: tuple[str, ...]


def sections(report: Report, limit: int | None = None) -> Iterator[tuple[ReportSection, list[Cells], int]]:
    """The sections in which anything was found, each with its first `limit` rows, and how many more there are."""
    for key, section in _SECTIONS.items():
        if rows := [*section.rows(report[key])] if report[key] else []:
            yield section, rows[:limit], len(rows) - len(rows[:limit])


def counts(report: Report) -> list[tuple[str, int]]:
    """The summary in words, in its order, findings by the titles of their tables; what was not found is left out."""
    titles = {f"{key}_count": kind.title for key, kind in _SECTIONS.items()}
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
    return "" if any(report[key] for key in _SECTIONS) else "Nothing needs a hand."


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


def _band_of(row: Report) -> str:
    apart = f"; {row['topics']} topics clearly apart" if row["is_distinct"] else ""
    return f"{row['band']}{apart}"


def _nearest(row: Report) -> str:
    return "".join(f"“{_cut(pair['a_content'])}” and “{_cut(pair['b_content'])}”" for pair in row["pairs"][:1])


def _last_read(row: Report) -> str:
    return str(row["last_access"] or "never")[:10]


def _cut(text: str) -> str:
    return text if len(text) <= PREVIEW else f"{text[:PREVIEW]}..."


_ENTITY = ("entity_name", "entity_type", "observation_count")
_SECTIONS: Mapping[str, ReportSection] = {
    "split_candidates": ReportSection(
        "Split candidates: too much of several topics",
        ("entity", "type", "count", "threshold", "topics", "score"),
        _rows("name", "type", "count", "threshold", "topics", "topic_diversity"),
        (
            "See the parts: slowwave split propose ENTITY --dry-run",
            "Leave them for review: slowwave split propose ENTITY",
        ),
    ),
    "flagged_observations": ReportSection(
        "Flagged observations: each looked like another one",
        ("entity", "observation", "id"),
        _flagged,
        ("Compare: slowwave duplicates ENTITY", "Let one go: slowwave retire ENTITY ID"),
    ),
    "stale_entities": ReportSection(
        "Stale entities: hardly ever read, and not lately",
        ("entity", "type", "count", "reads", "last read"),
        _rows(*_ENTITY, "access_count", _last_read),
        ("Look: slowwave facts ENTITY", "Let go: slowwave retire ENTITY ID, and back: slowwave restore ID"),
    ),
    "large_entities": ReportSection(
        "Large entities: near the threshold for a split, or beyond it",
        ("entity", "type", "count", "threshold", "what"),
        _rows(*_ENTITY, "threshold", _band_of),
        ("Look: slowwave facts ENTITY", "Part what is clearly apart: slowwave split propose ENTITY"),
    ),
    "archival_candidates": ReportSection(
        "Archival candidates: of no weight, and unread for years",
        ("entity", "type", "count", "importance", "last read"),
        _rows(*_ENTITY, "importance", _last_read),
        ("Look: slowwave facts ENTITY", "Keep it for ever: slowwave entity pin ENTITY"),
    ),
    "duplicates": ReportSection(
        "Alike: pairs among the observations of the most read entities",
        ("entity", "reads", "count", "pairs", "the nearest pair"),
        _rows("entity_name", "access_count", "total_observations", "duplicates_found", _nearest),
        ("Judge all: slowwave duplicates ENTITY", "Let one go: slowwave retire ENTITY ID"),
    ),
}

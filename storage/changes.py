"""What runs changed, row by row, found by comparing table versions.

A row carries the version that last wrote it (`_row_last_updated_at_version`, its *mark*), so two versions of a table
are compared by reading ids and marks only. A restored version has the marks it had, so undo and crash recovery compare
right.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from slowwave.errors import UndoRefused

from .rows import MARK, id_filters
from .snapshots import read_rows
from .tables import TABLES, Role, tables_of

if TYPE_CHECKING:
    from lancedb.db import DBConnection

WHOLES = tuple(
    tuple(name for name, table in TABLES.items() if table.whole == word)
    for word in sorted({table.whole for table in TABLES.values()} - {""})
)
"""Tables that undo takes back together, or not at all."""
FACTS = ("facts", "facts_archive")
_TRACE = pl.Schema(
    {
        "id": pl.String,
        "mark": pl.UInt64,
        "first_before": pl.Int64,
        "last_after": pl.Int64,
    }
)


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a table's history, from the version before to the version after."""

    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Gap:
    """Rows that somebody else may have written between two versions."""

    ids: list[str]
    left: int
    right: int


@dataclass(frozen=True, slots=True)
class Trace:
    """What some runs did to one table: the rows touched with the versions before and after, and the gaps between."""

    name: str
    segments: tuple[Segment, ...]
    touched: pl.DataFrame
    gaps: tuple[Gap, ...]


class VersionReader:
    """Reads tables at any version that is still kept.

    `is_past` tells which versions of which tables hold vectors of another model than the one of now; their rows are
    read without vectors, which have `dims` numbers now.
    """

    def __init__(
        self, db: DBConnection, is_past: Callable[[str, int], bool] = lambda name, version: False, dims: int = 0
    ) -> None:
        self._db, self.is_past, self._dims = db, is_past, dims

    def marks(self, name: str, version: int) -> pl.DataFrame:
        """Ids and marks of all rows: columns id, mark."""
        if not version:
            return pl.DataFrame(schema={"id": pl.String, "mark": pl.UInt64})
        return self._read(name, version, None, ["id", MARK]).rename({MARK: "mark"})

    def rows(self, name: str, version: int, ids: Sequence[str]) -> pl.DataFrame:
        """Full rows, stamps and vectors included."""
        rows = pl.concat([self._read(name, version, where, None) for where in id_filters(list(ids))])
        if TABLES[name].has_vector and self.is_past(name, version):
            return rows.with_columns(vector=pl.lit(None, dtype=pl.Array(pl.Float32, self._dims)))
        return rows

    def both(self, name: str, gap: Gap) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The rows of a gap at either end, as far as they can be compared: without vectors of different models."""
        left, right = (self.rows(name, version, gap.ids) for version in (gap.left, gap.right))
        if self.is_past(name, gap.left) == self.is_past(name, gap.right):
            return left, right
        holding = TABLES[name].holding_vectors
        return left.drop(holding, strict=False), right.drop(holding, strict=False)

    def _read(self, name: str, version: int, where: str | None, columns: list[str] | None) -> pl.DataFrame:
        table = self._db.open_table(name)
        try:
            table.checkout(version)
            return read_rows(table, where, columns)
        except (ValueError, RuntimeError, OSError) as error:
            raise UndoRefused(
                f"Version {version} of table {name} is no longer kept.",
                "Undo reaches back retention.undo_days, and never beyond a `slowwave forget`.",
            ) from error


def segments_of(commits: pl.DataFrame) -> dict[str, list[Segment]]:
    """For each state table, the stretches that these commits wrote, neighbours joined."""
    state = set(tables_of(Role.STATE))
    found: dict[str, list[Segment]] = {}
    for row in commits.sort("sequence").iter_rows(named=True):
        versions = json.loads(row["versions"])
        for name, before in json.loads(row["before"]).items():
            if name not in state:
                continue
            stretch = found.setdefault(name, [])
            if stretch and stretch[-1].after == before:
                before = stretch.pop().before
            stretch.append(Segment(before, versions[name]))
    return found


def changed_by_others(
    reader: VersionReader, commits: pl.DataFrame, theirs: pl.DataFrame, head: Mapping[str, int], whole: Sequence[str]
) -> bool:
    """Whether one of the tables of a whole was changed by others after the first of `theirs` that wrote one.

    Up to the head; changes that were taken back since do not count. `commits` is the whole history, `head` the versions
    of now.
    """
    rows = theirs.sort("sequence").select("sequence", "before", "versions").iter_rows()
    writing = [(n, json.loads(versions)) for n, before, versions in rows if json.loads(before).keys() & {*whole}]
    earlier = commits.filter(pl.col("sequence").is_in([n - 1 for n, _ in writing[1:]])).sort("sequence")
    lefts = [versions for _, versions in writing]
    rights = [*map(json.loads, earlier["versions"]), head]
    pairs = [
        (name, left.get(name, 0), right.get(name, 0))
        for left, right in zip(lefts, rights, strict=True)
        for name in whole
    ]
    moved = ((name, Segment(left, right)) for name, left, right in pairs if left != right)
    return any(len(_difference(reader, name, stretch)) for name, stretch in moved)


def trace(reader: VersionReader, name: str, segments: Sequence[Segment], head: int) -> Trace:
    """Follow a table through the segments up to the head's version."""
    touched = pl.DataFrame(schema=_TRACE)
    gaps: list[Gap] = []
    for segment in segments:
        changed = _difference(reader, name, segment)
        gaps += _gaps(touched, changed.rename({"mark_before": "mark_now"}), segment.before)
        touched = _extend(touched, changed, segment)
    if segments and segments[-1].after != head:
        now = reader.marks(name, head).rename({"mark": "mark_now"})
        gaps += _gaps(touched, touched.select("id").join(now, on="id", how="left"), head)
    return Trace(name, tuple(segments), touched, tuple(gaps))


def _difference(reader: VersionReader, name: str, segment: Segment) -> pl.DataFrame:
    """Rows whose mark differs: id, mark_before, mark (either is empty where the row does not exist)."""
    before = reader.marks(name, segment.before).rename({"mark": "mark_before"})
    after = reader.marks(name, segment.after)
    both = before.join(after, on="id", how="full", coalesce=True)
    return both.filter(pl.col("mark").ne_missing(pl.col("mark_before")))


def _gaps(touched: pl.DataFrame, seen: pl.DataFrame, version: int) -> list[Gap]:
    """Rows touched earlier that are found with another mark at `version`, by the version they were left at."""
    moved = touched.join(seen.select("id", "mark_now"), on="id").filter(pl.col("mark").ne_missing(pl.col("mark_now")))
    return [
        Gap(rows["id"].to_list(), int(str(left)), version)
        for (left,), rows in moved.group_by("last_after", maintain_order=True)
    ]


def _extend(touched: pl.DataFrame, changed: pl.DataFrame, segment: Segment) -> pl.DataFrame:
    now = changed.select("id", "mark", first_before=pl.lit(segment.before), last_after=pl.lit(segment.after))
    earlier = touched.select("id", "first_before")
    first = now.join(earlier, on="id", how="left", suffix="_earlier").with_columns(
        first_before=pl.coalesce("first_before_earlier", "first_before")
    )
    untouched = touched.join(now.select("id"), on="id", how="anti")
    return pl.concat([untouched, first.select(*_TRACE).cast(_TRACE)])


def before_images(reader: VersionReader, found: Trace) -> pl.DataFrame:
    """The touched rows as they were before; rows that did not exist are left out."""
    parts = [
        reader.rows(found.name, int(str(version)), rows["id"].to_list())
        for (version,), rows in found.touched.group_by("first_before", maintain_order=True)
        if version
    ]
    return pl.concat(parts) if parts else pl.DataFrame(schema={"id": pl.String})


def writers_in(reader: VersionReader, name: str, gap: Gap, later: pl.DataFrame) -> set[str]:
    """Runs that changed rows inside a gap; rows that were only refreshed, or changed and put back, do not count.

    `later` are commits in which to look for whoever deleted a row.
    """
    table = TABLES[name]
    if table.is_rebuildable:
        return set()
    before, after = reader.both(name, gap)
    left, right = (
        {row["id"]: row for row in rows.drop(table.refreshed, strict=False).to_dicts()} for rows in (before, after)
    )
    changed = {i for i in gap.ids if left.get(i) != right.get(i)}
    writers = set(after.filter(pl.col("id").is_in(list(changed)))["run_id"])
    gone = {i for i in changed if i not in right}
    return writers | (_deleters(reader, name, gone, later) if gone else set())


def _deleters(reader: VersionReader, name: str, gone: set[str], later: pl.DataFrame) -> set[str]:
    found: set[str] = set()
    for (run,), commits in later.group_by("run_id", maintain_order=True):  # a run may delete in hundreds of commits
        for segment in segments_of(commits).get(name, []):
            lost = _difference(reader, name, segment).filter(pl.col("mark").is_null())
            if gone & set(lost["id"]):
                found.add(str(run))
    return found


def places_of(target: str) -> tuple[str, ...]:
    """The tables in which the rows of one table lie: facts that were moved to the archive are referred to as before."""
    return FACTS if target == "facts" else (target,)


def references_to(target: str) -> Iterable[tuple[str, str]]:
    """Columns of state tables that hold ids of `target`: (table, column)."""
    for name in tables_of(Role.STATE):
        for column, spec in TABLES[name].columns.items():
            if spec.refers == target:
                yield name, column


def undo_steps(commits: pl.DataFrame) -> list[tuple[str, list[str]]]:
    """Every undo so far in order: the undoing run and the runs it took back."""
    steps = commits.sort("sequence").filter(pl.col("undoes").list.len() > 0).select("run_id", "undoes")
    return [(run, list(taken)) for run, taken in steps.iter_rows()]


def undone_runs(steps: Iterable[tuple[str, list[str]]]) -> set[str]:
    """Runs that are taken back at present; one whose undo was itself undone is not among them."""
    undone: set[str] = set()
    taken_by: dict[str, list[str]] = {}
    for run, taken in steps:
        taken_by[run] = taken
        for each in taken:
            undone = (undone | {each}) - set(taken_by.get(each, []))
    return undone

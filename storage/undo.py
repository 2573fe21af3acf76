"""Undo: restore the rows that a run changed, in a commit of its own.

Tables that nobody wrote since are restored to the version before the run; in the others the run's rows are put back one
by one. A later run that changed the same rows, or made rows that point at them, stands in the way. What says something
only together (counters with the marks of their logs, communities) goes back as a whole, or stays.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import polars as pl

from slowwave.common.errors import UndoRefused, UnknownName

from .changes import (
    WHOLES,
    Segment,
    Trace,
    VersionReader,
    before_images,
    changed_by_others,
    leave_communities,
    places_of,
    references_to,
    segments_of,
    trace,
    undo_steps,
    undone_runs,
    writers_in,
)
from .lease import is_surely_dead
from .tables import HOLDING_VECTORS, TABLES, WITH_VECTORS

if TYPE_CHECKING:
    from .store import Store
    from .transactions import Transaction

# Eras: which model the vectors of a commit are of. A commit that turns the namespace to another model (a re-embedding,
# or the undo of one) ends an era. A run of an earlier era is undone after the re-embedding that ended it.


Embedding = tuple[str, int]
"""Model and length of its vectors."""
_LASTING = ("upkeep", "init", "run", "gate")  # commits that write no vector


class Eras:
    """The eras of a namespace, by its commits (all of them, in order); its vectors are of `now`."""

    def __init__(self, commits: pl.DataFrame, now: Embedding) -> None:
        was = [pl.col(name).shift(1).fill_null(pl.col(name)).alias(f"{name}_was") for name in ("embed_model", "dims")]
        self._commits = commits.with_columns(was)
        turned = (pl.col("embed_model") != pl.col("embed_model_was")) | (pl.col("dims") != pl.col("dims_was"))
        self._turns = self._commits.filter(turned)
        self._now = now

    def check(self, runs: Collection[str]) -> None:
        """Raise `UndoRefused` where one of these runs wrote vectors of another model than the one of now."""
        turning = self.turns(runs)["sequence"].implode()
        theirs = self._commits.filter(pl.col("run_id").is_in([*runs]) & ~pl.col("sequence").is_in(turning))
        is_past = (pl.col("embed_model") != self._now[0]) | (pl.col("dims") != self._now[1])
        past = theirs.filter(is_past, pl.col("before").map_elements(_names_vectors, pl.Boolean))
        if past.is_empty():
            return
        run = str(past["run_id"][-1])
        later = self._turns.filter(pl.col("sequence") > past["sequence"][-1])["run_id"].to_list()[-1:]
        raise UndoRefused(
            f"The namespace was re-embedded after {run}: {', '.join(later)}.",
            "Undo the re-embedding first; `slowwave reembed` makes its vectors again afterwards.",
        )

    def turns(self, runs: Collection[str]) -> pl.DataFrame:
        """The commits of these runs that turned to another model, the earliest first."""
        return self._turns.filter(pl.col("run_id").is_in([*runs]))

    def before(self, runs: Sequence[str]) -> Embedding:
        """What vectors were of before the earliest turn of these runs."""
        model, dims = self.turns(runs).select("embed_model_was", "dims_was").row(0)
        return str(model), int(dims)

    def built_on(self, runs: Sequence[str], undone: set[str]) -> set[str]:
        """Other runs that wrote vectors after the earliest turn of these runs, and are not taken back.

        An undo that took back later runs only leaves nothing behind. Raises `UndoRefused` for a migration.
        """
        turns = self.turns(runs)
        if turns.is_empty():
            return set()
        later = self._commits.filter(pl.col("sequence") > turns["sequence"][0])
        wrote = later.filter(
            ~pl.col("kind").is_in(_LASTING),
            ~pl.col("run_id").is_in([*runs, *undone]),
            pl.col("before").map_elements(_names_vectors, pl.Boolean),
        )
        if "migrate" in wrote["kind"]:
            raise UndoRefused("Tables got new columns since.", "Use `slowwave reembed` with the earlier model.")
        is_nothing_left = {*later["run_id"]}.issuperset
        rows = wrote.select("run_id", "undoes").iter_rows()
        return {run for run, undoes in rows if not undoes or not is_nothing_left(undoes)}


def _names_vectors(before: str) -> bool:
    """Whether a commit wrote a table that holds vectors."""
    return bool(json.loads(before).keys() & {*HOLDING_VECTORS})


_ENDED_AS = pl.coalesce(
    pl.col("summary").str.json_path_match("$.state").replace("undone", "completed"),
    pl.when(pl.col("ended_at").is_null()).then(pl.lit("interrupted")),
    pl.lit("completed"),
)
"""The state in which a run ended that is "undone" now; one whose process was killed has no summary and no end."""
_NAMED = 5
"""Runs that the error about an unknown one names."""
FOR_GOOD = ("upkeep", "init")  # they change no row, and search needs the indexes they made


@dataclass(frozen=True, slots=True)
class UndoReport:
    """What was, or would be, taken back: the runs, and rows put back and removed by table."""

    runs: tuple[str, ...]
    put_back: Mapping[str, int]
    removed: Mapping[str, int]

    @property
    def rows(self) -> list[tuple[str, int, int]]:
        """Table, rows put back and rows removed, for each table that changes, by its name."""
        names = sorted({*self.put_back, *self.removed})
        found = [(name, self.put_back.get(name, 0), self.removed.get(name, 0)) for name in names]
        return [row for row in found if any(row[1:])]


def undo(
    store: Store,
    run_id: str,
    undo_run: str,
    now: datetime,
    *,
    also: Sequence[str] = (),
    cascade: bool = False,
    dry_run: bool = False,
    only: Collection[str] | None = None,
    decided_by: str = "person",
    record: Callable[[Transaction, UndoReport], None] | None = None,
) -> UndoReport:
    """Take back a run as `undo_run`; raises `UndoRefused` where that cannot be done.

    Later runs that built on it are such a cause; with `cascade` they are taken back as well. All of the runs `also` go
    with it, in one commit, or none does. With `dry_run` nothing changes. `only` are the runs that somebody has seen and
    agreed to: where others would be taken back now, it raises `UndoRefused`. `record` writes what is known of the undo
    itself, in the same commit.
    """
    with store.commit(undo_run, "undo", now) as tx:
        undoing = _Undoing(store, tx, decided_by)
        runs = undoing.runs_to_undo([run_id, *also], cascade)
        if only is not None and {*runs} != {*only}:
            raise UndoRefused("Other runs than those that were shown would be taken back now.", "Look again.")
        report = undoing.take_back(runs, dry_run)
        if record is not None and not dry_run:
            record(tx, report)
    return report


class _Undoing:
    """One undo under the writer lease."""

    def __init__(self, store: Store, tx: Transaction, decided_by: str) -> None:
        self._tx, self._decided_by = tx, decided_by
        self._commits = tx.frame("commits").sort("sequence")
        self._start = dict(tx.versions)
        self._eras = Eras(self._commits, (tx.lease.embed_model, tx.lease.dims))
        self._reader = VersionReader(store.db)

    def runs_to_undo(self, requested: Sequence[str], cascade: bool) -> list[str]:
        """The runs and, under `cascade`, every later run that built on them; newest first."""
        changes = self._commits.filter(~pl.col("kind").is_in(FOR_GOOD))
        order = {run: n for n, run in enumerate(changes["run_id"].unique(maintain_order=True))}
        self._check(requested, order)
        phases = self._phases(requested, order)
        self._check_ended(phases)
        requested = [*requested, *phases]
        self._eras.check(requested)
        wanted = set(requested)
        while blocking := self._dependants(wanted):
            wanted |= blocking
        if wanted > set(requested) and not cascade:
            later = sorted(wanted.difference(requested), key=lambda run: order.get(run, 0))
            way_out = "Undo them first, or use --cascade to undo them too."
            if len(self._eras.turns(requested)):
                way_out += " To keep them: `slowwave reembed` with the earlier model."
            raise UndoRefused(
                f"Later runs built on what {', '.join(requested)} wrote: {', '.join(later)}.", way_out, later
            )
        self._check_ended(wanted.difference(requested))
        self._eras.check(wanted)
        return sorted(wanted, key=lambda run: -order.get(run, 0))

    def _phases(self, requested: Sequence[str], order: Mapping[str, int]) -> list[str]:
        """The runs that were phases of these nights and are not taken back yet."""
        rows = self._tx.by_ids("runs", requested, ["id"], key="parent_id")["id"].to_list()
        gone = undone_runs(undo_steps(self._commits))
        more = [run for run in rows if run in order and run not in gone and run not in requested]
        return [*more, *self._phases(more, order)] if more else []

    def _check(self, requested: Sequence[str], known: Collection[str]) -> None:
        """Raise unless these are runs that have ended and are not undone."""
        undone = undone_runs(undo_steps(self._commits))
        for run_id in requested:
            if run_id not in known:
                newest = ", ".join([*known][::-1][:_NAMED])
                raise UnknownName("run", run_id, known, newest and f"The newest: {newest}. `slowwave runs` lists all.")
            self._check_ended([run_id])
            if run_id in undone:
                raise UndoRefused(f"Run {run_id} is undone already.", "See `slowwave runs`.")

    def _check_ended(self, runs: Collection[str]) -> None:
        """Raise `UndoRefused` for a run that may still write: what it wrote so far would be taken back alone."""
        for run_id, state, owner in self._tx.by_ids("runs", sorted(runs), ["id", "state", "owner"]).iter_rows():
            if state == "running" and not is_surely_dead(owner or ""):
                raise UndoRefused(
                    f"Run {run_id} is still going on.",
                    f"Wait until it has ended, or stop it; if its machine is gone: slowwave runs {run_id} --end",
                )

    def take_back(self, runs: list[str], dry_run: bool) -> UndoReport:
        """Put back and remove rows, or only count them."""
        put_back: dict[str, int] = {}
        removed: dict[str, int] = {}
        turned = self._turn_back(runs, put_back, removed, dry_run)
        strays = pl.Series("id", [], dtype=pl.String)
        for found in self._traces(runs):
            if found.name in turned:
                continue
            images = self._with_refreshments(found, before_images(self._reader, found))
            kept = self._refreshed_later(found) if TABLES[found.name].is_rebuildable else []
            staying = [*images["id"], *kept]  # a row that says more than can be rebuilt goes with the run that made it
            gone = found.touched.filter(~pl.col("id").is_in(staying))["id"]
            put_back[found.name], removed[found.name] = len(images), len(gone)
            if not dry_run:
                self._revert(found, images, gone)
                if found.name == "entities":
                    strays = gone
        if not dry_run:
            leave_communities(self._tx, strays)  # which a later run may have found
            self._tx.undoes = runs
            self._note(runs)
        return UndoReport(tuple(runs), put_back, removed)

    def _turn_back(
        self, runs: Sequence[str], put_back: dict[str, int], removed: dict[str, int], dry_run: bool
    ) -> tuple[str, ...]:
        """Put every table with vectors back as it was before the earliest turn to another model; which ones."""
        turns = self._eras.turns(runs)
        if turns.is_empty():
            return ()
        before = json.loads(turns["before"][0])
        for name in WITH_VECTORS:
            was, now = (self._reader.marks(name, version)["id"] for version in (before[name], self._start[name]))
            put_back[name], removed[name] = len(was), len(now.filter(~now.is_in(was.implode())))
        if not dry_run:
            for name in WITH_VECTORS:
                self._tx.restore(name, before[name])
            self._tx.turn_to(*self._eras.before(runs))
        return WITH_VECTORS

    def _revert(self, found: Trace, images: pl.DataFrame, gone: pl.Series) -> None:
        """Write one table as it was: `images` are put back, the rows `gone` are deleted."""
        only = found.segments[0] if len(found.segments) == 1 else None
        if only and only.before and only.after == self._start[found.name]:
            self._tx.restore(found.name, only.before)
            return
        self._tx.put_back(found.name, images)
        if len(gone):
            self._tx.delete(found.name, gone)

    def _refreshed_later(self, found: Trace) -> list[str]:
        """Ids of touched rows in which a later run, which stays, refreshed derived columns."""
        changed: set[str] = set()
        for gap in found.gaps:
            if gap.right == self._start[found.name]:
                left, right = (
                    {row["id"]: row for row in self._reader.rows(found.name, version, gap.ids).to_dicts()}
                    for version in (gap.left, gap.right)
                )
                changed |= {i for i in gap.ids if left.get(i) != right.get(i)}
        return sorted(changed)

    def _with_refreshments(self, found: Trace, images: pl.DataFrame) -> pl.DataFrame:
        """The rows as they were before, but with what later runs made of their derived columns."""
        later = self._refreshed_later(found)
        if not later or images.is_empty():
            return images
        columns = [name for name in images.columns if name in TABLES[found.name].refreshed]
        now = self._reader.rows(found.name, self._start[found.name], later).select("id", *columns)
        known = pl.col("id").is_in(now["id"].to_list())
        gone_since = pl.col("id").is_in(later) & ~known
        both = images.filter(~gone_since).join(now, on="id", how="left", suffix="_now", maintain_order="left")
        fresh = [pl.when(known).then(f"{name}_now").otherwise(name).alias(name) for name in columns]
        return both.with_columns(fresh).select(images.columns)

    def _note(self, runs: list[str]) -> None:
        tx = self._tx
        steps = undo_steps(self._commits)
        were, are = undone_runs(steps), undone_runs([*steps, (tx.run_id, runs)])
        tx.upsert("runs", tx.by_ids("runs", sorted({*runs} | are - were)).with_columns(state=pl.lit("undone")))
        tx.upsert("runs", tx.by_ids("runs", sorted(were - are)).with_columns(state=_ENDED_AS))
        decisions = {
            "id": [f"d_{tx.run_id}_{run}" for run in runs],
            "action": "undo",
            "subject_id": runs,
            "ids_in": [runs] * len(runs),
            "decided_by": self._decided_by,
            "reason": [f"Run {run} was taken back." for run in runs],
            "at": tx.now,
        }
        tx.upsert("decisions", pl.DataFrame(decisions))

    def _traces(self, runs: Iterable[str]) -> list[Trace]:
        theirs = self._commits.filter(pl.col("run_id").is_in(list(runs)) & ~pl.col("kind").is_in(FOR_GOOD))
        segments = segments_of(theirs)
        turns = self._eras.turns(list(runs))["sequence"]
        if len(turns):  # tables with vectors go back as a whole: see `_turn_back`
            others = segments_of(theirs.filter(~pl.col("sequence").is_in(turns.implode())))
            segments = {n: each for n, each in segments.items() if n not in WITH_VECTORS}
            segments |= {n: each for n, each in others.items() if n in WITH_VECTORS}
        wholes = [{name: segments.pop(name) for name in whole if name in segments} for whole in WHOLES]
        return self._followed(segments) + [
            each for whole, stretches in zip(WHOLES, wholes, strict=True)
            for each in self._whole(theirs, whole, stretches)
        ]  # fmt: skip

    def _whole(self, theirs: pl.DataFrame, whole: Sequence[str], segments: Mapping[str, list[Segment]]) -> list[Trace]:
        """Of the tables that say something only together: they go back together, or stay as they are.

        They stay where somebody else has written one of them since, and where an earlier version is no longer kept.
        Counters: no event is counted twice or lost, and what happened is true whatever becomes of the run that counted
        it. Communities: those that a later run found are not torn apart; the next refresh finds them anew.
        """
        try:
            if segments and not changed_by_others(self._reader, self._commits, theirs, self._start, whole):
                return self._followed(segments)
        except UndoRefused:
            pass
        return []

    def _followed(self, segments: Mapping[str, list[Segment]]) -> list[Trace]:
        return [trace(self._reader, name, stretches, self._start[name]) for name, stretches in segments.items()]

    def _dependants(self, runs: set[str]) -> set[str]:
        """Runs outside `runs` that changed the same rows later, or made rows that point at rows these runs made."""
        traces = self._traces(runs)
        others = self._commits.filter(~pl.col("run_id").is_in(list(runs)))
        found: set[str] = set()
        for each in traces:
            for gap in each.gaps:
                found |= writers_in(self._reader, each.name, gap, others)
        undone = undone_runs(undo_steps(self._commits))
        return (found | self._referring(traces) | self._eras.built_on(list(runs), undone)) - runs

    def _referring(self, traces: list[Trace]) -> set[str]:
        """Runs that wrote rows which would be there after the undo and point at rows that would not."""
        touched = {each.name: set(each.touched["id"]) for each in traces}
        images = {each.name: before_images(self._reader, each) for each in traces}
        found: set[str] = set()
        for each in traces:
            made = each.touched.join(images[each.name].select("id"), on="id", how="anti")["id"]
            made = made.filter(~made.is_in(self._elsewhere(each.name, made, touched, images)))
            for name, column in references_to(each.name) if len(made) else ():
                rows = self._tx.referring(name, column, made, ["id", "run_id"])
                found |= set(rows.filter(~pl.col("id").is_in(list(touched.get(name, set()))))["run_id"])
                if name in images and len(images[name]):
                    found |= set(images[name].filter(pl.col(column).is_in(made.implode()))["run_id"])
        return found

    def _elsewhere(
        self, name: str, ids: pl.Series, touched: Mapping[str, set[str]], images: Mapping[str, pl.DataFrame]
    ) -> list[str]:
        """Those of the rows that would lie in another table after the undo: they were moved here."""
        found: set[str] = set()
        for place in places_of(name):
            if place != name:
                found |= set(self._tx.by_ids(place, ids, ["id"])["id"]) - touched.get(place, set())
                found |= set(images[place]["id"]) if place in images else set()
        return sorted(found)

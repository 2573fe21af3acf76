"""Pins: entities and facts that people want kept for ever; undo takes a pin back like anything else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from recall.entities import exact_row
from slowwave import frames
from slowwave.errors import UnusableInput
from slowwave.maintenance.entity_story import decision
from slowwave.merging.observations import LEAST_OF_ID
from storage.rows import quoted
from storage.snapshots import Reading
from storage.transactions import Transaction

from .engine import task
from .own_runs import as_run, existing_store
from .runs import Run, store_of


@dataclass(frozen=True, slots=True)
class Pinned:
    """(id, name or statement) of what was pinned or unpinned, and of what was so before."""

    changed: tuple[tuple[str, str], ...]
    unchanged: tuple[tuple[str, str], ...] = ()
    pinned: bool = True


@task("pin entity")
def pin_entity(run: Run, entity: str, pinned: bool = True) -> Pinned:
    """Keep an entity and all that is known of it for ever, or no longer (S2-52, S4-07)."""
    with store_of(run).commit(run.id, "entity.pin", run.now) as tx:
        rows = _entity_row(tx, entity)
        done = _planned(rows, "name", pinned)
        tx.upsert("entities", _changed(rows, done))
        _tell(tx, run, done)
    return done


@task("pin facts")
def pin_facts(run: Run, ids: Sequence[str], pinned: bool = True) -> Pinned:
    """Keep facts for ever, or no longer: they are never pruned, merged away or evicted (S4-07, G4).

    `ids` may be beginnings, or the short forms that tables show. All are pinned or none: raises `UnusableInput` for an
    id that names no fact, or several, and for a fact that is over.
    """
    with store_of(run).commit(run.id, "facts.pin", run.now) as tx:
        rows = _fact_rows(tx, ids, pinned)
        done = _planned(rows, "statement", pinned)
        tx.upsert("facts", _changed(rows, done))
        _tell(tx, run, done)
    return done


def keep_entity(run: Run, entity: str, pinned: bool = True) -> Pinned:
    """`pin_entity` as a run of its own; raises before it begins where it may not, and begins not where it is so."""
    planned = _planned(_entity_row(existing_store(run).snapshot(), entity), "name", pinned)
    if not planned.changed:
        return planned
    parameters = {"entity": entity, "pinned": pinned}
    return as_run(run, parameters, lambda: pin_entity(run, entity, pinned), _count_pins)


def keep_facts(run: Run, ids: Sequence[str], pinned: bool = True) -> Pinned:
    """`pin_facts` as a run of its own; raises before it begins where it may not, and begins not where they are so."""
    planned = _planned(_fact_rows(existing_store(run).snapshot(), ids, pinned), "statement", pinned)
    if not planned.changed:
        return planned
    parameters = {"ids": list(ids), "pinned": pinned}
    return as_run(run, parameters, lambda: pin_facts(run, ids, pinned), _count_pins)


def _count_pins(done: Pinned) -> dict[str, int]:
    return {"pinned" if done.pinned else "unpinned": len(done.changed)}


def _entity_row(reading: Reading, entity: str) -> pl.DataFrame:
    return reading.by_ids("entities", [exact_row(reading, entity)["id"]], with_vector=True)


def _fact_rows(reading: Reading, ids: Sequence[str], pinned: bool) -> pl.DataFrame:
    return reading.by_ids("facts", _facts_named(reading, ids, pinned), with_vector=True).sort("id")


def _planned(rows: pl.DataFrame, title: str, pinned: bool) -> Pinned:
    """Which of the rows change, and which are so already."""
    is_so = pl.col("pinned").fill_null(False) == pinned
    changed, unchanged = (rows.filter(part).select("id", title) for part in (~is_so, is_so))
    return Pinned(tuple(changed.iter_rows()), tuple(unchanged.iter_rows()), pinned)


def _changed(rows: pl.DataFrame, done: Pinned) -> pl.DataFrame:
    ids = [id_ for id_, _ in done.changed]
    return rows.filter(pl.col("id").is_in(ids)).with_columns(pinned=pl.lit(done.pinned))


def _tell(tx: Transaction, run: Run, done: Pinned) -> None:
    action = "pin" if done.pinned else "unpin"
    reason = f"A person {'wants' if done.pinned else 'no longer wants'} it kept for ever."
    told = [decision(action, id_, [id_], [id_], reason, run.now) for id_, _ in done.changed]
    tx.upsert("decisions", pl.DataFrame(told, schema=dict(frames.DECISIONS)))


def _facts_named(reading: Reading, ids: Sequence[str], pinned: bool) -> list[str]:
    """The ids of the facts that are meant."""
    if not ids:
        raise UnusableInput("There is nothing to pin.", "Name facts by their ids; `slowwave facts NAME` shows them.")
    found = {asked: _rows_named(reading, "facts", asked) for asked in dict.fromkeys(ids)}
    if wrong := [told for asked, rows in found.items() if (told := _wrong(reading, asked, rows, pinned))]:
        raise UnusableInput(f"Nothing was changed: {'; '.join(wrong)}.", "`slowwave facts NAME` lists what is live.")
    return [rows["id"][0] for rows in found.values()]


def _wrong(reading: Reading, asked: str, rows: pl.DataFrame, pinned: bool) -> str:
    """Why an id does not name one fact that can be pinned; empty if it does."""
    if len(rows) > 1:
        return f"{asked} may be {' or '.join(rows['id'][:5])}"
    if len(rows):
        status = rows["status"][0]
        return f"{asked} is {status}" if pinned and status not in ("active", "candidate") else ""
    if len(_rows_named(reading, "facts_archive", asked)):
        return f"{asked} is in the archive, where nothing is pruned: `slowwave restore` brings it back"
    return f"{asked!r} is not the id of any fact"


def _rows_named(reading: Reading, table: str, asked: str) -> pl.DataFrame:
    """The facts with that id, or with ids that begin so, in whole or behind their last `_`."""
    names = [f"id = {quoted(asked)}"]
    if len(asked) >= LEAST_OF_ID and asked.isascii() and asked.replace("_", "").isalnum():
        names += [f"starts_with(id, {quoted(asked)})", f"id LIKE '%\\_{asked}%'"]
    rows = reading.frame(table, " OR ".join(names), ["id", "status"], limit=6, order=["id"])
    exact = rows.filter(pl.col("id") == asked)
    return exact if len(exact) else rows

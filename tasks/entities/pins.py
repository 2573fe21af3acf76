"""Pins: entities and facts that people want kept for ever; undo takes a pin back like anything else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from recall.entities import exact_row
from slowwave.decisions import decision, decision_frame
from slowwave.deduplication.observations import LEAST_OF_ID
from slowwave.errors import UnusableInput
from slowwave.lifecycle.run_counts import RunCount
from storage.rows import quoted
from storage.snapshots import Reading
from storage.transactions import Transaction
from tasks.runtime.runs import Run, existing_store, in_one_commit


@dataclass(frozen=True, slots=True)
class Pinned:
    """(id, name or statement) of what was pinned or unpinned, and of what was so before."""

    changed: tuple[tuple[str, str], ...]
    unchanged: tuple[tuple[str, str], ...] = ()
    pinned: bool = True


def pin_entity(run: Run, entity: str, pinned: bool = True) -> Pinned:
    """Keep an entity and all that is known of it for ever, or no longer, as a run of its own (S2-52, S4-07).

    It raises before the run begins; where nothing would change there is no run.
    """
    planned = _planned(_entity_row(existing_store(run).snapshot(), entity), "name", pinned)
    if not planned.changed:
        return planned

    def write(tx: Transaction) -> Pinned:
        rows = _entity_row(tx, entity)
        return _pin(tx, run, "entities", rows, _planned(rows, "name", pinned))

    return in_one_commit(run, "entity.pin", {"entity": entity, "pinned": pinned}, write, _count_pins)


def pin_facts(run: Run, ids: Sequence[str], pinned: bool = True) -> Pinned:
    """Keep facts for ever, or no longer, as a run of its own: never pruned, merged away or evicted (S4-07, G4).

    `ids` may be beginnings, or the short forms that tables show. All are pinned or none: raises `UnusableInput` for an
    id that names no fact, or several, and for a fact that is over. Where nothing would change there is no run.
    """
    planned = _planned(_fact_rows(existing_store(run).snapshot(), ids, pinned), "statement", pinned)
    if not planned.changed:
        return planned

    def write(tx: Transaction) -> Pinned:
        rows = _fact_rows(tx, ids, pinned)
        return _pin(tx, run, "facts", rows, _planned(rows, "statement", pinned))

    return in_one_commit(run, "facts.pin", {"ids": list(ids), "pinned": pinned}, write, _count_pins)


def _pin(tx: Transaction, run: Run, name: str, rows: pl.DataFrame, done: Pinned) -> Pinned:
    tx.upsert(name, _changed(rows, done))
    _write_decisions(tx, run, done)
    return done


def _count_pins(done: Pinned) -> dict[RunCount, int]:
    return {RunCount.PINNED if done.pinned else RunCount.UNPINNED: len(done.changed)}


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


def _write_decisions(tx: Transaction, run: Run, done: Pinned) -> None:
    action = "pin" if done.pinned else "unpin"
    reason = f"A person {'wants' if done.pinned else 'no longer wants'} it kept for ever."
    rows = [decision(action, id_, [id_], [id_], reason, run.now, decided_by="person") for id_, _ in done.changed]
    tx.upsert("decisions", decision_frame(rows))


def _facts_named(reading: Reading, ids: Sequence[str], pinned: bool) -> list[str]:
    """The ids of the facts that are meant."""
    if not ids:
        raise UnusableInput("There is nothing to pin.", "Name facts by their ids; `slowwave facts NAME` shows them.")
    found = {id_: _rows_named(reading, "facts", id_) for id_ in dict.fromkeys(ids)}
    if wrong := [problem for id_, rows in found.items() if (problem := _wrong(reading, id_, rows, pinned))]:
        raise UnusableInput(f"Nothing was changed: {'; '.join(wrong)}.", "`slowwave facts NAME` lists what is live.")
    return [rows["id"][0] for rows in found.values()]


def _wrong(reading: Reading, id_: str, rows: pl.DataFrame, pinned: bool) -> str:
    """Why an id does not name one fact that can be pinned; empty if it does."""
    if len(rows) > 1:
        return f"{id_} may be {' or '.join(rows['id'][:5])}"
    if len(rows):
        status = rows["status"][0]
        return f"{id_} is {status}" if pinned and status not in ("active", "candidate") else ""
    if len(_rows_named(reading, "facts_archive", id_)):
        return f"{id_} is in the archive, where nothing is pruned: `slowwave restore` brings it back"
    return f"{id_!r} is not the id of any fact"


def _rows_named(reading: Reading, table: str, id_: str) -> pl.DataFrame:
    """The facts with that id, or with ids that begin so, in whole or behind their last `_`."""
    names = [f"id = {quoted(id_)}"]
    if len(id_) >= LEAST_OF_ID and id_.isascii() and id_.replace("_", "").isalnum():
        names += [f"starts_with(id, {quoted(id_)})", f"id LIKE '%\\_{id_}%'"]
    rows = reading.frame(table, " OR ".join(names), ["id", "status"], limit=6, order=["id"])
    exact = rows.filter(pl.col("id") == id_)
    return exact if len(exact) else rows

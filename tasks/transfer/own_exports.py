"""What `slowwave export` wrote comes back, row for row, where a person vouches for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl

from inference.embedding import Embedder, open_embedder
from recall.export import HAS_VECTOR, Manifest, read_manifest, read_rows_of
from slowwave.common.decisions import decision, decision_frame
from slowwave.common.errors import StoreMismatch, UnusableInput
from slowwave.common.run_counts import RunCount
from slowwave.common.validity import STATUSES
from slowwave.facts.searched_texts import READ
from storage.changes import FACT_TABLES
from storage.connection import namespaces
from storage.doctor import PartialSnapshot, defects
from storage.lease import IMPORTED
from storage.snapshots import Reading
from storage.store import Store
from storage.tables import TABLES, WITH_VECTORS, Role, tables_of
from storage.transactions import Transaction
from storage.upkeep import write_anew
from tasks.runtime.runs import Counts, Run, recorded, store_of, vector_column

from .imports import Imported
from .reembedding import OTHERS, Wording

IMPORT, SYSTEM = "import", "slowwave"
LEFT_OUT = ("commits", "log_marks")
"""The history of versions, which the new namespace begins anew, and how far logs were counted that it does not have."""


def import_own(run: Run, folder: Path, *, trust: bool = False, dry_run: bool = False) -> Imported:
    """Import an export of our own, which no filter judges: a person says that it is to be trusted.

    It comes back row for row into a namespace that holds nothing yet, if its rows agree with each other. All of that
    is published at once, or nothing is, and vectors are made anew with the model that the export names.

    Raises `UnusableInput` where nobody vouches for it, the namespace holds something, or a file is damaged; then
    nothing is written.
    """
    manifest = read_manifest(folder)
    if not trust:
        raise UnusableInput(
            "Nothing was imported: an export of slowwave comes in row for row, past every filter.",
            "Where you know who wrote it, say --trust.",
        )
    run = replace(run, embedder=manifest.embed_model)
    names = [name for name in tables_of(Role.STATE, Role.HISTORY) if name not in LEFT_OUT]
    counts = {name: _checked(folder, manifest, name) for name in names}
    if run.namespace in namespaces(run.store):
        _check_is_empty(Store.open(run.store, run.namespace).snapshot(), run.namespace)
    seat = open_embedder(manifest.embed_model)
    if seat.dims != manifest.dims:
        raise StoreMismatch(
            f"The export is of {manifest.embed_model} with {manifest.dims} dimensions; here it has {seat.dims}.",
            "Install the model that it was made with.",
        )
    if not dry_run:
        tally = Counts(run.id, Counter({RunCount.ROWS_IMPORTED: sum(counts.values())}))
        given = {"path": str(folder), "commit": manifest.commit, "from": manifest.namespace}
        with recorded(run, tally, given):
            _publish(run, folder, manifest, [name for name in names if counts[name]], seat)
    return Imported(run.id, str(folder), SYSTEM, False, counts, ())


def _checked(files: Path, manifest: Manifest, name: str) -> int:
    """How many rows a file holds, which must be as many as the export says; a table that is newer than it has none.

    All of it is read, so that no damage is met when half is written.
    """
    if name not in manifest.counts:
        return 0
    count, needed = 0, ["id", *(column for column, spec in TABLES[name].columns.items() if not spec.nullable)]
    needed += [HAS_VECTOR] if name in WITH_VECTORS else []
    for rows in read_rows_of(files, manifest.format, name):
        if lacking := [column for column in needed if rows[column].null_count()]:
            raise UnusableInput(f"A row of table {name} has no {lacking[0]}.", "Export it again.")
        count += len(rows)
    if count != manifest.counts[name]:
        raise UnusableInput(
            f"The file of table {name} has {count} rows, and the export says {manifest.counts[name]}.",
            "It is not whole: export it again.",
        )
    return count


def _check_is_empty(reading: Reading, namespace: str) -> None:
    """Raise unless the namespace is new, or was made by an import that did not come to its end."""
    if any(reading.count(name) for name in tables_of(Role.STATE)):
        raise UnusableInput(
            f"Namespace {namespace!r} holds something already.",
            "Nothing is overwritten: import into a new one with --namespace NAME.",
        )


def _publish(run: Run, files: Path, manifest: Manifest, names: list[str], seat: Embedder) -> None:
    """Write all tables in one commit. Texts are embedded within it: nobody else waits for a namespace that is new.

    Whether it holds nothing is looked at again first: somebody may have written since.
    """
    plain = [name for name in names if name not in WITH_VECTORS]
    with store_of(run).commit(run.id, "import.export", run.now) as tx:
        _check_is_empty(tx, run.namespace)
        for name in plain:
            _write(tx, name, read_rows_of(files, manifest.format, name))
        wording = Wording(tx)
        for name in WITH_VECTORS:
            if name in names:
                rows = read_rows_of(files, manifest.format, name)
                _write(tx, name, _embedded(tx, wording, seat, name, rows))
        _check_agreement(tx)
        tx.upsert("decisions", _decision(tx))


def _check_agreement(tx: Transaction) -> None:
    """Raise where rows refer to nothing, deny themselves, or are as no row of a store can be.

    Status and place are looked at here alone: nothing but an edited export has wrong ones.
    """
    found = [(each.table, each.row_id, each.detail) for each in defects(PartialSnapshot(tx, frozenset(TABLES)))]
    for name in FACT_TABLES:
        odd = tx.frame(name, None, ["id", "status"]).filter(~pl.col("status").is_in(STATUSES).fill_null(False))
        found += [(name, row, f"{status} is no status of a fact.") for row, status in odd.iter_rows()]
    archived, used = (tx.frame(name, None, ["id"]) for name in reversed(FACT_TABLES))
    twice = archived.join(used, on="id", how="semi")["id"].sort()
    found += [("facts_archive", row, "It lies among the facts in use, too.") for row in twice]
    if found:
        table, row, detail = found[0]
        raise UnusableInput(
            f"{len(found)} rows of the export do not agree with the rest; the first is {row} of {table}: {detail}",
            "Export it again: what was edited by hand can be said with `slowwave observe`.",
        )


def _decision(tx: Transaction) -> pl.DataFrame:
    """What the ledger says of all rows that came in as they are: a person vouches for them."""
    counted = {name: tx.count(name) for name in FACT_TABLES}
    counted["active facts"] = tx.count(FACT_TABLES[0], "status = 'active'")
    reason = "The rows of an export came in as they are, because a person trusts it."
    return decision_frame(
        [decision(IMPORT, tx.run_id, None, None, reason, tx.now, counted, decided_by="person", key=())]
    )


def _write(tx: Transaction, name: str, parts: Iterator[pl.DataFrame]) -> None:
    """Put the rows in the place of a table's rows, as they are; the run's own row stays.

    Runs are marked as what came with an export. One that was under way where they come from was interrupted here:
    nobody is going to end it.
    """
    if name != "runs":
        write_anew(tx, name, parts, lambda rows: rows)
        return
    state, owner = pl.col("state").replace("running", "interrupted"), pl.lit(IMPORTED).alias("owner")
    for rows in parts:
        tx.put_back(name, rows.with_columns(state, owner))


def _embedded(
    tx: Transaction, wording: Wording, seat: Embedder, name: str, parts: Iterator[pl.DataFrame]
) -> Iterator[pl.DataFrame]:
    """The rows with a vector wherever they had one."""
    for rows in parts:
        had = pl.when(pl.col(HAS_VECTOR)).then(0.0).alias("vector")
        texts = wording.of(name, rows.with_columns(had).select(READ.get(name) or OTHERS[name]))
        wanted = pl.select(pl.when(rows[HAS_VECTOR]).then(texts.fill_null("")).otherwise(pl.lit("")))
        yield rows.drop(HAS_VECTOR).with_columns(vector_column(seat.embed(wanted.to_series().to_list())))

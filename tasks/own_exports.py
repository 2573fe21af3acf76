"""What `slowwave export` wrote comes back: into a new namespace, row for row, in one commit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from inference.embedding import Embedder, open_embedder
from recall.export import Manifest, read_manifest
from recall.export_rows import HAS_VECTOR, read_rows_of
from slowwave.embedded_texts import READ
from slowwave.errors import StoreMismatch, UnusableInput
from slowwave.settings import RetentionSettings
from storage.connection import namespaces
from storage.lease import IMPORTED
from storage.rows import exact_rows
from storage.snapshots import Reading
from storage.store import Store
from storage.tables import TABLES, WITH_VECTORS, Role, tables_of
from storage.transactions import Transaction
from storage.upkeep import make_indexes, make_text_indexes

from .own_runs import Counts
from .runs import Run, new_run, recorded, store_of, vector_column
from .wording import OTHERS, Wording

LEFT_OUT = ("commits", "log_marks")
"""The history of versions, which the new namespace begins anew, and how far logs were counted that it does not have."""


def import_own(
    store: str, namespace: str, folder: Path, retention: RetentionSettings, *, dry_run: bool = False
) -> dict[str, Any]:
    """Import an export of our own into a namespace that holds nothing yet; the contract of `import --json`.

    All of it is published at once, or nothing is. Vectors that were left out are made anew with the model that the
    export names. Raises `UnusableInput` where the namespace holds something, or a file is damaged; then nothing is
    written.
    """
    manifest = read_manifest(folder)
    names = [name for name in tables_of(Role.STATE, Role.HISTORY) if name not in LEFT_OUT]
    counts = {name: _checked(folder, manifest, name) for name in names}
    if namespace in namespaces(store):
        _check_is_empty(Store.open(store, namespace).snapshot(), namespace)
    seat = open_embedder(manifest.embed_model)
    if seat.dims != manifest.dims:
        raise StoreMismatch(
            f"The export is of {manifest.embed_model} with {manifest.dims} dimensions; here it has {seat.dims}.",
            "Install the model that it was made with.",
        )
    run = new_run("import", store, namespace, manifest.embed_model, retention=retention)
    told = {"run": run.id, "path": str(folder), "system": "slowwave", "known": False, "counts": counts,
            "skipped": [], "unknown_types": {}, "dry_run": dry_run}  # fmt: skip
    if not dry_run:
        tally = Counts(run.id, {"rows imported": sum(counts.values())})
        with recorded(run, tally, {"path": str(folder), "commit": manifest.commit, "from": manifest.namespace}):
            _publish(run, folder, manifest, [name for name in names if counts[name]], seat)
    return told


def _checked(folder: Path, manifest: Manifest, name: str) -> int:
    """How many rows a file holds, which must be as many as the export says; a table that is newer than it has none.

    All of it is read, so that no damage is met when half is written.
    """
    if name not in manifest.counts:
        return 0
    count = sum(len(rows) for rows in _rows(folder, manifest, name))
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


def _publish(run: Run, folder: Path, manifest: Manifest, names: list[str], seat: Embedder) -> None:
    """Write all tables in one commit. Texts are embedded within it: nobody else waits for a namespace that is new.

    Whether it holds nothing is looked at again first: somebody may have written since.
    """
    plain = [name for name in names if name not in WITH_VECTORS]
    with store_of(run).commit(run.id, "import.export", run.now) as tx:
        _check_is_empty(tx, run.namespace)
        for name in plain:
            _write(tx, name, _rows(folder, manifest, name))
        wording = Wording(tx)
        for name in WITH_VECTORS:
            if name in names:
                rows = _rows(folder, manifest, name)
                _write(tx, name, rows if manifest.has_vectors else _embedded(tx, wording, seat, name, rows))


def _rows(folder: Path, manifest: Manifest, name: str) -> Iterator[pl.DataFrame]:
    return read_rows_of(folder, manifest.format, name, manifest.dims, manifest.has_vectors)


def _write(tx: Transaction, name: str, parts: Iterator[pl.DataFrame]) -> None:
    """Put the rows in the place of a table's rows, as they are, and make its indexes; the run's own row stays.

    Runs are marked as what came with an export. One that was under way where they come from was interrupted here:
    nobody is going to end it.
    """
    if name == "runs":
        state, owner = pl.col("state").replace("running", "interrupted"), pl.lit(IMPORTED).alias("owner")
        for rows in parts:
            tx.put_back(name, rows.with_columns(state, owner))
        return
    batches = (batch for rows in parts for batch in exact_rows(name, rows, tx.dims).to_batches())
    tx.write_anew(name, pa.RecordBatchReader.from_batches(TABLES[name].schema(tx.dims), batches))
    make_text_indexes(tx, [name])
    make_indexes(tx, name)


def _embedded(
    tx: Transaction, wording: Wording, seat: Embedder, name: str, parts: Iterator[pl.DataFrame]
) -> Iterator[pl.DataFrame]:
    """The rows with a vector wherever they had one."""
    for rows in parts:
        tx.stay()
        had = pl.when(pl.col(HAS_VECTOR)).then(0.0).alias("vector")
        texts = wording.of(name, rows.with_columns(had).select(READ.get(name) or OTHERS[name]))
        wanted = pl.select(pl.when(rows[HAS_VECTOR]).then(texts.fill_null("")).otherwise(pl.lit("")))
        yield rows.drop(HAS_VECTOR).with_columns(vector_column(seat.embed(wanted.to_series().to_list())))

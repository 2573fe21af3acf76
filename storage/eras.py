"""Eras: which model the vectors of a version of a table are of, and what that means for rows that are put back.

A commit that turns the namespace to another model (a re-embedding, or the undo of one) ends an era. A row of an earlier
era is put back with the vector that the same text has now.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from slowwave.embedded_texts import READ
from slowwave.errors import UndoRefused

from .changes import places_of
from .tables import HOLDING_VECTORS, TABLES

if TYPE_CHECKING:
    from .snapshots import Reading

Embedding = tuple[str, int]
"""Model and length of its vectors."""
_SAYING = {name: columns[1:] for name, columns in READ.items()} | {
    "entities": ("embed_text_hash",), "refusals": ("subject_id", "excerpt"), "scorer_state": ("text",),
}  # fmt: skip
"""Columns that are equal where two rows were embedded from the same text."""
_LASTING = ("upkeep", "init", "run", "gate")  # commits that write no vector


class Eras:
    """The eras of a namespace, by its commits (all of them, in order).

    `now` is what its vectors are of, or will be once the undo that asks is done.
    """

    def __init__(self, commits: pl.DataFrame, now: Embedding) -> None:
        filled = [pl.col("embed_model", "dims").fill_null(strategy="backward")]
        known = commits.with_columns(filled).with_columns(
            pl.col("embed_model").fill_null(now[0]), pl.col("dims").fill_null(now[1])
        )
        was = [pl.col(name).shift(1).fill_null(pl.col(name)).alias(f"{name}_was") for name in ("embed_model", "dims")]
        self._commits = known.sort("sequence").with_columns(was)
        turned = (pl.col("embed_model") != pl.col("embed_model_was")) | (pl.col("dims") != pl.col("dims_was"))
        self._turns = self._commits.filter(turned)
        self.now = now
        self._versions = [] if self._turns.is_empty() else [json.loads(row) for row in self._commits["versions"]]

    def is_past(self, name: str, version: int) -> bool:
        """Whether this version of a table holds vectors that are not of the model of now."""
        if self._turns.is_empty() or name not in HOLDING_VECTORS:
            return False
        place = next((n for n, at in enumerate(self._versions) if at.get(name, 0) >= version), None)
        return place is not None and self._commits.select("embed_model", "dims").row(place) != self.now

    def turns(self, runs: Sequence[str]) -> pl.DataFrame:
        """The commits of these runs that turned to another model, the earliest first."""
        return self._turns.filter(pl.col("run_id").is_in(runs))

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
        later_runs = {*later["run_id"]}
        found = set()
        for run, kind, before, undoes in later.select("run_id", "kind", "before", "undoes").iter_rows():
            if kind in _LASTING or run in undone or run in runs or not json.loads(before).keys() & {*HOLDING_VECTORS}:
                continue
            if kind == "migrate":
                raise UndoRefused("Tables got new columns since.", "Use `slowwave reembed` with the earlier model.")
            if not undoes or not later_runs.issuperset(undoes):
                found.add(str(run))
        return found


def in_this_era(reading: Reading, name: str, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of an earlier era, whose vectors are empty, with what the same row holds of this one, if its text is the
    same."""
    if rows.is_empty() or name not in HOLDING_VECTORS:
        return rows
    said, held = _SAYING.get(name, ()), list(TABLES[name].holding_vectors)
    parts = [
        reading.by_ids(place, rows["id"], ["id", *said, *held])
        for place in (places_of("facts") if name.startswith("facts") else (name,))
    ]
    now = pl.concat(parts).unique("id", keep="first")
    both = rows.join(now, on=["id", *said], how="left", suffix="_now", nulls_equal=True, maintain_order="left")
    kept = [pl.coalesce(f"{column}_now", column).alias(column) for column in held]
    return both.with_columns(kept).select(rows.columns)

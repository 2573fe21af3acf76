"""Paid model answers in the store's log: they survive every rollback, so that no answer is paid for twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING

import polars as pl

from slowwave.records import LedgerEntry

from .rows import id_filters

if TYPE_CHECKING:
    from .store import Store

_COLUMNS = [field.name for field in fields(LedgerEntry)]


class StoredAnswers:
    """The ledger of one namespace; entries are stamped with the run that paid for them."""

    def __init__(self, store: Store, run_id: str = "") -> None:
        self._store, self._run_id = store, run_id

    def lookup(self, keys: Sequence[str]) -> dict[str, LedgerEntry]:
        """The newest entry of each id that is known: two processes may have asked the same at once."""
        columns = [*_COLUMNS, "created_at"]
        parts = [self._store.log("llm_calls", where, columns) for where in id_filters(sorted(set(keys)))]
        if not parts:
            return {}
        newest = pl.concat(parts).sort("created_at").unique("id", keep="last").select(_COLUMNS)
        return {row["id"]: LedgerEntry(**row) for row in newest.iter_rows(named=True)}

    def record(self, entries: Sequence[LedgerEntry]) -> None:
        """Keep these entries for good; one of the same id takes the place of the earlier one."""
        if entries:
            rows = pl.DataFrame([asdict(entry) for entry in entries], infer_schema_length=None)
            self._store.append("llm_calls", rows.unique("id", keep="last"), run_id=self._run_id)

"""Paid model answers in the store's log: they survive every rollback, so that no answer is paid for twice.

What is under way in a batch is as good as paid, and kept beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import polars as pl

from slowwave.common.records import COSTS, OPEN_BATCH, LedgerEntry, SubmittedBatch, Usage
from slowwave.common.validity import time_sql

from .lease import is_surely_alive, is_surely_dead, new_owner
from .rows import CREATED, id_filters

if TYPE_CHECKING:
    from .store import Store

ABANDONED_AFTER = timedelta(hours=1)
"""After this time a batch that another process has not handed over is abandoned."""
STILL_COSTS_FOR = timedelta(hours=48)
"""How long after it was begun a batch is expected to cost something still: the provider ends each within a day.

What one that nobody came back for has cost is in the ledger as soon as somebody collects it.
"""
_COLUMNS = [field.name for field in fields(LedgerEntry)]
_BATCH = [field.name for field in fields(SubmittedBatch) if field.name != "is_abandoned"]
_LISTS = ("keys", "prompt_names", "prompt_hashes")
_ORDER = [CREATED, "created_at"]  # the clock may have been set back between two rows, versions only go on
_COST_ROW = ["id", *_ORDER, "run_id", "attempts", *COSTS]


class StoredAnswers:
    """The ledger of one namespace; entries are stamped with the run that paid for them."""

    def __init__(self, store: Store, run_id: str = "") -> None:
        self._store, self._run_id = store, run_id
        self._owner = new_owner(run_id)

    def lookup(self, keys: Sequence[str]) -> dict[str, LedgerEntry]:
        """The newest entry of each known id: two processes may have sent the same prompt at once."""
        columns = [*_COLUMNS, *_ORDER]
        parts = [self._store.log("llm_calls", where, columns) for where in id_filters(sorted(set(keys)))]
        if not parts:
            return {}
        newest = _newest(pl.concat(parts)).select(_COLUMNS)
        return {row["id"]: LedgerEntry(**row) for row in newest.iter_rows(named=True)}

    def record(self, entries: Sequence[LedgerEntry]) -> None:
        """Keep these entries for good; one of the same id takes the place of the earlier one."""
        if entries:
            rows = pl.DataFrame([asdict(entry) for entry in entries], infer_schema_length=None)
            self._store.append("llm_calls", rows.unique("id", keep="last"), run_id=self._run_id)

    def spent_since(self, moment: datetime) -> Usage:
        """What other runs paid since then, and will probably pay for the batches that they have under way."""
        paid = self._costs(f"created_at >= {time_sql(moment)}")
        again = paid.filter(pl.col("attempts") > 1)["id"].unique().to_list()
        before = [self._costs(f"({where}) AND created_at < {time_sql(moment)}") for where in id_filters(again)]
        rows = _own_costs(pl.concat([*before, paid]))
        others = rows.filter((pl.col("created_at") >= moment) & (pl.col("run_id") != self._run_id))
        calls, tokens_in, tokens_out, usd = others.select(pl.col(COSTS).sum()).row(0)
        spent = Usage(int(calls), 0, int(tokens_in), int(tokens_out), float(usd))
        return sum((each.expected for each in self.batches() if self._may_still_cost(each)), spent)

    def batches(self) -> list[SubmittedBatch]:
        """The newest row of every batch; those that are closed come without their prompts."""
        rows = _newest(self._store.log("llm_batches", columns=["id", "state", "batch_id", *_ORDER]))
        under_way = rows.filter(pl.col("state").is_in(OPEN_BATCH))["id"].sort().to_list()
        parts = [self._store.log("llm_batches", where, [*_BATCH, *_ORDER]) for where in id_filters(under_way)]
        whole = [_batch(row) for part in parts for row in _newest(part).iter_rows(named=True)]
        closed = rows.filter(~pl.col("id").is_in(under_way)).drop(_ORDER)
        return [*sorted(whole, key=lambda each: each.begun_at), *(_batch(row) for row in closed.iter_rows(named=True))]

    def keep_batch(self, batch: SubmittedBatch) -> None:
        """Keep this row of a batch, in place of the earlier ones; from now on this process works at it."""
        row: dict[str, Any] = {name: getattr(batch, name) for name in _BATCH} | {"owner": self._owner}
        lists = {name: pl.Series(name, [list(row[name])], dtype=pl.List(pl.String)) for name in _LISTS}
        self._store.append("llm_batches", pl.DataFrame(row | lists), run_id=self._run_id)

    def _may_still_cost(self, batch: SubmittedBatch) -> bool:
        """Whether it is under way for another run, and not for so long that it must have ended."""
        is_of_others = batch.owner.partition("|")[0] != self._owner.partition("|")[0]
        return batch.state in OPEN_BATCH and is_of_others and batch.begun_at > datetime.now(UTC) - STILL_COSTS_FOR

    def _costs(self, where: str) -> pl.DataFrame:
        return self._store.log("llm_calls", where, _COST_ROW)


def _newest(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.sort(_ORDER).unique("id", keep="last")


def _own_costs(rows: pl.DataFrame) -> pl.DataFrame:
    """What each row cost by itself: one of a second try carries the cost of those before it, which is taken off."""
    ordered = rows.sort(_ORDER)
    before = {name: pl.col(name).shift(1).over("id") for name in ("attempts", *COSTS)}
    carries = pl.all_horizontal(pl.col("attempts") > before["attempts"], *(pl.col(n) >= before[n] for n in COSTS))
    return ordered.with_columns(
        pl.when(carries.fill_null(False)).then(pl.col(name) - before[name]).otherwise(name).alias(name)
        for name in COSTS
    )


def _batch(row: dict[str, Any]) -> SubmittedBatch:
    known = {name: value for name, value in row.items() if value is not None and name not in _ORDER}
    blank: dict[str, Any] = dict.fromkeys(("provider", "model", "role", "schema_hash"), "")
    blank |= dict.fromkeys(_LISTS, ()) | {"begun_at": datetime.fromtimestamp(0, UTC)}
    lists = {name: tuple(known[name]) for name in _LISTS if name in known}
    batch = SubmittedBatch(**(blank | known | lists))
    age = datetime.now(UTC) - row.get("created_at", datetime.now(UTC))
    is_old = age > ABANDONED_AFTER and not is_surely_alive(batch.owner)
    return replace(batch, is_abandoned=bool(batch.owner) and (is_surely_dead(batch.owner) or is_old))

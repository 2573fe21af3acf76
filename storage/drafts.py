"""Drafts: a transaction whose changes to what memory says wait for a person, as rows of `proposals`.

A proposal is a commit that waits: it holds the rows that approval writes, before and after, and the state of what they
rest on. Tasks write as they always do; whether that is published or proposed is the store's affair.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl

from slowwave.common.text import as_json, timed_id
from slowwave.review.changes import NOW, RowChange, describe, encoded, hash_of, otherwise_of, repeat_key
from slowwave.review.proposals import (
    NODES,
    TIES,
    ProposalNote,
    Proposing,
    cleaned_all,
    group_rows,
    is_always_a_persons,
    risks_of,
)

from .changes import FACT_TABLES, Preconditions, named_ids
from .rows import empty_frame, filled, table_named
from .store import Store
from .tables import STAMPS, TABLES
from .transactions import Transaction

if TYPE_CHECKING:
    from .lease import Lease

APPROVED = ("active", "superseded", "retracted", "archived")
"""Statuses that a fact has, or had, a say with."""
_JUDGED = ["id", "status", "owner_entity_id", "replaced_by", "entrenchment", "message_id"]
_Key = tuple[str, str]


class ProposingStore(Store):
    """A namespace whose commits become proposals."""

    beginnings: ClassVar[dict[str, Callable[[Transaction], None]]] = {}  # none: the beginning of a run does not wait

    def __init__(self, store: Store, what: Proposing) -> None:
        vars(self).update(vars(store))
        self._what = what

    def _transaction(self, lease: Lease, run_id: str, now: datetime) -> Transaction:
        return Drafting(self._what, self.db, self._row, lease, run_id, now, self.clock, self._written)


class Drafting(Transaction):
    """Gathers what is written; at the end most of it waits, and what says nothing is written as always."""

    def __init__(self, what: Proposing, *place: Any) -> None:
        super().__init__(*place)
        self._what = what
        self._writes: list[tuple[str, pl.DataFrame | None, list[str]]] = []
        self._exact: set[int] = set()  # places of the writes that keep their stamps

    def upsert(self, name: str, frame: pl.DataFrame) -> None:
        """Gather full rows."""
        if len(frame):
            table_named(name)
            self._writes.append((name, frame, frame["id"].to_list()))

    def insert(self, name: str, frame: pl.DataFrame) -> None:
        """Gather new rows."""
        self.upsert(name, frame)

    def put_back(self, name: str, frame: pl.DataFrame) -> None:
        """Gather rows that keep their stamps."""
        self._exact.add(len(self._writes))
        self.upsert(name, frame)

    def delete(self, name: str, ids: Sequence[str] | pl.Series) -> None:
        """Gather removals."""
        if gone := sorted(set(ids)):
            self._writes.append((name, None, gone))

    def finish(self) -> None:
        """Store the waiting changes as proposals, write the rest."""
        groups = self._groups()
        risks = self._risks(groups) if len(groups) else {}
        waits = [n for n in groups["group"].unique() if self._waits(risks.get(n, ()))]
        waiting = groups.filter(pl.col("group").is_in(waits))
        changes = self._changes(waiting) if len(waiting) else {}
        stay = waiting["row"].implode()
        for place, (name, frame, ids) in enumerate(self._writes):
            if frame is None:
                rows = pl.Series(ids, dtype=pl.String)
                super().delete(name, rows.filter(~rows.is_in(stay)))
                continue
            rest = frame.filter(~pl.col("id").is_in(stay)) if len(waiting) else frame
            (super().put_back if place in self._exact else super().upsert)(name, rest)
        if changes:
            super().upsert("proposals", self._proposals(changes, waiting, risks))

    def _groups(self) -> pl.DataFrame:
        """(row, group) of all rows that may have to wait."""
        nodes = [self._nodes(name, frame, ids) for name, frame, ids in self._writes]
        rows = pl.concat([pl.DataFrame(schema=NODES), *nodes])
        if not rows["speaks"].any():
            return pl.DataFrame(schema={"row": pl.String(), "group": pl.UInt32()})
        if self._what.together:
            one = pl.Series("row", sorted({row for *_, ids in self._writes for row in ids}), dtype=pl.String)
            return pl.DataFrame(one).with_columns(group=pl.lit(0, dtype=pl.UInt32))
        fresh = self._fresh()
        facts = rows.filter("speaks")["row"].unique()
        left = dict.fromkeys(TABLES, frozenset(facts))  # what goes waits with whatever it hangs on
        ties = [
            _ties(name, self.by_ids(name, ids), facts, left) if frame is None else _ties(name, frame, facts, fresh)
            for name, frame, ids in self._writes
        ]
        return group_rows(rows, pl.concat([pl.DataFrame(schema=TIES), *ties]))

    def _nodes(self, name: str, frame: pl.DataFrame | None, ids: list[str]) -> pl.DataFrame:
        speaks = self._speaking(name, frame, ids) if TABLES[name].needs_approval else set()
        rows = pl.Series("row", ids, dtype=pl.String)
        return pl.DataFrame(rows).with_columns(speaks=pl.col("row").is_in(list(speaks)))

    def _speaking(self, name: str, frame: pl.DataFrame | None, ids: list[str]) -> set[str]:
        """The rows whose change needs approval."""
        stored = self.by_ids(name, ids)
        if frame is None:
            is_stated = pl.col("status").is_in(APPROVED) if name in FACT_TABLES else pl.lit(True)
            return set(stored.filter(is_stated)["id"])
        both = frame.drop("vector", strict=False).join(stored, on="id", how="left", suffix="_was")
        columns = [c for c in frame.columns if c not in ("id", "vector") and c not in TABLES[name].refreshed]
        columns = [c for c in columns if not TABLES[name].columns[c].is_signal]
        is_new = ~pl.col("id").is_in(stored["id"].implode())
        changed = pl.any_horizontal(is_new, *(pl.col(c).ne_missing(pl.col(f"{c}_was")) for c in columns))
        is_relevant = pl.lit(True)
        if name in FACT_TABLES:
            is_relevant = pl.col("status").is_in(APPROVED) | pl.col("status_was").is_in(APPROVED).fill_null(False)
        return set(both.filter(changed & is_relevant)["id"])

    def _fresh(self) -> dict[str, set[str]]:
        """New rows by table."""
        fresh: dict[str, set[str]] = {}
        for name, frame, ids in self._writes:
            if frame is not None:
                known = set(self.by_ids(name, ids, ["id"])["id"])
                fresh.setdefault(name, set()).update(row for row in ids if row not in known)
        return fresh

    def _risks(self, groups: pl.DataFrame) -> Mapping[int, list[str]]:
        writes = [(frame, ids) for name, frame, ids in self._writes if name in FACT_TABLES]
        kept = [
            filled(frame, dict.fromkeys(_JUDGED, pl.String())).select(_JUDGED)
            for frame, _ in writes
            if frame is not None
        ]
        gone = [row for frame, ids in writes if frame is None for row in ids]
        after = (
            pl.concat(kept).unique("id", keep="last")
            if kept
            else pl.DataFrame(schema=dict.fromkeys(_JUDGED, pl.String))
        )
        every = pl.concat([after["id"], pl.Series("id", gone, dtype=pl.String)]).unique()
        stored = pl.concat([self.by_ids(name, every, [*_JUDGED, "pinned"]) for name in FACT_TABLES]).unique(
            "id", keep="last"
        )
        rows = groups.rename({"row": "id"}).join(pl.DataFrame(every), on="id").join(stored, on="id", how="left")
        rows = rows.join(after, on="id", how="left", suffix="_after")
        moved = pl.col("owner_entity_id").is_not_null() & pl.col("owner_entity_id").ne_missing(
            pl.col("owner_entity_id_after")
        )
        changed = moved | pl.any_horizontal(
            pl.col(c).ne_missing(pl.col(f"{c}_after")) for c in ("status", "replaced_by")
        )
        message = pl.coalesce("message_id", "message_id_after")
        ranks = dict(pl.concat([stored.select("id", "entrenchment"), after.select("id", "entrenchment")]).iter_rows())
        winner = pl.col("replaced_by_after").replace_strict(ranks, default=None, return_dtype=pl.String)
        facts = rows.select(
            "group",
            was="status",
            becomes="status_after",
            moves=moved & pl.col("status_after").is_not_null(),
            entrenchment=pl.coalesce("entrenchment", "entrenchment_after"),
            winner=pl.when(pl.col("replaced_by_after").is_not_null()).then(winner),
            pinned=pl.col("pinned").fill_null(False) & changed,
            source=message.replace_strict(
                self._sources(rows.select(message)["message_id"]), default=None, return_dtype=pl.String
            ),
        )
        return dict(risks_of(facts, self._what.approval).iter_rows())

    def _sources(self, messages: pl.Series) -> Mapping[str, str]:
        """The file that each message was read from, where that matters."""
        if self._what.waits == "risky" and "cross_source" not in self._what.approval.risky:
            return {}
        rows = self.by_ids("messages", messages, ["id", "source_id"])
        return {row: source for row, source in rows.iter_rows() if source}

    def _waits(self, risks: Sequence[str]) -> bool:
        what = self._what
        return what.together or what.waits == "all" or is_always_a_persons(risks, what.approval)

    def _changes(self, groups: pl.DataFrame) -> dict[_Key, RowChange]:
        """What is to become of each row that waits, later writes over earlier ones.

        Texts that a vector stands for and that follow from other rows are made anew after approval.
        """
        changes: dict[_Key, RowChange] = {}
        for place, (name, frame, ids) in enumerate(self._writes):
            if frame is not None and TABLES[name].is_rebuildable and TABLES[name].has_vector:
                continue
            wanted = pl.Series("row", ids, dtype=pl.String).to_frame().join(groups, on="row")["row"]
            stored = {row["id"]: row for row in self.by_ids(name, wanted).iter_rows(named=True)}
            if frame is None:
                changes |= {(name, row): RowChange(name, row, _bare(stored[row]), None) for row in stored}
                continue
            for row in frame.filter(pl.col("id").is_in(wanted.implode())).iter_rows(named=True):
                change = _change(name, row, stored.get(row["id"]), self.now, is_exact=place in self._exact)
                earlier = changes.get((name, row["id"]))
                changes[name, row["id"]] = _overlaid(earlier, change) if earlier else change
        return {key: each for key, each in changes.items() if each.is_removal or each.after or each.is_new}

    def _proposals(
        self, changes: Mapping[_Key, RowChange], groups: pl.DataFrame, risks: Mapping[int, list[str]]
    ) -> pl.DataFrame:
        """Rows of `proposals`, one for each group."""
        group_of = dict(groups.select("row", "group").iter_rows())
        by_group: dict[int, list[RowChange]] = {}
        for change in changes.values():
            by_group.setdefault(group_of[change.id], []).append(change)
        ground = Preconditions(self, list(changes.values()), self.now)
        drafts = [self._row_of(part, risks.get(n, ()), ground) for n, part in sorted(by_group.items())]
        rows = pl.DataFrame(drafts)
        said = (pl.Series(name, cleaned_all(rows[name])) for name in ("title", "reason", "subject"))
        names = self.by_ids("entities", rows["subject_id"], ["id", "name"]).rename({"id": "subject_id"})
        named = rows.with_columns(said).join(names, on="subject_id", how="left", maintain_order="left")
        return self._without_repeats(named.with_columns(subject=pl.coalesce("name", "subject")).drop("name"))

    def _row_of(self, changes: Sequence[RowChange], risks: Sequence[str], ground: Preconditions) -> dict[str, Any]:
        what = self._what
        own = {each.id for each in changes}
        mine = next((each for each in what.each if each.row in own), ProposalNote(""))
        named = named_ids(changes)
        basis = ground.of(changes, what.owners)
        facts = {row: ground.facts[row] for row in sorted(named) if row in ground.facts}
        words = describe(what, changes, facts | ground.rows(changes))
        key = repeat_key(what.action, changes)
        messages = {row.get("message_id") for row in facts.values()}
        messages |= {(each.after or {}).get("message_id") for each in changes}
        return {
            "id": timed_id("p", self.now, key, hash_of(basis), self.run_id),
            "action": what.action,
            **words,
            "title": mine.title or words["title"],
            "state": "pending",
            "risks": list(dict.fromkeys((*risks, *mine.risks))),
            "proposed_by": what.proposed_by,
            "ask": what.ask or None,
            "changes": encoded(changes, self.now),
            "otherwise": encoded(otherwise_of(changes), self.now),
            "basis": as_json(basis),
            "plan_hash": hash_of(basis),
            "repeat_key": key,
            "touches": sorted({*named, *(each.id for each in changes), *what.owners}),
            "evidence": sorted(row for row in messages if row),
        }

    def _without_repeats(self, drafts: pl.DataFrame) -> pl.DataFrame:
        """Those that neither wait already nor were rejected; a plan that grew stale gives way to its successor.

        What a person proposes is proposed again, whoever said no to it.
        """
        drafts = drafts.unique("repeat_key", keep="first", maintain_order=True)
        states = "('pending')" if self._what.proposed_by == "person" else "('pending', 'rejected')"
        known = self.by_ids("proposals", drafts["repeat_key"], key="repeat_key", where=f"state IN {states}")
        same = known.filter((pl.col("state") == "rejected") | pl.col("plan_hash").is_in(drafts["plan_hash"].implode()))
        fresh = drafts.filter(~pl.col("repeat_key").is_in(same["repeat_key"].implode()))
        old = known.filter(pl.col("state") != "rejected").join(
            fresh.select("repeat_key", successor="id"), on="repeat_key"
        )
        replaced = old.with_columns(state=pl.lit("replaced"), outcome=pl.lit("Proposed anew as ") + pl.col("successor"))
        super().upsert("proposals", replaced.drop("successor"))
        return fresh


def _bare(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in STAMPS and name not in ("id", "vector")}


def _change(
    name: str, row: Mapping[str, Any], stored: Mapping[str, Any] | None, now: datetime, *, is_exact: bool
) -> RowChange:
    """A new row as a whole, vector and birth included; of a row that exists only the columns that change.

    A row that only moves keeps all its stamps. A candidate is known from the moment when somebody says yes to it.
    """
    columns = TABLES[name].columns
    if stored is None:
        own = ("vector", *STAMPS) if is_exact else ("vector", "created_at")
        kept = {c: v for c, v in row.items() if c in columns or c in own}
        return RowChange(name, row["id"], None, {c: v for c, v in kept.items() if v is not None})
    changed = [c for c in columns if row.get(c) != stored.get(c)]
    after = {c: row.get(c) for c in changed}
    if name == "facts" and stored.get("status") == "candidate" and after.get("status") == "active":
        after["created_at"] = now
    return RowChange(name, row["id"], {c: stored.get(c) for c in changed}, after)


def _overlaid(earlier: RowChange, later: RowChange) -> RowChange:
    before = earlier.before
    if not (earlier.is_removal or before is None or later.before is None):
        before = {**later.before, **before}
    return RowChange(later.table, later.id, before, {**(earlier.after or {}), **(later.after or {})})


def _ties(name: str, frame: pl.DataFrame, facts: pl.Series, fresh: Mapping[str, Collection[str]]) -> pl.DataFrame:
    """(row, other): rows of a table, those that go among them, that point at facts that change or at new rows."""
    if TABLES[name].is_rebuildable:
        return pl.DataFrame(schema=TIES)
    wanted = {c: (facts if column.refers == "facts" else fresh.get(column.refers, set()))
              for c, column in TABLES[name].columns.items() if column.refers and c in frame.columns}  # fmt: skip
    if name == "decisions":
        wanted |= {c: facts for c in ("subject_id", "ids_in", "ids_out") if c in frame.columns}
    parts = []
    for column, others in wanted.items():
        pairs = frame.select(row="id", other=column)
        pairs = pairs.explode("other") if isinstance(pairs.schema["other"], pl.List) else pairs
        parts.append(pairs.cast(TIES).filter(pl.col("other").is_in(list(others))))
    return pl.concat([pl.DataFrame(schema=TIES), *parts])


# Carrying out what was proposed: the very rows of a proposal, on rows that are still as they were.


Written = tuple[RowChange, Mapping[str, Any]]
"""A change and, for a decision, more columns: who approved it, and which proposal."""


def write_changes(tx: Transaction, written: Sequence[Written], now: datetime) -> None:
    """Write rows as they were proposed; no row twice."""
    more_of = {each.id: more for each, more in written if each.table == "decisions"}
    for name in dict.fromkeys(each.table for each, _ in written):
        mine = [each for each, _ in written if each.table == name]
        tx.delete(name, [each.id for each in mine if each.is_removal])
        fresh = [{"id": each.id, **(each.after or {})} for each in mine if each.is_new and not each.is_removal]
        completed = [{**row, **more_of[row["id"]]} for row in fresh] if name == "decisions" else fresh
        moved = [row for row in completed if "run_id" in row]
        tx.put_back(name, _frame(tx, name, moved, now))
        tx.upsert(name, _frame(tx, name, [row for row in completed if "run_id" not in row], now))
        tx.upsert(name, _changed(tx, name, {each.id: each.after for each in mine if each.before and each.after}, now))


def _changed(tx: Transaction, name: str, cells: Mapping[str, Mapping[str, Any]], now: datetime) -> pl.DataFrame:
    """Whole rows as they are, with the cells that change; a row that is gone stays gone."""
    has_vector = "vector" in empty_frame(name, tx.dims).columns
    stored = tx.by_ids(name, list(cells), with_vector=has_vector)
    return _frame(tx, name, [{**row, **cells[row["id"]]} for row in stored.iter_rows(named=True)], now)


def _frame(tx: Transaction, name: str, rows: Sequence[Mapping[str, Any]], now: datetime) -> pl.DataFrame:
    schema = empty_frame(name, tx.dims).schema
    times = {column for column, kind in schema.items() if isinstance(kind, pl.Datetime)}
    whole = [{c: _value(row.get(c), now, c in times) for c in schema} for row in rows]
    return pl.DataFrame(whole, schema=schema)


def _value(value: Any, now: datetime, is_time: bool) -> Any:
    if not is_time or not isinstance(value, str):
        return value
    return now if value == NOW else datetime.fromisoformat(value)

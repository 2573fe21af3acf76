"""All versions of what was known: of a subject, or along the chain of replacements of a fact (S2-38, S2-55).

A fact that came back is two rows with two intervals. Archived rows are looked at as well; candidates and rejected ones
never are.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import polars as pl

from slowwave.errors import UnknownName
from slowwave.lexicon.labels import canonical_relation
from slowwave.types import Chain, Entity, Mention, Version
from slowwave.validity import MAX_CHAIN, Moment, as_known, oldest_first
from storage.rows import quoted
from storage.snapshots import Snapshot

from .facts import ALL, LEARNED, SHOWN, ends_of, shown, stored

_BELIEVED = "status NOT IN ('candidate', 'rejected') AND (kind IS NULL OR kind NOT IN ('structural', 'similarity'))"
_DECIDED = (*LEARNED, "reason", "ids_in", "ids_out")
_ENDINGS = ("supersede", "retract", "close", "archive", "prune", "evict")
_NEWEST = ("valid_from", "created_at", "id")


def history_of(
    snapshot: Snapshot, entity: Entity, words: str | None, relation: str | None, moment: Moment, limit: int
) -> tuple[Version, ...]:
    """All versions of what was known about a subject, the latest first, at most `limit`.

    `words` must stand in the statement or in the canonical predicate, in any case of letters and literally; `relation`
    is the canonical predicate itself; both may name a relation in Spanish (C8).
    """
    rows = stored(snapshot, ALL, [entity.id], ("subject_id",), SHOWN, _BELIEVED)
    if words:
        relations = (_says("predicate", each) for each in {words, canonical_relation(words)})
        rows = rows.filter(pl.any_horizontal(_says("statement", words), *relations))
    if relation is not None:
        rows = rows.filter(pl.col("predicate") == canonical_relation(relation))
    if moment.known_as_of is not None:
        rows = _known(snapshot, rows, moment.known_as_of)
    rows = rows.sort(_NEWEST, descending=True, nulls_last=True).head(limit)
    return _versions(snapshot, rows, moment)


def chain_of(snapshot: Snapshot, fact_id: str, moment: Moment) -> Chain:
    """The chain of replacements that a fact belongs to, oldest first: at most 64 facts, each once (T35)."""
    steps, is_cut = _steps(snapshot, fact_id)
    order = oldest_first(fact_id, steps)
    rows = stored(snapshot, ALL, order.ids, columns=SHOWN)
    if fact_id not in rows["id"]:
        raise UnknownName("fact", fact_id, [])
    rows = pl.DataFrame({"id": order.ids}).join(rows, on="id", how="inner", maintain_order="left")
    return Chain(_versions(snapshot, rows, moment), order.has_circle, is_cut or order.is_cut)


def _says(column: str, words: str) -> pl.Expr:
    return pl.col(column).str.to_lowercase().str.contains(words.lower(), literal=True).fill_null(False)


def _known(snapshot: Snapshot, rows: pl.DataFrame, t: datetime) -> pl.DataFrame:
    """The rows as they were known at `t`; whatever replaced them is looked up, for when it began."""
    winners = stored(snapshot, ALL, rows["replaced_by"].drop_nulls(), columns=SHOWN)
    wide = pl.concat([rows, winners]).unique("id", keep="first", maintain_order=True)
    closed = snapshot.by_ids("decisions", rows["id"], LEARNED, key="subject_id")
    return as_known(wide, t, ends_of(closed)).join(rows.select("id"), on="id", how="semi", maintain_order="left")


def _steps(snapshot: Snapshot, fact_id: str) -> tuple[list[tuple[str, str]], bool]:
    """All (old, new) that lead to or from a fact, by lineage and both pointers; and whether there are more."""
    found: set[tuple[str, str]] = set()
    seen: set[str] = set()
    fresh = {fact_id}
    while fresh and len(seen) < MAX_CHAIN:
        seen |= fresh
        found |= _steps_at(snapshot, sorted(fresh))
        fresh = {name for step in found for name in step} - seen
    return sorted(found), bool(fresh)


def _steps_at(snapshot: Snapshot, ids: list[str]) -> set[tuple[str, str]]:
    """The steps that touch these facts."""
    old_new = ("old_id", "new_id")
    lineage = [snapshot.by_ids("lineage", ids, old_new, key=key) for key in old_new]
    pointers = [
        stored(snapshot, ALL, ids, (key,), ("id", "replaced_by", "supersedes_id"))
        for key in ("id", "replaced_by", "supersedes_id")
    ]
    rows = pl.concat(pointers)
    forward = rows.select(old_id="id", new_id="replaced_by")
    back = rows.select(old_id="supersedes_id", new_id="id")
    return {*pl.concat([*lineage, forward, back]).drop_nulls().iter_rows()}


def _versions(snapshot: Snapshot, rows: pl.DataFrame, moment: Moment) -> tuple[Version, ...]:
    """The rows with why and by what each of them ended."""
    decided = _endings(snapshot, rows, moment)
    by = {row["id"]: row["replaced_by"] or decided.get(row["id"], ("", None))[1] for row in rows.to_dicts()}
    others = stored(snapshot, ALL, sorted({name for name in by.values() if name}), columns=("id", "statement"))
    named = {name: Mention(name, words) for name, words in others.iter_rows()}
    return tuple(
        Version(
            fact,
            row["created_at"],
            row["expired_at"],
            decided.get(fact.id, ("", None))[0] or _reason(row),
            named.get(by[fact.id]),
        )
        for fact, row in zip(shown(snapshot, rows, moment), rows.to_dicts(), strict=True)
    )


def _endings(snapshot: Snapshot, rows: pl.DataFrame, moment: Moment) -> dict[str, tuple[str, str | None]]:
    """Of facts that are over: the reason of the last decision that ended them, and the other fact it speaks of.

    That one wording absorbed others is a decision about the one that stays.
    """
    over = rows.filter((pl.col("status") != "active") | pl.col("valid_to").is_not_null())
    about = pl.concat([over["id"], over["replaced_by"]]).drop_nulls()
    decisions = snapshot.by_ids("decisions", about, _DECIDED, key="subject_id").sort("at")
    if moment.known_as_of is not None:
        decisions = decisions.filter(pl.col("at") <= moment.known_as_of)
    found: dict[str, tuple[str, str | None]] = {}
    for row in decisions.iter_rows(named=True):
        subject, reason = row["subject_id"], row["reason"] or row["action"]
        others = [name for name in (*(row["ids_out"] or ()), *(row["ids_in"] or ())) if name != subject]
        if row["action"] == "absorb":
            found |= dict.fromkeys((name for name in row["ids_out"] or () if name != subject), (reason, subject))
        elif row["action"] in _ENDINGS:
            found[subject] = (reason, others[0] if others else None)
    return {name: why for name, why in found.items() if name in set(over["id"])}


def _reason(row: dict[str, Any]) -> str:
    """What the fact itself says, if no decision does."""
    return "" if row["status"] == "active" and row["valid_to"] is None else row["status_reason"] or ""


# The archive: what faded, was evicted or retired, and can be restored.


ARCHIVED = "status = 'archived'"
_LEFT = "action IN ('prune', 'archive')"
_READ = ("id", "statement", "status_reason", "expired_at")


@dataclass(frozen=True, slots=True)
class Archived:
    """A fact that was archived: why, when, and the score that it had then, if it was pruned."""

    id: str
    statement: str
    reason: str
    at: datetime | None
    score: float | None


REASONS = ("pruned", "evicted", "deleted")


def archived(snapshot: Snapshot, reason: str | None = None, limit: int = 50) -> tuple[int, tuple[Archived, ...]]:
    """How many facts are archived, for this reason or any, and those that left last.

    Raises `UnknownName` for a reason for which nothing is archived while there are others.
    """
    where = ARCHIVED if reason is None else f"{ARCHIVED} AND status_reason = {quoted(reason)}"
    parts = [snapshot.frame(name, where, _READ) for name in ("facts", "facts_archive")]
    rows = pl.concat(parts).unique("id", keep="first", maintain_order=True)
    if rows.is_empty() and reason is not None:
        _check_reason(snapshot, reason)
    newest = rows.sort("expired_at", "id", descending=True, nulls_last=True).head(limit)
    decisions = snapshot.by_ids(
        "decisions", newest["id"], ["subject_id", "at", "measures"], key="subject_id", where=_LEFT
    )
    scores = decisions.sort("at").unique("subject_id", keep="last").select(
        id="subject_id", score=pl.col("measures").str.json_path_match("$.score").cast(pl.Float64, strict=False)
    )  # fmt: skip
    both = newest.join(scores, on="id", how="left", maintain_order="left")
    return len(rows), tuple(Archived(*row) for row in both.select(*_READ, "score").iter_rows())


def _check_reason(snapshot: Snapshot, reason: str) -> None:
    known = pl.concat(
        [snapshot.frame(name, ARCHIVED, ["status_reason"])["status_reason"] for name in ("facts", "facts_archive")]
    )
    if len(known) and reason not in REASONS:
        raise UnknownName("reason", reason, known.drop_nulls().unique())

"""Proposals as a person reads them: what would change, why, how risky it is, and what it rests on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from slowwave.errors import UnknownName, UnusableInput
from slowwave.merging.observations import named_by
from slowwave.review.changes import NOW, Change, decoded
from storage.rows import quoted
from storage.snapshots import Reading

STATES = ("pending", "approved", "rejected", "applied", "stale", "replaced")
_HIDDEN = ("vector", "embed_model", "embed_text_hash", "created_at", "statement_hash", "search_terms", "patch_batch_id")


@dataclass(frozen=True, slots=True)
class Proposal:
    """One change that waits for a person, or waited."""

    id: str
    action: str
    title: str
    reason: str
    subject_id: str
    subject: str
    state: str
    risks: tuple[str, ...]
    proposed_by: str
    ask: Mapping[str, Any]
    changes: tuple[Change, ...]
    plan_hash: str
    touches: tuple[str, ...]
    evidence: tuple[str, ...]
    decider: str
    door: str
    decided_at: datetime | None
    note: str
    outcome: str
    proposed_at: datetime
    run: str

    @property
    def is_risky(self) -> bool:
        """Whether it has any risk: such a one is never decided in bulk unless it is asked for."""
        return bool(self.risks)

    def as_json(self) -> dict[str, Any]:
        """The contract of `review --json`; vectors and hashes of rows are left out."""
        told = asdict(self)
        told["changes"] = [
            {"table": each.table, "id": each.id, "before": _shown(each.before), "after": _shown(each.after)}
            for each in self.changes
        ]
        return told


def list_proposals(
    reading: Reading,
    state: str | None = "pending",
    *,
    action: str | None = None,
    entity: str | None = None,
    run: str | None = None,
    limit: int | None = None,
) -> tuple[Proposal, ...]:
    """Proposals in a state (None: all), oldest first; of one action, about one entity (its id), of one run."""
    if state is not None and state not in STATES:
        raise UnknownName("state of a proposal", state, STATES)
    asked = {"state": state, "action": action, "subject_id": entity, "run_id": run}
    where = " AND ".join(f"{column} = {quoted(value)}" for column, value in asked.items() if value)
    rows = reading.frame("proposals", where or None, limit=limit, order=["id"])
    return tuple(_proposal(row) for row in rows.iter_rows(named=True))


def proposals_by_id(reading: Reading, ids: Sequence[str]) -> tuple[Proposal, ...]:
    """Those of these whole ids that exist, oldest first."""
    return tuple(_proposal(row) for row in reading.by_ids("proposals", ids).sort("id").iter_rows(named=True))


def proposal_named(reading: Reading, asked: str) -> Proposal:
    """The proposal of an id, or of the short form or beginning that tables show."""
    ids = set(reading.frame("proposals", columns=["id"])["id"])
    named = named_by(asked, ids)
    if not named:
        waiting = reading.frame("proposals", "state = 'pending'", ["id"])["id"].sort().to_list()
        if not waiting:
            raise UnusableInput(f"There is no proposal {asked!r}, and none waits.", "See `slowwave review list --all`.")
        raise UnknownName("proposal", asked, waiting[:20])
    if len(named) > 1:  # the same may have been decided before: the one that is open is meant
        states = reading.by_ids("proposals", named, ["id", "state"]).iter_rows()
        named = [row for row, state in states if state in ("pending", "approved")] or named
    if len(named) > 1:
        raise UnusableInput(f"{asked!r} may be {' or '.join(named[:5])}.", "Give more of it.")
    return next(_proposal(row) for row in reading.by_ids("proposals", named).iter_rows(named=True))


def diff_lines(proposal: Proposal, known: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """What would change, a line for each row: `+` is new, `-` goes, `~` changes columns from one value to another.

    `known` are statements and names by id, of rows that exist (`recall.proposal_stories.words_of`). Decisions and other
    records of the change itself are left out; `as_json` has every row.
    """
    kept = [each for each in proposal.changes if each.table not in ("decisions", "patch_batches", "fact_aspects")]
    names = {each.id: told for each in kept if (told := _words(each))}
    words = {**{row: f"“{text}”" for row, text in (known or {}).items()}, **names}
    return tuple(_line(each, words) for each in sorted(kept, key=_place))


def _place(change: Change) -> tuple[bool, str, str]:
    return change.table not in ("facts", "entities"), change.table, change.id


def _line(change: Change, words: Mapping[str, str]) -> str:
    about = f"{change.table} {words.get(change.id, change.id)}"
    if change.is_removal:
        return f"- {about}"
    if change.is_new:
        return f"+ {about}"
    before, after = _shown(change.before) or {}, _shown(change.after) or {}
    names = sorted(after, key=lambda name: (name != "status", name))
    cells = [f"{name} {_cell(before.get(name), words)} → {_cell(after[name], words)}" for name in names]
    return f"~ {about}: {'; '.join(cells)}"


def _words(change: Change) -> str:
    row = {**(change.before or {}), **(change.after or {})}
    for name in ("statement", "name", "alias_name", "title", "quote", "canonical"):
        if row.get(name):
            return f"“{row[name]}”"
    if row.get("old_id"):
        return f"{row['old_id']} → {row.get('new_id')}"
    return ""


def _cell(value: Any, words: Mapping[str, str]) -> str:
    if value in (None, "", []):
        return "nothing"
    if value == NOW:
        return "the time of approval"
    return words.get(value, value) if isinstance(value, str) else str(value)


def _shown(row: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if row is None else {name: value for name, value in row.items() if name not in _HIDDEN}


def _proposal(row: Mapping[str, Any]) -> Proposal:
    def text(name: str) -> str:
        return row[name] or ""

    def texts(name: str) -> Sequence[str]:
        return row[name] or ()

    return Proposal(
        row["id"], row["action"], text("title"), text("reason"), text("subject_id"), text("subject"), row["state"],
        tuple(texts("risks")), text("proposed_by"), json.loads(row["ask"] or "{}"), decoded(row["changes"]),
        text("plan_hash"), tuple(texts("touches")), tuple(texts("evidence")), text("decider"), text("door"),
        row["decided_at"], text("note"), text("outcome"), row["created_at"], text("run_id"),
    )  # fmt: skip

"""Proposals as a person reads them: what would change, why, how risky it is, and what it rests on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import polars as pl

from slowwave.common.errors import UnknownName, UnusableInput
from slowwave.common.types import Mention, Provenance
from slowwave.facts.deduplication.observations import named_by
from slowwave.review.changes import RowChange, changed_words, decoded, in_words, parts_in_words
from slowwave.review.proposals import observations_in
from storage.changes import SLOT, basis_of, facts_by_id, owners_in
from storage.rows import quoted
from storage.snapshots import Reading

from .facts import texts_of

STATES = ("pending", "rejected", "applied", "stale", "replaced")
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
    changes: tuple[RowChange, ...]
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
        """Whether it has any risk: such a one is never decided in bulk unless it is named."""
        return bool(self.risks)

    def as_json(self) -> dict[str, Any]:
        """The contract of `review --json`; vectors and hashes of rows are left out."""
        values = asdict(self)
        values["changes"] = [
            {"table": each.table, "id": each.id, "before": _shown(each.before), "after": _shown(each.after)}
            for each in self.changes
        ]
        return values


def list_proposals(
    reading: Reading,
    state: str | None = "pending",
    *,
    action: str | None = None,
    entity: str | None = None,
    limit: int | None = None,
) -> tuple[Proposal, ...]:
    """Proposals in a state (None: all), oldest first; of one action, about one entity (its id)."""
    if state is not None and state not in STATES:
        raise UnknownName("state of a proposal", state, STATES)
    filters = {"state": state, "action": action, "subject_id": entity}
    where = " AND ".join(f"{column} = {quoted(value)}" for column, value in filters.items() if value)
    rows = reading.frame("proposals", where or None, limit=limit, order=["id"])
    return tuple(_proposal(row) for row in rows.iter_rows(named=True))


def proposals_by_id(reading: Reading, ids: Sequence[str]) -> tuple[Proposal, ...]:
    """Those of these whole ids that exist, oldest first."""
    return tuple(_proposal(row) for row in reading.by_ids("proposals", ids).sort("id").iter_rows(named=True))


def proposal_named(reading: Reading, text: str) -> Proposal:
    """The proposal of an id, or of the short form or beginning that tables show."""
    ids = set(reading.frame("proposals", columns=["id"])["id"])
    named = named_by(text, ids)
    if not named:
        waiting = reading.frame("proposals", "state = 'pending'", ["id"])["id"].sort().to_list()
        if not waiting:
            raise UnusableInput(f"There is no proposal {text!r}, and none waits.", "See `slowwave review list --all`.")
        raise UnknownName("proposal", text, waiting[:20])
    if len(named) > 1:  # the same may have been decided before: the one that waits is meant
        states = reading.by_ids("proposals", named, ["id", "state"]).iter_rows()
        named = [row for row, state in states if state == "pending"] or named
    if len(named) > 1:
        raise UnusableInput(f"{text!r} may be {' or '.join(named[:5])}.", "Give more of it.")
    return next(_proposal(row) for row in reading.by_ids("proposals", named).iter_rows(named=True))


def _shown(row: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if row is None else {name: value for name, value in row.items() if name not in _HIDDEN}


def _proposal(row: Mapping[str, Any]) -> Proposal:
    def text(name: str) -> str:
        return row[name] or ""

    return Proposal(
        row["id"], row["action"], text("title"), text("reason"), text("subject_id"), text("subject"), row["state"],
        tuple(row["risks"] or ()), text("proposed_by"), json.loads(row["ask"] or "{}"), decoded(row["changes"]),
        text("plan_hash"), tuple(row["touches"] or ()), tuple(row["evidence"] or ()), text("decider"), text("door"),
        row["decided_at"], text("note"), text("outcome"), row["created_at"], text("run_id"),
    )  # fmt: skip


# The story of a proposal: its changes in words, its evidence, and whether it is stale.


_QUOTED = 240


@dataclass(frozen=True, slots=True)
class ProposalStory:
    """All that a person wants to know before they say yes or no; `stale` is empty while it can be carried out."""

    proposal: Proposal
    summary: tuple[str, ...]
    rests_on: tuple[Mention, ...]
    evidence: tuple[Provenance, ...]
    stale: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The contract of `review show --json`."""
        return {
            **self.proposal.as_json(),
            "summary": list(self.summary),
            "rests_on": [asdict(each) for each in self.rests_on],
            "evidence": [asdict(each) for each in self.evidence],
            "stale": list(self.stale),
        }


def story_of_proposal(reading: Reading, proposal: Proposal, now: datetime) -> ProposalStory:
    """What there is to know of one proposal, as memory is now."""
    facts = facts_by_id(reading, proposal.touches)
    changed = {each.id for each in proposal.changes}
    unchanged = [Mention(row, fact["statement"] or "") for row, fact in sorted(facts.items()) if row not in changed]
    return ProposalStory(
        proposal,
        summary_of(reading, proposal),
        tuple(unchanged),
        _evidence(reading, proposal),
        stale_proposals(reading, [proposal], now).get(proposal.id, ()),
    )


def summary_of(reading: Reading, proposal: Proposal) -> tuple[str, ...]:
    """What it would change: of a split its parts, else a sentence for each fact, entity or document."""
    if proposal.ask.get("splits"):
        return parts_in_words(proposal.ask, texts_of(reading, observations_in(proposal.ask)))
    tables = sorted({each.table for each in proposal.changes})
    return in_words(proposal.changes, _words(reading, proposal)) or (f"Rows of {', '.join(tables)} change.",)


def _words(reading: Reading, proposal: Proposal) -> dict[str, str]:
    """Statements and names of what it touches, and of the ids in cells that change."""
    cells = [cell for each in proposal.changes for row in (each.before, each.after) for cell in (row or {}).values()]
    ids = {cell for cell in cells if isinstance(cell, str) and " " not in cell and "_" in cell}
    return texts_of(reading, {*proposal.touches, *ids})


def stale_proposals(reading: Reading, proposals: Sequence[Proposal], now: datetime) -> dict[str, tuple[str, ...]]:
    """What changed of that on which proposals rest, by id; those that can still be carried out are left out (T50)."""
    basis = _bases(reading, proposals)
    mine: dict[str, dict[str, Any]] = {}
    for part in in_turn(reading, proposals):
        every = [change for each in part for change in each.changes]
        owners = sorted({owner for each in part for owner in owners_in(basis[each.id])})
        current = json.loads(json.dumps(basis_of(reading, every, owners, now)))
        mine |= {each.id: {key: current.get(key) for key in basis[each.id]} for each in part}
    changed = {row for row, then in basis.items() if then != mine[row]}
    words = texts_of(reading, {name for row in changed for name in _ids_of(basis[row], mine[row])})
    return {row: changed_words(basis[row], mine[row], words) for row in changed}


def in_turn(reading: Reading, proposals: Sequence[Proposal]) -> Iterator[list[Proposal]]:
    """The proposals in parts, each of which can be carried out at once: none rests on what another of it changes."""
    basis = _bases(reading, proposals)
    left = [each for each in proposals if each.id in basis]
    while left:
        taken: set[str] = set()
        part: list[Proposal] = []
        later: list[Proposal] = []
        for each in left:
            slots = {key for key in basis[each.id] if key.startswith(SLOT)}
            rests_on = _ids_of(basis[each.id]) | slots | {change.id for change in each.changes}
            (later if rests_on & taken else part).append(each)
            taken |= _moved_ids(each) | slots
        yield part
        left = later


def _moved_ids(proposal: Proposal) -> set[str]:
    """The rows that it changes, and the entities under which something else is filed afterwards."""
    rows = [row or {} for each in proposal.changes for row in (each.before, each.after)]
    owners = {row["owner_entity_id"] for row in rows if row.get("owner_entity_id")}
    return {each.id for each in proposal.changes} | owners


def _bases(reading: Reading, proposals: Sequence[Proposal]) -> dict[str, dict[str, Any]]:
    stored = reading.by_ids("proposals", [each.id for each in proposals], ["id", "basis"])
    return {row: json.loads(text) for row, text in stored.iter_rows()}


def _ids_of(*bases: Mapping[str, Any]) -> set[str]:
    """Ids that the keys and lists of bases name."""
    names = {key.rpartition(" ")[2] for basis in bases for key in basis if not key.startswith(SLOT)}
    lists = [value for basis in bases for key, value in basis.items() if key.startswith("filed under ")]
    return names | {row for ids in lists for row in ids or ()}


def _evidence(reading: Reading, proposal: Proposal) -> tuple[Provenance, ...]:
    """Every source message of the facts that it touches, oldest first, with its words for them."""
    evidence = reading.by_ids("fact_evidence", proposal.touches, ["message_id", "quote"], key="fact_id")
    columns = ["id", "conversation_id", "message_id", "content", "occurred_at"]
    messages = reading.by_ids("messages", [*evidence["message_id"], *proposal.evidence], columns)
    quotes = messages.join(evidence.rename({"message_id": "id"}), on="id", how="left").with_columns(
        quote=pl.coalesce("quote", pl.col("content").str.slice(0, _QUOTED)).fill_null("")
    )
    rows = quotes.sort("occurred_at", "id", "quote").select("conversation_id", "message_id", "quote", "occurred_at")
    return tuple(Provenance(*row) for row in rows.unique(maintain_order=True).iter_rows())

"""Review: a person says yes or no to what waits, and that is carried out in one commit, or refused as stale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import polars as pl

from recall.proposals import OPEN, Proposal, in_turn, list_proposals, proposal_named, proposals_by_id, stale_proposals
from slowwave.common import frames
from slowwave.common.decisions import decision, decision_frame
from slowwave.common.errors import Refused, UnusableInput
from slowwave.common.settings import ApprovalSettings, IngestSettings
from slowwave.review.changes import RowChange, decoded, in_brief
from slowwave.review.proposals import Person, cleaned
from storage.changes import FACT_TABLES
from storage.drafts import write_changes
from storage.snapshots import Reading
from storage.transactions import Transaction
from tasks.entities.retirement import renew_profiles
from tasks.runtime.engine import task
from tasks.runtime.runs import Run, store_of
from tasks.runtime.writing import settle_patches

Choice = Literal["approve", "later", "reject"]
_NOT_NOW = {
    "applied": "It was approved and carried out before.",
    "rejected": "It was rejected before.",
    "replaced": "Another proposal took its place.",
    "stale": "What it rests on has changed since it was made.",
}


@dataclass(frozen=True, slots=True)
class DecidedProposal:
    """The result for a proposal: its state now, and why where it could not be carried out."""

    id: str
    state: str
    title: str
    outcome: str = ""
    replaced_by: str = ""


@task("approve proposals")
def approve(
    run: Run,
    ids: Sequence[str],
    person: Person,
    note: str = "",
    settings: IngestSettings = IngestSettings(),  # noqa: B008 (frozen)
) -> tuple[DecidedProposal, ...]:
    """Carry out what a person said yes to, in one commit; a stale proposal is refused (T50).

    `ids` may be the short forms that tables show. `Refused` where nothing can be carried out because none is open.
    Candidates whose plan is stale are planned and proposed again by these `settings`: `replaced_by`.
    """
    done = _decide(run, ids, "approve", person, note)
    stale = proposals_by_id(store_of(run).snapshot(), [each.id for each in done if each.state == "stale"])
    patches = [each for each in stale if each.action == "patch"]
    return _proposed_again(run, done, patches, settings) if patches else done


def _proposed_again(
    run: Run, done: Sequence[DecidedProposal], stale: Sequence[Proposal], settings: IngestSettings
) -> tuple[DecidedProposal, ...]:
    from tasks.ingest.application import apply_patches

    facts = [change.id for each in stale for change in each.changes if change.table == "facts"]
    batches = store_of(run).snapshot().by_ids("facts", facts, ["patch_batch_id"])["patch_batch_id"].drop_nulls()
    manual = settings.model_copy(update={"approval": ApprovalSettings(mode="manual")})
    apply_patches(run, manual, look_back=False, batch_ids=batches.unique().to_list())
    snapshot = store_of(run).snapshot()
    successors = {row: fresh.id for fresh in list_proposals(snapshot, run=run.id) for row in fresh.touches}
    found = {
        each.id: next((successors[row.id] for row in each.changes if row.table == "facts" and row.id in successors), "")
        for each in stale
    }
    return tuple(replace(each, replaced_by=found.get(each.id, "")) for each in done)


@task("reject proposals")
def reject(run: Run, ids: Sequence[str], person: Person, note: str = "") -> tuple[DecidedProposal, ...]:
    """Leave things as they are because a person said no; the same is not proposed again."""
    return _decide(run, ids, "reject", person, note)


@task("approve for later")
def approve_for_later(run: Run, ids: Sequence[str], person: Person, note: str = "") -> tuple[DecidedProposal, ...]:
    """Say yes to proposals that somebody else, such as an agent, is to carry out; they are checked again by then."""
    return _decide(run, ids, "later", person, note)


def _decide(run: Run, ids: Sequence[str], choice: Choice, person: Person, note: str) -> tuple[DecidedProposal, ...]:
    check_person(person)
    with store_of(run).commit(run.id, "review", run.now) as tx:
        chosen = open_proposals(tx, ids)
        states = _OUTCOMES[choice](tx, run, chosen, person)
        record(tx, run, states, person, note)
        meant = [each for each in chosen if states[each.id][0] != "stale"]
        tx.upsert("decisions", _decision_rows(run, meant, person, note, "reject" if choice == "reject" else "approve"))
        settle_patches(tx, [change.id for each in chosen for change in each.changes if change.table == "facts"])
    renew_profiles(run, _owners(run, [each for each in chosen if states[each.id][0] == "applied"]))
    return tuple(DecidedProposal(each.id, states[each.id][0], each.title, states[each.id][1]) for each in chosen)


def check_person(person: Person) -> None:
    if not person.name.strip():
        raise UnusableInput("Nobody's name was given.", "Say who decides: --by NAME, or $SLOWWAVE_PERSON.")


def open_proposals(reading: Reading, ids: Sequence[str]) -> list[Proposal]:
    """The proposals of these ids, which must all be open."""
    whole = {each.id: each for each in proposals_by_id(reading, ids)}
    named = [whole.get(id_) or proposal_named(reading, id_) for id_ in ids]
    chosen = list({each.id: each for each in named}.values())
    closed = [each for each in chosen if each.state not in OPEN]
    if closed:
        states = "; ".join(f"{each.id}: {_NOT_NOW[each.state]}" for each in closed)
        raise Refused(f"Nothing was decided. {states}", "`slowwave review list` shows what waits.")
    return chosen


def _apply(tx: Transaction, run: Run, chosen: Sequence[Proposal], person: Person) -> dict[str, tuple[str, str]]:
    """State and outcome of each; those that change different rows are written at once, the others one after another."""
    states: dict[str, tuple[str, str]] = {}
    for part in in_turn(tx, chosen):
        stale = stale_proposals(tx, part, run.now)
        states |= {row: ("stale", in_brief(changed)) for row, changed in stale.items()}
        fresh = [each for each in part if each.id not in stale]
        write_changes(tx, [(one, _signed(each.id, person)) for each in fresh for one in each.changes], run.now)
        states |= {each.id: ("applied", "") for each in fresh}
    _open_again(tx, [each for each in chosen if states[each.id][0] == "stale"])
    return states


def _turn_down(tx: Transaction, run: Run, chosen: Sequence[Proposal], person: Person) -> dict[str, tuple[str, str]]:
    """What a rejection writes, where the rows are still as they were."""
    stored = tx.by_ids("proposals", [each.id for each in chosen], ["id", "otherwise"])
    rest = [(each, _signed(proposal, person)) for proposal, text in stored.iter_rows() for each in decoded(text)]
    changed = [each for each, _ in rest if not each.is_new]
    now_stored = {(name, row["id"]): row for name in {each.table for each in changed}
            for row in tx.by_ids(name, [each.id for each in changed]).iter_rows(named=True)}  # fmt: skip
    kept = {
        (each.table, each.id): (each, more) for each, more in rest if each.is_new or _is_as_it_was(each, now_stored)
    }
    write_changes(tx, list(kept.values()), run.now)
    return {each.id: ("rejected", "") for each in chosen}


def _approved(tx: Transaction, run: Run, chosen: Sequence[Proposal], person: Person) -> dict[str, tuple[str, str]]:
    """What an approval for later writes: nothing yet."""
    return {each.id: ("approved", "") for each in chosen}


_OUTCOMES = {"approve": _apply, "reject": _turn_down, "later": _approved}


def _signed(proposal_id: str, person: Person) -> dict[str, str]:
    """The fields of a decision about the person who decided."""
    return {"approved_by": person.name, "proposal_id": proposal_id}


def _is_as_it_was(change: RowChange, stored: Mapping[tuple[str, str], Mapping[str, Any]]) -> bool:
    row = stored.get((change.table, change.id))
    before = {name: value for name, value in (change.before or {}).items() if value is None or isinstance(value, str)}
    return row is not None and all(row[name] == value for name, value in before.items())


def record(tx: Transaction, run: Run, states: Mapping[str, tuple[str, str]], person: Person, note: str) -> None:
    rows = tx.by_ids("proposals", list(states))
    ends = [states[row] for row in rows["id"]]
    tx.upsert(
        "proposals",
        rows.with_columns(
            state=pl.Series([state for state, _ in ends], dtype=pl.String),
            outcome=pl.Series([outcome or None for _, outcome in ends], dtype=pl.String),
            decider=pl.lit(person.name),
            door=pl.lit(person.door),
            decided_at=pl.lit(run.now, dtype=frames.TIME),
            note=pl.lit(cleaned(note) or None, dtype=pl.String),
        ),
    )


def _decision_rows(run: Run, chosen: Sequence[Proposal], person: Person, note: str, action: str) -> pl.DataFrame:
    """The ledger: who said yes or no, to what, and why."""
    verb, note = {"approve": "said yes to", "reject": "said no to"}[action], cleaned(note)
    rows = [
        decision(
            action,
            each.id,
            each.touches,
            [change.id for change in each.changes] if action == "approve" else [],
            f"{person.name} {verb}: {each.title.rstrip('.')}{'.' if not note else f'; {note}'}",
            run.now,
            {"door": person.door, "risks": each.risks, "plan_hash": each.plan_hash},
            decided_by="person",
            key=(),
        )
        | {"approved_by": person.name, "proposal_id": each.id}
        for each in chosen
    ]
    return decision_frame(rows)


def _open_again(tx: Transaction, stale: Sequence[Proposal]) -> None:
    """Open stale patches again, so that the next run decides them."""
    facts = [change.id for each in stale if each.action == "patch" for change in each.changes]
    ids = tx.by_ids("facts", facts, ["patch_batch_id"], where="status = 'candidate'")["patch_batch_id"].unique()
    rows = tx.by_ids("patch_batches", ids.drop_nulls())
    tx.upsert("patch_batches", rows.with_columns(state=pl.lit("open")))


def _owners(run: Run, done: Sequence[Proposal]) -> list[str]:
    """The entities of which something else is known now."""
    snapshot = store_of(run).snapshot()
    touched = [change.id for each in done for change in each.changes]
    rows = [snapshot.by_ids(name, touched, ["owner_entity_id"]) for name in FACT_TABLES]
    owners = [each.subject_id for each in done] + pl.concat(rows)["owner_entity_id"].drop_nulls().to_list()
    return sorted(set(snapshot.by_ids("entities", owners, ["id"])["id"]))

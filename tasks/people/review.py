"""Review: a person says yes or no to what waits, and that is carried out in one commit, or refused as stale.

A split of an entity that holds too much is proposed here as well (S0-11 … S0-16, T3, T49).

The tasks decide within a run; `decide`, `apply_verdicts` and `leave_deletion` are runs of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from recall.entities import exact_row
from recall.proposals import Proposal, in_turn, list_proposals, proposal_named, proposals_by_id, stale_proposals
from recall.report import OBSERVED, called, suggest_split
from slowwave.common import frames
from slowwave.common.decisions import decision, decision_frame
from slowwave.common.errors import Refused, UnusableInput
from slowwave.common.run_counts import RunCount
from slowwave.common.settings import ApprovalSettings, IngestSettings, SplitSettings
from slowwave.common.validity import live_sql
from slowwave.review.changes import RowChange, decoded, in_brief
from slowwave.review.proposals import Person, Proposing, cleaned
from slowwave.review.split_plan import SplitPart, SplitPlan, ask_of, checked_splits, plan_split
from storage.changes import FACT_TABLES
from storage.drafts import write_changes
from storage.snapshots import Reading, Snapshot
from storage.transactions import Transaction
from tasks.entities.retirement import renew_profiles
from tasks.ingest.application import apply_patches
from tasks.runtime.engine import task
from tasks.runtime.runs import Run, as_run, embedder_of, existing_store, store_of, vector_column
from tasks.runtime.writing import proposal_of, proposing, settle_patches

from .observations import plan_to_retire, propose_deletion

Choice = Literal["approve", "reject"]


@dataclass(frozen=True, slots=True)
class DecidedProposal:
    """The result for a proposal: its state now, and why where it could not be carried out."""

    id: str
    state: str
    title: str
    outcome: str = ""


@task("approve proposals")
def approve(run: Run, ids: Sequence[str], person: Person, note: str = "") -> tuple[DecidedProposal, ...]:
    """Carry out what a person said yes to, in one commit; a stale proposal is refused.

    `ids` may be short forms. `Refused` where one is not open (T50). Candidates of a stale proposal are proposed again:
    a run that asks nobody would learn them without a yes.
    """
    done = _decide(run, ids, "approve", person, note)
    if stale := [each.id for each in done if each.state == "stale"]:
        _propose_again(run, stale)
    return done


@task("reject proposals")
def reject(run: Run, ids: Sequence[str], person: Person, note: str = "") -> tuple[DecidedProposal, ...]:
    """Leave things as they are because a person said no; the same is not proposed again."""
    return _decide(run, ids, "reject", person, note)


def _decide(run: Run, ids: Sequence[str], choice: Choice, person: Person, note: str) -> tuple[DecidedProposal, ...]:
    check_person(person)
    with store_of(run).commit(run.id, "review", run.now) as tx:
        chosen = open_proposals(tx, ids)
        states = _OUTCOMES[choice](tx, run, chosen, person)
        record(tx, run, states, person, note)
        meant = [each for each in chosen if states[each.id][0] != "stale"]
        tx.upsert("decisions", _decision_rows(run, meant, person, note, choice))
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
    closed = [each for each in chosen if each.state != "pending"]
    if closed:
        states = "; ".join(f"{each.id} is {each.state}" for each in closed)
        raise Refused(f"Nothing was decided: {states}.", "`slowwave review list` shows what waits.")
    return chosen


def _apply(tx: Transaction, run: Run, chosen: Sequence[Proposal], person: Person) -> dict[str, tuple[str, str]]:
    """State and outcome of each; those that change different rows are written at once, the others one after another."""
    states: dict[str, tuple[str, str]] = {}
    for part in in_turn(tx, chosen):
        stale = stale_proposals(tx, part, run.now)
        ways = {each.id: what_to_do(each) for each in part}
        states |= {row: ("stale", f"{in_brief(changed)} {ways[row]}") for row, changed in stale.items()}
        fresh = [each for each in part if each.id not in stale]
        write_changes(tx, [(one, _signed(each.id, person)) for each in fresh for one in each.changes], run.now)
        states |= {each.id: ("applied", "") for each in fresh}
    stale_batches = _batches_of(tx, [each for each in chosen if states[each.id][0] == "stale"])
    patches = tx.by_ids("patch_batches", stale_batches)  # are open again, so that `_propose_again` finds them
    tx.upsert("patch_batches", patches.with_columns(state=pl.lit("open")))
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


_OUTCOMES = {"approve": _apply, "reject": _turn_down}


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


def _batches_of(reading: Reading, proposals: Sequence[Proposal]) -> pl.Series:
    """The batches of candidates that still wait under these proposals."""
    facts = [change.id for each in proposals if each.action == "patch" for change in each.changes]
    found = reading.by_ids("facts", facts, ["patch_batch_id"], where="status = 'candidate'")["patch_batch_id"]
    return found.drop_nulls().unique()


def _propose_again(run: Run, stale: Sequence[str]) -> None:
    """Propose the candidates of stale proposals as they would be learned now."""
    snapshot = store_of(run).snapshot()
    batches = _batches_of(snapshot, proposals_by_id(snapshot, stale)).to_list()
    if batches:
        manual = IngestSettings(approval=ApprovalSettings(mode="manual"))
        apply_patches(run, manual, look_back=False, batch_ids=batches)


def _owners(run: Run, done: Sequence[Proposal]) -> list[str]:
    """The entities of which something else is known now."""
    snapshot = store_of(run).snapshot()
    touched = [change.id for each in done for change in each.changes]
    rows = [snapshot.by_ids(name, touched, ["owner_entity_id"]) for name in FACT_TABLES]
    owners = [each.subject_id for each in done] + pl.concat(rows)["owner_entity_id"].drop_nulls().to_list()
    return sorted(set(snapshot.by_ids("entities", owners, ["id"])["id"]))


# Runs of a person who reviews.


_COUNTS = {
    "applied": RunCount.PROPOSALS_CARRIED_OUT,
    "rejected": RunCount.PROPOSALS_REJECTED,
    "stale": RunCount.PROPOSALS_REFUSED_AS_STALE,
}
_AGAIN = {
    "split": "`slowwave split propose {subject!r}` plans it anew from what is known now.",
    "delete": "Propose it anew with `slowwave retire {subject!r} ID … --propose`.",
    "patch": "What still holds of it is proposed anew: `slowwave review list` shows it.",
}


def waiting(run: Run, action: str | None = None, limit: int | None = None) -> tuple[Proposal, ...]:
    """What waits for a person, oldest first; of one action."""
    return list_proposals(existing_store(run).snapshot(), "pending", action=action or None, limit=limit)


def decide(run: Run, ids: Sequence[str], choice: Choice, person: Person, note: str = "") -> tuple[DecidedProposal, ...]:
    """Approve or reject proposals by ids or short forms; raises before it begins where one is unknown or decided."""
    check_person(person)
    chosen = [each.id for each in open_proposals(existing_store(run).snapshot(), ids)]
    return _as_run(run, dict.fromkeys(chosen, choice), choice, person, note)


def _as_run(
    run: Run, verdicts: Mapping[str, Choice], choice: str, person: Person, note: str
) -> tuple[DecidedProposal, ...]:
    """Carry out the decisions on open proposals as one run: first approvals, then rejections."""

    def work() -> tuple[DecidedProposal, ...]:
        acts = {"approve": approve, "reject": reject}
        ids = {said: [row for row, verdict in verdicts.items() if verdict == said] for said in acts}
        return tuple(done for said, act in acts.items() if ids[said] for done in act(run, ids[said], person, note))

    parameters = {"proposals": list(verdicts), "choice": choice, "door": person.door}
    return as_run(run, parameters, work, counts_of)


def leave_deletion(run: Run, entity_id: str, ids: Sequence[str], reason: str = "") -> tuple[Proposal, Snapshot]:
    """A person's proposal to retire observations, and the state that holds it; raises as `retire` does."""
    store = existing_store(run)
    plan_to_retire(store.snapshot(), run, entity_id, ids)
    parameters = {"entity": entity_id, "ids": list(ids)}

    def work() -> Proposal:
        return propose_deletion(run, entity_id, ids, "person", reason)

    return as_run(run, parameters, work, lambda made: {RunCount.PROPOSALS: 1}), store.snapshot()


def apply_verdicts(
    run: Run, verdicts: Mapping[str, Choice], person: Person, note: str = ""
) -> tuple[DecidedProposal, ...]:
    """Carry out the decisions of a form, by proposal; what is no longer open is returned as it is."""
    rows = existing_store(run).snapshot().by_ids("proposals", list(verdicts), ["id", "state", "title", "outcome"])
    stored = {row: rest for row, *rest in rows.iter_rows()}
    found = {row: stored.get(row, ("gone", row, "It is no longer there.")) for row in verdicts}
    closed = tuple(
        DecidedProposal(row, state, title, outcome or f"It was {state} before.")
        for row, (state, title, outcome) in found.items() if state != "pending"
    )  # fmt: skip
    is_open = {row: verdict for row, verdict in verdicts.items() if found[row][0] == "pending"}
    return (*closed, *_as_run(run, is_open, "each", person, note)) if is_open else closed


def counts_of(done: Sequence[DecidedProposal]) -> dict[RunCount, int]:
    """How many proposals ended in each state."""
    return dict(Counter(_COUNTS[each.state] for each in done if each.state in _COUNTS))


def what_to_do(proposal: Proposal) -> str:
    """The way on from a proposal that has grown stale."""
    way = _AGAIN.get(proposal.action, "The next run that finds it proposes anew what still holds.")
    return way.format(subject=proposal.subject)


# Splits: an entity is parted by topic, once a person said yes.


_OBSERVATION = ("id", "statement", "valid_from")


@task("propose a split")
def propose_split(
    run: Run,
    name: str,
    settings: SplitSettings,
    splits: Sequence[SplitPart] | None = None,
    *,
    proposed_by: str = "rule",
) -> Proposal:
    """Leave a split for a person to decide: this one, or what its topics suggest; the same waits only once.

    Raises `UnknownName` for an unknown entity, `UnusableInput` for a plan that cannot be carried out as a whole, and
    `Refused` where a name belongs to somebody else (T3), nothing is to be split, or a person said no to it before.
    """
    snapshot = store_of(run).snapshot()
    parent = exact_row(snapshot, name)
    chosen, message = splits, "Asked for as it is."
    if chosen is None:
        suggestion = suggest_split(snapshot, settings, run.now, parent["id"])
        chosen, message = suggestion.splits, suggestion.message
        if not chosen:
            raise Refused(message, f"What it holds: slowwave facts {parent['id']}")
    checked, plan = _plan(run, snapshot, parent, chosen)
    vectors = vector_column(embedder_of(run).embed(list(plan.to_embed)))
    asking = proposing(run, _what(parent, checked, message, proposed_by))
    with store_of(asking).commit(run.id, "entity.split", run.now) as tx:
        if tx.is_overtaken(snapshot):
            _, plan = _plan(run, tx, parent, checked)
        whole = tx.by_ids("facts", plan.moved["id"], with_vector=True).drop("owner_entity_id")
        moved = whole.join(plan.moved, on="id", maintain_order="left").sort("id")
        tx.upsert("entities", plan.entities.with_columns(vectors))
        tx.upsert("entity_aliases", plan.aliases)
        tx.upsert("facts", pl.concat([moved, plan.structure], how="diagonal"))
        tx.upsert("decisions", plan.decisions)
    return proposal_of(run, "split", parent["id"], ask_of(checked))


def _plan(
    run: Run, reading: Reading, parent: Mapping[str, Any], splits: Sequence[SplitPart]
) -> tuple[tuple[SplitPart, ...], SplitPlan]:
    """The splits with whole ids, and their rows, for one state of the store; raises where they cannot be carried out.

    Observations keep everything but their owner.
    """
    where = f"{OBSERVED} AND {live_sql(run.now)}"
    observations = reading.by_ids("facts", [parent["id"]], _OBSERVATION, key="owner_entity_id", where=where)
    known = called(reading, [each.name for each in splits])
    owners = reading.by_ids("entities", known["entity_id"], ["id", "name", "entity_type"])
    taken = known.join(owners, left_on="entity_id", right_on="id").select(
        "alias_name", called=pl.format("{} ({})", "name", "entity_type")
    )
    checked = checked_splits(parent, splits, observations, taken)
    return checked, plan_split(parent, checked, observations, run.now)


def _what(parent: Mapping[str, Any], splits: Sequence[SplitPart], message: str, proposed_by: str) -> Proposing:
    count = sum(len(each.observations) for each in splits)
    return Proposing(
        "split",
        together=True,
        title=f"Split {parent['name']} into {len(splits)} ({count} observation{'s' if count != 1 else ''})",
        reason=message,
        ask=ask_of(splits),
        owners=(parent["id"],),
        subject_id=parent["id"],
        subject=parent["name"],
        proposed_by=proposed_by,
    )


def propose(run: Run, name: str, settings: SplitSettings, splits: Sequence[SplitPart] | None = None) -> Proposal:
    """`propose_split` of a person as a run of its own."""
    exact_row(existing_store(run).snapshot(), name)
    return as_run(
        run,
        {"entity": name},
        lambda: propose_split(run, name, settings, splits, proposed_by="person"),
        lambda done: {RunCount.PROPOSALS: 1, RunCount.NEW_ENTITIES: len(done.ask["splits"])},
    )

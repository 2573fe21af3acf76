"""Runs of a person who reviews: verdicts on proposals are carried out, or a proposal is modified, as one run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from recall.proposals import OPEN, Proposal, list_proposals, proposal_named, proposals_by_id
from slowwave.common.errors import Refused, UnusableInput
from slowwave.common.run_counts import RunCount
from slowwave.common.settings import SplitSettings
from slowwave.review.proposals import Person
from slowwave.review.split_plan import splits_of
from storage.snapshots import Snapshot
from tasks.runtime.runs import Run, as_run, existing_store, store_of

from .observations import plan_to_retire, propose_deletion
from .review import Choice, DecidedProposal, approve, approve_for_later, check_person, open_proposals, record, reject
from .splitting import propose_split

_COUNTS = {
    "applied": RunCount.PROPOSALS_CARRIED_OUT,
    "rejected": RunCount.PROPOSALS_REJECTED,
    "stale": RunCount.PROPOSALS_REFUSED_AS_STALE,
    "approved": RunCount.PROPOSALS_APPROVED_FOR_LATER,
    "pending": RunCount.PROPOSALS_WAITING,
}
_AGAIN = {
    "split": "`slowwave split propose {subject!r}` plans it anew from what is known now.",
    "delete": "Propose it anew with `slowwave retire {subject!r} ID … --propose`.",
}


def waiting(
    run: Run, action: str | None = None, *, risky: bool | None = None, limit: int | None = None
) -> tuple[Proposal, ...]:
    """What waits for a person, oldest first; of one action, and only what has a risk, or has none."""
    found = list_proposals(existing_store(run).snapshot(), "pending", action=action or None)
    chosen = [each for each in found if risky is None or each.is_risky == risky]
    return tuple(chosen[:limit])


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
        acts = {"approve": approve, "later": approve_for_later, "reject": reject}
        ids = {said: [row for row, verdict in verdicts.items() if verdict == said] for said in acts}
        return tuple(done for said, act in acts.items() if ids[said] for done in act(run, ids[said], person, note))

    parameters = {"proposals": list(verdicts), "choice": choice, "door": person.door}
    return as_run(run, parameters, work, counts_of)


def modified(run: Run, id_: str, ask: Mapping[str, Any], person: Person) -> DecidedProposal:
    """Put a proposal with a changed ask in the place of one that waits."""
    check_person(person)
    chosen = open_proposals(existing_store(run).snapshot(), [id_])[0].id
    parameters = {"proposals": [chosen], "choice": "modify", "door": person.door}
    return as_run(run, parameters, lambda: modify(run, chosen, ask, person), lambda done: counts_of([done]))


def leave_deletion(run: Run, entity_id: str, ids: Sequence[str], reason: str = "") -> tuple[Proposal, Snapshot]:
    """A person's proposal to retire observations, for another person to decide; and the state that holds it.

    Raises before it begins where one of them may not be retired.
    """
    store = existing_store(run)
    plan_to_retire(store.snapshot(), run, entity_id, ids)
    parameters = {"entity": entity_id, "ids": list(ids)}

    def work() -> Proposal:
        return propose_deletion(run, entity_id, ids, "person", reason)

    return as_run(run, parameters, work, lambda made: {RunCount.PROPOSALS: 1}), store.snapshot()


def apply_verdicts(
    run: Run, verdicts: Mapping[str, Choice], person: Person, note: str = ""
) -> tuple[DecidedProposal, ...]:
    """Carry out the decisions of a form, by proposal.

    Tolerant of a second time: what is no longer open, because this was done before or somebody else decided
    meanwhile, is returned as it is.
    """
    rows = existing_store(run).snapshot().by_ids("proposals", list(verdicts), ["id", "state", "title", "outcome"])
    stored = {row: rest for row, *rest in rows.iter_rows()}
    found = {row: stored.get(row, ("gone", row, "It is no longer there.")) for row in verdicts}
    closed = tuple(
        DecidedProposal(row, state, title, outcome or f"It was {state} before.")
        for row, (state, title, outcome) in found.items() if state not in OPEN
    )  # fmt: skip
    is_open = {row: verdict for row, verdict in verdicts.items() if found[row][0] in OPEN}
    return (*closed, *_as_run(run, is_open, "each", person, note)) if is_open else closed


def counts_of(done: Sequence[DecidedProposal]) -> dict[RunCount, int]:
    """How many proposals ended in each state."""
    return dict(Counter(_COUNTS[each.state] for each in done if each.state in _COUNTS))


def what_to_do(proposal: Proposal) -> str:
    """The way on from a proposal that has grown stale."""
    way = _AGAIN.get(proposal.action, "The next run that finds it proposes anew what still holds.")
    return way.format(subject=proposal.subject)


def with_ways_on(run: Run, done: Sequence[DecidedProposal]) -> tuple[DecidedProposal, ...]:
    """The same, in which what was refused as stale says what can be done about it."""
    snapshot = existing_store(run).snapshot()
    return tuple(
        replace(each, outcome=f"{each.outcome} {what_to_do(proposal_named(snapshot, each.id))}")
        if each.state == "stale" else each
        for each in done
    )  # fmt: skip


# Modifying: the same proposal with a changed ask, planned again from what memory holds now.


def modify(run: Run, proposal_id: str, ask: Mapping[str, Any], person: Person) -> DecidedProposal:
    """Propose the same with a changed ask, in place of the old proposal; the new one waits for a yes of its own.

    Splits (their `splits`) and deletions (their `observations`) can be modified; anything else is approved or rejected.
    """
    check_person(person)
    store = store_of(run)
    old = open_proposals(store.snapshot(), [proposal_id])[0]
    fresh = propose_anew(run, old, ask)
    if fresh.id == old.id:
        raise UnusableInput(f"Nothing of {old.id} was modified.", "Change its ask, or approve it as it is.")
    with store.commit(run.id, "review", run.now) as tx:
        still = any(each.state in OPEN for each in proposals_by_id(tx, [old.id]))
        ended = {old.id: ("replaced", f"{person.name} modified it: {fresh.id}")}
        record(tx, run, ended if still else {fresh.id: ("replaced", f"{old.id} was decided first")}, person, "")
    if not still:
        raise Refused(
            f"{old.id} was decided meanwhile; nothing was modified.", "`slowwave review list` shows what waits."
        )
    return DecidedProposal(fresh.id, "pending", fresh.title, replaced_by="", outcome=f"In place of {old.id}")


def propose_anew(run: Run, old: Proposal, ask: Mapping[str, Any]) -> Proposal:
    """A proposal of the same action with another ask; `UnusableInput` for one that cannot be modified."""
    if old.action == "split":
        made = propose_split(run, old.subject_id, SplitSettings(), splits_of(ask), proposed_by="person")
        return proposal_named(store_of(run).snapshot(), made.proposal_id)
    if old.action != "delete":
        raise UnusableInput(
            f"A proposal to {old.action} can only be approved or rejected.", "Only split and delete can be modified."
        )
    chosen = ask.get("observations")
    if not isinstance(chosen, list) or not all(isinstance(each, str) for each in chosen):
        raise UnusableInput("There is no list of observations.", 'Give {"observations": ["f_…", …]}.')
    return propose_deletion(run, old.subject_id, chosen, proposed_by="person")

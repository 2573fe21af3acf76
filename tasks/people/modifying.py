"""Modifying: the same proposal with a changed ask, planned again from what memory holds now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recall.proposals import Proposal, proposal_named, proposals_by_id
from slowwave.errors import Refused, UnusableInput
from slowwave.review.proposals import Person
from slowwave.settings import SplitSettings
from slowwave.splitting.split_plan import splits_of
from storage.transactions import Transaction
from tasks.runtime.runs import Run, store_of

from .observations import propose_deletion
from .review import OPEN, DecidedProposal, check_person, open_proposals, record
from .splitting import propose_split


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
        still = _is_open(tx, old.id)
        ended = {old.id: ("replaced", f"{person.name} modified it: {fresh.id}")}
        record(tx, run, ended if still else {fresh.id: ("replaced", f"{old.id} was decided first")}, person, "")
    if not still:
        raise Refused(
            f"{old.id} was decided meanwhile; nothing was modified.", "`slowwave review list` shows what waits."
        )
    return DecidedProposal(fresh.id, "pending", fresh.title, replaced_by="", outcome=f"In place of {old.id}")


def _is_open(tx: Transaction, proposal_id: str) -> bool:
    return any(each.state in OPEN for each in proposals_by_id(tx, [proposal_id]))


def propose_anew(run: Run, old: Proposal, ask: Mapping[str, Any]) -> Proposal:
    """A proposal of the same action with another ask; `UnusableInput` for one that cannot be modified."""
    makers = {"split": _split, "delete": _delete}
    if old.action not in makers:
        raise UnusableInput(
            f"A proposal to {old.action} can only be approved or rejected.", "Only split and delete can be modified."
        )
    return makers[old.action](run, old, ask)


def _split(run: Run, old: Proposal, ask: Mapping[str, Any]) -> Proposal:
    made = propose_split(run, old.subject_id, SplitSettings(), splits_of(ask), proposed_by="person")
    return proposal_named(store_of(run).snapshot(), made.proposal_id)


def _delete(run: Run, old: Proposal, ask: Mapping[str, Any]) -> Proposal:
    chosen = ask.get("observations")
    if not isinstance(chosen, list) or not all(isinstance(each, str) for each in chosen):
        raise UnusableInput("There is no list of observations.", 'Give {"observations": ["f_…", …]}.')
    return propose_deletion(run, old.subject_id, chosen, proposed_by="person")

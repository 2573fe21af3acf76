"""Writing: a decision becomes one commit of a run, or proposals that wait for a person."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence, Sized
from dataclasses import replace
from typing import TypeVar

import polars as pl

from recall.proposals import Proposal, list_proposals
from slowwave.common.errors import Refused
from slowwave.common.settings import ApprovalSettings
from slowwave.review.proposals import Proposing
from storage.drafts import APPROVED
from storage.rows import quoted
from storage.snapshots import Reading
from storage.transactions import Transaction

from .runs import Run, store_of

Decision = TypeVar("Decision", bound=Sized)


def decide_and_write(
    run: Run,
    kind: str,
    decide: Callable[[Reading], Decision],
    write: Callable[[Transaction, Decision], None],
    *,
    dry_run: bool = False,
) -> Decision:
    """Decide on a snapshot and write that as one commit, or none where the decision is empty; returns the decision.

    Deciding may take long and does not hold the lease. It is done again under the lease only where another run wrote
    meanwhile. A dry run decides and writes nothing.
    """
    store = store_of(run)
    snapshot = store.snapshot()
    decision = decide(snapshot)
    if dry_run or not len(decision):
        return decision
    with store.commit(run.id, kind, run.now) as tx:
        if tx.is_overtaken(snapshot):
            decision = decide(tx)
        if len(decision):
            write(tx, decision)
    return decision


# Proposals: changes of a run that wait for a person.


def proposing(run: Run, what: Proposing) -> Run:
    """The run, so that whatever a task writes with it waits for a person."""
    return replace(run, proposes=what)


def under_approval(
    run: Run, action: str, approval: ApprovalSettings, *, require: bool = False, risks: bool = True
) -> Run:
    """The run, so that what a person has to decide waits: all of it where approval is required, else what is risky.

    Without `risks` the task is one that never does what is always a person's, and nothing is looked at for it.
    """
    if require or approval.mode == "manual":
        return proposing(run, Proposing(action, "all", approval=approval))
    return proposing(run, Proposing(action, "risky", approval=approval)) if risks else run


def applies_at_once(run: Run, approval: ApprovalSettings) -> bool:
    """Whether what the run learned is applied without a person."""
    return under_approval(run, "patch", approval, risks=False).proposes is None


def titles_of(run: Run) -> list[str]:
    """What the run proposed, a line each."""
    return (
        store_of(run)
        .snapshot()
        .frame("proposals", f"run_id = {quoted(run.id)}", ["title"], order=["id"])["title"]
        .to_list()
    )


def touched_by(reading: Reading, action: str) -> list[set[str]]:
    """The rows of each proposal of an action that a person is asked about, or has answered: it is not made again."""
    answered = f"action = {quoted(action)} AND state IN ('pending', 'rejected')"
    return [set(ids) for ids in reading.frame("proposals", answered, ["touches"])["touches"]]


def proposal_of(run: Run, action: str, subject_id: str, ask: str) -> Proposal:
    """The proposal that waits for the very same ask; `Refused` where a person said no to it."""
    same = [
        each
        for state in ("pending", "rejected")
        for each in list_proposals(store_of(run).snapshot(), state, action=action, entity=subject_id)
        if each.ask == json.loads(ask)
    ]
    if not same:
        raise Refused("There was nothing to propose.", "Look again at what is known: it may have changed meanwhile.")
    if same[0].state == "rejected":
        raise Refused(f"{same[0].decider} said no to it: {same[0].id}.", "A person can propose it again.")
    return same[0]


def settle_patches(tx: Transaction, facts: Sequence[str] | pl.Series) -> None:
    """Close the patches of these facts in which nothing waits any more (S3-12)."""
    ids = tx.by_ids("facts", facts, ["patch_batch_id"])["patch_batch_id"].drop_nulls().unique()
    waiting = tx.by_ids("patch_batches", ids, where="state = 'needs_review'")
    left = tx.by_ids("facts", waiting["id"], ["patch_batch_id", "status"], key="patch_batch_id")
    open_ids = left.filter(pl.col("status") == "candidate")["patch_batch_id"].unique()
    applied = left.filter(pl.col("status").is_in(APPROVED))["patch_batch_id"]
    done = waiting.filter(~pl.col("id").is_in(open_ids.implode()))
    state = (
        pl.when(pl.col("id").is_in(applied.unique().implode())).then(pl.lit("applied")).otherwise(pl.lit("rejected"))
    )
    tx.upsert("patch_batches", done.with_columns(state=state, decided_by=pl.lit("person")))

"""Reviewing: a person's verdicts on proposals are carried out as one run, which can be undone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Literal

from recall.proposals import Proposal, list_proposals, proposal_named
from slowwave.errors import SlowwaveError
from slowwave.review.proposals import (
    EACH,
    Bulk,
    Person,
    ProposalQuestion,
    ReviewVerdict,
    as_plain,
    complaints,
    from_plain,
)
from storage.snapshots import Snapshot
from storage.store import Store
from tasks.runtime.engine import is_inline, log
from tasks.runtime.runs import Run, as_run, existing_store

from .modifying import modify
from .observations import plan_to_retire, propose_deletion
from .review import OPEN, DecidedProposal, approve, approve_for_later, check_person, open_proposals, reject
from .review_forms import bare, filled_in, form_of, publish_waiting, questions_about

Choice = Literal["approve", "later", "reject"]
_COUNTS = {
    "applied": "proposals carried out",
    "rejected": "proposals rejected",
    "stale": "proposals refused as stale",
    "approved": "proposals approved for later",
    "pending": "proposals that wait",
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
    work: Mapping[Choice, Callable[[], tuple[DecidedProposal, ...]]] = {
        "approve": lambda: approve(run, chosen, person, note),
        "reject": lambda: reject(run, chosen, person, note),
        "later": lambda: tuple(approve_for_later(run, each, person, note) for each in chosen),
    }
    return as_run(run, {"proposals": chosen, "choice": choice, "door": person.door}, work[choice], _counted)


def modified(run: Run, id_: str, ask: Mapping[str, Any], person: Person) -> DecidedProposal:
    """Put a proposal with a changed ask in the place of one that waits."""
    check_person(person)
    chosen = open_proposals(existing_store(run).snapshot(), [id_])[0].id
    parameters = {"proposals": [chosen], "choice": "modify", "door": person.door}
    return as_run(run, parameters, lambda: modify(run, chosen, ask, person), lambda done: _counted([done]))


def leave_deletion(run: Run, entity_id: str, ids: Sequence[str], reason: str = "") -> tuple[Proposal, Snapshot]:
    """A person's proposal to retire observations, for another person to decide; and the state that holds it.

    Raises before it begins where one of them may not be retired.
    """
    store = existing_store(run)
    plan_to_retire(store.snapshot(), run, entity_id, ids)
    parameters = {"entity": entity_id, "ids": list(ids)}

    def work() -> Proposal:
        return propose_deletion(run, entity_id, ids, "person", reason)

    return as_run(run, parameters, work, lambda made: {"proposals": 1}), store.snapshot()


def carry_out(
    run: Run, verdicts: Sequence[ReviewVerdict], person: Person, note: str = ""
) -> tuple[DecidedProposal, ...]:
    """Carry out the verdicts: first approvals, then rejections, then modifications.

    Tolerant of a second time: what is no longer open, because this was done before or somebody else decided
    meanwhile, is returned as it is. A proposal that cannot be modified is returned too, and waits on.
    """
    store = existing_store(run)
    is_open, closed = _sorted_out(store, verdicts)
    if not is_open:
        return closed

    def work() -> tuple[DecidedProposal, ...]:
        done: list[DecidedProposal] = []
        for choice, act in (("approve", approve), ("reject", reject)):
            ids = [each.id for each in is_open if each.decision == choice]
            done += act(run, ids, person, note) if ids else ()
        done += [_tried(run, each, person) for each in is_open if each.decision == "modify"]
        return tuple(done)

    parameters = {"proposals": [each.id for each in is_open], "choice": "each", "door": person.door}
    return (*closed, *as_run(run, parameters, work, _counted))


def _sorted_out(
    store: Store, verdicts: Sequence[ReviewVerdict]
) -> tuple[list[ReviewVerdict], tuple[DecidedProposal, ...]]:
    """The verdicts on open proposals, and the results of the others."""
    ids = [each.id for each in verdicts]
    rows = store.snapshot().by_ids("proposals", ids, ["id", "state", "title", "outcome"])
    stored = {row: rest for row, *rest in rows.iter_rows()}
    closed = []
    for row in ids:
        state, title, outcome = stored.get(row, ("gone", "", "It is no longer there."))
        if state not in OPEN:
            closed.append(DecidedProposal(row, state, title or row, outcome or f"It was {state} before."))
    return [each for each in verdicts if stored.get(each.id, ("gone",))[0] in OPEN], tuple(closed)


def _tried(run: Run, verdict: ReviewVerdict, person: Person) -> DecidedProposal:
    try:
        return modify(run, verdict.id, verdict.ask or {}, person)
    except SlowwaveError as error:
        found = proposal_named(existing_store(run).snapshot(), verdict.id)
        return DecidedProposal(found.id, found.state, found.title, f"It was not modified: {error}")


def _counted(done: Sequence[DecidedProposal]) -> dict[str, int]:
    return dict(Counter(_COUNTS.get(each.state, each.state) for each in done))


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


# Answers: the questions of a review are kept with the flow run, and asked until the answer is one that can be meant.
# Prefect executes a flow that was suspended from its first line. So the questions are written down once, as an input
# of the flow run, and every form has a key of its own that is the same in each execution.


KEPT = "review-asked"


@dataclass(frozen=True, slots=True)
class FormAnswer:
    """The answer of a person: name, decision on proposals without risk, and verdicts by id."""

    name: str
    low_risk: Bulk
    note: str
    verdicts: Mapping[str, ReviewVerdict]


async def frozen(run: Run, action: str, limit: int) -> tuple[ProposalQuestion, ...]:
    """What to ask about: what waits now, shown on the run's page; when the run goes on, what waited when it began."""
    if is_inline():
        return _questions(run, action, limit)
    from prefect.input import acreate_flow_run_input, aread_flow_run_input

    kept = await aread_flow_run_input(KEPT)
    if kept is None:
        questions = _questions(run, action, limit)
        if questions:
            await publish_waiting(run, questions)
        kept = as_plain(questions)
        await acreate_flow_run_input(KEPT, kept)
    return from_plain(kept)


def _questions(run: Run, action: str, limit: int) -> tuple[ProposalQuestion, ...]:
    return questions_about(existing_store(run).snapshot(), waiting(run, action, limit=limit))


async def answered(questions: Sequence[ProposalQuestion], person: str, timeout_hours: float) -> FormAnswer:
    """Suspend until a person answers; an answer that cannot be meant is asked for again, with the reason."""
    from prefect.flow_runs import asuspend_flow_run

    given: dict[str, Any] = {}
    why: tuple[str, ...] = ()
    bare_ones = tuple(map(bare, questions))
    for number in count(1):
        form = form_of(questions, person, given, why)
        log.info("Waiting for a person: press Resume on this run, or use `slowwave review`.")
        answer = await asuspend_flow_run(form, timeout=round(timeout_hours * 3600), key=f"review-{number}")
        given = answer.model_dump()
        verdicts = filled_in(questions, given)
        low_risk = given.get("low_risk", EACH)
        why = complaints(bare_ones, verdicts, given["name"])
        if not why:
            return FormAnswer(" ".join(given["name"].split()), low_risk, given["note"], verdicts)
    raise AssertionError("unreachable")

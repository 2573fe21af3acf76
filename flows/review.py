"""Review: what waits is put before a person as a form, and what they say is carried out."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from slowwave.review.proposals import Person
from tasks.people.review_forms import answered, can_ask, frozen, nobody_to_ask, nothing_waits, publish_decided
from tasks.people.review_runs import apply_verdicts, with_ways_on
from tasks.runtime.engine import flow
from tasks.runtime.retrying import ONCE
from tasks.runtime.runs import existing_run


@flow("review", tries=ONCE)
async def review(
    namespace: str = "default",
    store: str = "./memory",
    action: str = "",
    limit: Annotated[int, Field(ge=1, le=100)] = 20,
    person: str = "",
    timeout_hours: Annotated[float, Field(gt=0, le=8760)] = 168,
    now: datetime | None = None,
) -> dict[str, Any]:
    """Put what waits before a person, and carry out what they say.

    The run suspends itself, which takes neither a worker nor a place in the queue, until somebody presses Resume and
    fills in the form. What rests on something that has changed meanwhile is refused and told. Where nobody answers in
    time the run fails and everything waits on.

    Args:
        namespace: Which memory inside the store; tenants are kept apart by it.
        store: Folder or address of the store.
        action: Only proposals of this action, such as split, delete, merge or prune; empty for all.
        limit: How many to put on one form, the oldest first.
        person: The name that the form is filled in with; it can be changed there.
        timeout_hours: How long to wait for an answer.
        now: The time that counts as now; empty for the real time.
    """
    run = existing_run("review", store, namespace, now)
    questions = await frozen(run, action, limit)
    if not questions:
        return await nothing_waits(run)
    if not can_ask():
        return await nobody_to_ask(run, questions)
    answer = await answered(questions, person, timeout_hours)
    decider = Person(answer.name, "prefect")
    done = with_ways_on(run, apply_verdicts(run, answer.verdicts, decider, answer.note))
    return await publish_decided(run, questions, answer.verdicts, done, decider.name)

"""Answers: the questions of a review are kept with the flow run, and asked until the answer is one that can be meant.

Prefect executes a flow that was suspended from its first line. So the questions are written down once, as an input of
the flow run, and every form has a key of its own that is the same in each execution.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from slowwave.review.verdicts import EACH, Asked, Bulk, Verdict, as_plain, complaints, from_plain

from .engine import is_inline, log
from .own_runs import existing_store
from .review_forms import asked_about, bare, filled_in, form_of
from .review_pages import publish_waiting
from .reviewing import waiting
from .runs import Run

KEPT = "review-asked"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a person filled in: who, what about everything without risk, and what about each, by id."""

    name: str
    low_risk: Bulk
    note: str
    said: Mapping[str, Verdict]


async def frozen(run: Run, action: str, limit: int) -> tuple[Asked, ...]:
    """What to ask about: what waits now, shown on the run's page; when the run goes on, what waited when it began."""
    if is_inline():
        return _asked(run, action, limit)
    from prefect.input import acreate_flow_run_input, aread_flow_run_input

    kept = await aread_flow_run_input(KEPT)
    if kept is None:
        asked = _asked(run, action, limit)
        if asked:
            await publish_waiting(run, asked)
        kept = as_plain(asked)
        await acreate_flow_run_input(KEPT, kept)
    return from_plain(kept)


def _asked(run: Run, action: str, limit: int) -> tuple[Asked, ...]:
    return asked_about(existing_store(run).snapshot(), waiting(run, action, limit=limit))


async def answered(asked: Sequence[Asked], person: str, timeout_hours: float) -> Answer:
    """Suspend until somebody answers; what cannot be meant is asked again, with the reason."""
    from prefect.flow_runs import asuspend_flow_run

    given: dict[str, Any] = {}
    why: tuple[str, ...] = ()
    bare_ones = tuple(map(bare, asked))
    for number in count(1):
        form = form_of(asked, person, given, why)
        log.info("Waiting for a person: press Resume on this run, or use `slowwave review`.")
        told = await asuspend_flow_run(form, timeout=round(timeout_hours * 3600), key=f"review-{number}")
        given = told.model_dump()
        said = filled_in(asked, given)
        low_risk = given.get("low_risk", EACH)
        why = complaints(bare_ones, said, given["name"], low_risk)
        if not why:
            return Answer(" ".join(given["name"].split()), low_risk, given["note"], said)
    raise AssertionError("unreachable")

"""Pages of a review: what waits, and what became of it, on the page of the run and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from slowwave.review.verdicts import Asked, Verdict

from .engine import is_inline, log
from .review import Decided
from .review_forms import markdown_of
from .runs import Run
from .summaries import markdown_table, plain_text

STATES = {
    "applied": "carried out",
    "rejected": "rejected",
    "stale": "refused: stale",
    "approved": "approved for later",
    "pending": "waits",
    "replaced": "replaced",
}


def can_ask() -> bool:
    """Whether the run can be suspended: under Prefect, and from a deployment."""
    if is_inline():
        return False
    from prefect import runtime

    return runtime.deployment.id is not None


async def nothing_waits(run: Run) -> dict[str, Any]:
    """The end of a run that has nothing to ask."""
    log.info("Nothing waits in namespace %s.", run.namespace)
    await _publish_note("Nothing waits. Nothing was changed, and no model was asked.")
    return {"run": run.id, "state": "completed", "waiting": [], "decided": [], "note": "Nothing waits."}


async def nobody_to_ask(run: Run, asked: Sequence[Asked]) -> dict[str, Any]:
    """The end of a run that cannot be suspended: without Prefect, or not from a deployment."""
    place = f"--store {run.store} --namespace {run.namespace}"
    note = f"{len(asked)} waiting. Decide in a terminal: slowwave review list {place}"
    log.info("%s", note)
    await _publish_note(f"{note} Nothing was changed, and no model was asked.")
    return {"run": run.id, "state": "completed", "waiting": _plain(asked), "decided": [], "note": note}


async def _publish_note(note: str) -> None:
    """The summary of a run that put nothing before anybody."""
    if not is_inline():
        from prefect.artifacts import acreate_markdown_artifact

        await acreate_markdown_artifact(plain_text(note), key="review-summary", description="What a person decided")


async def publish_waiting(run: Run, asked: Sequence[Asked]) -> None:
    """Show on the run's page what waits, with reasons, risks and what would change."""
    from prefect.artifacts import acreate_markdown_artifact

    lines = [f"# {len(asked)} waiting", "", "Press Resume above and fill in the form, or decide in a terminal:", ""]
    lines += [f"`slowwave review list --store {run.store} --namespace {run.namespace}`", ""]
    lines += [line for number, each in enumerate(asked, 1) for line in markdown_of(number, each)]
    await acreate_markdown_artifact("\n".join(lines), key="review-waiting", description="What waits for a person")


async def publish_decided(
    run: Run, asked: Sequence[Asked], verdicts: Sequence[Verdict], done: Sequence[Decided], name: str
) -> dict[str, Any]:
    """Show what became of it; returns the same as plain data."""
    from prefect.artifacts import acreate_markdown_artifact

    meant = {each.id for each in verdicts}
    left = [each for each in asked if each.id not in meant]
    rows = [(each.title, STATES.get(each.state, each.state), each.outcome) for each in done]
    rows += [(each.title, "waits", "") for each in left]
    place = f"--store {run.store} --namespace {run.namespace}"
    lines = [f"# {plain_text(name)} decided", "", *markdown_table(("proposal", "became", "why"), rows)]
    lines += [f"Take it back: `slowwave undo {run.id} {place}`."] if done else []
    lines += ["", "No model was asked: 0 calls, 0 dollars."]
    await acreate_markdown_artifact("\n".join(lines), key="review-summary", description="What a person decided")
    state = "incomplete" if any(each.state == "stale" for each in done) else "completed"
    decided = [asdict(each) for each in done]
    return {"run": run.id, "state": state, "by": name, "waiting": _plain(left), "decided": decided, "note": ""}


def _plain(asked: Sequence[Asked]) -> list[dict[str, Any]]:
    return [{"id": each.id, "action": each.action, "title": each.title, "risky": each.is_risky} for each in asked]

"""Oversight: what a person looks at, decides or changes in a memory as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from inference.embedding import open_embedder
from slowwave.common.run_counts import RunCount
from slowwave.common.settings import DEFAULT_EMBEDDER, ReembedSettings, ReportSettings
from tasks.entities.derived import link_entities
from tasks.orchestration.phases import check_recall, conclude, freeze_probes
from tasks.orchestration.tallies import Tally
from tasks.people.reporting import (
    answered,
    can_ask,
    examine_store,
    frozen,
    look_over,
    nobody_to_ask,
    publish_decided,
    publish_findings,
    publish_report,
)
from tasks.people.review import apply_verdicts
from tasks.runtime.engine import flow
from tasks.runtime.retrying import ONCE
from tasks.runtime.runs import existing_run, new_run, recorded
from tasks.transfer.reembedding import NewVectors, count_texts, has_links, reembed_rows, remarks_on

# Report: what in a memory wants a person's eye.


@flow("report")
async def report(
    namespace: str = "default",
    store: str = "./memory",
    stale_days: float | None = None,
    settings: ReportSettings = ReportSettings(),  # noqa: B008 (frozen)
    now: datetime | None = None,
) -> dict[str, Any]:
    """Look over the whole memory: what should be split, what repeats, what nobody reads.

    Nothing is changed.

    Args:
        stale_days: Days without a read after which an entity is stale; empty: as the settings say.
        settings: What is stale or large, and how many of the most read entities are looked at for repeats.
    """
    run = existing_run("report", store, namespace, now, settings.retention)
    summary = {**look_over(run, settings, stale_days), "namespace": namespace}
    await publish_report(run, summary)
    return summary


# Review: what waits is put before a person as a form, and what they say is carried out.


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
        action: Only proposals of this action, such as split, delete, merge or prune; empty for all.
        limit: How many to put on one form, the oldest first.
        person: The name that the form is filled in with; it can be changed there.
        timeout_hours: How long to wait for an answer.
    """
    run = existing_run("review", store, namespace, now)
    questions = await frozen(run, action, limit)
    if not questions or not can_ask():
        return await nobody_to_ask(run, questions)
    decider, note, verdicts = await answered(questions, person, timeout_hours)
    done = apply_verdicts(run, verdicts, decider, note)
    return await publish_decided(run, questions, verdicts, done, decider.name)


# Doctor: whether a namespace is as it should be.


@flow("doctor", takes_turns=True)
async def doctor(
    namespace: str = "default", store: str = "./memory", repair: bool = False, now: datetime | None = None
) -> dict[str, Any]:
    """Look for duplicate keys, dangling ids, cycles, files that cannot be read and other damage.

    The run fails where something is wrong, with all of it in a table on its page.

    Args:
        repair: Mend what can be mended, as one commit that can be undone.
    """
    run = new_run("doctor", store, namespace, "", now)
    found = examine_store(run, repair=repair)
    await publish_findings(run, found)
    return found


# Re-embed: another embedding model for a whole memory.


@flow("reembed", takes_turns=True, tries=ONCE)  # another run of it would embed all texts again
async def reembed(
    namespace: str = "default",
    store: str = "./memory",
    embedder: str = DEFAULT_EMBEDDER,
    settings: ReembedSettings = ReembedSettings(),  # noqa: B008 (frozen)
    now: datetime | None = None,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Give every row a vector of another model, without asking a language model; published all at once.

    Who reads or writes meanwhile goes on with the old vectors, which older versions keep afterwards: undo brings them
    back.

    Args:
        embedder: The embedding model to turn to, provider/model.
        settings: The gate, links, and how long old vectors are kept.
    """
    run = existing_run("reembed", store, namespace, now, settings.retention)
    vectors = NewVectors(open_embedder(embedder))
    model = vectors.embedder.name
    is_new, frozen = model != run.embedder, None
    rows: Mapping[str, int] = {}
    tally = Tally(run.id, dry_run=dry_run, idle="" if is_new else f"All vectors are of {model} already.")
    tally.remarks += remarks_on(run.embedder, model, dry_run=dry_run) if is_new else []
    parameters = {"embedder": embedder, "settings": settings.model_dump()}
    with recorded(run, tally, parameters, dry_run=dry_run) as run:
        if is_new and dry_run:
            tally.counts[RunCount.DIFFERENT_TEXTS] += count_texts(run)
        elif is_new:
            frozen = freeze_probes(run, settings.gate)
            rows = await reembed_rows(run, vectors)
            tally.counts.update({f"{name}: rows": number for name, number in rows.items()})
            tally.counts[RunCount.TEXTS_EMBEDDED] += len(vectors)
            tally.counts[RunCount.ROWS_REEMBEDDED] += sum(rows.values())
        after = replace(run, embedder=model) if rows else run
        if rows and has_links(after):
            linking = settings.link.model_copy(update={"enabled": True})
            tally.counts[RunCount.LINKS] += link_entities(after, linking)
    tally.gated(check_recall(after, frozen, settings.gate, [run.id]))
    if tally.state == "undone":
        tally.remarks = tally.remarks[:1]
    return await conclude(run if tally.state == "undone" else after, tally)

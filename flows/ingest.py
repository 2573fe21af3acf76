"""Ingest: conversations and documents become facts."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

import polars as pl
from pydantic import Field

from inference.language import has_reader
from slowwave.common.errors import SlowwaveError, UnusableInput
from slowwave.common.run_counts import RunCount
from slowwave.common.settings import DEFAULT_EMBEDDER, ApprovalSettings, IngestSettings
from slowwave.common.text import digest
from slowwave.common.timestamps import in_utc
from slowwave.common.types import Ingested, Mention
from storage.snapshots import Snapshot
from storage.store import Store
from tasks.entities.derived import assign_new, link_entities, touched_entities
from tasks.ingest.admission import admit_messages
from tasks.ingest.application import apply_patches, has_quotations, quoted_left, replace_quotations
from tasks.ingest.artifacts import link_artifacts
from tasks.ingest.extraction import Cursor, count_unfinished, extract_facts
from tasks.ingest.inbox import Arrival, Rounds, by_namespace, check_folder, look_into, put_away
from tasks.ingest.reading import find_new_sources, look_at, read_intakes
from tasks.ingest.sessions import summarise_sessions
from tasks.nightly.fact_reconciliation import reconcile
from tasks.nightly.groups import note_due, refreshed_aspects
from tasks.nightly.overrides import propose_overrides
from tasks.orchestration.phases import asking, tidy
from tasks.orchestration.tallies import IngestTally, publish_summary
from tasks.runtime.engine import Event, announce, flow, log, report_progress
from tasks.runtime.run_pages import show_table
from tasks.runtime.runs import Run, Writing, begin_now, existing_run, has_committed, new_run, recorded
from tasks.runtime.writing import titles_of, under_approval

Format = Literal[  # those of `slowwave.reading.ingestion.parsers`; the form needs them in words
    "auto", "messages", "claude-code", "chatgpt", "claude-ai", "codex", "gemini-cli", "slack",
    "markdown", "text",
]  # fmt: skip


@flow("ingest")
async def ingest(
    paths: list[str],
    namespace: str = "default",
    store: str = "./memory",
    format: Format = "auto",
    settings: IngestSettings = IngestSettings(),  # noqa: B008 (frozen)
    embedder: str = DEFAULT_EMBEDDER,
    now: datetime | None = None,
    require_approval: bool = False,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Turn conversations and documents into facts. The same input again does nothing and costs nothing.

    Args:
        paths: Files or folders on the machine of the worker: JSON lines of messages, sessions of coding
            agents, exports of chats, Markdown or plain text. None: what is stored already and waits is extracted.
        format: How to read the files; auto looks at each.
        settings: Who extracts, what is refused, and how much may be spent.
        embedder: The embedding model; a store keeps the one it was made with.
        require_approval: What is learned waits for a person, fact by fact; see the flow `review`.
        dry_run: Read and gate only; nothing is stored.
    """
    if settings.extract.reread and not has_reader(settings.llm):
        settings = settings.model_copy(update={"extract": settings.extract.model_copy(update={"reread": False})})
    if require_approval:
        settings = settings.model_copy(update={"approval": ApprovalSettings(mode="manual")})
    found = look_at(paths, format, settings)
    place = (store, namespace)
    run = (
        new_run("ingest", *place, embedder, now, settings.retention)
        if paths
        else existing_run("ingest", *place, now, settings.retention)
    )
    tally = IngestTally(run.id, dry_run=dry_run, wanted_owner=settings.owner or "")
    parameters = {"paths": paths, "format": format, "settings": settings.model_dump()}
    ends = list[Writing]()

    def last(run: Run) -> Writing | None:
        return Writing.of([*ends, refreshed_aspects(run, after_little=tally.has_written_little)])

    with recorded(run, tally, parameters, dry_run=dry_run, begins_later=True, last=last) as run:
        new = find_new_sources(run, found)
        tally.found(found, new)
        for intake in read_intakes(run, new, settings):
            tally.admitted(intake, admit_messages(run, intake, settings, dry_run=dry_run))
            await report_progress("messages read", tally.counts[RunCount.MESSAGES_READ])
        if settings.extract.enabled and not dry_run:
            begin_now(run)  # whoever erases something waits for a run that asks a model
            await _learn(run, settings, tally, ends)
            propose_overrides(run, settings)
            tally.proposed(titles_of(run))
        elif settings.consolidate.enabled and not dry_run:
            tally.took(link_artifacts(run, settings.consolidate))
        if settings.extract.reread:
            tally.quoted = quoted_left(run)
        if not dry_run:
            tally.are_communities_due = note_due(run, settings.extract.community_refresh_interval)
        tally.has_written = not dry_run and has_committed(run)
        if tally.has_written:
            tidy(run, after_little=tally.has_written_little)
    await publish_summary(run, tally)
    if tally.has_written:
        announce(Event.INGESTED, run, **tally.labelled())
    return tally.summary()


async def _learn(run: Run, settings: IngestSettings, tally: IngestTally, ends: list[Writing]) -> None:
    """Extract and apply, batch by batch, until nothing waits or the budget is spent; then reconcile.

    `ends` takes what is to be written in the commit that ends the run.
    """
    reading = replace(run, rereads=settings.extract.reread)
    merging = under_approval(reading, "merge", settings.approval)
    async with asking(reading, tally, settings.llm, "extract") as language:
        model = "" if language.is_keyless("extract") else language.model("extract")
        tally.took(apply_patches(reading, settings))  # left by earlier runs
        replaces = bool(model) and has_quotations(run)
        tally.counts[RunCount.QUOTATIONS_REPLACED] += replace_quotations(run, model) if replaces else 0
        waiting = count_unfinished(run, settings.extract)
        cursor: Cursor | None = Cursor()
        while cursor is not None and not language.budget_reached:
            extracted = await extract_facts(reading, settings, cursor)
            tally.extracted(extracted)
            tally.took(extracted.applied)
            if extracted.patches:
                tally.took(apply_patches(reading, settings, look_back=False, batch_ids=extracted.patches))
            tally.counts[RunCount.QUOTATIONS_REPLACED] += replace_quotations(run, model) if replaces else 0
            cursor = extracted.cursor
            await report_progress("messages extracted", tally.counts[RunCount.MESSAGES_EXTRACTED], waiting)
        if settings.extract.note_linking.enabled and (touched := touched_entities(run)):
            tally.counts[RunCount.LINKS] += link_entities(run, settings.extract.note_linking, touched)
        tally.counts[RunCount.ENTITIES_JOINED] += assign_new(run)
        if settings.consolidate.enabled:
            tally.took(await reconcile(merging, settings.consolidate, language, at_the_end=ends.append))
            tally.took(link_artifacts(merging, settings.consolidate))
        if settings.sessions.enabled:
            tally.took(await summarise_sessions(run, settings, language))


# Inbox: files that arrive in a folder become facts.


Afterwards = Literal["move", "stay"]


@flow("inbox")
async def inbox(
    folder: str = "./inbox",
    namespace: str = "default",
    store: str = "./memory",
    settle_s: Annotated[float, Field(ge=0, le=86_400)] = 20.0,
    afterwards: Afterwards = "move",
    by_folder: bool = True,
    settings: IngestSettings = IngestSettings(),  # noqa: B008 (frozen)
    embedder: str = DEFAULT_EMBEDDER,
    now: datetime | None = None,
) -> dict[str, Any]:
    """Ingest the files of a folder that are new or have changed. Looking again at what was read begins no run.

    Args:
        folder: Where files arrive, on the machine of the worker.
        namespace: Which memory they go to; tenants are kept apart by it.
        settle_s: Seconds for which a file must not have changed before it is read: it may still be written.
        afterwards: Whether files that were read move to the folder `done` and unusable ones to `failed`, with the
            reason beside them, or all stay where they are.
        by_folder: A folder in the inbox is the namespace of the files below it.
        settings: Who extracts, what is refused, and how much may be spent.
        embedder: The embedding model; a store keeps the one it was made with.
    """
    check_folder(folder)
    is_ours = afterwards == "move"
    at = datetime.now(UTC) if now is None else in_utc(now)
    done = Rounds(look_into(folder, store, namespace, at, settle_s, by_folder=by_folder, is_ours=is_ours))
    taken = {"store": store, "settings": settings, "embedder": embedder, "now": now}
    for name, arrivals in by_namespace(done.arrivals).items():
        try:
            await read_arrivals(done, arrivals, {"namespace": name, **taken})
        except SlowwaveError as error:  # no model, no lease: another time, and others may fare better
            log.error("Nothing could be read into %s: %s", name, error)
            done.failed(arrivals, error, name)
    if is_ours:
        for each in done.arrivals:
            if each.outcome not in ("waiting", "failed"):
                put_away(folder, each, each.reason)
    summary = done.summary()
    await show_table(summary["files"], "inbox-files", "What became of each file")
    if done.errors:
        reasons = "; ".join(dict.fromkeys(done.errors))
        raise SlowwaveError(f"{len(done.errors)} files could not be read; they stay: {reasons}")
    return summary


async def read_arrivals(done: Rounds, arrivals: Sequence[Arrival], parameters: dict[str, Any]) -> None:
    """Ingest them together; where that fails on one of them, each alone, so that it stops none but itself."""
    try:
        done.ran(await ingest(paths=[str(each.path) for each in arrivals], **parameters))
    except Exception as error:
        is_about_all = isinstance(error, SlowwaveError) and not isinstance(error, UnusableInput)
        if is_about_all:
            raise
        if len(arrivals) == 1:
            log.exception("%s could not be read.", arrivals[0].path)
            done.failed(arrivals, error, arrivals[0].path)
            return
        for each in arrivals:
            await read_arrivals(done, [each], parameters)


# Messages that a program hands over are ingested as a file of them would be.


_ENDED = ("superseded", "retracted", "archived")


def ingest_messages(
    messages: Sequence[Mapping[str, object]],
    conversation: str | None,
    namespace: str,
    store: str,
    settings: IngestSettings,
    embedder: str,
    now: datetime | None,
) -> Ingested:
    """One run of `ingest` over messages that a program hands over; the source is a file that is gone afterwards."""
    lines = _lines(messages, conversation)
    with TemporaryDirectory(prefix="slowwave-") as folder:
        file = Path(folder, f"{re.sub('[^A-Za-z0-9._-]+', '-', conversation or 'messages')[:60]}.jsonl")
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        if now is not None:  # a message without a time has that of its file
            os.utime(file, (now.timestamp(), now.timestamp()))
        flow = partial(
            ingest, [str(file)], namespace=namespace, store=store, format="messages", settings=settings,
            embedder=embedder, now=now,
        )  # fmt: skip
        summary = _run(lambda: asyncio.run(flow()))
    return _ingested(Store.open(store, namespace).snapshot(), summary)


def _lines(messages: Sequence[Mapping[str, object]], conversation: str | None) -> list[str]:
    """Each message as a line of JSON that names its conversation."""
    if isinstance(messages, str | Mapping) or not messages:
        raise UnusableInput("There are no messages.", "Give a list of them, each with `role` and `content`.")
    for each in messages:
        if not isinstance(each, Mapping) or "content" not in each:
            raise UnusableInput(f"{each!r} is no message.", "A message is a dict with `role` and `content`.")
    try:
        bare = [json.dumps(dict(each), ensure_ascii=False, default=str) for each in messages]
    except (TypeError, ValueError) as error:
        raise UnusableInput(f"A message cannot be written as JSON: {error}.", "Give texts as content.") from error
    if conversation is None and all("conversation_id" in each for each in messages):
        return bare
    name = conversation or f"messages-{digest(*bare)}"
    return [json.dumps(dict(each) | {"conversation_id": name}, ensure_ascii=False, default=str) for each in messages]


def _run(flow: Any) -> dict[str, Any]:
    """The summary of the flow; in a thread of its own where an event loop runs in this one."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        summary: dict[str, Any] = flow()
        return summary
    with ThreadPoolExecutor(1) as pool:
        return dict(pool.submit(flow).result())


def _ingested(snapshot: Snapshot, summary: Mapping[str, Any]) -> Ingested:
    """The summary of a run with the facts that it made and ended, in the order of its decisions."""
    run = str(summary["run"])
    decided = snapshot.by_ids("decisions", [run], ["action", "subject_id"], key="run_id")
    about = decided["subject_id"].unique(maintain_order=True)
    facts = pl.DataFrame({"id": about}).join(
        snapshot.by_ids("facts", about, ["id", "statement", "status"]), on="id", maintain_order="left"
    )
    is_new = pl.col("id").is_in(decided.filter(pl.col("action") == "create")["subject_id"].implode())
    learned = facts.filter(is_new & (pl.col("status") == "active"))
    ended = facts.filter(~is_new & pl.col("status").is_in(_ENDED))
    mentions = [tuple(Mention(*row) for row in part.select("id", "statement").iter_rows()) for part in (learned, ended)]
    return Ingested(
        run, str(summary["state"]), dict(summary["counts"]), dict(summary["refused"]), mentions[0], mentions[1],
        tuple(summary["notes"]), tuple(summary["errors"]),
    )  # fmt: skip

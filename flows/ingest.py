"""Ingest: conversations and documents become facts."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any, Literal

from inference.language import has_reader
from slowwave.common.run_counts import RunCount, by_label
from slowwave.common.settings import DEFAULT_EMBEDDER, ApprovalSettings, IngestSettings
from storage.connection import has_namespace
from tasks.entities.derived import assign_new, link_entities, touched_entities
from tasks.ingest.admission import admit_messages
from tasks.ingest.application import apply_patches, quoted_left, replace_quotations
from tasks.ingest.artifacts import link_artifacts
from tasks.ingest.extraction import Cursor, count_unfinished, extract_facts
from tasks.ingest.reading import find_new_sources, look_at, read_intakes
from tasks.ingest.sessions import summarise_sessions
from tasks.nightly.aspects import refreshed_aspects
from tasks.nightly.community_refresh import note_due
from tasks.nightly.fact_reconciliation import reconcile
from tasks.nightly.open_questions import propose_overrides
from tasks.orchestration.phases import tidy
from tasks.orchestration.tallies import IngestTally, publish_summary
from tasks.runtime.engine import INGESTED, announce, flow, report_progress
from tasks.runtime.runs import Run, existing_run, language_of, new_run, recorded
from tasks.runtime.writing import titles_of, under_approval

Format = Literal[  # those of `slowwave.reading.ingestion.conversations`; the form needs them in words
    "auto", "messages", "claude-code", "chatgpt", "claude-ai", "codex", "gemini-cli", "cursor", "slack", "whatsapp",
    "mail", "git-log", "markdown", "text",
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
            agents, exports of chats, mail, logs of Git, Markdown or plain text. None: what is stored already and waits
            is extracted.
        namespace: Which memory inside the store; tenants are kept apart by it.
        store: Folder or address of the store.
        format: How to read the files; auto looks at each.
        settings: Who extracts, what is refused, and how much may be spent.
        embedder: The embedding model; a store keeps the one it was made with.
        now: The time that counts as now; empty for the real time.
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
    tally = IngestTally(run.id, dry_run)
    parameters = {"paths": paths, "format": format, "settings": settings.model_dump()}
    tally.makes_no_store = found.is_empty and not has_namespace(store, namespace)
    with recorded(run, tally, parameters, dry_run=dry_run or tally.makes_no_store, last=refreshed_aspects) as run:
        sources = find_new_sources(run, found)
        tally.found(sources)
        for intake in read_intakes(run, sources.new, settings):
            tally.admitted(intake, admit_messages(run, intake, settings, dry_run=dry_run))
            await report_progress("messages read", tally.counts[RunCount.MESSAGES_READ])
        if settings.extract.enabled and not dry_run:
            await _learn(run, settings, tally)
            propose_overrides(run, settings)
            tally.proposed(titles_of(run))
        elif settings.consolidate.enabled and not dry_run:
            tally.took(await link_artifacts(run, settings.consolidate))
        if settings.extract.reread:
            tally.quoted = quoted_left(run)
        if not dry_run:
            tally.are_communities_due = note_due(run, settings.extract.community_refresh_interval)
        if tally.has_written and not dry_run:
            tidy(run, after_little=tally.has_written_little)
    await publish_summary(run, tally)
    if tally.has_written and not dry_run:
        announce(INGESTED, run, **by_label(tally.counts))
    return tally.summary()


async def _learn(run: Run, settings: IngestSettings, tally: IngestTally) -> None:
    """Extract and apply, batch by batch, until nothing waits or the budget is spent; then reconcile."""
    reading = replace(run, rereads=settings.extract.reread)
    merging = under_approval(reading, "merge", settings.approval)
    async with language_of(reading, settings.llm) as language:
        model = "" if language.is_keyless("extract") else language.model("extract")
        try:
            tally.applied(apply_patches(reading, settings))  # left by earlier runs
            tally.counts[RunCount.QUOTATIONS_REPLACED] += replace_quotations(run, model) if model else 0
            waiting = count_unfinished(run, settings.extract)
            cursor: Cursor | None = Cursor()
            while cursor is not None and not language.budget_reached:
                extracted = await extract_facts(reading, settings, cursor)
                tally.extracted(extracted)
                tally.applied(apply_patches(reading, settings, look_back=False))
                tally.counts[RunCount.QUOTATIONS_REPLACED] += replace_quotations(run, model) if model else 0
                cursor = extracted.cursor
                await report_progress("messages extracted", tally.counts[RunCount.MESSAGES_EXTRACTED], waiting)
            if touched := touched_entities(run):
                tally.counts[RunCount.LINKS] += link_entities(run, settings.extract.note_linking, touched)
                tally.counts[RunCount.ENTITIES_JOINED] += assign_new(run)
            if settings.consolidate.enabled:
                tally.took(await reconcile(merging, settings.consolidate, language))
                tally.took(await link_artifacts(merging, settings.consolidate, language))
            if settings.sessions.enabled:
                tally.took(await summarise_sessions(run, settings, language))
        finally:
            tally.paid(language, "extract")

"""Re-embed: another embedding model for a whole memory."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from inference.embedding import open_embedder
from slowwave.common.settings import DEFAULT_EMBEDDER, ReembedSettings
from tasks.entities.derived import link_entities
from tasks.nightly.gate import check_recall
from tasks.orchestration.phases import conclude, weighed
from tasks.runtime.engine import flow
from tasks.runtime.runs import existing_run, recorded
from tasks.transfer.reembedding import (
    ReembedTally,
    check_alone,
    drop_staging,
    fill_vectors,
    freeze_old,
    has_links,
    publish_vectors,
    stage_vectors,
    texts_to_embed,
)


@flow("reembed", takes_turns=True)
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
    back. With the model that the memory has already, rows that lack a vector get one.

    Args:
        namespace: Which memory inside the store; tenants are kept apart by it.
        store: Folder or address of the store.
        embedder: The embedding model to turn to, provider/model.
        settings: Batches, the gate, and how long old vectors are kept.
        now: The time that counts as now; empty for the real time.
        dry_run: Show what would be embedded; nothing is changed.
    """
    run = existing_run("reembed", store, namespace, now, settings.retention)
    model = open_embedder(embedder).name
    tally = ReembedTally(run.id, dry_run, old=run.embedder, new=model)
    parameters = {"embedder": embedder, "settings": settings.model_dump()}
    frozen = None
    with recorded(run, tally, parameters, dry_run=dry_run) as run, weighed(run, tally):
        check_alone(run)
        if model == run.embedder:
            tally.filled(fill_vectors(run, dry_run=dry_run))
        elif dry_run:
            tally.surveyed(*texts_to_embed(run, model))
        else:
            staged = await stage_vectors(run, model, settings)
            frozen = freeze_old(run, settings)
            tally.published(publish_vectors(run, model, settings, staged))
        after = replace(run, embedder=model) if tally.is_published else run
        if tally.is_published:
            drop_staging(after)
            if has_links(after):
                tally.linked_anew(link_entities(after, settings.link.model_copy(update={"enabled": True})))
    tally.gated(check_recall(after, frozen, settings.gate, [run.id]))
    return await conclude(run if tally.state == "undone" else after, tally)

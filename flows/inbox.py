"""Inbox: files that arrive in a folder become facts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from slowwave.common.errors import SlowwaveError, UnusableInput
from slowwave.common.settings import DEFAULT_EMBEDDER, IngestSettings
from slowwave.common.timestamps import in_utc
from tasks.ingest.inbox import (
    Arrival,
    Rounds,
    by_namespace,
    check_folder,
    look_into,
    publish_arrivals,
    put_away,
)
from tasks.runtime.engine import flow, log

from .ingest import ingest

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
        store: Folder or address of the store.
        settle_s: Seconds for which a file must not have changed before it is read: it may still be written.
        afterwards: Whether files that were read move to the folder `done` and unusable ones to `failed`, with the
            reason beside them, or all stay where they are.
        by_folder: A folder in the inbox is the namespace of the files below it.
        settings: Who extracts, what is refused, and how much may be spent.
        embedder: The embedding model; a store keeps the one it was made with.
        now: The time that counts as now; empty for the real time.
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
            if done.is_over(each):
                put_away(folder, each, each.reason)
    summary = done.summary()
    await publish_arrivals(summary)
    if done.errors:
        reasons = "; ".join(dict.fromkeys(done.errors.values()))
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

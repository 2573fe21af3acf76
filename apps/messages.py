"""Messages that a program hands over are ingested as a file of them would be."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from slowwave.common.errors import UnusableInput
from slowwave.common.text import digest
from slowwave.common.types import Ingested, Mention
from storage.snapshots import Snapshot

from .configuration import Place, with_flags

_ENDED = ("superseded", "retracted", "archived")


def ingest_messages(
    place: Place,
    messages: Sequence[Mapping[str, object]],
    conversation: str | None,
    speaker: str | None,
    limits: Mapping[str, Any],
    now: datetime | None,
) -> Ingested:
    """One run of the flow `ingest` over these messages; the source is a file that is gone afterwards."""
    from flows.ingest import ingest

    lines = _lines(messages, conversation)
    settings = with_flags(place.settings, limits, owner=speaker).ingest
    with TemporaryDirectory(prefix="slowwave-") as folder:
        file = Path(folder, f"{re.sub('[^A-Za-z0-9._-]+', '-', conversation or 'messages')[:60]}.jsonl")
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        if now is not None:  # a message without a time has that of its file
            os.utime(file, (now.timestamp(), now.timestamp()))
        flow = partial(
            ingest, [str(file)], namespace=place.namespace, store=place.uri, format="messages", settings=settings,
            embedder=place.settings.embedder, now=now,
        )  # fmt: skip
        summary = _run(lambda: asyncio.run(flow()))
    return _ingested(place.store().snapshot(), summary)


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

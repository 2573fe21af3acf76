"""Access events: which facts and entities reads returned (S0-23, S4-01). Buffered; never why a read fails."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from datetime import datetime
from uuid import uuid4

import polars as pl

from slowwave.text import digest
from storage.store import Store

from .records import RecalledFact

BUFFERED = 500

log = logging.getLogger("slowwave")


class AccessLog:
    """Collects events and appends them to the logs in groups; outside every commit, so undo never touches them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._facts: list[dict[str, object]] = []
        self._entities: list[dict[str, object]] = []

    def note(self, query: str, found: Sequence[RecalledFact], at: datetime) -> None:
        """One event per fact that a recall returned, with its cosine, not the fused rank (T6), and per entity of it."""
        asked = digest(query)
        self._facts += [
            {"id": uuid4().hex, "fact_id": fact.id, "cosine": fact.cosine, "rank": rank, "query_hash": asked, "at": at}
            for rank, fact in enumerate(found, 1)
        ]
        ends = dict.fromkeys(end for fact in found for end in (fact.subject_id, fact.object_id) if end)
        self.note_entities(ends, query, at)

    def note_entities(self, ids: Iterable[str], query: str, at: datetime) -> None:
        """One event per entity that a read touched."""
        asked = digest(query)
        self._entities += [
            {"id": uuid4().hex, "entity_id": entity, "day": f"{at:%Y-%m-%d}", "query_hash": asked, "at": at}
            for entity in ids
        ]
        if len(self._facts) + len(self._entities) >= BUFFERED:
            self.flush()

    def flush(self) -> None:
        """Append what is held."""
        held = (("retrieval_events", self._facts), ("entity_access_log", self._entities))
        self._facts, self._entities = [], []
        for name, rows in held:
            try:
                self._store.append(name, pl.DataFrame(rows, infer_schema_length=None))
            except Exception as error:
                log.warning("%d access events were lost: %s", len(rows), error)

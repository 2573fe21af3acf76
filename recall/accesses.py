"""Access events: what was asked, and which facts and entities reads returned (S0-23, S2-34, S4-01).

Buffered; never why a read fails.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import uuid4

import polars as pl

from slowwave.answers import RecalledFact
from slowwave.intake.redaction import redact_all
from slowwave.text import digest, readable
from slowwave.timestamps import in_utc
from storage.store import Store

BUFFERED = 500
FACTS, ENTITIES, QUERIES = "retrieval_events", "entity_access_log", "recalled_queries"

log = logging.getLogger("slowwave")


class AccessLog:
    """Collects events and appends them to the logs in groups; outside every commit, so undo never touches them.

    Where nothing `is_logged` it keeps none: what maintenance reads is not in use for that (T27).
    """

    def __init__(self, store: Store, *, is_logged: bool = True) -> None:
        self._store, self.is_logged = store, is_logged
        self._held: dict[str, list[dict[str, Any]]] = {name: [] for name in (FACTS, ENTITIES, QUERIES)}
        self._lock = threading.Lock()  # several threads may read through one memory

    def note(self, query: str, found: Sequence[RecalledFact], k: int, at: datetime) -> None:
        """One event for a recall, per fact that it returned, with its cosine, not the fused rank (T6), and per entity.

        `k` facts were asked for.
        """
        self._add(QUERIES, query, at, [{"query": readable(query), "k": k}])
        self._note_facts({fact.id: fact.cosine for fact in found}, query, at)
        ends = dict.fromkeys(end for fact in found for end in (fact.subject_id, fact.object_id) if end)
        self.note_entities(ends, query, at)

    def note_relations(self, ids: Iterable[str], query: str, at: datetime) -> None:
        """One event per fact that a walk along relations returned; it has no cosine (S2-34)."""
        self._note_facts(dict.fromkeys(ids), query, at)

    def note_entities(self, ids: Iterable[str], query: str, at: datetime) -> None:
        """One event per entity that a read touched."""
        day = f"{in_utc(at):%Y-%m-%d}"
        self._add(ENTITIES, query, at, [{"entity_id": entity, "day": day} for entity in ids])

    def flush(self) -> None:
        """Append what is held."""
        with self._lock:
            held, self._held = self._held, {name: [] for name in self._held}
        for name, rows in held.items():
            try:
                self._store.append(name, _events(rows))
            except Exception as error:
                log.warning("%d access events were lost: %s", len(rows), error)

    def _note_facts(self, cosines: Mapping[str, float | None], query: str, at: datetime) -> None:
        facts = enumerate(cosines.items(), 1)
        self._add(FACTS, query, at, [{"fact_id": fact, "cosine": cosine, "rank": n} for n, (fact, cosine) in facts])

    def _add(self, name: str, query: str, at: datetime, rows: Sequence[Mapping[str, Any]]) -> None:
        if not self.is_logged:
            return
        shared = {"query_hash": digest(query), "at": in_utc(at)}
        events = [{"id": uuid4().hex, **row, **shared} for row in rows]
        with self._lock:
            self._held[name] += events
            is_full = sum(map(len, self._held.values())) >= BUFFERED
        if is_full:
            self.flush()


def _events(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """The rows as a frame; questions without the secrets in them."""
    frame = pl.DataFrame(rows, infer_schema_length=None)
    return frame.with_columns(redact_all(frame["query"])[0]) if "query" in frame.columns else frame

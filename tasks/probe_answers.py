"""Answers to probes: what recall found in the last states, so that no question is asked twice of one.

A phase ends in the state in which the next one begins, and one that wrote nothing that recall reads ends in the state
in which it began.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from threading import Lock

from recall.memory import Memory, read_versions
from slowwave.settings import RecallSettings, WalkSettings
from storage.snapshots import Snapshot

from .runs import Run

Recalled = Mapping[str, str]  # id → statement
AT_ONCE = 50  # questions of one call, after each of which a lease is kept
_STATES = 3  # before a phase, after it, and after it was taken back

_kept: OrderedDict[tuple[object, ...], dict[str, Recalled]] = OrderedDict()
_keeping = Lock()


def recalled(run: Run, state: Snapshot, queries: Sequence[str], k: int) -> tuple[Recalled, ...]:
    """What each query recalls in a published state; without a trace in the logs: maintenance is no use (T27).

    Asked at one time of states that recall cannot tell apart, a query has one answer, and is asked once.
    """
    settings = recall_settings(k)
    place = run.store if "://" in run.store else os.path.abspath(run.store)
    known = _of((place, run.namespace, run.now, k, state.embed_model, read_versions(state, settings)))
    missing = [query for query in dict.fromkeys(queries) if query not in known]
    if missing:
        opened = Memory.open(run.store, run.namespace, settings=settings, is_logged=False, commit=state.sequence)
        with opened as memory:
            known.update(zip(missing, asked(run, memory, missing), strict=True))
    return tuple(known[query] for query in queries)


def recall_settings(k: int) -> RecallSettings:
    """How the gate recalls: without an end, so that a slow machine does not look like a recall that got worse."""
    return RecallSettings(k=k, walk=WalkSettings(recall_timeout_ms=0))


def asked(
    run: Run, memory: Memory, queries: Sequence[str], stay: Callable[[], None] = lambda: None
) -> tuple[Recalled, ...]:
    """What each query recalls now; `stay` is called after some of them each, to keep a lease."""
    found: list[Recalled] = []
    for start in range(0, len(queries), AT_ONCE):
        some = memory.recall_many(queries[start : start + AT_ONCE], only="facts", now=run.now)
        found += [{fact.id: fact.statement for fact in each.facts} for each in some]
        stay()
    return tuple(found)


def _of(state: tuple[object, ...]) -> dict[str, Recalled]:
    with _keeping:
        known = _kept.setdefault(state, {})
        _kept.move_to_end(state)
        while len(_kept) > _STATES:
            _kept.popitem(last=False)
        return known

"""The gate of maintenance: the same questions before and after a run; where recall fell, the run is taken back."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from threading import Lock

import polars as pl

from recall.recaller import Recaller, read_versions
from slowwave.common import frames
from slowwave.common.decisions import Row, decision, decision_frame
from slowwave.common.errors import SlowwaveError
from slowwave.common.settings import GateSettings, RecallSettings, StewardSettings, WalkSettings
from slowwave.common.validity import MAX_CHAIN, Moment, live_sql
from slowwave.lifecycle.probes import (
    FIRST_PLACES,
    KINDS,
    GateVerdict,
    Probe,
    Standing,
    compare,
    plan_probes,
    staying,
)
from storage.changes import FACT_TABLES
from storage.rows import new_run_id
from storage.snapshots import Reading, Snapshot
from storage.undo import undo as take_back
from tasks.runtime.engine import GATE_FAILED, announce, task
from tasks.runtime.runs import Run, existing_store, newest_commit, night_of, store_of

from .scoring_and_pruning import RECALLS, is_learning, use_so_far

_STANDING = ("id", "statement", "status", "valid_to", "replaced_by")
_PROBED = (
    "id", "kind", "subject_id", "predicate", "object_id", "object_text", "statement", "status", "valid_from",
    "valid_to", "expired_at", "entrenchment", "pinned", "evidence_count", "content_score", "created_at",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Frozen:
    """The probes of a run, and which expected facts each found before it."""

    probes: tuple[Probe, ...]
    found: tuple[frozenset[str], ...]


@task("freeze the questions of the gate")
def freeze_probes(
    run: Run,
    settings: GateSettings,
    *,
    steward: StewardSettings = StewardSettings(),  # noqa: B008 (frozen)
    commit: int | None = None,
) -> Frozen | None:
    """Draw the questions of this run and ask them; None if the gate is off or nothing is stored. Writes nothing.

    What fades by the settings of the `steward` is not asked about. With `commit` the state after that one is asked, for
    a run that goes on with an interrupted one. The id of the run, or of the night that it is a phase of, is the salt of
    the draw: each night is asked something else, all its phases the same, and the draw can be made again.
    """
    newest = newest_commit(run) if settings.enabled else 0
    if not newest:
        return None
    snapshot = store_of(run).snapshot(commit=commit or newest)
    if not snapshot.count("facts"):
        return None
    facts = _facts(snapshot, run.now)
    probes = _drawn(run, snapshot, facts, settings, steward)
    answers = recalled(run, snapshot, _queries(probes), settings.k)
    return Frozen(probes, _found(run, snapshot, probes, answers)[0])


@task("check recall")
def check_recall(run: Run, frozen: Frozen | None, settings: GateSettings, undo: Sequence[str]) -> GateVerdict | None:
    """Ask the frozen questions again; if recall fell, take all of the runs in `undo` back as one commit, or none.

    The runs must have ended. Whether it fell, and what came of it, is in the ledger. Where nothing was written that
    recall reads, the answers are those of before.
    """
    if frozen is None:
        return None
    now = store_of(run).snapshot()
    answers = recalled(run, now, _queries(frozen.probes), settings.k)
    after, standing = _found(run, now, frozen.probes, answers)
    verdict = compare(frozen.probes, frozen.found, after, standing, settings)
    if not verdict.fell:
        return verdict
    done = _taken_back(run, verdict, undo)
    announce(GATE_FAILED, run, undone=len(done.undone), reason=done.reason(), **done.measures())
    return done


def _drawn(
    run: Run, snapshot: Snapshot, facts: pl.DataFrame, settings: GateSettings, steward: StewardSettings
) -> tuple[Probe, ...]:
    store = store_of(run)
    if not is_learning(run, steward):  # until then nothing is pruned or hidden
        facts = staying(facts, use_so_far(snapshot, store), run.now, steward)
    queries = store.log("recalled_queries", columns=["query", "query_hash", "at"])
    events = store.log(RECALLS, f"rank <= {FIRST_PLACES}", ["fact_id", "query_hash", "rank", "at"])
    return plan_probes(facts, queries, events, settings, night_of(run), run.now)


def _facts(reading: Reading, now: datetime) -> pl.DataFrame:
    """Live facts that a probe can ask about, with the names of their ends."""
    kinds = ", ".join(f"'{kind}'" for kind in KINDS)
    facts = reading.frame("facts", f"({live_sql(now)}) AND kind IN ({kinds})", _PROBED)
    names = reading.frame("entities", columns=["id", "name"])
    for end in ("subject", "object"):
        facts = facts.join(names.rename({"id": f"{end}_id", "name": end}), on=f"{end}_id", how="left")
    return facts


def _queries(probes: Sequence[Probe]) -> list[str]:
    return [probe.query for probe in probes]


def _found(
    run: Run, snapshot: Snapshot, probes: Sequence[Probe], answers: Sequence[Recalled]
) -> tuple[tuple[frozenset[str], ...], Standing]:
    """Which of its expected facts each probe finds in a state of the store, and what became of them by then."""
    standing = _standing(snapshot, {id_ for probe in probes for id_ in probe.expected}, run.now)
    return tuple(standing.found(*pair) for pair in zip(probes, answers, strict=True)), standing


def _standing(snapshot: Snapshot, ids: Iterable[str], now: datetime) -> Standing:
    """The state of facts and of their successors, step by step."""
    rows, seen, wanted = [], set[str](), set(ids)
    for _ in range(MAX_CHAIN):
        if not wanted:
            break
        seen |= wanted
        rows += [snapshot.by_ids(name, sorted(wanted), _STANDING) for name in FACT_TABLES]
        wanted = {*pl.concat(rows[-2:])["replaced_by"].drop_nulls()} - seen
    known = pl.concat(rows) if rows else frames.empty({name: frames.FACTS[name] for name in _STANDING})
    return Standing.of(known.unique("id", keep="first", maintain_order=True), now)


def _taken_back(run: Run, verdict: GateVerdict, undo: Sequence[str]) -> GateVerdict:
    """The verdict with the runs that were undone, or what stood in the way; the ledger tells it of each of them."""
    undoing = new_run_id("undo")
    done = verdict
    if undo:
        first, *others = undo
        try:
            report = take_back(existing_store(run), first, undoing, run.now, also=others, decided_by="rule")
            done = replace(verdict, undone=report.runs)
        except SlowwaveError as error:
            done = replace(verdict, obstacle=str(error))
    rows = [_decision(run, undoing, subject, done) for subject in dict.fromkeys([*undo, run.id])]
    with existing_store(run).commit(undoing, "gate", run.now) as tx:  # an undo may change the embedding model
        tx.upsert("decisions", decision_frame(rows))
    return done


def _decision(run: Run, undoing: str, subject: str, verdict: GateVerdict) -> Row:
    lost = sorted({each.fact_id for each in verdict.lost})
    measures = verdict.measures()
    return decision("gate", subject, lost, verdict.undone, verdict.reason(), run.now, measures, key=(undoing,))


# Answers to probes: what recall found in the last states, so that no question is asked twice of one. A phase ends in
# the state in which the next one begins, and one that wrote nothing that recall reads ends in the state in which it
# began.

Recalled = Mapping[str, str]  # id → statement
AT_ONCE = 50  # questions of one call
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
        reader = Recaller.open(run.store, run.namespace, settings, is_logged=False, commit=state.sequence)
        known.update(zip(missing, recall_each(run, reader, missing), strict=True))
    return tuple(known[query] for query in queries)


def recall_settings(k: int) -> RecallSettings:
    """How the gate recalls: without an end, so that a slow machine does not look like a recall that got worse."""
    return RecallSettings(k=k, walk=WalkSettings(recall_timeout_ms=0))


def recall_each(run: Run, reader: Recaller, queries: Sequence[str]) -> tuple[Recalled, ...]:
    """What each query recalls now."""
    found: list[Recalled] = []
    for start in range(0, len(queries), AT_ONCE):
        some = reader.recall(queries[start : start + AT_ONCE], None, Moment(run.now), only="facts")
        found += [{fact.id: fact.statement for fact in each.facts} for each in some]
    return tuple(found)


def _of(state: tuple[object, ...]) -> dict[str, Recalled]:
    with _keeping:
        known = _kept.setdefault(state, {})
        _kept.move_to_end(state)
        while len(_kept) > _STATES:
            _kept.popitem(last=False)
        return known

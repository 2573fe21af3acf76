"""Phases: the parts of a maintenance run, each on its own feet, and the gate that watches over how the run ends.

The gate asks the same questions before and after; where recall fell, the run is taken back.
"""

from __future__ import annotations

import inspect
import logging
import os
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any, TypeVar

import polars as pl

from inference.language import Language
from inference.request_batch import Role
from recall.recaller import Recaller, read_versions
from slowwave.common import frames
from slowwave.common.decisions import Row, decision, decision_frame
from slowwave.common.errors import NoRoom, RecallFell, SlowwaveError
from slowwave.common.run_counts import RunCount
from slowwave.common.settings import (
    GateSettings,
    LanguageSettings,
    RecallSettings,
    SleepSettings,
    StewardSettings,
    WalkSettings,
)
from slowwave.common.validity import MAX_CHAIN, Moment, live_sql, time_sql
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
from storage.rows import new_run_id, quoted
from storage.snapshots import Reading, Snapshot
from storage.undo import undo as take_back
from storage.upkeep import UpkeepReport, tend
from tasks.nightly.scoring_and_pruning import RECALLS, is_learning, use_so_far
from tasks.runtime.engine import Event, announce, task
from tasks.runtime.retrying import WHOLE_MEMORY
from tasks.runtime.run_pages import DecisionSummary
from tasks.runtime.runs import Run, existing_store, has_committed, language_of, newest_commit, night_of, store_of
from tasks.runtime.writing import titles_of

from .tallies import Tally, WholeTally, publish_summary

T = TypeVar("T")

log = logging.getLogger("slowwave")


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
    announce(Event.GATE_FAILED, run, undone=len(done.undone), reason=done.reason(), **done.measures())
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
    # without an end, so that a slow machine does not look like a recall that got worse
    settings = RecallSettings(k=k, walk=WalkSettings(recall_timeout_ms=0))
    place = run.store if "://" in run.store else os.path.abspath(run.store)
    known = _of((place, run.namespace, run.now, k, state.embed_model, read_versions(state, settings)))
    missing = [query for query in dict.fromkeys(queries) if query not in known]
    if missing:
        reader = Recaller.open(run.store, run.namespace, settings, is_logged=False, commit=state.sequence)
        known.update(zip(missing, recall_each(run, reader, missing), strict=True))
    return tuple(known[query] for query in queries)


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


@asynccontextmanager
async def gated(
    run: Run, tally: Tally, settings: GateSettings, *, dry_run: bool = False
) -> AsyncIterator[Callable[..., None]]:
    """Watch over a run, which must be recorded inside: one that is still going on cannot be undone."""
    frozen: list[Frozen | None] = [None]

    def freeze(steward: StewardSettings = StewardSettings()) -> None:  # noqa: B008 (frozen)
        if not dry_run:
            frozen.append(freeze_probes(run, settings, steward=steward))

    def check() -> None:
        tally.gated(check_recall(run, frozen[-1], settings, [run.id]))

    try:
        yield freeze
    except Exception as error:
        check()
        if tally.verdict is not None:
            error.add_note(tally.verdict.reason())
        raise
    check()


async def attempt(tally: Tally, phase: str, work: Callable[[], T | Awaitable[T]]) -> T | None:
    """What a phase returns, or None where it failed: the others go on, and the run ends as incomplete (S4-04)."""
    try:
        done = work()
        return await done if inspect.isawaitable(done) else done
    except (RecallFell, NoRoom):  # on a full disk the others would only fail as well
        raise
    except Exception as error:
        log.exception("The phase %r failed.", phase)
        reason = error.message if isinstance(error, SlowwaveError) else f"{type(error).__name__}: {error}"
        tally.failed(phase, " ".join([reason, *getattr(error, "__notes__", [])]))
        return None


@asynccontextmanager
async def asking(run: Run, tally: Tally, settings: LanguageSettings, role: Role) -> AsyncIterator[Language]:
    """The language model of a run; the tally learns what it cost, however the run ends."""
    async with language_of(run, settings) as language:
        try:
            yield language
        finally:
            tally.paid(language, role)


def finish(run: Run, tally: Tally) -> None:
    """After the work of a run that is no dry one: tell what it proposed, and tidy up where it wrote."""
    if not tally.dry_run:
        tally.proposed(titles_of(run))
        tally.has_written = has_committed(run)
        if tally.has_written:
            tidy(run)


async def conclude(run: Run, tally: Tally) -> dict[str, Any]:
    """Show what the run did, and fail with `RecallFell` where its gate took it back."""
    await publish_summary(run, tally)
    if tally.verdict is not None:
        tally.verdict.enforce()
    return tally.summary()


# The night: whether the work of an interrupted one may stand, and its summary.


LOOKED_BACK = timedelta(hours=20)
"""A night that was interrupted longer ago is no longer looked at."""
UNFINISHED = ("interrupted", "failed")


def check_interrupted(run: Run, settings: SleepSettings) -> GateVerdict | None:
    """Whether recall is as it was before a night that was interrupted a short time ago; if not, it is undone."""
    snapshot = store_of(run).snapshot()
    since = f"flow = 'sleep' AND id != {quoted(run.id)} AND started_at > {time_sql(datetime.now(UTC) - LOOKED_BACK)}"
    nights = snapshot.frame("runs", since, ["id", "state", "started_at"]).sort("started_at", "id")
    if nights.is_empty() or nights["state"][-1] not in UNFINISHED:
        return None
    broken = nights["id"][-1]
    began = snapshot.frame("commits", f"run_id = {quoted(broken)}", ["sequence"])["sequence"].min()
    if not isinstance(began, int) or began < 2:
        return None
    frozen = freeze_probes(run, settings.gate, steward=settings.steward, commit=began - 1)
    return check_recall(run, frozen, settings.gate, [broken])


async def close_night(run: Run, tally: NightTally) -> dict[str, Any]:
    """Show the night in the morning; raises `RecallFell` where a phase was taken back for it."""
    await publish_summary(run, tally)
    if not tally.dry_run:
        announce(Event.NIGHT_FINISHED, run, state=tally.state, **tally.labelled())
    if tally.fallen:
        first = tally.fallen[0]
        raise RecallFell(first.message, first.remedy, tally.summary())
    return tally.summary()


# Tidying: what was fragmented is compacted and what has grown is indexed.


@task("tidy up")
def tidy(run: Run, *, after_little: bool = False) -> tuple[str, ...]:
    """After a run, which may have written little: compact and index where it is due; returns the tables compacted."""
    return tend(store_of(run), run.id, run.now, after_little=after_little).compacted


@task("tend all tables", tags=[WHOLE_MEMORY])
def tend_all(run: Run) -> UpkeepReport:
    """Compact and index every table, and drop the versions beyond the days of undo."""
    return tend(store_of(run), run.id, run.now, thorough=True)


SHOWN_EACH = 4
"""Decisions of each phase that the summary of a night tells."""


@dataclass
class NightTally(WholeTally):
    """Counts of one night: those of its phases, each under its name."""

    gates: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    fallen: list[RecallFell] = field(default_factory=list)
    idle: str = ""

    def phase(self, phase: str, summary: Mapping[str, Any] | None) -> None:
        """What a phase did; None where it failed."""
        if summary is None:
            return
        self.part(phase, summary)
        self.has_written = self.has_written or bool(summary["counts"])
        for what, number in summary["counts"].items():
            self.counts[f"{phase}: {what}"] += number
        if "gate" in summary:
            self.gates[phase] = summary["gate"]
            self.remarks.append(f"{phase}: {summary['notes'][-1]}")
        shown = summary["decisions"][:SHOWN_EACH]
        self.decisions += [DecisionSummary(row["decision"], row["fact"], row["reason"]) for row in shown]

    def fell(self, phase: str, error: RecallFell) -> None:
        """A phase after which recall fell."""
        self.fallen.append(error)
        self.gates[phase] = error.measured
        self.counts[RunCount.PHASES_TAKEN_BACK] += len(error.measured.get("undone", ()))
        self.remarks.append(f"{phase}: {error.message}")
        self.state = "incomplete"

    def summary(self) -> dict[str, Any]:
        """Everything counted, with the run of each phase."""
        return {**super().summary(), "phases": self.runs, "gates": self.gates}

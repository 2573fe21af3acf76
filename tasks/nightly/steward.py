"""The steward: every live fact is scored, and what nobody ever recalled fades into quarantine (S4-02 … S4-07)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import polars as pl

from slowwave import frames
from slowwave.entrenchment import ENDS
from slowwave.lifecycle.pruning_and_eviction import PRUNED, PrunePlan, is_due, may_fade_sql, plan_prune
from slowwave.lifecycle.pruning_and_eviction import is_learning as is_learning_after
from slowwave.lifecycle.usage_scores import score_facts
from slowwave.settings import RecallSettings, StewardSettings
from slowwave.validity import live_sql
from storage.snapshots import Reading
from storage.store import Store
from storage.transactions import Transaction
from tasks.entities.retirement import carry_out, renew_profiles, retirement_of
from tasks.runtime.decisions_shown import LISTED, SHOWN, DecisionSummary
from tasks.runtime.engine import log, task
from tasks.runtime.retrying import WHOLE_MEMORY
from tasks.runtime.runs import Run, store_of

from .usage import RECALLS, counted_use, use_so_far

LEARNING = "steward.learning"
MANY = 5000  # from so many rows on reading all of a narrow table beats naming each
_SCORED = ["id", "created_at", "content_score"]
_JUDGED = [*_SCORED, "kind", "entrenchment", "pinned"]
_PUT_BACK = "action IN ('prune', 'restore')"


@dataclass(frozen=True, slots=True)
class Scored:
    """Live facts that were scored, and scores that were written or dropped; a dry run counts what it would write."""

    scored: int = 0
    written: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class Pruned:
    """Facts that were, or would be, pruned, oldest first, and the summaries of the first ten."""

    ids: tuple[str, ...] = ()
    decisions: tuple[DecisionSummary, ...] = ()

    @property
    def pruned(self) -> int:
        """How many."""
        return len(self.ids)


@dataclass(frozen=True, slots=True, eq=False)
class _Scoring:
    """Of `facts` live ones: scores to store (id, quality_score), and ids of scores to remove."""

    facts: int
    written: pl.DataFrame
    dropped: pl.Series


@dataclass(frozen=True, slots=True, eq=False)
class _Signals:
    """What keeps facts from fading: their use, when they were put back, and which entities are pinned."""

    usage: pl.DataFrame
    put_back: pl.DataFrame
    pinned: frozenset[str]


class _Recent:
    """The facts that were recalled since a state was read."""

    def __init__(self, store: Store, reading: Reading) -> None:
        marks = reading.by_ids("log_marks", [RECALLS], ["version"])["version"].to_list()
        self._store, self._mark, self._facts = store, marks[0] if marks else 0, set[str]()

    def recalled(self) -> list[str]:
        """Ids, those of earlier calls among them."""
        fresh, self._mark = self._store.log_since(RECALLS, self._mark, ("fact_id",))
        self._facts |= set(fresh["fact_id"])
        return sorted(self._facts)


def is_learning(place: Run | Store, settings: StewardSettings) -> bool:
    """Whether too few recalls were logged yet for anything to be pruned, merged or hidden (S4-02)."""
    try:
        store = store_of(place) if isinstance(place, Run) else place
        return is_learning_after(store.snapshot().count(RECALLS), settings)
    except Exception as error:
        log.warning("Recalls could not be counted, so nothing is pruned or merged: %s", error)
        return True


@task("score facts", tags=[WHOLE_MEMORY])
def score(
    run: Run,
    settings: StewardSettings,
    *,
    min_quality: float = RecallSettings().min_quality,
    dry_run: bool = False,
) -> Scored:
    """Score all live facts, and write what has changed enough to matter as one commit, or none (S4-06).

    Scores on the other side of `min_quality`, below which recall hides facts, are always written.
    """
    store, marks = store_of(run), (settings.prune_threshold, min_quality)
    snapshot = store.snapshot()
    learning = is_learning(store, settings)
    scoring = _score(snapshot, run, settings, marks)
    changes = len(scoring.written) or len(scoring.dropped) or _learning_mark(snapshot) != learning
    if changes and not dry_run:
        with store.commit(run.id, "steward.score", run.now) as tx:
            if tx.sequence != snapshot.sequence + 1:  # another run has changed something meanwhile
                scoring = _score(tx, run, settings, marks)
            _write_scores(tx, run, scoring, learning)
    return Scored(scoring.facts, len(scoring.written), len(scoring.dropped))


def _score(reading: Reading, run: Run, settings: StewardSettings, marks: Collection[float]) -> _Scoring:
    facts = _with_put_back(reading.frame("facts", live_sql(run.now), _SCORED), _put_back(reading))
    scores = score_facts(facts, counted_use(reading), settings, run.now)
    stored = reading.frame("fact_scores", columns=["id", "quality_score"])
    known = stored.with_columns(is_stored=True)
    both = facts.select("id").with_columns(scores).join(known, on="id", how="left")
    due = both.filter(is_due(marks, settings.score_step)).select("id", quality_score="score")
    has_gone = both["is_stored"].count() < len(stored)
    gone = stored.join(facts, on="id", how="anti") if has_gone else stored.clear()
    return _Scoring(len(facts), due, gone["id"])


def _put_back(reading: Reading) -> pl.DataFrame:
    """(id, put_back_at): when facts were pruned or restored last. The age of a fact counts from then."""
    rows = reading.frame("decisions", _PUT_BACK, ["subject_id", "at"])
    return rows.group_by(id="subject_id").agg(put_back_at=pl.col("at").max())


def _with_put_back(facts: pl.DataFrame, put_back: pl.DataFrame) -> pl.DataFrame:
    return facts.join(put_back, on="id", how="left", maintain_order="left") if len(put_back) else facts


def _learning_mark(reading: Reading) -> bool | None:
    marks = reading.by_ids("metadata", [LEARNING], ["number"])["number"]
    return bool(marks[0]) if len(marks) else None


def _write_scores(tx: Transaction, run: Run, scoring: _Scoring, learning: bool) -> None:
    """The scores with what else their rows hold, and whether the steward learns."""
    ids, kept = scoring.written["id"], ["id", "created_at", "compared_at"]
    known = tx.frame("fact_scores", columns=kept) if len(ids) > MANY else tx.by_ids("fact_scores", ids, kept)
    rows = scoring.written.join(known, on="id", how="left")
    tx.upsert("fact_scores", rows.with_columns(scored_at=pl.lit(run.now, dtype=frames.TIME)))
    tx.delete("fact_scores", scoring.dropped)
    if _learning_mark(tx) != learning:
        tx.upsert("metadata", pl.DataFrame({"id": [LEARNING], "number": [float(learning)]}))


@task("prune facts")
def prune(run: Run, settings: StewardSettings, *, dry_run: bool = False) -> Pruned:
    """Archive the facts that fade, in commits of `batch_size`; one that is killed is finished by the next (S4-07).

    Each commit looks again at what is live, pinned and recalled meanwhile. Nothing is pruned in the learning period.
    """
    store = store_of(run)
    if is_learning(store, settings):
        return Pruned()
    snapshot = store.snapshot()
    recent = _Recent(store, snapshot)
    signals = _signals(snapshot, store)
    columns = [*_JUDGED, *(ENDS if signals.pinned else ())]
    facts = snapshot.frame("facts", f"{live_sql(run.now)} AND {may_fade_sql(settings, run.now)}", columns)
    plan = _plan(facts, signals, settings, run)
    if dry_run or plan.ids.is_empty():
        return Pruned(tuple(plan.ids), _decisions(snapshot, plan, settings, LISTED if dry_run else SHOWN))
    done = _prune(store, run, settings, plan.ids, snapshot.sequence, signals, recent)
    if run.proposes is not None:
        done = store.snapshot().by_ids("facts", done, ["id"], where="status = 'archived'")["id"].sort().to_list()
        plan = replace(plan, faded=plan.faded.filter(pl.col("id").is_in(done)))
    renew_profiles(run, snapshot.by_ids("facts", done, ["owner_entity_id"])["owner_entity_id"])
    return Pruned(tuple(done), _decisions(snapshot, plan, settings, SHOWN))


def _signals(reading: Reading, store: Store) -> _Signals:
    pinned = reading.frame("entities", "pinned", ["id"])["id"]
    return _Signals(use_so_far(reading, store), _put_back(reading), frozenset(pinned))


def _plan(facts: pl.DataFrame, signals: _Signals, settings: StewardSettings, run: Run) -> PrunePlan:
    dated = _with_put_back(facts, signals.put_back)
    return plan_prune(dated, signals.usage, settings, run.now, pinned=signals.pinned)


def _prune(
    store: Store, run: Run, settings: StewardSettings, ids: pl.Series, seen: int, signals: _Signals, recent: _Recent
) -> list[str]:
    """Prune batch after batch; returns the facts that were pruned. `seen` is the commit that the signals are of.

    Recalls are logged outside of commits, so each batch asks for those that came in since.
    """
    done: list[str] = []
    for start in range(0, len(ids), settings.batch_size):
        with store.commit(run.id, "steward.prune", run.now) as tx:
            if tx.sequence != seen + 1:  # another run has written something meanwhile
                signals = _signals(tx, store)
            chosen = ids[start : start + settings.batch_size]
            chosen = chosen.filter(~chosen.is_in(recent.recalled()))
            facts = tx.by_ids("facts", chosen, where=live_sql(run.now), with_vector=True)
            plan = _plan(facts, signals, settings, run)
            if len(plan.ids):
                rows = facts.filter(pl.col("id").is_in(plan.ids.implode())).sort("id")
                carry_out(tx, retirement_of(tx, rows, PRUNED, run.now, plan.measures))
            seen = tx.sequence if len(plan.ids) else tx.sequence - 1
        done += plan.ids.to_list()
    return done


def _decisions(reading: Reading, plan: PrunePlan, settings: StewardSettings, most: int) -> tuple[DecisionSummary, ...]:
    """The first of them, with what was measured."""
    first, least = plan.faded.head(most), settings.prune_threshold
    statements = dict(reading.by_ids("facts", first["id"], ["id", "statement"]).iter_rows())
    return tuple(
        DecisionSummary(
            "prune",
            statements.get(id_, ""),
            f"Not recalled in {age / 24:.0f} days; scores {score:.3f}, below {least:g}.",
        )
        for id_, age, score in first.select("id", "age_hours", "score").iter_rows()
    )

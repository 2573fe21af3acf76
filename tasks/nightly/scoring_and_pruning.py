"""The work of the flow `steward`: logged use is counted, facts and entities are scored by it, and what nobody recalled
fades, and near-duplicates become one.

Use is counted by `decay` as well, and known to the gate and to all that choose between facts.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial

import polars as pl

from inference.language import Language
from prompts.rendering import prompt_version
from slowwave.common import frames
from slowwave.common.records import REDUNDANT
from slowwave.common.run_counts import RunCount
from slowwave.common.settings import DecaySettings, MergeSettings, RecallSettings, StewardSettings, UseSettings
from slowwave.common.validity import ENDS, live_sql, not_kept_sql
from slowwave.facts.deduplication.duplicates import by_use
from slowwave.facts.deduplication.pairs_for_a_model import uses_pairs
from slowwave.facts.deduplication.reconciliation_plan import ReconciliationPlan
from slowwave.lifecycle import pruning_and_eviction as pruning
from slowwave.lifecycle.pruning_and_eviction import PRUNED, PrunePlan, is_due, plan_prune
from slowwave.lifecycle.usage_scores import (
    added_up,
    company,
    entity_usage_of,
    fold_reads,
    fold_recalls,
    noticeable,
    score_facts,
    usage_of,
    weaken_links,
    weigh,
)
from storage.rows import quoted
from storage.snapshots import Reading, Snapshot
from storage.store import Store
from storage.transactions import Transaction
from tasks.entities.retirement import renew_profiles, retirement_of, write_retirement
from tasks.runtime.engine import log, report_progress, task
from tasks.runtime.retrying import ASKS_MODEL, LONGEST_WAIT_FOR_A_MODEL_S, WHOLE_MEMORY
from tasks.runtime.run_pages import LISTED, SHOWN, DecisionSummary, TaskResult
from tasks.runtime.runs import Run, store_of
from tasks.runtime.writing import decide_and_write

from .fact_reconciliation import PROMPT, PairAnswers, asks_model, comparable, comparison_of, settle, waiting_facts

RECALLS, READS = "retrieval_events", "entity_access_log"
LEARNING = "steward.learning"
SCORE_STEP = 0.01  # scores that changed less since they were written are not written
_IS_REDUNDANT = f"reason IN ({', '.join(map(quoted, REDUNDANT))})"
_COLUMNS = {RECALLS: ("fact_id", "cosine", "at"), READS: ("entity_id", "query_hash", "at")}
_SCORED = ["id", "created_at", "content_score"]
_JUDGED = [*_SCORED, "kind", "entrenchment", "pinned"]
_PUT_BACK = "action IN ('prune', 'restore')"


# Use: logged recalls and reads become counters, links weaken, entities are weighed by it (S4-01, S0-23, S2-73).


@task("count use")
def count_usage(run: Run) -> TaskResult:
    """Add what reads have logged since the last time to the counters, each event exactly once; returns what was new.

    How far the logs are counted is written with the counters, so a death in between leaves both as they were.
    """

    def write(tx: Transaction, unread: _Unread) -> None:
        stored = tx.by_ids_or_all("fact_usage", unread.recalls["fact_id"])
        tx.upsert("fact_usage", fold_recalls(stored, unread.recalls))
        ours = (("entity_usage", "id"), ("entity_days", "entity_id"))
        usage, days = (tx.by_ids_or_all(name, unread.reads["entity_id"], key=key) for name, key in ours)
        by_entity, by_day = fold_reads(usage, days, unread.reads)
        met = company(unread.reads)
        pairs = tx.by_ids_or_all("co_occurrences", met["id"])
        tx.upsert("entity_usage", by_entity)
        tx.upsert("entity_days", by_day)
        tx.upsert("co_occurrences", added_up(pairs, met, frames.CO_OCCURRENCES))
        tx.upsert("log_marks", unread.marks)

    unread = decide_and_write(run, "usage.count", partial(_unread, store_of(run)), write)
    return TaskResult({RunCount.RECALLS_COUNTED: len(unread.recalls)} if len(unread) else {})


@task("fade links")
def fade_links(run: Run, settings: DecaySettings) -> int:
    """Weaken links of facts that nobody asked for, for all the time since the last run; returns how many (S2-73)."""

    def weaker(reading: Reading) -> pl.DataFrame:
        return weaken_links(reading.frame("fact_usage", "link_count > 0"), run.now, settings)

    return len(decide_and_write(run, "usage.fade", weaker, lambda tx, rows: tx.upsert("fact_usage", rows)))


@task("weigh entities")
def weigh_entities(run: Run, settings: UseSettings | None = None) -> int:
    """Write the scores of entities that changed noticeably, drop those of entities that are gone; returns how many."""
    decide = partial(_entity_scores, run=run, settings=settings or UseSettings())
    return len(decide_and_write(run, "usage.weigh", decide, _write_entity_scores))


def counted_use(reading: Reading) -> pl.DataFrame:
    """How each fact was used as far as it is counted, with what it absorbed: `usage_of`."""
    return usage_of(reading.frame("fact_usage"), _absorptions(reading))


def use_so_far(reading: Reading, store: Store) -> pl.DataFrame:
    """`counted_use` with the recalls that were logged and not counted yet: one saves a fact like any other."""
    counted = reading.frame("fact_usage")
    marks = dict(reading.by_ids("log_marks", [RECALLS], ["id", "version"]).iter_rows())
    unread = store.log_since(RECALLS, marks.get(RECALLS, 0), _COLUMNS[RECALLS])[0]
    fresh = fold_recalls(counted.clear(), unread)
    return usage_of(pl.concat([counted, fresh], how="diagonal"), _absorptions(reading))


def _absorptions(reading: Reading) -> pl.DataFrame:
    return reading.frame("lineage", _IS_REDUNDANT, list(frames.LINEAGE))


@dataclass(frozen=True, slots=True)
class _Unread:
    """Events of both logs that are not counted yet, and how far the logs will be counted then."""

    recalls: pl.DataFrame
    reads: pl.DataFrame
    marks: pl.DataFrame

    def __len__(self) -> int:
        return len(self.recalls) + len(self.reads)


def _unread(store: Store, reading: Reading) -> _Unread:
    marks = dict(reading.frame("log_marks", columns=["id", "version"]).iter_rows())
    (recalls, recalled), (reads, read) = (
        store.log_since(name, marks.get(name, 0), columns) for name, columns in _COLUMNS.items()
    )
    return _Unread(recalls, reads, pl.DataFrame({"id": [RECALLS, READS], "version": [recalled, read]}))


@dataclass(frozen=True, slots=True, eq=False)
class _EntityScores:
    """ENTITY_SCORES to write, and ids of entities whose score is removed."""

    scores: pl.DataFrame
    gone: pl.Series

    def __len__(self) -> int:
        return len(self.scores) + len(self.gone)


def _entity_scores(reading: Reading, run: Run, settings: UseSettings) -> _EntityScores:
    entities = reading.frame("entities", columns=["id", "created_at", "pinned", "merged_into"])
    merged = entities.filter(pl.col("merged_into").is_not_null())
    present = entities.join(merged, on="id", how="anti")
    where = f"kind = 'relation' AND {live_sql(run.now)}"
    relations = reading.frame("facts", where, ["subject_id", "object_id"])
    steps = dict(merged.select("id", "merged_into").iter_rows())
    days = reading.by_ids("entity_days", [*steps, *steps.values()], ["entity_id", "day"], key="entity_id")
    use = reading.frame("entity_usage", columns=["id", "access_count", "access_days", "last_access_at"])
    scores = weigh(present, entity_usage_of(use, days, steps), relations, run.now, settings)
    stored = reading.frame("entity_scores")
    gone = stored.join(present, on="id", how="anti")["id"]
    known = stored.select("id", "created_at")
    return _EntityScores(noticeable(scores, stored).join(known, on="id", how="left"), gone)


def _write_entity_scores(tx: Transaction, changes: _EntityScores) -> None:
    tx.upsert("entity_scores", changes.scores)
    tx.delete("entity_scores", changes.gone)


# Scores: every live fact has one (S4-02, S4-06).


@task("score facts", tags=[WHOLE_MEMORY])
def score(
    run: Run,
    settings: StewardSettings,
    *,
    min_quality: float = RecallSettings().min_quality,
) -> TaskResult:
    """Score all live facts, and write what has changed enough to matter as one commit, or none (S4-06).

    Scores on the other side of `min_quality`, below which recall hides facts, are always written.
    """
    learning, marks = is_learning(run, settings), (settings.prune_threshold, min_quality)
    decide = partial(_scoring, run=run, settings=settings, marks=marks, learning=learning)
    scoring = decide_and_write(run, "steward.score", decide, partial(_write_scores, run=run, learning=learning))
    return TaskResult({RunCount.FACTS_SCORED: scoring.facts, RunCount.SCORES_CHANGED: len(scoring.written)})


def is_learning(place: Run | Store, settings: StewardSettings) -> bool:
    """Whether too few recalls were logged yet for anything to be pruned, merged or hidden (S4-02)."""
    try:
        store = store_of(place) if isinstance(place, Run) else place
        return pruning.is_learning(store.snapshot().count(RECALLS), settings)
    except Exception as error:
        log.warning("Recalls could not be counted, so nothing is pruned or merged: %s", error)
        return True


@dataclass(frozen=True, slots=True, eq=False)
class _Scoring:
    """Of `facts` live ones: scores to store (id, quality_score), and ids of scores to remove.

    `has_new_mark`: the steward has begun or ended learning since the mark was stored.
    """

    facts: int
    written: pl.DataFrame
    dropped: pl.Series
    has_new_mark: bool

    def __len__(self) -> int:
        return len(self.written) + len(self.dropped) + self.has_new_mark


def _scoring(
    reading: Reading, run: Run, settings: StewardSettings, marks: Collection[float], learning: bool
) -> _Scoring:
    facts = _with_put_back(reading, reading.frame("facts", live_sql(run.now), _SCORED))
    scores = score_facts(facts, counted_use(reading), settings, run.now)
    stored = reading.frame("fact_scores", columns=["id", "quality_score"])
    known = stored.with_columns(is_stored=True)
    both = facts.select("id").with_columns(scores).join(known, on="id", how="left")
    due = both.filter(is_due(marks, SCORE_STEP)).select("id", quality_score="score")
    has_gone = both["is_stored"].count() < len(stored)
    gone = stored.join(facts, on="id", how="anti") if has_gone else stored.clear()
    mark = reading.by_ids("metadata", [LEARNING], ["number"])["number"].to_list()
    return _Scoring(len(facts), due, gone["id"], [bool(number) for number in mark] != [learning])


def _with_put_back(reading: Reading, facts: pl.DataFrame) -> pl.DataFrame:
    """The facts with `put_back_at`, when they were pruned or restored last: the age of a fact counts from then."""
    rows = reading.frame("decisions", _PUT_BACK, ["subject_id", "at"])
    put_back = rows.group_by(id="subject_id").agg(put_back_at=pl.col("at").max())
    return facts.join(put_back, on="id", how="left", maintain_order="left") if len(put_back) else facts


def _write_scores(tx: Transaction, scoring: _Scoring, run: Run, learning: bool) -> None:
    """The scores with what else their rows hold, and whether the steward learns."""
    ids, kept = scoring.written["id"], ["id", "created_at", "compared_at"]
    known = tx.by_ids_or_all("fact_scores", ids, kept)
    rows = scoring.written.join(known, on="id", how="left")
    tx.upsert("fact_scores", rows.with_columns(scored_at=pl.lit(run.now, dtype=frames.TIME)))
    tx.delete("fact_scores", scoring.dropped)
    if scoring.has_new_mark:
        tx.upsert("metadata", pl.DataFrame({"id": [LEARNING], "number": [float(learning)]}))


# Pruning: what nobody recalled fades (S4-07).


@task("prune facts")
def prune(run: Run, settings: StewardSettings, *, dry_run: bool = False) -> TaskResult:
    """Archive the facts that fade, in commits of `batch_size`; one that is killed is finished by the next (S4-07).

    Each commit looks again at what is live, pinned and recalled meanwhile. Nothing is pruned in the learning period.
    """
    store = store_of(run)
    if is_learning(store, settings):
        return TaskResult()
    snapshot = store.snapshot()
    pinned = _pinned(snapshot)
    facts = snapshot.frame("facts", f"{live_sql(run.now)} AND {not_kept_sql()}", [*_JUDGED, *(ENDS if pinned else ())])
    plan = _prune_plan(snapshot, store, facts, pinned, settings, run)
    if dry_run or plan.ids.is_empty():
        return _pruned(snapshot, plan, settings, len(plan.ids), LISTED if dry_run else SHOWN)
    done: list[str] = []
    for start in range(0, len(plan.ids), settings.batch_size):
        with store.commit(run.id, "steward.prune", run.now) as tx:
            chosen = plan.ids[start : start + settings.batch_size]
            facts = tx.by_ids("facts", chosen, where=live_sql(run.now), with_vector=True)
            part = _prune_plan(tx, store, facts, _pinned(tx), settings, run)
            if len(part.ids):
                rows = facts.filter(pl.col("id").is_in(part.ids.implode())).sort("id")
                write_retirement(tx, retirement_of(tx, rows, PRUNED, run.now, part.measures))
        done += part.ids.to_list()
    if run.proposes is not None:
        done = store.snapshot().by_ids("facts", done, ["id"], where="status = 'archived'")["id"].sort().to_list()
        plan = replace(plan, faded=plan.faded.filter(pl.col("id").is_in(done)))
    renew_profiles(run, snapshot.by_ids("facts", done, ["owner_entity_id"])["owner_entity_id"])
    return _pruned(snapshot, plan, settings, len(done), SHOWN)


def _pinned(reading: Reading) -> frozenset[str]:
    return frozenset(reading.frame("entities", "pinned", ["id"])["id"])


def _prune_plan(
    reading: Reading, store: Store, facts: pl.DataFrame, pinned: frozenset[str], settings: StewardSettings, run: Run
) -> PrunePlan:
    """By what keeps facts from fading: their use, when they were put back, and which entities are pinned."""
    return plan_prune(_with_put_back(reading, facts), use_so_far(reading, store), settings, run.now, pinned=pinned)


def _pruned(reading: Reading, plan: PrunePlan, settings: StewardSettings, gone: int, most: int) -> TaskResult:
    """The facts that went, the first of them with what was measured."""
    first, least = plan.faded.head(most), settings.prune_threshold
    statements = dict(reading.by_ids("facts", first["id"], ["id", "statement"]).iter_rows())
    decisions = tuple(
        DecisionSummary(
            "prune",
            statements.get(id_, ""),
            f"Not recalled in {age / 24:.0f} days; scores {score:.3f}, below {least:g}.",
        )
        for id_, age, score in first.select("id", "age_hours", "score").iter_rows()
    )
    return TaskResult({RunCount.FACTS_PRUNED: gone} if gone else {}, decisions)


# Near-duplicates: what is found to say the same becomes one fact, that of more use (S4-08 … S4-10). As in a
# consolidation, but without its marks: only pairs very close in meaning, only facts that neither of the two has
# compared yet. A later consolidation sees the others as if the steward had never looked (§6.5).


@task("merge duplicates", longest_s=LONGEST_WAIT_FOR_A_MODEL_S, tags=(ASKS_MODEL, WHOLE_MEMORY))
async def merge_duplicates(
    run: Run, settings: StewardSettings, language: Language, *, dry_run: bool = False
) -> TaskResult:
    """Compare what nobody compared yet with everything live; one commit, or none.

    What guards keep apart is asked of a model where there is one, and waits as a pair where there is none.
    """
    snapshot = store_of(run).snapshot()
    seeds = _uncompared(snapshot, run, settings)
    if seeds.is_empty():
        return TaskResult()
    await report_progress("facts to compare", len(seeds))
    least = settings.merge_threshold
    limits = MergeSettings(
        resolve_cosine=least, merge_cosine=least, text_dedup=1.0, max_existing_matches=settings.merge_neighbors
    )
    version = prompt_version(PROMPT) if asks_model(limits, language) else ""
    usage = counted_use(snapshot).select("id", "hit_count", "avg_retrieval_score")
    comparison = comparison_of(run, snapshot, seeds, limits, version, by_use(settings), usage)

    def mark(tx: Transaction, plan: ReconciliationPlan, answers: PairAnswers) -> None:
        left = [*answers.waiting, *comparison.merges.duplicates["loser_id"], *plan.lineage["old_id"]]
        _mark(tx, run, seeds.filter(~seeds.is_in(left)))

    by_pairs = uses_pairs(len(seeds), "auto", limits)
    done = await settle(
        run, "steward.merge", comparison, limits, language, by_pairs, dry_run=dry_run, marks=False, also=mark
    )
    return replace(done, counts={**done.counts, RunCount.FACTS_COMPARED: len(seeds)})


def _uncompared(snapshot: Snapshot, run: Run, settings: StewardSettings) -> pl.Series:
    """Ids of live facts that neither consolidation nor the steward compared, oldest first.

    Nor such as wait for a person, who is asked once.
    """
    where = f"{comparable(run, None)} AND consolidated_at IS NULL"
    fresh = snapshot.frame("facts", where, ["id", "created_at"])
    known = snapshot.by_ids_or_all("fact_scores", fresh["id"], where="compared_at IS NOT NULL")
    seen = pl.concat([known["id"], waiting_facts(snapshot)]).implode()
    oldest = fresh.filter(~pl.col("id").is_in(seen)).sort("created_at", "id")["id"]
    return oldest.head(settings.merge_scan) if settings.merge_scan else oldest


def _mark(tx: Transaction, run: Run, ids: pl.Series) -> None:
    """Remember that the steward compared these facts; what else it thinks of them stays."""
    known = tx.by_ids_or_all("fact_scores", ids)
    rows = ids.rename("id").to_frame().join(known, on="id", how="left", maintain_order="left")
    tx.upsert("fact_scores", rows.with_columns(compared_at=pl.lit(run.now, dtype=frames.TIME)))

"""Reconciliation: what says the same becomes one fact, what something newer updates or corrects ends (S1-01 … S1-14).

This is the work of the flow `consolidate`. `ingest` does the same for what it learned, `consolidate` for what is left.
Rules decide what is plain; a model judges the other pairs that matter, where there is one. Reading, comparing, asking
and embedding happen outside the lease. Inside it the plan is made again without facts that another run has retired
since, and written as one commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from inference.language import Language
from prompts.rendering import prompt_version, render_pairs
from prompts.responses import Reconciliation
from slowwave.common.comparison.similarity import resolve_cosine_of
from slowwave.common.records import PairFact, PairQuestion
from slowwave.common.run_counts import RunCount
from slowwave.common.settings import MergeSettings
from slowwave.common.validity import AXIOM, is_live, live_sql, rank_of, time_sql
from slowwave.facts.deduplication.duplicates import (
    KINDS,
    TOPICS,
    CandidateSet,
    MergeRule,
    Merges,
    by_words,
    find_pairs,
    find_topics,
    merge_by,
    select_seeds,
)
from slowwave.facts.deduplication.pairs_for_a_model import (
    CONTRADICTS,
    CORRECTS,
    COVERS,
    SAME,
    UPDATES,
    JudgedPair,
    Mode,
    choose_pairs,
    covering_pairs,
    uses_pairs,
)
from slowwave.facts.deduplication.reconciliation_plan import MARKS, ReconciliationPlan, plan_reconciliation
from slowwave.facts.revision.application import Surroundings
from slowwave.facts.revision.supersession import COVER
from slowwave.reading.extraction.date_words import stated_date
from storage.rows import column_names, id_filters, quoted
from storage.search import near_rows, unit_matrix
from storage.snapshots import MANY, Reading, Snapshot
from storage.transactions import Transaction
from tasks.ingest.surroundings import surroundings_of_facts
from tasks.runtime.engine import report_progress, task
from tasks.runtime.retrying import ASKS_MODEL, LONGEST_WAIT_FOR_A_MODEL_S, WHOLE_MEMORY
from tasks.runtime.run_pages import TaskResult, decisions_of
from tasks.runtime.runs import Run, Writing, store_of

COMPARED = ["id", "scope", "kind", "statement", "vector"]
COMPARED_TABLES = ("facts", "pair_decisions")
WAITING_MERGES = "action = 'merge' AND state = 'pending'"
OPEN_PAIRS = "kind = 'redundant' AND outcome IN ('pending', 'failed')"
LEFT_OPEN = "kind = 'implicit_conflict' AND outcome = 'pending' AND decided_by = 'rule'"
PROMPT = "reconcile_facts"
UNANSWERED, CONTRADICTORY = "the answer has no usable verdict about it", "the answer has two verdicts about it"
COUNTED_AS = {
    "looked_at": RunCount.FACTS_COMPARED,
    "merged": RunCount.FACTS_MERGED,
    "ended": RunCount.FACTS_SUPERSEDED,
    "clashing": RunCount.CONTRADICTIONS_FOUND,
    "kept": RunCount.PAIRS_KEPT_APART,
    "pending": RunCount.PAIRS_LEFT_UNDECIDED,
    "failed": RunCount.PAIRS_NOT_DECIDED,
}
_ENDING = (UPDATES, CORRECTS, CONTRADICTS)
_CHANGING = (*_ENDING, SAME, COVERS)
_BEGINNING = datetime.min.replace(tzinfo=UTC)
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Facts to compare, with their vectors row by row, and what the rule found without a model.

    The facts may have columns that the store has not: what the rule needs to know besides.
    """

    snapshot: Snapshot
    pool: CandidateSet
    vectors: npt.NDArray[np.float32]
    merges: Merges
    rule: MergeRule
    covered: tuple[JudgedPair, ...] = ()
    """Pairs that the extractor judged: the second fact says all that the first one says."""


@dataclass(slots=True)
class PairAnswers:
    """The verdicts on pairs; `left` are the facts of pairs without an answer."""

    judged: list[JudgedPair] = field(default_factory=list)
    errors: set[str] = field(default_factory=set)
    left: set[str] = field(default_factory=set)

    @property
    def waiting(self) -> frozenset[str]:
        """Facts of pairs that were not put to a model."""
        return frozenset(id_ for each in self.judged if not (each.verdict or each.error) for id_ in each.ids)


@task("reconcile facts", longest_s=LONGEST_WAIT_FOR_A_MODEL_S, tags=(ASKS_MODEL, WHOLE_MEMORY))
async def reconcile(
    run: Run,
    settings: MergeSettings,
    language: Language,
    *,
    since: datetime | None = None,
    scope: str | None = None,
    mode: Mode = "auto",
    dry_run: bool = False,
    at_the_end: Callable[[Writing], None] | None = None,
) -> TaskResult:
    """Compare what was not compared yet (or was learned `since`) with what is known; one commit, or none.

    Where nothing comes of it but that facts count as compared, that is left to the commit which ends the run, if its
    caller takes it (`at_the_end`): if the run dies before it, they are compared again, by the same answers.
    """
    snapshot = store_of(run).snapshot()
    has_model = asks_model(settings, language)
    seeds = seeds_of(snapshot, run, settings, since, scope, has_model)
    if seeds.is_empty():
        return TaskResult()
    await report_progress("facts to compare", len(seeds))
    comparison = comparison_of(run, snapshot, seeds, settings, prompt_version(PROMPT) if has_model else "")
    by_pairs = uses_pairs(len(seeds), mode, settings)
    return await settle(
        run, "consolidate.facts", comparison, settings, language, by_pairs, dry_run=dry_run, at_the_end=at_the_end
    )


async def settle(
    run: Run,
    kind: str,
    comparison: Comparison,
    settings: MergeSettings,
    language: Language,
    by_pairs: bool,
    *,
    dry_run: bool,
    marks: bool = True,
    also: Callable[[Transaction, ReconciliationPlan, PairAnswers], None] = lambda tx, plan, answers: None,
    at_the_end: Callable[[Writing], None] | None = None,
) -> TaskResult:
    """Ask about what was compared, and write what became of it as one commit of that kind, with what belongs to it.

    Without `marks` no fact counts as consolidated.
    """
    has_model, snapshot = asks_model(settings, language), comparison.snapshot
    answers, would_ask = await ask_about_pairs(
        run, comparison, settings, language if has_model else None, by_pairs, dry_run
    )
    model = language.model("consolidate") if has_model and not dry_run else ""

    def planned(reading: Reading, comparison: Comparison) -> ReconciliationPlan:
        return plan_of(run, reading, comparison, answers.judged, settings, model, marks=marks)

    plan = planned(snapshot, comparison)
    if dry_run:
        return counted(plan, comparison, PairAnswers(), would_ask)
    if at_the_end is not None and plan.only_marks:
        at_the_end(Writing(kind, partial(_write_marks, plan=plan, snapshot=snapshot)))
        return counted(plan, comparison, answers)
    with store_of(run).commit(run.id, kind, run.now) as tx:
        if tx.is_overtaken(snapshot, *COMPARED_TABLES):
            comparison = as_stored_now(tx, run, comparison)
            settled = set(comparison.pool.settled().iter_rows())  # by a person, meanwhile
            answers.judged = [each for each in answers.judged if each.ids not in settled]
            plan = planned(tx, comparison)
        write_plan(tx, plan)
        also(tx, plan, answers)
    return counted(written_part(run, plan), comparison, answers)


def asks_model(settings: MergeSettings, language: Language) -> bool:
    """Whether a model judges pairs: where there is one, unless that is turned off."""
    return settings.ask_model and not language.is_keyless("consolidate")


# Comparing: which facts are looked at, with which others, and what needs no model (S1-01, S1-02, §6.2).


def seeds_of(
    snapshot: Snapshot, run: Run, settings: MergeSettings, since: datetime | None, scope: str | None, has_model: bool
) -> pl.Series:
    """Ids of the facts to start from, in order (S1-01); what waits for a person is left alone meanwhile."""
    open_pairs = snapshot.frame("pair_decisions", f"({OPEN_PAIRS}) OR ({LEFT_OPEN})" if has_model else "false")
    waiting = ["consolidated_at IS NULL"] + ([f"created_at >= {time_sql(since)}"] if since else [])
    columns = "id kind scope status valid_to expired_at consolidated_at consolidation_attempts created_at".split()
    live = f"{comparable(run, scope)} AND "
    fresh = snapshot.frame("facts", f"{live}({' OR '.join(waiting)})", columns)
    fresh = fresh.filter(~pl.col("id").is_in(waiting_facts(snapshot).implode()))
    if since is not None:
        fresh = fresh.with_columns(consolidated_at=pl.lit(None, dtype=fresh.schema["consolidated_at"]))
    again = pl.concat([open_pairs["a_id"], open_pairs["b_id"]])
    marked = snapshot.by_ids("facts", again, columns, where=comparable(run, scope))
    return select_seeds(pl.concat([fresh, marked]).unique("id", keep="first"), open_pairs, has_model)


def waiting_facts(reading: Reading) -> pl.Series:
    """Ids of the rows that a merge would change which waits for a person."""
    waiting = reading.frame("proposals", WAITING_MERGES, ["touches"])
    return waiting["touches"].explode().drop_nulls().unique().sort()


def comparable(run: Run, scope: str | None) -> str:
    """Live facts that are compared at all, of one scope if it is named."""
    kinds = ", ".join(map(quoted, KINDS))
    where = f"{live_sql(run.now)} AND kind IN ({kinds})"
    return where if scope is None else f"{where} AND scope = {quoted(scope)}"


def comparison_of(
    run: Run,
    snapshot: Snapshot,
    seeds: pl.Series,
    settings: MergeSettings,
    version: str,
    rule: MergeRule | None = None,
    usage: pl.DataFrame | None = None,
) -> Comparison:
    """The seeds and what they are near to, compared; with a `version` also what may be about one matter.

    By a `rule` of the steward, which knows the `usage` of facts (id and more), only what is near to another is met.
    """
    resolve, is_whole = resolve_of(run, settings), rule is None
    covers = _covers(run, snapshot, seeds) if is_whole else ()
    covered = pl.Series([each.first for each in covers], dtype=pl.String)
    compared = _compared(run, snapshot, pl.concat([seeds, covered]), settings)
    compared = compared.with_columns(is_seed=pl.col("id").is_in(seeds.implode()))
    matrix, compared = unit_matrix(compared["vector"], snapshot.dims), compared.drop("vector")
    pairs = find_pairs(compared, matrix, settings, min(resolve, settings.merge_cosine))
    topics = find_topics(compared, matrix) if version and is_whole else pl.DataFrame(schema=TOPICS)
    waiting = decided_pairs(snapshot, seeds) if version and is_whole else topics  # for a model
    met = pl.concat([covered, *(part[end] for part in (pairs, topics, waiting) for end in ("a_id", "b_id"))]).unique()
    is_met = pl.col("id").is_in(met.implode()) | (pl.col("is_seed") & is_whole)
    rows = compared.select(is_met=is_met)["is_met"].arg_true()
    chosen = compared.select("id", "is_seed")[rows]
    chosen = chosen if usage is None else chosen.join(usage, on="id", how="left", maintain_order="left")
    facts = whole_facts(run, snapshot, chosen)
    subjects = facts["subject_id"].unique() if version and is_whole else ()
    people = frozenset(snapshot.by_ids("entities", subjects, ["id"], where="entity_type = 'person'")["id"])
    pool = CandidateSet(facts, pairs, decided_pairs(snapshot, met), version, topics, people)
    rule = rule or by_words(settings)
    merges = merge_by(pool, rule)
    worth_asking = (pl.col("cosine") >= resolve) | (pl.col("jaccard") >= settings.text_dedup)
    merges = replace(merges, undecided=merges.undecided.filter(worth_asking))
    settled = set(pool.settled().iter_rows())
    covers = tuple(each for each in covers if each.ids not in settled)
    return Comparison(snapshot, pool, matrix[rows.to_numpy()], merges, rule, covers)


def _compared(run: Run, snapshot: Snapshot, seeds: pl.Series, settings: MergeSettings) -> pl.DataFrame:
    """What pairs are found among, by id: the seeds and their neighbours, or the seeds' scopes where these are no more.

    Other seeds are neighbours too, and those of one conversation are near to each other: a few of them are allowed for
    beyond the neighbours that are wanted (S1-02).
    """
    wanted = settings.max_existing_matches * (settings.rerank_multiplier if settings.rerank else 1)
    wanted += min(len(seeds), max(settings.pairwise_max_batch, wanted)) + 1
    if len(seeds) > settings.pairwise_max_batch and len(seeds) * 2 * wanted >= snapshot.count("facts"):
        return whole_scopes(run, snapshot, snapshot.by_ids("facts", seeds, ["id", "scope"])["scope"])
    live, own = comparable(run, None), snapshot.by_ids("facts", seeds, COMPARED)
    near = near_rows(snapshot, "facts", own.select("scope", "vector", text="statement"), wanted, live, COMPARED)
    return pl.concat([own, near]).unique("id").sort("id")


def whole_scopes(run: Run, snapshot: Snapshot, scopes: pl.Series) -> pl.DataFrame:
    """Everything live of these scopes and of none, by id, with what is compared."""
    live, named = comparable(run, None), scopes.drop_nulls().unique().sort()
    inside = f"{live} AND (scope IN ({', '.join(map(quoted, named))}) OR scope IS NULL)" if len(named) else live
    return snapshot.frame("facts", inside, COMPARED).sort("id")


def _covers(run: Run, reading: Reading, seeds: pl.Series) -> tuple[JudgedPair, ...]:
    """The pairs of which the extractor said that a seed says all that another comparable fact says, and more."""
    columns = ["known_id", "candidate_id"]
    rows = reading.by_ids("fact_directives", seeds, columns, key="candidate_id", where=f"action = {quoted(COVER)}")
    there = reading.by_ids("facts", rows["known_id"], ["id"], where=comparable(run, None))["id"]
    return covering_pairs(rows.filter(pl.col("known_id").is_in(there.implode())).iter_rows())


def whole_facts(run: Run, reading: Reading, chosen: pl.DataFrame) -> pl.DataFrame:
    """Full rows without vectors of the chosen facts (id, is_seed, perhaps more), in their order."""
    is_many = len(chosen) > MANY
    rows = reading.frame("facts", comparable(run, None)) if is_many else reading.by_ids("facts", chosen["id"])
    return chosen.join(rows, on="id", how="inner", maintain_order="left")


def resolve_of(run: Run, settings: MergeSettings) -> float:
    """The cosine from which facts may say the same (S1-03)."""
    return resolve_cosine_of(run.embedder) if settings.resolve_cosine is None else settings.resolve_cosine


def decided_pairs(reading: Reading, ids: pl.Series) -> pl.DataFrame:
    """The decisions about pairs of these facts."""
    known, named = ids.drop_nulls().unique().sort().to_list(), ("a_id", "b_id")
    parts = zip(*(id_filters(known, end) for end in named), strict=True)
    found = [reading.frame("pair_decisions", " OR ".join(each)) for each in parts]
    return pl.concat(found or [reading.frame("pair_decisions", "false")]).unique("id", keep="first")


def as_stored_now(reading: Reading, run: Run, comparison: Comparison) -> Comparison:
    """The same view with the rows as they are now, without those that are no longer live.

    What rules merged is put before the guards again: an end may have been set, or a person may have said "keep both".
    """
    stored = set(column_names("facts")) - {"id"}
    facts = whole_facts(run, reading, comparison.pool.facts.drop(stored, strict=False)).filter(is_live(run.now))
    merged = comparison.merges.duplicates.select("cosine", "jaccard", a_id="loser_id", b_id="winner_id")
    pool = replace(comparison.pool, facts=facts, decided=decided_pairs(reading, facts["id"]))
    losers = merge_by(replace(pool, pairs=merged), comparison.rule).duplicates
    there = facts["id"].implode()
    undecided = comparison.merges.undecided.filter(pl.col("a_id").is_in(there), pl.col("b_id").is_in(there))
    return replace(comparison, pool=pool, merges=replace(comparison.merges, duplicates=losers, undecided=undecided))


# Asking: pairs of facts are shown to a model, many to a call, and its verdicts are read (S1-05, S1-13, S2-59).


async def ask_about_pairs(
    run: Run,
    comparison: Comparison,
    settings: MergeSettings,
    language: Language | None,
    by_pairs: bool,
    dry_run: bool,
) -> tuple[PairAnswers, int]:
    """The verdicts about the pairs that are worth a question, and how many these are; none without a model.

    Those of the extractor are among them, and need no question.
    """
    known = list(comparison.covered)
    if language is None:
        return PairAnswers(known), 0
    resolve, judged = resolve_of(run, settings), {each.ids for each in known}
    pairs = choose_pairs(comparison.pool, comparison.merges, comparison.vectors, settings, resolve, by_pairs=by_pairs)
    every = questions_of(comparison.snapshot, pairs, comparison.pool.facts)
    questions = [(a, b, shown) for a, b, shown in every if JudgedPair(a, b).ids not in judged]
    if dry_run:
        return PairAnswers([*known, *(JudgedPair(a, b) for a, b, _ in questions)]), len(questions)
    answers = await judge(language, questions, settings)
    answers.judged[:0] = known
    return answers, len(questions)


def questions_of(reading: Reading, pairs: pl.DataFrame, facts: pl.DataFrame) -> list[tuple[str, str, PairQuestion]]:
    """Each pair in the order of time, with what is shown of it; numbers are given when they are asked."""
    ids = pl.concat([pairs["a_id"], pairs["b_id"]]).unique()
    rows = {row["id"]: row for row in facts.filter(pl.col("id").is_in(ids.implode())).iter_rows(named=True)}
    evidence = reading.by_ids("fact_evidence", ids, ["fact_id", "occurred_at"], key="fact_id")
    times = dict(evidence.group_by("fact_id").agg(pl.col("occurred_at").max()).iter_rows())
    messages = [row["message_id"] for row in rows.values() if row["message_id"]]
    speakers = {
        id_: speaker or role or ""
        for id_, speaker, role in reading.by_ids("messages", messages, ["id", "speaker", "role"]).iter_rows()
    }
    entities = [row[end] for row in rows.values() for end in ("subject_id", "object_id") if row[end]]
    names = dict(reading.by_ids("entities", entities, ["id", "name"]).iter_rows())
    shown = {id_: _shown(row, times.get(id_) or row["valid_from"], speakers, names) for id_, row in rows.items()}
    tries = {id_: row["consolidation_attempts"] or 0 for id_, row in rows.items()}

    def when(id_: str) -> tuple[datetime, datetime, str]:
        row, at = rows[id_], shown[id_].said_at
        return (at or _BEGINNING, row["valid_from"] or _BEGINNING, id_)

    ordered = [sorted(pair, key=when) for pair in pairs.select("a_id", "b_id").iter_rows()]
    return [(a, b, PairQuestion(0, (shown[a], shown[b]), max(tries[a], tries[b]))) for a, b in ordered]


def _shown(row: Row, said_at: datetime | None, speakers: Mapping[str, str], names: Mapping[str, str]) -> PairFact:
    start, is_denied = row["valid_from"], row["kind"] == "relation" and row["polarity"] == "negated"
    event = stated_date(row.get("event_at"), row.get("event_precision"))
    is_same_day = start is None or (said_at is not None and start.date() == said_at.date())
    is_same_day = is_same_day or start == row.get("event_at")
    return PairFact(
        row["statement"] or "",
        names.get(row["subject_id"], ""),
        f"{'not ' if is_denied else ''}{row['predicate'] or ''}",
        names.get(row["object_id"], "") or row["object_text"] or "",
        speakers.get(row["message_id"], ""),
        said_at,
        None if is_same_day else start,
        row["valid_to"],
        event,
        bool(row["pinned"]) or rank_of(row["entrenchment"]) >= AXIOM,
    )


async def judge(
    language: Language, questions: Sequence[tuple[str, str, PairQuestion]], settings: MergeSettings
) -> PairAnswers:
    """The verdicts about all pairs. What is unusable of an answer loses its pair alone; nothing is asked again now."""
    starts = range(0, len(questions), settings.per_call)
    groups = [questions[start : start + settings.per_call] for start in starts]
    if language.budget_reached:
        return PairAnswers(
            [JudgedPair(a, b) for a, b, _ in questions], left={id_ for a, b, _ in questions for id_ in (a, b)}
        )
    answers = await language.ask_many(
        [render_pairs(tuple(replace(each, number=n) for n, (_, _, each) in enumerate(group, 1))) for group in groups],
        Reconciliation,
        "consolidate",
    )
    result = PairAnswers()
    for group, answer in zip(groups, answers, strict=True):
        result.errors |= {answer.error} if answer.error else set()
        result.left |= set() if answer.value else {id_ for a, b, _ in group for id_ in (a, b)}
        verdicts = answer.value.verdicts if answer.value else ()
        silence = "" if answer.is_unanswered else answer.error or UNANSWERED
        for number, (a, b, _) in enumerate(group, 1):
            own = [each for each in verdicts if each.n == number]
            if len({each.v for each in own}) == 1:
                result.judged.append(JudgedPair(a, b, own[0].v, own[0].keep or 1))
            else:
                result.judged.append(JudgedPair(a, b, error=CONTRADICTORY if own else silence))
    return result


# Writing: the rows of a plan, and their counts.


def plan_of(
    run: Run,
    reading: Reading,
    comparison: Comparison,
    judged: Sequence[JudgedPair],
    settings: MergeSettings,
    model: str,
    *,
    marks: bool = True,
) -> ReconciliationPlan:
    """What is to be written, given what the store holds about the facts concerned."""
    merged = [comparison.merges.duplicates["loser_id"], comparison.merges.duplicates["winner_id"]]
    changing = (each.ids for each in judged if each.verdict in _CHANGING)
    judged_ids = pl.Series([fact for ids in changing for fact in ids], dtype=pl.String)
    concerned = pl.concat([*merged, judged_ids]).unique()
    has_ends = any(each.verdict in _ENDING for each in judged)
    return plan_reconciliation(
        comparison.pool,
        comparison.merges,
        judged,
        reading.by_ids("fact_evidence", concerned, key="fact_id"),
        reading.by_ids("fact_aspects", concerned, key="fact_id"),
        settings,
        prompt_version=prompt_version(PROMPT) if model else "",
        model=model,
        now=run.now,
        near=surroundings_of_facts(reading, concerned) if has_ends else Surroundings(),
        marks=marks,
    )


def write_plan(tx: Transaction, plan: ReconciliationPlan) -> None:
    """Write all rows of a plan."""
    vectors = tx.by_ids("facts", plan.facts["id"], ["id", "vector"])
    tx.upsert("facts", plan.facts.join(vectors, on="id", how="left", maintain_order="left"))
    tx.upsert("fact_evidence", plan.evidence)
    tx.upsert("lineage", plan.lineage)
    tx.upsert("fact_aspects", plan.aspects)
    tx.upsert("pair_decisions", plan.pairs)
    tx.upsert("decisions", plan.decisions)


def _write_marks(tx: Transaction, plan: ReconciliationPlan, snapshot: Snapshot) -> None:
    """Let facts count as compared, as they are now; what another run decided about a pair since stands."""
    pairs = plan.pairs
    if tx.is_overtaken(snapshot, "pair_decisions"):
        now, then = (each.by_ids("pair_decisions", pairs["id"]) for each in (tx, snapshot))
        both = ((now, then), (then, now))
        changed = [one.join(other, on=now.columns, how="anti", nulls_equal=True)["id"] for one, other in both]
        pairs = pairs.filter(~pl.col("id").is_in(pl.concat(changed).implode()))
    facts = tx.by_ids("facts", plan.facts["id"], with_vector=True).drop(MARKS)
    tx.upsert("facts", facts.join(plan.facts.select("id", *MARKS), on="id", maintain_order="left"))
    tx.upsert("pair_decisions", pairs)


def written_part(run: Run, plan: ReconciliationPlan) -> ReconciliationPlan:
    """The plan as far as it does not wait for a person."""
    if run.proposes is None or (plan.lineage.is_empty() and plan.decisions.is_empty()):
        return plan
    snapshot = store_of(run).snapshot()

    def there(name: str, rows: pl.DataFrame) -> pl.DataFrame:
        return rows.filter(pl.col("id").is_in(snapshot.by_ids(name, rows["id"], ["id"])["id"].implode()))

    return replace(plan, lineage=there("lineage", plan.lineage), decisions=there("decisions", plan.decisions))


def counted(plan: ReconciliationPlan, comparison: Comparison, answers: PairAnswers, would_ask: int = 0) -> TaskResult:
    """The counts of a plan."""
    counts: dict[str, int] = {COUNTED_AS[what]: number for what, number in plan.summary().items()}
    counts |= {RunCount.FACTS_LEFT_FOR_LATER: len(answers.left), RunCount.QUESTIONS_FOR_A_MODEL: would_ask}
    return TaskResult(counts, decisions_of(plan, comparison.pool.facts), tuple(sorted(answers.errors)))

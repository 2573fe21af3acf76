"""Consolidation: what says the same becomes one fact, by rule or as a model says (S1-01 … S1-14).

Reading, comparing, asking and embedding happen outside the lease; inside it the plan is made again without whatever
another run retired meanwhile, and written as one commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np
import numpy.typing as npt
import polars as pl

from inference.language import Language
from prompts.rendering import prompt_version, render_consolidation
from prompts.responses import ClusterVerdict, Consolidation
from slowwave.blocking import find_pairs
from slowwave.consolidation import ConsolidationPlan, plan_consolidation
from slowwave.merges import KINDS, Merges, Pool, merge_alike, select_seeds
from slowwave.profiles import profile_of
from slowwave.questions import Mode, plan_clusters, plan_pairs, uses_pairs
from slowwave.settings import MergeSettings
from slowwave.validity import is_live, live_sql, time_sql
from slowwave.verdicts import Cluster, Judged, Verdict, check_verdicts
from storage.rows import quoted
from storage.search import near_ids, unit_matrix
from storage.snapshots import Reading, Snapshot
from storage.transactions import Transaction

from .engine import report_progress, task
from .runs import Run, embed_rows, store_of

MANY = 5000  # from so many rows on reading all that is live beats naming each
COMPARED = ["id", "scope", "kind", "statement", "vector"]
MAX_ROUNDS = 50
PROMPT = "consolidate_facts"
OPEN_PAIRS = "kind = 'redundant' AND outcome IN ('pending', 'failed')"
TOLD = 10


@dataclass(frozen=True, slots=True)
class Telling:
    """One decision as it is shown: what was done, about which statement, and why."""

    action: str
    statement: str
    reason: str

    @property
    def cells(self) -> tuple[str, str, str]:
        """Its three cells of a table."""
        return self.action, self.statement, self.reason


@dataclass(frozen=True, slots=True)
class Consolidated:
    """What became of the facts that were looked at."""

    looked_at: int = 0
    merged: int = 0
    reworded: int = 0
    kept: int = 0
    pending: int = 0
    failed: int = 0
    left: int = 0
    would_ask: int = 0
    told: tuple[Telling, ...] = ()
    errors: tuple[str, ...] = ()


Questions = Callable[[Sequence[Judged]], tuple[Cluster, ...]]


@dataclass(frozen=True, slots=True)
class _View:
    """Facts to compare, with their vectors row by row, and what the rule found without a model."""

    pool: Pool
    vectors: npt.NDArray[np.float32]
    merges: Merges


@dataclass(slots=True)
class _Asked:
    """What became of all questions, those among them that were not asked for want of budget."""

    judged: list[Judged] = field(default_factory=list)
    errors: set[str] = field(default_factory=set)

    @property
    def left(self) -> int:
        """Facts of questions that nobody was asked."""
        unasked = [each for each in self.judged if each.verdict is None and not each.error]
        return len({fact for each in unasked for fact in each.cluster.ids()})


@task("consolidate facts")
async def consolidate_facts(
    run: Run,
    settings: MergeSettings,
    language: Language,
    *,
    since: datetime | None = None,
    scope: str | None = None,
    mode: Mode = "auto",
    dry_run: bool = False,
) -> Consolidated:
    """Compare what was not compared yet (or was learned `since`) with what is known; one commit, or none."""
    snapshot = store_of(run).snapshot()
    has_model = not language.is_keyless("consolidate")
    seeds = _seeds(snapshot, run, settings, since, scope, has_model)
    if seeds.is_empty():
        return Consolidated()
    await report_progress("facts to compare", len(seeds))
    view = _view(run, snapshot, seeds, settings, prompt_version(PROMPT) if has_model else "")
    ask = _rounds(view, settings, run, by_pairs=uses_pairs(len(seeds), mode, settings))
    if dry_run:
        questions = ask([]) if has_model else ()
        plan = _plan(run, snapshot, view, [Judged(cluster) for cluster in questions], settings, "")
        return replace(_counted(plan, view, _Asked()), would_ask=len(questions))
    asked = await _judge(language, ask, view, settings) if has_model else _Asked()
    model = language.model("consolidate") if has_model else ""
    plan = _plan(run, snapshot, view, asked.judged, settings, model)
    embedded = embed_rows(run, plan.reworded, plan.reworded.select("id", text="statement")).select("id", "vector")
    with store_of(run).commit(run.id, "consolidate.facts", run.now) as tx:
        if any(tx.versions[name] != snapshot.versions[name] for name in ("facts", "pair_decisions")):
            plan = _plan(run, tx, _as_now(tx, run, view, settings), asked.judged, settings, model)
        _write(tx, run, plan, embedded)
    return _counted(plan, view, asked)


def _seeds(
    snapshot: Snapshot, run: Run, settings: MergeSettings, since: datetime | None, scope: str | None, has_model: bool
) -> pl.Series:
    """Ids of the facts to start from, in order (S1-01)."""
    open_pairs = snapshot.frame("pair_decisions", OPEN_PAIRS if has_model else "false")
    waiting = ["consolidated_at IS NULL"] + ([f"created_at >= {time_sql(since)}"] if since else [])
    columns = "id kind scope status valid_to expired_at consolidated_at consolidation_attempts created_at".split()
    live = f"{_comparable(run, scope)} AND "
    fresh = snapshot.frame("facts", f"{live}({' OR '.join(waiting)})", columns)
    if since is not None:
        fresh = fresh.with_columns(consolidated_at=pl.lit(None, dtype=fresh.schema["consolidated_at"]))
    again = pl.concat([open_pairs["a_id"], open_pairs["b_id"]])
    marked = snapshot.by_ids("facts", again, columns, where=_comparable(run, scope))
    return select_seeds(
        pl.concat([fresh, marked]).unique("id", keep="first"), open_pairs, has_model, settings.max_attempts
    )


def _comparable(run: Run, scope: str | None) -> str:
    """Live facts that are compared at all, of one scope if it is named."""
    kinds = ", ".join(map(quoted, KINDS))
    where = f"{live_sql(run.now)} AND kind IN ({kinds})"
    return where if scope is None else f"{where} AND scope = {quoted(scope)}"


def _view(run: Run, snapshot: Snapshot, seeds: pl.Series, settings: MergeSettings, version: str) -> _View:
    """The seeds and what they are near to, compared."""
    compared = _compared(run, snapshot, seeds, settings).with_columns(is_seed=pl.col("id").is_in(seeds.implode()))
    matrix, compared = _matrix(compared, snapshot.dims), compared.drop("vector")
    resolve = _resolve(run, settings)
    pairs = find_pairs(compared, matrix, settings, min(resolve, settings.merge_cosine))
    met = pl.concat([pairs["a_id"], pairs["b_id"]]).unique()
    rows = compared.select(is_met=pl.col("id").is_in(met.implode()) | pl.col("is_seed"))["is_met"].arg_true()
    facts = _whole(run, snapshot, compared.select("id", "is_seed")[rows])
    pool = Pool(facts, pairs, _decided(snapshot, met), version)
    merges = merge_alike(pool, settings)
    worth_asking = (pl.col("cosine") >= resolve) | (pl.col("jaccard") >= settings.text_dedup)
    merges = replace(merges, undecided=merges.undecided.filter(worth_asking))
    return _View(pool, matrix[rows.to_numpy()], merges)


def _decided(reading: Reading, ids: pl.Series) -> pl.DataFrame:
    """What is known about pairs of these facts."""
    both = [reading.by_ids("pair_decisions", ids, key=end) for end in ("a_id", "b_id")]
    return pl.concat(both).unique("id", keep="first")


def _whole(run: Run, reading: Reading, chosen: pl.DataFrame) -> pl.DataFrame:
    """Full rows without vectors of the chosen facts (id, is_seed), in their order."""
    if len(chosen) > MANY:
        rows = reading.frame("facts", _comparable(run, None))
    else:
        rows = reading.by_ids("facts", chosen["id"])
    return chosen.join(rows, on="id", how="inner", maintain_order="left")


def _resolve(run: Run, settings: MergeSettings) -> float:
    return profile_of(run.embedder).resolve if settings.resolve_cosine is None else settings.resolve_cosine


def _compared(run: Run, snapshot: Snapshot, seeds: pl.Series, settings: MergeSettings) -> pl.DataFrame:
    """What pairs are found among, by id: of a small batch the seeds and their neighbours, else the seeds' scopes."""
    live = _comparable(run, None)
    if len(seeds) > settings.pairwise_max_batch:
        scopes = snapshot.by_ids("facts", seeds, ["id", "scope"])["scope"].drop_nulls().unique().sort()
        inside = f"{live} AND (scope IN ({', '.join(map(quoted, scopes))}) OR scope IS NULL)" if len(scopes) else live
        return snapshot.frame("facts", inside, COMPARED).sort("id")
    own = snapshot.by_ids("facts", seeds, COMPARED)
    wanted = settings.max_existing_matches * (settings.rerank_multiplier if settings.rerank else 1) + len(seeds) + 1
    near = near_ids(snapshot, "facts", own.select("scope", "vector", text="statement"), wanted, live)
    return pl.concat([own, snapshot.by_ids("facts", near, COMPARED, where=live)]).unique("id").sort("id")


def _matrix(facts: pl.DataFrame, dims: int) -> npt.NDArray[np.float32]:
    """Unit rows in the order of the facts; zero rows where a fact has no vector."""
    if not facts["vector"].null_count():
        return unit_matrix(facts["vector"], dims)
    matrix = np.zeros((len(facts), dims), dtype=np.float32)
    matrix[facts["vector"].is_not_null().to_numpy()] = unit_matrix(facts["vector"].drop_nulls(), dims)
    return matrix


def _rounds(view: _View, settings: MergeSettings, run: Run, *, by_pairs: bool) -> Questions:
    """What is to be asked next, given what was answered so far: pair after pair, or all clusters at once (S1-14)."""
    resolve = _resolve(run, settings)
    if by_pairs:
        return lambda judged: plan_pairs(view.pool, view.merges, settings, judged, resolve)
    return lambda judged: () if judged else plan_clusters(view.pool, view.merges, view.vectors, settings, resolve)


async def _judge(language: Language, ask: Questions, view: _View, settings: MergeSettings) -> _Asked:
    """The model's verdicts, several clusters to a call; one that cannot be used is asked for once more, alone."""
    asked = _Asked()
    for number in range(MAX_ROUNDS):
        clusters = ask(asked.judged)
        if not clusters or language.budget_reached:
            asked.judged += [Judged(cluster) for cluster in clusters]
            return asked
        earlier = _earlier_failures(clusters, view)
        first = await _verdicts(language, clusters, settings.per_call, view, asked, earlier)
        wrong = {each.cluster: each.error for each in first if each.error}
        notes = {each.number: f"{earlier.get(each.number, '')} {error}".strip() for each, error in wrong.items()}
        again = {each.cluster.ids(): each for each in await _verdicts(language, list(wrong), 1, view, asked, notes)}
        asked.judged += [again.get(each.cluster.ids(), each) for each in first]
        await report_progress("rounds of questions", number + 1)
    return asked


def _earlier_failures(clusters: Sequence[Cluster], view: _View) -> dict[int, str]:
    """Of clusters that an earlier run asked about in vain, how often: the ledger must not give that answer again."""
    tried = view.pool.facts.filter(pl.col("consolidation_attempts") > 0).select("id", "consolidation_attempts")
    times = dict(tried.iter_rows())
    most = {cluster.number: max(times.get(fact, 0) for fact in cluster.ids()) for cluster in clusters}
    return {number: f"it was asked {count} times in vain." for number, count in most.items() if count}


async def _verdicts(
    language: Language,
    clusters: Sequence[Cluster],
    per_call: int,
    view: _View,
    asked: _Asked,
    notes: Mapping[int, str],
) -> list[Judged]:
    """What was answered about each cluster, in their order; `notes` tell the model what was wrong before."""
    groups = [tuple(clusters[start : start + per_call]) for start in range(0, len(clusters), per_call)]
    prompts = [
        render_consolidation(group, {each.number: notes[each.number] for each in group if each.number in notes})
        for group in groups
    ]
    answers = await language.ask_many(prompts, Consolidation, "consolidate") if prompts else []
    told: list[Judged] = []
    for group, answer in zip(groups, answers, strict=True):
        asked.errors |= {answer.error} if answer.error else set()
        said = {each.cluster: each for each in answer.value.verdicts} if answer.value else {}
        silence = "" if answer.skipped else answer.error or "The model gave no verdict about it."
        told += [
            Judged(cluster, _verdict(said[cluster.number]))
            if cluster.number in said
            else Judged(cluster, None, silence)
            for cluster in group
        ]
    usable = [(each.cluster, each.verdict) for each in told if each.verdict is not None]
    wrong = iter(check_verdicts(usable, view.pool.facts))
    return [each if each.verdict is None else _checked(each, next(wrong)) for each in told]


def _verdict(said: ClusterVerdict) -> Verdict:
    return Verdict(said.cluster, said.outcome, said.survivor, tuple(said.absorbed), said.reworded or None, said.reason)


def _checked(judged: Judged, wrong: str) -> Judged:
    return Judged(judged.cluster, None, wrong) if wrong else judged


def _plan(
    run: Run, reading: Reading, view: _View, judged: Sequence[Judged], settings: MergeSettings, model: str
) -> ConsolidationPlan:
    """What is to be written, given what the store holds about the facts concerned."""
    merged = [view.merges.losers["loser_id"], view.merges.losers["winner_id"]]
    told = pl.Series([fact for each in judged if each.verdict for fact in each.cluster.ids()], dtype=pl.String)
    concerned = pl.concat([*merged, told]).unique()
    return plan_consolidation(
        view.pool,
        view.merges,
        judged,
        reading.by_ids("fact_evidence", concerned, key="fact_id"),
        reading.by_ids("fact_aspects", concerned, key="fact_id"),
        settings,
        prompt_version=prompt_version(PROMPT) if model else "",
        model=model,
        run_id=run.id,
        now=run.now,
    )


def _as_now(tx: Transaction, run: Run, view: _View, settings: MergeSettings) -> _View:
    """The same view with the rows as they are now, without those that are no longer live.

    What rules merged is put before the guards again: an end may have been set, or a person may have said "keep both".
    """
    facts = _whole(run, tx, view.pool.facts.select("id", "is_seed")).filter(is_live(run.now))
    merged = view.merges.losers.select("cosine", "jaccard", a_id="loser_id", b_id="winner_id")
    pool = replace(view.pool, facts=facts, decided=_decided(tx, facts["id"]))
    losers = merge_alike(replace(pool, pairs=merged), settings).losers
    there = facts["id"].implode()
    undecided = view.merges.undecided.filter(pl.col("a_id").is_in(there), pl.col("b_id").is_in(there))
    return replace(view, pool=pool, merges=Merges(losers, undecided))


def _write(tx: Transaction, run: Run, plan: ConsolidationPlan, embedded: pl.DataFrame) -> None:
    changed = plan.facts
    vectors = tx.by_ids("facts", changed["id"], ["id", "vector"])
    tx.upsert("facts", changed.join(vectors, on="id", how="left", maintain_order="left"))
    fresh = plan.reworded.drop("vector", strict=False).join(embedded, on="id", how="inner", maintain_order="left")
    tx.upsert("facts", fresh.with_columns(embed_model=pl.lit(run.embedder)))
    tx.upsert("fact_evidence", plan.evidence)
    tx.upsert("lineage", plan.lineage)
    tx.upsert("fact_aspects", plan.aspects)
    tx.upsert("pair_decisions", plan.pairs)
    tx.upsert("patch_batches", plan.batches)
    tx.upsert("decisions", plan.decisions)


def _counted(plan: ConsolidationPlan, view: _View, asked: _Asked) -> Consolidated:
    counts = plan.summary()
    return Consolidated(
        looked_at=counts["looked_at"],
        merged=counts["merged"],
        reworded=counts["reworded"],
        kept=counts["kept"],
        pending=counts["pending"],
        failed=counts["failed"],
        left=asked.left,
        told=_told(plan, view),
        errors=tuple(sorted(asked.errors)),
    )


def _told(plan: ConsolidationPlan, view: _View) -> tuple[Telling, ...]:
    """The most interesting decisions: what a model decided before what a rule did, unlike words before like ones."""
    said = dict(
        pl.concat(
            [part.select("id", "statement") for part in (view.pool.facts, plan.reworded)], how="vertical"
        ).iter_rows()
    )
    order = {"fail": 0, "absorb": 1, "keep": 2}
    rows = plan.decisions.with_columns(
        kind=pl.col("action").replace_strict(order, default=3, return_dtype=pl.Int8),
        by_rule=pl.col("decided_by") == "rule",
        likeness=pl.col("measures").str.json_path_match("$.jaccard").cast(pl.Float64, strict=False).fill_null(0.0),
    )
    best = rows.sort("kind", "by_rule", "likeness", "subject_id").head(TOLD)
    made = [
        Telling(action, _sentence(said, action, subject, ids_in), reason)
        for action, subject, ids_in, reason in best.select("action", "subject_id", "ids_in", "reason").iter_rows()
    ]
    waiting = plan.pairs.filter(pl.col("outcome") == "pending").sort(-pl.col("cosine"), "a_id").head(TOLD - len(made))
    left = [
        Telling(
            "wait", f"{said.get(a, a)} | {said.get(b, b)}", f"Rules cannot tell ({guard}); a model or a person can."
        )
        for a, b, guard in waiting.select("a_id", "b_id", "guard").iter_rows()
    ]
    return (*made, *left)


def _sentence(said: dict[str, str], action: str, subject: str, ids_in: list[str]) -> str:
    others = " · ".join(said.get(each, each) for each in ids_in if each != subject)
    sign = " ← " if action == "absorb" else " | "
    return f"{said.get(subject, subject)}{sign}{others}" if others else said.get(subject, subject)

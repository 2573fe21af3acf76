"""Comparison: which facts are looked at, what they are compared with, and what needs no model (S1-01, S1-02, §6.2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.comparison.similarity import profile_of
from slowwave.deduplication.blocking import TOPICS, find_pairs, find_topics
from slowwave.deduplication.duplicates import KINDS, CandidateSet, MergeRule, Merges, by_words, merge_by, select_seeds
from slowwave.settings import MergeSettings
from slowwave.validity import is_live, live_sql, time_sql
from storage.rows import column_names, quoted
from storage.search import near_ids, unit_matrix
from storage.snapshots import Reading, Snapshot
from tasks.runtime.runs import Run

MANY = 5000  # from so many rows on reading all that is live beats naming each
COMPARED = ["id", "scope", "kind", "statement", "vector"]
WAITING_MERGES = "action = 'merge' AND state IN ('pending', 'approved')"
OPEN_PAIRS = "kind = 'redundant' AND outcome IN ('pending', 'failed')"
LEFT_OPEN = "kind = 'implicit_conflict' AND outcome = 'pending' AND decided_by = 'rule'"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Facts to compare, with their vectors row by row, and what the rule found without a model.

    The facts may have columns that the store has not: what the rule needs to know besides.
    """

    pool: CandidateSet
    vectors: npt.NDArray[np.float32]
    merges: Merges
    rule: MergeRule


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
    return select_seeds(
        pl.concat([fresh, marked]).unique("id", keep="first"), open_pairs, has_model, settings.max_attempts
    )


def waiting_facts(reading: Reading) -> pl.Series:
    """Ids of the rows that a merge would change which waits for a person."""
    waiting = reading.frame("proposals", WAITING_MERGES, ["touches"])
    return waiting["touches"].explode().drop_nulls().unique().sort()


def comparable(run: Run, scope: str | None) -> str:
    """Live facts that are compared at all, of one scope if it is named."""
    kinds = ", ".join(map(quoted, KINDS))
    where = f"{live_sql(run.now)} AND kind IN ({kinds})"
    return where if scope is None else f"{where} AND scope = {quoted(scope)}"


def comparison_of(run: Run, snapshot: Snapshot, seeds: pl.Series, settings: MergeSettings, version: str) -> Comparison:
    """The seeds and what they are near to, compared; with a `version` also what may be about one matter."""
    compared = _compared(run, snapshot, seeds, settings).with_columns(is_seed=pl.col("id").is_in(seeds.implode()))
    matrix, compared = matrix_of(compared, snapshot.dims), compared.drop("vector")
    resolve = resolve_of(run, settings)
    pairs = find_pairs(compared, matrix, settings, min(resolve, settings.merge_cosine))
    topics = find_topics(compared, matrix) if version else pl.DataFrame(schema=TOPICS)
    decided = _waiting(snapshot, seeds) if version else pl.Series([], dtype=pl.String)
    met = pl.concat([pairs["a_id"], pairs["b_id"], topics["a_id"], topics["b_id"], decided]).unique()
    rows = compared.select(is_met=pl.col("id").is_in(met.implode()) | pl.col("is_seed"))["is_met"].arg_true()
    facts = whole(run, snapshot, compared.select("id", "is_seed")[rows])
    people = people_of(snapshot, facts) if version else frozenset[str]()
    pool = CandidateSet(facts, pairs, decided_pairs(snapshot, met), version, topics, people)
    rule = by_words(settings)
    merges = merge_by(pool, rule)
    worth_asking = (pl.col("cosine") >= resolve) | (pl.col("jaccard") >= settings.text_dedup)
    merges = replace(merges, undecided=merges.undecided.filter(worth_asking))
    return Comparison(pool, matrix[rows.to_numpy()], merges, rule)


def _waiting(reading: Reading, ids: pl.Series) -> pl.Series:
    """Ids of facts in pairs of these that wait for a model."""
    rows = decided_pairs(reading, ids)
    return pl.concat([rows["a_id"], rows["b_id"]])


def people_of(reading: Reading, facts: pl.DataFrame) -> frozenset[str]:
    """The persons among the subjects of facts."""
    return frozenset(
        reading.by_ids("entities", facts["subject_id"].unique(), ["id"], where="entity_type = 'person'")["id"]
    )


def decided_pairs(reading: Reading, ids: pl.Series) -> pl.DataFrame:
    """The decisions about pairs of these facts."""
    both = [reading.by_ids("pair_decisions", ids, key=end) for end in ("a_id", "b_id")]
    return pl.concat(both).unique("id", keep="first")


def whole(run: Run, reading: Reading, chosen: pl.DataFrame) -> pl.DataFrame:
    """Full rows without vectors of the chosen facts (id, is_seed, perhaps more), in their order."""
    if len(chosen) > MANY:
        rows = reading.frame("facts", comparable(run, None))
    else:
        rows = reading.by_ids("facts", chosen["id"])
    return chosen.join(rows, on="id", how="inner", maintain_order="left")


def resolve_of(run: Run, settings: MergeSettings) -> float:
    """The cosine from which facts may say the same (S1-03)."""
    return profile_of(run.embedder).resolve if settings.resolve_cosine is None else settings.resolve_cosine


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
    near = near_ids(snapshot, "facts", own.select("scope", "vector", text="statement"), wanted, live)
    return pl.concat([own, snapshot.by_ids("facts", near, COMPARED, where=live)]).unique("id").sort("id")


def whole_scopes(run: Run, snapshot: Snapshot, scopes: pl.Series) -> pl.DataFrame:
    """Everything live of these scopes and of none, by id, with what is compared."""
    live, named = comparable(run, None), scopes.drop_nulls().unique().sort()
    inside = f"{live} AND (scope IN ({', '.join(map(quoted, named))}) OR scope IS NULL)" if len(named) else live
    return snapshot.frame("facts", inside, COMPARED).sort("id")


def matrix_of(facts: pl.DataFrame, dims: int) -> npt.NDArray[np.float32]:
    """Unit rows in the order of the facts; zero rows where a fact has no vector."""
    if not facts["vector"].null_count():
        return unit_matrix(facts["vector"], dims)
    matrix = np.zeros((len(facts), dims), dtype=np.float32)
    matrix[facts["vector"].is_not_null().to_numpy()] = unit_matrix(facts["vector"].drop_nulls(), dims)
    return matrix


def as_now(reading: Reading, run: Run, comparison: Comparison) -> Comparison:
    """The same view with the rows as they are now, without those that are no longer live.

    What rules merged is put before the guards again: an end may have been set, or a person may have said "keep both".
    """
    stored = set(column_names("facts")) - {"id"}
    facts = whole(run, reading, comparison.pool.facts.drop(stored, strict=False)).filter(is_live(run.now))
    merged = comparison.merges.duplicates.select("cosine", "jaccard", a_id="loser_id", b_id="winner_id")
    pool = replace(comparison.pool, facts=facts, decided=decided_pairs(reading, facts["id"]))
    losers = merge_by(replace(pool, pairs=merged), comparison.rule).duplicates
    there = facts["id"].implode()
    undecided = comparison.merges.undecided.filter(pl.col("a_id").is_in(there), pl.col("b_id").is_in(there))
    return replace(comparison, pool=pool, merges=replace(comparison.merges, duplicates=losers, undecided=undecided))

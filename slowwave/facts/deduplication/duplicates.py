"""Pairs and duplicates by rule: seeds, close pairs, rules, and pairs that need no model (S1-01 … S1-04, S1-10, §6.2).

A merge needs nearly equal words or meaning *and* every guard. It is not transitive: a fact absorbs only facts that were
compared with it. Facts of different scopes never pair (S1-09), nor do structural facts of the graph (T33).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.common import frames
from slowwave.common.comparison.guards import (
    guards_pass,
    is_same_identity,
    may_yield,
    read_amounts,
    read_polarities,
    straight,
)
from slowwave.common.comparison.similarity import Vectors, close_pairs, cosines, word_overlap
from slowwave.common.frames import beside
from slowwave.common.settings import MergeSettings, StewardSettings
from slowwave.common.validity import entrenchment_rank
from slowwave.common.words import content_stems
from slowwave.facts.revision.repetition import with_keys

PAIRS: frames.Schema = {"a_id": frames.TEXT, "b_id": frames.TEXT, "cosine": frames.NUMBER, "jaccard": frames.NUMBER}
KINDS = ("relation", "observation", "note")
"""Kinds of fact that can be duplicates; not structure and similarity (T33)."""
SEED_MATCHES = 32  # most pairs of seeds for one seed; clusters are much smaller (S1-03)


def find_pairs(
    facts: pl.DataFrame, vectors: npt.NDArray[np.float32], settings: MergeSettings, resolve: float
) -> pl.DataFrame:
    """PAIRS with at least one seed, of one scope, with cosine ≥ `resolve`.

    `facts` has id, scope, kind, statement and is_seed, its rows in the order of `vectors` (n, d), unit rows or zero
    where there is none. A seed keeps its best `max_existing_matches` facts that are not seeds, by (cosine desc, id),
    or with `rerank` those with the best 0.7 · cosine + 0.3 · Jaccard of `rerank_multiplier` times as many; other seeds
    do not count (S1-02, S1-12).

    The number of pairs is linear in the seeds: a pair of seeds stays if it is among the best SEED_MATCHES of either.
    The result is ordered by id and does not depend on the order of the rows.
    """
    ordered = facts.with_row_index("row").filter(pl.col("kind").is_in(KINDS)).sort(~pl.col("is_seed"), "id")
    ordered = ordered.with_columns(place=pl.int_range(pl.len(), dtype=pl.Int32))
    per_row = settings.max_existing_matches * (settings.rerank_multiplier if settings.rerank else 1)
    parts = [pl.DataFrame(schema={"first": pl.Int32, "second": pl.Int32, "cosine": pl.Float64})]
    for scope in ordered.filter(pl.col("is_seed").any().over("scope")).partition_by("scope", maintain_order=True):
        is_whole = len(scope) == len(vectors) and scope["row"].is_sorted()  # the usual store: nothing is copied
        own, places = vectors if is_whole else vectors[scope["row"].to_numpy()], scope["place"].to_numpy()
        near = close_pairs(own, int(scope["is_seed"].sum()), resolve, SEED_MATCHES, per_row)
        ends = {"first": places[near.first], "second": places[near.second], "cosine": near.cosine}
        parts.append(pl.DataFrame(ends, schema=parts[0].schema))
    pairs, ids, texts = pl.concat(parts), ordered["id"], ordered["statement"]
    pairs = pairs.with_columns(word_overlap(*(texts.gather(pairs[end]) for end in ("first", "second")))["jaccard"])
    if settings.rerank:
        is_inner = pl.col("second") < int(ordered["is_seed"].sum())
        score = 0.7 * pl.col("cosine") + 0.3 * pl.col("jaccard")
        outer = pairs.filter(~is_inner).sort("first", -score, "second").group_by("first", maintain_order=True)
        pairs = pl.concat([pairs.filter(is_inner), outer.head(settings.max_existing_matches)])
    named = pairs.with_columns(one=ids.gather(pairs["first"]), two=ids.gather(pairs["second"]))
    first, second = pl.min_horizontal("one", "two"), pl.max_horizontal("one", "two")
    return named.select("cosine", "jaccard", a_id=first, b_id=second).select(*PAIRS).sort("a_id", "b_id")


# Topics: pairs of facts about one matter, which share rare words (S1-02, S2-58, S2-62). "The sprint ends on 1 April"
# and "the sprint was extended" are no near neighbours by meaning alone, nor are a statement and its denial.


TOPICS = {"a_id": pl.String, "b_id": pl.String, "cosine": pl.Float64, "jaccard": pl.Float64, "shared": pl.Float64}
LEAST_SHARED = 4.0  # one word that few facts have, or two that some have
MATCHES = 12  # most pairs of one seed
_COMMON = 100  # a word of more facts is too common
_BACKGROUND = 30  # added to the number of facts, so that weights in small stores are similar
_WORD_WEIGHT, _MOST_WORDS = 0.03, 15.0
_NUMBER_WEIGHT, _DENIAL_WEIGHT, _END_WEIGHT = 0.3, 0.15, 0.5
_ENDS = ("never", "no longer", "used to")


def find_topics(facts: pl.DataFrame, vectors: Vectors) -> pl.DataFrame:
    """TOPICS: pairs of one scope with a seed that share rare words; `shared` is the sum of their weights.

    `facts` has id, scope, kind, statement and is_seed, its rows in the order of `vectors`, unit rows or zero.
    """
    numbered = facts.with_row_index("row")
    words = (
        numbered.select("id", "scope", "is_seed", word=content_stems("statement")).explode("word").drop_nulls("word")
    )
    often = words.group_by("scope", "word").agg(often=pl.len()).filter(pl.col("often").is_between(2, _COMMON))
    weight = ((len(facts) + _BACKGROUND) / pl.col("often")).log()
    rare = words.join(often, on=["scope", "word"], nulls_equal=True).select(
        "id", "scope", "is_seed", "word", weight=weight
    )
    met = rare.filter("is_seed").join(rare, on=["scope", "word"], nulls_equal=True, suffix="_b")
    both = met.filter(~pl.col("is_seed_b") | (pl.col("id") < pl.col("id_b")))
    shared = both.group_by("id", "id_b").agg(shared=pl.col("weight").sum()).filter(pl.col("shared") >= LEAST_SHARED)
    ends = pl.concat([shared.with_columns(owner="id"), shared.with_columns(owner="id_b")])
    best = ends.sort("owner", -pl.col("shared"), "id", "id_b").group_by("owner", maintain_order=True).head(MATCHES)
    pairs = best.unique(["id", "id_b"]).select(
        "shared", a_id=pl.min_horizontal("id", "id_b"), b_id=pl.max_horizontal("id", "id_b")
    )
    sides = beside(pairs, numbered.select("id", "row", "statement"))
    return sides.with_columns(
        word_overlap(sides["statement"], sides["statement_b"])["jaccard"],
        cosine=pl.Series(cosines(vectors, sides["row"].to_numpy(), sides["row_b"].to_numpy()), dtype=pl.Float64),
    ).select(*TOPICS).sort("a_id", "b_id")  # fmt: skip


def with_score(pairs: pl.DataFrame) -> pl.DataFrame:
    """Pairs with `score`, the priority of a question to a model.

    `pairs` have cosine, shared, statement and statement_b. Different numbers or negations in similar words may be a
    change or a contradiction; "never" or "no longer" on one side alone is the strongest sign.
    """
    texts = [straight(pairs[name]) for name in ("statement", "statement_b")]
    (amounts, amounts_b), (denials, denials_b) = (
        [read(text) for text in texts] for read in (read_amounts, read_polarities)
    )
    ends = [_tells_an_end(each) for each in (denials, denials_b)]
    signs = (
        (_NUMBER_WEIGHT, (amounts.list.len() > 0) & (amounts_b.list.len() > 0) & (amounts != amounts_b)),
        (_DENIAL_WEIGHT, denials != denials_b),
        (_END_WEIGHT, ends[0] != ends[1]),
    )
    words = pl.col("shared").fill_null(0.0).clip(upper_bound=_MOST_WORDS)
    score = pl.col("cosine").fill_null(0.0) + _WORD_WEIGHT * words
    return pairs.with_columns(score=score + sum(weight * sign.cast(pl.Float64) for weight, sign in signs))


def _tells_an_end(denials: pl.Series) -> pl.Series:
    """Whether a text says that something never was or is over; not so "do not stop"."""
    over = denials.list.set_intersection(list(_ENDS)).list.len() > 0
    return over | (denials.list.contains("stop") & ~denials.list.contains("not"))


# Rules of merging: the least similarity, and the choice of the representative (S1-04, S1-10, S4-08).


BY_WORDS, BY_MEANING, BY_USE = "text", "meaning", "use"


@dataclass(frozen=True, slots=True, eq=False)
class MergeRule:
    """When two facts are similar enough for the guards, and which of them is the representative.

    `is_alike`, over PAIRS: similar enough. `order`, over FACTS with created_at: best representative first, after pinned
    and better entrenched facts. `stage`, over PAIRS: the stage of the merge for the ledger.
    """

    is_alike: pl.Expr
    order: tuple[pl.Expr, ...]
    stage: pl.Expr


def by_words(settings: MergeSettings) -> MergeRule:
    """The rule of a consolidation: two facts are alike if their words are, or their meaning.

    The representative has more evidence, then more confidence, then fewer characters, and then is older. Fewer
    characters lose nothing, because the guards refuse a pair in which one fact says more: of "By the way: X" and "X"
    the second one stays.
    """
    has_same_words = pl.col("jaccard") >= settings.text_dedup
    return MergeRule(
        (has_same_words | (pl.col("cosine") >= settings.merge_cosine)).fill_null(False),
        (
            -pl.col("evidence_count").fill_null(0),
            -pl.col("confidence").fill_null(0.0),
            pl.col("statement").str.len_chars(),
            pl.col("created_at"),
            pl.col("id"),
        ),
        pl.when(has_same_words).then(pl.lit(BY_WORDS)).otherwise(pl.lit(BY_MEANING)),
    )


def by_use(settings: StewardSettings) -> MergeRule:
    """The steward: similar meaning; more recalls are better, then a higher retrieval score, then the older.

    Facts need hit_count and avg_retrieval_score, null where they were never recalled (S4-08).
    """
    return MergeRule(
        (pl.col("cosine") >= settings.merge_threshold).fill_null(False),
        (
            -pl.col("hit_count").fill_null(0),
            -pl.col("avg_retrieval_score").fill_null(-float("inf")),
            pl.col("created_at"),
            pl.col("id"),
        ),
        pl.lit(BY_USE),
    )


MAX_ATTEMPTS = 3  # unusable verdicts about a fact before it is given up (S1-08)
UNDECIDED: frames.Schema = {**PAIRS, "guard": frames.TEXT}
DUPLICATES: frames.Schema = {
    "loser_id": frames.TEXT,
    "winner_id": frames.TEXT,
    "cosine": frames.NUMBER,
    "jaccard": frames.NUMBER,
    "stage": frames.TEXT,
}
NOT_SIMILAR = "likeness"
"""The guard of a pair that is not similar enough for a merge without a model."""
_COMPARED = (
    "id kind scope subject_id predicate object_id object_text polarity statement entrenchment pinned valid_to day"
).split()


@dataclass(frozen=True, slots=True)
class CandidateSet:
    """The facts of one consolidation and their pairs.

    `facts`: FACTS with created_at and is_seed, live, seeds and neighbours. `pairs`: similar PAIRS among them.
    `decided`: PAIR_DECISIONS about these pairs. For questions to a model: `topics`, TOPICS about one matter, `people`,
    ids of entities that are persons, and `prompt_version`, empty if there is no model.
    """

    facts: pl.DataFrame
    pairs: pl.DataFrame
    decided: pl.DataFrame = field(default_factory=lambda: frames.empty(frames.PAIR_DECISIONS))
    prompt_version: str = ""
    topics: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=TOPICS))
    people: frozenset[str] = frozenset()

    def seeds(self) -> pl.Series:
        """Ids of the facts that this run is about."""
        return self.facts.filter(pl.col("is_seed").fill_null(False))["id"]

    def settled(self) -> pl.DataFrame:
        """(a_id, b_id) of pairs that a person, or a model with the present prompt, keeps apart or calls a clash."""
        current = pl.col("prompt_version") == self.prompt_version if self.prompt_version else pl.lit(True)
        by_whom = (pl.col("decided_by") == "person") | ((pl.col("decided_by") == "model") & current)
        is_kept = (pl.col("outcome") == "keep_all") & by_whom & is_redundancy()
        is_clash = ~is_redundancy() & (pl.col("outcome") == "pending") & (pl.col("decided_by") == "model")
        return self.decided.filter(is_kept | is_clash).select("a_id", "b_id").unique()


@dataclass(frozen=True, slots=True)
class Merges:
    """`duplicates`: DUPLICATES, merged without a model. `undecided`: UNDECIDED, the other similar pairs."""

    duplicates: pl.DataFrame = field(default_factory=lambda: frames.empty(DUPLICATES))
    undecided: pl.DataFrame = field(default_factory=lambda: frames.empty(UNDECIDED))


def is_redundancy() -> pl.Expr:
    """Rows of PAIR_DECISIONS about duplicates, not about contradictions."""
    return pl.col("kind").fill_null("redundant") == "redundant"


def is_open_pair() -> pl.Expr:
    """Rows of PAIR_DECISIONS that wait for a verdict: undecided, failed, or left open by a rule."""
    pending = pl.col("outcome") == "pending"
    left_open = ~is_redundancy() & pending & (pl.col("decided_by") == "rule")
    return (is_redundancy() & (pending | (pl.col("outcome") == "failed")) | left_open).fill_null(False)


def select_seeds(facts: pl.DataFrame, pending: pl.DataFrame, has_model: bool) -> pl.Series:
    """Ids of the facts to consolidate, oldest first: those without consolidated_at (S1-01).

    `facts` are all live facts, with created_at; `pending` are PAIR_DECISIONS. With a model also the facts of pairs that
    wait for a verdict, and of failed pairs while attempts are left.
    """
    ours = frames.conform(facts, frames.FACTS).filter(pl.col("kind").is_in(KINDS))
    fresh = pl.col("consolidated_at").is_null()
    if has_model:
        left = ours.filter(pl.col("consolidation_attempts").fill_null(0) < MAX_ATTEMPTS)["id"].implode()
        there = ours["id"].implode()
        both = pl.all_horizontal(pl.col(end).is_in(there) for end in ("a_id", "b_id"))
        tried = pl.all_horizontal(pl.col(end).is_in(left) for end in ("a_id", "b_id"))
        is_first = is_redundancy() & (pl.col("outcome") == "pending")
        again = pending.filter(is_open_pair(), both & (is_first.fill_null(False) | tried))
        fresh |= pl.col("id").is_in(pl.concat([again["a_id"], again["b_id"]]).implode())
    return ours.filter(fresh).sort("created_at", "id")["id"]


def merge_by(candidates: CandidateSet, rule: MergeRule) -> Merges:
    """The merges of a rule without a model, each checked by the guards.

    In order of rank every fact that is not merged yet absorbs the facts that may yield to it; a duplicate absorbs
    nothing (S4-10).
    """
    pairs = _measured(candidates)
    if pairs.is_empty():
        return Merges(frames.empty(DUPLICATES), frames.empty(UNDECIDED))
    texts = candidates.facts.with_columns(pl.col("statement").fill_null(""))
    best_first = (~pl.col("pinned").fill_null(False), -entrenchment_rank("entrenchment"), *rule.order)
    ranked = with_keys(texts).sort(*best_first)
    guarded = _guarded(pairs, ranked, rule)
    duplicates = _duplicates(guarded, ranked, rule)
    gone = duplicates["loser_id"].implode()
    left = guarded.filter(~pl.col("a_id").is_in(gone), ~pl.col("b_id").is_in(gone)).sort("a_id", "b_id")
    return Merges(duplicates, left.select(*UNDECIDED))


def _measured(candidates: CandidateSet) -> pl.DataFrame:
    """Unsettled PAIRS of comparable facts of one scope, with a seed; smaller id first, each once."""
    seeds = candidates.seeds().implode()
    ends = candidates.facts.filter(pl.col("kind").is_in(KINDS)).select("id", "scope")
    ordered = candidates.pairs.select(
        "cosine", "jaccard", a_id=pl.min_horizontal("a_id", "b_id"), b_id=pl.max_horizontal("a_id", "b_id")
    ).filter(pl.col("a_id") != pl.col("b_id"), pl.col("a_id").is_in(seeds) | pl.col("b_id").is_in(seeds))
    within = frames.beside(ordered, ends).filter(pl.col("scope").eq_missing(pl.col("scope_b")))
    unsettled = within.join(candidates.settled(), on=["a_id", "b_id"], how="anti")
    return unsettled.group_by("a_id", "b_id").agg(pl.col("cosine", "jaccard").max()).select(*PAIRS).sort("a_id", "b_id")


def _guarded(pairs: pl.DataFrame, facts: pl.DataFrame, rule: MergeRule) -> pl.DataFrame:
    """The pairs with `guard`, the first one that fails (null: none), and a_yields, b_yields."""
    far = pairs.filter(~rule.is_alike).with_columns(guard=pl.lit(NOT_SIMILAR))
    # Polarity and subject are a cheap check that decides most pairs.
    codes = facts.select("id", *(pl.col(name).rank("dense").fill_null(0) for name in ("polarity", "subject_id")))
    differ = pl.coalesce(unless_same("polarity", "polarity"), unless_same("subject_id", "identity"))
    close = frames.beside(pairs.filter(rule.is_alike), codes).select(*PAIRS, guard=differ)
    apart = pl.concat([far, close.filter(pl.col("guard").is_not_null())])
    read = _read(close.filter(pl.col("guard").is_null()).drop("guard"), facts)
    return pl.concat([read, apart.with_columns(a_yields=pl.lit(False), b_yields=pl.lit(False))])


def _read(pairs: pl.DataFrame, facts: pl.DataFrame) -> pl.DataFrame:
    """Pairs as in `_guarded`; texts are read only where no other guard fails."""
    sides = frames.beside(pairs, facts.select(_COMPARED))
    flipped = sides.select(
        **{name: f"{name}_b" for name in _COMPARED[1:]}, **{f"{name}_b": name for name in _COMPARED[1:]}
    )
    apart = pl.coalesce(
        pl.when(~is_same_identity()).then(pl.lit("identity")),
        unless_same("valid_to", "validity"),
        unless_same("day", "day"),
    )
    sides = sides.with_columns(guard=apart, a_yields=may_yield(), b_yields=flipped.select(yields=may_yield())["yields"])
    read = sides["guard"].is_null().arg_true()
    failed = guards_pass(sides["statement"].gather(read), sides["statement_b"].gather(read))["failed_guard"]
    texts = pl.Series("text_guard", [None], dtype=pl.String).new_from_index(0, len(sides)).scatter(read, failed)
    no_one_yields = pl.when(~(pl.col("a_yields") | pl.col("b_yields"))).then(pl.lit("rank"))
    return sides.select(*PAIRS, pl.coalesce("guard", texts, no_one_yields), "a_yields", "b_yields")


def unless_same(column: str, guard: str) -> pl.Expr:
    """The guard where a column and that of the other side (suffix _b) differ, else null."""
    return pl.when(pl.col(column).ne_missing(pl.col(f"{column}_b"))).then(pl.lit(guard))


def _duplicates(pairs: pl.DataFrame, ranked: pl.DataFrame, rule: MergeRule) -> pl.DataFrame:
    """DUPLICATES: in order of rank, each fact that no other has absorbed absorbs the facts that may yield to it.

    `pairs` are guarded, `ranked` are facts, best representative first.
    """
    passing = pairs.filter(pl.col("guard").is_null())
    edges = pl.concat(
        [
            passing.filter("a_yields").select("cosine", "jaccard", loser_id="a_id", winner_id="b_id"),
            passing.filter("b_yields").select("cosine", "jaccard", loser_id="b_id", winner_id="a_id"),
        ]
    )
    places = ranked.select("id", place=pl.int_range(pl.len()))
    placed = frames.beside(edges, places, "winner_id", "loser_id")
    downhill = placed.filter(pl.col("place") < pl.col("place_b")).sort("place", "place_b")
    taken: dict[str, str] = {}
    for winner, loser in downhill.select("winner_id", "loser_id").iter_rows():
        if winner not in taken and loser not in taken:
            taken[loser] = winner
    found = pl.DataFrame(list(taken.items()), schema={"loser_id": pl.String, "winner_id": pl.String}, orient="row")
    rows = found.join(edges, on=["loser_id", "winner_id"], maintain_order="left").with_columns(stage=rule.stage)
    return frames.conform(rows, DUPLICATES).select(*DUPLICATES).sort("loser_id")

"""What is looked at, and what says the same so plainly that nobody need be asked (S1-01, S1-04, S1-10, §6.2).

A merge needs words or meaning nearly equal *and* every guard. It is never handed on: whatever a fact absorbs was
compared with that fact itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import polars as pl

from slowwave import frames
from slowwave.comparison.guards import guards_pass, is_same_identity, may_yield
from slowwave.comparison.similarity import Vectors, word_overlap
from slowwave.comparison.similarity_joins import cosines
from slowwave.entrenchment import entrenchment_rank
from slowwave.frames import beside
from slowwave.revision.exact_duplicates import with_keys
from slowwave.settings import MergeSettings, StewardSettings

from .blocking import TOPICS

# Rules of merging: how alike facts must be, and which of two that say the same survives (S1-04, S1-10, S4-08).


BY_WORDS, BY_MEANING, BY_USE = "text", "meaning", "use"
Measure = Callable[[pl.DataFrame], pl.DataFrame]


@dataclass(frozen=True, slots=True, eq=False)
class MergeRule:
    """When nothing but guards keeps two facts apart, and who survives among those of one rank.

    `is_alike`, over PAIRS: worth showing to the guards. `order`, over FACTS with created_at: best survivor first; what
    is pinned, then what is better entrenched, comes before all of it. `measure`: pairs (a_id, b_id, cosine where it is
    known, statement, statement_b) that nobody compared before, with cosine and jaccard. `stage`, over PAIRS: what the
    ledger says the merge was made by.
    """

    is_alike: pl.Expr
    order: tuple[pl.Expr, ...]
    measure: Measure
    stage: pl.Expr


def by_words(settings: MergeSettings) -> MergeRule:
    """Consolidation: alike in words or in meaning; more evidence survives, then what is surer, shorter, older.

    Neither says more than the other, the guards see to that: of "By the way: X" and "X" the plain one stays.
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
        _with_words,
        pl.when(has_same_words).then(pl.lit(BY_WORDS)).otherwise(pl.lit(BY_MEANING)),
    )


def by_use(settings: StewardSettings, ids: pl.Series, vectors: Vectors) -> MergeRule:
    """The steward: alike in meaning alone; what was recalled more survives, then what fitted better, then the older.

    Facts need hit_count and avg_retrieval_score, null where they were never recalled (S4-08). `vectors` (n, d) are the
    unit rows of the facts `ids`.
    """
    rows = pl.DataFrame({"id": ids, "row": pl.int_range(len(ids), eager=True)})

    def measured(pairs: pl.DataFrame) -> pl.DataFrame:
        places = beside(pairs, rows)
        exact = cosines(vectors, places["row"].to_numpy(), places["row_b"].to_numpy())
        return _with_words(places.with_columns(cosine=pl.Series(exact, dtype=pl.Float64)))

    return MergeRule(
        (pl.col("cosine") >= settings.merge_threshold).fill_null(False),
        (
            -pl.col("hit_count").fill_null(0),
            -pl.col("avg_retrieval_score").fill_null(-float("inf")),
            pl.col("created_at"),
            pl.col("id"),
        ),
        measured,
        pl.lit(BY_USE),
    )


def _with_words(pairs: pl.DataFrame) -> pl.DataFrame:
    return pairs.with_columns(word_overlap(pairs["statement"], pairs["statement_b"])["jaccard"])


KINDS = ("relation", "observation", "note")
"""Kinds of fact that can say the same as another; structure and similarity are no knowledge (T33)."""
PAIRS: frames.Schema = {"a_id": frames.TEXT, "b_id": frames.TEXT, "cosine": frames.NUMBER, "jaccard": frames.NUMBER}
UNDECIDED: frames.Schema = {**PAIRS, "guard": frames.TEXT}
DUPLICATES: frames.Schema = {
    "loser_id": frames.TEXT,
    "winner_id": frames.TEXT,
    "cosine": frames.NUMBER,
    "jaccard": frames.NUMBER,
    "stage": frames.TEXT,
}
LIKENESS = "likeness"
"""The guard of a pair that is not alike enough to be merged without a model."""
_EQUAL = 1.0 - 1e-6  # cosine of equal vectors in float32
_COMPARED = (
    "id kind scope subject_id predicate object_id object_text polarity statement entrenchment pinned valid_to day"
).split()


@dataclass(frozen=True, slots=True)
class CandidateSet:
    """The facts of one consolidation and what is known about their pairs.

    `facts`: FACTS with created_at and is_seed, live, seeds and neighbours. `pairs`: PAIRS among them, those worth a
    look. `decided`: PAIR_DECISIONS about these pairs. `topics`: TOPICS, pairs that may be about one matter, and
    `people` the entities that are persons, where a model is asked. `prompt_version`: of the prompt that it will be
    asked with; empty where nobody can be asked.
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
    """`losers`: LOSERS, each absorbed by its winner without a model. `undecided`: UNDECIDED, what else is alike.

    With `joins_notes` a note that survives goes on in the words of those it absorbs, too (S4-09).
    """

    duplicates: pl.DataFrame = field(default_factory=lambda: frames.empty(DUPLICATES))
    undecided: pl.DataFrame = field(default_factory=lambda: frames.empty(UNDECIDED))
    joins_notes: bool = False


def is_redundancy() -> pl.Expr:
    """Rows of PAIR_DECISIONS that are about saying the same, not about contradicting."""
    return pl.col("kind").fill_null("redundant") == "redundant"


def is_open_pair() -> pl.Expr:
    """Rows of PAIR_DECISIONS that wait for a verdict: kept apart, asked about in vain, or left open by a rule."""
    pending = pl.col("outcome") == "pending"
    left_open = ~is_redundancy() & pending & (pl.col("decided_by") == "rule")
    return (is_redundancy() & (pending | (pl.col("outcome") == "failed")) | left_open).fill_null(False)


def select_seeds(facts: pl.DataFrame, pending: pl.DataFrame, has_model: bool, max_attempts: int = 3) -> pl.Series:
    """Ids of the facts to consolidate, oldest first: those that nobody looked at yet (S1-01).

    `facts` are all live facts, with created_at; `pending` are PAIR_DECISIONS. With a model, the facts of a
    pair that waits for one are looked at again although they are marked, and those of a pair that it failed to decide
    while attempts are left.
    """
    ours = frames.conform(facts, frames.FACTS).filter(pl.col("kind").is_in(KINDS))
    fresh = pl.col("consolidated_at").is_null()
    if has_model:
        left = ours.filter(pl.col("consolidation_attempts").fill_null(0) < max_attempts)["id"].implode()
        there = ours["id"].implode()
        both = pl.all_horizontal(pl.col(end).is_in(there) for end in ("a_id", "b_id"))
        tried = pl.all_horizontal(pl.col(end).is_in(left) for end in ("a_id", "b_id"))
        is_first = is_redundancy() & (pl.col("outcome") == "pending")
        again = pending.filter(is_open_pair(), both & (is_first.fill_null(False) | tried))
        fresh |= pl.col("id").is_in(pl.concat([again["a_id"], again["b_id"]]).implode())
    return ours.filter(fresh).sort("created_at", "id")["id"]


def merge_by(candidates: CandidateSet, rule: MergeRule) -> Merges:
    """What is merged without a model under a rule; the guards stand in front of each.

    In order of rank every fact that was not absorbed absorbs what may yield to it directly: who was absorbed absorbs
    nobody (S4-10). What a loser alone was compared with is then compared with the one that absorbed it.
    """
    pairs = _measured(candidates)
    ranked = _ranked(candidates.facts, rule)
    guarded = _guarded(pairs, ranked, rule)
    losers = _duplicates(guarded, ranked, rule)
    while len(more := _handed_on(guarded, losers, ranked, candidates, rule)):
        guarded = pl.concat([guarded, _guarded(more, ranked, rule)])
        losers = _duplicates(guarded, ranked, rule)
    gone = losers["loser_id"].implode()
    left = guarded.filter(~pl.col("a_id").is_in(gone), ~pl.col("b_id").is_in(gone)).sort("a_id", "b_id")
    return Merges(losers, left.select(*UNDECIDED))


def _measured(candidates: CandidateSet) -> pl.DataFrame:
    """PAIRS of comparable facts of one scope, with a seed, that nobody settled; smaller id first, each once."""
    seeds = candidates.seeds().implode()
    ends = candidates.facts.filter(pl.col("kind").is_in(KINDS)).select("id", "scope")
    ordered = candidates.pairs.select(
        "cosine", "jaccard", a_id=pl.min_horizontal("a_id", "b_id"), b_id=pl.max_horizontal("a_id", "b_id")
    ).filter(pl.col("a_id") != pl.col("b_id"), pl.col("a_id").is_in(seeds) | pl.col("b_id").is_in(seeds))
    within = frames.beside(ordered, ends).filter(pl.col("scope").eq_missing(pl.col("scope_b")))
    unsettled = within.join(candidates.settled(), on=["a_id", "b_id"], how="anti")
    return unsettled.group_by("a_id", "b_id").agg(pl.col("cosine", "jaccard").max()).select(*PAIRS).sort("a_id", "b_id")


def _ranked(facts: pl.DataFrame, rule: MergeRule) -> pl.DataFrame:
    """The facts, best survivor first, with the keys of repetition."""
    return best_first(with_keys(facts.with_columns(pl.col("statement").fill_null(""))), rule)


def best_first(facts: pl.DataFrame, rule: MergeRule) -> pl.DataFrame:
    """The facts in the order in which they survive."""
    return facts.sort(~pl.col("pinned").fill_null(False), -entrenchment_rank("entrenchment"), *rule.order)


def _guarded(pairs: pl.DataFrame, facts: pl.DataFrame, rule: MergeRule) -> pl.DataFrame:
    """The pairs with `guard`, the first that keeps them apart (null: none), and which side may yield to the other."""
    far = pairs.filter(~rule.is_alike).with_columns(guard=pl.lit(LIKENESS))
    close = _about_one(pairs.filter(rule.is_alike), facts)
    apart = pl.concat([far, close.filter(pl.col("guard").is_not_null())])
    read = _read(close.filter(pl.col("guard").is_null()).drop("guard"), facts)
    return pl.concat([read, apart.with_columns(a_yields=pl.lit(False), b_yields=pl.lit(False))])


def _about_one(pairs: pl.DataFrame, facts: pl.DataFrame) -> pl.DataFrame:
    """The pairs with `guard` where polarity or subject differ: most of them do, and whole rows of facts are wide."""
    codes = facts.select("id", *(pl.col(name).rank("dense").fill_null(0) for name in ("polarity", "subject_id")))
    apart = pl.coalesce(_unless_same("polarity", "polarity"), _unless_same("subject_id", "identity"))
    return frames.beside(pairs, codes).select(*PAIRS, guard=apart)


def _read(pairs: pl.DataFrame, facts: pl.DataFrame) -> pl.DataFrame:
    """Pairs about one thing as `_guarded` has them; texts are read only where nothing else keeps them apart."""
    sides = frames.beside(pairs, facts.select(_COMPARED))
    flipped = sides.select(
        **{name: f"{name}_b" for name in _COMPARED[1:]}, **{f"{name}_b": name for name in _COMPARED[1:]}
    )
    apart = pl.coalesce(
        pl.when(~is_same_identity()).then(pl.lit("identity")),
        _unless_same("valid_to", "validity"),
        _unless_same("day", "day"),
    )
    sides = sides.with_columns(guard=apart, a_yields=may_yield(), b_yields=flipped.select(yields=may_yield())["yields"])
    read = sides["guard"].is_null().arg_true()
    failed = guards_pass(sides["statement"].gather(read), sides["statement_b"].gather(read))["failed_guard"]
    texts = pl.Series("text_guard", [None], dtype=pl.String).new_from_index(0, len(sides)).scatter(read, failed)
    no_one_yields = pl.when(~(pl.col("a_yields") | pl.col("b_yields"))).then(pl.lit("rank"))
    return sides.select(*PAIRS, "a_yields", "b_yields", guard=pl.coalesce("guard", texts, no_one_yields)).select(
        *PAIRS, "guard", "a_yields", "b_yields"
    )


def _unless_same(column: str, guard: str) -> pl.Expr:
    return pl.when(pl.col(column).ne_missing(pl.col(f"{column}_b"))).then(pl.lit(guard))


def _duplicates(pairs: pl.DataFrame, ranked: pl.DataFrame, rule: MergeRule) -> pl.DataFrame:
    """LOSERS: in order of rank, every fact that was not absorbed absorbs what may yield to it directly."""
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
    taken = dict(_stars(downhill.select("winner_id", "loser_id").iter_rows()))
    found = pl.DataFrame(list(taken.items()), schema={"loser_id": pl.String, "winner_id": pl.String}, orient="row")
    rows = found.join(edges, on=["loser_id", "winner_id"], maintain_order="left").with_columns(stage=rule.stage)
    return frames.conform(rows, DUPLICATES).select(*DUPLICATES).sort("loser_id")


def _stars(edges: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """(loser, winner) of edges (winner, loser) sorted by rank of the winner: who was taken takes nobody."""
    taken: set[str] = set()
    for winner, loser in edges:
        if winner not in taken and loser not in taken:
            taken.add(loser)
            yield loser, winner


def _handed_on(
    guarded: pl.DataFrame, losers: pl.DataFrame, ranked: pl.DataFrame, candidates: CandidateSet, rule: MergeRule
) -> pl.DataFrame:
    """PAIRS not measured before: a survivor and what one of its losers could have absorbed.

    Of a crowd of twins not every pair is measured. Who was measured with the loser alone would be left behind.
    """
    seeds = candidates.seeds().implode()
    alike = guarded.filter(pl.col("guard").is_null())
    both = pl.concat(
        [
            alike.select("cosine", loser_id="a_id", other="b_id"),
            alike.select("cosine", loser_id="b_id", other="a_id"),
        ]
    ).join(losers.select("loser_id", "winner_id", twin="cosine"), on="loser_id")
    named = both.filter(pl.col("other") != pl.col("winner_id")).select(
        a_id=pl.min_horizontal("winner_id", "other"),
        b_id=pl.max_horizontal("winner_id", "other"),
        cosine=pl.when(pl.col("twin") >= _EQUAL).then("cosine"),
    )
    fresh = named.group_by("a_id", "b_id").agg(pl.col("cosine").max()).join(guarded, on=["a_id", "b_id"], how="anti")
    fresh = fresh.filter(pl.col("a_id").is_in(seeds) | pl.col("b_id").is_in(seeds)).sort("a_id", "b_id")
    texts = frames.beside(fresh, ranked.select("id", "statement"))
    return rule.measure(texts).select(*PAIRS).filter(rule.is_alike)


def standing(merges: Merges, facts: pl.DataFrame) -> Merges:
    """The merges whose both sides are still among the facts, with a loser that may still yield (T40)."""
    sides = frames.beside(merges.duplicates, facts.select("id", "pinned", "entrenchment"), "loser_id", "winner_id")
    there = facts["id"].implode()
    open_ = merges.undecided.filter(pl.col("a_id").is_in(there), pl.col("b_id").is_in(there))
    return replace(merges, duplicates=sides.filter(may_yield()).select(*DUPLICATES), undecided=open_)

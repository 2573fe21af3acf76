"""What of a model's answer is taken: it names indices, and nothing it says is believed unchecked (S1-05, T37)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from slowwave.guards import GUARDS, guards_pass, may_yield
from slowwave.patches import MAX_STATEMENT_BYTES, content_stems
from slowwave.text import normalise_statement, readable

SUPERSEDE, KEEP_ALL = "supersede", "keep_all"
_OF_WORDING = ("polarity", "quantity", "time", "person", "modality", "question", "antonym")
_WORDING_GUARDS = tuple(guard for guard in GUARDS if guard.name in _OF_WORDING)
"""The others compare words one by one, and a new wording may take words from what it absorbs."""
_NAMED = {"row": pl.Int64, "index": pl.Int64, "id": pl.String, "is_survivor": pl.Boolean, "is_reworded": pl.Boolean}


@dataclass(frozen=True, slots=True)
class ClusterFact:
    """A fact as a model sees it, under an index that it may point at."""

    index: int
    id: str
    statement: str
    scope: str
    valid_from: datetime | None
    confidence: float
    entrenchment: str
    evidence_count: int
    is_fixed: bool = False  # pinned or an axiom: it may survive, never be absorbed


@dataclass(frozen=True, slots=True)
class Cluster:
    """Facts that may say the same, for one decision. In a pair the new fact has index 0."""

    number: int
    facts: tuple[ClusterFact, ...]

    def ids(self) -> tuple[str, ...]:
        """Of its facts, by index."""
        return tuple(fact.id for fact in self.facts)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a model says of a cluster: one survives and absorbs others, perhaps in better words, or all are kept."""

    cluster: int
    outcome: str
    survivor: int | None = None
    absorbed: tuple[int, ...] = ()
    reworded: str | None = None
    reason: str = ""

    def wording(self) -> str:
        """The new statement, cleaned as statements are; empty where there is none."""
        return " ".join(readable(self.reworded or "").split())


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of a question: a verdict, an error, or neither where nobody was asked (the budget was spent)."""

    cluster: Cluster
    verdict: Verdict | None = None
    error: str = ""


def check_verdict(cluster: Cluster, verdict: Verdict, facts: pl.DataFrame) -> str:
    """Empty if the verdict may be carried out, else what is wrong with it, for the model to read (S1-05, S1-22, T37).

    `facts` hold the members of the cluster, as they are now.
    """
    return check_verdicts([(cluster, verdict)], facts)[0]


def check_verdicts(told: Sequence[tuple[Cluster, Verdict]], facts: pl.DataFrame) -> list[str]:
    """`check_verdict` of many, in their order."""
    wrong = {row: wrong_indices(*each) for row, each in enumerate(told)}
    wrong |= _wrong_facts(_still(told, wrong), facts)
    wrong |= _wrong_words(_still(told, wrong))
    return [wrong[row] for row in range(len(told))]


def _still(told: Sequence[tuple[Cluster, Verdict]], wrong: Mapping[int, str]) -> dict[int, tuple[Cluster, Verdict]]:
    """The verdicts with which nothing is wrong so far and that would change something."""
    return {row: each for row, each in enumerate(told) if not wrong[row] and each[1].outcome == SUPERSEDE}


def wrong_indices(cluster: Cluster, verdict: Verdict) -> str:
    known = range(len(cluster.facts))
    named = [verdict.survivor, *verdict.absorbed]
    if verdict.outcome == KEEP_ALL:
        return ""
    if verdict.outcome != SUPERSEDE:
        return f"outcome {verdict.outcome!r} is neither {SUPERSEDE} nor {KEEP_ALL}"
    if verdict.survivor is None:
        return "supersede needs the index of the survivor"
    if not verdict.absorbed:
        return "supersede needs the index of at least one absorbed fact"
    if wrong := [index for index in named if index not in known]:
        return f"no fact has the index {wrong[0]}; there are 0 to {len(known) - 1}"
    if verdict.survivor in verdict.absorbed:
        return f"fact {verdict.survivor} cannot be both survivor and absorbed"
    return "" if len(set(named)) == len(named) else "a fact is absorbed twice"


def _wrong_facts(told: Mapping[int, tuple[Cluster, Verdict]], facts: pl.DataFrame) -> dict[int, str]:
    """Which fact must not be absorbed or reworded, and why."""
    columns = ["id", "scope", "pinned", "entrenchment", "polarity", "valid_to"]
    named = [
        (row, index, cluster.ids()[index], index == verdict.survivor, _changes_words(cluster, verdict))
        for row, (cluster, verdict) in told.items()
        for index in (verdict.survivor or 0, *verdict.absorbed)
    ]
    members = pl.DataFrame(
        named, schema=["row", "index", "id", "is_survivor", "is_reworded"], orient="row"
    ).with_columns(
        pl.col("id").cast(pl.String), pl.col("row", "index").cast(pl.Int64), pl.col("^is_.*$").cast(pl.Boolean)
    )
    there = members.join(facts.select(columns).unique("id"), on="id", maintain_order="left")
    survivors = there.filter("is_survivor")
    sides = there.filter(~pl.col("is_survivor")).join(survivors, on="row", suffix="_b", maintain_order="left")
    unequal = {column: pl.col(column).ne_missing(pl.col(f"{column}_b")) for column in ("scope", "polarity", "valid_to")}
    stays = (
        pl.when(unequal["scope"])
        .then(pl.lit("is of another scope"))
        .when(~may_yield())
        .then(pl.lit("is pinned or better entrenched than the survivor"))
        .when(unequal["polarity"])
        .then(pl.lit("says the opposite of the survivor"))
        .when(unequal["valid_to"])
        .then(pl.lit("ends at another time than the survivor"))
    )
    gone = members.join(there, on=["row", "index"], how="anti").with_columns(why=pl.lit("does not exist any more"))
    # A fact may be reworded if it might yield to itself: it is neither pinned nor an axiom.
    fixed = survivors.filter("is_reworded").filter(~may_yield("")).with_columns(why=pl.lit("is pinned or an axiom"))
    found = pl.concat([part.select("row", "index", "why") for part in (gone, sides.with_columns(why=stays), fixed)])
    found = found.drop_nulls("why").reverse()
    return {row: f"fact {index} must stay as it is: it {why}" for row, index, why in found.iter_rows()}


def _wrong_words(told: Mapping[int, tuple[Cluster, Verdict]]) -> dict[int, str]:
    """What is wrong with new wordings of survivors; they may only take words from what they replace."""
    changed = {row: each for row, each in told.items() if _changes_words(*each)}
    texts = pl.DataFrame(
        [
            (row, verdict.wording(), survivor_of(cluster, verdict).statement, _replaced(cluster, verdict))
            for row, (cluster, verdict) in changed.items()
        ],
        schema={"row": pl.Int64, "words": pl.String, "before": pl.String, "replaced": pl.String},
        orient="row",
    )
    read = texts.with_columns(
        guard=guards_pass(texts["words"], texts["before"], _WORDING_GUARDS)["failed_guard"],
        added=content_stems("words").list.set_difference(content_stems("replaced")).list.sort().list.first(),
    )
    why = (
        pl.when(pl.col("words").str.len_bytes() > MAX_STATEMENT_BYTES)
        .then(pl.lit(f"the new wording is longer than {MAX_STATEMENT_BYTES} bytes"))
        .when(pl.col("guard").is_not_null())
        .then(pl.format("the new wording does not agree with the survivor ({})", "guard"))
        .when(pl.col("added").is_not_null())
        .then(pl.format("the new wording adds '{}', which none of its facts says", "added"))
    )
    return dict(read.select("row", why=why).drop_nulls("why").iter_rows())


def _replaced(cluster: Cluster, verdict: Verdict) -> str:
    """All that the survivor and the absorbed say."""
    return " \n ".join(cluster.facts[index].statement for index in (verdict.survivor or 0, *verdict.absorbed))


def survivor_of(cluster: Cluster, verdict: Verdict) -> ClusterFact:
    """The fact that absorbs the others; the verdict was checked."""
    return cluster.facts[verdict.survivor or 0]


def new_wording(cluster: Cluster, verdict: Verdict) -> str:
    """The new statement of the survivor; empty where its own will do."""
    return verdict.wording() if _changes_words(cluster, verdict) else ""


def _changes_words(cluster: Cluster, verdict: Verdict) -> bool:
    words = verdict.wording()
    return bool(words) and normalise_statement(words) != normalise_statement(survivor_of(cluster, verdict).statement)

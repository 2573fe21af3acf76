"""What of a model's answer is taken: it names indices, and nothing it says is believed unchecked (S1-05, T37)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import polars as pl

from slowwave import frames
from slowwave.application.patches import MAX_STATEMENT_BYTES, content_stems
from slowwave.merging.guards import may_yield
from slowwave.merging.wordings import clashes, is_same_in_words, lost, strays
from slowwave.text import normalise_statement, readable

SUPERSEDE, KEEP_ALL = "supersede", "keep_all"
_SAID = {"row": pl.Int64, "index": pl.Int64, "text": pl.String, "survivor": pl.String, "heir": pl.String}
_WORDS = {"row": pl.Int64, "words": pl.String, "before": pl.String, "replaced": pl.String}


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
    for look in (partial(_wrong_facts, facts=facts), _wrong_words, _wrong_losses):
        if left := _still(told, wrong):
            wrong |= look(left)
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
    columns = ["id", "scope", "pinned", "entrenchment", "polarity", "valid_to", "subject_id", "object_id"]
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
    there = members.join(
        frames.conform(facts, frames.FACTS).select(columns).unique("id"), on="id", maintain_order="left"
    )
    survivors = there.filter("is_survivor")
    sides = there.filter(~pl.col("is_survivor")).join(survivors, on="row", suffix="_b", maintain_order="left")
    compared = ("scope", "polarity", "valid_to", "subject_id")
    unequal = {column: pl.col(column).ne_missing(pl.col(f"{column}_b")) for column in compared}
    unequal["object_id"] = pl.col("object_id") != pl.col("object_id_b")  # not where one has none
    stays = (
        pl.when(unequal["scope"])
        .then(pl.lit("is of another scope"))
        .when(~may_yield())
        .then(pl.lit("is pinned or better entrenched than the survivor"))
        .when(unequal["polarity"])
        .then(pl.lit("says the opposite of the survivor"))
        .when(unequal["valid_to"])
        .then(pl.lit("ends at another time than the survivor"))
        .when(unequal["subject_id"])
        .then(pl.lit("is about somebody or something else than the survivor"))
        .when(unequal["object_id"])
        .then(pl.lit("relates to somebody or something else than the survivor"))
    )
    gone = members.join(there, on=["row", "index"], how="anti").with_columns(why=pl.lit("does not exist any more"))
    # A fact may be reworded if it might yield to itself: it is neither pinned nor an axiom.
    fixed = survivors.filter("is_reworded").filter(~may_yield("")).with_columns(why=pl.lit("is pinned or an axiom"))
    found = pl.concat([part.select("row", "index", "why") for part in (gone, sides.with_columns(why=stays), fixed)])
    found = found.drop_nulls("why").reverse()
    return {row: f"fact {index} must stay as it is: it {why}" for row, index, why in found.iter_rows()}


def _wrong_words(told: Mapping[int, tuple[Cluster, Verdict]]) -> dict[int, str]:
    """What is wrong with new wordings of survivors.

    They may take words only from what they replace. One that is no wording of any of its facts does not count: the
    verdict stands without it if the survivor has all its words already, else the survivor says too little.
    """
    changed = {row: each for row, each in told.items() if _changes_words(*each)}
    rows = [
        (row, verdict.wording(), survivor_of(cluster, verdict).statement, " \n ".join(_replaced(cluster, verdict)))
        for row, (cluster, verdict) in changed.items()
    ]
    texts = pl.DataFrame(rows, schema=_WORDS, orient="row")
    texts = texts.with_columns(holds=pl.Series(_hold(list(changed.values())), dtype=pl.Boolean))
    new = content_stems("words")
    read = texts.with_columns(
        guard=strays(texts["words"], texts["before"]),
        added=new.list.set_difference(content_stems("replaced")).list.sort().list.first(),
        joined=new.list.set_difference(content_stems("before")).list.sort().list.first(),
    )
    why = (
        pl.when(pl.col("words").str.len_bytes() > MAX_STATEMENT_BYTES)
        .then(pl.lit(f"the new wording is longer than {MAX_STATEMENT_BYTES} bytes"))
        .when(pl.col("guard").is_not_null())
        .then(pl.format("the new wording does not agree with the survivor ({})", "guard"))
        .when(pl.col("added").is_not_null())
        .then(pl.format("the new wording adds '{}', which none of its facts says", "added"))
        .when(~pl.col("holds") & pl.col("joined").is_not_null())
        .then(
            pl.format(
                "the new wording joins '{}' to what the survivor says, and no fact says just that: "
                "supersede without reworded if one fact says everything, else keep_all",
                "joined",
            )
        )
    )
    return dict(read.select("row", why=why).drop_nulls("why").iter_rows())


def _wrong_losses(told: Mapping[int, tuple[Cluster, Verdict]]) -> dict[int, str]:
    """Which fact contradicts the survivor, or names what would be lost with it (G1, G2)."""
    words = new_wordings(list(told.values()))
    rows = [
        (row, index, cluster.facts[index].statement, before, new or before)
        for (row, (cluster, verdict)), new in zip(told.items(), words, strict=True)
        for before in (survivor_of(cluster, verdict).statement,)
        for index in (verdict.survivor or 0, *verdict.absorbed)
    ]
    said = pl.DataFrame(rows, schema=_SAID, orient="row")
    read = said.with_columns(
        guard=clashes(said["text"], said["survivor"]),
        lost=lost(said["text"], said["heir"]),
    )
    why = (
        pl.when(pl.col("guard").is_not_null())
        .then(pl.format("fact {} must stay as it is: it contradicts the survivor ({})", "index", "guard"))
        .when(pl.col("lost").is_not_null())
        .then(pl.format("fact {} must stay as it is: it says '{}', which would be lost", "index", "lost"))
    )
    return dict(read.reverse().select("row", why=why).drop_nulls("why").iter_rows())


def _replaced(cluster: Cluster, verdict: Verdict) -> list[str]:
    """All that the survivor and the absorbed say."""
    return [cluster.facts[index].statement for index in (verdict.survivor or 0, *verdict.absorbed)]


def survivor_of(cluster: Cluster, verdict: Verdict) -> ClusterFact:
    """The fact that absorbs the others; the verdict was checked."""
    return cluster.facts[verdict.survivor or 0]


def new_wording(cluster: Cluster, verdict: Verdict) -> str:
    """The new statement of the survivor; empty where its own will do, or where none of its facts says just that."""
    return new_wordings([(cluster, verdict)])[0]


def new_wordings(told: Sequence[tuple[Cluster, Verdict]]) -> list[str]:
    """`new_wording` of many, in their order; of verdicts to supersede whose indices are right."""
    changed = [_changes_words(*each) for each in told]
    held = iter(_hold([each for each, is_new in zip(told, changed, strict=True) if is_new]))
    return [
        verdict.wording() if is_new and next(held) else "" for (_, verdict), is_new in zip(told, changed, strict=True)
    ]


def drops_wording(cluster: Cluster, verdict: Verdict, new: str) -> bool:
    """Whether the verdict has a wording of its own, of which `new_wording` took nothing."""
    return not new and _changes_words(cluster, verdict)


def _hold(told: Sequence[tuple[Cluster, Verdict]]) -> list[bool]:
    """Whether each new wording says the same as one of the facts that it replaces: by likeness alone it may say the
    opposite, "Devon manages Marta" of "Marta manages Devon"."""
    if not told:
        return []
    rows = [
        (row, verdict.wording(), text)
        for row, (cluster, verdict) in enumerate(told)
        for text in _replaced(cluster, verdict)
    ]
    pairs = pl.DataFrame(rows, schema={"row": pl.Int64, "words": pl.String, "text": pl.String}, orient="row")
    same = set(pairs.filter(is_same_in_words(pairs["words"], pairs["text"]))["row"])
    return [row in same for row in range(len(told))]


def _changes_words(cluster: Cluster, verdict: Verdict) -> bool:
    words = verdict.wording()
    return bool(words) and normalise_statement(words) != normalise_statement(survivor_of(cluster, verdict).statement)

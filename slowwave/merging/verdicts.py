"""What a model's verdict about a pair may do: guards bound what says the same, not what changed (S1-05, S1-22, T37)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from slowwave import frames
from slowwave.merging.guard_marks import read_amounts, read_names, read_times, straight
from slowwave.merging.guards import GUARDS, guards_pass, may_yield

SAME, UPDATES, CORRECTS, CONTRADICTS = "same", "updates", "corrects", "contradicts"
_NEVER_MIXED = tuple(
    guard for guard in GUARDS if guard.name in ("polarity", "person", "modality", "question", "antonym")
)
_WAYS = {"pair": pl.Int64, "turn": pl.Int64, "loser": pl.String, "winner": pl.String}


@dataclass(frozen=True, slots=True)
class Judged:
    """A pair of facts, the one said first first, and what became of the question about it.

    A `verdict` (for `same` with the sentence that is kept, 1 or 2); or an `error`, where the answer could not be used;
    or neither, where nobody was asked: the budget was spent.
    """

    first: str
    second: str
    verdict: str = ""
    keep: int = 1
    error: str = ""

    @property
    def ids(self) -> tuple[str, str]:
        """Both ids, the smaller one first, as PAIR_DECISIONS name a pair."""
        return min(self.first, self.second), max(self.first, self.second)


@dataclass(frozen=True, slots=True)
class Merge:
    """A pair that a model calls the same: which fact goes on in which, or the guard that keeps them apart."""

    judged: Judged
    loser: str = ""
    winner: str = ""
    guard: str = ""


def allowed_merges(judged: Sequence[Judged], facts: pl.DataFrame) -> tuple[Merge, ...]:
    """What becomes of the pairs called the same, in their order. `facts` are FACTS, both sides among them.

    The sentence that the model would keep stays, unless rank forbids it or words of the other one would be lost; then
    the other one does. Where neither may go, both stay.
    """
    same = [each for each in judged if each.verdict == SAME]
    ways = [
        (row, turn, *((each.second, each.first) if (each.keep == 1) == (turn == 0) else (each.first, each.second)))
        for row, each in enumerate(same)
        for turn in (0, 1)
    ]
    read = _guarded(pl.DataFrame(ways, schema=_WAYS, orient="row"), facts)
    open_ = read.filter(pl.col("guard").is_null()).unique("pair", keep="first", maintain_order=True)
    chosen = {pair: (loser, winner) for pair, loser, winner in open_.select("pair", "loser", "winner").iter_rows()}
    guards = dict(read.filter(pl.col("turn") == 0).select("pair", "guard").iter_rows())
    return tuple(
        Merge(each, *chosen[row]) if row in chosen else Merge(each, guard=guards[row]) for row, each in enumerate(same)
    )


def _guarded(ways: pl.DataFrame, facts: pl.DataFrame) -> pl.DataFrame:
    """Each way of merging a pair with the guard that forbids it, null where none does."""
    columns = ["scope", "subject_id", "polarity", "valid_to", "pinned", "entrenchment", "statement"]
    sides = frames.conform(facts, frames.FACTS).select("id", *columns).unique("id")
    both = frames.beside(ways, sides, "loser", "winner")
    texts, others = (both[name].fill_null("") for name in ("statement", "statement_b"))
    unequal = {name: pl.col(name).ne_missing(pl.col(f"{name}_b")) for name in columns[:4]}
    clash = guards_pass(texts, others, _NEVER_MIXED)["failed_guard"]
    return both.with_columns(clash=clash, lost=lost(texts, others)).select(
        *_WAYS,
        guard=pl.when(unequal["scope"])
        .then(pl.lit("scope"))
        .when(unequal["subject_id"])
        .then(pl.lit("identity"))
        .when(unequal["polarity"])
        .then(pl.lit("polarity"))
        .when(unequal["valid_to"])
        .then(pl.lit("validity"))
        .when(pl.col("clash").is_not_null())
        .then("clash")
        .when(~may_yield())
        .then(pl.lit("rank"))
        .when(pl.col("lost").is_not_null())
        .then(pl.lit("words")),
    )  # fmt: skip


def lost(texts: pl.Series, heirs: pl.Series) -> pl.Series:
    """Per pair the first number, identifier, date, time or name of the text that its heir does not say, or null."""
    told, kept = straight(texts), straight(heirs)
    sides = (
        (read_amounts(told), read_amounts(kept)),
        (read_times(told), read_times(kept)),
        (read_names(told).struct.field("names"), read_names(kept).struct.field("words")),
    )
    gone = pl.DataFrame({str(place): own.list.set_difference(other) for place, (own, other) in enumerate(sides)})
    return gone.select(lost=pl.coalesce(pl.all().list.sort().list.first()))["lost"]

"""What must agree before two statements may be merged without a model: likeness alone never suffices (§6.2, T29).

A guard reads *marks* out of every text and says whether the two sides of a pair agree. A merge that is missed costs a
pair in a queue, a false one costs a memory: every doubt is a "no". The next guard is one more entry in `GUARDS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.application.entrenchment import AXIOM, entrenchment_rank
from slowwave.merging.guard_forms import read_forms
from slowwave.merging.guard_marks import (
    is_time_bound,
    read_amounts,
    read_ends,
    read_names,
    read_owners,
    read_polarities,
    read_questions,
    read_times,
    reader_of_kinds,
    straight,
    unframed,
)
from slowwave.merging.guard_words import MODALITY, PERSONS

__all__ = [
    "GUARDS",
    "Guard",
    "guards_pass",
    "is_same_identity",
    "is_time_bound",
    "may_yield",
    "polarity",
    "quantities",
    "times",
]

Marks = tuple[str, ...]
Codes = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Guard:
    """One thing that must agree: how it is read from texts, and how two readings are compared."""

    name: str
    read: Callable[[pl.Series], pl.Series]
    agrees: Callable[[pl.Expr, pl.Expr], pl.Expr] = pl.Expr.eq_missing


def _names_known(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """Every name of either side is a word of the other: a capital at a sentence's start may be just that."""
    names_a, words_a = a.struct.field("names"), a.struct.field("words")
    names_b, words_b = b.struct.field("names"), b.struct.field("words")
    return (names_a.list.set_difference(words_b).list.len() == 0) & (
        names_b.list.set_difference(words_a).list.len() == 0
    )


def _not_opposed(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """Neither side has the other end of a scale ("hot", "cold"), nor a word of the other turned round ("un-")."""
    fields = ("ends", "opposites", "words", "turned")
    (ends_a, opposites_a, words_a, turned_a), (ends_b, opposites_b, words_b, turned_b) = (
        tuple(side.struct.field(name) for name in fields) for side in (a, b)
    )
    clashes = (
        opposites_a.list.set_difference(opposites_b).list.set_intersection(ends_b.list.set_difference(ends_a)),
        turned_a.list.set_difference(turned_b).list.set_intersection(words_b.list.set_difference(words_a)),
        turned_b.list.set_difference(turned_a).list.set_intersection(words_a.list.set_difference(words_b)),
    )
    return pl.all_horizontal(*(clash.list.len() == 0 for clash in clashes))


def _same_members(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """Lists that share a member have the same members: "tea and milk" is not "tea and rum"."""
    first, second = (side.struct.field("members") for side in (a, b))
    return (first == second) | (first.list.set_intersection(second).list.len() == 0)


def _shares(part: str) -> Callable[[pl.Expr, pl.Expr], pl.Expr]:
    def agrees(a: pl.Expr, b: pl.Expr) -> pl.Expr:
        return a.struct.field(part).list.set_intersection(b.struct.field(part)).list.len() > 0

    return agrees


GUARDS: tuple[Guard, ...] = (
    Guard("polarity", read_polarities),
    Guard("quantity", read_amounts),
    Guard("time", read_times),
    Guard("person", reader_of_kinds(PERSONS)),
    Guard("modality", reader_of_kinds(MODALITY)),
    Guard("name", read_names, _names_known),
    Guard("owner", read_owners),
    Guard("question", read_questions),
    Guard("antonym", read_ends, _not_opposed),
    Guard("list", read_forms, _same_members),
    Guard("word", read_forms, _shares("bags")),
    Guard("order", read_forms, _shares("lines")),
)


def guards_pass(a: pl.Series, b: pl.Series, guards: tuple[Guard, ...] = GUARDS) -> pl.DataFrame:
    """Per pair `passes` and `failed_guard`, the first guard whose marks do not agree (null where all do).

    A passing pair says the same, neither side more than the other, whatever its cosine. A guard reads only the texts
    of pairs that the guards before it let through.
    """
    first, second = unframed(straight(a)), unframed(straight(b))
    texts, codes = _coded(first, second)
    failed = pl.Series([None], dtype=pl.String).new_from_index(0, len(first))
    left = (first != second).arg_true().to_numpy()
    marks = _Marks(texts)
    for guard in guards:
        if not len(left):
            break
        sides = marks.of(guard.read, codes[:, left])
        agree = pl.DataFrame({"a": sides[0], "b": sides[1]}).select(agree=guard.agrees(pl.col("a"), pl.col("b")))[
            "agree"
        ]
        refused = ~agree.to_numpy()
        failed = failed.scatter(left[refused], guard.name)
        left = left[~refused]
    return pl.DataFrame({"passes": failed.is_null(), "failed_guard": failed})


def _coded(first: pl.Series, second: pl.Series) -> tuple[pl.Series, Codes]:
    """The distinct texts of both sides, and per side and pair which of them it is: (2, pairs)."""
    both = pl.concat([first, second])
    codes = both.rank("dense").cast(pl.Int64).to_numpy() - 1
    return both.unique().sort(), codes.reshape(2, len(first))


@dataclass
class _Marks:
    """What one reader read last; readers that follow one another share it."""

    texts: pl.Series
    reader: Callable[[pl.Series], pl.Series] | None = None
    known: Codes = field(default_factory=lambda: np.zeros(0, np.int64))
    read: pl.Series = field(default_factory=pl.Series)

    def of(self, reader: Callable[[pl.Series], pl.Series], codes: Codes) -> tuple[pl.Series, pl.Series]:
        """The marks of both sides of the pairs whose codes (2, pairs) are given."""
        if reader is not self.reader:
            self.reader, self.known = reader, np.unique(codes)
            self.read = reader(self.texts.gather(self.known))
        places = np.searchsorted(self.known, codes)
        return self.read.gather(places[0]), self.read.gather(places[1])


def is_same_identity(suffix: str = "_b") -> pl.Expr:
    """G3 over a frame of fact pairs: one scope, kind and subject; of relations also one predicate, object and polarity.

    The other side's columns bear the suffix: scope, kind, subject_id, predicate, object_id, object_text, polarity.
    """

    def same(column: str) -> pl.Expr:
        return pl.col(column).eq_missing(pl.col(f"{column}{suffix}"))

    texts = (pl.col(column).str.strip_chars().str.to_lowercase() for column in ("object_text", f"object_text{suffix}"))
    no_entity = pl.col("object_id").is_null() & pl.col(f"object_id{suffix}").is_null()
    by_text = no_entity & pl.Expr.eq_missing(*texts)
    by_entity = (pl.col("object_id") == pl.col(f"object_id{suffix}")).fill_null(False)
    one_relation = same("predicate") & same("polarity") & (by_entity | by_text)
    no_relation = pl.col("kind") != "relation"
    return same("scope") & same("kind") & same("subject_id") & (no_relation | one_relation)


def may_yield(suffix: str = "_b") -> pl.Expr:
    """G4 over a frame of fact pairs: the loser (plain columns) is not pinned, no axiom, not better entrenched.

    Needs `pinned` and `entrenchment` of the loser and `entrenchment` with the suffix of the winner.
    """
    loser, winner = (entrenchment_rank(column) for column in ("entrenchment", f"entrenchment{suffix}"))
    return ~pl.col("pinned").fill_null(False) & (loser < AXIOM) & (loser <= winner)


def _of_one(read: Callable[[pl.Series], pl.Series], text: str) -> Marks:
    return tuple(read(straight(pl.Series([text], dtype=pl.String)))[0])


def polarity(text: str) -> Marks:
    """The negation markers of a text, sorted, each as often as it stands there (G1)."""
    return _of_one(read_polarities, text)


def quantities(text: str) -> Marks:
    """Its numbers with their units, dates, versions, quoted and code-like identifiers, sorted (G2)."""
    return _of_one(read_amounts, text)


def times(text: str) -> Marks:
    """Its months, weekdays and words of time, sorted."""
    return _of_one(read_times, text)

"""What a sentence must keep of another whose place it takes, and when it is the same in other words (G1, G2)."""

from __future__ import annotations

import polars as pl

from slowwave.merging.guard_marks import read_amounts, read_names, read_times, straight
from slowwave.merging.guards import GUARDS, guards_pass

_NEVER_MIXED = ("polarity", "person", "modality", "question", "antonym")
_OF_WORDING = (*_NEVER_MIXED, "quantity", "time")
_CLASH_GUARDS = tuple(guard for guard in GUARDS if guard.name in _NEVER_MIXED)
_WORDING_GUARDS = tuple(guard for guard in GUARDS if guard.name in _OF_WORDING)


def clashes(texts: pl.Series, others: pl.Series) -> pl.Series:
    """Per pair the guard by which it contradicts, or null; a side may say more, with numbers and names of its own."""
    return guards_pass(texts, others, _CLASH_GUARDS)["failed_guard"]


def strays(words: pl.Series, before: pl.Series) -> pl.Series:
    """Per new wording the guard by which it differs from the words before, or null; other words are no difference."""
    return guards_pass(words, before, _WORDING_GUARDS)["failed_guard"]


def is_same_in_words(words: pl.Series, others: pl.Series) -> pl.Series:
    """Whether each pair says the same by every guard, that of the order of words among them: who does what to whom."""
    return guards_pass(words, others)["passes"]


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

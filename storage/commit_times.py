"""When commits were made, told so that it never runs against their order, whatever the clocks of the writers did."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
import numpy.typing as npt
import polars as pl


def in_order(times: pl.Series) -> pl.Series:
    """The times of commits, given in the order of the commits, so that none is earlier than the one before.

    A clock that jumped shows in times that cannot all be right. As few as possible are taken to be wrong (what is left
    is a longest series that does not fall); a wrong one becomes the right one before it, or the first right one.
    """
    if times.is_sorted():
        return times
    backwards = -times.to_physical().to_numpy()[::-1]  # of series of one length that which has the earlier commits
    right = pl.Series(_longest_rise(backwards)[::-1])
    return pl.select(pl.when(right).then(times).forward_fill().backward_fill().alias(times.name)).to_series()


def _longest_rise(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Marks a longest subsequence that does not fall (patience sorting)."""
    ends: list[int] = []
    places: list[int] = []
    before = np.full(len(numbers), -1)
    for place, number in enumerate(numbers.tolist()):
        length = bisect_right(ends, number)
        before[place] = places[length - 1] if length else -1
        ends[length : length + 1] = [number]
        places[length : length + 1] = [place]
    marked = np.zeros(len(numbers), dtype=bool)
    place = places[-1]
    while place >= 0:
        marked[place] = True
        place = int(before[place])
    return marked

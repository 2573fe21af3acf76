"""Company: which entities reads returned together, as arrays, so that a recall asks about its own in microseconds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.settings import UseSettings

_HOUR = 3_600_000_000
USUAL = UseSettings()
Places = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Company:
    """Pairs of entities, each once, under the one that lies first: those of place `i` are `starts[i]` to `starts[i+1]`.

    `other` is the second one's place, `count` how often the two met, `last` when, in microseconds since 1970.
    """

    starts: Places
    other: Places
    count: Numbers
    last: Places

    def among(self, places: Places, now: datetime, settings: UseSettings = USUAL) -> Numbers:
        """Of each of these places (sorted, different) its company among the others (S0-26).

        That is Σ log2(1 + count) × recency, which falls by the hour since the two last met, to a floor (S0-25).
        """
        counts = self.starts[places + 1] - self.starts[places]
        before = np.concatenate(([0], np.cumsum(counts)[:-1])).astype(np.int64)[: len(counts)]
        slots = np.repeat(self.starts[places] - before, counts) + np.arange(counts.sum())
        first = np.repeat(np.arange(len(places)), counts)
        second = np.searchsorted(places, self.other[slots])
        is_met = places[np.minimum(second, len(places) - 1)] == self.other[slots] if len(slots) else slots.astype(bool)
        slots, first, second = slots[is_met], first[is_met], second[is_met]
        hours = np.maximum(now.timestamp() * 1e6 - self.last[slots], 0.0) / _HOUR
        recency = np.maximum(np.exp(-settings.decay_per_hour * hours), settings.temporal_floor)
        share = np.log2(1.0 + self.count[slots]) * recency
        both = np.bincount(first, share, len(places)) + np.bincount(second, share, len(places))
        return np.asarray(both, dtype=np.float64)


def build_company(ids: pl.Series, pairs: pl.DataFrame) -> Company:
    """Of entities (ids, sorted) the pairs (a_id, b_id, count, last_at) that there are; those of others are dropped.

    What several rows say of the same two, because entities were merged, is added up.
    """
    index = pl.DataFrame({"id": ids}).with_row_index("place").with_columns(pl.col("place").cast(pl.Int64))
    placed = pairs.select("a_id", "b_id", "count", "last_at")
    for end in ("a", "b"):
        placed = placed.join(index.rename({"id": f"{end}_id", "place": end}), on=f"{end}_id")
    met = placed.filter(pl.col("a") != pl.col("b")).group_by(
        first=pl.min_horizontal("a", "b"), other=pl.max_horizontal("a", "b")
    )
    rows = met.agg(pl.col("count").sum(), pl.col("last_at").max()).sort("first", "other")
    starts = np.searchsorted(rows["first"].to_numpy(), np.arange(len(ids) + 1)).astype(np.int64)
    times = rows["last_at"].dt.epoch("us").fill_null(0).to_numpy()
    return Company(starts, rows["other"].to_numpy(), rows["count"].cast(pl.Float64).to_numpy(), times)

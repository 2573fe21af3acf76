"""How much was believed over time, and how the scores lie: the numbers behind the pictures of a run."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import polars as pl

POINTS = 60
BINS = 20


def believed_over_time(facts: pl.DataFrame, now: datetime, points: int = POINTS) -> pl.DataFrame:
    """How many facts the store believed at evenly spaced times from the first fact to `now`: columns at, believed.

    `facts` has created_at and expired_at of all facts that were ever active. A single time where everything is new.
    """
    began = facts.filter(pl.col("created_at") <= now)["created_at"].sort()
    ended = facts["expired_at"].drop_nulls().sort()
    if began.is_empty() or (start := began[0]) == now:
        return pl.DataFrame({"at": [now], "believed": [len(began)]})
    times = [start + (now - start) * step / (points - 1) for step in range(points)]
    at = pl.Series("at", times, dtype=began.dtype)
    believed = began.search_sorted(at, side="right") - ended.search_sorted(at, side="right")
    return pl.DataFrame({"at": at, "believed": believed.cast(pl.Int64)})


def score_bins(scores: pl.Series, bins: int = BINS) -> pl.DataFrame:
    """How many scores in [0, 1] lie in each of `bins` equal parts: columns from_, to, facts; nulls are left out."""
    counts, edges = np.histogram(scores.drop_nulls().to_numpy(), bins=bins, range=(0.0, 1.0))
    return pl.DataFrame({"from_": edges[:-1], "to": edges[1:], "facts": counts.astype(np.int64)})

"""Limbic weight: what is read often, lately and together comes first (S0-24 … S0-26).

Statements about an entity of which nothing but metadata is known would count less in the system that this comes from;
slowwave has no such kind of fact, so that factor has no place here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.importance import importance, temporal

IMPORTANCE_WEIGHT = 0.5
COMPANY_WEIGHT = 0.01
STATUS_FACTORS: Mapping[str, float] = MappingProxyType(
    {"active": 1.0, "paused": 0.85, "completed": 0.7, "archived": 0.5}
)
FACTORS = ("importance", "recency", "company", "status")
Parts = Mapping[str, float]


def limbic_factors(entities: pl.DataFrame, company: npt.NDArray[np.float64], now: datetime) -> pl.DataFrame:
    """(id, importance, recency, company, status, limbic) of the entities that are ranked against each other (S0-26).

    - `entities`: id, status, created_at, access_count, access_days, last_access_at, degree; nulls where nothing was
      read or counted. The largest counts among them are the measure of importance.
    - `company`: (n,) of each of them, how much it was read together with the others.

    Each column is the factor itself: 1 + 0.5 × importance in [1, 1.69], recency in [0.1, 1], 1 + 0.01 × company ≥ 1,
    status in [0.5, 1], 1 where it is unknown; `limbic` is their product. Where nothing was ever read and all entities
    are of one age, all have the same factor, and no order changes.
    """
    access, days = pl.col("access_count"), pl.col("access_days")
    whole = importance(access, access.max().fill_null(0), pl.col("degree"), days, days.max().fill_null(0))
    told = entities.select(
        "id",
        importance=1.0 + IMPORTANCE_WEIGHT * whole,
        recency=temporal(pl.coalesce("last_access_at", "created_at"), now),
        company=1.0 + COMPANY_WEIGHT * pl.Series(company, dtype=pl.Float64),
        status=pl.col("status").replace_strict(STATUS_FACTORS, default=1.0, return_dtype=pl.Float64),
    )
    return told.with_columns(limbic=pl.col("importance") * pl.col("recency") * pl.col("company") * pl.col("status"))


def fact_factors(
    ends: Iterable[tuple[str, str | None, str | None]], entities: pl.DataFrame
) -> dict[str, dict[str, float]]:
    """The factors of facts (id, subject, object): those of whichever end weighs more, the subject if both do.

    A mean would make a fact about what is read every day lose by naming something rare, which says more, not less. A
    fact of which no end is known has factors of 1.
    """
    known = {row["id"]: row for row in entities.iter_rows(named=True)}
    found = {}
    for fact, *both in ends:
        held = [known[end] for end in both if end in known]
        best = max(held, key=lambda row: row["limbic"], default=None)
        found[fact] = {name: best[name] if best else 1.0 for name in (*FACTORS, "limbic")}
    return found

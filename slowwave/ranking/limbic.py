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

from slowwave.settings import LimbicSettings

USUAL = LimbicSettings()
STATUS_FACTORS: Mapping[str, float] = MappingProxyType(
    {"active": 1.0, "paused": 0.85, "completed": 0.7, "archived": 0.5}
)
_HOUR = 3_600_000_000
FACTORS = ("importance", "recency", "company", "status")
Parts = Mapping[str, float]


def limbic_factors(
    entities: pl.DataFrame, company: npt.NDArray[np.float64], now: datetime, settings: LimbicSettings = USUAL
) -> pl.DataFrame:
    """(id, importance, recency, company, status, limbic) of the entities that are ranked against each other (S0-26).

    - `entities`: id, access_count, access_days, degree, and since and standing (`standing`); nulls where nothing was
      read or counted. The largest counts among them are the measure of importance.
    - `company`: (n,) of each of them, how much it was read together with the others.

    Each column is the factor itself, by the usual settings: 1 + 0.5 × importance in [1, 1.69], recency in [0.1, 1],
    1 + 0.01 × company ≥ 1, status in [0.5, 1], 1 where it is unknown; `limbic` is their product. Where nothing was ever
    read and all entities are of one age, all have the same factor, and no order changes.
    """
    hours = (now.timestamp() * 1e6 - _numbers(entities, "since", np.nan)) / _HOUR
    recency = np.maximum(np.exp(-settings.decay_per_hour * np.maximum(hours, 0.0)), settings.temporal_floor)
    told = {
        "importance": 1.0 + settings.importance_weight * _importance(entities, settings),
        "recency": np.where(np.isnan(recency), 1.0, recency),
        "company": 1.0 + settings.company_weight * company,
        "status": _numbers(entities, "standing", 1.0),
    }
    return pl.DataFrame({"id": entities["id"], **told, "limbic": np.prod([*told.values()], axis=0)})


def standing(entities: pl.DataFrame) -> pl.DataFrame:
    """The entities with what does not depend on the question: `since` when they were left alone, and `standing`.

    `since` is microseconds since 1970, `standing` the factor of their status.
    """
    return entities.with_columns(
        since=pl.coalesce("last_access_at", "created_at").dt.epoch("us").cast(pl.Float64),
        standing=pl.col("status").replace_strict(STATUS_FACTORS, default=1.0, return_dtype=pl.Float64),
    )


def _importance(entities: pl.DataFrame, settings: LimbicSettings) -> npt.NDArray[np.float64]:
    """`importance` of these entities among each other, on arrays: a recall has no milliseconds for expressions."""
    access, days = _numbers(entities, "access_count", 0.0), _numbers(entities, "access_days", 1.0)
    most = access.max(initial=0.0)
    if most <= 0.0:
        return np.zeros(len(access))
    most_days = _numbers(entities, "access_days", 0.0).max(initial=0.0)
    by_days = settings.days_weight * np.log1p(days) / np.log1p(most_days) if most_days > 1.0 else 0.0
    degrees = np.clip(_numbers(entities, "degree", 0.0), 0.0, settings.max_degree) / settings.max_degree
    whole: npt.NDArray[np.float64] = (
        np.log1p(access) / np.log1p(most) * (1.0 + settings.degree_weight * degrees) * (1.0 + by_days)
    )
    return whole


def _numbers(entities: pl.DataFrame, name: str, otherwise: float) -> npt.NDArray[np.float64]:
    return entities[name].cast(pl.Float64).fill_null(otherwise).to_numpy()


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

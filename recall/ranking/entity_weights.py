"""Limbic weight: what is read often, lately and together comes first (S0-24 … S0-26).

The original system lowers statements about entities with nothing but metadata; slowwave has no such kind of fact, so
that factor is missing here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.common.settings import LimbicSettings, UseSettings

USUAL = LimbicSettings()
STATUS_FACTORS: Mapping[str, float] = MappingProxyType(
    {"active": 1.0, "paused": 0.85, "completed": 0.7, "archived": 0.5}
)
_HOUR = 3_600_000_000
FACTORS = ("importance", "recency", "company", "status")


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
    factors = {
        "importance": 1.0 + settings.importance_weight * _importance(entities, settings),
        "recency": np.where(np.isnan(recency), 1.0, recency),
        "company": 1.0 + settings.company_weight * company,
        "status": _numbers(entities, "standing", 1.0),
    }
    return pl.DataFrame({"id": entities["id"], **factors, "limbic": np.prod([*factors.values()], axis=0)})


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
    """The factors of facts (id, subject, object): of the end that weighs more, else of the subject.

    A mean would make a fact about what is read every day lose by naming something rare, which says more, not less. A
    fact without a known end has factors of 1.
    """
    known = {row["id"]: row for row in entities.iter_rows(named=True)}
    found = {}
    for fact, *both in ends:
        known_ends = [known[end] for end in both if end in known]
        best = max(known_ends, key=lambda row: row["limbic"], default=None)
        found[fact] = {name: best[name] if best else 1.0 for name in (*FACTORS, "limbic")}
    return found


# Fusion of orders that have no common scale: reciprocal ranks (Cormack, Clarke and Büttcher, SIGIR 2009; S0-26).


RANK_CONSTANT = 60


def fuse_ranks(orders: Sequence[Sequence[str]], k: int = RANK_CONSTANT) -> dict[str, float]:
    """Every id of the orders → Σ 1 / (k + rank) over those that name it, ranks from 1; best first, ties by id.

    An order counts an id once, where it comes first. Scores are ranks, no similarities: nothing may compare them with a
    cosine (T6).
    """
    scores: dict[str, float] = {}
    for order in orders:
        for rank, name in enumerate(dict.fromkeys(order), 1):
            scores[name] = scores.get(name, 0.0) + 1.0 / (k + rank)
    return dict(sorted(scores.items(), key=lambda pair: (-pair[1], pair[0])))


# Which entities a query means, by meaning, words and use together (S0-26).


TEXT_FLOOR, TEXT_SPAN = 0.2, 0.6


def base_scores(cosines: Mapping[str, float], by_words: Sequence[str], k: int = RANK_CONSTANT) -> dict[str, float]:
    """How well each candidate fits by itself, in [0, 1], in the order of their fused ranks.

    `cosines` are the hits by meaning, best first, `by_words` those by words. A hit by meaning has its cosine, at least
    0; one by words alone 0.2 + 0.6 × where its fused rank lies between the worst and the best of all candidates; where
    all are equal, it is the best.
    """
    ranks = fuse_ranks([list(cosines), by_words], k=k)
    low, high = min(ranks.values(), default=0.0), max(ranks.values(), default=0.0)

    def by_text(rank: float) -> float:
        return TEXT_FLOOR + TEXT_SPAN * ((rank - low) / (high - low) if high > low else 1.0)

    return {name: max(cosines[name], 0.0) if name in cosines else by_text(rank) for name, rank in ranks.items()}


def rank_entities(base: Mapping[str, float], factors: pl.DataFrame) -> pl.DataFrame:
    """The factors (`limbic_factors`) with `base` and `score` = base × limbic, sorted by that (T22), ties by id."""
    fits = pl.DataFrame({"id": list(base), "base": list(base.values())}, {"id": pl.String, "base": pl.Float64})
    scored = factors.join(fits, on="id").with_columns(score=pl.col("base") * pl.col("limbic"))
    return scored.sort("score", "id", descending=[True, False])


# Company: which entities reads returned together, as arrays, so that a recall asks about its own in microseconds.


USUAL_COMPANY = UseSettings()
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

    def among(self, places: Places, now: datetime, settings: UseSettings = USUAL_COMPANY) -> Numbers:
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

"""Use: which facts and entities reads returned, and how much that weighs when entities are ranked (S0-23 … S0-26)."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import mul
from types import MappingProxyType
from typing import Any
from uuid import uuid4

import polars as pl

from slowwave.common import frames
from slowwave.common.settings import LimbicSettings
from slowwave.common.text import digest, readable
from slowwave.common.timestamps import in_utc
from slowwave.common.types import Neighbourhood, RecalledFact
from slowwave.lifecycle.usage_scores import entity_usage_of, importance, survivors, temporal
from slowwave.reading.filters.redaction import redact_all
from storage.rows import empty_frame
from storage.store import Store
from storage.warm import Tables

from .loop import rows_where

# Access events: queries, and the facts and entities that reads returned (S0-23, S2-34, S4-01). They are buffered, and
# never why a read fails.


BUFFERED = 500
FACTS, ENTITIES, QUERIES = "retrieval_events", "entity_access_log", "recalled_queries"

log = logging.getLogger("slowwave")


class AccessLog:
    """Collects events and appends them in groups, outside every commit; none where nothing `is_logged` (T27)."""

    def __init__(self, store: Store, *, is_logged: bool = True) -> None:
        self._store, self.is_logged = store, is_logged
        self._rows: dict[str, list[dict[str, Any]]] = {name: [] for name in (FACTS, ENTITIES, QUERIES)}
        self._lock = threading.Lock()  # several threads may read through one memory

    def note(self, query: str, found: Sequence[RecalledFact], k: int, at: datetime) -> None:
        """Events of a recall for `k` facts: per fact with its cosine, not the fused rank (T6), and per entity."""
        self._add(QUERIES, query, at, [{"query": readable(query), "k": k}])
        self._note_facts({fact.id: fact.cosine for fact in found}, query, at)
        ends = dict.fromkeys(end for fact in found for end in (fact.subject_id, fact.object_id) if end)
        self.note_entities(ends, query, at)

    def note_walk(self, walked: Neighbourhood, query: str, at: datetime) -> None:
        """One event per fact that a walk along relations returned, without a cosine (S2-34), and one per entity."""
        self._note_facts(dict.fromkeys(fact.id for fact in walked.facts), query, at)
        self.note_entities([one.id for one in walked.entities], query, at)

    def note_entities(self, ids: Iterable[str], query: str, at: datetime) -> None:
        """One event per entity that a read touched."""
        day = f"{in_utc(at):%Y-%m-%d}"
        self._add(ENTITIES, query, at, [{"entity_id": entity, "day": day} for entity in ids])

    def flush(self) -> None:
        """Write the pending rows."""
        with self._lock:
            pending, self._rows = self._rows, {name: [] for name in self._rows}
        for name, rows in pending.items():
            try:
                self._store.append(name, _events(rows))
            except Exception as error:
                log.warning("%d access events were lost: %s", len(rows), error)

    def _note_facts(self, cosines: Mapping[str, float | None], query: str, at: datetime) -> None:
        facts = enumerate(cosines.items(), 1)
        self._add(FACTS, query, at, [{"fact_id": fact, "cosine": cosine, "rank": n} for n, (fact, cosine) in facts])

    def _add(self, name: str, query: str, at: datetime, rows: Sequence[Mapping[str, Any]]) -> None:
        if not self.is_logged:
            return
        shared = {"query_hash": digest(query), "at": in_utc(at)}
        events = [{"id": uuid4().hex, **row, **shared} for row in rows]
        with self._lock:
            self._rows[name] += events
            is_full = sum(map(len, self._rows.values())) >= BUFFERED
        if is_full:
            self.flush()


def _events(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """The rows as a frame; questions without the secrets in them."""
    frame = pl.DataFrame(rows, infer_schema_length=None)
    return frame.with_columns(redact_all(frame["query"])[0]) if "query" in frame.columns else frame


# Factors of ranking: how often, how lately and with which others entities were read (S0-24 … S0-26). The original
# system lowers statements about entities with nothing but metadata; slowwave has no such kind of fact.


TABLES = ("entities", "entity_usage", "entity_days", "entity_scores", "co_occurrences")
USUAL = LimbicSettings()
STATUS_FACTORS: Mapping[str, float] = MappingProxyType(
    {"active": 1.0, "paused": 0.85, "completed": 0.7, "archived": 0.5}
)
FACTORS = ("importance", "recency", "company", "status")
_ENTITY = ("id", "status", "created_at", "merged_into")
_PAIR = ("a_id", "b_id", "count", "last_at")


@dataclass(frozen=True, slots=True)
class Known:
    """`rows`: id, status, created_at, ENTITY_USAGE and degree; `pairs`: a_id, b_id, count, last_at, each two once."""

    rows: pl.DataFrame
    pairs: pl.DataFrame

    def factors(self, ids: Iterable[str], now: datetime, settings: LimbicSettings = USUAL) -> pl.DataFrame:
        """(id, *FACTORS, limbic) of these entities beside each other, without unknown ones (S0-26).

        By the usual settings: 1 + 0.5 × importance in [1, 1.69], recency in [0.1, 1], 1 + 0.01 × company ≥ 1, status in
        [0.5, 1], 1 where it is unknown; `limbic` is their product.
        """
        wanted = pl.DataFrame({"id": pl.Series(sorted(set(ids)), dtype=pl.String)})
        ranked = self.rows.join(wanted, on="id", how="semi", maintain_order="left")
        reads, days = pl.col("access_count"), pl.col("access_days")
        weight = importance(reads, reads.max(), pl.col("degree"), days, days.max(), settings)
        met = ranked.join(self._company(ranked["id"], now, settings), on="id", how="left", maintain_order="left")
        factors = met.select(
            "id",
            importance=1.0 + settings.importance_weight * weight,
            recency=temporal(pl.coalesce("last_access_at", "created_at"), now, settings),
            company=1.0 + settings.company_weight * pl.col("company").fill_null(0.0),
            status=pl.col("status").replace_strict(STATUS_FACTORS, default=1.0, return_dtype=pl.Float64),
        )
        return factors.with_columns(limbic=reduce(mul, map(pl.col, FACTORS)))

    def _company(self, ids: pl.Series, now: datetime, settings: LimbicSettings) -> pl.DataFrame:
        """(id, company) of those that were read together with others of these: Σ log2(1 + count) × recency (S0-26)."""
        inside = self.pairs.filter(pl.col(end).is_in(ids.implode()) for end in ("a_id", "b_id"))
        share = (pl.col("count") + 1).log(2) * temporal(pl.col("last_at"), now, settings)
        ends = inside.select(share=share, id=pl.concat_list("a_id", "b_id")).explode("id")
        return ends.group_by("id").agg(company=pl.col("share").sum())


async def known_use(tables: Tables) -> Known:
    """The use of all entities, as these tables have it; what was merged into another counts as that one."""
    entities, usage, scores, pairs = await asyncio.gather(
        _whole(tables, "entities", _ENTITY),
        _whole(tables, "entity_usage", tuple(frames.ENTITY_USAGE)),
        _whole(tables, "entity_scores", ("id", "degree")),
        _whole(tables, "co_occurrences", _PAIR),
    )
    merged = dict(entities.select("id", "merged_into").drop_nulls().iter_rows())
    touched = sorted({*merged, *merged.values()}) if len(usage) else []
    days = await tables.fetch("entity_days", "entity_id", touched, ["entity_id", "day"])
    counted = (
        entities.select("id", "status", "created_at")
        .join(entity_usage_of(usage, days, merged), on="id", how="left")
        .join(scores, on="id", how="left")
        .sort("id")
    )
    return Known(counted, merged_pairs(pairs, merged))


def merged_pairs(pairs: pl.DataFrame, merged: Mapping[str, str]) -> pl.DataFrame:
    """Pairs (a_id, b_id, count, last_at), each two once: what rows of merged entities say of two is added up."""
    met = pairs.select(pl.col("a_id", "b_id").replace(survivors(merged)), "count", "last_at")
    ends = met.filter(pl.col("a_id") != pl.col("b_id")).group_by(
        pl.min_horizontal("a_id", "b_id").alias("a_id"), pl.max_horizontal("a_id", "b_id").alias("b_id")
    )
    return ends.agg(pl.col("count").sum(), pl.col("last_at").max())


async def _whole(tables: Tables, name: str, columns: Sequence[str]) -> pl.DataFrame:
    """These columns of a whole table; nothing is read of one that was never written to."""
    if tables.versions[name] <= 1:
        return empty_frame(name, 1).select(columns)
    return await rows_where(tables, name, columns)


def fact_factors(
    ends: Iterable[tuple[str, str | None, str | None]], entities: pl.DataFrame
) -> dict[str, dict[str, float]]:
    """The factors of facts (id, subject, object): of the end that weighs more; 1 without a known end.

    A mean would make a fact about what is read every day lose by naming something rare, which says more, not less.
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

    Scores are ranks, no similarities: nothing may compare them with a cosine (T6).
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

    `cosines` are the hits by meaning, `by_words` those by words, best first. A hit by meaning has its cosine, at least
    0; one by words alone 0.2 + 0.6 × where its fused rank lies between the worst and the best.
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

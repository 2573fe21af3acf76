"""Entities that a query means, those that are read often, lately and together first (S0-26)."""

from __future__ import annotations

import asyncio

import polars as pl

from slowwave.answers import RankedEntity
from slowwave.graph.name_index import NameIndex
from slowwave.graph.seeds import query_words
from slowwave.ranking.entity_ranking import base_scores, rank_entities
from slowwave.ranking.limbic import FACTORS
from slowwave.settings import RecallSettings
from storage.warm import Tables

from .entity_search import SEARCH_TABLES
from .search import Question
from .use import TABLES as USE_TABLES
from .use import Use

TABLES = tuple(dict.fromkeys((*SEARCH_TABLES, *USE_TABLES, "entity_profiles")))
_SHOWN = ("id", "name", "entity_type", "summary", "status")


async def ranked_entities(
    tables: Tables, names: NameIndex, question: Question, settings: RecallSettings, use: Use
) -> tuple[RankedEntity, ...]:
    """At most `k` entities, best first, of three times as many by meaning and by words each; merged ones are not told.

    `tables` holds TABLES. Archived ones are found by meaning, and count half.
    """
    wide = settings.expansion * question.k
    cosines = await _by_meaning(tables, question, wide)
    base = base_scores(cosines, _by_words(names, question.text, wide), settings.rrf_k)
    known = await use.of(tables)
    order = rank_entities(base, known.factors(base, question.moment.now, settings.use)).head(question.k)
    rows = await tables.fetch("entities", "id", order["id"].to_list(), _SHOWN)
    told = {row["id"]: row for row in rows.iter_rows(named=True)}
    return tuple(
        RankedEntity(
            **told[row["id"]], score=round(row["score"], 6), cosine=cosines.get(row["id"]),
            parts={name: row[name] for name in ("base", *FACTORS, "limbic")},
        )
        for row in order.iter_rows(named=True)
    )  # fmt: skip


def _by_words(names: NameIndex, query: str, limit: int) -> list[str]:
    """Entities of whose name every word of the query begins a word, or else some word of it; best first."""
    whole = names.find(query, limit)
    if len(whole.places):
        return names.ids.gather(whole.places).to_list()
    best: dict[str, float] = {}
    for word in query_words(query):
        found = names.find(word, limit)
        for name, score in zip(names.ids.gather(found.places), found.scores.tolist(), strict=True):
            best[name] = max(best.get(name, 0.0), score)
    return sorted(best, key=lambda name: (-best[name], name))[:limit]


async def _by_meaning(tables: Tables, question: Question, limit: int) -> dict[str, float]:
    """Entities by the nearer of what their name and what all that is known of them mean; best first, with cosines."""
    if not question.has_meaning:
        return {}
    parts = await asyncio.gather(
        _nearest(tables, "entities", question, limit), _nearest(tables, "entity_profiles", question, limit)
    )
    nearer = pl.concat(parts).group_by("id").agg(pl.col("cosine").max())
    best = nearer.sort("cosine", "id", descending=[True, False]).head(limit)
    merged = await tables.fetch("entities", "id", best["id"].to_list(), ["id", "merged_into"])
    told = merged.filter(pl.col("merged_into").is_null())
    return dict(best.join(told, on="id", how="semi", maintain_order="left").iter_rows())


async def _nearest(tables: Tables, name: str, question: Question, limit: int) -> pl.DataFrame:
    query = tables[name].query().nearest_to(question.vector).column("vector").distance_type("dot").limit(limit)
    found = pl.from_arrow(await query.select(["id", "_distance"]).to_arrow())
    assert isinstance(found, pl.DataFrame)
    return found.select("id", cosine=(1.0 - pl.col("_distance").cast(pl.Float64)).round(6))

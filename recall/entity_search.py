"""Entities by words: each word of the query begins one of the name or summary; else those near in meaning (S2-26)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.graph.name_index import NameIndex, index_names, query_words
from slowwave.ranking.entity_weights import FACTORS, base_scores, rank_entities
from slowwave.settings import RecallSettings
from slowwave.types import FoundEntity, RankedEntity
from storage.residents import Condition
from storage.search import nearest
from storage.warm import Tables

from .access_events import TABLES as USE_TABLES
from .access_events import Use
from .search import Question

if TYPE_CHECKING:
    from storage.snapshots import Snapshot

SEARCH_TABLES = ("entities", "entity_aliases")
LISTED = "merged_into IS NULL AND (status IS NULL OR status != 'archived')"
WHOLE = f"{LISTED} AND parent_entity_id IS NULL"
_WHOLE = Condition(
    WHOLE,
    lambda: (
        pl.col("merged_into").is_null() & pl.col("parent_entity_id").is_null() & pl.col("status").ne_missing("archived")
    ),
)
_ENTITY, _ALIAS = ("id", "name", "summary", "parent_entity_id"), ("entity_id", "alias_name")

Vector = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class NameIndexes:
    """All entities by name, and `whole` ones: without those that were split from another."""

    every: NameIndex
    whole: NameIndex


class EntitySearch:
    """The index of names, kept as long as no commit changes entities or their other names."""

    def __init__(self) -> None:
        self._index: tuple[tuple[int, ...], NameIndexes] | None = None

    async def at(self, tables: Tables) -> NameIndexes:
        """On the asynchronous road; `tables` holds SEARCH_TABLES."""
        kept = self._kept(tables.versions)
        if kept is None:
            read = asyncio.gather(
                tables["entities"].query().where(LISTED).select(list(_ENTITY)).to_arrow(),
                tables["entity_aliases"].query().select(list(_ALIAS)).to_arrow(),
            )
            entities, aliases = map(pl.DataFrame, map(pl.from_arrow, await read))
            kept = self._keep(tables.versions, await asyncio.to_thread(_indexed, entities, aliases))
        return kept

    def of(self, snapshot: Snapshot) -> NameIndexes:
        """Of a snapshot."""
        kept = self._kept(snapshot.versions)
        if kept is None:
            entities = snapshot.frame("entities", LISTED, _ENTITY)
            kept = self._keep(snapshot.versions, _indexed(entities, snapshot.frame("entity_aliases", columns=_ALIAS)))
        return kept

    def _kept(self, versions: Mapping[str, int]) -> NameIndexes | None:
        index = self._index
        return index[1] if index is not None and index[0] == _key(versions) else None

    def _keep(self, versions: Mapping[str, int], made: NameIndexes) -> NameIndexes:
        self._index = (_key(versions), made)
        return made


def _indexed(entities: pl.DataFrame, aliases: pl.DataFrame) -> NameIndexes:
    every = index_names(entities, aliases)
    whole = entities.filter(pl.col("parent_entity_id").is_null())
    return NameIndexes(every, every if len(whole) == len(entities) else index_names(whole, aliases))


def _key(versions: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(versions.get(name, 1) for name in SEARCH_TABLES)


def find_entities(
    snapshot: Snapshot, names: NameIndex, query: str, vector: Vector, limit: int
) -> tuple[FoundEntity, ...]:
    """At most `limit` entities that the query means, best first: by words, and if there is none by meaning."""
    found = names.find(query, limit)
    if len(found.places):
        return _shown(snapshot, dict(zip(names.ids.gather(found.places), found.scores, strict=True)), "words")
    if not vector.any():
        return ()
    near = nearest(snapshot, "entities", vector[None], limit, LISTED).filter(pl.col("cosine") > 0.0)
    return _shown(snapshot, dict(near.select("id", "cosine").iter_rows()), "meaning")


async def near_entities(tables: Tables, vector: Vector, limit: int) -> dict[str, float]:
    """Entities whose descriptions are near in meaning, with cosines above 0; none that was split from another one."""
    resident = tables.residents.get("entities")
    if resident is not None:
        places, cosines = resident.nearest(vector, limit, _WHOLE)
        named = zip(resident.rows(places, ("id",)), cosines, strict=True)
        return {row["id"]: cosine for row, cosine in named if cosine > 0.0}
    query = tables["entities"].query().nearest_to(vector).column("vector").distance_type("dot")
    found = pl.from_arrow(await query.where(WHOLE).limit(limit).select(["id", "_distance"]).to_arrow())
    assert isinstance(found, pl.DataFrame)
    near = found.select("id", cosine=1.0 - pl.col("_distance").cast(pl.Float64))
    return dict(near.filter(pl.col("cosine") > 0.0).iter_rows())


def _shown(
    snapshot: Snapshot, scores: Mapping[str, float], found_by: Literal["words", "meaning"]
) -> tuple[FoundEntity, ...]:
    rows = snapshot.by_ids("entities", list(scores), ["id", "name", "entity_type", "summary"])
    known = {id_: (id_, name, kind, summary) for id_, name, kind, summary in rows.iter_rows()}
    return tuple(FoundEntity(*known[id_], round(float(score), 6), found_by) for id_, score in scores.items())


# Entities that a query means, those that are read often, lately and together first (S0-26).


TABLES = tuple(dict.fromkeys((*SEARCH_TABLES, *USE_TABLES, "entity_profiles")))
_SHOWN = ("id", "name", "entity_type", "summary", "status")


async def ranked_entities(
    tables: Tables, names: NameIndex, question: Question, settings: RecallSettings, use: Use
) -> tuple[RankedEntity, ...]:
    """At most `k` entities, best first, of three times as many by meaning and by words each; without merged ones.

    `tables` holds TABLES. Archived ones are found by meaning, and count half.
    """
    wide = settings.expansion * question.k
    cosines = await _by_meaning(tables, question, wide)
    base = base_scores(cosines, _by_words(names, question.text, wide), settings.rrf_k)
    known = await use.of(tables)
    order = rank_entities(base, known.factors(base, question.moment.now, settings.use)).head(question.k)
    rows = await tables.fetch("entities", "id", order["id"].to_list(), _SHOWN)
    rows_by_id = {row["id"]: row for row in rows.iter_rows(named=True)}
    return tuple(
        RankedEntity(
            **rows_by_id[row["id"]], score=round(row["score"], 6), cosine=cosines.get(row["id"]),
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
    unmerged = merged.filter(pl.col("merged_into").is_null())
    return dict(best.join(unmerged, on="id", how="semi", maintain_order="left").iter_rows())


async def _nearest(tables: Tables, name: str, question: Question, limit: int) -> pl.DataFrame:
    query = tables[name].query().nearest_to(question.vector).column("vector").distance_type("dot").limit(limit)
    found = pl.from_arrow(await query.select(["id", "_distance"]).to_arrow())
    assert isinstance(found, pl.DataFrame)
    return found.select("id", cosine=(1.0 - pl.col("_distance").cast(pl.Float64)).round(6))

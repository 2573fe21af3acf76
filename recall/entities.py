"""Entities: by name, by meaning, and as those that are read often, lately and together (S2-26, S0-26)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl
from rapidfuzz import fuzz, process

from slowwave.common.errors import UnknownName, UnusableInput
from slowwave.common.lexicon.labels import canonical_type
from slowwave.common.settings import RecallSettings
from slowwave.common.text import normalise_name
from slowwave.common.types import Entity, FoundEntity, RankedEntity
from slowwave.common.validity import MAX_CHAIN, live_sql, of_rows
from slowwave.facts.aspects import NO_KNOWLEDGE
from slowwave.graph.graph import is_filed_elsewhere
from slowwave.graph.name_index import NameIndex, index_names, query_words, with_more
from slowwave.reading.extraction.roster import GENERIC_NAMES, UNNAMED
from storage.changes import FACT_TABLES
from storage.residents import Condition
from storage.row_steps import RowStep
from storage.rows import mentioning, quoted
from storage.search import nearest
from storage.snapshots import Reading, Snapshot
from storage.warm import Tables, with_cosines

from .loop import Kept
from .question import Question
from .use import FACTORS, Known, base_scores, rank_entities
from .use import TABLES as USE_TABLES

_SIDES = ("subject_id", "object_id", "owner_entity_id")
_NEAR = 75  # how much of two names is the same letters where one may be a slip of the other
_TYPED = re.compile(r"(.*\S)\s*\((\w+)\)\s*")


def list_entities(
    snapshot: Snapshot, now: datetime, limit: int, entity_type: str | None, *, everything: bool = False
) -> tuple[int, list[Entity]]:
    """How many there are, and those with the most live facts; with `everything` archived and merged ones too (C8)."""
    where = _is_of(entity_type) if entity_type else None
    stored = snapshot.frame("entities", where)
    if stored.is_empty() and entity_type:
        known = snapshot.frame("entities", columns=["entity_type"])["entity_type"].unique().to_list()
        raise UnknownName("entity type", entity_type, known)
    entities = stored if everything else stored.filter(is_listed())
    counted = _counted(snapshot, entities, _fact_counts(snapshot, now))
    top = counted.sort("facts", "last_seen_at", "name", descending=[True, True, False], nulls_last=True).head(limit)
    return len(entities), _with_aliases(snapshot, top)


def is_listed() -> pl.Expr:
    """Whether an entity is neither archived nor merged into another one."""
    return pl.col("status").fill_null("active") != "archived"


def find_entity(snapshot: Reading, now: datetime, name: str) -> Entity:
    """The entity of that name or alias, exactly or as the only one that begins with it (COMMANDS S2).

    What was merged is its heir. Of several, the one that most is known about; `name (type)` says which.
    """
    ids = _called(snapshot, name)
    wanted = normalise_name(name)
    if not ids and wanted:
        pattern = re.sub(r"([\\%_])", r"\\\1", wanted) + "%"
        ids = _named(snapshot, f"LIKE {quoted(pattern)}")
        if len(ids) > 1:
            named = snapshot.by_ids("entities", ids, ["id", "name"])  # the others only by an alias: "Owen's wife"
            own = named.filter(pl.col("name").str.to_lowercase().str.starts_with(f"{wanted} "))["id"].to_list()
            ids = own if len(own) == 1 else ids
            if len(ids) > 1:
                raise UnknownName("entity (several begin like that)", name, named["name"].to_list())
    if not ids:
        raise _unknown(snapshot, name)
    return _most_known(snapshot, now, ids)


def entity_with_id(reading: Reading, now: datetime, id: str) -> Entity:
    """The entity of that id, or the one that it was merged into."""
    own = reading.by_ids("entities", [id], ["id"])["id"].to_list()
    if not own:
        raise _unknown(reading, id)
    return _most_known(reading, now, _heirs(reading, own))


def exact_row(reading: Reading, text: str) -> dict[str, Any]:
    """The row of the one entity of that whole name or alias, of `name (type)`, or of that id; nothing is guessed.

    Raises `UnknownName`, and `UnusableInput` where several are called so.
    """
    own = reading.by_ids("entities", [text], ["id"])["id"].to_list()
    rows = reading.by_ids("entities", _heirs(reading, own) or _called(reading, text)).sort("name", "id")
    if rows.is_empty():
        raise _unknown(reading, text)
    if len(rows) > 1:
        named = rows.select("name", "entity_type", "id").iter_rows()
        listed = ", ".join(f"'{name} ({kind})' {id_}" for name, kind, id_ in named)
        raise UnusableInput(f"Several entities are called {text!r}: {listed}.", "Say which, with its type or its id.")
    return rows.row(0, named=True)


def _most_known(snapshot: Reading, now: datetime, ids: list[str]) -> Entity:
    rows = _counted(snapshot, snapshot.by_ids("entities", ids), _fact_counts(snapshot, now, ids), ids)
    best = rows.sort("facts", "id", descending=[True, False]).head(1)
    return _with_aliases(snapshot, best)[0]


def names_like(snapshot: Reading, name: str) -> list[str]:
    """At most three names that are written alike, as a whole or in one word, in small letters without accents."""
    names = snapshot.frame("entities", columns=["name", "status"]).filter(is_listed())["name"].drop_nulls().sort()
    *forms, wanted = (
        pl.Series([*names, normalise_name(name)]).str.normalize("NFKD").str.replace_all(r"\p{M}", "").str.to_lowercase()
    )
    called: dict[str, list[str]] = {}
    for one, form in zip(names, forms, strict=True):
        for part in {form, *form.split()}:
            called.setdefault(part, []).append(one)
    close = [part for part, _, _ in process.extract(wanted, [*called], scorer=fuzz.ratio, limit=3, score_cutoff=_NEAR)]
    return [*dict.fromkeys(one for part in close for one in called[part])][:3]


def _unknown(snapshot: Reading, name: str) -> UnknownName:
    near = names_like(snapshot, name)
    remedy = "`slowwave entities` lists the names that are known; `slowwave find WORDS` looks for them by meaning."
    return UnknownName("entity", name, near, f"Did you mean {' or '.join(map(repr, near))}?" if near else remedy)


def _called(snapshot: Reading, name: str) -> list[str]:
    """Ids of the entities of that whole name or alias, or of that name and type."""
    wanted = normalise_name(name)
    if ids := _named(snapshot, f"= {quoted(wanted)}"):
        return ids
    if wanted == normalise_name(UNNAMED):  # shown of the person who has no name yet
        return _named(snapshot, f"= {quoted(GENERIC_NAMES[0])}")
    typed = _TYPED.fullmatch(name)
    if typed is None:
        return []
    ids = _named(snapshot, f"= {quoted(normalise_name(typed[1]))}")
    rows = snapshot.by_ids("entities", ids, ["id"], where=_is_of(typed[2]))
    return sorted(rows["id"])


def _is_of(entity_type: str) -> str:
    return f"entity_type = {quoted(canonical_type(entity_type) or entity_type.strip().lower())}"


def _named(snapshot: Reading, condition: str) -> list[str]:
    aliases = snapshot.frame("entity_aliases", f"alias_name {condition}", ["entity_id"])["entity_id"].to_list()
    own = snapshot.frame("entities", f"canonical_name {condition}", ["id"])["id"].to_list()
    return _heirs(snapshot, [*aliases, *own])


def _heirs(snapshot: Reading, ids: list[str]) -> list[str]:
    """The entities, or those that they were merged into."""
    left, found = {*ids}, set[str]()
    for _ in range(MAX_CHAIN):
        rows = snapshot.by_ids("entities", sorted(left), ["id", "merged_into"])
        found |= {*rows.filter(pl.col("merged_into").is_null())["id"]}
        left = {*rows["merged_into"].drop_nulls()}
        if not left:
            break
    return sorted(found)


def with_last_seen(reading: Reading, entities: pl.DataFrame, ids: Sequence[str] | None = None) -> pl.DataFrame:
    """The rows (id, last_seen_at) of these entities, or all; last seen when last stated of, where that is later.

    A fact that was stated outside any conversation has no episode; no row of the entity is written with it.
    """
    where, read = "episode_id IS NULL", ["owner_entity_id", "created_at"]
    parts = [
        reading.frame(name, where, read) if ids is None else reading.by_ids(name, ids, read, key=read[0], where=where)
        for name in FACT_TABLES
    ]
    stated = pl.concat(parts).group_by(id="owner_entity_id").agg(stated_at=pl.col("created_at").max())
    last = pl.max_horizontal("last_seen_at", "stated_at")
    return entities.join(stated, on="id", how="left", maintain_order="left").with_columns(last_seen_at=last)


def _counted(
    snapshot: Reading, entities: pl.DataFrame, facts: pl.DataFrame, ids: Sequence[str] | None = None
) -> pl.DataFrame:
    seen = with_last_seen(snapshot, entities, ids)
    return seen.join(facts, on="id", how="left").with_columns(pl.col("facts").fill_null(0))


def _fact_counts(snapshot: Reading, now: datetime, ids: Sequence[str] | None = None) -> pl.DataFrame:
    """(id, facts): the facts that are shown with each of these entities, or with all that have some (T33)."""
    live, columns = live_sql(now), ["id", "kind", *_SIDES, "mentions"]
    if ids is None:
        facts = snapshot.frame("facts", live, columns)
    else:
        parts = [snapshot.by_ids("facts", ids, columns, key=end, where=live) for end in _SIDES]
        facts = pl.concat([*parts, snapshot.frame("facts", f"{mentioning(ids)} AND {live}", columns)]).unique("id")
    known = facts.filter(~pl.col("kind").is_in(NO_KNOWLEDGE).fill_null(False))
    sides = [known.filter(~is_filed_elsewhere(pl.col(end))).select(fact="id", id=end) for end in _SIDES]
    sides.append(known.select(fact="id", id="mentions").explode("id"))
    return pl.concat(sides).drop_nulls("id").unique().group_by("id").agg(facts=pl.len())


def _with_aliases(snapshot: Reading, rows: pl.DataFrame) -> list[Entity]:
    aliases = snapshot.by_ids("entity_aliases", rows["id"], ["entity_id", "alias_name"], key="entity_id")
    names = dict(aliases.group_by("entity_id").agg(pl.col("alias_name").unique().sort()).iter_rows())
    return [
        Entity(
            row["id"],
            row["name"],
            row["entity_type"],
            row["summary"],
            tuple(n for n in names.get(row["id"], []) if n not in (row["canonical_name"], normalise_name(row["name"]))),
            row["facts"],
            row["first_seen_at"],
            row["last_seen_at"],
            row["status"] == "archived",
        )
        for row in rows.to_dicts()
    ]


# Entities that a few words mean: by words of their names and descriptions, else by meaning (S2-26).


SEARCH_TABLES = ("entities", "entity_aliases")
LISTED = "merged_into IS NULL AND (status IS NULL OR status != 'archived')"
WHOLE = f"{LISTED} AND parent_entity_id IS NULL"
_WHOLE = Condition(WHOLE)
_ENTITY, _ALIAS = ("id", "name", "canonical_name", "summary", "parent_entity_id"), ("entity_id", "alias_name")
_OF_ENTITY = (*_ENTITY, "merged_into", "status")

Vector = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class NameIndexes:
    """All entities by name, and `whole` ones: without those that were split from another."""

    every: NameIndex
    whole: NameIndex


class EntitySearch:
    """The index of names, kept as long as no commit changes entities or their other names."""

    def __init__(self) -> None:
        self._index: tuple[tuple[int, ...], NameIndexes, Mapping[str, tuple[Any, ...]]] | None = None
        self._making = asyncio.Lock()

    async def at(self, tables: Tables) -> NameIndexes:
        """The index at the versions of these open handles, which have SEARCH_TABLES."""
        async with self._making:
            kept = self._kept(tables.versions) or self._followed(tables)
            if kept is None:
                entities, aliases = await tables.together(
                    tables.columns_of("entities", _OF_ENTITY),
                    tables.columns_of("entity_aliases", _ALIAS),
                )
                entities = entities.filter(of_rows(LISTED)).select(_ENTITY)
                kept = self._keep(tables.versions, await asyncio.to_thread(_indexed, entities, aliases), entities)
        return kept

    async def shares_of_facts(self, tables: Tables, text: str) -> tuple[tuple[str, float], ...]:
        """By word of a text that is of a name: what share of the facts in memory is about those who are called so."""
        facts = tables.residents.get("facts")
        if facts is None or not len(facts):
            return ()
        called = (await self.at(tables)).every.called(text)
        return tuple((word, len(facts.places("subject_id", ids)) / len(facts)) for word, ids in called.items())

    def of(self, snapshot: Snapshot) -> NameIndexes:
        """The index of a snapshot."""
        kept = self._kept(snapshot.versions)
        if kept is None:
            entities = snapshot.frame("entities", LISTED, _ENTITY)
            made = _indexed(entities, snapshot.frame("entity_aliases", columns=_ALIAS))
            kept = self._keep(snapshot.versions, made, entities)
        return kept

    def _kept(self, versions: Mapping[str, int]) -> NameIndexes | None:
        index = self._index
        return index[1] if index is not None and index[0] == _key(versions) else None

    def _followed(self, tables: Tables) -> NameIndexes | None:
        """The index with the entities that are new since it was made; None if anything else of names changed."""
        if self._index is None:
            return None
        before, made, known = self._index
        changed, named = (
            _written(tables.steps(name, version, tables.versions[name]), columns)
            for name, version, columns in zip(SEARCH_TABLES, before, (_OF_ENTITY, _ALIAS), strict=True)
        )
        if changed is None or named is None:
            return None
        if any(row["merged_into"] is not None or row["status"] == "archived" for row in changed):
            return None
        rows = [tuple(row[name] for name in _ENTITY) for row in changed]
        new = {row[0]: row for row in rows if known.get(row[0]) != row}
        if not new.keys().isdisjoint(known) or not new.keys() >= {row["entity_id"] for row in named}:
            return None
        if new:
            aliases = tables.residents.get(SEARCH_TABLES[1])
            if aliases is None:
                return None
            entities = pl.DataFrame([*new.values()], dict.fromkeys(_ENTITY, pl.String), orient="row")
            more = _indexed(entities, aliases.frame(aliases.places("entity_id", new), _ALIAS))
            every = with_more(made.every, more.every)
            made = NameIndexes(every, every if made.whole is made.every and more.whole is more.every
                               else with_more(made.whole, more.whole))  # fmt: skip
        self._index = _key(tables.versions), made, {**known, **new}
        return made

    def _keep(self, versions: Mapping[str, int], made: NameIndexes, entities: pl.DataFrame) -> NameIndexes:
        self._index = (_key(versions), made, {row[0]: row for row in entities.select(_ENTITY).iter_rows()})
        return made


def _written(steps: Sequence[RowStep] | None, columns: Sequence[str]) -> list[dict[str, Any]] | None:
    """These columns of the rows that steps wrote; None where they are not known, or rows went."""
    changes = [change for step in steps or () for change in step.changes]
    if steps is None or any(isinstance(each, frozenset) or not {*columns} <= {*each.column_names} for each in changes):
        return None
    return [row for each in changes if not isinstance(each, frozenset) for row in each.select(columns).to_pylist()]


def _indexed(entities: pl.DataFrame, aliases: pl.DataFrame) -> NameIndexes:
    """The indexes; a canonical name by which an entity is no longer shown is among its other names."""
    former = entities.filter(pl.col("canonical_name") != pl.col("name").str.to_lowercase())
    if len(former):
        aliases = pl.concat([aliases, former.select(entity_id="id", alias_name="canonical_name")])
    every = index_names(entities, aliases)
    if entities["parent_entity_id"].null_count() == len(entities):
        return NameIndexes(every, every)
    return NameIndexes(every, index_names(entities.filter(pl.col("parent_entity_id").is_null()), aliases))


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
    query = (await tables.nearest("entities", vector, limit)).where(WHOLE).select(["id", "_distance"])
    near = with_cosines(await query.to_arrow())
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
    tables: Tables, names: NameIndex, question: Question, settings: RecallSettings, use: Kept[Known]
) -> tuple[RankedEntity, ...]:
    """At most `k` entities, best first, of `expansion` times as many by meaning and by words each (S0-26)."""
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
        *[
            (await tables.nearest(name, question.vector, limit)).select(["id", "_distance"]).to_arrow()
            for name in ("entities", "entity_profiles")
        ]
    )
    nearer = pl.concat(map(with_cosines, parts)).group_by("id").agg(pl.col("cosine").round(6).max())
    best = nearer.sort("cosine", "id", descending=[True, False]).head(limit)
    merged = await tables.fetch("entities", "id", best["id"].to_list(), ["id", "merged_into"])
    unmerged = merged.filter(pl.col("merged_into").is_null())
    return dict(best.join(unmerged, on="id", how="semi", maintain_order="left").iter_rows())

"""Entities by name, with their other names and how much is known of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import polars as pl
from rapidfuzz import fuzz, process

from slowwave.errors import UnknownName, UnusableInput
from slowwave.graph.links import is_filed_elsewhere
from slowwave.lexicon.aspects import NO_KNOWLEDGE
from slowwave.lexicon.labels import canonical_type
from slowwave.text import normalise_name
from slowwave.types import Entity
from slowwave.validity import MAX_CHAIN, live_sql
from storage.rows import quoted
from storage.snapshots import Reading, Snapshot

_SIDES = ("subject_id", "object_id", "owner_entity_id")
_NEAR = 75  # how much of two names is the same letters where one may be a slip of the other
_TYPED = re.compile(r"(.*\S)\s*\((\w+)\)\s*")


def list_entities(
    snapshot: Snapshot, now: datetime, limit: int, entity_type: str | None, *, everything: bool = False
) -> tuple[int, list[Entity]]:
    """How many there are, and those with the most live facts.

    Archived and merged ones are listed only with `everything`. A type may be named in
    either language (C8).
    """
    where = _is_of(entity_type) if entity_type else None
    stored = snapshot.frame("entities", where)
    if stored.is_empty() and entity_type:
        known = snapshot.frame("entities", columns=["entity_type"])["entity_type"].unique().to_list()
        raise UnknownName("entity type", entity_type, known)
    entities = stored if everything else stored.filter(is_listed())
    counted = entities.join(_fact_counts(snapshot, now), on="id", how="left").with_columns(pl.col("facts").fill_null(0))
    top = counted.sort("facts", "last_seen_at", "name", descending=[True, True, False], nulls_last=True).head(limit)
    return len(entities), _with_aliases(snapshot, top)


def is_listed() -> pl.Expr:
    """Whether an entity is neither archived nor merged into another one."""
    return pl.col("status").fill_null("active") != "archived"


def find_entity(snapshot: Reading, now: datetime, name: str) -> Entity:
    """The entity of that name or alias, exactly or as the only one that begins with it (COMMANDS S2).

    What was merged into another entity is that one. Of several, the one that most is known about; `name (type)` says
    which.
    """
    ids = _called(snapshot, name)
    wanted = normalise_name(name)
    if not ids and wanted:
        ids = _named(snapshot, f"LIKE {quoted(_pattern(wanted))}")
        if len(ids) > 1:
            called = snapshot.by_ids("entities", ids, ["id", "name"])  # the others only by an alias: "Owen's wife"
            own = called.filter(pl.col("name").str.to_lowercase().str.starts_with(f"{wanted} "))["id"].to_list()
            ids = own if len(own) == 1 else ids
        if len(ids) > 1:
            raise UnknownName("entity (several begin like that)", name, _names(snapshot, ids))
    if not ids:
        raise _unknown(snapshot, name)
    return _most_known(snapshot, now, ids)


def exact_row(reading: Reading, text: str) -> dict[str, Any]:
    """The row of the one entity of that whole name or alias, of `name (type)`, or of that id.

    For what changes memory: nothing is guessed. Raises `UnknownName`, and `UnusableInput` where several are called so.
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
    rows = snapshot.by_ids("entities", ids).join(_fact_counts(snapshot, now, ids), on="id", how="left")
    best = rows.with_columns(pl.col("facts").fill_null(0)).sort("facts", "id", descending=[True, False]).head(1)
    return _with_aliases(snapshot, best)[0]


def _unknown(snapshot: Reading, name: str) -> UnknownName:
    """With at most three names that are written alike, as a whole or in one word, in small letters without accents."""
    names = snapshot.frame("entities", columns=["name", "status"]).filter(is_listed())["name"].drop_nulls().sort()
    if names.is_empty():
        return UnknownName("entity", name, [])
    *forms, wanted = (
        pl.Series([*names, normalise_name(name)]).str.normalize("NFKD").str.replace_all(r"\p{M}", "").str.to_lowercase()
    )
    called: dict[str, list[str]] = {}
    for one, form in zip(names, forms, strict=True):
        for part in {form, *form.split()}:
            called.setdefault(part, []).append(one)
    close = [part for part, _, _ in process.extract(wanted, [*called], scorer=fuzz.ratio, limit=3, score_cutoff=_NEAR)]
    near = [*dict.fromkeys(one for part in close for one in called[part])][:3]
    remedy = "`slowwave entities` lists the names that are known; `slowwave find WORDS` looks for them by meaning."
    return UnknownName("entity", name, near, f"Did you mean {' or '.join(map(repr, near))}?" if near else remedy)


def _called(snapshot: Reading, name: str) -> list[str]:
    """Ids of the entities of that whole name or alias, or of that name and type."""
    if ids := _named(snapshot, f"= {quoted(normalise_name(name))}"):
        return ids
    typed = _TYPED.fullmatch(name)
    if typed is None:
        return []
    ids = _named(snapshot, f"= {quoted(normalise_name(typed[1]))}")
    rows = snapshot.by_ids("entities", ids, ["id"], where=_is_of(typed[2]))
    return sorted(rows["id"])


def _is_of(entity_type: str) -> str:
    return f"entity_type = {quoted(canonical_type(entity_type) or entity_type.strip().lower())}"


def _pattern(wanted: str) -> str:
    return re.sub(r"([\\%_])", r"\\\1", wanted) + "%"


def _names(snapshot: Reading, ids: list[str]) -> list[str]:
    return snapshot.by_ids("entities", ids, ["name"])["name"].to_list()


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


def _fact_counts(snapshot: Reading, now: datetime, ids: Sequence[str] | None = None) -> pl.DataFrame:
    """(id, facts): the facts that are shown with each of these entities, or with all that have some.

    Those that say how memory is filed are no knowledge, and are not counted (T33).
    """
    live, columns = live_sql(now), ["id", "kind", *_SIDES]
    if ids is None:
        facts = snapshot.frame("facts", live, columns)
    else:
        facts = pl.concat([snapshot.by_ids("facts", ids, columns, key=end, where=live) for end in _SIDES]).unique("id")
    known = facts.filter(~pl.col("kind").is_in(NO_KNOWLEDGE).fill_null(False))
    sides = [known.filter(~is_filed_elsewhere(pl.col(end))).select(fact="id", id=end) for end in _SIDES]
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

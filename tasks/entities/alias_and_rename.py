"""Names of entities: one more, or the one that an entity is shown under; people say so, and undo takes it back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from recall.entities import exact_row
from slowwave import frames
from slowwave.decisions import decision, decision_frame
from slowwave.errors import Refused
from slowwave.lifecycle.entity_merges import alias_rows
from slowwave.lifecycle.run_counts import RunCount
from slowwave.resolution.mentions import embed_texts, name_to_store
from slowwave.text import digest, normalise_name
from slowwave.validity import live_sql
from storage.snapshots import Reading
from storage.transactions import Transaction
from tasks.runtime.runs import Run, embedder_of, existing_store, in_one_commit, store_of, vector_column

from .retirement import renew_profiles

_ALIASES = list(frames.ALIASES)


def names_in_use(reading: Reading, names: Sequence[str]) -> pl.DataFrame:
    """ALIASES of all entities that are called so, their canonical names among them, without an id."""
    aliases = reading.by_ids("entity_aliases", names, _ALIASES, key="alias_name")
    columns = ["id", "canonical_name", "entity_type"]
    canonical = reading.by_ids("entities", names, columns, key="canonical_name", where="merged_into IS NULL")
    as_aliases = canonical.select(
        pl.lit(None, dtype=pl.String).alias("id"), "entity_type", alias_name="canonical_name", entity_id="id"
    )
    return pl.concat([aliases, as_aliases.select(_ALIASES)])


@dataclass(frozen=True, slots=True)
class Called:
    """What an entity is called now: its name and the name that was given; `is_new` is false where nothing changed."""

    entity_id: str
    entity: str
    name: str
    is_new: bool = True


def alias_entity(run: Run, entity: str, alias: str) -> Called:
    """Let an entity be known under one more name, as a run of its own (S2-04); a name that it has changes nothing.

    Raises `Refused` for a name of another entity of its type, and `UnusableInput` for what cannot be a name, before the
    run begins.
    """
    called, _ = _alias(existing_store(run).snapshot(), entity, alias)
    if not called.is_new:
        return called

    def write(tx: Transaction) -> Called:
        called, row = _alias(tx, entity, alias)
        if called.is_new:
            _register(tx, run, row, called.name, "alias", f"A person said that it is also called {called.name!r}.")
        return called

    parameters = {"entity": entity, "alias": alias}
    return in_one_commit(run, "entity.alias", parameters, write, lambda done: {RunCount.NAMES_ADDED: int(done.is_new)})


def _alias(reading: Reading, entity: str, alias: str) -> tuple[Called, dict[str, Any]]:
    """What the entity would be called, and its row."""
    row, shown = exact_row(reading, entity), name_to_store(alias)
    known = names_in_use(reading, [normalise_name(shown)])
    others = known.filter(pl.col("entity_id") != row["id"])
    is_own = bool((known["entity_id"] == row["id"]).any())
    if not is_own:
        _refuse_name(reading, row, shown, others)
    return Called(row["id"], row["name"], normalise_name(shown), not is_own), row


def rename_entity(run: Run, entity: str, name: str) -> Called:
    """Give an entity the name that it is shown under, as a run of its own; mentions change it no more.

    It stays known under its others. Raises `Refused` for a name of another entity, and `UnusableInput` for what cannot
    be a name, before the run begins. The canonical name is what it was; the vector is computed again from the new name.
    """
    called, row = _rename(existing_store(run).snapshot(), entity, name)
    if not called.is_new:
        return called
    text = str(embed_texts(pl.DataFrame([row]))[0])
    vector = new_vector(run, text)

    def write(tx: Transaction) -> Called:
        called, now = _rename(tx, entity, name)
        if called.is_new:
            current = str(embed_texts(pl.DataFrame([now]))[0])
            _write_name(tx, run, now, called, vector if current == text else new_vector(run, current))
        return called

    parameters = {"entity": entity, "name": name}
    called = in_one_commit(
        run, "entity.rename", parameters, write, lambda done: {RunCount.ENTITIES_RENAMED: int(done.is_new)}
    )
    if called.is_new:
        renew_profiles(run, _profiles_naming(store_of(run).snapshot(), run, called.entity_id))
    return called


def _rename(reading: Reading, entity: str, name: str) -> tuple[Called, dict[str, Any]]:
    """What the entity would be called, and its row as it would be."""
    row, shown = exact_row(reading, entity), name_to_store(name)
    known = names_in_use(reading, [normalise_name(shown)])
    if not (known["entity_id"] == row["id"]).any():
        _refuse_name(reading, row, shown, known)
    is_new = not (row["is_renamed"] and row["name"] == shown)
    return Called(row["id"], row["name"], shown, is_new), {**row, "name": shown, "is_renamed": True}


def _write_name(tx: Transaction, run: Run, row: dict[str, Any], called: Called, vector: pl.Series | None) -> None:
    whole = tx.by_ids("entities", [row["id"]], with_vector=True)
    named = whole.with_columns(name=pl.lit(row["name"]), is_renamed=pl.lit(True))
    named = named.with_columns(embed_text_hash=pl.lit(digest(str(embed_texts(named)[0]))))
    tx.upsert("entities", named if vector is None else with_vector(named, row["id"], vector))
    reason = f"A person gave it the name {called.name!r}; it was shown as {called.entity!r}."
    _register(tx, run, row, normalise_name(called.name), "rename", reason)


def _register(tx: Transaction, run: Run, row: dict[str, Any], alias: str, action: str, reason: str) -> None:
    """Store a name of an entity, unless it has it, and the decision."""
    fresh = alias_rows(pl.DataFrame({"alias_name": [alias], "entity_type": [row["entity_type"]]}), row["id"])
    known = tx.by_ids("entity_aliases", [alias], ["alias_name", "entity_type", "entity_id"], key="alias_name")
    own = known.filter(pl.col("entity_type") == row["entity_type"])
    tx.upsert("entity_aliases", fresh.join(own, on="alias_name", how="anti"))
    given = decision(action, row["id"], [row["id"]], [row["id"]], reason, run.now, {"name": alias}, decided_by="person")
    tx.upsert("decisions", decision_frame([given]))


def _refuse_name(reading: Reading, row: Mapping[str, Any], name: str, others: pl.DataFrame) -> None:
    named = reading.by_ids("entities", others.filter(pl.col("entity_id") != row["id"])["entity_id"]).sort("id")
    if len(named):
        other = named.row(0, named=True)
        raise Refused(
            f"{name!r} is what {other['name']!r} ({other['entity_type']}) is called.",
            f"If they are one: slowwave entity merge {row['id']} {other['id']}",
        )


def _profiles_naming(reading: Reading, run: Run, entity: str) -> list[str]:
    """The entity and those whose profile tells of it."""
    live = reading.by_ids("facts", [entity], ["owner_entity_id"], key="object_id", where=live_sql(run.now))
    return [entity, *live["owner_entity_id"].drop_nulls()]


def new_vector(run: Run, text: str | None) -> pl.Series | None:
    """The vector of a text as a column of one row; None for none."""
    return None if text is None else vector_column(embedder_of(run).embed([text]))


def with_vector(entities: pl.DataFrame, entity: str, vector: pl.Series) -> pl.DataFrame:
    """The rows with a new vector for one of them."""
    fresh = pl.DataFrame({"id": [entity], "fresh": vector})
    is_it = pl.col("id") == entity
    both = entities.join(fresh, on="id", how="left", maintain_order="left")
    return both.with_columns(vector=pl.when(is_it).then("fresh").otherwise("vector")).drop("fresh")

"""What people say of an entity: another name, the one that it is shown under, that it is kept; undo takes it back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import polars as pl

from recall.entities import exact_row
from recall.history import fact_named
from slowwave.common import frames
from slowwave.common.decisions import decision, decision_frame, each_decided
from slowwave.common.errors import Refused, UnusableInput
from slowwave.common.run_counts import RunCount
from slowwave.common.text import digest, normalise_name
from slowwave.common.validity import live_sql
from slowwave.entities.mentions import embed_texts, name_to_store
from slowwave.facts.deduplication.observations import LEAST_OF_ID
from slowwave.lifecycle.entity_merges import alias_rows
from slowwave.reading.extraction.roster import is_same_person
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
        snapshot, where = store_of(run).snapshot(), live_sql(run.now)
        live = snapshot.by_ids("facts", [called.entity_id], ["owner_entity_id"], key="object_id", where=where)
        renew_profiles(run, [called.entity_id, *live["owner_entity_id"].drop_nulls()])
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


def new_vector(run: Run, text: str | None) -> pl.Series | None:
    """The vector of a text as a column of one row; None for none."""
    return None if text is None else vector_column(embedder_of(run).embed([text]))


def with_vector(entities: pl.DataFrame, entity: str, vector: pl.Series) -> pl.DataFrame:
    """The rows with a new vector for one of them."""
    fresh = pl.DataFrame({"id": [entity], "fresh": vector})
    is_it = pl.col("id") == entity
    both = entities.join(fresh, on="id", how="left", maintain_order="left")
    return both.with_columns(vector=pl.when(is_it).then("fresh").otherwise("vector")).drop("fresh")


# Pins: entities and facts that people want kept for ever; undo takes a pin back like anything else.


@dataclass(frozen=True, slots=True)
class Pinned:
    """(id, name or statement) of what was pinned or unpinned, and of what was so before."""

    changed: tuple[tuple[str, str], ...]
    unchanged: tuple[tuple[str, str], ...] = ()
    pinned: bool = True


def pin_entity(run: Run, entity: str, pinned: bool = True) -> Pinned:
    """Keep an entity and all that is known of it for ever, or no longer, as a run of its own (S2-52, S4-07).

    It raises before the run begins; where nothing would change there is no run.
    """

    def rows(reading: Reading) -> pl.DataFrame:
        return reading.by_ids("entities", [exact_row(reading, entity)["id"]], with_vector=True)

    return _pin(run, "entities", "entity.pin", {"entity": entity, "pinned": pinned}, rows, pinned)


def pin_facts(run: Run, ids: Sequence[str], pinned: bool = True) -> Pinned:
    """Keep facts for ever, or no longer, as a run of its own: never pruned, merged away or evicted (S4-07, G4).

    `ids` may be beginnings, or the short forms that tables show. All are pinned or none: raises `UnknownName` for an id
    that names no fact, or several, and `UnusableInput` for one that is too short, or a fact that is over. Where nothing
    would change there is no run.
    """
    if not ids:
        raise UnusableInput("There is nothing to pin.", "Name facts by their ids; `slowwave facts NAME` shows them.")
    if short := [id_ for id_ in ids if len(id_) < LEAST_OF_ID]:
        remedy = f"Give at least {LEAST_OF_ID} of its characters; `slowwave entity pin NAME` keeps a whole entity."
        raise UnusableInput(f"{short[0]!r} is too short for an id.", remedy)
    snapshot = existing_store(run).snapshot()
    meant = list(dict.fromkeys(fact_named(snapshot, id_) for id_ in ids))
    rows = partial(_pinnable, ids=meant, pinned=pinned)
    return _pin(run, "facts", "facts.pin", {"ids": list(ids), "pinned": pinned}, rows, pinned)


def _pinnable(reading: Reading, ids: Sequence[str], pinned: bool) -> pl.DataFrame:
    """These facts as whole rows; raises where one is over, or in the archive."""
    rows = reading.by_ids("facts", ids, with_vector=True).sort("id")
    is_over = rows.filter(pl.lit(pinned) & ~pl.col("status").is_in(["active", "candidate"]))
    wrong = [f"{id_} is {status}" for id_, status in is_over.select("id", "status").iter_rows()]
    archived = "is in the archive, where nothing is pruned: `slowwave restore` brings it back"
    wrong += [f"{id_} {archived}" for id_ in sorted({*ids} - {*rows["id"]})]
    if wrong:
        raise UnusableInput(f"Nothing was changed: {'; '.join(wrong)}.", "`slowwave facts NAME` lists what is live.")
    return rows


def _pin(
    run: Run,
    table: str,
    kind: str,
    parameters: Mapping[str, Any],
    rows: Callable[[Reading], pl.DataFrame],
    pinned: bool,
) -> Pinned:
    """Set the mark of those of the rows that do not have it; without a run where all of them have it."""
    title = "name" if table == "entities" else "statement"

    def write(reading: Reading) -> Pinned:
        found = rows(reading)
        is_so = pl.col("pinned").fill_null(False) == pinned
        changed, unchanged = found.filter(~is_so), found.filter(is_so)
        if isinstance(reading, Transaction):
            reading.upsert(table, changed.with_columns(pinned=pl.lit(pinned)))
            reason = f"A person {'wants' if pinned else 'no longer wants'} it kept for ever."
            ids, action = {id_: dict[str, object]() for id_ in changed["id"]}, "pin" if pinned else "unpin"
            reading.upsert("decisions", each_decided(action, ids, reason, run.now, decided_by="person"))
        was, stays = (tuple(part.select("id", title).iter_rows()) for part in (changed, unchanged))
        return Pinned(was, stays, pinned)

    planned = write(existing_store(run).snapshot())
    if not planned.changed:
        return planned
    counted_as = RunCount.PINNED if pinned else RunCount.UNPINNED
    return in_one_commit(run, kind, parameters, write, lambda done: {counted_as: len(done.changed)})


# Other names that somebody gives, while messages are read.


def add_alias(tx: Transaction, entity: str, name: str) -> None:
    """One more name of an entity, unless another entity is called so; a fuller name becomes the one that is shown."""
    alias = normalise_name(name)
    in_use = names_in_use(tx, [alias])
    row = tx.by_ids("entities", [entity], with_vector=True)
    if row.is_empty() or not alias or (in_use["entity_id"] == entity).any():
        return
    if len(in_use):
        reason = f"It was called {name!r}, which is what another entity is called; merge them if they are one."
        _note_decision(tx, "refuse", entity, [entity, *in_use["entity_id"]], reason, name)
        return
    known = row["name"][0]
    is_fuller = "'s " in known or (is_same_person(name, known) and len(name) > len(known))
    if is_fuller and not row["is_renamed"][0]:
        tx.upsert("entities", row.with_columns(name=pl.lit(name)))
    tx.upsert("entity_aliases", alias_rows(row.select(pl.lit(alias).alias("alias_name"), "entity_type"), entity))
    _note_decision(tx, "alias", entity, [entity], f"{known} is also called {name}.", name)


def _note_decision(tx: Transaction, action: str, entity: str, ids: Sequence[str], reason: str, name: str) -> None:
    tx.upsert("decisions", decision_frame([decision(action, entity, ids, [entity], reason, tx.now, {"name": name})]))

"""Entities: people say which are one, what they are called, and what is kept for ever; all of it can be undone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import polars as pl

from recall.entities import exact_entity
from slowwave import frames
from slowwave.entity_merges import (
    Conflict,
    EntityMerge,
    Pair,
    alias_rows,
    decision,
    is_between,
    plan_merge,
    refusal,
)
from slowwave.errors import Refused, UnusableInput
from slowwave.injection import injection_reason
from slowwave.mentions import MIN_NAME_BYTES, embed_texts
from slowwave.observations import LEAST_OF_ID
from slowwave.records import Usage
from slowwave.redaction import has_secret
from slowwave.settings import BeliefSettings
from slowwave.text import MAX_NAME_BYTES, cut_bytes, digest, normalise_name, readable
from slowwave.validity import is_live, live_sql
from storage.rows import quoted
from storage.snapshots import Reading
from storage.store import Store
from storage.transactions import Transaction

from .engine import task
from .entity_holdings import holdings_of, names_in_use
from .retirement import renew_profiles
from .runs import Run, embedder_of, recorded, store_of, vector_column

_STATE = "status IS NULL OR status != 'archived'"
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Merged:
    """What became, or would become, of two entities that are one: `loser` goes, `winner` stays.

    `facts` are about the winner now; `archived` (id, statement) of those among them that said something between the
    two; `names` are new names of the winner. Of two facts in `conflicts` one at a time can hold: both stay, in doubt.
    `is_new` is false where they were merged before, and nothing changed.
    """

    loser: str
    loser_id: str
    winner: str
    winner_id: str
    facts: int = 0
    archived: tuple[tuple[str, str], ...] = ()
    names: tuple[str, ...] = ()
    beliefs: int = 0
    conflicts: tuple[Conflict, ...] = ()
    is_new: bool = True


@dataclass(frozen=True, slots=True)
class Called:
    """What an entity is called now: its name and the name that was given; `is_new` is false where nothing changed."""

    entity_id: str
    entity: str
    name: str
    is_new: bool = True


@dataclass(frozen=True, slots=True)
class Pinned:
    """(id, name or statement) of what was pinned or unpinned, and of what was so before."""

    changed: tuple[tuple[str, str], ...]
    unchanged: tuple[tuple[str, str], ...] = ()
    pinned: bool = True


@dataclass(slots=True)
class _Tally:
    """The counts of a run for its row in `runs`."""

    run: str
    counts: dict[str, int] = field(default_factory=dict)
    state: str = "completed"
    usage: Usage = field(default_factory=Usage)

    def summary(self) -> dict[str, Any]:
        """Everything counted, as plain data."""
        return {"run": self.run, "state": self.state, "counts": {k: n for k, n in self.counts.items() if n}}


def as_run(run: Run, parameters: Mapping[str, Any], work: Callable[[], R], count: Callable[[R], dict[str, int]]) -> R:
    """Do the work as a run of its own, which `slowwave runs` lists and undo takes back."""
    tally = _Tally(run.id)
    with recorded(run, tally, dict(parameters)):
        done = work()
        tally.counts = count(done)
    return done


def _existing(run: Run) -> Store:
    """The namespace, which is not made for a question about it."""
    return Store.open(run.store, run.namespace, retention=run.retention)


# One entity of two


@dataclass(frozen=True, slots=True, eq=False)
class _MergePlan:
    """What was found, and what is to be written; no `rows` where they were merged before."""

    merged: Merged
    rows: EntityMerge | None


@task("merge entities")
def merge_entities(
    run: Run,
    loser: str,
    winner: str,
    *,
    dry_run: bool = False,
    force: bool = False,
    beliefs: BeliefSettings | None = None,
) -> Merged:
    """Make one entity of two: everything of `loser` is the winner's, under all names of both; one commit.

    Each is a whole name or alias, `name (type)`, or an id. Raises `Refused` for an entity and itself, for what was
    split from or is a part of the other, where something between the two is pinned, and for two types unless `force`
    (S2-09, C17). Facts that now say the same are left to the next consolidation. Merged again, nothing changes (T41).
    """
    store = store_of(run)
    snapshot = store.snapshot()
    asked = (loser, winner, force, beliefs)
    plan = _plan_merge(run, snapshot, *asked)
    if dry_run or plan.rows is None:
        return plan.merged
    vector = _vector(run, plan.rows.to_embed)
    with store.commit(run.id, "entity.merge", run.now) as tx:
        if tx.sequence != snapshot.sequence + 1:  # another run has changed something meanwhile
            text = plan.rows.to_embed
            plan = _plan_merge(run, tx, *asked)
            if plan.rows is not None and plan.rows.to_embed != text:
                vector = _vector(run, plan.rows.to_embed)
        if plan.rows is not None:
            _write_merge(tx, plan.rows, plan.merged, vector)
    if plan.rows is not None:
        renew_profiles(run, [plan.merged.winner_id, *plan.rows.facts["owner_entity_id"].drop_nulls()])
    return plan.merged


def merge(
    run: Run,
    loser: str,
    winner: str,
    *,
    dry_run: bool = False,
    force: bool = False,
    beliefs: BeliefSettings | None = None,
) -> Merged:
    """`merge_entities` as a run of its own; raises before it begins where it may not."""
    planned = _plan_merge(run, _existing(run).snapshot(), loser, winner, force, beliefs).merged
    if dry_run or not planned.is_new:
        return planned
    return as_run(
        run,
        {"loser": loser, "winner": winner, "force": force},
        lambda: merge_entities(run, loser, winner, force=force, beliefs=beliefs),
        lambda done: {
            "entities merged": int(done.is_new),
            "facts moved": done.facts,
            "facts archived": len(done.archived),
            "conflicts found": len(done.conflicts),
        },
    )


def _plan_merge(
    run: Run, reading: Reading, loser: str, winner: str, force: bool, beliefs: BeliefSettings | None
) -> _MergePlan:
    gone, left = (exact_entity(reading, run.now, asked) for asked in (loser, winner))
    if gone.id == left.id and (before := _merged_before(reading, loser, left.id)):
        return _MergePlan(Merged(before[1], before[0], left.name, left.id, is_new=False), None)
    pair = (gone.id, left.id)
    _refuse(reading, run, pair, force)
    rows = plan_merge(holdings_of(reading, pair, run.now), pair, run.now, beliefs)
    return _MergePlan(
        Merged(
            gone.name, gone.id, left.name, left.id, len(rows.moved), rows.archived, rows.names, rows.beliefs,
            rows.conflicts,
        ),
        rows,
    )  # fmt: skip


def _merged_before(reading: Reading, asked: str, winner: str) -> tuple[str, str] | None:
    """Id and name of the entity that was asked for and is the winner since a merge."""
    gone = reading.by_ids("entities", [winner], ["id", "name", "canonical_name"], key="merged_into")
    same = gone.filter((pl.col("id") == asked) | (pl.col("canonical_name") == normalise_name(asked))).sort("id")
    return None if same.is_empty() else (same["id"][0], same["name"][0])


def _refuse(reading: Reading, run: Run, pair: Pair, force: bool) -> None:
    rows = {row["id"]: row for row in reading.by_ids("entities", pair).iter_rows(named=True)}
    split = reading.frame("entities", "parent_entity_id IS NOT NULL", ["id", "parent_entity_id"])
    live = [reading.by_ids("facts", pair, key=end, where=live_sql(run.now)) for end in ("subject_id", "object_id")]
    between = pl.concat(live).filter(is_between(pair)).unique("id").sort("id")
    reason = refusal(rows[pair[0]], rows[pair[1]], dict(split.iter_rows()), between, force=force)
    if reason:
        types = rows[pair[0]]["entity_type"] != rows[pair[1]]["entity_type"]
        way_out = "Use --force if they are one all the same." if types and not force else _WAY_OUT
        raise Refused(f"Nothing was merged. {reason}", way_out)


_WAY_OUT = "`slowwave facts NAME` shows what is known of each; unpin or retire what stands in the way."


def _vector(run: Run, text: str | None) -> pl.Series | None:
    return None if text is None else vector_column(embedder_of(run).embed([text]))


def _write_merge(tx: Transaction, plan: EntityMerge, merged: Merged, vector: pl.Series | None) -> None:
    archived = [id_ for id_, _ in plan.archived]
    entities = plan.rows["entities"]
    if vector is not None:
        entities = _with_vector(entities, merged.winner_id, vector)
    for name, ids in plan.gone.items():
        tx.delete(name, ids)
    tx.delete("entity_profiles", tx.by_ids("entity_profiles", [merged.loser_id], ["id"])["id"])
    tx.delete("fact_aspects", tx.by_ids("fact_aspects", archived, ["id"], key="fact_id")["id"])
    tx.delete("fact_scores", tx.by_ids("fact_scores", archived, ["id"])["id"])
    scores = tx.by_ids("fact_scores", plan.facts.filter(is_live(tx.now))["id"], where="compared_at IS NOT NULL")
    tx.upsert("fact_scores", scores.with_columns(compared_at=pl.lit(None, dtype=frames.TIME)))
    tx.upsert("facts", plan.facts)
    tx.upsert("facts_archive", plan.archive)
    for name, rows in {**plan.rows, "entities": entities}.items():
        tx.upsert(name, rows)


def _with_vector(entities: pl.DataFrame, entity: str, vector: pl.Series) -> pl.DataFrame:
    """The rows with a new vector for one of them."""
    fresh = pl.DataFrame({"id": [entity], "fresh": vector})
    is_it = pl.col("id") == entity
    both = entities.join(fresh, on="id", how="left", maintain_order="left")
    return both.with_columns(vector=pl.when(is_it).then("fresh").otherwise("vector")).drop("fresh")


# What an entity is called


@task("alias entity")
def alias_entity(run: Run, entity: str, alias: str) -> Called:
    """Let an entity be known under one more name (S2-04); a name that it has already changes nothing.

    Raises `Refused` for a name of another entity of its type, and `UnusableInput` for what cannot be a name.
    """
    store = store_of(run)
    with store.commit(run.id, "entity.alias", run.now) as tx:
        called, row = _alias(tx, run, entity, alias)
        if called.is_new:
            _register(tx, run, row, called.name, "alias", f"A person said that it is also called {called.name!r}.")
    return called


def name_also(run: Run, entity: str, alias: str) -> Called:
    """`alias_entity` as a run of its own; raises before it begins where it may not."""
    called, _ = _alias(_existing(run).snapshot(), run, entity, alias)
    if not called.is_new:
        return called
    return as_run(
        run, {"entity": entity, "alias": alias}, lambda: alias_entity(run, entity, alias),
        lambda done: {"names added": int(done.is_new)},
    )  # fmt: skip


def _alias(reading: Reading, run: Run, entity: str, alias: str) -> tuple[Called, dict[str, Any]]:
    """What the entity would be called, and its row."""
    row, shown = _row(reading, run, entity), _clean(alias)
    known = names_in_use(reading, [normalise_name(shown)])
    others = known.filter(pl.col("entity_id") != row["id"], pl.col("entity_type") == row["entity_type"])
    is_own = bool((known["entity_id"] == row["id"]).any())
    if not is_own:
        _refuse_name(reading, row, shown, others)
    return Called(row["id"], row["name"], normalise_name(shown), not is_own), row


@task("rename entity")
def rename_entity(run: Run, entity: str, name: str) -> Called:
    """Give an entity the name that it is shown under; it stays known under its others, and mentions change it no more.

    Raises `Refused` for a name of another entity, and `UnusableInput` for what cannot be a name. The canonical name is
    what it was; the vector is made anew of the name that was given.
    """
    store = store_of(run)
    called, row = _rename(store.snapshot(), run, entity, name)
    if not called.is_new:
        return called
    vector = _vector(run, str(embed_texts(pl.DataFrame([row]))[0]))
    with store.commit(run.id, "entity.rename", run.now) as tx:
        called, now = _rename(tx, run, entity, name)
        if called.is_new:
            if embed_texts(pl.DataFrame([now]))[0] != embed_texts(pl.DataFrame([row]))[0]:
                vector = _vector(run, str(embed_texts(pl.DataFrame([now]))[0]))
            _write_name(tx, run, now, called, vector)
    if called.is_new:
        renew_profiles(run, _profiles_naming(store.snapshot(), run, called.entity_id))
    return called


def rename(run: Run, entity: str, name: str) -> Called:
    """`rename_entity` as a run of its own; raises before it begins where it may not."""
    called, _ = _rename(_existing(run).snapshot(), run, entity, name)
    if not called.is_new:
        return called
    return as_run(
        run, {"entity": entity, "name": name}, lambda: rename_entity(run, entity, name),
        lambda done: {"entities renamed": int(done.is_new)},
    )  # fmt: skip


def _rename(reading: Reading, run: Run, entity: str, name: str) -> tuple[Called, dict[str, Any]]:
    """What the entity would be called, and its row as it would be."""
    row, shown = _row(reading, run, entity), _clean(name)
    known = names_in_use(reading, [normalise_name(shown)])
    if not (known["entity_id"] == row["id"]).any():
        _refuse_name(reading, row, shown, known)
    is_new = not (row["is_renamed"] and row["name"] == shown)
    return Called(row["id"], row["name"], shown, is_new), {**row, "name": shown, "is_renamed": True}


def _write_name(tx: Transaction, run: Run, row: dict[str, Any], called: Called, vector: pl.Series | None) -> None:
    whole = tx.by_ids("entities", [row["id"]], with_vector=True)
    named = whole.with_columns(name=pl.lit(row["name"]), is_renamed=pl.lit(True))
    named = named.with_columns(embed_text_hash=pl.lit(digest(str(embed_texts(named)[0]))))
    tx.upsert("entities", named if vector is None else _with_vector(named, row["id"], vector))
    reason = f"A person gave it the name {called.name!r}; it was shown as {called.entity!r}."
    _register(tx, run, row, normalise_name(called.name), "rename", reason)


def _register(tx: Transaction, run: Run, row: dict[str, Any], alias: str, action: str, reason: str) -> None:
    """Store a name of an entity, unless it has it, and the decision."""
    fresh = alias_rows(pl.DataFrame({"alias_name": [alias], "entity_type": [row["entity_type"]]}), row["id"])
    known = tx.by_ids("entity_aliases", [alias], ["alias_name", "entity_type", "entity_id"], key="alias_name")
    own = known.filter(pl.col("entity_type") == row["entity_type"])
    tx.upsert("entity_aliases", fresh.join(own, on="alias_name", how="anti"))
    told = decision(action, row["id"], [row["id"]], [row["id"]], reason, run.now, {"name": alias})
    tx.upsert("decisions", pl.DataFrame([told], schema=dict(frames.DECISIONS)))


def _row(reading: Reading, run: Run, entity: str) -> dict[str, Any]:
    found = exact_entity(reading, run.now, entity)
    return reading.by_ids("entities", [found.id]).row(0, named=True)


def _clean(name: str) -> str:
    """The name as it is shown; raises for what cannot be one (S2-03)."""
    if reason := injection_reason(name):
        raise UnusableInput(f"{name!r} cannot be a name. {reason}", "Say what the entity is called.")
    if has_secret(name):
        raise UnusableInput("The name holds what looks like a secret.", "Say what the entity is called.")
    if len(normalise_name(name).encode()) < MIN_NAME_BYTES:
        raise UnusableInput(f"{name!r} is too short for a name.", "A name has three characters or more.")
    return cut_bytes(" ".join(readable(name).split()), MAX_NAME_BYTES)


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


# What is kept for ever


@task("pin entity")
def pin_entity(run: Run, entity: str, pinned: bool = True) -> Pinned:
    """Keep an entity and all that is known of it for ever, or no longer (S2-52, S4-07)."""
    store = store_of(run)
    with store.commit(run.id, "entity.pin", run.now) as tx:
        found = exact_entity(tx, run.now, entity)
        row = tx.by_ids("entities", [found.id], with_vector=True)
        return _pin(tx, run, "entities", row, "name", pinned)


@task("pin facts")
def pin_facts(run: Run, ids: Sequence[str], pinned: bool = True) -> Pinned:
    """Keep facts for ever, or no longer: they are never pruned, merged away or evicted (S4-07, G4).

    `ids` may be beginnings, or the short forms that tables show. All are pinned or none: raises `UnusableInput` for an
    id that names no fact, or several, and for a fact that is over.
    """
    store = store_of(run)
    with store.commit(run.id, "facts.pin", run.now) as tx:
        rows = tx.by_ids("facts", _facts_named(tx, ids, pinned), with_vector=True).sort("id")
        return _pin(tx, run, "facts", rows, "statement", pinned)


def keep_entity(run: Run, entity: str, pinned: bool = True) -> Pinned:
    """`pin_entity` as a run of its own; raises before it begins where it may not."""
    exact_entity(_existing(run).snapshot(), run.now, entity)
    parameters = {"entity": entity, "pinned": pinned}
    return as_run(run, parameters, lambda: pin_entity(run, entity, pinned), _count_pins)


def keep_facts(run: Run, ids: Sequence[str], pinned: bool = True) -> Pinned:
    """`pin_facts` as a run of its own; raises before it begins where it may not."""
    _facts_named(_existing(run).snapshot(), ids, pinned)
    parameters = {"ids": list(ids), "pinned": pinned}
    return as_run(run, parameters, lambda: pin_facts(run, ids, pinned), _count_pins)


def _count_pins(done: Pinned) -> dict[str, int]:
    return {"pinned" if done.pinned else "unpinned": len(done.changed)}


def _pin(tx: Transaction, run: Run, table: str, rows: pl.DataFrame, title: str, pinned: bool) -> Pinned:
    was = pl.col("pinned").fill_null(False)
    fresh = rows.filter(was != pinned)
    action, reason = (
        ("pin", "A person wants it kept for ever.")
        if pinned
        else ("unpin", "A person no longer wants it kept for ever.")
    )
    told = [decision(action, id_, [id_], [id_], reason, run.now) for id_ in fresh["id"]]
    changed = fresh.with_columns(pinned=pl.lit(pinned))
    if table == "facts":
        tx.upsert("facts", changed)
    else:
        tx.upsert("entities", changed)
    tx.upsert("decisions", pl.DataFrame(told, schema=dict(frames.DECISIONS)))
    same = rows.filter(was == pinned).select("id", title)
    return Pinned(tuple(fresh.select("id", title).iter_rows()), tuple(same.iter_rows()), pinned)


def _facts_named(reading: Reading, ids: Sequence[str], pinned: bool) -> list[str]:
    """The ids of the facts that are meant."""
    if not ids:
        raise UnusableInput("There is nothing to pin.", "Name facts by their ids; `slowwave facts NAME` shows them.")
    found = {asked: _rows_named(reading, "facts", asked) for asked in dict.fromkeys(ids)}
    if wrong := [told for asked, rows in found.items() if (told := _wrong(reading, asked, rows, pinned))]:
        raise UnusableInput(f"Nothing was changed: {'; '.join(wrong)}.", "`slowwave facts NAME` lists what is live.")
    return [rows["id"][0] for rows in found.values()]


def _wrong(reading: Reading, asked: str, rows: pl.DataFrame, pinned: bool) -> str:
    """Why an id does not name one fact that can be pinned; empty if it does."""
    if len(rows) > 1:
        return f"{asked} may be {' or '.join(rows['id'][:5])}"
    if len(rows):
        status = rows["status"][0]
        return f"{asked} is {status}" if pinned and status not in ("active", "candidate") else ""
    if len(_rows_named(reading, "facts_archive", asked)):
        return f"{asked} is in the archive, where nothing is pruned: `slowwave restore` brings it back"
    return f"{asked!r} is not the id of any fact"


def _rows_named(reading: Reading, table: str, asked: str) -> pl.DataFrame:
    """The facts with that id, or with ids that begin so, in whole or behind their last `_`."""
    names = [f"id = {quoted(asked)}"]
    if len(asked) >= LEAST_OF_ID and asked.isascii() and asked.replace("_", "").isalnum():
        names += [f"starts_with(id, {quoted(asked)})", f"id LIKE '%\\_{asked}%'"]
    rows = reading.frame(table, " OR ".join(names), ["id", "status"], limit=6, order=["id"])
    exact = rows.filter(pl.col("id") == asked)
    return exact if len(exact) else rows

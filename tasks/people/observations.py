"""Observations: what a person or an agent says of an entity is added, and what they no longer want is retired."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from recall.proposals import Proposal
from slowwave.deduplication.observations import KINDS, LEAST_OF_ID, MARKS, named_by, plan_flags, screen
from slowwave.errors import Refused, UnusableInput
from slowwave.graph.links import KIND as STRUCTURAL
from slowwave.lifecycle.pruning_and_eviction import BY_A_PERSON, Retirement
from slowwave.lifecycle.run_counts import RunCount
from slowwave.review.proposals import Proposing
from slowwave.settings import IngestSettings
from slowwave.text import as_json
from slowwave.types import Added, Outcome
from slowwave.validity import live_sql
from storage.changes import FACT_TABLES
from storage.connection import has_namespace
from storage.rows import quoted
from storage.search import unit_matrix
from storage.snapshots import Reading, Snapshot
from tasks.entities.retirement import renew_profiles, retirement_of, write_retirement
from tasks.ingest.application import apply_patches
from tasks.ingest.statements import SCOPE, Statements, Target, find_target, new_target, state, write_statements
from tasks.runtime.engine import task
from tasks.runtime.runs import Run, as_run, existing_store, store_of
from tasks.runtime.writing import proposal_of

_KINDS = f"kind IN ({', '.join(map(quoted, KINDS))})"
_OUTCOMES = {
    "added": RunCount.FACTS_LEARNED,
    "confirmed": RunCount.FACTS_CONFIRMED,
    "known": RunCount.OBSERVATIONS_KNOWN,
    "refused": RunCount.OBSERVATIONS_REFUSED,
    "waiting": RunCount.PATCHES_WAITING,
}
_RETIRABLE = f"kind IN ({', '.join(map(quoted, (*KINDS, STRUCTURAL)))})"


@dataclass(frozen=True, slots=True)
class Retired:
    """What was, or would be, retired: (id, statement) of each, and the facts that lost their flag with them."""

    entity_id: str
    facts: tuple[tuple[str, str], ...]
    flags_cleared: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _ObservationPlan:
    """The rows of a call, for one state of the store: new texts, and all screened texts."""

    target: Target
    screened: pl.DataFrame
    known_ids: Mapping[str, str]
    stated: Statements | None
    is_waiting: bool


def observe(
    run: Run,
    name: str,
    texts: Sequence[str],
    settings: IngestSettings,
    *,
    entity_type: str | None = None,
    create: bool = False,
) -> Added:
    """`add_observations` as a run of its own, which can be undone; raises for an unknown entity before it begins."""
    _check(run, name, texts, settings, entity_type, create)
    added = as_run(
        run,
        {"entity": name, "texts": len(texts), "type": entity_type, "create": create},
        lambda: add_observations(run, name, texts, settings, entity_type=entity_type, create=create),
        lambda added: {count: added.counts.get(outcome, 0) for outcome, count in _OUTCOMES.items()},
    )
    return replace(added, run=run.id)


def retire(
    run: Run, entity_id: str, ids: Sequence[str], *, replaced_by: str | None = None, dry_run: bool = False
) -> Retired:
    """`delete_observations` as a run of its own, which can be undone; raises before it begins where it may not."""
    planned = plan_to_retire(existing_store(run).snapshot(), run, entity_id, ids)
    if dry_run:
        return _retired(entity_id, planned)
    return as_run(
        run,
        {"entity": entity_id, "ids": list(ids)},
        lambda: delete_observations(run, entity_id, ids, replaced_by),
        lambda done: {RunCount.FACTS_RETIRED: len(done.facts), RunCount.FLAGS_CLEARED: len(done.flags_cleared)},
    )


def _check(
    run: Run, name: str, texts: Sequence[str], settings: IngestSettings, entity_type: str | None, create: bool
) -> None:
    """Raise for what cannot be observed before a store is made or a run recorded, be it only by its parameters."""
    if not texts:
        raise UnusableInput("There is nothing to observe.", "Say one text or more.")
    if create and not has_namespace(run.store, run.namespace):
        new_target(name, entity_type, run.now)
    else:
        find_target(existing_store(run).snapshot(), name, entity_type, run.now, settings.resolve, create=create)


@task("add observations")
def add_observations(
    run: Run,
    name: str,
    texts: Sequence[str],
    settings: IngestSettings,
    *,
    entity_type: str | None = None,
    create: bool = False,
) -> Added:
    """State something about an entity: each new text becomes a fact in the usual way, flagged where it looks alike.

    What the entity is held to be word for word is passed over; what says the same in other words confirms it (§6.2).
    Raises `UnusableInput` for an unknown entity unless `create`, which makes one of `entity_type` (S0-02).
    """
    store = store_of(run)
    snapshot = store.snapshot()
    entity = (name, entity_type, create)
    decided = _decide(run, snapshot, entity, texts, settings)
    if decided.stated is not None:
        with store.commit(run.id, "observations.candidates", run.now) as tx:
            if tx.is_overtaken(snapshot):
                decided = _decide(run, tx, entity, texts, settings)
            if decided.stated is not None:
                write_statements(tx, decided.stated)
    if decided.stated is not None or decided.is_waiting:
        apply_patches(run, settings, look_back=False)
    if decided.stated is not None:
        _flag(run, decided.target.id, decided.stated.facts["id"], settings)
    return _added(store.snapshot(), decided)


def _decide(
    run: Run, reading: Reading, entity: tuple[str, str | None, bool], texts: Sequence[str], settings: IngestSettings
) -> _ObservationPlan:
    name, entity_type, create = entity
    target = find_target(reading, name, entity_type, run.now, settings.resolve, create=create)
    stored = reading.by_ids(
        "facts", [target.id], ["id", "status", "statement"], key="owner_entity_id", where=_comparable(run)
    )
    by_text = dict(stored.sort(pl.col("status") == "active", "id").select("statement", "id").iter_rows())
    screened = screen(texts, by_text)
    fresh = screened.filter(pl.col("outcome") == "new")["content"]
    stated = None if fresh.is_empty() else state(run, reading, target, fresh)
    waiting = stored.filter(pl.col("status") == "candidate")["statement"]
    return _ObservationPlan(target, screened, by_text, stated, bool(waiting.is_in(screened["content"].implode()).any()))


def _comparable(run: Run) -> str:
    """Live, or a candidate of a run that was killed or that waits for review; only of the scope that is compared."""
    return f"({live_sql(run.now)} OR status = 'candidate') AND {_KINDS} AND scope = {quoted(SCOPE)}"


def _flag(run: Run, entity_id: str, ids: pl.Series, settings: IngestSettings) -> None:
    """Flag what has become live against every live observation of the entity and earlier ones of the call (S0-02)."""
    with store_of(run).commit(run.id, "observations.flags", run.now) as tx:
        where = f"{live_sql(run.now)} AND {_KINDS} AND scope = {quoted(SCOPE)}"
        live = tx.by_ids("facts", [entity_id], key="owner_entity_id", where=where, with_vector=True)
        is_mine = pl.col("id").is_in(ids.implode())
        order = pl.DataFrame({"id": ids}).with_row_index("place")
        mine = live.join(order, on="id").sort("place").drop("place")
        others = live.filter(~is_mine)
        texts = [part.select("id", owner="owner_entity_id", text="statement") for part in (mine, others)]
        vectors = [unit_matrix(part["vector"], tx.dims) for part in (mine, others)]
        planned = plan_flags(texts[0], vectors[0], texts[1], vectors[1], settings.evaluate)
        flagged = mine.drop(MARKS).join(planned.select("id", *MARKS), on="id", maintain_order="left")
        changed = flagged.join(mine.select("id", *MARKS), on=["id", *MARKS], how="anti", nulls_equal=True)
        tx.upsert("facts", changed)


def _added(snapshot: Snapshot, decided: _ObservationPlan) -> Added:
    facts = decided.stated.facts["id"] if decided.stated is not None else pl.Series([], dtype=pl.String)
    stored = snapshot.by_ids("facts", facts, ["id", "statement", "status", "status_reason", *MARKS])
    by_text = {row["statement"]: row for row in stored.iter_rows(named=True)}
    outcomes = [
        _outcome(content, by_text[content])
        if outcome == "new"
        else Outcome(content, outcome, decided.known_ids.get(content) if outcome == "known" else None, reason)
        for content, outcome, reason in decided.screened.select("content", "outcome", "reason").iter_rows()
    ]
    target, redacted = decided.target, int(decided.screened["has_secret"].sum())
    return Added(target.name, target.id, target.is_new, tuple(outcomes), redacted)


def _outcome(content: str, fact: Mapping[str, Any]) -> Outcome:
    repeated = (fact["status_reason"] or "").removeprefix("repeats ")
    if fact["status"] == "rejected" and repeated == fact["similar_to_id"]:
        return Outcome(content, "confirmed", repeated)
    if fact["status"] == "rejected":
        return Outcome(content, "refused", reason=fact["status_reason"])
    if fact["status"] == "candidate":
        return Outcome(content, "waiting", fact["id"])
    return Outcome(content, "added", fact["id"], None, *(fact[mark] for mark in MARKS))


@task("retire observations")
def delete_observations(run: Run, entity_id: str, ids: Sequence[str], replaced_by: str | None = None) -> Retired:
    """Retire observations of an entity: archived, out of recall, and back with undo (S0-05).

    They point at the fact that they are `replaced_by`, so that their chain leads there. `ids` may be beginnings, or the
    short forms that tables show. All are retired or none: `UnusableInput` names those that are not live observations of
    the entity, `Refused` those that are pinned.
    """
    with store_of(run).commit(run.id, "observations.retire", run.now) as tx:
        plan = plan_to_retire(tx, run, entity_id, ids)
        if replaced_by is not None:
            is_gone = pl.col("id").is_in(plan.retired)
            winner = pl.when(is_gone).then(pl.lit(replaced_by)).otherwise("replaced_by")
            plan = replace(plan, facts=plan.facts.with_columns(replaced_by=winner))
        write_retirement(tx, plan)
    renew_profiles(run, [entity_id])
    return _retired(entity_id, plan)


def propose_deletion(
    run: Run, entity_id: str, ids: Sequence[str], proposed_by: str = "agent", reason: str = ""
) -> Proposal:
    """Leave a proposal to retire these observations, or find the one that waits for the same already.

    Raises as `delete_observations`, and `Refused` where a person said no to the very same.
    """
    snapshot = store_of(run).snapshot()
    chosen = plan_to_retire(snapshot, run, entity_id, ids).retired
    name = snapshot.by_ids("entities", [entity_id], ["name"])["name"].to_list()
    what = Proposing(
        "delete",
        together=True,
        reason=reason or "These observations are no longer wanted.",
        ask=as_json({"observations": sorted(chosen)}),
        subject_id=entity_id,
        subject=name[0] if name else "",
        proposed_by=proposed_by,
    )
    delete_observations(replace(run, proposes=what), entity_id, list(chosen))
    return proposal_of(run, "delete", entity_id, what.ask)


def plan_to_retire(reading: Reading, run: Run, entity_id: str, ids: Sequence[str]) -> Retirement:
    """What retiring these would change; raises where one of them may not be retired."""
    if not ids:
        raise UnusableInput("There is nothing to retire.", "Name observations by their ids; `slowwave duplicates`.")
    live = reading.by_ids(
        "facts", [entity_id], key="owner_entity_id", where=f"{live_sql(run.now)} AND {_RETIRABLE}", with_vector=True
    )
    found = {id_: named_by(id_, set(live["id"])) for id_ in ids}
    if wrong := [_wrong(reading, entity_id, id_, named) for id_, named in found.items() if len(named) != 1]:
        raise UnusableInput(f"Nothing was retired: {'; '.join(wrong)}.", "`slowwave facts NAME` lists what is live.")
    chosen = live.filter(pl.col("id").is_in([named[0] for named in found.values()])).sort("id")
    if pinned := chosen.filter(pl.col("pinned").fill_null(False))["id"].to_list():
        raise Refused(f"Nothing was retired: {', '.join(pinned)} is pinned.", "Unpin it first.")
    return retirement_of(reading, chosen, BY_A_PERSON, run.now)


def _wrong(reading: Reading, entity_id: str, id_: str, named: Sequence[str]) -> str:
    """Why an id does not name one live observation of the entity."""
    if named:
        return f"{id_} may be {' or '.join(named[:5])}"
    names = [f"id = {quoted(id_)}"]
    if len(id_) >= LEAST_OF_ID and id_.isascii() and id_.replace("_", "").isalnum():
        names += [f"starts_with(id, {quoted(id_)})", f"id LIKE '%\\_{id_}%'"]
    where = " OR ".join(names)
    columns = ["id", "status", "owner_entity_id"]
    rows = pl.concat([reading.frame(name, where, columns, limit=1, order=["id"]) for name in FACT_TABLES]).to_dicts()
    if not rows and len(id_) < LEAST_OF_ID:
        return f"{id_!r} is too short for an id: give {LEAST_OF_ID} characters"
    if not rows:
        return f"{id_!r} is not the id of any fact"
    row = rows[0]
    if row["status"] != "active" or row["owner_entity_id"] == entity_id:
        return f"{id_} is {row['status'] if row['status'] != 'active' else 'no longer true'}"
    owner = reading.by_ids("entities", [row["owner_entity_id"]], ["name"])["name"].to_list()
    return f"{id_} is filed under {owner[0] if owner else 'nothing'}"


def _retired(entity_id: str, plan: Retirement) -> Retired:
    facts = plan.facts.filter(pl.col("id").is_in(plan.retired)).sort("id").select("id", "statement")
    return Retired(entity_id, tuple(facts.iter_rows()), plan.cleared)

"""Observations: what a person or an agent says of an entity is added, and what they no longer want is retired."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import polars as pl

from recall.proposals import Proposal
from slowwave.common import frames
from slowwave.common.errors import Refused, SlowwaveError, UnusableInput
from slowwave.common.records import Observations
from slowwave.common.run_counts import RunCount
from slowwave.common.settings import IngestSettings
from slowwave.common.text import as_json
from slowwave.common.timestamps import MICROSECOND
from slowwave.common.types import Added, Outcome
from slowwave.common.validity import live_sql
from slowwave.facts.deduplication.observations import KINDS, LEAST_OF_ID, MARKS, named_by, screen, similar_observations
from slowwave.facts.revision.candidates import DIRECTIVES
from slowwave.facts.revision.repetition import ALIKE
from slowwave.graph.graph import STRUCTURAL
from slowwave.lifecycle.pruning_and_eviction import BY_A_PERSON, Retirement
from slowwave.review.proposals import Proposing
from storage.changes import FACT_TABLES
from storage.connection import has_namespace
from storage.rows import named_by_beginning, quoted
from storage.search import unit_matrix
from storage.snapshots import Reading, Snapshot
from storage.transactions import Transaction
from tasks.entities.derived import embeds_here, write_profiles
from tasks.entities.retirement import renew_profiles, retirement_of, write_retirement
from tasks.ingest.application import (
    DecidedPatches,
    Patches,
    apply_patches,
    decide,
    decided_facts,
    write_beside_facts,
    write_facts,
)
from tasks.ingest.statements import SCOPE, Statements, Target, find_target, new_target, state, write_statements
from tasks.runtime.runs import Run, as_run, existing_store, in_one_commit, store_of
from tasks.runtime.writing import applies_at_once, proposal_of

_KINDS = f"kind IN ({', '.join(map(quoted, KINDS))})"
_COMPARED = ["id", "owner_entity_id", "status", "statement", "vector"]
_OUTCOMES = {
    "added": RunCount.FACTS_LEARNED,
    "confirmed": RunCount.FACTS_CONFIRMED,
    "known": RunCount.OBSERVATIONS_KNOWN,
    "refused": RunCount.OBSERVATIONS_REFUSED,
    "waiting": RunCount.PATCHES_WAITING,
}
_REDACTED = "[redacted:"
_RETIRABLE = f"kind IN ({', '.join(map(quoted, (*KINDS, STRUCTURAL)))})"


@dataclass(frozen=True, slots=True)
class Retired:
    """What was, or would be, retired: (id, statement) of each, and the facts that lost their flag with them."""

    entity_id: str
    facts: tuple[tuple[str, str], ...]
    flags_cleared: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _ObservationPlan:
    """What becomes of the texts of a call, for one state of the store.

    `known` are the comparable observations of the entity. `stated` and `decided` are None where no text is new; `facts`
    are the rows to store.
    """

    target: Target
    screened: pl.DataFrame
    known: pl.DataFrame
    known_ids: Mapping[str, str]
    stated: Statements | None
    is_waiting: bool
    decided: DecidedPatches | None = None
    facts: pl.DataFrame | None = None


def observe(
    run: Run,
    name: str,
    texts: Sequence[str],
    settings: IngestSettings,
    *,
    entity_type: str | None = None,
    create: bool = False,
    instead_of: str | None = None,
) -> Added:
    """State something about an entity as a run of one commit: each new text becomes a fact in the usual way (S0-02).

    It is flagged where it looks like another observation. What the entity is held to be word for word is passed over;
    what says the same in other words confirms it (§6.2). Raises `UnusableInput` for an unknown entity unless `create`,
    which makes one of `entity_type`; nothing is written then, and no run is recorded. `instead_of` is a live fact of
    the entity that the first text replaces: it is retired and points at it, unless the text is refused or the same.
    """
    call = Observations(name, texts, entity_type, create, instead_of)
    snapshot, plan = _planned_on_newest(run, call, settings)
    if is_left := _needs_approval(run, plan, settings):
        left = partial(_left_to_patches, run, call, settings)
        added = as_run(run, call.parameters(), left, lambda one: _counts([one]))
    else:

        def write(tx: Transaction) -> Added:
            now = _planned(run, tx, call, settings) if tx.is_overtaken(snapshot) else plan
            added = _written(tx, run, call, now)
            if instead_of is not None:
                write_profiles(tx, run, [added.entity_id])
            return added

        added = in_one_commit(run, "observe", call.parameters(), write, lambda one: _counts([one]))
    if instead_of is not None and (is_left or not embeds_here(run)):
        renew_profiles(run, [added.entity_id])
    return replace(added, run=run.id)


def observe_all(run: Run, calls: Sequence[Observations], settings: IngestSettings) -> list[Added | SlowwaveError]:
    """`observe` of several entities as one run of one commit, in their order: the answer or the error of each.

    Raises `Refused` where something has to wait for a person, which takes a run for each entity.
    """
    runs, ahead = list[Run](), 0
    for call in calls:
        ahead += len(call.texts) if runs else 0
        runs.append(replace(run, now=run.now + ahead * MICROSECOND))  # no two of their messages are of one time
    plans, answers = dict[int, _ObservationPlan](), dict[int, Added | SlowwaveError]()
    snapshot = None
    for place, (own, call) in enumerate(zip(runs, calls, strict=True)):
        try:
            seen, plans[place] = _planned_on_newest(own, call, settings)
        except SlowwaveError as error:
            answers[place] = error
            continue
        snapshot = snapshot or seen
        if _needs_approval(own, plans[place], settings):
            raise Refused("Something of it waits for a person.", "Say it of one entity at a time.")
    if snapshot is None:
        return [*answers.values()]

    def write(tx: Transaction) -> list[Added]:
        met, is_new, is_overtaken = set[str](), False, tx.is_overtaken(snapshot)
        for place, (own, call) in enumerate(zip(runs, calls, strict=True)):
            plan = plans.get(place)
            try:
                if plan is None or is_overtaken or plan.target.id in met or (is_new and plan.target.is_new):
                    plan = _planned(own, tx, call, settings)
            except SlowwaveError as error:
                answers[place] = error
                continue
            answers[place] = replace(_written(tx, own, call, plan), run=run.id)
            met.add(plan.target.id)
            is_new = is_new or plan.target.is_new
        return [one for one in answers.values() if isinstance(one, Added)]

    parameters = {"entities": [call.name for call in calls], "texts": sum(len(call.texts) for call in calls)}
    in_one_commit(run, "observe", parameters, write, _counts)
    return [answers[place] for place in range(len(calls))]


def _needs_approval(run: Run, plan: _ObservationPlan, settings: IngestSettings) -> bool:
    """Whether some of the texts wait for a person already, or have to."""
    return plan.is_waiting or not (plan.stated is None or applies_at_once(run, settings.approval))


def _planned_on_newest(run: Run, call: Observations, settings: IngestSettings) -> tuple[Snapshot, _ObservationPlan]:
    """What would become of a call in the newest state; raises what is wrong with it before anything is written."""
    if not call.texts:
        raise UnusableInput("There is nothing to observe.", "Say one text or more.")
    if not has_namespace(run.store, run.namespace):
        if not call.create:
            existing_store(run)  # raises before a store is made
        new_target(call.name, call.entity_type, run.now)
    snapshot = store_of(run).snapshot()
    plan = _planned(run, snapshot, call, settings)
    if call.instead_of is not None:
        plan_to_retire(snapshot, run, plan.target.id, [call.instead_of])
    return snapshot, plan


def _counts(added: Sequence[Added]) -> dict[RunCount, int]:
    return {count: sum(one.counts.get(outcome, 0) for one in added) for outcome, count in _OUTCOMES.items()}


def _written(tx: Transaction, run: Run, call: Observations, plan: _ObservationPlan) -> Added:
    if plan.stated is not None and plan.decided is not None and plan.facts is not None:
        new = plan.stated.facts["id"] if write_statements(tx, plan.stated) else None
        write_facts(tx, plan.facts, new=new)
        write_beside_facts(tx, plan.decided, new)
    added = _added(plan, plan.facts)
    winner, old = added.outcomes[0].fact_id, [call.instead_of] if call.instead_of else []
    still = tx.by_ids("facts", old, ["id"], where="status = 'active'")["id"].to_list()  # the new one may have ended it
    if still and winner not in (None, *still):
        _retire(tx, run, plan.target.id, still, winner)
    return added


def _left_to_patches(run: Run, call: Observations, settings: IngestSettings) -> Added:
    """The texts as candidates, in patches that are applied or wait for a person, as those of an ingest."""
    store = store_of(run)
    with store.commit(run.id, "observations.candidates", run.now) as tx:
        plan = _stated(run, tx, call, settings)
        if plan.stated is not None:
            write_statements(tx, plan.stated)
            tx.upsert("facts", plan.stated.facts)
            tx.upsert("patch_batches", plan.stated.batches)
    apply_patches(run, settings, look_back=False)
    ids = pl.Series([], dtype=pl.String) if plan.stated is None else plan.stated.facts["id"]
    return _added(plan, store.snapshot().by_ids("facts", ids))


def _planned(run: Run, reading: Reading, call: Observations, settings: IngestSettings) -> _ObservationPlan:
    """The whole plan: texts that are new, what becomes of them, and their flags.

    They are no patch: nothing of them waits, and their run tells the rest.
    """
    plan = _stated(run, reading, call, settings)
    if plan.stated is None:
        return plan
    stated = plan.stated
    patches = Patches(stated.batches, stated.facts, frames.empty(DIRECTIVES), stated.messages)
    alike = _alike(plan.known, stated.facts, reading.dims, settings)
    decided = decide(reading, patches, settings, run.now, alike)
    facts = decided_facts(reading, decided)
    patch = pl.when(pl.col("id").is_in(stated.facts["id"].implode())).then(None).otherwise("patch_batch_id")
    return replace(plan, decided=decided, facts=facts.with_columns(patch_batch_id=patch))


def _stated(run: Run, reading: Reading, call: Observations, settings: IngestSettings) -> _ObservationPlan:
    """The texts that are new, as candidates."""
    target = find_target(reading, call.name, call.entity_type, run.now, settings.resolve, create=call.create)
    owner = [] if target.is_new else [target.id]
    # live, or a candidate of a run that was killed or that waits for review; only of the scope that is compared
    where = f"({live_sql(run.now)} OR status = 'candidate') AND {_KINDS} AND scope = {quoted(SCOPE)}"
    known = reading.by_ids("facts", owner, _COMPARED, key="owner_entity_id", where=where)
    by_status = sorted(frames.rows_of(known, "status", "id", "statement"), key=lambda row: (row[0] == "active", row[1]))
    by_text = {statement: id_ for _, id_, statement in by_status}
    screened = screen(call.texts, by_text)
    fresh = [text for text, outcome in frames.rows_of(screened, "content", "outcome") if outcome == "new"]
    stated = state(run, reading, target, fresh) if fresh else None
    texts = {*screened["content"]}
    is_waiting = any(status == "candidate" and statement in texts for status, _, statement in by_status)
    return _ObservationPlan(target, screened, known, by_text, stated, is_waiting)


def _alike(known: pl.DataFrame, new: pl.DataFrame, dims: int, settings: IngestSettings) -> pl.DataFrame:
    """ALIKE of new statements with all live ones of the entity, and with each other (S0-02)."""
    if known.is_empty() and len(new) < 2:
        return frames.empty(ALIKE)
    live = known.filter(pl.col("status") == "active")
    columns = {"id": "id", "owner": "owner_entity_id", "text": "statement", "vector": "vector"}
    rows = pl.concat([part.select(**columns) for part in (live, new)])
    return similar_observations(rows, unit_matrix(rows["vector"], dims), len(live), settings.evaluate)


def _added(plan: _ObservationPlan, facts: pl.DataFrame | None) -> Added:
    """The outcome of each text, by the rows that stand for the new ones."""
    rows = [] if facts is None else facts[["id", "statement", "status", "status_reason", *MARKS]].to_dicts()
    ids = set() if plan.stated is None else set(plan.stated.facts["id"])
    by_text = {row["statement"]: row for row in rows if row["id"] in ids}
    known = {**{text: row["id"] for text, row in by_text.items() if row["status"] == "active"}, **plan.known_ids}
    outcomes = [
        _outcome(content, by_text[content])
        if outcome == "new"
        else Outcome(content, outcome, known.get(content) if outcome == "known" else None, reason)
        for content, outcome, reason in frames.rows_of(plan.screened, "content", "outcome", "reason")
    ]
    target, redacted = plan.target, int(plan.screened["has_secret"].sum())
    return Added(target.name, target.id, target.is_new, tuple(outcomes), redacted)


def part_of(added: Added, texts: slice) -> Added:
    """The answer for some of the texts. The first text made the entity; how many were redacted, their contents tell."""
    outcomes = added.outcomes[texts]
    redacted = min(sum(_REDACTED in each.content for each in outcomes), added.redacted)
    return replace(added, outcomes=outcomes, is_new=added.is_new and texts.start == 0, redacted=redacted)


def retire(run: Run, entity_id: str, ids: Sequence[str], *, dry_run: bool = False) -> Retired:
    """Retire observations of an entity, as a run of its own: archived, out of recall, and back with undo (S0-05).

    `ids` may be beginnings, or the short forms that tables show. All are retired or none: `UnusableInput` names those
    that are not live observations of the entity, `Refused` those that are pinned, before the run begins.
    """
    planned = plan_to_retire(existing_store(run).snapshot(), run, entity_id, ids)
    if dry_run:
        return _retired(entity_id, planned)

    def write(tx: Transaction) -> Retired:
        done = _retire(tx, run, entity_id, ids)
        write_profiles(tx, run, [entity_id])
        return done

    retired = in_one_commit(
        run,
        "observations.retire",
        {"entity": entity_id, "ids": list(ids)},
        write,
        lambda done: {RunCount.FACTS_RETIRED: len(done.facts), RunCount.FLAGS_CLEARED: len(done.flags_cleared)},
    )
    if not embeds_here(run):
        renew_profiles(run, [entity_id])
    return retired


def _outcome(content: str, fact: Mapping[str, Any]) -> Outcome:
    repeated = (fact["status_reason"] or "").removeprefix("repeats ")
    if fact["status"] == "rejected" and repeated == fact["similar_to_id"]:
        return Outcome(content, "confirmed", repeated)
    if fact["status"] == "rejected":
        return Outcome(content, "refused", reason=fact["status_reason"])
    if fact["status"] == "candidate":
        return Outcome(content, "waiting", fact["id"])
    return Outcome(content, "added", fact["id"], None, *(fact[mark] for mark in MARKS))


def _retire(tx: Transaction, run: Run, entity_id: str, ids: Sequence[str], replaced_by: str | None = None) -> Retired:
    plan = plan_to_retire(tx, run, entity_id, ids)
    if replaced_by is not None:
        is_gone = pl.col("id").is_in(plan.retired)
        winner = pl.when(is_gone).then(pl.lit(replaced_by)).otherwise("replaced_by")
        plan = replace(plan, facts=plan.facts.with_columns(replaced_by=winner))
    write_retirement(tx, plan)
    return _retired(entity_id, plan)


def propose_deletion(
    run: Run, entity_id: str, ids: Sequence[str], proposed_by: str = "agent", reason: str = ""
) -> Proposal:
    """Leave a proposal to retire these observations, or find the one that waits for the same already.

    Raises as `retire`, and `Refused` where a person said no to the very same.
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
    with store_of(replace(run, proposes=what)).commit(run.id, "observations.retire", run.now) as tx:
        _retire(tx, run, entity_id, chosen)
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
    where = named_by_beginning(id_, LEAST_OF_ID)
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

"""Splitting: an entity that holds too much is parted by topic, once a person said yes (S0-11 … S0-16, T3, T49)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from recall.entities import exact_row
from recall.report import OBSERVED, called, suggest_split
from slowwave.common.errors import Refused
from slowwave.common.run_counts import RunCount
from slowwave.common.settings import SplitSettings
from slowwave.common.validity import live_sql
from slowwave.review.proposals import Proposing
from slowwave.review.split_plan import SplitPart, SplitPlan, ask_of, checked_splits, plan_split
from storage.snapshots import Reading
from tasks.runtime.engine import task
from tasks.runtime.runs import Run, as_run, embedder_of, existing_store, store_of, vector_column
from tasks.runtime.writing import proposal_of, proposing

_OBSERVATION = ("id", "statement", "valid_from")


@dataclass(frozen=True, slots=True)
class ProposedSplit:
    """A split that waits for a person, and why it is proposed."""

    proposal_id: str
    entity: str
    entity_id: str
    splits: tuple[SplitPart, ...]
    message: str


@task("propose a split")
def propose_split(
    run: Run,
    name: str,
    settings: SplitSettings,
    splits: Sequence[SplitPart] | None = None,
    *,
    proposed_by: str = "rule",
) -> ProposedSplit:
    """Leave a split for a person to decide: this one, or what its topics suggest; the same waits only once.

    Raises `UnknownName` for an unknown entity, `UnusableInput` for a plan that cannot be carried out as a whole, and
    `Refused` where a name belongs to somebody else (T3), nothing is to be split, or a person said no to it before.
    """
    snapshot = store_of(run).snapshot()
    parent = exact_row(snapshot, name)
    chosen, message = splits, "Asked for as it is."
    if chosen is None:
        suggestion = suggest_split(snapshot, settings, run.now, parent["id"])
        chosen, message = suggestion.splits, suggestion.message
        if not chosen:
            raise Refused(message, f"What it holds: slowwave facts {parent['id']}")
    checked, plan = _plan(run, snapshot, parent, chosen)
    vectors = vector_column(embedder_of(run).embed(list(plan.to_embed)))
    asking = proposing(run, _what(parent, checked, message, proposed_by))
    with store_of(asking).commit(run.id, "entity.split", run.now) as tx:
        if tx.is_overtaken(snapshot):
            _, plan = _plan(run, tx, parent, checked)
        whole = tx.by_ids("facts", plan.moved["id"], with_vector=True).drop("owner_entity_id")
        moved = whole.join(plan.moved, on="id", maintain_order="left").sort("id")
        tx.upsert("entities", plan.entities.with_columns(vectors))
        tx.upsert("entity_aliases", plan.aliases)
        tx.upsert("facts", pl.concat([moved, plan.structure], how="diagonal"))
        tx.upsert("decisions", plan.decisions)
    found = proposal_of(run, "split", parent["id"], ask_of(checked))
    return ProposedSplit(found.id, parent["name"], parent["id"], checked, message)


def _plan(
    run: Run, reading: Reading, parent: Mapping[str, Any], splits: Sequence[SplitPart]
) -> tuple[tuple[SplitPart, ...], SplitPlan]:
    """The splits with whole ids, and their rows, for one state of the store; raises where they cannot be carried out.

    Observations keep everything but their owner.
    """
    where = f"{OBSERVED} AND {live_sql(run.now)}"
    observations = reading.by_ids("facts", [parent["id"]], _OBSERVATION, key="owner_entity_id", where=where)
    known = called(reading, [each.name for each in splits])
    owners = reading.by_ids("entities", known["entity_id"], ["id", "name", "entity_type"])
    taken = known.join(owners, left_on="entity_id", right_on="id").select(
        "alias_name", called=pl.format("{} ({})", "name", "entity_type")
    )
    checked = checked_splits(parent, splits, observations, taken)
    return checked, plan_split(parent, checked, observations, run.now)


def _what(parent: Mapping[str, Any], splits: Sequence[SplitPart], message: str, proposed_by: str) -> Proposing:
    count = sum(len(each.observations) for each in splits)
    return Proposing(
        "split",
        together=True,
        title=f"Split {parent['name']} into {len(splits)} ({count} observation{'s' if count != 1 else ''})",
        reason=message,
        ask=ask_of(splits),
        owners=(parent["id"],),
        subject_id=parent["id"],
        subject=parent["name"],
        proposed_by=proposed_by,
    )


def propose(run: Run, name: str, settings: SplitSettings, splits: Sequence[SplitPart] | None = None) -> ProposedSplit:
    """`propose_split` of a person as a run of its own."""
    exact_row(existing_store(run).snapshot(), name)
    return as_run(
        run,
        {"entity": name},
        lambda: propose_split(run, name, settings, splits, proposed_by="person"),
        lambda done: {RunCount.PROPOSALS: 1, RunCount.NEW_ENTITIES: len(done.splits)},
    )

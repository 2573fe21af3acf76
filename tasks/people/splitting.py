"""Splitting: an entity that holds too much is parted by topic, once a person said yes (S0-11 … S0-16, T3, T49)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from recall.entities import exact_row
from recall.entity_review import OBSERVED, called, suggest_split
from recall.proposals import Proposal
from slowwave.common.errors import Refused
from slowwave.common.run_counts import RunCount
from slowwave.common.settings import SplitSettings
from slowwave.common.validity import live_sql
from slowwave.review.proposals import Proposing
from slowwave.review.split_plan import (
    SplitPart,
    SplitPlan,
    ask_of,
    checked_splits,
    plan_split,
    splits_of,
)
from storage.rows import quoted
from storage.snapshots import Reading
from storage.transactions import Transaction
from tasks.entities.retirement import renew_profiles
from tasks.runtime.engine import task
from tasks.runtime.runs import Run, as_run, embedder_of, existing_store, store_of, vector_column
from tasks.runtime.writing import proposal_of, proposing

_OBSERVATION = ("id", "statement", "valid_from")


@dataclass(frozen=True, slots=True)
class SplitDone:
    """The result of a split: the new entities (id, name), and how many observations moved."""

    entity: str
    entity_id: str
    new_entities: tuple[tuple[str, str], ...]
    moved_observations: int
    original_observations_remaining: int

    @property
    def relations_created(self) -> int:
        """Two for each new entity: what contains it, and what it is a part of (S0-15)."""
        return 2 * len(self.new_entities)

    def as_json(self) -> dict[str, Any]:
        """The numbers of a split (S0-14)."""
        return {
            "entity": self.entity,
            "entity_id": self.entity_id,
            "new_entities": [name for _, name in self.new_entities],
            "moved_observations": self.moved_observations,
            "relations_created": self.relations_created,
            "original_observations_remaining": self.original_observations_remaining,
        }


@dataclass(frozen=True, slots=True)
class ProposedSplit:
    """A split that waits for a person, and why it is proposed."""

    proposal_id: str
    entity: str
    entity_id: str
    splits: tuple[SplitPart, ...]
    message: str


@dataclass(frozen=True, slots=True, eq=False)
class Planned:
    """The entity, its splits with whole ids, and what is to be written."""

    parent: Mapping[str, Any]
    splits: tuple[SplitPart, ...]
    rows: SplitPlan

    @property
    def done(self) -> SplitDone:
        """The result."""
        parts = tuple(self.rows.entities.select("id", "name").iter_rows())
        parent = self.parent
        return SplitDone(parent["name"], parent["id"], parts, len(self.rows.moved), self.rows.remaining)


@task("split entity")
def split_entity(run: Run, entity_id: str, splits: Sequence[SplitPart]) -> SplitDone:
    """Part an entity: new entities, the observations that become theirs, and what is a part of what; one commit.

    Raises `UnknownName` for an unknown entity, `UnusableInput` for a plan that cannot be carried out as a whole, and
    `Refused` where a name belongs to somebody else (T3).
    """
    store = store_of(run)
    snapshot = store.snapshot()
    planned = plan_of(run, snapshot, entity_id, splits)
    vectors = vector_column(embedder_of(run).embed(list(planned.rows.to_embed)))
    with store.commit(run.id, "entity.split", run.now) as tx:
        if tx.is_overtaken(snapshot):
            planned = plan_of(run, tx, entity_id, splits)
        _write(tx, planned.rows, vectors)
    if run.proposes is None:
        renew_profiles(run, [planned.done.entity_id, *planned.rows.entities["id"]])
    return planned.done


def plan_of(run: Run, reading: Reading, name: str, splits: Sequence[SplitPart]) -> Planned:
    """The rows of a split, for one state of the store; raises where it cannot be carried out."""
    parent = exact_row(reading, name)
    observations = reading.by_ids("facts", [parent["id"]], _OBSERVATION, key="owner_entity_id", where=observed_sql(run))
    checked = checked_splits(parent, splits, observations, _taken(reading, splits))
    return Planned(parent, checked, plan_split(parent, checked, observations, run.now))


def _taken(reading: Reading, splits: Sequence[SplitPart]) -> pl.DataFrame:
    """(alias_name, called): names among those of the splits that belong to somebody, and to whom."""
    known = called(reading, [each.name for each in splits])
    owners = reading.by_ids("entities", known["entity_id"], ["id", "name", "entity_type"])
    return known.join(owners, left_on="entity_id", right_on="id").select(
        "alias_name", called=pl.format("{} ({})", "name", "entity_type")
    )


def _write(tx: Transaction, plan: SplitPlan, vectors: pl.Series) -> None:
    whole = tx.by_ids("facts", plan.moved["id"], with_vector=True).drop("owner_entity_id")
    moved = whole.join(plan.moved, on="id", maintain_order="left").sort("id")
    tx.upsert("entities", plan.entities.with_columns(vectors))
    tx.upsert("entity_aliases", plan.aliases)
    tx.upsert("facts", pl.concat([moved, plan.structure], how="diagonal"))
    tx.upsert("decisions", plan.decisions)


def propose_split(
    run: Run,
    name: str,
    settings: SplitSettings,
    splits: Sequence[SplitPart] | None = None,
    *,
    proposed_by: str = "rule",
) -> ProposedSplit:
    """Leave a split for a person to decide: this one, or what its topics suggest; the same waits only once.

    Raises as `split_entity`, and `Refused` where there is nothing to split or a person said no to it before.
    """
    snapshot = store_of(run).snapshot()
    parent = exact_row(snapshot, name)
    chosen, message = splits, "Asked for as it is."
    if chosen is None:
        suggestion = suggest_split(snapshot, settings, run.now, parent["id"])
        chosen, message = suggestion.splits, suggestion.message
        if not chosen:
            raise Refused(message, f"What it holds: slowwave facts {parent['id']}")
    planned = plan_of(run, snapshot, parent["id"], chosen)
    ask = ask_of(planned.splits)
    split_entity(proposing(run, _what(planned, ask, message, proposed_by)), parent["id"], planned.splits)
    found = proposal_of(run, "split", parent["id"], ask)
    return ProposedSplit(found.id, parent["name"], parent["id"], planned.splits, message)


def _what(planned: Planned, ask: str, message: str, proposed_by: str) -> Proposing:
    parent, count = planned.parent, sum(len(each.observations) for each in planned.splits)
    return Proposing(
        "split",
        together=True,
        title=f"Split {parent['name']} into {len(planned.splits)} ({count} observation{'s' if count != 1 else ''})",
        reason=message,
        ask=ask,
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


def observed_sql(run: Run) -> str:
    """The live observations, as a filter of facts."""
    return f"{OBSERVED} AND {live_sql(run.now)}"


def split_done(reading: Reading, run: Run, proposal: Proposal) -> SplitDone:
    """The result of a split that was carried out."""
    new = [each for each in proposal.changes if each.table == "entities" and each.is_new]
    parts = tuple((each.id, str((each.after or {})["name"])) for each in new)
    moved = sum(len(each.observations) for each in splits_of(proposal.ask))
    left = reading.count("facts", f"owner_entity_id = {quoted(proposal.subject_id)} AND {observed_sql(run)}")
    return SplitDone(proposal.subject, proposal.subject_id, parts, moved, left)

"""Overrides: changes that rank alone refused are put to a person, as proposals (§6.6).

What waits already, or was rejected, is not proposed again; what the world has overtaken is withdrawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import polars as pl

from recall.proposals import proposals_by_id, stale_proposals
from slowwave.common.settings import IngestSettings
from slowwave.common.validity import live_sql
from slowwave.review.changes import in_brief
from slowwave.review.overrides import OverrideRows, RefusedChange, apart, plan_overrides, refused_by_rank
from slowwave.review.proposals import Proposing
from storage.snapshots import Reading
from storage.transactions import Transaction
from tasks.ingest.application import write_supersessions
from tasks.ingest.surroundings import surroundings_of_facts
from tasks.runtime.engine import task
from tasks.runtime.runs import Run, store_of
from tasks.runtime.writing import decide_and_write, proposing, touched_by

OVERRIDE = "override"


@task("propose overrides")
def propose_overrides(run: Run, settings: IngestSettings) -> int:
    """Ask a person about each change that rank alone refused, as long as both facts hold. Returns how many.

    A yes does what was refused, a no leaves both as they are.
    """
    withdraw_overtaken(run, OVERRIDE)
    snapshot, proposed = store_of(run).snapshot(), 0
    for part in apart(_refused(snapshot, run)):
        plan = _overruled(snapshot, run, part, settings)
        proposed += len(plan.titles)
        if plan.titles:
            asking = proposing(run, Proposing(OVERRIDE, "all", approval=settings.approval, each=plan.titles))
            with store_of(asking).commit(run.id, f"settle.{OVERRIDE}", run.now) as tx:
                plan = _overruled(tx, run, part, settings)
                write_supersessions(tx, plan.facts, plan.lineage, plan.decisions)
    return proposed


def _refused(reading: Reading, run: Run) -> list[RefusedChange]:
    """What rank alone refused and nobody was asked about yet, whichever run it was refused in."""
    refused = refused_by_rank(reading.frame("decisions", "action = 'refuse'"))
    ids = {fact for each in refused for fact in (each.loser, each.winner)}
    live = set(reading.by_ids("facts", sorted(ids), ["id"], where=live_sql(run.now))["id"])
    touched = touched_by(reading, OVERRIDE)
    return [
        each
        for each in refused
        if {each.loser, each.winner} <= live and not any({each.loser, each.winner} <= ids for ids in touched)
    ]


def _overruled(reading: Reading, run: Run, part: Sequence[RefusedChange], settings: IngestSettings) -> OverrideRows:
    around = surroundings_of_facts(reading, [fact for each in part for fact in (each.loser, each.winner)])
    return plan_overrides(part, around, settings.revise, run.now)


@task("withdraw overtaken proposals", about="{run.namespace}, {action}")
def withdraw_overtaken(run: Run, action: str) -> int:
    """Close proposals that rest on changed rows: they cannot be carried out. Returns how many; one commit, or none.

    The next run finds the part that still holds and proposes it again.
    """

    def write(tx: Transaction, stale: pl.DataFrame) -> None:
        rows = tx.by_ids("proposals", stale["id"]).drop("outcome").join(stale, on="id")
        tx.upsert("proposals", rows.with_columns(state=pl.lit("stale")))

    return len(decide_and_write(run, "settle.withdraw", partial(_overtaken, run=run, action=action), write))


def _overtaken(reading: Reading, run: Run, action: str) -> pl.DataFrame:
    """(id, outcome) of waiting proposals that cannot be carried out any more."""
    waiting = reading.frame("proposals", f"action = '{action}' AND state = 'pending'", ["id"])["id"]
    changed = stale_proposals(reading, proposals_by_id(reading, waiting.to_list()), run.now)
    rows = [(row, in_brief(words)) for row, words in changed.items()]
    return pl.DataFrame(rows, schema={"id": pl.String, "outcome": pl.String}, orient="row")

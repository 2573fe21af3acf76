"""Open questions: what the rules leave undecided is put to a person, as proposals (§6.2, §6.6).

Pairs that a guard kept apart, where no model is asked; changes that rank alone refused. What waits already, or was
rejected, is not proposed again; what the world has overtaken is withdrawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import polars as pl

from recall.proposals import proposals_by_id, stale_proposals
from slowwave.common.settings import ApprovalSettings, ConsolidateSettings, IngestSettings
from slowwave.common.validity import live_sql
from slowwave.review.changes import in_brief
from slowwave.review.open_questions import (
    ASKED_FROM,
    OverrideRows,
    RefusedChange,
    apart,
    open_pairs,
    plan_open_pairs,
    plan_overrides,
    refused_by_rank,
    titles_of_pairs,
)
from slowwave.review.proposals import ProposalNote, Proposing
from storage.rows import quoted
from storage.snapshots import Reading
from storage.transactions import Transaction
from tasks.ingest.application import write_supersessions
from tasks.ingest.surroundings import surroundings_of_facts
from tasks.runtime.engine import task
from tasks.runtime.runs import Run, store_of
from tasks.runtime.writing import decide_and_write, proposing, touched_by

from .fact_reconciliation import OPEN_PAIRS, waiting_facts, write_plan

MERGE, OVERRIDE = "merge", "override"


@task("propose pairs")
def propose_pairs(run: Run, settings: ConsolidateSettings, *, scope: str | None = None) -> int:
    """Ask a person about the nearest pairs that a guard kept apart; one commit, or none. Returns how many.

    A yes is the merge that a model's verdict would have made, a no keeps both apart for good (S1-13).
    """
    pairs, facts = _open_pairs(store_of(run).snapshot(), run, settings, scope)
    if pairs.is_empty():
        return 0

    def write(tx: Transaction) -> None:
        pairs, facts = _open_pairs(tx, run, settings, scope)
        evidence = tx.by_ids("fact_evidence", facts["id"], key="fact_id")
        aspects = tx.by_ids("fact_aspects", facts["id"], key="fact_id")
        plan = plan_open_pairs(pairs, facts, evidence, aspects, run.now)
        write_plan(tx, plan)

    _propose(run, MERGE, settings.approval, titles_of_pairs(pairs, facts), write)
    return len(pairs)


def _open_pairs(
    reading: Reading, run: Run, settings: ConsolidateSettings, scope: str | None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The pairs to ask about, and the live facts that they are of."""
    pairs = reading.frame("pair_decisions", f"{OPEN_PAIRS} AND cosine >= {ASKED_FROM}")
    where = live_sql(run.now) if scope is None else f"{live_sql(run.now)} AND scope = {quoted(scope)}"
    facts = reading.by_ids("facts", pl.concat([pairs["a_id"], pairs["b_id"]]).unique(), where=where)
    chosen = open_pairs(pairs, facts, frozenset(waiting_facts(reading)), settings)
    return chosen, facts.filter(pl.col("id").is_in(pl.concat([chosen["a_id"], chosen["b_id"]]).implode()))


@task("propose overrides")
def propose_overrides(run: Run, settings: IngestSettings) -> int:
    """Ask a person about each change that rank alone refused, as long as both facts hold. Returns how many.

    A yes does what was refused, a no leaves both as they are.
    """
    withdraw_overtaken(run, OVERRIDE)
    snapshot, proposed = store_of(run).snapshot(), 0
    for part in apart(_refused(snapshot, run)):
        plan = _overruled(snapshot, run, part, settings)
        if plan.titles:
            _propose(run, OVERRIDE, settings.approval, plan.titles, _writer(run, part, settings))
        proposed += len(plan.titles)
    return proposed


def _writer(run: Run, part: Sequence[RefusedChange], settings: IngestSettings) -> Callable[[Transaction], None]:
    def write(tx: Transaction) -> None:
        plan = _overruled(tx, run, part, settings)
        write_supersessions(tx, plan.facts, plan.lineage, plan.decisions)

    return write


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


def _propose(
    run: Run,
    action: str,
    approval: ApprovalSettings,
    each: tuple[ProposalNote, ...],
    write: Callable[[Transaction], None],
) -> None:
    """One commit, in which everything that `write` changes waits for a person."""
    always = approval.model_copy(update={"low_risk": "person"})
    asking = proposing(run, Proposing(action, "all", approval=always, each=each))
    with store_of(asking).commit(run.id, f"settle.{action}", run.now) as tx:
        write(tx)


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

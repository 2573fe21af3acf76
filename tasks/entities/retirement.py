"""Retirement: facts are archived together with what hangs on them, for whatever reason they go (T31)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import polars as pl

from slowwave.graph.links import KIND, inverses_of
from slowwave.lifecycle.pruning_and_eviction import NOTHING, Cause, Measures, Retirement, plan_retirement
from slowwave.validity import live_sql
from storage.snapshots import Reading
from storage.transactions import Transaction
from tasks.runtime.engine import log
from tasks.runtime.runs import Run

from .profiles import refresh_profiles

_PENDING = "outcome = 'pending'"


def retirement_of(
    reading: Reading, chosen: pl.DataFrame, cause: Cause, now: datetime, measures: Measures = NOTHING
) -> Retirement:
    """What retiring these live facts, whole rows with their vectors, would change.

    What says the same from the other end goes with them (S0-15).
    """
    chosen = with_inverses(reading, chosen, live_sql(now))
    flagged = reading.frame("facts", f"{live_sql(now)} AND similarity_flag", ["id", "similar_to_id"])
    theirs = flagged.filter(pl.col("similar_to_id").is_in(chosen["id"].implode()))["id"]
    partners = reading.by_ids("facts", theirs, with_vector=True)
    pairs = pl.concat(
        [reading.by_ids("pair_decisions", chosen["id"], key=end, where=_PENDING) for end in ("a_id", "b_id")]
    )
    return plan_retirement(chosen, partners, pairs.unique("id"), cause, now, measures)


def with_inverses(
    reading: Reading, chosen: pl.DataFrame, where: str, tables: Sequence[str] = ("facts",)
) -> pl.DataFrame:
    """Whole facts, and those of these tables that say the same from the other end: both end, or come back, together."""
    ends = chosen.filter(pl.col("kind") == KIND)["object_id"]
    if ends.is_empty():
        return chosen
    others = f"kind = '{KIND}' AND ({where})"
    stored = pl.concat(
        [reading.by_ids(name, ends, key="subject_id", where=others, with_vector=True) for name in tables]
    )
    found = inverses_of(chosen, stored.unique("id", keep="first")).sort("id")
    return pl.concat([chosen, found.select(chosen.columns)])


def carry_out(tx: Transaction, plan: Retirement) -> None:
    """Write a retirement: the facts and their decisions; aspects, open pairs and scores of the facts go."""
    tx.upsert("facts", plan.facts)
    tx.upsert("decisions", plan.decisions)
    tx.delete("fact_aspects", tx.by_ids("fact_aspects", plan.retired, ["id"], key="fact_id")["id"])
    tx.delete("pair_decisions", plan.pairs)
    tx.delete("fact_scores", tx.by_ids("fact_scores", plan.retired, ["id"])["id"])


def renew_profiles(run: Run, owners: Sequence[str] | pl.Series) -> None:
    """Renew what these entities are as a whole; a failure is only logged, because the nightly run renews it too."""
    try:
        refresh_profiles(run, pl.Series(owners, dtype=pl.String).drop_nulls().unique())
    except Exception as error:
        log.warning("The profiles of %d entities were not renewed: %s", len(owners), error)

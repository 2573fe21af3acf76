"""Decisions as a run shows them: which ones, and in which words."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from slowwave.deduplication.consolidation_plan import ReconciliationPlan

SHOWN = 10
LISTED = 1000
"""Decisions that a dry run shows: its only purpose."""


@dataclass(frozen=True, slots=True)
class DecisionSummary:
    """One decision as it is shown: what was done, about which statement, and why."""

    action: str
    statement: str
    reason: str

    @property
    def cells(self) -> tuple[str, str, str]:
        """Its three cells of a table."""
        return self.action, self.statement, self.reason


def decisions_of(plan: ReconciliationPlan, facts: pl.DataFrame) -> tuple[DecisionSummary, ...]:
    """The most interesting decisions about these facts: a model's before a rule's, of unlike words before like ones."""
    statements = dict(
        pl.concat([part.select("id", "statement") for part in (facts, plan.reworded)], how="vertical").iter_rows()
    )
    order = {"fail": 0, "contradict": 1, "supersede": 1, "absorb": 1, "keep": 2}
    rows = plan.decisions.with_columns(
        kind=pl.col("action").replace_strict(order, default=3, return_dtype=pl.Int8),
        by_rule=pl.col("decided_by") == "rule",
        likeness=pl.col("measures").str.json_path_match("$.jaccard").cast(pl.Float64, strict=False).fill_null(0.0),
    )
    best = rows.sort("kind", "by_rule", "likeness", "subject_id").head(SHOWN)
    made = [
        DecisionSummary(action, _sentence(statements, action, subject, ids_in), reason)
        for action, subject, ids_in, reason in best.select("action", "subject_id", "ids_in", "reason").iter_rows()
    ]
    waiting = (
        plan.pairs.filter(kind="redundant", outcome="pending").sort(-pl.col("cosine"), "a_id").head(SHOWN - len(made))
    )
    left = [
        DecisionSummary(
            "wait",
            f"{statements.get(a, a)} | {statements.get(b, b)}",
            f"Rules cannot tell ({guard}); a model or a person can.",
        )
        for a, b, guard in waiting.select("a_id", "b_id", "guard").iter_rows()
    ]
    return (*made, *left)


def _sentence(statements: dict[str, str], action: str, subject: str, ids_in: list[str]) -> str:
    others = " · ".join(statements.get(each, each) for each in ids_in if each != subject)
    sign = " ← " if action == "absorb" else " | "
    return f"{statements.get(subject, subject)}{sign}{others}" if others else statements.get(subject, subject)

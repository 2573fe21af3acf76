"""What a run shows of itself: its decisions, and its summary on its page in the Prefect UI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import polars as pl

from slowwave.common.run_counts import effects, shown_counts
from slowwave.common.text import in_markdown
from slowwave.facts.deduplication.reconciliation_plan import ReconciliationPlan

from .engine import is_inline
from .runs import Run

SHOWN = 10
LISTED = 1000
"""Decisions that a dry run shows: its only purpose."""
INTO, BESIDE, ALSO = " ← ", " | ", " · "
"""In a decision about several facts: between the one that stays and those that it absorbs, between facts that were only
compared, and between the others."""


@dataclass(frozen=True, slots=True)
class DecisionSummary:
    """One decision as it is shown: what was done, about which statement beside which others, and why."""

    action: str
    statement: str
    reason: str
    others: tuple[str, ...] = ()

    @property
    def row(self) -> dict[str, str]:
        """Its row of a table, with all statements in one cell."""
        sign = INTO if self.action == "absorb" else BESIDE
        about = sign.join(filter(None, [self.statement, ALSO.join(self.others)]))
        return {"decision": self.action, "fact": about, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What a task did: what it counted, the first of its decisions, and why something could not be done.

    `refused`: how much each gate refused; `issues`: remarks on what was read, in sentences.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    decisions: tuple[DecisionSummary, ...] = ()
    errors: tuple[str, ...] = ()
    refused: Mapping[str, int] = field(default_factory=dict)
    issues: tuple[str, ...] = ()


def decisions_of(plan: ReconciliationPlan, facts: pl.DataFrame) -> tuple[DecisionSummary, ...]:
    """The most interesting decisions about these facts: a model's before a rule's, of unlike words before like ones."""
    statements = dict(facts.select("id", "statement").iter_rows())
    order = {"fail": 0, "contradict": 1, "supersede": 1, "absorb": 1, "keep": 2}
    rows = plan.decisions.with_columns(
        kind=pl.col("action").replace_strict(order, default=3, return_dtype=pl.Int8),
        by_rule=pl.col("decided_by") == "rule",
        likeness=pl.col("measures").str.json_path_match("$.jaccard").cast(pl.Float64, strict=False).fill_null(0.0),
    )
    best = rows.sort("kind", "by_rule", "likeness", "subject_id").head(SHOWN)
    return tuple(
        DecisionSummary(
            action,
            statements.get(subject, subject),
            reason,
            tuple(statements.get(each, each) for each in ids_in if each != subject),
        )
        for action, subject, ids_in, reason in best.select("action", "subject_id", "ids_in", "reason").iter_rows()
    )


# The page of a run.


SHOWN_ISSUES = 50


async def show_page(lines: Sequence[str], key: str, description: str) -> None:
    """Show lines on the run's page, as a Markdown artifact."""
    if not is_inline():
        from prefect.artifacts import acreate_markdown_artifact

        await acreate_markdown_artifact("\n".join(lines), key=key, description=description)


async def show_summary(run: Run, summary: Mapping[str, Any]) -> None:
    """Show a summary on the run's page."""
    if not is_inline():
        await show_page(_markdown(run, summary), f"{run.flow}-summary", "What this run did")


def _markdown(run: Run, summary: Mapping[str, Any]) -> list[str]:
    decisions: Sequence[Mapping[str, str]] = summary["decisions"]
    place = f"--store {run.store} --namespace {run.namespace}"
    llm = summary["llm"]
    cost = (
        f"Model `{llm['model']}`: {llm['calls']} calls, {llm['from ledger']} answers from the ledger, "
        f"{llm['tokens_in']} tokens in, {llm['tokens_out']} out, {llm['usd']:.4f} dollars."
    )
    way_back = f"All of it: `slowwave why {run.id} {place}`. Take the run back: `slowwave undo {run.id} {place}`."
    return [
        f"# {summary['run']}: {summary['state']}",
        "",
        f"Store `{run.store}`, namespace `{run.namespace}`, commit {summary['commit']}.",
        "",
        *(f"{plain_text(note)}\n" for note in summary["notes"]),
        f"Changed: {plain_text(', '.join(effects(summary['counts'])) or 'nothing that is known')}.",
        "",
        *_counts_table("what", shown_counts(summary["counts"])),
        *_counts_table("refused by gate", summary.get("refused", {})),
        cost if llm["calls"] or llm["from ledger"] else "No model was asked.",
        "",
        *(["## Decisions", ""] if decisions else ()),
        *(markdown_table(tuple(decisions[0]), [tuple(row.values()) for row in decisions]) if decisions else ()),
        *(() if summary.get("dry_run") else (way_back, "")),
        *(f"- {plain_text(issue)}" for issue in [*summary["errors"], *summary["issues"]][:SHOWN_ISSUES]),
    ]


def _counts_table(head: str, counts: Mapping[str, int]) -> list[str]:
    return markdown_table((head, "count"), list(counts.items())) if counts else []


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """The lines of a table whose cells say what they say, whatever signs are in them; a blank one ends it."""
    cells = [[plain_text("" if cell is None else str(cell)) for cell in row] for row in [head, *rows]]
    lines = [f"| {' | '.join(row)} |" for row in cells]
    return [lines[0], "|---" * len(head) + "|", *lines[1:], ""]


async def show_table(rows: Sequence[Mapping[str, Any]], key: str, description: str) -> None:
    """Show rows on the run's page, as a table; nothing where there is none."""
    head = list(dict.fromkeys(chain.from_iterable(rows)))
    if head:
        await show_page(markdown_table(head, [[row.get(each, "") for each in head] for row in rows]), key, description)


def plain_text(text: str) -> str:
    """Stored text on one line, none of whose signs are Markdown, HTML or a link."""
    return in_markdown(text).replace("://", "&#58;//").replace("www.", "www&#46;")

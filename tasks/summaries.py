"""Summaries: what a run did, counted as it goes, shown in the terminal, in the store and in the Prefect UI."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from inference.language import Language
from slowwave.records import Usage

from .admission import Admitted
from .application import Applied
from .engine import is_inline
from .extraction import Extracted
from .intake import Intake, Sources
from .runs import Run, newest_commit, store_of
from .sources import ReadIssue

SHOWN_DECISIONS = 10
OUTCOMES = {
    "create": "facts learned",
    "reassert": "facts confirmed",
    "supersede": "facts superseded",
    "retract": "facts retracted",
    "close": "facts ended",
    "refuse": "changes refused",
}
SHOWN_ISSUES = 50

_SIGNS = re.compile(r"[\\`*_{}\[\]()#+!|~^$-]")


@dataclass
class IngestTally:
    """Counts of one ingest run."""

    run: str
    dry_run: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    issues: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    state: str = "completed"
    commit: int = 0

    def found(self, sources: Sources) -> None:
        """Which sources there are."""
        self.counts["sources"] += len(sources.new) + len(sources.known)
        self.counts["sources known already"] += len(sources.known)
        self.issues += [_sentence(issue) for issue in sources.issues]

    def admitted(self, intake: Intake, admitted: Admitted) -> None:
        """What was read and stored."""
        self.counts["messages read"] += admitted.read
        self.counts["messages known already"] += admitted.known
        self.counts["messages stored"] += admitted.stored
        self.counts["messages with secrets redacted"] += admitted.redacted
        self.counts["messages with a used id"] += admitted.renamed
        self.issues += admitted.issues
        self.refused.update(admitted.refused)
        self.issues += [_sentence(issue) for part in intake.parts for issue in part.issues]

    def extracted(self, extracted: Extracted) -> None:
        """What was extracted."""
        self.counts["messages extracted"] += extracted.messages - extracted.failed - extracted.left
        self.counts["messages failed"] += extracted.failed
        self.counts["messages left for later"] += extracted.left
        self.counts["candidate facts"] += extracted.candidates
        self.counts["claims dropped"] += extracted.dropped
        self.refused["durability"] += extracted.not_durable
        self.errors = sorted({*self.errors, *extracted.errors})

    def applied(self, applied: Applied) -> None:
        """What became of the candidates."""
        self.counts["patches waiting for review"] += applied.waiting
        for action, number in applied.decisions.items():
            self.counts[OUTCOMES.get(action, f"decisions to {action}")] += number
        self.refused.update(applied.refused)

    def paid(self, language: Language) -> None:
        """What the models cost."""
        self.usage, self.model = language.usage, language.model("extract")
        unfinished = self.counts["messages failed"] or self.counts["messages left for later"]
        self.state = "stopped" if language.budget_reached else "incomplete" if unfinished else "completed"

    @property
    def has_written(self) -> bool:
        """Whether the run changed what is remembered."""
        return any(self.counts[what] for what in ("messages stored", "messages extracted", "messages failed")) or any(
            number for what, number in self.counts.items() if what.startswith("facts ")
        )

    def summary(self) -> dict[str, Any]:
        """Everything counted, as plain data."""
        usage = self.usage
        llm = {
            "model": self.model,
            "calls": usage.calls,
            "from ledger": usage.cached,
            "tokens_in": usage.tokens_in,
            "tokens_out": usage.tokens_out,
            "usd": round(usage.usd, 6),
        }
        counts = {what: number for what, number in self.counts.items() if number}
        refused = dict(sorted((gate, n) for gate, n in self.refused.items() if n))
        return {
            "run": self.run,
            "state": self.state,
            "commit": self.commit,
            "counts": counts,
            "refused": refused,
            "llm": llm,
            "issues": self.issues,
            "errors": self.errors,
            "notes": self._notes(counts),
        }

    def _notes(self, counts: Mapping[str, int]) -> list[str]:
        if self.dry_run:
            return ["A dry run: this is what would be stored and refused; nothing was changed."]
        if self.has_written:
            return []
        if not counts.get("messages read") and not counts.get("sources known already"):
            return ["Nothing to read: there is no message in it."]
        return ["Nothing new: all of it was known already, and nothing was asked of a model."]


def _sentence(issue: ReadIssue) -> str:
    lines = (
        f" (lines {', '.join(map(str, issue.lines))}{', …' if issue.count > len(issue.lines) else ''})"
        if issue.count > 1 and any(issue.lines)
        else ""
    )
    times = f" {issue.count} times" if issue.count > 1 else ""
    where = f", line {issue.line}" if issue.line and issue.count == 1 else ""
    return f"{issue.path}{where}: {issue.reason}{times}{lines}"


async def publish_summary(run: Run, tally: IngestTally) -> None:
    """Show the summary on the run's page: a Markdown artifact and tables of gates and outcomes."""
    tally.commit = newest_commit(run)
    if is_inline():
        return
    from prefect.artifacts import acreate_markdown_artifact, acreate_table_artifact

    await acreate_markdown_artifact(
        _markdown(run, tally.summary()), key="ingest-summary", description="What this run did"
    )
    rows = [{"outcome": what, "count": number} for what, number in tally.summary()["counts"].items()]
    rows += [{"outcome": f"refused: {gate}", "count": number} for gate, number in tally.summary()["refused"].items()]
    await acreate_table_artifact(rows, key="ingest-outcomes", description="Counts by gate and outcome")


def _markdown(run: Run, summary: Mapping[str, Any]) -> str:
    place = f"--store {run.store} --namespace {run.namespace}"
    llm = summary["llm"]
    lines = [
        f"# {summary['run']}: {summary['state']}",
        "",
        f"Store `{run.store}`, namespace `{run.namespace}`, commit {summary['commit']}.",
        "",
        *_table(("what", "count"), list(summary["counts"].items())),
        *_table(("refused by gate", "count"), list(summary["refused"].items())),
        f"Model `{llm['model'] or 'none'}`: {llm['calls']} calls, {llm['from ledger']} answers from the ledger, "
        f"{llm['tokens_in']} tokens in, {llm['tokens_out']} out, {llm['usd']:.4f} dollars.",
        "",
        "## The ledger",
        "",
        *_table(("decision", "fact", "reason"), _decisions(run)),
        f"All of it: `slowwave why {run.id} {place}`. Take the run back: `slowwave undo {run.id} {place}`.",
        "",
        *(f"- {_plain(issue)}" for issue in summary["issues"][:SHOWN_ISSUES]),
    ]
    return "\n".join(lines)


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    cells = [[_plain(str(cell)) for cell in row] for row in [head, *rows]]
    lines = [f"| {' | '.join(row)} |" for row in cells]
    return [lines[0], "|---" * len(head) + "|", *lines[1:], ""]


def _plain(text: str) -> str:
    """Stored text on one line, none of whose signs are Markdown or HTML."""
    marked = _SIGNS.sub(r"\\\g<0>", html.escape(" ".join(text.split()), quote=False))
    return marked.replace("://", "&#58;//").replace("www.", "www&#46;")


def _decisions(run: Run) -> list[tuple[str, str, str]]:
    """A few decisions of the run, the rarest kinds first: what was merged or closed tells more than what was added."""
    snapshot = store_of(run).snapshot()
    made = snapshot.frame("decisions", f"run_id = '{run.id}'", ["id", "action", "subject_id", "reason"])
    rarest = made.with_columns(times=pl.len().over("action")).sort("times", "action", "id").head(SHOWN_DECISIONS)
    facts = snapshot.by_ids("facts", rarest["subject_id"], ["id", "statement"])
    told = rarest.join(facts, left_on="subject_id", right_on="id", how="left", maintain_order="left")
    return list(told.select("action", pl.col("statement").fill_null(""), "reason").iter_rows())

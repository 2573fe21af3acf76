"""Tallies: what a run counts as it goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from inference.language import Language
from inference.request_batch import Role
from slowwave.common.records import Usage
from slowwave.common.run_counts import FACT_COUNTS, RunCount, effects
from slowwave.lifecycle.probes import GateVerdict
from slowwave.lifecycle.pruning_and_eviction import quoted_messages
from slowwave.reading.extraction.roster import may_be
from tasks.ingest.extraction import Extracted
from tasks.ingest.reading import FoundFiles, Intake
from tasks.ingest.sources import ReadIssue, SourceInfo
from tasks.runtime.run_pages import LISTED, SHOWN, DecisionSummary, TaskResult, show_summary
from tasks.runtime.runs import Counts, Run, newest_commit

LEFT = (
    RunCount.MESSAGES_FAILED,
    RunCount.MESSAGES_LEFT_FOR_LATER,
    RunCount.CONVERSATIONS_NOT_SUMMARISED,
    RunCount.CONVERSATIONS_LEFT_FOR_LATER,
    RunCount.COMMUNITIES_NOT_SUMMARISED,
    RunCount.COMMUNITIES_LEFT_FOR_LATER,
    RunCount.FACTS_LEFT_FOR_LATER,
    RunCount.PHASES_FAILED,
)
"""Counts of what the same command would try again."""
LITTLE = 100  # messages and facts, each of which is a handful of rows


@dataclass
class Tally(Counts):
    """Counts of one run, what its models cost, and how it ended."""

    dry_run: bool = False
    issues: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    decisions: list[DecisionSummary] = field(default_factory=list)
    model: str = ""
    stopped_by: str = ""
    commit: int = 0
    verdict: GateVerdict | None = None
    remarks: list[str] = field(default_factory=list)
    idle: str = "Nothing new: all of it was looked at before."
    """What is said of a run that wrote nothing; empty: nothing is."""
    has_written: bool = False
    """Whether the run changed what is remembered."""

    def proposed(self, titles: Sequence[str]) -> None:
        """Changes that the run left for a person to decide."""
        self.counts[RunCount.CHANGES_PROPOSED] += len(titles)
        self.decisions += [DecisionSummary("propose", title, "It waits for a person.") for title in titles]

    def failed(self, phase: str, error: str) -> None:
        """A phase that failed while the others went on."""
        self.counts[RunCount.PHASES_FAILED] += 1
        self.errors.append(f"{phase}: {error}")
        self.state = "incomplete"

    def gated(self, verdict: GateVerdict | None) -> None:
        """What the gate found."""
        self.verdict = verdict
        if verdict is not None and verdict.fell:
            self.state = "undone" if verdict.undone else "refused"

    def took(self, done: TaskResult | None) -> None:
        """What a part of the run did; None where it failed."""
        if done is not None:
            self.counts.update(done.counts)
            self.decisions += done.decisions
            self.issues += done.issues
            self.errors = sorted({*self.errors, *done.errors}) if done.errors else self.errors

    def paid(self, language: Language, role: Role) -> None:
        """What the models cost, and whether they left something undone."""
        self.usage, self.model = language.usage, language.model(role)
        self.stopped_by = language.stopped_by
        is_unfinished = any(self.counts[what] for what in LEFT)
        self.state = "stopped" if language.budget_reached else "incomplete" if is_unfinished else "completed"

    def summary(self) -> dict[str, Any]:
        """Everything counted, as plain data."""
        usage = self.usage
        llm = {"model": self.model, "from ledger": usage.cached, **usage.paid, "usd": round(usage.usd, 6)}
        counts = self.labelled()
        return {
            "run": self.run,
            "state": self.state,
            "commit": self.commit,
            **({"dry_run": True} if self.dry_run else {}),
            "counts": counts,
            "llm": llm,
            "decisions": [each.row for each in self.decisions[: LISTED if self.dry_run else SHOWN]],
            "issues": self.issues,
            "errors": self.errors,
            **({"stopped_by": self.stopped_by} if self.stopped_by else {}),
            "notes": [*self.notes(counts), *self._waiting(), *([self.verdict.sentence()] if self.verdict else [])],
            **({"gate": self.verdict.as_json()} if self.verdict else {}),
        }

    def _waiting(self) -> list[str]:
        proposed = RunCount.CHANGES_PROPOSED
        count = sum(number for what, number in self.counts.items() if what.rpartition(": ")[2] == proposed)
        return [f"{count} changes wait for a person: `slowwave review list`."] if count else []

    def notes(self, counts: Mapping[str, int]) -> list[str]:
        """Remarks on the counts, for a reader."""
        dry = ["A dry run: nothing was changed and no model was asked."] if self.dry_run else []
        has_more = dry or self.remarks or self.errors or self.has_written or self.counts[RunCount.CHANGES_PROPOSED]
        return [*dry, *self.remarks, *([] if has_more or not self.idle else [self.idle])]


async def publish_summary(run: Run, tally: Tally) -> None:
    """Show on the run's page what the run did; the tally learns the commit at which it ended."""
    tally.commit = newest_commit(run)
    await show_summary(run, tally.summary())


@dataclass
class IngestTally(Tally):
    """Counts of one ingest run."""

    refused: Counter[str] = field(default_factory=Counter)
    are_communities_due: bool = False
    owner: str | None = None
    wanted_owner: str = ""
    """The name that the settings give to the owner, which has that of the memory."""
    quoted: int | None = None
    """Messages that are kept as quotations still, where the run is to read them."""

    @property
    def has_written_little(self) -> bool:
        """Whether the rows that the run wrote are some hundred at most."""
        return sum(self.counts[what] for what in (RunCount.MESSAGES_STORED, *FACT_COUNTS)) < LITTLE

    def found(self, files: FoundFiles, new: Sequence[SourceInfo]) -> None:
        """Which sources there are."""
        self.counts[RunCount.SOURCES] += len(files.sources)
        self.counts[RunCount.SOURCES_KNOWN] += len(files.sources) - len(new)
        self.counts[RunCount.FILES_PASSED_OVER] += sum(issue.count for issue in files.issues)
        self.issues += [_sentence(issue) for issue in files.issues]

    def took(self, done: TaskResult | None) -> None:
        """What a part of the run did; None where it failed."""
        super().took(done)
        self.refused.update(done.refused if done else {})

    def admitted(self, intake: Intake, admitted: TaskResult) -> None:
        """What was read and stored."""
        self.took(admitted)
        issues = [issue for part in intake.parts for issue in part.issues]
        self.counts[RunCount.LINES_SKIPPED] += sum(issue.count for issue in issues if issue.kind == "unreadable")
        self.issues += [_sentence(issue) for issue in issues]

    def extracted(self, extracted: Extracted) -> None:
        """What was extracted."""
        self.counts.update(extracted.counts)
        self.refused["durability"] += extracted.not_durable
        self.owner = self.owner if extracted.owner is None else extracted.owner
        self.errors = sorted({*self.errors, *extracted.errors})

    def summary(self) -> dict[str, Any]:
        """Everything counted, and what each gate refused."""
        refused = dict(sorted((gate, n) for gate, n in self.refused.items() if n))
        return {**super().summary(), "refused": refused}

    def notes(self, counts: Mapping[str, int]) -> list[str]:
        """Remarks on the counts, for a reader."""
        if self.dry_run:
            would = [f"{quoted_messages(self.quoted)} and would be read by a model."] if self.quoted else []
            return ["A dry run: this is what would be stored and refused; nothing was changed.", *would]
        if not counts.get(RunCount.MESSAGES_READ) and not counts.get(RunCount.SOURCES_KNOWN) and self.quoted is None:
            return ["Nothing to read: there is no message in it."]
        if self.has_written:
            due = "Communities are due: `slowwave communities refresh`, or the next night, finds them anew."
            left = [f"{quoted_messages(self.quoted)} still: the same command goes on."] if self.quoted else []
            return [*self._speaker(), *left, *([due] if self.are_communities_due else [])]
        if self.quoted is not None and not counts.get(RunCount.MESSAGES_READ):
            return [f"{quoted_messages(self.quoted)} still." if self.quoted else "No message is kept as a quotation."]
        return ["Nothing new: all of it was known already, and nothing was asked of a model."]

    def _speaker(self) -> list[str]:
        """Whom the role `user` was taken to be, where messages named no speaker."""
        if self.owner is None:
            return []
        if self.owner and self.wanted_owner and not may_be(self.wanted_owner, [self.owner]):
            return [
                f"Messages of the role `user` without a speaker are by {self.owner}, as this memory knows, not by "
                f"{self.wanted_owner}. If it is somebody else, undo this run, and name the speaker in the messages or "
                "take another namespace."
            ]
        if self.owner:
            return [f"Messages of the role `user` without a speaker are by {self.owner}."]
        return [
            "The name of the person who speaks as `user` is not known yet. `slowwave entity rename Owner NAME` gives "
            "it, or `--owner NAME` before anything is read."
        ]


def _sentence(issue: ReadIssue) -> str:
    where = f"line {issue.line}" if issue.line else ""
    if issue.count > 1:
        return f"{issue.path}: {issue.reason} {issue.count} times{where and f', first in {where}'}"
    return f"{issue.path}{where and f', {where}'}: {issue.reason}"


WORST = ("completed", "incomplete", "stopped")
"""States from good to bad: of several, the worst is the state of the whole."""


def part_row(summary: Mapping[str, Any]) -> dict[str, Any]:
    """What a run did that is a part of another one, and for how much."""
    llm, changed = summary["llm"], ", ".join(effects(summary["counts"]))
    row = {"run": summary["run"], "state": str(summary["state"]), "calls": llm["calls"], "usd": llm["usd"]}
    return {**row, "changed": changed}


@dataclass
class WholeTally(Tally):
    """Counts of a run that has other runs as its parts."""

    runs: dict[str, str] = field(default_factory=dict)

    def part(self, what: str, summary: Mapping[str, Any]) -> None:
        """What a run cost that is a part of this one, and how it ended."""
        llm = summary["llm"]
        self.usage += Usage(llm["calls"], llm["from ledger"], llm["tokens_in"], llm["tokens_out"], llm["usd"])
        self.model = llm["model"] or self.model
        self.runs[what] = summary["run"]
        self.errors += [f"{what}: {error}" for error in summary["errors"]]
        if summary.get("stopped_by"):
            self.stopped_by = self.stopped_by or f"{what}: {summary['stopped_by']}"
        state = summary["state"] if summary["state"] in WORST else "incomplete"
        self.state = max(self.state, state, key=WORST.index)

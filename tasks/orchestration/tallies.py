"""Tallies: what a run counts as it goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from inference.language import Language
from inference.request_batch import Role
from slowwave.lifecycle import run_counts
from slowwave.lifecycle.probes import GateVerdict
from slowwave.records import Usage
from slowwave.review.changes import in_quotes
from tasks.ingest.admission import Admitted
from tasks.ingest.application import Applied
from tasks.ingest.extraction import Extracted
from tasks.ingest.reading import Intake, Sources
from tasks.ingest.sessions import Summarised
from tasks.ingest.sources import ReadIssue
from tasks.nightly.artifacts import LinkedArtifacts
from tasks.nightly.reconciliation import Reconciled
from tasks.runtime.decisions_shown import LISTED, SHOWN, DecisionSummary
from tasks.runtime.runs import lease_wait

OUTCOMES = {
    "create": run_counts.FACTS_LEARNED,
    "reassert": run_counts.FACTS_CONFIRMED,
    "supersede": run_counts.FACTS_SUPERSEDED,
    "retract": run_counts.FACTS_RETRACTED,
    "close": run_counts.FACTS_ENDED,
    "refuse": run_counts.CHANGES_REFUSED,
    "dispute": run_counts.CONTRADICTIONS_NOTED,
    "suspect": run_counts.FACTS_SUSPECT,
    "trust": run_counts.FACTS_TRUSTED,
    "shorten": run_counts.FACTS_ENDED_EARLIER,
    "prefer": run_counts.FACTS_PREFERRED,
}
UNTOLD = (run_counts.CONVERSATIONS_NOT_SUMMARISED, run_counts.CONVERSATIONS_LEFT_FOR_LATER)
WRITTEN = (
    run_counts.MESSAGES_STORED,
    run_counts.MESSAGES_EXTRACTED,
    run_counts.MESSAGES_FAILED,
    run_counts.CONVERSATIONS_SUMMARISED,
)


@dataclass
class Tally:
    """Counts of one run, what its models cost, and how it ended."""

    run: str
    dry_run: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    issues: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    decisions: list[DecisionSummary] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    state: str = "completed"
    stopped_by: str = ""
    commit: int = 0
    waited_s: float = 0.0
    bytes_before: int | None = None
    bytes_after: int | None = None
    verdict: GateVerdict | None = None
    has_linked: bool = False
    always: ClassVar[tuple[str, ...]] = ()
    """Counts that the run's table shows even where they are nothing."""

    def proposed(self, titles: Sequence[str]) -> None:
        """Changes that the run left for a person to decide; a pair with a proposal is listed once."""
        self.counts[run_counts.CHANGES_PROPOSED] += len(titles)
        self.decisions = [each for each in self.decisions if not any(_asks_about(title, each) for title in titles)]
        self.decisions += [DecisionSummary("propose", title, "It waits for a person.") for title in titles]

    def failed(self, phase: str, error: str) -> None:
        """A phase that failed while the others went on."""
        self.counts[run_counts.PHASES_FAILED] += 1
        self.errors.append(f"{phase}: {error}")
        self.state = "incomplete"

    def sized(self, before: int | None, after: int | None) -> None:
        """Bytes that the namespace took before and after."""
        self.bytes_before, self.bytes_after = before, after

    def gated(self, verdict: GateVerdict | None) -> None:
        """What the gate found."""
        self.verdict = verdict
        if verdict is not None and verdict.fell:
            self.state = "undone" if verdict.undone else "refused"

    def reconciled(self, reconciled: Reconciled) -> None:
        """What says the same, what is over, and what clashes."""
        self.counts[run_counts.FACTS_COMPARED] += reconciled.looked_at
        self.counts[run_counts.FACTS_MERGED] += reconciled.merged
        self.counts[run_counts.FACTS_REWORDED] += reconciled.reworded
        self.counts[run_counts.FACTS_SUPERSEDED] += reconciled.updated + reconciled.corrected
        self.counts[run_counts.CONTRADICTIONS_FOUND] += reconciled.clashing
        self.counts[run_counts.PAIRS_KEPT_APART] += reconciled.kept
        self.counts[run_counts.PAIRS_LEFT_UNDECIDED] += reconciled.pending
        self.counts[run_counts.PAIRS_NOT_DECIDED] += reconciled.failed
        self.counts[run_counts.FACTS_LEFT_FOR_LATER] += reconciled.left
        self.counts[run_counts.QUESTIONS_FOR_A_MODEL] += reconciled.would_ask
        self.decisions += reconciled.decisions
        self.errors = sorted({*self.errors, *reconciled.errors})

    def linked(self, linked: LinkedArtifacts) -> None:
        """What became of documents and pasted texts."""
        for what, number in linked.counts.items():
            self.counts[f"artifacts: {what}"] += number
        self.has_linked = self.has_linked or any(linked.counts.values())
        self.counts[run_counts.ARTIFACTS_LEFT_FOR_LATER] += linked.left
        self.counts[run_counts.QUESTIONS_FOR_A_MODEL] += linked.would_ask
        self.errors = sorted({*self.errors, *linked.errors})

    def paid(self, language: Language, role: Role) -> None:
        """What the models cost, and whether they left something undone."""
        self.usage, self.model = language.usage, language.model(role)
        self.stopped_by = language.stopped_by
        self.state = "stopped" if language.budget_reached else "incomplete" if self.is_unfinished else "completed"

    @property
    def is_unfinished(self) -> bool:
        """Whether something is left that the same command would try again."""
        left = (run_counts.FACTS_LEFT_FOR_LATER, run_counts.ARTIFACTS_LEFT_FOR_LATER, run_counts.PHASES_FAILED)
        return any(self.counts[what] for what in left)

    @property
    def has_written(self) -> bool:
        """Whether the run changed what is remembered."""
        written = (run_counts.FACTS_COMPARED, run_counts.PROFILES_RENEWED, run_counts.FLAGS_CLEARED)
        return self.has_linked or any(self.counts[what] for what in written)

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
        size = {"before": self.bytes_before, "after": self.bytes_after}
        return {
            "run": self.run,
            "state": self.state,
            "commit": self.commit,
            **({"dry_run": True} if self.dry_run else {}),
            "counts": counts,
            "llm": llm,
            "decisions": [
                dict(zip(("decision", "fact", "reason"), telling.cells, strict=True))
                for telling in self.decisions[: LISTED if self.dry_run else SHOWN]
            ],
            "issues": self.issues,
            "errors": self.errors,
            **lease_wait(self.waited_s),
            **({"stopped_by": self.stopped_by} if self.stopped_by else {}),
            "notes": [*self.notes(counts), *self._waiting(), *([self.verdict.sentence()] if self.verdict else [])],
            **({"bytes": size} if None not in size.values() else {}),
            **({"gate": self.verdict.as_json()} if self.verdict else {}),
        }

    def _waiting(self) -> list[str]:
        count = sum(
            number for what, number in self.counts.items() if what.rpartition(": ")[2] == run_counts.CHANGES_PROPOSED
        )
        return [f"{count} changes wait for a person: `slowwave review list`."] if count else []

    def notes(self, counts: Mapping[str, int]) -> list[str]:
        """Remarks on the counts, for a reader."""
        if self.dry_run:
            return ["A dry run: nothing was changed and no model was asked."]
        return [] if self.has_written else ["Nothing new: all of it was looked at before."]


@dataclass
class IngestTally(Tally):
    """Counts of one ingest run."""

    refused: Counter[str] = field(default_factory=Counter)
    are_communities_due: bool = False
    owner: str | None = None

    def found(self, sources: Sources) -> None:
        """Which sources there are."""
        self.counts[run_counts.SOURCES] += len(sources.new) + len(sources.known)
        self.counts[run_counts.SOURCES_KNOWN] += len(sources.known)
        self.counts["files passed over"] += sum(issue.count for issue in sources.issues)
        self.issues += [_sentence(issue) for issue in sources.issues]

    def admitted(self, intake: Intake, admitted: Admitted) -> None:
        """What was read and stored."""
        self.counts[run_counts.MESSAGES_READ] += admitted.read
        self.counts[run_counts.MESSAGES_KNOWN] += admitted.known
        self.counts[run_counts.MESSAGES_STORED] += admitted.stored
        self.counts[run_counts.MESSAGES_REDACTED] += admitted.redacted
        self.counts[run_counts.MESSAGES_RENAMED] += admitted.renamed
        self.issues += admitted.issues
        self.refused.update(admitted.refused)
        issues = [issue for part in intake.parts for issue in part.issues]
        self.counts["lines skipped"] += sum(issue.count for issue in issues if issue.kind == "unreadable")
        self.issues += [_sentence(issue) for issue in issues]

    def extracted(self, extracted: Extracted) -> None:
        """What was extracted."""
        self.counts[run_counts.MESSAGES_EXTRACTED] += extracted.messages - extracted.failed - extracted.left
        self.counts[run_counts.MESSAGES_FAILED] += extracted.failed
        self.counts[run_counts.MESSAGES_LEFT_FOR_LATER] += extracted.left
        self.counts[run_counts.CANDIDATES] += extracted.candidates
        self.counts[run_counts.CLAIMS_DROPPED] += extracted.dropped
        self.counts[run_counts.CLAIMS_TOO_UNSURE] += extracted.too_unsure
        self.counts[run_counts.BELIEFS_HELD_BACK] += extracted.held_back
        self.counts[run_counts.BELIEFS_PROMOTED] += extracted.promoted
        self.counts[run_counts.BELIEFS_DROPPED] += extracted.evicted
        self.counts[run_counts.RELATIONS_LEARNED] += extracted.relations
        self.counts[run_counts.RELATIONS_UNKNOWN] += extracted.unmapped
        self.refused["durability"] += extracted.not_durable
        self.owner = self.owner if extracted.owner is None else extracted.owner
        self.errors = sorted({*self.errors, *extracted.errors})

    def applied(self, applied: Applied) -> None:
        """What became of the candidates."""
        for action, number in applied.decisions.items():
            self.counts[OUTCOMES.get(action, f"decisions to {action}")] += number
        self.refused.update(applied.refused)

    def related(self, links: int, joined: int) -> None:
        """How many links between entities changed, and how many new entities joined a community."""
        self.counts[run_counts.LINKS_CHANGED] += links
        self.counts[run_counts.ENTITIES_JOINED] += joined

    def summarised(self, summarised: Summarised) -> None:
        """Which conversations got a summary."""
        self.counts[run_counts.CONVERSATIONS_SUMMARISED] += summarised.written
        self.counts[run_counts.CONVERSATIONS_NOT_SUMMARISED] += summarised.failed
        self.counts[run_counts.CONVERSATIONS_LEFT_FOR_LATER] += summarised.left
        self.errors = sorted({*self.errors, *summarised.errors})

    @property
    def is_unfinished(self) -> bool:
        """Whether messages wait for another try, facts for a decision, or conversations for a summary."""
        waiting = (run_counts.MESSAGES_FAILED, run_counts.MESSAGES_LEFT_FOR_LATER, *UNTOLD)
        return any(self.counts[what] for what in waiting) or super().is_unfinished

    @property
    def has_written(self) -> bool:
        """Whether the run changed what is remembered."""
        return self.has_linked or any(self.counts[what] for what in (*WRITTEN, *run_counts.FACTS))

    def summary(self) -> dict[str, Any]:
        """Everything counted, and what each gate refused."""
        refused = dict(sorted((gate, n) for gate, n in self.refused.items() if n))
        return {**super().summary(), "refused": refused}

    def notes(self, counts: Mapping[str, int]) -> list[str]:
        """Remarks on the counts, for a reader."""
        if self.dry_run:
            return ["A dry run: this is what would be stored and refused; nothing was changed."]
        if self.has_written:
            due = "Communities are due: `slowwave communities refresh`, or the next night, finds them anew."
            return [*self._speaker(), *([due] if self.are_communities_due else [])]
        if not counts.get(run_counts.MESSAGES_READ) and not counts.get(run_counts.SOURCES_KNOWN):
            return ["Nothing to read: there is no message in it."]
        return ["Nothing new: all of it was known already, and nothing was asked of a model."]

    def _speaker(self) -> list[str]:
        """Whom the role `user` was taken to be, where messages named no speaker."""
        if self.owner is None:
            return []
        if self.owner:
            return [f"Messages of the role `user` without a speaker are by {self.owner}."]
        return ["The name of the person who speaks as `user` is not known yet; `--owner NAME` tells it."]


def _sentence(issue: ReadIssue) -> str:
    lines = (
        f" (lines {', '.join(map(str, issue.lines))}{', …' if issue.count > len(issue.lines) else ''})"
        if issue.count > 1 and any(issue.lines)
        else ""
    )
    times = f" {issue.count} times" if issue.count > 1 else ""
    where = f", line {issue.line}" if issue.line and issue.count == 1 else ""
    return f"{issue.path}{where}: {issue.reason}{times}{lines}"


def _asks_about(title: str, decision: DecisionSummary) -> bool:
    """Whether the pair that waits is the one that a proposal of this title is about."""
    return decision.action == "wait" and all(in_quotes(side) in title for side in decision.statement.split(" | "))

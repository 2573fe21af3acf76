"""Tallies: what a run counts as it goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from inference.language import Language
from inference.request_batch import Role
from slowwave.lifecycle.probes import Verdict
from slowwave.records import Usage
from slowwave.review.descriptions import in_quotes
from tasks.ingest.admission import Admitted
from tasks.ingest.application import Applied
from tasks.ingest.extraction import Extracted
from tasks.ingest.reading import Intake, Sources
from tasks.ingest.sessions import Summarised
from tasks.ingest.sources import ReadIssue
from tasks.nightly.artifacts import LinkedArtifacts
from tasks.nightly.reconciliation import Reconciled
from tasks.runtime.decisions_shown import LISTED, TOLD, Telling
from tasks.runtime.runs import told_wait

OUTCOMES = {
    "create": "facts learned",
    "reassert": "facts confirmed",
    "supersede": "facts superseded",
    "retract": "facts retracted",
    "close": "facts ended",
    "refuse": "changes refused",
    "dispute": "contradictions noted",
    "suspect": "facts now suspect",
    "trust": "facts no longer suspect",
    "shorten": "facts ended earlier",
    "prefer": "facts preferred",
}
UNTOLD = ("conversations not summarised", "conversations left for later")
WRITTEN = ("messages stored", "messages extracted", "messages failed", "conversations summarised")


@dataclass
class Tally:
    """Counts of one run, what its models cost, and how it ended."""

    run: str
    dry_run: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    issues: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    told: list[Telling] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    state: str = "completed"
    stopped_by: str = ""
    commit: int = 0
    waited_s: float = 0.0
    bytes_before: int | None = None
    bytes_after: int | None = None
    verdict: Verdict | None = None
    always: ClassVar[tuple[str, ...]] = ()
    """Counts that the run's table shows even where they are nothing."""

    def proposed(self, titles: Sequence[str]) -> None:
        """Changes that the run left for a person to decide; a pair that is put to one is told once."""
        self.counts["changes proposed"] += len(titles)
        self.told = [each for each in self.told if not any(_asks_about(title, each) for title in titles)]
        self.told += [Telling("propose", title, "It waits for a person.") for title in titles]

    def failed(self, phase: str, error: str) -> None:
        """A phase that failed while the others went on."""
        self.counts["phases failed"] += 1
        self.errors.append(f"{phase}: {error}")
        self.state = "incomplete"

    def sized(self, before: int | None, after: int | None) -> None:
        """Bytes that the namespace took before and after."""
        self.bytes_before, self.bytes_after = before, after

    def gated(self, verdict: Verdict | None) -> None:
        """What the gate found."""
        self.verdict = verdict
        if verdict is not None and verdict.fell:
            self.state = "undone" if verdict.undone else "refused"

    def reconciled(self, reconciled: Reconciled) -> None:
        """What says the same, what is over, and what clashes."""
        self.counts["facts compared"] += reconciled.looked_at
        self.counts["facts merged"] += reconciled.merged
        self.counts["facts reworded"] += reconciled.reworded
        self.counts["facts superseded"] += reconciled.updated + reconciled.corrected
        self.counts["contradictions found"] += reconciled.clashing
        self.counts["pairs kept apart"] += reconciled.kept
        self.counts["pairs left undecided"] += reconciled.pending
        self.counts["pairs not decided"] += reconciled.failed
        self.counts["facts left for later"] += reconciled.left
        self.counts["questions that a model would be asked"] += reconciled.would_ask
        self.told += reconciled.told
        self.errors = sorted({*self.errors, *reconciled.errors})

    def linked(self, linked: LinkedArtifacts) -> None:
        """What became of documents and pasted texts."""
        for what, number in linked.counts.items():
            self.counts[f"artifacts: {what}"] += number
        self.counts["artifacts left for later"] += linked.left
        self.counts["questions that a model would be asked"] += linked.would_ask
        self.errors = sorted({*self.errors, *linked.errors})

    def paid(self, language: Language, role: Role) -> None:
        """What the models cost, and whether they left something undone."""
        self.usage, self.model = language.usage, language.model(role)
        self.stopped_by = language.stopped_by
        self.state = "stopped" if language.budget_reached else "incomplete" if self.is_unfinished else "completed"

    @property
    def is_unfinished(self) -> bool:
        """Whether something is left that the same command would try again."""
        left = ("facts not decided", "facts left for later", "artifacts left for later", "phases failed")
        return any(self.counts[what] for what in left)

    @property
    def has_written(self) -> bool:
        """Whether the run changed what is remembered."""
        return any(self.counts[what] for what in ("facts compared", "profiles renewed", "flags cleared")) or any(
            number for what, number in self.counts.items() if what.startswith("artifacts: ")
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
                for telling in self.told[: LISTED if self.dry_run else TOLD]
            ],
            "issues": self.issues,
            "errors": self.errors,
            **told_wait(self.waited_s),
            **({"stopped_by": self.stopped_by} if self.stopped_by else {}),
            "notes": [*self.notes(counts), *self._waiting(), *([self.verdict.sentence()] if self.verdict else [])],
            **({"bytes": size} if None not in size.values() else {}),
            **({"gate": self.verdict.as_json()} if self.verdict else {}),
        }

    def _waiting(self) -> list[str]:
        count = sum(number for what, number in self.counts.items() if what.endswith("changes proposed"))
        return [f"{count} changes wait for a person: `slowwave review list`."] if count else []

    def notes(self, counts: Mapping[str, int]) -> list[str]:
        """What a reader of the counts should know."""
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
        self.counts["sources"] += len(sources.new) + len(sources.known)
        self.counts["sources known already"] += len(sources.known)
        self.counts["files passed over"] += sum(issue.count for issue in sources.issues)
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
        issues = [issue for part in intake.parts for issue in part.issues]
        self.counts["lines skipped"] += sum(issue.count for issue in issues if issue.kind == "unreadable")
        self.issues += [_sentence(issue) for issue in issues]

    def extracted(self, extracted: Extracted) -> None:
        """What was extracted."""
        self.counts["messages extracted"] += extracted.messages - extracted.failed - extracted.left
        self.counts["messages failed"] += extracted.failed
        self.counts["messages left for later"] += extracted.left
        self.counts["candidate facts"] += extracted.candidates
        self.counts["claims dropped"] += extracted.dropped
        self.counts["claims too unsure to hold"] += extracted.too_unsure
        self.counts["beliefs held back"] += extracted.held
        self.counts["beliefs promoted"] += extracted.promoted
        self.counts["beliefs dropped"] += extracted.evicted
        self.counts["relations learned"] += extracted.relations
        self.counts["relations unknown"] += extracted.unmapped
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
        self.counts["links between entities"] += links
        self.counts["entities that joined a community"] += joined

    def summarised(self, summarised: Summarised) -> None:
        """Which conversations got a summary."""
        self.counts["conversations summarised"] += summarised.written
        self.counts["conversations not summarised"] += summarised.failed
        self.counts["conversations left for later"] += summarised.left
        self.errors = sorted({*self.errors, *summarised.errors})

    @property
    def is_unfinished(self) -> bool:
        """Whether messages wait for another try, facts for a decision, or conversations for a summary."""
        waiting = ("messages failed", "messages left for later", *UNTOLD)
        return any(self.counts[what] for what in waiting) or super().is_unfinished

    @property
    def has_written(self) -> bool:
        """Whether the run changed what is remembered."""
        return any(self.counts[what] for what in WRITTEN) or any(
            number for what, number in self.counts.items() if what.startswith(("facts ", "artifacts: "))
        )

    def summary(self) -> dict[str, Any]:
        """Everything counted, and what each gate refused."""
        refused = dict(sorted((gate, n) for gate, n in self.refused.items() if n))
        return {**super().summary(), "refused": refused}

    def notes(self, counts: Mapping[str, int]) -> list[str]:
        """What a reader of the counts should know."""
        if self.dry_run:
            return ["A dry run: this is what would be stored and refused; nothing was changed."]
        if self.has_written:
            due = "Communities are due: `slowwave communities refresh`, or the next night, finds them anew."
            return [*self._speaker(), *([due] if self.are_communities_due else [])]
        if not counts.get("messages read") and not counts.get("sources known already"):
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


def _asks_about(title: str, told: Telling) -> bool:
    """Whether the pair that waits is the one that a proposal of this title is about."""
    return told.action == "wait" and all(in_quotes(side) in title for side in told.statement.split(" | "))

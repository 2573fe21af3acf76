"""Tallies of maintenance: what a sweep, a decay, an upkeep or a whole night counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from slowwave.errors import RecallFell
from slowwave.lifecycle.run_counts import RunCount
from slowwave.records import Usage
from storage.upkeep import UpkeepReport
from tasks.nightly.communities import Refreshed
from tasks.nightly.eviction import Evicted
from tasks.nightly.reconciliation import Reconciled
from tasks.nightly.steward import Pruned, Scored
from tasks.nightly.usage import Counted
from tasks.runtime.decisions_shown import DecisionSummary

from .tallies import Tally

if TYPE_CHECKING:
    from .phases import Night

SHOWN_EACH = 4
"""Decisions of each phase that the summary of a night tells."""


@dataclass
class StewardTally(Tally):
    """Counts of one sweep of the steward."""

    is_learning: bool = False
    always: ClassVar[tuple[str, ...]] = (
        RunCount.FACTS_SCORED,
        RunCount.FACTS_PRUNED,
        RunCount.FACTS_MERGED,
        RunCount.FACTS_RESTORED,
    )

    def restored(self, number: int) -> None:
        """Facts that people brought back since the sweep before."""
        self.counts[RunCount.FACTS_RESTORED] += number

    def counted(self, counted: Counted) -> None:
        """Recalls that were counted."""
        self.counts[RunCount.RECALLS_COUNTED] += counted.recalls

    def scored(self, scored: Scored) -> None:
        """How many facts have a score, and of how many it changed."""
        self.counts[RunCount.FACTS_SCORED] += scored.scored
        self.counts[RunCount.SCORES_CHANGED] += scored.written

    def weighed(self, entities: int | None) -> None:
        """Entities whose weight changed."""
        self.counts[RunCount.ENTITIES_WEIGHED] += entities or 0

    def pruned(self, pruned: Pruned | None) -> None:
        """What faded."""
        if pruned is not None:
            self.counts[RunCount.FACTS_PRUNED] += pruned.pruned
            self.decisions += pruned.decisions

    def merged(self, merged: Reconciled | None) -> None:
        """What repeated."""
        if merged is not None:
            self.reconciled(merged)

    @property
    def has_written(self) -> bool:
        """Whether the run changed what is remembered."""
        written = (
            RunCount.RECALLS_COUNTED,
            RunCount.SCORES_CHANGED,
            RunCount.ENTITIES_WEIGHED,
            RunCount.FACTS_PRUNED,
            RunCount.FACTS_MERGED,
        )
        return any(self.counts[what] for what in written)

    def notes(self, counts: Mapping[str, int]) -> list[str]:
        """Remarks on the counts, for a reader."""
        learning = (
            "Still learning how the memory is used, until as many facts were recalled as [steward] learning_events "
            "says (50): facts are scored, nothing fades or is merged."
        )
        lines = [learning] if self.is_learning else []
        if self.dry_run:
            return ["A dry run: nothing was changed and no model was asked.", *lines]
        is_idle = not (lines or self.has_written or self.counts[RunCount.CHANGES_PROPOSED])
        return ["Nothing to do: no score changed, nothing fades or repeats."] if is_idle else lines


@dataclass
class DecayTally(Tally):
    """Counts of one run of decay."""

    def evicted(self, evicted: Evicted | None) -> None:
        """What moved out of the way."""
        if evicted is not None:
            self.counts.update(evicted.counts)
            self.decisions += evicted.decisions

    def counted(self, counted: Counted) -> None:
        """Recalls that were counted."""
        self.counts[RunCount.RECALLS_COUNTED] += counted.recalls

    def faded(self, links: int | None) -> None:
        """Links that weigh less now."""
        self.counts[RunCount.LINKS_FADED] += links or 0

    @property
    def has_written(self) -> bool:
        """Whether the run changed what is remembered."""
        return any(number for what, number in self.counts.items() if what != RunCount.PHASES_FAILED)

    def notes(self, counts: Mapping[str, int]) -> list[str]:
        """Remarks on the counts, for a reader."""
        if self.dry_run:
            return ["A dry run: nothing was changed."]
        return [] if self.has_written else ["Nothing to do: nothing has been out of use for so long."]


@dataclass
class CommunityTally(Tally):
    """Counts of one refresh of communities."""

    is_written: bool = False
    always: ClassVar[tuple[str, ...]] = (
        RunCount.COMMUNITIES,
        RunCount.COMMUNITIES_FOUND,
        RunCount.COMMUNITIES_SUMMARISED,
    )

    def refreshed(self, refreshed: Refreshed) -> None:
        """Counts and decisions of the refresh."""
        self.counts.update(refreshed.counts)
        self.counts[RunCount.COMMUNITIES_NOT_SUMMARISED] += refreshed.failed
        self.counts[RunCount.COMMUNITIES_LEFT_FOR_LATER] += refreshed.left
        self.counts[RunCount.QUESTIONS_FOR_A_MODEL] += refreshed.would_ask
        self.is_written = refreshed.is_written
        self.decisions += refreshed.decisions
        self.errors = sorted({*self.errors, *refreshed.errors})

    @property
    def is_unfinished(self) -> bool:
        """Whether communities are left that the same command would ask about again."""
        left = (RunCount.COMMUNITIES_NOT_SUMMARISED, RunCount.COMMUNITIES_LEFT_FOR_LATER)
        return any(self.counts[what] for what in left) or super().is_unfinished

    @property
    def has_written(self) -> bool:
        """Whether the run changed what is remembered."""
        return self.is_written

    def notes(self, counts: Mapping[str, int]) -> list[str]:
        """Remarks on the counts, for a reader."""
        if self.dry_run:
            return ["A dry run: nothing was changed and no model was asked."]
        if not counts.get(RunCount.COMMUNITIES):
            return ["No communities: no two entities are related yet."]
        return [] if self.has_written else ["Nothing new: every community is as it was."]


@dataclass
class UpkeepTally(Tally):
    """Counts of one run of upkeep."""

    def tended(self, report: UpkeepReport) -> None:
        """What was compacted and indexed."""
        self.counts[RunCount.TABLES_COMPACTED] += len(report.compacted)
        self.counts[RunCount.INDEXES_MADE] += len(report.indexed)

    def notes(self, counts: Mapping[str, int]) -> list[str]:
        """Remarks on the counts, for a reader."""
        return ["No row changed."]


@dataclass
class NightTally(Tally):
    """Counts of one night: those of its phases, each under its name."""

    runs: dict[str, str] = field(default_factory=dict)
    gates: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    fallen: list[RecallFell] = field(default_factory=list)
    resumes: str = ""
    remarks: list[str] = field(default_factory=list)

    def resumed(self, night: Night) -> None:
        """Which night this run goes on with, and what of it is done."""
        self.resumes = night.resumes
        for phase, summary in night.done.items():
            self._add(phase, summary)
        if night.verdict is not None:
            self.remarks.append(f"The interrupted night: {night.verdict.reason()}")

    def phase(self, phase: str, summary: Mapping[str, Any] | None) -> None:
        """What a phase did; None where it failed."""
        if summary is not None:
            self.runs[phase] = summary["run"]
            self._add(phase, summary)

    def fell(self, phase: str, error: RecallFell) -> None:
        """A phase after which recall fell."""
        self.fallen.append(error)
        self.gates[phase] = error.measured
        self.counts[RunCount.PHASES_TAKEN_BACK] += len(error.measured.get("undone", ()))
        self.remarks.append(f"{phase}: {error.message}")
        self.state = "incomplete"

    def _add(self, phase: str, summary: Mapping[str, Any]) -> None:
        for what, number in summary["counts"].items():
            self.counts[f"{phase}: {what}"] += number
        if "gate" in summary:
            self.gates[phase] = summary["gate"]
            self.remarks.append(f"{phase}: {summary['notes'][-1]}")
        llm = summary["llm"]
        self.usage += Usage(llm["calls"], llm["from ledger"], llm["tokens_in"], llm["tokens_out"], llm["usd"])
        self.model = llm["model"] or self.model
        self.decisions += [
            DecisionSummary(row["decision"], row["fact"], row["reason"]) for row in summary["decisions"][:SHOWN_EACH]
        ]
        self.errors += [f"{phase}: {error}" for error in summary["errors"]]
        if summary.get("stopped_by"):
            self.stopped_by = self.stopped_by or f"{phase}: {summary['stopped_by']}"
        if summary["state"] in ("stopped", "incomplete") and self.state != "stopped":
            self.state = summary["state"]

    @property
    def has_written(self) -> bool:
        """Whether the night changed what is remembered."""
        return bool(self.counts)

    def summary(self) -> dict[str, Any]:
        """Everything counted, with the run of each phase."""
        return {**super().summary(), "phases": self.runs, "resumes": self.resumes, "gates": self.gates}

    def notes(self, counts: Mapping[str, int]) -> list[str]:
        """Remarks on the counts, for a reader."""
        resumed = [f"Goes on with the night {self.resumes}, which was interrupted."] if self.resumes else []
        dry = ["A dry run: nothing was changed and no model was asked."] if self.dry_run else []
        return [*dry, *resumed, *self.remarks]

"""The tally of a backfill: what its windows and its night did, window by window."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slowwave.errors import RecallFell, SlowwaveError
from slowwave.intake.time_windows import TimeWindow
from slowwave.maintenance.effects import effects
from slowwave.records import Usage

from .engine import is_inline
from .tallies import Tally

LEARNED = ("facts learned", "facts confirmed")
WORST = ("completed", "incomplete", "stopped")
"""States from good to bad: of several, the worst is the state of the whole."""


@dataclass
class BackfillTally(Tally):
    """Counts of one backfill in one namespace."""

    namespace: str = ""
    windows: list[dict[str, Any]] = field(default_factory=list)
    runs: dict[str, str] = field(default_factory=dict)
    resumes: str = ""
    night: dict[str, Any] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def resumed(self, broken: str, windows: int) -> None:
        """Which backfill this one goes on with, and how many of its windows are done."""
        self.resumes = broken
        self.counts["windows done before"] += windows

    def child(self, what: str, summary: Mapping[str, Any], window: TimeWindow | None = None) -> None:
        """What a run did that is a part of this one."""
        llm, counts = summary["llm"], summary["counts"]
        self.usage += Usage(llm["calls"], llm["from ledger"], llm["tokens_in"], llm["tokens_out"], llm["usd"])
        self.model = llm["model"] or self.model
        self.counts.update({name: number for name, number in counts.items() if isinstance(number, int)})
        self.errors += [f"{what}: {error}" for error in summary["errors"]]
        self.issues += summary["issues"]
        self.runs[what] = summary["run"]
        if summary.get("stopped_by"):
            self.stopped_by = self.stopped_by or f"{what}: {summary['stopped_by']}"
        self.state = max(self.state, _known(summary["state"]), key=WORST.index)
        if window is not None:
            self.counts["windows"] += 1
            self._row(what, window, summary["state"], counts, llm, summary["run"])
        elif what == "sleep":
            self.night = {"run": summary["run"], "state": summary["state"], "changed": effects(counts)}

    def lost(self, what: str, window: TimeWindow, error: str, paid: Usage) -> None:
        """A window that failed while the others went on, and what it had cost by then."""
        self.usage += paid
        self.counts["windows failed"] += 1
        self.errors.append(f"{what}: {error}")
        self.state = "incomplete"
        self._row(what, window, "failed", {}, {"calls": paid.calls, "usd": paid.usd}, "")

    def gave_up(self, error: SlowwaveError) -> None:
        """The namespace could not be read or written."""
        self.errors.append(f"{self.namespace}: {error.message}")
        self.state = "incomplete"

    def fell(self, error: RecallFell) -> None:
        """A phase of the night was taken back because recall fell."""
        if "counts" in error.told:
            self.child("sleep", {**error.told, "errors": (), "issues": ()})
        self.remarks.append(f"sleep: {error.message}")
        self.state = max(self.state, "incomplete", key=WORST.index)

    def handled(self) -> int:
        """Messages that windows have taken."""
        return sum(row["messages"] for row in self.windows)

    @property
    def has_written(self) -> bool:
        """Whether the backfill changed what is remembered."""
        return bool(self.windows or self.counts["messages stored"])

    def summary(self) -> dict[str, Any]:
        """Everything counted, with a row for each window and the run of each part."""
        more = {"namespace": self.namespace, "windows": self.windows, "runs": self.runs, "resumes": self.resumes}
        return {**super().summary(), **more, "night": self.night}

    def newest(self) -> str:
        """What became of the window that ended last, in a line."""
        row = self.windows[-1]
        told = ", ".join(f"{row[what]:,} {what if row[what] != 1 else what[:-1]}" for what in ("messages", "facts"))
        paid = f", {row['calls']:,} call{'s' * (row['calls'] != 1)}, {row['usd']:.4f} dollars" if row["calls"] else ""
        return f"{row['window']}: {told}{paid}, {row['state']}"

    def notes(self, counts: Mapping[str, int]) -> list[str]:
        """What a reader of the counts should know."""
        told = [f"Goes on with the backfill {self.resumes}, which did not come to its end."] if self.resumes else []
        idle = (
            []
            if self.windows or "sleep" in self.runs or self.errors
            else ["Nothing waits there: nothing was extracted."]
        )
        return [*told, *idle, *self.remarks]

    def _row(
        self, name: str, window: TimeWindow, state: str, counts: Mapping[str, int], llm: Mapping[str, Any], run: str
    ) -> None:
        taken = sum(counts.get(f"messages {what}", 0) for what in ("extracted", "failed"))
        self.windows.append(
            {
                "namespace": self.namespace,
                "window": name,
                "messages": taken,
                "facts": sum(counts.get(what, 0) for what in LEARNED),
                "calls": llm["calls"],
                "usd": round(llm["usd"], 6),
                "state": state,
                "run": run,
            }
        )


def told_night(night: Mapping[str, Any]) -> str:
    """What became of the night, in a line."""
    return f"sleep: {', '.join(night['changed']) or 'nothing changed'}, {night['state']}"


def _known(state: str) -> str:
    return state if state in WORST else "incomplete"


def together(tallies: Sequence[BackfillTally]) -> dict[str, Any]:
    """One summary of the same backfill in one or more namespaces."""
    summaries = [tally.summary() for tally in tallies]
    if len(summaries) == 1:
        return summaries[0]
    first = summaries[0]
    counts: Counter[str] = Counter()
    for each in summaries:
        counts.update(each["counts"])
    llm = {name: sum(each["llm"][name] for each in summaries) for name in first["llm"] if name != "model"}
    lists = ("windows", "errors", "issues", "notes", "decisions")
    return {
        **first,
        "namespace": ", ".join(each["namespace"] for each in summaries),
        "state": max((each["state"] for each in summaries), key=WORST.index),
        "counts": dict(counts),
        "llm": {"model": first["llm"]["model"], **llm},
        "namespaces": {each["namespace"]: each for each in summaries},
        **{name: [row for each in summaries for row in each[name]] for name in lists},
    }


async def publish_windows(rows: Sequence[Mapping[str, Any]]) -> None:
    """Show the windows on the run's page, as a table."""
    if is_inline() or not rows:
        return
    from prefect.artifacts import acreate_table_artifact

    await acreate_table_artifact([dict(row) for row in rows], key="backfill-windows", description="Window by window")

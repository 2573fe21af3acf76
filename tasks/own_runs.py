"""Runs of one task: what a person asks for at once is recorded, listed and undone like any other run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from slowwave.records import Usage
from storage.store import Store

from .runs import Run, recorded

R = TypeVar("R")


@dataclass(slots=True)
class Counts:
    """The counts of a run for its row in `runs`."""

    run: str
    counts: dict[str, int] = field(default_factory=dict)
    state: str = "completed"
    waited_s: float = 0.0
    usage: Usage = field(default_factory=Usage)

    def summary(self) -> dict[str, Any]:
        """Everything counted, as plain data."""
        return {"run": self.run, "state": self.state, "counts": {k: n for k, n in self.counts.items() if n}}


def as_run(run: Run, parameters: Mapping[str, Any], work: Callable[[], R], count: Callable[[R], dict[str, int]]) -> R:
    """Do the work as a run of its own, which `slowwave runs` lists and undo takes back."""
    tally = Counts(run.id)
    with recorded(run, tally, dict(parameters)):
        done = work()
        tally.counts = count(done)
    return done


def existing_store(run: Run) -> Store:
    """The namespace, which is not made for a question about it."""
    return Store.open(run.store, run.namespace, retention=run.retention)

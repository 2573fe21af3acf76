"""OpenTelemetry: the spans of runs, for a program that has set it up, or was started by its agent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from slowwave.common.records import COSTS
from slowwave.common.telemetry import Value, span


@contextmanager
def watched_run(name: str, run_id: str, namespace: str) -> Iterator[Callable[[str, Mapping[str, Any]], None]]:
    """Inside, a run of a flow is measured. The caller passes state and summary of the end to the yielded function."""
    about = {"slowwave.flow": name, "slowwave.run.id": run_id, "slowwave.namespace": namespace}
    with span(f"run {name}", about) as note:
        yield lambda state, summary: note({"slowwave.run.state": state, **_attributes(summary)})


def _attributes(summary: Mapping[str, Any]) -> dict[str, Value]:
    """Counts and costs of a run's summary, and nothing else that is in it."""
    counts, llm = summary.get("counts", {}), summary.get("llm", {})
    names = {what: what.replace(": ", ".").replace(" ", "_") for what in counts}
    found: dict[str, Value] = {f"slowwave.count.{name}": counts[what] for what, name in names.items()}
    return found | {f"slowwave.llm.{key}": llm[key] for key in COSTS if key in llm}

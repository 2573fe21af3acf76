"""OpenTelemetry, set up where the environment asks for it; and the spans of flows, tasks and runs.

Without `OTEL_EXPORTER_OTLP_ENDPOINT` or an `OTEL_…_EXPORTER` nothing is imported and nothing is measured. A program
that has set up OpenTelemetry itself keeps what it has, and hears of us.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal

from slowwave.lifecycle.run_effects import retired, written
from storage.telemetry import Note, Value, count, is_watched, span

from .telemetry_export import start_telemetry

if TYPE_CHECKING:
    from .runs import Run

Kind = Literal["flow", "task"]
Body = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class _Open:
    """The span of the flow that is under way."""

    flow: str
    note: Note


_open: ContextVar[_Open | None] = ContextVar("open", default=None)


def traced(kind: Kind, name: str, body: Body) -> Body:
    """The body of a flow or task, which is measured wherever somebody watches; asynchronous if the body is."""

    @wraps(body)
    async def wait(*args: Any, **kwargs: Any) -> Any:
        if not _is_on(kind):
            return await body(*args, **kwargs)
        with _measured(kind, name) as note:
            done = await body(*args, **kwargs)
            note(_attributes(done))
            return done

    @wraps(body)
    def run(*args: Any, **kwargs: Any) -> Any:
        if not _is_on(kind):
            return body(*args, **kwargs)
        with _measured(kind, name):
            return body(*args, **kwargs)

    return wait if inspect.iscoroutinefunction(body) else run


def _is_on(kind: Kind) -> bool:
    """Whether anybody watches; a flow looks whether the environment asks for it, in whatever process it runs."""
    if kind == "flow":
        start_telemetry(os.environ)
    return is_watched()


@contextmanager
def _measured(kind: Kind, name: str) -> Iterator[Note]:
    with span(f"{kind} {name}", {f"slowwave.{kind}": name}) as note:
        token = _open.set(_Open(name, note)) if kind == "flow" else None
        try:
            yield note
        finally:
            if token is not None:
                _open.reset(token)


@contextmanager
def watched_run(run: Run) -> Iterator[Callable[[str, Mapping[str, Any]], None]]:
    """Inside, a run is measured: as the flow that it is one of, or as a span of its own.

    The caller passes state and summary of the end to the yielded function.
    """
    about: dict[str, Value] = {
        "slowwave.flow": run.flow, "slowwave.run.id": run.id, "slowwave.namespace": run.namespace,
    }  # fmt: skip

    def ended(state: str, summary: Mapping[str, Any]) -> None:
        note(_attributes({**summary, "state": state}))
        _count(run.flow, state, summary.get("counts", {}))

    flow = _open.get()
    if flow is not None and flow.flow == run.flow:
        note = flow.note
        note(about)
        yield ended
        return
    with span(f"run {run.flow}", about) as note:
        yield ended


def _attributes(summary: Any) -> dict[str, Value]:
    """State, counts and costs of a run's summary, and nothing else that is in it."""
    if not isinstance(summary, Mapping):
        return {}
    names = {"run": "slowwave.run.id", "state": "slowwave.run.state", "namespace": "slowwave.namespace"}
    found: dict[str, Value] = {name: str(summary[key]) for key, name in names.items() if summary.get(key)}
    counts = summary.get("counts", {})
    found |= {f"slowwave.count.{_key(what)}": number for what, number in counts.items() if isinstance(number, int)}
    llm = summary.get("llm", {})
    return found | {
        f"slowwave.llm.{key}": llm[key] for key in ("calls", "tokens_in", "tokens_out", "usd") if key in llm
    }


def _key(what: str) -> str:
    return what.replace(": ", ".").replace(" ", "_")


def _count(flow: str, state: str, counts: Mapping[str, int]) -> None:
    """What a run adds to the measures; a night adds nothing, because its phases did."""
    which: dict[str, Value] = {"slowwave.flow": flow}
    count("slowwave.runs", 1, "{run}", "Runs that ended", {**which, "slowwave.run.state": state})
    if flow != "sleep":
        count("slowwave.facts.written", written(counts), "{fact}", "Facts learned and reworded", which)
        count("slowwave.facts.retired", retired(counts), "{fact}", "Facts that no longer hold or moved away", which)

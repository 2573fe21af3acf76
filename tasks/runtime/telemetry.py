"""OpenTelemetry: the spans of flows, tasks and runs, for a program that has set it up, or was started by its agent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

from slowwave.common.telemetry import Note, Value, span

from .retrying import within

Kind = Literal["flow", "task"]
Body = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class _Open:
    """The span of the flow that is under way."""

    flow: str
    note: Note


_open: ContextVar[_Open | None] = ContextVar("open", default=None)


def traced(kind: Kind, name: str, body: Body) -> Body:
    """The body of a flow or task, asynchronous or not, which is measured wherever somebody watches."""
    return within(lambda: _measured(kind, name), body)


@contextmanager
def _measured(kind: Kind, name: str) -> Iterator[None]:
    with span(f"{kind} {name}", {f"slowwave.{kind}": name}) as note:
        token = _open.set(_Open(name, note)) if kind == "flow" else None
        try:
            yield
        finally:
            if token is not None:
                _open.reset(token)


@contextmanager
def watched_run(name: str, run_id: str, namespace: str) -> Iterator[Callable[[str, Mapping[str, Any]], None]]:
    """Inside, a run of a flow is measured: as the span of that flow, or as one of its own.

    The caller passes state and summary of the end to the yielded function.
    """
    about: dict[str, Value] = {
        "slowwave.flow": name, "slowwave.run.id": run_id, "slowwave.namespace": namespace,
    }  # fmt: skip

    def ended(state: str, summary: Mapping[str, Any]) -> None:
        note(_attributes({**summary, "state": state}))

    flow = _open.get()
    if flow is not None and flow.flow == name:
        note = flow.note
        note(about)
        yield ended
        return
    with span(f"run {name}", about) as note:
        yield ended


def _attributes(summary: Mapping[str, Any]) -> dict[str, Value]:
    """State, counts and costs of a run's summary, and nothing else that is in it."""
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

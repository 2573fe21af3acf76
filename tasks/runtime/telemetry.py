"""OpenTelemetry: the spans of flows, tasks and runs, and where they go.

Without `OTEL_EXPORTER_OTLP_ENDPOINT`, or that of one signal, nothing is imported and nothing is measured. A program
that has set up OpenTelemetry itself keeps what it has, and hears of us.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from slowwave.common import __version__
from slowwave.common.run_counts import retired, written
from slowwave.common.telemetry import Note, Value, count, span

from .retrying import within

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.sdk.trace.export import SpanExporter

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
    """A flow looks whether the environment asks for it, in whatever process it runs."""
    if kind == "flow":
        start_telemetry(os.environ)
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
        _count(name, state, summary.get("counts", {}))

    flow = _open.get()
    if flow is not None and flow.flow == name:
        note = flow.note
        note(about)
        yield ended
        return
    with span(f"run {name}", about) as note:
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
        count("slowwave.facts.written", written(counts), "{fact}", "Facts learned", which)
        count("slowwave.facts.retired", retired(counts), "{fact}", "Facts that no longer hold or moved away", which)


# Export to a collector, over OTLP.


ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
TIMEOUT_S = 3.0  # for a collector that does not answer: nobody should wait ten seconds for a recall to end

log = logging.getLogger("slowwave")
_done: list[bool] = []


def wanted(environ: Mapping[str, str]) -> set[str]:
    """The signals for which the environment names a collector: TRACES, METRICS."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return set()
    return {
        signal
        for signal in ("TRACES", "METRICS")
        if (ENDPOINT in environ or f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT" in environ)
        and environ.get(f"OTEL_{signal}_EXPORTER", "").strip().lower() != "none"
    }


def start_telemetry(environ: Mapping[str, str]) -> bool:
    """Set OpenTelemetry up once, if the environment asks for it; whether it is set up."""
    if not _done:
        signals = wanted(environ)
        _done.append(bool(signals) and _start(signals, environ))
    return _done[0]


def _start(signals: Collection[str], environ: Mapping[str, str]) -> bool:
    try:
        from opentelemetry import metrics, trace
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
    except ImportError:
        log.warning("No telemetry: it needs the extra `otel`: pip install 'slowwave[otel]'.")
        return False
    logging.getLogger("opentelemetry").setLevel(logging.ERROR)  # of a collector that is away one line is enough
    named = {"service.name": environ.get("OTEL_SERVICE_NAME") or "slowwave", "service.version": __version__}
    resource = Resource.create(named)
    timeout = None if "OTEL_EXPORTER_OTLP_TIMEOUT" in environ else TIMEOUT_S
    if "TRACES" in signals and isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        provider = TracerProvider(resource=resource)
        provider.add_span_processor(without_words(OTLPSpanExporter(timeout=timeout)))
        trace.set_tracer_provider(provider)
    if "METRICS" in signals and not isinstance(metrics.get_meter_provider(), MeterProvider):
        reader = PeriodicExportingMetricReader(OTLPMetricExporter(timeout=timeout))
        metrics.set_meter_provider(MeterProvider([reader], resource=resource))
    return True


def without_words(exporter: SpanExporter) -> SpanProcessor:
    """Exports spans, also those of other libraries, without events and status texts: these may quote a person."""
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace import Status

    class WordlessProcessor(BatchSpanProcessor):
        def on_end(self, span: ReadableSpan) -> None:
            super().on_end(
                ReadableSpan(
                    name=span.name,
                    context=span.context,
                    parent=span.parent,
                    resource=span.resource,
                    attributes=span.attributes,
                    links=span.links,
                    kind=span.kind,
                    instrumentation_scope=span.instrumentation_scope,
                    status=Status(span.status.status_code),
                    start_time=span.start_time,
                    end_time=span.end_time,
                )
            )

    return WordlessProcessor(exporter)

"""Where traces and metrics go: to a collector over OTLP, or to standard error."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricExporter
    from opentelemetry.sdk.trace.export import SpanExporter

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
TIMEOUT_S = 3.0  # for a collector that does not answer: nobody should wait ten seconds for a recall to end
KINDS = ("none", "console", "otlp")

log = logging.getLogger("slowwave")
_done: list[bool] = []


def wanted(environ: Mapping[str, str]) -> dict[str, str]:
    """The exporter of each signal that the environment asks for: otlp or console; empty for none."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return {}
    found = {}
    for signal in ("TRACES", "METRICS"):
        goes = ENDPOINT in environ or f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT" in environ
        kind = environ.get(f"OTEL_{signal}_EXPORTER", "").strip().lower() or ("otlp" if goes else "none")
        if kind != "none":
            found[signal] = kind
    return found


def start_telemetry(environ: Mapping[str, str]) -> bool:
    """Set OpenTelemetry up once, if the environment asks for it; whether it is set up.

    What cannot be done is a warning: a memory works without being watched.
    """
    if _done:
        return _done[0]
    exporters = wanted(environ)
    _done.append(bool(exporters) and _can_be_met(exporters, environ) and _start(exporters, environ))
    return _done[0]


def _can_be_met(exporters: Mapping[str, str], environ: Mapping[str, str]) -> bool:
    unknown = sorted({kind for kind in exporters.values() if kind not in KINDS})
    protocol = environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    if unknown:
        log.warning("No telemetry: there is no exporter %s; use otlp, console or none.", ", ".join(unknown))
    elif "otlp" in exporters.values() and protocol != "http/protobuf":
        log.warning("No telemetry: OTEL_EXPORTER_OTLP_PROTOCOL=%s; only http/protobuf is spoken.", protocol)
    else:
        return True
    return False


def _start(exporters: Mapping[str, str], environ: Mapping[str, str]) -> bool:
    try:
        from opentelemetry import metrics, trace
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider

        spans, measures = _span_exporter(exporters, environ), _metric_exporter(exporters, environ)
    except ImportError:
        log.warning("No telemetry: it needs the extra `otel`: pip install 'slowwave[otel]'.")
        return False
    logging.getLogger("opentelemetry").setLevel(logging.ERROR)  # of a collector that is away one line is enough
    named = {"service.name": environ.get("OTEL_SERVICE_NAME") or "slowwave", "service.version": version("slowwave")}
    resource = Resource.create(named)
    if spans is not None and isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        provider = TracerProvider(resource=resource)
        from .wordless_spans import WordlessProcessor

        provider.add_span_processor(WordlessProcessor(spans))
        trace.set_tracer_provider(provider)
    if measures is not None and not isinstance(metrics.get_meter_provider(), MeterProvider):
        metrics.set_meter_provider(MeterProvider([PeriodicExportingMetricReader(measures)], resource=resource))
    return True


def _span_exporter(exporters: Mapping[str, str], environ: Mapping[str, str]) -> SpanExporter | None:
    if exporters.get("TRACES") == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter(out=sys.stderr)
    if "TRACES" not in exporters:
        return None
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter(timeout=_timeout(environ, "TRACES"))


def _metric_exporter(exporters: Mapping[str, str], environ: Mapping[str, str]) -> MetricExporter | None:
    if exporters.get("METRICS") == "console":
        from opentelemetry.sdk.metrics.export import ConsoleMetricExporter

        return ConsoleMetricExporter(out=sys.stderr)
    if "METRICS" not in exporters:
        return None
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    return OTLPMetricExporter(timeout=_timeout(environ, "METRICS"))


def _timeout(environ: Mapping[str, str], signal: str) -> float:
    """Seconds, as the environment says."""
    named = environ.get(f"OTEL_EXPORTER_OTLP_{signal}_TIMEOUT") or environ.get("OTEL_EXPORTER_OTLP_TIMEOUT")
    return float(named) if named else TIMEOUT_S

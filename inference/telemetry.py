"""Spans and measures of model calls, in the words of OpenTelemetry's conventions for generative AI.

They are sent if OpenTelemetry is set up in this process; nothing is imported for it. They hold model, role, tokens and
dollars, never the text of a prompt or an answer.
"""

from __future__ import annotations

import sys
import time
from functools import lru_cache
from typing import Any

from slowwave.common.records import LedgerEntry

SCOPE = "slowwave"
OPERATION = "chat"


def note_call(entry: LedgerEntry) -> None:
    """Record a call that ended now, with its cost, with or without an answer."""
    who = {
        "gen_ai.operation.name": OPERATION,
        "gen_ai.system": entry.provider,
        "gen_ai.provider.name": entry.provider,
        "gen_ai.request.model": entry.model,
        "slowwave.role": entry.role,
    }
    if (trace := _module("trace", "get_tracer")) is not None:
        _span(trace, entry, who)
    if (metrics := _module("metrics", "get_meter")) is not None:
        _measure(metrics, entry, who)


def _span(trace: Any, entry: LedgerEntry, who: dict[str, str]) -> None:
    end = time.time_ns()
    span = trace.get_tracer(SCOPE).start_span(
        f"{OPERATION} {entry.model}",
        kind=trace.SpanKind.CLIENT,
        attributes={
            **who,
            "gen_ai.usage.input_tokens": entry.tokens_in,
            "gen_ai.usage.output_tokens": entry.tokens_out,
            "slowwave.prompt": entry.prompt_name,
            "slowwave.usd": entry.usd,
            "slowwave.attempts": entry.attempts,
        },
        start_time=end - int(entry.latency_s * 1e9),
    )
    if entry.error:
        span.set_status(trace.StatusCode.ERROR)
    span.end(end)


def _measure(metrics: Any, entry: LedgerEntry, who: dict[str, str]) -> None:
    tokens = _instrument(metrics, "histogram", "gen_ai.client.token.usage", "{token}", "Tokens of a call")
    tokens.record(entry.tokens_in, {**who, "gen_ai.token.type": "input"})
    tokens.record(entry.tokens_out, {**who, "gen_ai.token.type": "output"})
    took = _instrument(metrics, "histogram", "gen_ai.client.operation.duration", "s", "Time of a call")
    took.record(entry.latency_s, who)
    _instrument(metrics, "counter", "slowwave.model.calls", "{call}", "Requests sent").add(entry.attempts, who)
    _instrument(metrics, "counter", "slowwave.model.cost", "{USD}", "Dollars paid").add(entry.usd, who)


@lru_cache(maxsize=16)
def _instrument(metrics: Any, kind: str, name: str, unit: str, meaning: str) -> Any:
    return getattr(metrics.get_meter(SCOPE), f"create_{kind}")(name, unit=unit, description=meaning)


def _module(name: str, needed: str) -> Any:
    """A module of OpenTelemetry, if this process has it: what was never imported was never set up."""
    found = sys.modules.get(f"opentelemetry.{name}")
    return found if hasattr(found, needed) else None

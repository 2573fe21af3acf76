"""Spans, for whoever has set up OpenTelemetry in this process.

Nothing is imported for it: a program that never imported OpenTelemetry cannot have set it up, so its modules are looked
for among those that are there. They contain names, counts and seconds: no text of a message, no query, and no
message of an error, which may quote one.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

SCOPE = "slowwave"

Value = str | int | float | bool
Note = Callable[[Mapping[str, Value]], None]


@contextmanager
def span(name: str, attributes: Mapping[str, Value] | None = None) -> Iterator[Note]:
    """Measures the time inside; the yielded function adds attributes. Of an error only the kind is kept."""
    trace = _tracing()
    if trace is None:
        yield lambda _: None  # nobody listens
        return
    opened = trace.get_tracer(SCOPE).start_as_current_span(
        name, attributes=attributes, record_exception=False, set_status_on_exception=False
    )
    with opened as current:
        try:
            yield current.set_attributes
        except BaseException as error:
            current.set_attribute("error.type", type(error).__name__)
            current.set_status(trace.StatusCode.ERROR)
            raise


def ended_span(
    name: str, seconds: float, attributes: Mapping[str, Value], error: str = "", *, is_client: bool = False
) -> None:
    """Tell of something that took so many seconds and ends now; `error` is the kind of error it ended with.

    `is_client`: a request to another server.
    """
    trace = _tracing()
    if trace is None:
        return
    end = time.time_ns()
    kind = trace.SpanKind.CLIENT if is_client else trace.SpanKind.INTERNAL
    start = end - int(seconds * 1e9)
    span = trace.get_tracer(SCOPE).start_span(name, kind=kind, attributes=attributes, start_time=start)
    if error:
        span.set_attribute("error.type", error)
        span.set_status(trace.StatusCode.ERROR)
    span.end(end)


def _tracing() -> Any:
    """The module of OpenTelemetry, if this process has it, with all that it is made of."""
    found = sys.modules.get("opentelemetry.trace")
    return found if hasattr(found, "get_tracer") else None

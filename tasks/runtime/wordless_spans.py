"""Exported spans have no words: messages of errors, our own and those of other libraries, may quote a person.

It needs the extra `otel`, so it is imported only where telemetry is exported.
"""

from __future__ import annotations

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Status


class WordlessProcessor(BatchSpanProcessor):
    """Exports spans, those of other libraries as well, without their events and without words about their status."""

    def on_end(self, span: ReadableSpan) -> None:
        """Take the span into the next batch."""
        super().on_end(wordless(span))


def wordless(span: ReadableSpan) -> ReadableSpan:
    """The span without words: its name, times, attributes, and whether it failed."""
    return ReadableSpan(
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

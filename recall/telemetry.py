"""The span and the measure of a recall: how long it took and how much it found, never what was asked."""

from __future__ import annotations

from slowwave.answers import Recollection
from storage.telemetry import ended_span, measure


def note_recall(found: Recollection, k: int) -> None:
    """Tell of a recall that ended now; `k` facts were asked for."""
    seconds, told = found.took_ms / 1000, {"slowwave.recall.k": k, "slowwave.recall.found": len(found.facts)}
    ended_span("recall", seconds, {**told, "slowwave.recall.took_ms": found.took_ms})
    measure("slowwave.recall.duration", seconds, "s", "Time of a recall")

"""Audits: an export of another memory system is read and judged; no store is needed, and none is opened."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from inference.embedding import open_embedder
from slowwave.gates.noise import ContentScorer, prototype_texts
from slowwave.maintenance.audit import audit
from slowwave.maintenance.audit_report import Audit
from slowwave.profiles import profile_of
from slowwave.settings import Settings

from .foreign import read_foreign

LEAST_COSINE = 0.6  # what denies or opposes a statement is less like it than what repeats it


def audit_export(
    path: str | Path,
    settings: Settings,
    system: str = "auto",
    *,
    now: datetime | None = None,
    stale_days: int = 365,
    examples: int = 3,
) -> Audit:
    """What is wrong with an export, by the rules and thresholds of the settings; reads the file and changes nothing.

    Raises `UnusableInput` for what cannot be read.
    """
    file = read_foreign(path, system)
    seat = open_embedder(settings.embedder)
    texts = prototype_texts(settings.ingest.noise)
    scorer = ContentScorer(seat.embed(texts.quality), seat.embed(texts.noise), settings.ingest.noise.noise_top_k)
    merge = settings.consolidate
    return audit(
        file.content,
        seat.embed(file.content.claims["statement"].to_list()),
        scorer,
        now or datetime.now(UTC),
        file.uri,
        stale_days=stale_days,
        examples=examples,
        resolve=min(merge.resolve_cosine or 1.0, profile_of(seat.name).resolve, LEAST_COSINE),
        merge=merge,
        evaluate=settings.ingest.evaluate,
        noise=settings.ingest.noise,
    )

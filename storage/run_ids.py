"""Ids of runs."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4


def new_run_id(kind: str, at: datetime | None = None) -> str:
    """The id of a new run: its kind, its start (now) and eight random letters; ids of one kind sort by time."""
    return f"{kind}-{at or datetime.now(UTC):%Y%m%d-%H%M%S}-{uuid4().hex[:8]}"

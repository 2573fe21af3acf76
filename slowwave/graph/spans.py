"""When each fact is told: all the times at which `validity.valid_facts` would choose it, as intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

import polars as pl

from slowwave import frames
from slowwave.validity import successors

SPANS: frames.Schema = {"id": frames.TEXT, "from_": frames.TIME, "to": frames.TIME}
"""One interval in which a fact is told: from the first moment on, up to but without the second, which may be null."""
_WAS_TRUE = ("active", "superseded", "archived")
_NEVER = datetime.min.replace(tzinfo=UTC)

Span = tuple[datetime, datetime | None]
Row = tuple[str, datetime | None, datetime | None]
"""Status, valid_from and valid_to of one fact."""


def told_spans(facts: pl.DataFrame) -> pl.DataFrame:
    """SPANS of every fact, in order of id and time; one that was never true has none.

    `facts` (id, status, valid_from, valid_to, replaced_by) must hold the replacements of its rows, step by step.
    """
    true_once = facts.filter(pl.col("status").is_in(_WAS_TRUE), pl.col("valid_from").is_not_null())
    whole = true_once.select("id", "replaced_by", from_="valid_from", to="valid_to")
    plain = whole.filter(pl.col("replaced_by").is_null()).drop("replaced_by")
    replaced = facts.filter(pl.col("replaced_by").is_not_null())
    steps = dict(replaced.select("id", "replaced_by").iter_rows())
    known: dict[str, Row] = {
        name: (status, start, end)
        for name, status, start, end in facts.select("id", "status", "valid_from", "valid_to").iter_rows()
    }
    hidden = whole.filter(pl.col("replaced_by").is_not_null())["id"]
    cut = [(name, start, end) for name in hidden for start, end in _spans(name, steps, known)]
    both = pl.concat([plain, pl.DataFrame(cut, schema=dict(SPANS), orient="row")])
    return both.filter(pl.col("to").is_null() | (pl.col("to") > pl.col("from_"))).sort("id", "from_")


def _spans(name: str, steps: Mapping[str, str], known: Mapping[str, Row]) -> Iterator[Span]:
    """The intervals of a fact that was replaced: its own, without those in which a replacement tells it."""
    _, start, own_end = known[name]
    chain = successors(name, steps)
    end = _end(own_end, [known.get(step) for step in chain])
    if start is None or (end is not None and end <= start):
        return
    for first, last in sorted(_blocked(name, chain, steps, known), key=lambda span: span[0]):
        if end is not None and first >= end:
            break
        if first > start:
            yield start, first
        if last is None:
            return
        start = max(start, last)
    if end is None or start < end:
        yield start, end


def _end(own: datetime | None, chain: list[Row | None]) -> datetime | None:
    """When the fact, or the wording that it became a part of, ended; never true: the beginning of time."""
    if own is not None:
        return own
    for step in chain:
        if step is None:
            return None
        if step[0] == "retracted":
            return _NEVER
        if step[2] is not None:
            return step[2]
    return None


def _blocked(name: str, chain: list[str], steps: Mapping[str, str], known: Mapping[str, Row]) -> Iterator[Span]:
    """When a replacement that is true tells the fact instead; in a circle only the one that is told (T35)."""
    own = (known[name][0] == "active", name)
    for step in chain:
        status, start, end = known.get(step, ("", None, None))
        if status not in _WAS_TRUE or start is None or (end is not None and end <= start):
            continue
        if name not in successors(step, steps) or (status == "active", step) > own:
            yield start, end

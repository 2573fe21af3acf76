"""When a fact holds: live now, valid at a time, believed at a time, and which status may follow which (§6.3).

Each condition exists twice, as a polars expression and as the SQL text of a store's filter; both say the same.
`slowwave.moments` puts them together for a question about any time.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import polars as pl

from slowwave.errors import SlowwaveError
from slowwave.timestamps import in_utc

MAX_CHAIN = 64
TRANSITIONS: Mapping[str, frozenset[str]] = {
    # A candidate that is older than what is known is applied as already superseded (out-of-order rule).
    "candidate": frozenset({"active", "rejected", "superseded"}),
    "active": frozenset({"superseded", "retracted", "archived"}),
    "archived": frozenset({"active"}),
    "rejected": frozenset(),
    "superseded": frozenset(),
    "retracted": frozenset(),
}
STATUSES: tuple[str, ...] = tuple(TRANSITIONS)
_WAS_TRUE = ("active", "superseded", "archived")


def is_live(now: datetime) -> pl.Expr:
    """Active, still believed and still true at `now`."""
    open_ended = pl.col("valid_to").is_null() | (pl.col("valid_to") > now)
    return (pl.col("status") == "active") & pl.col("expired_at").is_null() & open_ended


def as_of(t: datetime) -> pl.Expr:
    """True in the world at `t`, whatever happened since; retracted facts never were (S2-36)."""
    open_ended = pl.col("valid_to").is_null() | (pl.col("valid_to") > t)
    return pl.col("status").is_in(_WAS_TRUE) & (pl.col("valid_from") <= t) & open_ended


def known_as_of(t: datetime) -> pl.Expr:
    """Believed by the store at `t`: the second time axis. Needs the stamp `created_at`."""
    return (pl.col("created_at") <= t) & (pl.col("expired_at").is_null() | (pl.col("expired_at") > t))


def live_sql(now: datetime) -> str:
    """`is_live` as a filter of a store."""
    return f"status = 'active' AND expired_at IS NULL AND {_not_over_sql(now)}"


def as_of_sql(t: datetime) -> str:
    """`as_of` as a filter of a store."""
    listed = ", ".join(f"'{status}'" for status in _WAS_TRUE)
    return f"status IN ({listed}) AND valid_from <= {time_sql(t)} AND {_not_over_sql(t)}"


def _not_over_sql(t: datetime) -> str:
    """What has no end, or one later than t.

    Written so that the index of `valid_to` is left alone: it would give nine of ten rows, to be intersected with the
    few that another index finds, and a look-up would take twice as long (decision 29).
    """
    return f"coalesce(valid_to > {time_sql(t)}, true)"


def known_as_of_sql(t: datetime) -> str:
    """`known_as_of` as a filter of a store."""
    moment = time_sql(t)
    return f"created_at <= {moment} AND (expired_at IS NULL OR expired_at > {moment})"


def time_sql(t: datetime) -> str:
    """A moment as a SQL literal in UTC, to the microsecond."""
    return f"timestamp '{in_utc(t):%Y-%m-%d %H:%M:%S.%f}'"


def valid_facts(facts: pl.DataFrame, t: datetime) -> pl.DataFrame:
    """Facts true at `t`, each told once (§6.3); `facts` must hold the replacements of its rows, step by step.

    A fact is left out while a replacement, through any number of steps, is itself true at `t`: redundant facts keep an
    open end when another wording absorbs them. Such a wording ends with the one that absorbed it, and was never true if
    that one was retracted. Of facts that replace each other in a circle the live one is told, else the newest id (T35).
    """
    valid = facts.filter(as_of(t))
    replaced = facts.filter(pl.col("replaced_by").is_not_null())
    steps = dict(replaced.select("id", "replaced_by").iter_rows())
    starts = [start for start in valid["id"] if start in steps]
    if not starts:
        return valid
    alive = dict(valid.select("id", pl.col("status") == "active").iter_rows())
    ends = {name: (status, end) for name, status, end in facts.select("id", "status", "valid_to").iter_rows()}
    hidden = [
        start
        for start in starts
        if _is_told_otherwise(start, steps, alive) or _is_over(start, [start, *successors(start, steps)], ends, t)
    ]
    return valid.filter(~pl.col("id").is_in(hidden))


def _is_told_otherwise(start: str, steps: Mapping[str, str], alive: Mapping[str, bool]) -> bool:
    """Whether a replacement that is true tells it."""
    for step in successors(start, steps):
        is_circle = step in alive and start in successors(step, steps)
        if step in alive and (not is_circle or (alive[step], step) > (alive[start], start)):
            return True
    return False


def _is_over(start: str, chain: list[str], ends: Mapping[str, tuple[str, datetime | None]], t: datetime) -> bool:
    """Whether the wording that it became a part of has ended by `t`, or was retracted."""
    for name in chain:
        status, end = ends.get(name, ("", None))
        if status == "retracted" and name != start:
            return True
        if end is not None or not status:
            return end is not None and end <= t
    return False


def successors(start: str, replaced_by: Mapping[str, str]) -> list[str]:
    """The replacements of a fact, nearest first, without itself; ends at 64 steps or where they would turn back."""
    chain: list[str] = []
    step = replaced_by.get(start)
    while step is not None and step != start and step not in chain and len(chain) < MAX_CHAIN:
        chain.append(step)
        step = replaced_by.get(step)
    return chain


def check_transition(old: str, new: str) -> None:
    """Raise unless a fact of status `old` may get status `new`; staying the same is always allowed."""
    for status in (old, new):
        if status not in TRANSITIONS:
            raise SlowwaveError(
                f"There is no status {status!r} (from {old!r} to {new!r}).", f"Known: {', '.join(STATUSES)}."
            )
    if old != new and new not in TRANSITIONS[old]:
        allowed = ", ".join(sorted(TRANSITIONS[old])) or "nothing: it is final"
        raise SlowwaveError(f"A fact that is {old} cannot become {new}.", f"After {old} may come: {allowed}.")


def is_out_of_order(said_at: datetime, head_said_at: datetime) -> bool:
    """Whether something said at `said_at` comes too late to overturn a head last said at `head_said_at` (§6.3)."""
    return said_at < head_said_at

"""When a fact holds: live now, valid at a time, believed at a time, and which status may follow which (§6.3).

Each condition exists twice, as a polars expression and as the SQL text of a store's filter; both say the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import polars as pl

from slowwave.errors import SlowwaveError, UnusableInput

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
    return f"status = 'active' AND expired_at IS NULL AND (valid_to IS NULL OR valid_to > {time_sql(now)})"


def as_of_sql(t: datetime) -> str:
    """`as_of` as a filter of a store."""
    listed = ", ".join(f"'{status}'" for status in _WAS_TRUE)
    moment = time_sql(t)
    return f"status IN ({listed}) AND valid_from <= {moment} AND (valid_to IS NULL OR valid_to > {moment})"


def known_as_of_sql(t: datetime) -> str:
    """`known_as_of` as a filter of a store."""
    moment = time_sql(t)
    return f"created_at <= {moment} AND (expired_at IS NULL OR expired_at > {moment})"


def time_sql(t: datetime) -> str:
    """A moment as a SQL literal in UTC, to the microsecond."""
    return f"timestamp '{_utc(t):%Y-%m-%d %H:%M:%S.%f}'"


def valid_facts(facts: pl.DataFrame, t: datetime) -> pl.DataFrame:
    """Facts true at `t`, without those whose replacement, through any number of steps, is itself true at `t`.

    Redundant facts keep an open end when a wording of the same fact absorbs them; this is what shows one of them.
    """
    valid = facts.filter(as_of(t))
    alive = set(valid["id"])
    steps = dict(facts.filter(pl.col("replaced_by").is_not_null()).select("id", "replaced_by").iter_rows())
    hidden = [start for start in steps if start in alive and not alive.isdisjoint(successors(start, steps))]
    return valid.filter(~pl.col("id").is_in(hidden))


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


def parse_time(text: str) -> datetime:
    """A moment in UTC from ISO 8601, `YYYY-MM-DD HH:MM:SS` or `YYYY-MM-DD`; without a zone it is UTC (S2-39)."""
    try:
        return _utc(datetime.fromisoformat(text.strip()))
    except (ValueError, OverflowError):
        raise UnusableInput(
            f"{text!r} is not a time.", "Write it like 2026-01-31, 2026-01-31 14:30:00 or 2026-01-31T14:30:00+01:00."
        ) from None


def _utc(t: datetime) -> datetime:
    return t.replace(tzinfo=UTC) if t.tzinfo is None else t.astimezone(UTC)

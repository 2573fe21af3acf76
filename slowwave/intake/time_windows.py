"""Time windows: what was said long ago is read day by day, week by week or month by month (§6.5)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from typing import Literal

import polars as pl

from slowwave.timestamps import in_utc

Period = Literal["day", "week", "month"]
PERIODS: dict[Period, str] = {"day": "1d", "week": "1w", "month": "1mo"}


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """The messages said in [since, until), and how many of them are meant."""

    since: datetime
    until: datetime
    messages: int

    @property
    def span(self) -> tuple[datetime, datetime]:
        """From when to before when."""
        return self.since, self.until

    @property
    def name(self) -> str:
        """What people call it."""
        return window_name(self.since, self.until)


def window_name(since: datetime, until: datetime) -> str:
    """The month, as 2026-04, where it is a whole one; otherwise the day with which it begins."""
    is_month = since.day == until.day == 1 and (until - since).days in range(28, 32)
    return f"{since:%Y-%m}" if is_month else f"{since:%Y-%m-%d}"


def moment(asked: date | datetime | None) -> datetime | None:
    """The time that somebody means: of a day its first moment, in UTC unless a zone is named."""
    if asked is None or isinstance(asked, datetime):
        return in_utc(asked) if asked is not None else None
    return datetime.combine(asked, time(), UTC)


def plan_time_windows(
    said: pl.Series, period: Period, start: datetime | None = None, end: datetime | None = None
) -> list[TimeWindow]:
    """The windows of the calendar (UTC; weeks begin on Monday) in which anything was said, oldest first.

    `said` are the times of messages. The first and the last window end where [start, end) does; without them, with the
    calendar.
    """
    at = pl.col("at")
    within = [at >= start] if start is not None else []
    within += [at < end] if end is not None else []
    step = PERIODS[period]
    frame = said.cast(pl.Datetime("us", "UTC")).alias("at").to_frame().drop_nulls().filter(*within)
    counted = frame.group_by(since=at.dt.truncate(step)).len("messages").sort("since")
    rows = counted.with_columns(until=pl.col("since").dt.offset_by(step)).select("since", "until", "messages")
    return [
        TimeWindow(max(since, start or since), min(until, end or until), messages)
        for since, until, messages in rows.iter_rows()
    ]


def limited(windows: Iterable[TimeWindow], limit: int | None) -> list[TimeWindow]:
    """The windows that hold the first `limit` messages, the last of them only in part; none: all."""
    if limit is None:
        return list(windows)
    taken: list[TimeWindow] = []
    for each in windows:
        if limit <= 0:
            break
        taken.append(replace(each, messages=min(each.messages, limit)))
        limit -= each.messages
    return taken

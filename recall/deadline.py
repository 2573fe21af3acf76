"""The time that a recall may take at most, all its reads and its walk together (S2-44)."""

from __future__ import annotations

import time

FIRST = 10
"""Times as long that the first recall of a state may take: it opens tables, and reads into memory what is kept there.
So may one about the past, of which nothing is kept."""


class OutOfTime(Exception):
    """The time of a recall was over before it had its answer."""


class Deadline:
    """When a recall ends, whether or not it has its answer; 0 milliseconds: never.

    Counts from when it is made. Belongs to one call; may be extended by one thread while another waits.
    """

    def __init__(self, milliseconds: float, *, is_first: bool = False) -> None:
        self._start, self._seconds = time.monotonic(), milliseconds / 1000
        self._times = FIRST if is_first else 1

    @property
    def left(self) -> float | None:
        """Seconds, 0 where it is over; None without end."""
        return max(self._start + self._seconds * self._times - time.monotonic(), 0.0) if self._seconds else None

    @property
    def spent(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._start

    @property
    def walk_ends(self) -> float | None:
        """When half of the time is over, by the monotonic clock: then a walk ends, and answers go on without it."""
        return self._start + self._seconds * self._times / 2 if self._seconds else None

    def extend(self) -> None:
        """Take as long as the first recall of a state may."""
        self._times = FIRST

    def leave_out(self, seconds: float) -> None:
        """Do not count what took so long: the embedding of a question, which is no read."""
        self._start += seconds

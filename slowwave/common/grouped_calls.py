"""Calls of several threads that wait for the same work are done together, with the answer for each.

While one writes, others arrive; who comes next takes all that wait for the same: one commit in place of many.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")
MOST = 1_000
"""Items that are done at once, unless one call has more."""


@dataclass(slots=True, eq=False)
class _Call(Generic[T, R]):
    items: Sequence[T]
    is_done: bool = False
    answer: R | None = None
    error: Exception | None = None


class GroupedCalls(Generic[T, R]):
    """Work on items, of which one is done at a time, under `lock`."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock, self._guard = lock, threading.Lock()
        self._waiting: dict[Hashable, list[_Call[T, R]]] = {}

    def waiting(self) -> int:
        """How many calls wait."""
        with self._guard:
            return sum(map(len, self._waiting.values()))

    def call(
        self, key: Hashable, items: Sequence[T], work: Callable[[Sequence[T]], R], part: Callable[[R, slice], R]
    ) -> R:
        """Do `work` on the items, with those of the calls that wait with an equal key, in the order of their arrival.

        `part` gives the answer of one call, by the place of its items. Where the work fails for several calls, it is
        done for each of them alone, so that each gets its own answer or error.
        """
        own = _Call[T, R](items)
        with self._guard:
            self._waiting.setdefault(key, []).append(own)
        with self._lock:
            if not own.is_done:
                taken = self._taken(key, own)
                try:
                    self._do(taken, work, part)
                finally:  # an interrupt is of this call alone: the others do their own work
                    self._put_back(key, [call for call in taken if not call.is_done and call is not own])
        if own.error is not None:
            raise own.error
        return own.answer  # type: ignore[return-value]

    def _taken(self, key: Hashable, own: _Call[T, R]) -> list[_Call[T, R]]:
        """The calls that are done now: from the oldest on, as many as go together, this one among them."""
        with self._guard:
            waiting = self._waiting.pop(key)
            taken, count = list[_Call[T, R]](), 0
            while waiting and (own not in taken or count + len(waiting[0].items) <= MOST):
                taken.append(waiting.pop(0))
                count += len(taken[-1].items)
            if waiting:
                self._waiting[key] = waiting
        return taken

    def _put_back(self, key: Hashable, calls: list[_Call[T, R]]) -> None:
        if calls:
            with self._guard:
                self._waiting[key] = [*calls, *self._waiting.get(key, [])]

    def _do(self, calls: list[_Call[T, R]], work: Callable[[Sequence[T]], R], part: Callable[[R, slice], R]) -> None:
        try:
            whole = work([item for call in calls for item in call.items])
        except Exception as error:
            if len(calls) == 1:
                calls[0].error, calls[0].is_done = error, True
                return
            for call in calls:
                self._do([call], work, part)
            return
        start = 0
        for call in calls:
            end = start + len(call.items)
            call.answer = whole if len(calls) == 1 else part(whole, slice(start, end))
            call.is_done, start = True, end

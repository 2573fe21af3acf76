"""What a program may give to a Python call: texts, times and numbers; and in which process it may call."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, date, datetime

from .errors import Refused, UnusableInput
from .timestamps import in_utc, parse_moment

Time = datetime | date | str
"""A moment, or text like 2026-01-31 or 2026-01-31T14:30:00+01:00; without a zone it is UTC."""

TOKEN_BUDGET = 2000
"""Tokens of facts and passages for a model or an agent, where the caller names no number."""

_process = 0  # that first used a memory; a fork of it inherits the number


def checked_text(name: str, given: object) -> str:
    """The text that was given for `name`. Raises `UnusableInput` for anything else, as all of these do."""
    if not isinstance(given, str):
        raise UnusableInput(f"{name}: {given!r} is no text.", "Give it as a str.")
    return given


def checked_texts(name: str, given: object) -> list[str]:
    """One text or several, as a list."""
    if isinstance(given, str):
        return [given]
    if not isinstance(given, Iterable) or isinstance(given, bytes):
        raise UnusableInput(f"{name}: {given!r} is no list of texts.", "Give one text, or a list of them.")
    return [checked_text(name, each) for each in given]


def checked_time(given: object) -> datetime | None:
    """The moment that is meant, in UTC where it names no zone."""
    if given is None:
        return None
    if isinstance(given, datetime):
        return in_utc(given)
    if isinstance(given, date):
        return datetime(given.year, given.month, given.day, tzinfo=UTC)
    return parse_moment(checked_text("time", given))


def at_least_one(name: str, number: int | None) -> None:
    """Check a number that may be left out."""
    if number is not None and number < 1:
        raise UnusableInput(f"{name} is {number}.", "Ask for one or more, or leave it out.")


def is_fork() -> bool:
    """Whether this process was forked from one that has used a memory."""
    return _process not in (0, os.getpid())


def refuse_a_fork() -> None:
    """Note that this process uses a memory; raises `Refused` in a fork of one that did.

    Polars and LanceDB would wait there for threads that a fork does not have.
    """
    global _process
    if is_fork():
        raise Refused(
            "This process was forked from one that has used a memory, which no fork survives.",
            'Start it with multiprocessing.get_context("spawn"), or use a memory only after the fork.',
        )
    _process = os.getpid()

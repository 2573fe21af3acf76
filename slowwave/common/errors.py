"""Every error slowwave raises on purpose: one sentence that says what is wrong and names the way out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any


class SlowwaveError(Exception):
    """An error with a remedy; `exit_code` is what the command line returns for it."""

    exit_code = 1

    def __init__(self, message: str, remedy: str = "") -> None:
        self.message, self.remedy = message, remedy
        super().__init__(f"{message} {remedy}".strip())


class UnusableInput(SlowwaveError):
    """A file or argument that cannot be used as it is."""

    exit_code = 2


class NothingYet(UnusableInput):
    """The input of a run is not there yet: an error for a person, but no failure of a schedule."""

    brief = "nothing yet"


class NoStoreYet(NothingYet):
    """There is no store."""

    brief = "no store yet"


class Damaged(SlowwaveError):
    """The doctor found faults of a namespace and may not or cannot repair them."""


class NoRoom(SlowwaveError):
    """The disk that the store is on is full."""


class UnknownName(SlowwaveError):
    """A store, namespace, format, provider, table or setting that does not exist, named with those that do.

    `remedy` stands in place of the nearest name and the list of all where these would not help.
    """

    exit_code = 2

    def __init__(self, kind: str, name: str, known: Iterable[str], remedy: str = "") -> None:
        self.kind, self.name, self.known = kind, name, sorted(known)
        self.near = "" if remedy else next(iter(get_close_matches(name, self.known, n=1)), "")
        hint = f" Did you mean {self.near!r}?" if self.near else ""
        listed = "" if self.known == [self.near] else f"Known: {', '.join(self.known) or 'none yet'}."
        super().__init__(f"Unknown {kind} {name!r}.{hint}", remedy or listed)


class UnknownSetting(UnknownName):
    """A setting that does not exist, with the one that may be meant and those of its table."""

    def __init__(self, name: str, origin: str, near: str, remedy: str) -> None:
        self.kind, self.name, self.known, self.near = "setting", name, [], near
        hint = f" Did you mean {near!r}?" if near else ""
        SlowwaveError.__init__(self, f"Unknown setting in {origin} {name!r}.{hint}", remedy)


class MissingDependency(SlowwaveError):
    """The request needs an optional package."""

    exit_code = 2


class MissingKey(SlowwaveError):
    """A provider needs a key that is not in the environment."""

    exit_code = 2


class StoreMismatch(SlowwaveError):
    """The store was written with another schema or embedding model than the one asked for."""


class Refused(SlowwaveError):
    """Something may not be done now: a gate, a lease or a review stands in the way."""

    exit_code = 4


class LeaseBusy(Refused):
    """Another writer holds the namespace."""


class Fenced(SlowwaveError):
    """This writer lost its lease while it worked; nothing it wrote is visible."""


class UndoRefused(Refused):
    """A run cannot be taken back as things are.

    Later runs built on it, it is still going on or undone already, versions before it are no longer kept, it is from
    before a migration or a re-embedding, or other runs than those shown would go with it. `later` are
    the ids of the runs that built on it and can be undone with it, oldest first; empty for all other causes.
    """

    def __init__(self, message: str, remedy: str = "", later: Sequence[str] = ()) -> None:
        self.later = tuple(later)
        super().__init__(message, remedy)


class RecallFell(Refused):
    """Maintenance made recall worse than its gate allows, and was taken back where that could be done.

    `measured` are the measures of the gate, as plain data.
    """

    def __init__(self, message: str, remedy: str = "", measured: Mapping[str, Any] | None = None) -> None:
        self.measured = measured or {}
        super().__init__(message, remedy)


class BudgetReached(SlowwaveError):
    """The run's budget of calls, tokens or dollars is spent; what is done is kept, the rest is pending."""

    exit_code = 3


class Transient(SlowwaveError):
    """Worth trying again later: rate limit, overload, time-out, connection lost."""


class TookTooLong(SlowwaveError, TimeoutError):
    """A part of a run was still going on after the time that it may take at most."""


class Terminal(SlowwaveError):
    """Trying again would give the same: refusal, invalid answer after retries, bad request."""

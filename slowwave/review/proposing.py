"""Proposing: what a run is told so that its changes wait for a person instead of being made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from slowwave.settings import ApprovalSettings

Waits = Literal["all", "risky"]
Door = Literal["terminal", "prefect", "mcp", "python"]


@dataclass(frozen=True, slots=True)
class Told:
    """What who proposes says of the one proposal that changes a row: its title, and risks that rows do not show."""

    row: str
    title: str = ""
    risks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Proposing:
    """How the commits of a run become proposals.

    `action` says what it would do: split, delete, patch, merge, prune, decay … . `waits`: all changes, or only risky
    ones, while the rest is written. `together` makes one proposal of a whole commit; else facts that belong together
    are one. `ask` is JSON of what was asked for, where a person may modify it; the live facts filed under the entities
    `owners` must be the same at approval (T49). `subject_id` and `subject` say what it is about.
    Where a commit makes several proposals `each` tells of them one by one.
    """

    action: str
    waits: Waits = "all"
    together: bool = False
    title: str = ""
    reason: str = ""
    ask: str = ""
    owners: tuple[str, ...] = ()
    subject_id: str = ""
    subject: str = ""
    proposed_by: str = "rule"
    approval: ApprovalSettings = field(default_factory=ApprovalSettings)
    each: tuple[Told, ...] = ()


@dataclass(frozen=True, slots=True)
class Person:
    """Who decides, and through which door."""

    name: str
    door: Door

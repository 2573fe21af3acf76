"""Proposing: what a run is told so that its changes wait for a person instead of being made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import polars as pl

from slowwave.intake.redaction import redact_all
from slowwave.settings import ApprovalSettings
from slowwave.text import readable

Waits = Literal["all", "risky"]
Door = Literal["terminal", "prefect", "mcp", "python"]
MAX_NAME, MAX_NOTE = 100, 1000
"""Characters of a person's name, and of a note, a reason or a title."""


def cleaned(text: str, limit: int = MAX_NOTE) -> str:
    """Words of a person or a rule as they are stored: one readable line without secrets, of at most `limit` characters.

    Secrets that take several lines are looked for before these become one.
    """
    return cleaned_all([text], limit)[0]


def cleaned_all(texts: Iterable[str], limit: int = MAX_NOTE) -> list[str]:
    """Many of them."""
    whole, _ = redact_all(pl.Series([readable(text) for text in texts], dtype=pl.String))
    lines, _ = redact_all(pl.Series([" ".join(text.split()) for text in whole], dtype=pl.String))
    return [line[:limit].rstrip() for line in lines]


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
    """Who decides, by a name as it is stored (`cleaned`), and through which door."""

    name: str
    door: Door

    def __post_init__(self) -> None:
        address = self.name.replace("@", " at ")  # who signs with an address means to be known by it
        object.__setattr__(self, "name", cleaned(address, MAX_NAME))

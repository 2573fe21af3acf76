"""Proposals: the options of a run whose changes wait for a person, and the decisions on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import polars as pl

from slowwave.common.comparison.similarity import connected
from slowwave.common.settings import ApprovalSettings
from slowwave.common.text import readable
from slowwave.common.validity import RANKS, entrenchment_rank
from slowwave.reading.filters.redaction import redact_all

Waits = Literal["all", "risky"]
Door = Literal["terminal", "prefect", "python", "browser"]
MAX_NAME, MAX_NOTE = 100, 1000
"""Characters of a person's name, and of a note, a reason or a title."""


def cleaned(text: str, limit: int = MAX_NOTE) -> str:
    """Words as they are stored: one readable line without secrets, of at most `limit` characters."""
    return cleaned_all([text], limit)[0]


def cleaned_all(texts: Iterable[str], limit: int = MAX_NOTE) -> list[str]:
    """Many of them."""
    whole, _ = redact_all(pl.Series([readable(text) for text in texts], dtype=pl.String))
    lines, _ = redact_all(pl.Series([" ".join(text.split()) for text in whole], dtype=pl.String))
    return [line[:limit].rstrip() for line in lines]


@dataclass(frozen=True, slots=True)
class ProposalNote:
    """Title and risks of the proposal that changes this row; risks that the rows do not show."""

    row: str
    title: str = ""
    risks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Proposing:
    """How the commits of a run become proposals.

    `action`: split, delete, patch, merge, prune, decay …; `waits`: all changes, or only risky ones. `together` makes
    one proposal of a whole commit. `ask` is JSON, what was asked for; the live facts filed under the entities
    `owners` must be the same at approval (T49). Where a commit makes several proposals, `each` has a note for every
    one.
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
    each: tuple[ProposalNote, ...] = ()


@dataclass(frozen=True, slots=True)
class Person:
    """Who decides, by a name as it is stored (`cleaned`), and through which door."""

    name: str
    door: Door

    def __post_init__(self) -> None:
        address = self.name.replace("@", " at ")  # who signs with an address means to be known by it
        object.__setattr__(self, "name", cleaned(address, MAX_NAME))


# Risk: changes that a person must decide (SEMANTICS §6.6).


_GONE = ("superseded", "retracted", "archived")


def risks_of(facts: pl.DataFrame, approval: ApprovalSettings) -> pl.DataFrame:
    """(group, risks) of changed facts; a group without risk has an empty list.

    `facts` has `group`; `was` and `becomes`, the status before and after (null: a new row, or one that goes for good);
    `moves`: it is filed under another entity; `entrenchment`, and that of its successor as `winner` (null: none has its
    place); `pinned`; and `source`, the file that it is from.
    """
    retired = (pl.col("was") == "active") & (pl.col("becomes").is_null() | pl.col("becomes").is_in(_GONE))
    rank, stated = entrenchment_rank("entrenchment"), RANKS["user_stated"]
    learned = (pl.col("becomes") == "active") & (pl.col("was") != "active").fill_null(True)
    against = (
        pl.when(pl.col("becomes") == "superseded")
        .then(entrenchment_rank("winner"))
        .otherwise(rank.filter(learned).max().fill_null(0))
    )  # a retracted fact has no successor: the source of the denial stands against it
    replaced = retired & pl.col("becomes").is_in(["superseded", "retracted"])
    measures = facts.group_by("group", maintain_order=True).agg(
        pinned=pl.col("pinned").fill_null(False).any(),
        override=(replaced & (rank >= stated) & (against < rank)).any(),
        large=(retired | pl.col("moves").fill_null(False)).sum() >= approval.large,
        erasure=pl.col("becomes").is_null().any(),
        user_stated=(retired & (rank >= stated)).any(),
        cross_source=pl.col("source").drop_nulls().n_unique() > 1,
    )
    names = [name for name in measures.columns if name != "group"]
    marks = [pl.when(pl.col(name).fill_null(False)).then(pl.lit(name)) for name in names]
    return measures.select("group", risks=pl.concat_list(marks).list.drop_nulls())


def is_always_a_persons(risks: Sequence[str], approval: ApprovalSettings) -> bool:
    """Whether one of the risks is among those that no flow takes by itself; erasure always is."""
    return bool(set(risks) & {"erasure", *approval.risky})


# Grouping: which rows of a plan belong to one decision, and which say nothing that would need one.


NODES = pl.Schema({"row": pl.String(), "speaks": pl.Boolean()})
TIES = pl.Schema({"row": pl.String(), "other": pl.String()})


def group_rows(nodes: pl.DataFrame, ties: pl.DataFrame) -> pl.DataFrame:
    """(row, group): the rows that hang together with one that speaks; `group` counts from 0 in order of its least row.

    `nodes` are (row, speaks), one per row of a plan; `ties` are (row, other). Other rows can be written at once.
    """
    rows = nodes.group_by("row").agg(pl.col("speaks").any()).sort("row").with_row_index("place")
    places = rows.select("row", "place")
    edges = ties.join(places, on="row").join(places, left_on="other", right_on="row", suffix="_other")
    size = len(rows)
    ends = [edges[name].to_numpy().astype(np.int64) for name in ("place", "place_other")]
    grouped = rows.with_columns(label=connected(np.arange(size), *ends))
    spoken = grouped.group_by("label").agg(pl.col("speaks").any(), first=pl.col("row").min()).filter("speaks")
    numbered = spoken.sort("first").with_row_index("group").select("label", "group")
    return grouped.join(numbered, on="label").select("row", "group").sort("group", "row")


# Asks: the request for a split or a deletion (S0-14).


Ask = Mapping[str, Any]


def observations_in(ask: Ask) -> list[str]:
    """The observations that an ask names, in order."""
    groups = [ask] if "observations" in ask else ask.get("splits", ())
    return [fact for group in groups for fact in group["observations"]]


ReviewDecision = Literal["wait", "approve", "reject"]


@dataclass(frozen=True, slots=True)
class ProposalQuestion:
    """The question of a form about one proposal: as much of it as a verdict needs, and the lines that describe it."""

    id: str
    action: str
    title: str
    is_risky: bool
    lines: tuple[str, ...] = ()

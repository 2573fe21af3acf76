"""Risk: what makes a change a person's, whatever a flow may do by itself (SEMANTICS §6.6)."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from slowwave.application.entrenchment import RANKS, entrenchment_rank
from slowwave.settings import ApprovalSettings

FACT_CHANGES = pl.Schema(
    {
        "group": pl.UInt32(),
        "was": pl.String(),  # status before; null for a new row
        "becomes": pl.String(),  # status after; null for a row that goes for good
        "moves": pl.Boolean(),  # it is filed under another entity
        "entrenchment": pl.String(),
        "winner": pl.String(),  # the entrenchment of what replaces it; null where nothing does
        "pinned": pl.Boolean(),
        "source": pl.String(),  # the file that it was said in
    }
)
_GONE = ("superseded", "retracted", "archived")


def risks_of(facts: pl.DataFrame, approval: ApprovalSettings) -> pl.DataFrame:
    """(group, risks) from FACT_CHANGES; a group without risk has an empty list."""
    retired = (pl.col("was") == "active") & (pl.col("becomes").is_null() | pl.col("becomes").is_in(_GONE))
    rank, stated = entrenchment_rank("entrenchment"), RANKS["user_stated"]
    learned = (pl.col("becomes") == "active") & (pl.col("was") != "active").fill_null(True)
    against = (
        pl.when(pl.col("becomes") == "superseded")
        .then(entrenchment_rank("winner"))
        .otherwise(rank.filter(learned).max().fill_null(0))
    )  # what is retracted has no successor: whoever denied it stands against it
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
    told = [pl.when(pl.col(name).fill_null(False)).then(pl.lit(name)) for name in names]
    return measures.select("group", risks=pl.concat_list(told).list.drop_nulls())


def is_always_a_persons(risks: Sequence[str], approval: ApprovalSettings) -> bool:
    """Whether one of the risks is among those that no flow takes by itself; erasure is, whatever the settings say."""
    return bool(set(risks) & {"erasure", *approval.risky})

"""Entrenchment: who stands behind a fact, weakest first, and which facts nothing automatic may retire (S1-22)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import polars as pl

RANKS: Mapping[str, int] = {"system_inferred": 0, "user_stated": 1, "user_axiom": 2}
AXIOM = RANKS["user_axiom"]
_BY_RANK = {rank: name for name, rank in RANKS.items()}


def rank_of(entrenchment: str | None) -> int:
    """0 inferred or unknown, 1 stated, 2 axiom."""
    return RANKS.get(entrenchment or "", 0)


def entrenchment_rank(column: str) -> pl.Expr:
    """`rank_of` a column."""
    return pl.col(column).replace_strict(RANKS, default=0, return_dtype=pl.Int8)


def entrenchment_named(rank: str) -> pl.Expr:
    """The entrenchment of each rank in a column; null where it is none."""
    return pl.col(rank).replace_strict(_BY_RANK, default=None, return_dtype=pl.String)


KEPT_KINDS = ("structural", "similarity")
KEPT_RANK = "user_axiom"
ENDS = ("subject_id", "object_id", "owner_entity_id")
"""Where a fact names entities."""


def not_kept_sql() -> str:
    """The SQL condition of facts that nothing of their own keeps: not pinned, no axiom, no structure.

    It is `~is_kept()`; facts about pinned entities, which `is_kept(pinned)` keeps too, meet it.
    """
    kinds = ", ".join(f"'{kind}'" for kind in KEPT_KINDS)
    return (
        "(pinned IS NULL OR NOT pinned)"
        f" AND (entrenchment IS NULL OR entrenchment <> '{KEPT_RANK}')"
        f" AND (kind IS NULL OR kind NOT IN ({kinds}))"
    )


def is_kept(pinned: Collection[str] = ()) -> pl.Expr:
    """Facts that nothing automatic may hide or retire: pinned facts, axioms, structure, facts about `pinned` entities.

    Needs the ends of a fact only where there are pinned entities.
    """
    kept = pl.col("pinned").fill_null(False) | (pl.col("entrenchment") == KEPT_RANK).fill_null(False)
    kept |= pl.col("kind").is_in(KEPT_KINDS).fill_null(False)
    for end in ENDS if pinned else ():
        kept |= pl.col(end).is_in(list(pinned)).fill_null(False)
    return kept

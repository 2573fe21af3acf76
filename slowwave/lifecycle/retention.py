"""Retention: facts that nothing automatic may hide or retire."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

KEPT_KINDS = ("structural", "similarity")
KEPT_RANK = "user_axiom"
ENDS = ("subject_id", "object_id", "owner_entity_id")
"""Where a fact names entities."""


def not_kept_sql() -> str:
    """A filter of a store: facts that `is_kept` does not keep for themselves; pinned entities are not looked at."""
    kinds = ", ".join(f"'{kind}'" for kind in KEPT_KINDS)
    return (
        "(pinned IS NULL OR NOT pinned)"
        f" AND (entrenchment IS NULL OR entrenchment <> '{KEPT_RANK}')"
        f" AND (kind IS NULL OR kind NOT IN ({kinds}))"
    )


def is_kept(pinned: Collection[str] = ()) -> pl.Expr:
    """Facts that nothing automatic may hide or retire: pinned, axioms, structure, what is known of `pinned` entities.

    Needs the ends of a fact only where there are pinned entities.
    """
    kept = pl.col("pinned").fill_null(False) | (pl.col("entrenchment") == KEPT_RANK).fill_null(False)
    kept |= pl.col("kind").is_in(KEPT_KINDS).fill_null(False)
    for end in ENDS if pinned else ():
        kept |= pl.col(end).is_in(list(pinned)).fill_null(False)
    return kept

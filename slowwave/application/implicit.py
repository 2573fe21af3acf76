"""What contradicts each other, or may, and no rule settles: flagged until something settles it (S2-75).

Relations of one subject that are spelt almost alike, two objects where one is allowed and which holds is not clear, and
what a statement itself says. A flag of the last kind stays as long as both facts do, the others some days.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import polars as pl
from rapidfuzz.distance import Levenshtein

from slowwave import frames
from slowwave.application.board import STATED, Doubt
from slowwave.settings import ReviseSettings
from slowwave.text import row_id

KIND = "implicit_conflict"
PENDING, SETTLED = "pending", "settled"
_SIDES = ["id", "scope", "subject_id", "predicate", "object_key"]


def find_implicit_conflicts(
    fresh: pl.DataFrame, live: pl.DataFrame, settings: ReviseSettings, now: datetime
) -> pl.DataFrame:
    """PAIR_DECISIONS, pending for some days: relations of one subject, not equal but spelt alike, with other objects.

    `fresh` are the candidates that stay, `live` the facts that held before them and still do. Nothing unless asked for.
    """
    if not settings.implicit_conflicts or fresh.is_empty():
        return frames.empty(frames.PAIR_DECISIONS)
    related = (pl.col("kind") == "relation") & (pl.col("predicate").fill_null("") != "")
    new, known = (part.filter(related).select(_SIDES) for part in (fresh, live))
    pairs = new.join(pl.concat([new, known]), on=["scope", "subject_id"], suffix="_b").filter(
        pl.col("predicate") != pl.col("predicate_b"), pl.col("object_key") != pl.col("object_key_b")
    )
    alike = _spelt_alike(pairs, settings.implicit_similarity)
    found = pairs.join(alike, on=["predicate", "predicate_b"]).select(
        a_id=pl.min_horizontal("id", "id_b"), b_id=pl.max_horizontal("id", "id_b")
    )
    return _flagged(found, settings, now)


def flag_doubts(doubts: Iterable[Doubt], gone: pl.Series, settings: ReviseSettings, now: datetime) -> pl.DataFrame:
    """PAIR_DECISIONS, pending: facts that no rule settles, or that a statement sets against each other; none of `gone`.

    The guard of the latter is STATED, and it is not forgotten.
    """
    rows = [(*sorted(pair), guard or None) for *pair, guard in doubts]
    found = pl.DataFrame(rows, schema={"a_id": pl.String, "b_id": pl.String, "guard": pl.String}, orient="row")
    there = found.filter(~pl.any_horizontal(pl.col("a_id", "b_id").is_in(gone.implode())))
    flagged = _flagged(there.sort("guard", nulls_last=True).unique(["a_id", "b_id"], keep="first"), settings, now)
    stays = (pl.col("guard") == STATED).fill_null(False)
    by = pl.when(stays).then(pl.lit("model")).otherwise("decided_by")  # who read it said so: nobody is asked again
    return flagged.with_columns(expires_at=pl.when(~stays).then("expires_at"), decided_by=by)


def settle_flags(pending: pl.DataFrame, gone: pl.Series, now: datetime) -> pl.DataFrame:
    """The pending flags (PAIR_DECISIONS) of facts of which one is `gone` now: a later statement settled them."""
    is_pending = (pl.col("kind") == KIND) & (pl.col("outcome") == PENDING)
    over = pl.any_horizontal(pl.col("a_id", "b_id").is_in(gone.implode()))
    return pending.filter(is_pending, over).with_columns(
        outcome=pl.lit(SETTLED), decided_by=pl.lit("rule"), at=pl.lit(now, dtype=frames.TIME)
    )


def _flagged(found: pl.DataFrame, settings: ReviseSettings, now: datetime) -> pl.DataFrame:
    found = found.unique().sort("a_id", "b_id")
    ids = [row_id("pd", a, b, KIND) for a, b in found.select("a_id", "b_id").iter_rows()]
    rows = found.with_columns(
        id=pl.Series(ids, dtype=pl.String),
        kind=pl.lit(KIND),
        outcome=pl.lit(PENDING),
        decided_by=pl.lit("rule"),
        at=pl.lit(now, dtype=frames.TIME),
        expires_at=pl.lit(now + timedelta(days=settings.implicit_ttl_days), dtype=frames.TIME),
    )
    return frames.conform(rows, frames.PAIR_DECISIONS)


def _spelt_alike(pairs: pl.DataFrame, least: float) -> pl.DataFrame:
    """(predicate, predicate_b) whose Levenshtein similarity is at least `least`."""
    names = pairs.select("predicate", "predicate_b").unique()
    alike = [Levenshtein.normalized_similarity(a, b) >= least for a, b in names.iter_rows()]
    return names.filter(pl.Series(alike, dtype=pl.Boolean))

"""Restoration: archived facts come back as they were, unless something stands in the way.

Nothing that was learned while a fact was away is overruled by its return: a fact that is known again, or whose place
another one has taken, stays where it is.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from slowwave.common import frames
from slowwave.common.decisions import each_decided
from slowwave.common.validity import is_live
from slowwave.facts import aspects
from slowwave.facts.revision.application import activated, with_types
from slowwave.facts.revision.repetition import with_keys

KNOWN = "id status statement statement_hash subject_id predicate object_id object_text scope polarity kind".split()
TIMES = "valid_from valid_to created_at expired_at".split()
READ = (*KNOWN, *TIMES)
_SAME = ["scope", "subject_id", "predicate", "object_key", "statement_hash", "polarity", "day"]
_HEAD = ["scope", "subject_id", "predicate"]
REFUSED: frames.Schema = {"id": frames.TEXT, "statement": frames.TEXT, "reason": frames.TEXT}


@dataclass(frozen=True, slots=True, eq=False)
class RestorationPlan:
    """Rows to store; `refused` (REFUSED) stay."""

    facts: pl.DataFrame
    aspects: pl.DataFrame
    decisions: pl.DataFrame
    refused: pl.DataFrame


def plan_restoration(
    archived: pl.DataFrame,
    others: pl.DataFrame,
    entities: pl.DataFrame,
    single: Collection[str],
    now: datetime,
) -> RestorationPlan:
    """Make archived facts active again, except those that something stands in the way of.

    `archived` are whole rows, `others` live facts (READ) of the same subjects, `entities` those the facts are about;
    `single` are relations that allow one object at a time. Restored facts are compared again with all others (§6.3).
    """
    refused = _refused(archived, others, single, now)
    coming = archived.join(refused, on="id", how="anti", maintain_order="left").sort("id")
    restored = activated(coming, "restored").with_columns(
        expired_at=pl.lit(None, dtype=frames.TIME),
        consolidated_at=pl.lit(None, dtype=frames.TIME),
        replaced_by=pl.lit(None, dtype=pl.String),
    )
    left = coming.select("id", "status_reason", "expired_at").iter_rows()
    seen = {fact: {"was": why, "left_at": at} for fact, why, at in left}
    decisions = each_decided("restore", seen, "A person brought it back.", now, decided_by="person")
    return RestorationPlan(restored, aspects.aspect_rows(with_types(restored, entities)), decisions, refused)


def _refused(archived: pl.DataFrame, others: pl.DataFrame, single: Collection[str], now: datetime) -> pl.DataFrame:
    """REFUSED: of what would come back, and why it does not; of facts that exclude each other the latest comes."""
    coming = with_keys(archived.select(READ)).sort("expired_at", "id", descending=True)
    staying = with_keys(others.select(READ).filter(is_live(now)))
    everyone = pl.concat([staying, coming]).select(
        *_SAME, other="id", other_statement="statement", since="created_at", other_gone="expired_at"
    )
    is_over = coming.filter(pl.col("valid_to") <= now).select(
        "id", reason=pl.format("It ended on {}: `--as-of` still finds it.", pl.col("valid_to").dt.strftime("%Y-%m-%d"))
    )
    loops = coming.filter((pl.col("subject_id") == pl.col("object_id")).fill_null(False)).select(
        "id", reason=pl.lit("Its two ends are one entity now.")
    )
    found = pl.concat([is_over, loops, _known_again(coming, everyone), _replaced(coming, everyone, single)])
    first = found.unique("id", keep="first", maintain_order=True)
    return coming.select("id", "statement").join(first, on="id", maintain_order="left").select(*REFUSED)


def _known_again(coming: pl.DataFrame, everyone: pl.DataFrame) -> pl.DataFrame:
    """(id, reason) of facts that another one says, which is live or left later."""
    both = coming.select("id", "expired_at", *_SAME).join(everyone, on=_SAME, nulls_equal=True)
    same_time = (pl.col("other_gone") == pl.col("expired_at")) & (pl.col("other") > pl.col("id"))
    comes_first = pl.col("other_gone").is_null() | (pl.col("other_gone") > pl.col("expired_at")) | same_time
    return both.filter(pl.col("id") != pl.col("other"), comes_first).select(
        "id", reason=pl.format("It is known again as {}.", "other")
    )


def _replaced(coming: pl.DataFrame, everyone: pl.DataFrame, single: Collection[str]) -> pl.DataFrame:
    """(id, reason) of facts that are excluded by a fact that was learned since they left."""
    alone = coming.filter(pl.col("predicate").is_in(list(single)), _is_affirmed()).select(
        "id", "expired_at", "object_key", *_HEAD
    )
    heads = (
        everyone.filter(_is_affirmed()).rename({"object_key": "other_object"}).drop("polarity", "statement_hash", "day")
    )
    both = alone.join(heads, on=_HEAD, nulls_equal=True)
    is_new = (pl.col("since") >= pl.col("expired_at")) & (pl.col("other_object") != pl.col("object_key"))
    return both.filter(pl.col("id") != pl.col("other"), is_new).select(
        "id", reason=pl.format("Another one has taken its place: “{}” ({}).", "other_statement", "other")
    )


def _is_affirmed() -> pl.Expr:
    return (pl.col("polarity") != "negated").fill_null(True) & (pl.col("object_key") != "")

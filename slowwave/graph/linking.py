"""Links between entities whose descriptions are alike: for reading on, and no knowledge (S2-71, T33, T34).

Nobody said that the two have to do with each other: a link is a row of its own table, never a fact, and so counts for
no degree, community, split or score.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import polars as pl

from slowwave import frames
from slowwave.settings import LinkSettings
from slowwave.text import row_id

LINKABLE = "status != 'archived' AND merged_into IS NULL"
ENDS: frames.Schema = {"id": pl.String(), "embed_text_hash": pl.String(), "parent_entity_id": pl.String()}
NEAR: frames.Schema = {"id": pl.String(), "near_id": pl.String(), "cosine": pl.Float64()}
PAIRS: frames.Schema = {"a_id": pl.String(), "b_id": pl.String(), "cosine": pl.Float64()}
_DIGITS = 6  # a cosine of float32 is known no better
_SAME = 1e-5  # and differs by less where it is computed in another company


@dataclass(frozen=True, slots=True, eq=False)
class LinkPlan:
    """Links (ENTITY_LINKS) that are new or changed, and the ids of those that are no more."""

    links: pl.DataFrame
    gone: pl.Series

    def __len__(self) -> int:
        return len(self.links) + len(self.gone)


def find_links(near: pl.DataFrame, ends: pl.DataFrame, settings: LinkSettings) -> pl.DataFrame:
    """PAIRS, a_id < b_id, each once: the nearest of each entity that are alike enough.

    `near` (NEAR) are the nearest of each entity, itself perhaps among them; `ends` (ENDS) are those that may be linked.
    What was split from the other is not linked with it.
    """
    parents = ends.select("id", "parent_entity_id")
    known = near.with_columns(pl.col("cosine").round(_DIGITS)).filter(
        pl.col("id") != pl.col("near_id"), pl.col("cosine") >= settings.similarity
    )
    named = known.join(parents, on="id").join(parents, left_on="near_id", right_on="id", suffix="_near")
    is_split = (pl.col("parent_entity_id") == pl.col("near_id")) | (pl.col("parent_entity_id_near") == pl.col("id"))
    best = named.sort("id", "cosine", "near_id", descending=[False, True, False]).filter(~is_split.fill_null(False))
    return _as_pairs(best.group_by("id", maintain_order=True).head(settings.top_k))


def to_measure(stored: pl.DataFrame, pairs: pl.DataFrame, looked_at: pl.Series) -> pl.DataFrame:
    """(a_id, b_id) of stored links with one end among `looked_at`, which did not find the other one again.

    The other one may have found it, among fewer that were nearer: it stays as long as the two are alike.
    """
    is_seen = [pl.col(end).is_in(looked_at.implode()) for end in ("a_id", "b_id")]
    once = stored.filter(is_seen[0] != is_seen[1])
    return once.join(pairs, on=["a_id", "b_id"], how="anti").select("a_id", "b_id")


def plan_links(
    stored: pl.DataFrame,
    pairs: pl.DataFrame,
    measured: pl.DataFrame,
    looked_at: pl.Series,
    ends: pl.DataFrame,
    settings: LinkSettings,
    now: datetime,
) -> LinkPlan:
    """Changes of the stored links (ENTITY_LINKS) after the entities `looked_at` (ids) have found `pairs` (PAIRS).

    The latest cosine replaces the one before. Links go that the entities looked at find no more: neither of both among
    its nearest, or `measured` (PAIRS, those of `to_measure`) and not alike enough; and those of entities not in `ends`.
    """
    alike = measured.with_columns(pl.col("cosine").round(_DIGITS)).filter(pl.col("cosine") >= settings.similarity)
    now_alike = pl.concat([pairs.select(*PAIRS), alike.select(*PAIRS)])
    known = stored.join(now_alike, on=["a_id", "b_id"], how="left", suffix="_now", maintain_order="left")
    is_there = [pl.col(end).is_in(ends["id"].implode()) for end in ("a_id", "b_id")]
    is_looked_at = pl.any_horizontal(pl.col(end).is_in(looked_at.implode()) for end in ("a_id", "b_id"))
    gone = known.filter(~pl.all_horizontal(is_there) | (is_looked_at & pl.col("cosine_now").is_null()))["id"]
    same = known.filter((pl.col("cosine_now") - pl.col("cosine")).abs() <= _SAME)
    fresh = now_alike.join(same, on=["a_id", "b_id"], how="anti").sort("a_id", "b_id")
    ids = [row_id("el", a, b) for a, b in fresh.select("a_id", "b_id").iter_rows()]
    rows = fresh.with_columns(id=pl.Series(ids, dtype=pl.String), linked_at=pl.lit(now, dtype=frames.TIME))
    return LinkPlan(frames.conform(rows, frames.ENTITY_LINKS), gone)


def _as_pairs(near: pl.DataFrame) -> pl.DataFrame:
    """Each pair once, the smaller id first, with the higher of its cosines."""
    ordered = near.select(
        "cosine", a_id=pl.min_horizontal("id", "near_id"), b_id=pl.max_horizontal("id", "near_id")
    )  # fmt: skip
    return ordered.group_by("a_id", "b_id").agg(pl.col("cosine").max()).sort("a_id", "b_id").select(*PAIRS)

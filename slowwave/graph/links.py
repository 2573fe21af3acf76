"""Links that are no knowledge: entities with similar descriptions, and entities that are parts (S0-15, S2-71, T33).

A link by similarity is for reading on (T34). Nobody said that the two have to do with each other: it is a row of its
own table, never a fact, and so counts for no degree, community, split or score.

Structure says which entity is a part of which, as two facts, one from each end, that end together. A structural fact
says how memory is filed, not what is so: it has no vector, and no rule counts it as knowledge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import polars as pl

from slowwave.common import frames
from slowwave.common.settings import LinkSettings
from slowwave.common.text import row_id, statement_hash, timed_id

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


def plan_links(
    stored: pl.DataFrame, pairs: pl.DataFrame, looked_at: pl.Series, ends: pl.DataFrame, now: datetime
) -> LinkPlan:
    """Changes of the stored links (ENTITY_LINKS) after the entities `looked_at` (ids) have found `pairs` (PAIRS).

    The latest cosine replaces the one before. Links go that the entities looked at find no more, and those of entities
    not in `ends`.
    """
    known = stored.join(pairs, on=["a_id", "b_id"], how="left", suffix="_now", maintain_order="left")
    is_there = [pl.col(end).is_in(ends["id"].implode()) for end in ("a_id", "b_id")]
    is_looked_at = pl.any_horizontal(pl.col(end).is_in(looked_at.implode()) for end in ("a_id", "b_id"))
    gone = known.filter(~pl.all_horizontal(is_there) | (is_looked_at & pl.col("cosine_now").is_null()))["id"]
    same = known.filter((pl.col("cosine_now") - pl.col("cosine")).abs() <= _SAME)
    fresh = pairs.join(same, on=["a_id", "b_id"], how="anti").sort("a_id", "b_id")
    ids = [row_id("el", a, b) for a, b in fresh.select("a_id", "b_id").iter_rows()]
    rows = fresh.with_columns(id=pl.Series(ids, dtype=pl.String), linked_at=pl.lit(now, dtype=frames.TIME))
    return LinkPlan(frames.conform(rows, frames.ENTITY_LINKS), gone)


def _as_pairs(near: pl.DataFrame) -> pl.DataFrame:
    """Each pair once, the smaller id first, with the higher of its cosines."""
    ordered = near.select(
        "cosine", a_id=pl.min_horizontal("id", "near_id"), b_id=pl.max_horizontal("id", "near_id")
    )  # fmt: skip
    return ordered.group_by("a_id", "b_id").agg(pl.col("cosine").max()).sort("a_id", "b_id").select(*PAIRS)


KIND = "structural"
HIERARCHICAL = "hierarchical"
CONTAINS, PART_OF = "contains", "part_of"
INVERSE: Mapping[str, str] = {CONTAINS: PART_OF, PART_OF: CONTAINS}
"""The only two relations that create each other."""
_SAYS = {CONTAINS: "{} contains {}.", PART_OF: "{} is a part of {}."}

Named = tuple[str, str]
"""Id and name of an entity."""


def part_facts(parent: Named, child: Named, now: datetime) -> list[dict[str, Any]]:
    """Both facts that say that one entity is a part of the other, as rows of FACTS."""
    return [_fact(parent, CONTAINS, child, now), _fact(child, INVERSE[CONTAINS], parent, now)]


def inverses_of(facts: pl.DataFrame, stored: pl.DataFrame) -> pl.DataFrame:
    """The rows of `stored` that say the same as one of `facts` from the other end; both have the columns of FACTS."""
    ends = facts.filter(pl.col("kind") == KIND).select(
        predicate=pl.col("predicate").replace_strict(INVERSE, default=None, return_dtype=pl.String),
        subject_id="object_id",
        object_id="subject_id",
    )
    structural = stored.filter(pl.col("kind") == KIND, ~pl.col("id").is_in(facts["id"].implode()))
    return structural.join(ends, on=["predicate", "subject_id", "object_id"], how="semi", maintain_order="left")


def is_filed_elsewhere(entity: pl.Expr) -> pl.Expr:
    """Whether a fact that names an entity is an observation of another one; needs kind and owner_entity_id."""
    is_observed = pl.col("kind").is_in(["observation", "note"])
    return (is_observed & (pl.col("owner_entity_id") != entity)).fill_null(False)


def _fact(subject: Named, predicate: str, object_: Named, now: datetime) -> dict[str, Any]:
    statement = _SAYS[predicate].format(subject[1], object_[1])
    return dict.fromkeys(frames.FACTS) | {
        "id": timed_id("f", now, predicate, subject[0], object_[0]),
        "kind": KIND,
        "subject_id": subject[0],
        "predicate_raw": predicate,
        "predicate": predicate,
        "edge_type": HIERARCHICAL,
        "object_id": object_[0],
        "object_text": object_[1],
        "statement": statement,
        "statement_hash": statement_hash(statement),
        "owner_entity_id": subject[0],
        "scope": "global",
        "polarity": "affirmed",
        "status": "active",
        "status_reason": "split",
        "valid_from": now,
        "confidence": 1.0,
        "evidence_count": 1,
        "entrenchment": "user_stated",
        "pinned": False,
        "similarity_flag": False,
        "consolidated_at": now,
        "consolidation_attempts": 0,
        "aspect_slugs": [],
        "mentions": [],
    }

"""Structure: which entity is a part of which, as two facts, one from each end, that end together (S0-15, T33).

A structural fact says how memory is filed, not what is so: it has no vector, and no rule counts it as knowledge.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import polars as pl

from slowwave import frames
from slowwave.text import statement_hash, timed_id

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
    }

"""What is held of two entities that are to become one: everything that a plan of the merge looks at."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

ENDS = ("subject_id", "object_id", "owner_entity_id")

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Holdings:
    """What a store holds near two entities, as whole rows; the tables with a vector come with it.

    `entities`: both, and those that were split from the loser or merged into it. `called`: ALIASES of whoever is called
    as one of the two is, canonical names among them, without an id. `facts` and `archive`: those that name the loser.
    `flagged`: live ones that do not, and are marked as looking like one that says something between the two. `held`:
    the other live facts that name the winner. `evidence` of the live relations of both, `objects` and `object_aliases`:
    what their objects are called. `pairs`: decisions about pairs with one of `facts` in them. `beliefs` and `hints`: as
    `join_beliefs` wants them, with `waiting`. `episodes`: the links of both.
    """

    entities: pl.DataFrame
    called: pl.DataFrame
    facts: pl.DataFrame
    archive: pl.DataFrame
    flagged: pl.DataFrame
    held: pl.DataFrame
    evidence: pl.DataFrame
    objects: pl.DataFrame
    object_aliases: pl.DataFrame
    predicates: pl.DataFrame
    pairs: pl.DataFrame
    beliefs: pl.DataFrame
    hints: pl.DataFrame
    waiting: frozenset[str]
    episodes: pl.DataFrame


def is_between(pair: Pair) -> pl.Expr:
    """Whether a fact has one of the pair at either end."""
    subject, object_ = pl.col("subject_id"), pl.col("object_id")
    both = (subject == pair[0]) & (object_ == pair[1]) | (subject == pair[1]) & (object_ == pair[0])
    return both.fill_null(False)

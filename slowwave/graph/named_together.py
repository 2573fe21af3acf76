"""Edges of the graph from mentions: entities that one fact names together are near each other.

A memory without a model has no relations, and a model's sentence often names more than the two ends of its relation.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

NAMED_WITH = "named_with"
"""The predicate of such an edge, which no fact has."""
MOST = 8
"""Further names of one fact that count: a list of twenty people ties nobody to anybody."""
SHARE = 0.5
"""Weight of a fact that names two entities, of its confidence; one that names more shares it among its pairs."""


def named_together(facts: pl.DataFrame, heirs: Mapping[str, str]) -> pl.DataFrame:
    """The pairs of entities that facts name together, as rows of the facts with both ends.

    `facts` has id, subject_id, object_id, mentions and weight; the result has the same columns with `subject_id` and
    `object_id` of each pair, `predicate` and `edge_type` of a mention, and the weight by pair. Pairs of a relation are
    left out: they have an edge. `heirs` are the entities that others were merged into, by the id of the other.
    """
    few = facts.filter(pl.col("mentions").list.len() > 0).with_columns(pl.col("mentions").list.head(MOST))
    if few.is_empty():
        return facts.clear().with_columns(predicate=pl.lit(NAMED_WITH), edge_type=pl.lit("co_occurrence"))
    everyone = pl.concat_list("subject_id", "object_id", "mentions").list.drop_nulls()
    ends = few.select("id", name=everyone).explode("name").with_columns(pl.col("name").replace(dict(heirs)))
    ends = ends.unique(maintain_order=True)
    pairs = ends.join(ends, on="id", suffix="_b").filter(pl.col("name") < pl.col("name_b"))
    rows = few.rename({"subject_id": "subject", "object_id": "object"}).join(pairs, on="id", maintain_order="left")
    related = pl.min_horizontal("subject", "object"), pl.max_horizontal("subject", "object")
    is_related = pl.col("object").is_not_null() & (pl.col("name") == related[0]) & (pl.col("name_b") == related[1])
    apart = rows.filter(~is_related)
    share = SHARE / pl.len().over("id")
    return apart.with_columns(
        subject_id="name",
        object_id="name_b",
        predicate=pl.lit(NAMED_WITH),
        edge_type=pl.lit("co_occurrence"),
        weight=pl.col("weight") * share,
    ).select(*facts.columns)

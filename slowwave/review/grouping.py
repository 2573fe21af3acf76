"""Grouping: which rows of a plan belong to one decision, and which say nothing that would need one."""

from __future__ import annotations

import numpy as np
import polars as pl

NODES = pl.Schema({"row": pl.String(), "speaks": pl.Boolean()})
TIES = pl.Schema({"row": pl.String(), "other": pl.String()})


def group_rows(nodes: pl.DataFrame, ties: pl.DataFrame) -> pl.DataFrame:
    """(row, group): the rows that hang together with one that speaks; `group` counts from 0 in order of its least row.

    `nodes` are (row, speaks), one per row of a plan; `ties` are (row, other), in which `other` may be no row of it.
    Rows that hang together with nothing that speaks are left out: they can be written at once.
    """
    from scipy.sparse import coo_array  # slow to import, and of use only to runs that propose
    from scipy.sparse.csgraph import connected_components

    rows = nodes.group_by("row").agg(pl.col("speaks").any()).sort("row").with_row_index("place")
    places = rows.select("row", "place")
    edges = ties.join(places, on="row").join(places, left_on="other", right_on="row", suffix="_other")
    size = len(rows)
    ends = [edges[name].to_numpy() for name in ("place", "place_other")]
    matrix = coo_array((np.ones(len(edges), np.int8), (ends[0], ends[1])), shape=(size, size))
    labels = connected_components(matrix, directed=False)[1] if size else np.empty(0, np.int32)
    grouped = rows.with_columns(label=pl.Series(labels, dtype=pl.Int32))
    spoken = grouped.group_by("label").agg(pl.col("speaks").any(), first=pl.col("row").min()).filter("speaks")
    numbered = spoken.sort("first").with_row_index("group").select("label", "group")
    return grouped.join(numbered, on="label").select("row", "group").sort("group", "row")

"""The graph as arrays: who is related to whom, so that a walk is a handful of gathers and no query.

Nodes are entities, edges are relation facts, in both directions; parallel edges stay apart, because each is a fact.
Neighbours lie in compressed sparse rows: those of node `i` are the places `starts[i]` to `starts[i + 1]` of `near`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import get_args

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.common import frames
from slowwave.common.settings import EdgeType

Places = npt.NDArray[np.int32]
Offsets = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]

EDGE_TYPES: tuple[str, ...] = get_args(EdgeType)
EDGE_ALIASES = {"entity": "hierarchical", "cooccurrence": "co_occurrence", "co-occurrence": "co_occurrence"}
UNKNOWN_TIME = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class Steps:
    """Relations seen from a set of nodes: over `edge` from `start` to `end`; all (s,) int32, in order of the nodes."""

    start: Places
    end: Places
    edge: Places


@dataclass(frozen=True)
class Graph:
    """n entities and m relations between them. `ids` are sorted, `edges` (EDGES) are sorted by id.

    `source` and `target` are the ends of each edge as places in `ids`, (m,) int32, never the same.
    """

    ids: pl.Series
    edges: pl.DataFrame
    source: Places
    target: Places
    starts: Offsets
    near: Places
    near_edge: Places

    @cached_property
    def weight(self) -> Numbers:
        """How much each relation weighs, (m,), 0 to 1 (S2-33)."""
        return self.edges["weight"].fill_null(0.0).to_numpy()

    @cached_property
    def kind(self) -> npt.NDArray[np.int8]:
        """The type of each relation as a place in EDGE_TYPES, (m,); one that is not known counts as semantic."""
        codes = self.edges["edge_type"].replace_strict(EDGE_TYPES, range(len(EDGE_TYPES)), default=0)
        return codes.fill_null(0).cast(pl.Int8).to_numpy()

    @cached_property
    def predicate(self) -> Places:
        """The predicate of each relation as a number, (m,), the same for equal ones."""
        return self.edges["predicate"].rank("dense").fill_null(0).cast(pl.Int32).to_numpy()

    @cached_property
    def since(self) -> Offsets:
        """When each relation became true, microseconds since 1970, (m,); UNKNOWN_TIME if it is not known."""
        return self.edges["valid_from"].dt.epoch("us").fill_null(UNKNOWN_TIME).to_numpy()

    @cached_property
    def degree(self) -> Offsets:
        """Relations of each node, (n,)."""
        return np.diff(self.starts)

    @cached_property
    def types(self) -> Offsets:
        """How many of EDGE_TYPES the relations of each node have, (n,)."""
        has_type = np.zeros((len(self), len(EDGE_TYPES)), np.bool_)
        for ends in (self.source, self.target):
            has_type[ends, self.kind] = True
        return np.asarray(has_type.sum(axis=1), np.int64)

    @cached_property
    def place_of(self) -> Mapping[str, int]:
        """The place of each entity, for a question that asks for a few."""
        return {name: place for place, name in enumerate(self.ids)}

    def __len__(self) -> int:
        return len(self.ids)

    def places(self, ids: Sequence[str] | pl.Series) -> Places:
        """Where these entities are in `ids`, in their order; those that are not there are left out."""
        wanted = pl.Series("id", ids, pl.String).drop_nulls()
        if not (len(self) and len(wanted)):
            return np.zeros(0, np.int32)
        slots = self.ids.search_sorted(wanted).clip(upper_bound=len(self) - 1)  # a join would hash all ids each time
        return slots.filter(self.ids.gather(slots) == wanted).cast(pl.Int32).to_numpy()

    def steps(self, nodes: Places) -> Steps:
        """All relations of these nodes; one between two of them is seen from both."""
        counts = self.degree[nodes]
        slots = np.repeat(self.starts[nodes] - np.concatenate(([0], np.cumsum(counts)[:-1])), counts)
        slots += np.arange(len(slots))
        return Steps(np.repeat(nodes, counts).astype(np.int32), self.near[slots], self.near_edge[slots])


def build_graph(entities: pl.Series, relations: pl.DataFrame) -> Graph:
    """The graph of these entities (ids) and of the relations (EDGES) between two different ones of them."""
    ids = entities.unique().sort().rename("id")
    index = pl.DataFrame({"id": ids}).with_row_index("place")
    both = relations.select(*frames.EDGES).sort("id")
    for end in ("subject", "object"):
        both = both.join(index.rename({"id": f"{end}_id", "place": end}), on=f"{end}_id", maintain_order="left")
    edges = both.filter(pl.col("subject") != pl.col("object"))
    source, target = (edges[end].cast(pl.Int32).to_numpy() for end in ("subject", "object"))
    return Graph(ids, edges.select(*frames.EDGES), source, target, *_rows(len(ids), source, target))


def changed_graph(graph: Graph, gone: Collection[str], added: Graph) -> tuple[Graph, Offsets]:
    """The graph without the relations with these ids and with those of another one, which has all of its entities.

    Beside it where each of its relations is: in the old graph, or behind all of those the place in the other one.
    """
    kept = np.flatnonzero(~graph.edges["id"].is_in([*gone]).to_numpy())
    slots = graph.edges["id"][kept].search_sorted(added.edges["id"]).to_numpy().astype(np.int64)
    where = np.insert(kept, slots, len(graph.edges) + np.arange(len(added.edges)))
    moved = added.places(graph.ids)
    source = np.concatenate((moved[graph.source], added.source))[where]
    target = np.concatenate((moved[graph.target], added.target))[where]
    edges = pl.concat([graph.edges, added.edges])[where]
    return Graph(added.ids, edges, source, target, *_rows(len(added), source, target)), where


def _rows(nodes: int, source: Places, target: Places) -> tuple[Offsets, Places, Places]:
    """Where the neighbours of each node begin, the neighbours, and over which edge; in order of node and edge."""
    ends, others = np.concatenate((source, target)), np.concatenate((target, source))
    edge = np.tile(np.arange(len(source), dtype=np.int32), 2)
    order = np.lexsort((edge, ends))
    starts = np.concatenate(([0], np.cumsum(np.bincount(ends, minlength=nodes)))).astype(np.int64)
    return starts, others[order].astype(np.int32), edge[order]


# Edges from mentions: entities that one fact names together are near each other. A memory without a model has no
# relations, and a model's sentence often names more than the two ends of its relation.


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

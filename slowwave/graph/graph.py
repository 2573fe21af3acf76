"""The graph as arrays: who is related to whom, so that a walk is a handful of gathers and no query.

Nodes are entities, edges are relation facts, in both directions; parallel edges stay apart, because each is a fact.
Neighbours lie in compressed sparse rows: those of node `i` are the places `starts[i]` to `starts[i + 1]` of `near`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.common import frames
from slowwave.common.settings import EdgeType, LinkSettings
from slowwave.common.text import statement_hash, timed_id

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


# Links that are no knowledge: entities with similar descriptions, and entities that are parts (S0-15, S2-71, T33). A
# link by similarity is for reading on (T34). Nobody said that the two have to do with each other: it is a row of its
# own table, never a fact, and so counts for no degree, community, split or score. Structure says which entity is a part
# of which, as two facts, one from each end, that end together. A structural fact says how memory is filed, not what is
# so: it has no vector, and no rule counts it as knowledge.


LINKABLE = "status != 'archived' AND merged_into IS NULL"
LINK_ENDS: frames.Schema = {"id": pl.String(), "embed_text_hash": pl.String(), "parent_entity_id": pl.String()}
NEAR: frames.Schema = {"id": pl.String(), "near_id": pl.String(), "cosine": pl.Float64()}
_DIGITS = 6  # a cosine of float32 is known no better
_SAME = 1e-5  # and differs by less where it is computed in another company


@dataclass(frozen=True, slots=True, eq=False)
class LinkPlan:
    """Links (ENTITY_LINKS) that are new or changed, and the ids of those that are no more."""

    links: pl.DataFrame
    gone: pl.Series

    def __len__(self) -> int:
        return len(self.links) + len(self.gone)


def plan_links(
    stored: pl.DataFrame,
    near: pl.DataFrame,
    looked_at: pl.Series,
    ends: pl.DataFrame,
    settings: LinkSettings,
    now: datetime,
) -> LinkPlan:
    """Changes of the stored links (ENTITY_LINKS) after the entities `looked_at` (ids) were compared.

    `near` (NEAR) are the nearest of each entity, itself perhaps among them; `ends` (LINK_ENDS) are those that may be
    linked. What was split from the other is not linked with it. The latest cosine replaces the one before. Links go
    that the entities looked at find no more, and those of entities not in `ends`.
    """
    parents = ends.select("id", "parent_entity_id")
    known = near.with_columns(pl.col("cosine").round(_DIGITS)).filter(
        pl.col("id") != pl.col("near_id"), pl.col("cosine") >= settings.similarity
    )
    named = known.join(parents, on="id").join(parents, left_on="near_id", right_on="id", suffix="_near")
    is_split = (pl.col("parent_entity_id") == pl.col("near_id")) | (pl.col("parent_entity_id_near") == pl.col("id"))
    best = named.sort("id", "cosine", "near_id", descending=[False, True, False]).filter(~is_split.fill_null(False))
    first, second = pl.min_horizontal("id", "near_id"), pl.max_horizontal("id", "near_id")
    top = best.group_by("id", maintain_order=True).head(settings.top_k)
    pairs = top.group_by(a_id=first, b_id=second).agg(pl.col("cosine").max())
    before = stored.join(pairs, on=["a_id", "b_id"], how="left", suffix="_now", maintain_order="left")
    is_there = [pl.col(end).is_in(ends["id"].implode()) for end in ("a_id", "b_id")]
    is_looked_at = pl.any_horizontal(pl.col(end).is_in(looked_at.implode()) for end in ("a_id", "b_id"))
    gone = before.filter(~pl.all_horizontal(is_there) | (is_looked_at & pl.col("cosine_now").is_null()))["id"]
    same = before.filter((pl.col("cosine_now") - pl.col("cosine")).abs() <= _SAME)
    fresh = pairs.join(same, on=["a_id", "b_id"], how="anti").sort("a_id", "b_id")
    rows = frames.with_ids(fresh, "el", "a_id", "b_id").with_columns(linked_at=pl.lit(now, dtype=frames.TIME))
    return LinkPlan(frames.conform(rows, frames.ENTITY_LINKS), gone)


STRUCTURAL = "structural"
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
    ends = facts.filter(pl.col("kind") == STRUCTURAL).select(
        predicate=pl.col("predicate").replace_strict(INVERSE, default=None, return_dtype=pl.String),
        subject_id="object_id",
        object_id="subject_id",
    )
    structural = stored.filter(pl.col("kind") == STRUCTURAL, ~pl.col("id").is_in(facts["id"].implode()))
    return structural.join(ends, on=["predicate", "subject_id", "object_id"], how="semi", maintain_order="left")


def is_filed_elsewhere(entity: pl.Expr) -> pl.Expr:
    """Whether a fact that names an entity is an observation of another one; needs kind and owner_entity_id."""
    is_observed = pl.col("kind").is_in(["observation", "note"])
    return (is_observed & (pl.col("owner_entity_id") != entity)).fill_null(False)


def _fact(subject: Named, predicate: str, object_: Named, now: datetime) -> dict[str, Any]:
    statement = _SAYS[predicate].format(subject[1], object_[1])
    return dict.fromkeys(frames.FACTS) | {
        "id": timed_id("f", now, predicate, subject[0], object_[0]),
        "kind": STRUCTURAL,
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

"""The graph: relations as arrays, and what is computed from them.

- `graph`: the arrays, and links that are no knowledge: similar descriptions, and parts of entities
- `name_index`: entities by the words of a query: where a walk begins
- `walks`: relations near these: breadth first, and by spreading activation
- `community_detection`: groups of entities, with an identity that lasts
- `community_plan`: all changes of a refresh of communities, with summaries
- `map_layout`: places of entities on the map

How they work together. Nodes are entities, edges are live facts of the kind relation, in both directions. Neighbours
lie in compressed sparse rows: those of node `i` are a slice of one array, so a walk over thousands of edges is a
handful of gathers and no query. `recall/graphs` builds the arrays once and lets them follow the commits; a memory
without a model has no relations, so the entities that one fact names together are joined, too.

A question that names entities starts a walk. `name_index` finds its seeds by the beginnings of words, `walks` goes on
from all seeds at once: breadth first, or with an activation that weakens at each hop and at entities with many
relations. The score of a relation is the best that any single seed would give it, so the cost does not grow with the
number of seeds.

At night, groups are computed again from the arrays (`community_detection`, by propagation of labels). A group has a
fingerprint of its members and their relations: while it stays the same, nothing is written and no model is asked. Its
id outlives changes as long as most members stay. `community_plan` is the plan of such a refresh: new, changed and gone
groups; without a model a summary is a few of the facts themselves. (Conversations are summarised elsewhere, and by a
model alone: `slowwave/reading/ingestion/sessions`.)

Two kinds of edges are no knowledge. Entities with similar descriptions are linked for reading on, in a table of their
own, and count for no degree, community or score; structure says which entity is a part of which: how memory is filed,
not what is so. Both are made in `graph`.

`map_layout` places the entities for the atlas and the page: communities apart from each other, neighbours near each
other, without chance, so that one graph always gives one map.
"""

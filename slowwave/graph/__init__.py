"""The graph: relations as arrays, and what is computed from them.

- `graph`: the arrays
- `name_index`: entities by words of a query: the seeds of a walk
- `walks`: relations near the seeds: breadth first, by spreading activation, and paths
- `community_detection`: groups of entities, with an identity that lasts
- `community_plan`: all changes of a refresh of communities, with summaries
- `links`: links that are no knowledge: similar descriptions, and parts of entities
- `map_layout`: places of entities on the map
"""

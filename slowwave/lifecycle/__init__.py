"""Lifecycle: what happens to facts and entities after they were learned.

- `usage_scores`: how often is a fact recalled, and what is it worth?
- `pruning_and_eviction`: which facts fade, and which move to the archive?
- `restore`: which archived facts come back?
- `quotations`: which ones go once a model has read their messages?
- `entity_merges`: what of one entity goes to another that is the same?
- `entity_decisions`: what people decided about entities
- `erasure`: which rows go with a forgotten subject?
- `forgotten_names`: where does a text name it?
- `probes`: did maintenance make recall worse? The questions of the gate
- `run_counts`: the names of what a run counts, and its changes in a few words
"""

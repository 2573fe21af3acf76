"""Deduplication: facts that say the same are merged, if the guards agree. In the order in which they run:

- `observations`: is an observation of an entity new, known, or similar to another?
- `blocking`: which pairs of facts are compared at all?
- `duplicates`: which of them are duplicates by rule?
- `pairs_for_a_model`: which other pairs does a model judge?
- `merged_facts`: what does the merged fact have of each?
- `pair_outcomes`: what follows from a verdict, and which pairs wait?
- `consolidation_plan`: all changes of a consolidation, as one plan
- `artifacts`: the same for documents and pasted texts: duplicates, versions, derivatives
"""

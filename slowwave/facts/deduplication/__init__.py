"""Deduplication: facts that say the same are merged, if the guards agree. In the order in which they run:

- `observations`: is an observation of an entity new, known, or similar to another?
- `duplicates`: which pairs of facts are compared at all, and which of them are duplicates by rule?
- `pairs_for_a_model`: which other pairs does a model judge?
- `merged_facts`: what does the merged fact have of each?
- `reconciliation_plan`: which facts does a verdict of a model end, which pairs wait, and all changes as one plan
- `artifacts`: the same for documents: duplicates, versions, derivatives
"""

"""What a nightly run does; `ingest` uses the parts that a first look needs. In the order in which they run:

- `fact_reconciliation`: duplicate facts are merged, outdated ones end (flow `consolidate`)
- `overrides`: what rank alone refused becomes proposals
- `scoring_and_pruning`: use is counted, facts are scored, unused ones are archived, near-duplicates merged (`steward`)
- `eviction`: old facts and entities move to the archive (flow `decay`)
- `groups`: communities are found and summarised (flow `communities`), aspects are scored
"""

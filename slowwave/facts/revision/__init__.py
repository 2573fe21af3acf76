"""How claims become facts, and how facts end. Each file answers one question; in the order in which they run:

- `extracted_claims`: which claims did the extractor make?
- `predicates`: which relation do the words of a claim mean, and does it allow one object or several?
- `search_terms`: by which further words is a fact found?
- `candidates`: how does a claim become a candidate fact?
- `pending_beliefs`: when is an unsure claim sure enough?
- `evaluation`: which candidates pass?
- `repetition`: which candidates repeat a fact, and what does a repetition change?
- `late_arrivals`: what changes when a message or a fact comes late?
- `referenced_facts`: which known facts does a text mean?
- `mutual_exclusion`: which facts exclude each other?
- `conflicts`: which of two facts that do not fit ends the other, and which stay as a possible contradiction?
- `revision_state`: how is a fact closed, and by which facts may it be?
- `supersession`: what ends a fact?
- `application`: which candidates become facts? It calls most of the above.

Facts also end by verdicts of a model about pairs of facts: `slowwave/facts/deduplication/reconciliation_plan`.
"""

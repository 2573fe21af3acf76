"""Facts: how claims become facts, which facts say the same, and how facts end.

- `revision`: from a claim to a candidate, from a candidate to a fact, and to its end
- `deduplication`: facts that say the same become one, if all guards agree; documents and their versions
- `aspects`: which of fourteen aspects of a life a fact touches
- `searched_texts`: the text that is embedded and searched for a row

How they work together. Extraction gives claims: a statement, perhaps with subject, relation and object, with times and
a quotation. `revision/extracted_claims` checks them against the window, `revision/predicates` gives the relation its
stored form and its cardinality: lives_in allows one object at a time, likes allows many. `revision/candidates` makes
candidates in patches, which recall never sees. A claim that is too unsure waits as a belief until enough messages say
the same (`revision/pending_beliefs`).

`revision/evaluation` decides which candidates pass. `revision/application` is the only rule that makes a fact active.
It asks in this order: does the candidate repeat a known fact (`repetition`)? Does a text say that a known fact is over
(`referenced_facts`)? Do two facts exclude each other because their relation allows one object (`mutual_exclusion`),
and which of the two ends (`conflicts`)? `supersession` carries it out.
`revision_state` checks rank, order of time and chains of each such end; a fact that is merged into another ends in
`deduplication/merged_facts`. `late_arrivals` keeps a promise: the same messages in any order give the same memory.

Reconciliation comes afterwards, at the end of an ingest and at night. `deduplication/duplicates` finds pairs that are
near in meaning, or about one matter, and merges those on which all guards agree; `pairs_for_a_model` chooses the few
that a model should judge; `merged_facts` makes the fact that stays, and `reconciliation_plan` says what
answers end and puts all of it into one plan, which a task writes or a person is asked about.
`observations` is the same question for a single text that a person or an agent states.

What makes two facts the same: at ingest `revision/repetition` (the same words, or a near meaning and every guard),
afterwards `deduplication/duplicates` (near words or meaning, and every guard); the guards are in
`common/comparison/guards`, the thresholds in the settings. What makes a fact end: a statement that it is over, a newer
fact that excludes it, a verdict, or a person; never similarity. Each of it leaves a row in `decisions`, and each can
be undone.
"""

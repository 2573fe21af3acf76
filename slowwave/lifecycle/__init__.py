"""Lifecycle: what happens to facts and entities after they were learned.

Facts
- `usage_scores`: how often is a fact recalled, and what is it worth?
- `pruning_and_eviction`: which facts fade, and which facts and entities move to the archive? Which quotations go once
  a model has read their messages?
- `restore`: which archived facts come back?

Entities
- `entity_merges`: what of one entity goes to another that is the same, and which facts exclude each other then?

Both
- `erasure`: which rows go with a forgotten subject?
- `forgotten_names`: where does a text name it?
- `probes`: did maintenance make recall worse? The questions of the gate

How they work together. Reading leaves events in a log. At night the steward makes counters of them, each event once,
and scores all live facts (`usage_scores`): hits count for ever, links weaken while nobody asks. Facts that were never
recalled and score low are archived, near-duplicates are merged in favour of the one that is used. Decay then moves
facts that ended long ago into the table `facts_archive`, archives entities without facts, and limits the number of
pending beliefs (`pruning_and_eviction`). A fact that holds is never touched, but for the limit on the facts of one
entity. Pinned facts, axioms of a person and structure are never touched at all.

Nothing of this is final. `restore` brings archived facts back with what left with them, unless something that was
learned meanwhile stands in the way. A merge (`entity_merges`) moves facts, names and pairs from one entity to another
and can be taken back.

`probes` are the questions of the gate: drawn from facts before a phase, asked again after it. Where answers are lost,
the phase is undone.

Erasure is the exception: it changes the past. `forgotten_names` finds every text that names the subject, `erasure`
says which rows go, table by table, and the storage rewrites every version. Everything else here gives rows for one
commit, which undo takes back.
"""

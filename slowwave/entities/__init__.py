"""Entities: which person, place, project or thing does a name mean? In the order in which they run:

- `mentions`: the names of a batch, each once, in their stored form
- `name_matching`: are two names spellings of one, or one short for the other? Also in Chinese, Japanese and Korean
- `name_joins`: which known entity does a name join, by rule?
- `entity_resolution`: the entity of every name, and the questions that stay

How they work together. Extraction hands over names as they were written, with the window, the speaker and a type.
`mentions_in` makes one mention of each name of a batch: the form is normalised, the type is the most frequent one, "my
wife Anna" is Anna, with "evan's wife" as a second name. Names under three bytes and words that are no name are counted
and left out.

`plan_resolution` looks each mention up among the entities and their other names. Where the exact name is known, this is
the entity. If not, `plan_joins` tries the rules: another spelling, a first name that only one known person has, a short
name that only one full name fits, a kin name whose bearer is known. Different numbers always mean two things. A first
name that fits two people joins neither, because a wrong join is worse than two entities.

What no rule joins is compared by the meaning of name and description. Near enough and nothing against it: the same
entity. Near, but not near enough: a question, for a model if there is one; else it waits for a person. All others
become new entities. `finish` takes the answers and makes the rows of entities, other names and decisions.

The tasks (`tasks/ingest/identities`) run this on a snapshot and write the rows in the commit of the candidates. What
comes later in the life of an entity needs its facts, and so lies above them, in `lifecycle`: merges, archive and
erasure; splits are proposed in `review`.
"""

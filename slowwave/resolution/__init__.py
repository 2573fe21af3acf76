"""Resolution: which entity does a name mean? In the order in which they run:

- `mentions`: the names of a batch
- `names_in_signs`: family names and given names in Chinese, Japanese and Korean
- `name_matching`: can two names belong to one thing?
- `name_joins`: which known entity does a name join, by rule?
- `entity_resolution`: the entity of every name, and the questions that stay
"""

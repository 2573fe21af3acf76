"""Ranking: in which order facts and entities are recalled. Rules on frames and arrays; nothing here reads a store.

- `questions`: the time that a question names, and the relation that it asks for
- `order`: from the scores of search to the order of recall
- `entity_weights`: what is read often, lately and together comes first
"""

"""Ranking: in which order facts and entities are recalled.

- `searched_texts`: the text that is embedded and searched for a row
- `questions`: the time that a question names, and the relation that it asks for
- `order`: from the scores of search to the order of recall
- `entity_weights`: what is read often, lately and together comes first
"""

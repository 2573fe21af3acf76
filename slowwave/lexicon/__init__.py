"""Word tables: words that the rules read, as data.

- `statement_words`: negation, amounts, times, persons; stop words; a quick check for words of time
- `verbs`: verbs and the relations of their clauses; nouns of events, and the verbs for them
- `labels`: types and relations in English and Spanish
- `languages`: the language of a text, and the small words of each
- `family_names`: common family names in Chinese, Japanese and Korean
- `given_names`: common given names
- `place_hierarchy`: towns, regions, countries
- `noise_phrases`: small talk, procedure, examples of noise
"""

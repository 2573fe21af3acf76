"""Extraction by rules: facts, names and times in a window of messages. From a window to its parts:

- `rules`: the extractor: a window becomes a `WindowReading`
- `readings`: what was read so far, in the form of a model's answer
- `roster`: who speaks, known before extraction
- `names`: which names are in a sentence, and which become entities
- `clauses`: a sentence as subject, negation or wish, verb, and rest
- `coreference`: first person to third person
- `relations`: subject, relation and object of a clause, in English and Spanish
- `decisions`: decisions, causes, values and corrections
- `reversals`: "from A to B", "no longer Y", "forget Y"
- `events`: which event a sentence gives a day, or moves to another day
- `dates`: when a statement was made, when it holds, when the event happens
- `date_patterns`: patterns for words of time
- `reasons`: clauses of reason, whose times are not those of the sentence
- `date_words`: which days "last week" or "3 to 7 May" are
- `tense`: whether the words about a date are past or future
- `question_times`: which time a question names
"""

"""Names, quotations and times in a window of messages, without a model. From a window to its parts:

- `quotes`: the extractor: durable sentences become quotations
- `roster`: who speaks, known before extraction
- `names`: which names are in a sentence, and which become entities
- `kinship`: people who are named by kin or role
- `dates`: when a statement was made, when it holds, when the event happens; patterns for words of time
- `date_words`: which days "last week" or "3 to 7 May" are
- `question_times`: which time a question names
"""

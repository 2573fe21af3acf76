"""Reading: from a file to sentences that are worth keeping, with their names and times. No model is needed for it.

- `ingestion`: files become messages, each once, in order; long conversations become windows
- `filters`: which messages are refused, and what is removed from the others
- `extraction`: the names, quotations and times in a window

How they work together. `ingestion/formats` tells what kind of file it is: transcripts, exports of chats, sessions of
agents, documents. All give the same rows of messages. `ingestion/parsers` says which parser
reads a file, `ingestion/conversations` puts messages in order, gives each an id that stays the same when the file is
read again, and lets `filters/redaction` remove secrets before anything is stored, embedded or sent.

Every message then gets exactly one state. `filters/noise` refuses small talk, procedure and output, `filters/novelty`
what the conversation has just said. A refused message stays as a row that names the filter and the reason. Without a
model, `filters/durability` refuses what nobody needs in a month, at extraction. `filters/injection` marks texts that
give orders to their reader: they are kept, not extracted unless a person forces it, and never shown as an instruction.

What is left goes to `ingestion/windows`: as many messages as one call of a model takes, with the end of what came
before. `extraction/roster` says who speaks in a window, before anybody extracts. With a model, the window becomes a
prompt; without one, `extraction/quotes` keeps durable sentences as they were said. Either way `extraction/names` says
which names are in a sentence, `extraction/kinship` whom "my older sister" means, and `extraction/dates` gives a
statement its three times: when it was stated, since when it holds, when the event happens. The date of a model holds,
and the words of time check it. `extraction/question_times` reads the time that a question names, for recall.

`ingestion/sessions` says which conversations have grown enough for a summary; it uses the summaries of `graph`.

To add a source format: a parser beside the others, a rule in `ingestion/formats` that recognises it, and a line in the
table of `ingestion/parsers` (CONTRIBUTING has the steps). What comes out of this room are messages, windows and
statements with names; which entity a name means is decided in `entities`, and whether a statement becomes a fact in
`facts`.
"""

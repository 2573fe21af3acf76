"""Common: what every other room uses, and what uses none of them.

What crosses borders
- `settings`: every default once, a frozen model for each stage; file, flags and forms are made from them
- `types`: the answers of the Python API, as frozen records of plain values; reading fills them in
- `records`: small records between the rules, the model clients and the tasks, such as a prompt and what it cost
- `frames`: the columns of the frames that rules hand over: those of the tables that they end in
- `decisions`: rows of the table `decisions`: what was changed or refused, and why
- `errors`: every error that is raised on purpose, with the way out
- `arguments`: what a program may pass to a call: texts, times, numbers
- `run_counts`: the names of what a run counts, and its changes in a few words

Words
- `text`: words, sentences, names and identifiers in their stored forms
- `words`: how texts are split, and words freed of their endings
- `lexicon`: tables of words: negation, amounts, labels, languages, names of people, places
- `comparison`: do two statements say the same? Normal forms, similarity, and the guards that decide

Time and standing
- `timestamps`: points in time, as files and commands write them
- `validity`: when a fact holds and when it was believed, as a condition of frames and as the same condition of tables;
  who stands behind it, and which facts nothing automatic may end

The package itself
- `installation`: where the other packages are, in a checkout or in the wheel
- `__version__`: the wheel, the command line and the MCP server have it from here (docs/releasing.md)

How they work together. A rule anywhere takes frames whose columns `frames` names, settings of its stage, and the
present moment as an argument; it gives back frames, and rows of `decisions` for what it did. It never reads the clock
or a file. So the same call with the same frames has the same result, and a test needs no store.

Statements are compared in one way everywhere: a text becomes words (`words`), pairs that may be alike are found without
comparing all (`comparison/similarity`), and the guards (`comparison/guards`) read numbers, names, denials, times and
every other word on both sides. Similarity alone decides nothing: the filters use it to see that a message is nothing
new, deduplication to find pairs, and each of them asks the guards.

A question about time is a `Moment` (`validity`): the present, the time that is asked about, and the time whose beliefs
are asked for. The rules apply it to frames and the store to its tables, so both give the same facts.
"""

__version__ = "0.1.0"

"""Review: what waits for a person, why, and what a yes or a no would write.

- `proposals`: changes that wait, and the decisions on them
- `changes`: rows before and after, and how a person reads them: title, reason, sentences
- `open_questions`: pairs and changes that no rule may decide
- `split_suggestions`: which entities have too many observations, and into which topics could they be split?
- `split_plan`: which observation goes to which new entity, and what is wrong with such a plan?
- `report`: what in a memory needs a person's eye

How they work together. A run that proposes does not write what it would change: the storage collects the changes
(`storage/drafts`), and each becomes a proposal. `changes` compares the rows before and after and tells the difference
in sentences; `proposals` gives it a title, a risk and a reason, and checks what a person answers: a yes, a no, or a
change of what is proposed.

Some matters are open without any run that proposes. `open_questions` finds pairs that a guard kept apart although
nearly all their words agree, and changes that only the rank of a fact prevented. A person may say that two such
statements are one. What is about two things, of two scopes or of two times, nobody may merge, and it is never asked.

The answers come from four places, which share these rules: `slowwave review`, the page of `slowwave serve`, the flow
`review` in the Prefect UI, and the tool `review` of the MCP server. `tasks/people/review` checks everything that a
plan rests on once more and carries it out in one commit; what has changed meanwhile makes the proposal void instead of
wrong. Splits and deletions that an agent asks for are always proposals. A split moves each observation to one of the
new entities, all or nothing.

The report is the other half: it changes nothing and waits for nobody. `report` takes frames of the whole memory and
finds entities that are too large, names that may be one, facts that contradict or are doubtful, and gives each finding
a sentence with the next command. They are shown as tables, the same on the page, in the terminal and in Prefect.
"""

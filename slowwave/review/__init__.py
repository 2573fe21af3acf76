"""Review: what waits for a person, why, and what a yes or a no would write.

- `proposals`: changes that wait, and the decisions on them
- `changes`: rows before and after, and how a person reads them: title, reason, sentences
- `overrides`: changes that rank alone prevented
- `split_suggestions`: which entities have too many observations, and into which topics could they be split?
- `split_plan`: which observation goes to which new entity, and what is wrong with such a plan?
- `report`: what in a memory needs a person's eye

A run that proposes does not write: the storage collects its changes (`storage/drafts`), and each becomes a proposal.
Terminal, page, Prefect and MCP clients decide by the same rules; `tasks/people/review` checks what a plan rests on once
more and carries it out in one commit, or refuses it as stale.
"""

"""Review: what waits for a person, why, and what a yes or a no would write.

- `proposals`: changes that wait, and the decisions on them
- `changes`: rows before and after, and how a person reads them: title, reason, sentences
- `overrides`: changes that rank alone prevented
- `split_suggestions`: which entities have too many observations, and into which topics could they be split?
- `split_plan`: which observation goes to which new entity, and what is wrong with such a plan?
- `report`: what in a memory needs a person's eye

How they work together. A run that proposes writes as always, but its transaction is a draft (`storage/drafts`). The
draft puts rows that depend on each other into one group (`group_rows`), reads the risks of each group off its rows
(`risks_of`), and writes at once what needs nobody. Each other group becomes a proposal: its rows before and after
(`changes`), what they rest on as a hash, its title and sentences, and a key by which a proposal that a person rejected
is not made again.

Two kinds of changes begin here. The ledger says which change a rule did not make because its source was weaker
(`overrides`); a person is asked. An entity with too many topics gets a suggestion; a split is checked as a whole, and
made completely or not at all (`split_plan`). The `report` only says where to look, and changes nothing.

Terminal, page, Prefect and MCP show the same proposals (`recall/proposals`); a person decides in the first three.
`tasks/people/review` checks once more what a proposal rests on. Then it writes all of it in one commit, or refuses it
as stale. A no is written, too: the candidate is rejected, the pair stays apart.
"""

"""Review: what waits for a person, why, and what a yes or a no would write.

- `proposals`: changes that wait, and the decisions on them
- `changes`: rows before and after, in words
- `open_questions`: pairs and changes that no rule may decide
- `report`: what in a memory needs a person's eye, as rows and as tables
- `split_suggestions`: which entities hold too much, and by which topics
- `split_plan`: which observation goes to which new entity
"""

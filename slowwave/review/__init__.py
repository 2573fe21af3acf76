"""Review: what waits for a person, why, and what a yes or a no would write.

- `proposals`: changes that wait, and the decisions on them
- `changes`: rows before and after, in words
- `open_questions`: pairs and changes that no rule may decide
- `report`: what in a memory needs a person's eye
- `report_sections`: its findings, as tables
"""

"""What people decide, add and forget:

- `review`: splits are proposed, and a yes or no to any proposal is carried out
- `observations`: a statement is added or retired
- `forgetting`: a person or topic is erased everywhere
- `erasure_plan`: what that changes, table by table
- `reporting`: what flows show and ask in the Prefect UI: the report, findings, undo, restore, the form of a review
"""

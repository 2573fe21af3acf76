"""What people decide, add and forget:

- `review`: splits are proposed, and a yes or no to any proposal is carried out
- `review_forms`: the form of a review in the Prefect UI
- `observations`: a statement is added or retired
- `forgetting`: a person or topic is erased everywhere
- `erasure_plan`: what that changes, table by table
- `reporting`: the report, what the doctor finds, undo and restore: what they do, and their pages in the Prefect UI
"""

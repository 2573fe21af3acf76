"""What people decide, add and forget:

- `review`: a yes or no to proposals is carried out, within a run or as a run of its own
- `review_forms`: the form of a review in the Prefect UI
- `observations`: a statement is added or retired
- `splitting`: an entity becomes several, by topic
- `forgetting`: a person or topic is erased everywhere
- `erasure_plan`: what that changes, table by table
- `reporting`: the report, what the doctor finds, undo and restore: what they do, and their pages in the Prefect UI
"""

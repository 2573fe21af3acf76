"""What every run needs:

- `engine`: the only place that knows whether Prefect runs the work; events and turns
- `prefect_engine`: flows and tasks under Prefect
- `retrying`: what is tried again, when, and time limits
- `runs`: the record of a run, its store and its models
- `writing`: one commit of a run, or proposals
- `run_pages`: pages of a run in the Prefect UI
- `registration`: objects that deployments need
"""

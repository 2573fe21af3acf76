"""A Prefect server, the deployments and a worker on this machine: `slowwave up` and `slowwave down`.

Files, in the order in which they are used: `setup` (what was asked for, its folder and its environment), `deployments`
(what runs, on which memory), `parts` (the two processes).
"""

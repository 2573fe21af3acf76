"""A Prefect server, the deployments and a worker on this machine: `slowwave up` and `slowwave down`."""

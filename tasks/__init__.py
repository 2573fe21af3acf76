"""Prefect tasks: read, decide by a rule, write."""

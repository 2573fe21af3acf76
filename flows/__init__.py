"""Prefect flows: one file, one flow, one deployment."""

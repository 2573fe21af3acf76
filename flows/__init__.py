"""Prefect flows, each a deployment: a short list of calls.

- `ingest`: conversations and documents become facts, also those that arrive in a folder
- `maintenance`: consolidate, steward, decay, communities, upkeep
- `nights`: all of them one after the other, in many namespaces, or after old messages were read
- `oversight`: what a person looks at, decides, takes back or changes: report, review, undo, restore, doctor, reembed
"""

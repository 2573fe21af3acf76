"""Prefect tasks: read, decide by a rule of `slowwave`, write. Each folder lists its files.

- `runtime`: the engine, runs, retries
- `ingest`: from files to facts
- `nightly`: what a nightly run does
- `people`: what people decide, add and forget
- `entities`: writes around one entity
- `transfer`: imports, exports, another embedding model
- `orchestration`: phases, backfills, fleets
"""

"""Integrations: how other programs use a memory, and what they bring along.

- `python_api`: `open_memory` and `OpenMemory`, by which programs, commands, MCP server and page read. It lies in the
  importable package, so that a type checker that has only the wheel sees every call; each call imports its parts
- `additions`: the half of it that writes
- `mem0`, `langgraph`: faces for other libraries; `tools`: functions that any library of agents takes. They use nothing
  but the public calls; `shared`: what they share
- `foreign`: exports of mem0, Graphiti and Zep and of the memory server of MCP, in one form
"""

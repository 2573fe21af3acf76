"""Integrations: how other programs use a memory, and what they bring along.

- `python_api`: `open_memory` and `OpenMemory`, by which programs, commands, MCP server and page read. It lies in the
  importable package, so that a type checker that has only the wheel sees every call; each call imports its parts
- `additions`: the half of it that writes
- `mem0`, `langgraph`: faces for other libraries; `tools`: functions that any library of agents takes; `shared`: what
  these three share
- `foreign`: exports of mem0, Graphiti and Zep and of the memory server of MCP, in one form

How they work together. `open_memory` finds the other packages (`common/installation`) and the `Place` of the memory:
store, namespace and settings. The first call opens it. A read goes to one `Recaller` (`recall/recaller`), which is kept
open and follows the commits of all processes. An addition is a run of its own: `add_observations`, `revise` and
`retire` call the tasks that the commands call, `ingest` the flow. Several threads that add at once share a run
(`common/grouped_calls`).

The faces have no rules of their own. A user of mem0 is a namespace, whose memory `mem0` opens; an item of LangGraph is
one observation, in words from which it can be read back; the tools are `recall` and `remember`. Each puts the arguments
of its library into calls of `OpenMemory`, and the answers into its records. So the filters, sources and undo are those
of any other run. Where there is no store yet, a read finds nothing and warns once (`shared`).

`foreign` knows no memory: `parsers` recognises an export, `records` turns its parts into messages, names and claims,
and `tasks/transfer/imports` has them evaluated as it has everything else.
"""

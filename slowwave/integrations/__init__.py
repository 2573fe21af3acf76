"""Integrations: how other programs use a memory, and what they bring along.

Python
- `python_api`: `open_memory` and the class `OpenMemory`, by which programs, commands, MCP server and page read

Faces for other libraries, each a module of its own; none is imported before a program asks for it
- `mem0`: a `Memory` with the calls of mem0's
- `langgraph`: a `BaseStore`
- `langchain`: a retriever
- `openai_agents`: a session that learns
- `pydantic_ai`: a tool set
- `llama_index`: a memory block
- `shared`: what they share: missing libraries, a memory that is not there yet, new turns without times

Other memories
- `foreign`: exports of mem0, Graphiti and Zep and of the memory server of MCP, in one form; and an audit of them

How they work together. `from slowwave import open_memory` gives an `OpenMemory`: one namespace of a store with every
call, its signature and the checks of its arguments. It lies here and not in `apps` because it must be in the package
that a wheel makes importable: a type checker that has only the wheel sees every call and every record
(`common/types`). Importing it needs nothing but Python. The work is done by `recall` and `tasks`, which each call
imports when it is made; this is the one place of the rules that imports from above, beside the start of the command
line (decision 20). `apps/configuration` says where the store is and which settings count; a memory of a known place is
`OpenMemory(place)`.

The faces translate: the calls of another library become calls of `OpenMemory`, and its records become theirs. They use
nothing but the public calls, so whatever they can do, a program can do as well. Each needs its library, which comes
with an extra of the package; without it the import says which.

`foreign` goes the other way. `parsers` tells which system wrote a file and reads its form, `records` is the
common one, and makes messages, names and claims of it, which then pass through the same filters and rules as a
conversation. `audit` judges such an export by our rules without storing anything: duplicates,
contradictions, what is stale, secret or broken.
"""

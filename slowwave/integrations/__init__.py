"""Faces for other libraries, each a module of its own; none is imported before a program asks for it.

- `mem0`: a `Memory` with the calls of mem0's
- `langgraph`: a `BaseStore`
- `langchain`: a retriever
- `openai_agents`: a session that learns
- `pydantic_ai`: a tool set
- `llama_index`: a memory block
- `shared`: what they share: missing libraries, a memory that is not there yet, new turns without times
"""

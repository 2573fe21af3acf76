"""Exports of other memory systems: mem0, Graphiti and Zep, the reference memory server of MCP.

- `parsers`: which system wrote an export, and the forms of these systems
- `records`: the common form, and the same as messages, names and claims of our own
"""

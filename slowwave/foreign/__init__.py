"""Exports of other memory systems: mem0, Graphiti and Zep, the reference memory server of MCP."""

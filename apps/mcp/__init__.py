"""The door for agents: an MCP server over one namespace. It holds no rules of its own; what it does, the rest does."""

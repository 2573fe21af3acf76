"""The MCP server for agents, over one namespace. It has no rules of its own: it calls what the command line calls."""

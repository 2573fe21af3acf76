"""The page in the browser, and MCP, in one process over one memory."""

"""The page in the browser, a JSON API and MCP, in one process over one memory."""

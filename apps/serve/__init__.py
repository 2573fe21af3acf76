"""The page in the browser, a JSON API and MCP, in one process over one memory.

access      who may come in, and what a request may send
site        what all pages share: the memory, the templates, errors in plain words
asking      questions, stories, entities over time, costs; the same as JSON
deciding    what runs changed, their undo, and what waits for a person; the same as JSON
app         all addresses, and the server
"""

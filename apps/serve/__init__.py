"""The page in the browser, a JSON API and MCP, in one process over one memory.

access      who may come in: token, cookie, names of the server, where a request comes from
bodies      what a request sends: forms and JSON documents, within limits, by their types
site        what all pages share: the memory, the templates, errors in plain words
asking      the page to ask, and the story of a fact, a message or a run; the same as JSON
people      entities, and what was true of one at the end of a day
runs        what runs changed, and their undo
reviewing   what waits for a person: approve, change, reject
costs       calls, tokens and dollars by day
app         all addresses, and the server
"""

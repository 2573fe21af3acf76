"""Entry points: what a person, an agent or a browser calls.

- `cli`: the command line; `*_commands`: a function for each command; `options`: their options, each declared once;
  `printing`: how results look; `demo`: what `slowwave demo` shows
- `configuration`: settings from file, environment and flags, and `Place`: the store, namespace and settings of a call
- `mcp`: tools for agents; `serve`: the page in the browser, with MCP in the same process; `atlas`: scripts of its map
- `local_server`: Prefect on this machine, for `slowwave up` and `slowwave down`

How they work together. Each entry point makes a `Place`. Reads go through `OpenMemory` (`slowwave/integrations`) or
`recall`; changes are flows or tasks, the same for all of them. So a command, a tool and a button that do the same have
the same rules, and leave the same run with its undo. No rule about memory is here.

`slowwave --help` must be fast: `cli` reads the first sentences of the commands from their sources, and only the module
of the called command is imported; what it calls is imported inside its function. A command yields its document first,
then lines and tables. `printing` shows one or the other, and makes stored text harmless to a terminal.

Not all callers may do the same. An agent reads and adds; what it wants to delete or split stays a proposal, and no tool
takes a yes (`mcp/changes`). The page has a token of its own, so an agent cannot approve by its own token
(`serve/access`). Errors of ours are a sentence and a way out in all of them: an exit code, a result of a tool, a page.
"""

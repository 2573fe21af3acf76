"""The command that serves agents."""

from __future__ import annotations

from typing import Annotated

import typer

from slowwave.errors import UnusableInput

from .options import NamespaceOption, Place, StoreOption


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command("mcp")(serve)


def serve(
    http: Annotated[
        str | None,
        typer.Option(
            "--http",
            metavar="HOST:PORT",
            help="Serve over streamable HTTP at /mcp, for example 127.0.0.1:8765; by default on stdin and stdout.",
            show_default=False,
        ),
    ] = None,
    called: Annotated[
        list[str] | None,
        typer.Option(
            "--host-name",
            metavar="NAME",
            help="With --http: another name by which clients call this machine; all others are turned away.",
            show_default=False,
        ),
    ] = None,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
) -> None:
    """Serve agents over MCP: recall, add, review. It runs until the client hangs up, or Ctrl-C.

    In `claude_desktop_config.json` of Claude Desktop, or `.mcp.json` of Claude Code:

        {"mcpServers": {"memory": {"command": "slowwave", "args": ["mcp", "--store", "/path/to/memory"]}}}

    Over HTTP every request needs `Authorization: Bearer TOKEN`, with the token in SLOWWAVE_MCP_TOKEN; without one, a
    random token is shown at the start.
    """
    from apps.mcp.door import Door
    from apps.mcp.server import serve_http, serve_stdio
    from apps.mcp.tokens import parse_address, token_for

    if called and http is None:
        raise UnusableInput("--host-name says how a server is called, and there is none.", "Give --http HOST:PORT.")
    place = Place.of(store, namespace)
    if http is None:
        serve_stdio(Door(place))
        return
    address = parse_address(http)
    token = token_for(address)
    serve_http(Door(place), address, token, called or ())

"""The command that serves agents."""

from __future__ import annotations

from typing import Annotated

import typer

from slowwave.errors import UnusableInput

from .configuration import Place
from .options import add_command


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    add_command(app, serve, "mcp")


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
            help="With --http: another host name of this machine; requests to unknown names are refused.",
            show_default=False,
        ),
    ] = None,
    *,
    place: Place,
) -> None:
    """Serve agents over MCP, until the client disconnects or Ctrl-C.

    In `claude_desktop_config.json` of Claude Desktop, or `.mcp.json` of Claude Code:

        {"mcpServers": {"memory": {"command": "slowwave", "args": ["mcp", "--store", "/path/to/memory"]}}}

    Over HTTP every request needs `Authorization: Bearer TOKEN`, with the token in SLOWWAVE_MCP_TOKEN; without one, a
    random token is shown at the start.
    """
    from apps.mcp.server import parse_address, serve_http, serve_stdio, token_for

    if called and http is None:
        raise UnusableInput("--host-name says how a server is called, and there is none.", "Give --http HOST:PORT.")
    memory = place.memory()
    if http is None:
        serve_stdio(memory)
        return
    address = parse_address(http)
    serve_http(memory, address, token_for(address), called or ())

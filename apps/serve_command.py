"""The command that serves the page in the browser, with the JSON API and MCP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .configuration import Place
from .options import JsonOption, add_command
from .printing import err, out, print_json


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    add_command(app, serve)


def serve(
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Where it listens; 0 takes a free one.")] = 8766,
    host: Annotated[
        str,
        typer.Option("--host", metavar="ADDRESS", help="Which address it listens on; others need a token of yours."),
    ] = "127.0.0.1",
    called: Annotated[
        list[str] | None,
        typer.Option(
            "--host-name",
            metavar="NAME",
            help="Another host name of this machine; requests to unknown names are refused.",
            show_default=False,
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help="A file with the token of page and API; default $SLOWWAVE_SERVE_TOKEN.",
            show_default=False,
        ),
    ] = None,
    is_opened: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    *,
    place: Place,
    as_json: JsonOption = False,
) -> None:
    """Serve the memory as a page in the browser, with a JSON API and MCP, until Ctrl-C.

    Ask, look at people and their past, see what the last night changed and undo it, review what waits, costs, atlas.
    The API is at /api, MCP at /mcp. Page and API need one token (SLOWWAVE_SERVE_TOKEN or a file), MCP needs another
    (SLOWWAVE_MCP_TOKEN), so that no agent can approve; random ones are shown at the start. The link logs in once.
    """
    from apps.mcp.server import parse_address, token_for
    from apps.serve.access import PAGE_VARIABLE, Tokens
    from apps.serve.app import serve as run

    address = parse_address(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    tokens = Tokens(token_for(address, token_file, PAGE_VARIABLE), token_for(address))

    def say(page: str, mcp: str) -> None:
        if as_json:
            made = {"token": tokens.page, "mcp_token": tokens.mcp}
            shown = {name: token.text for name, token in made.items() if token.is_new}
            print_json({"url": page, "mcp": mcp, "namespace": place.namespace, **shown})
            return
        out.print(f"Memory {place.namespace!r}: {page}", markup=False, soft_wrap=True)
        if tokens.page.is_new:
            out.print("The link logs in once, within ten minutes. After that, log in with the token.")
            err.print(f"Token of page and API, shown only now: {tokens.page.text}", markup=False, soft_wrap=True)
        else:
            out.print("Log in there with your token.")
        if tokens.mcp.is_new:
            err.print(f"Token of MCP, shown only now: {tokens.mcp.text}", markup=False, soft_wrap=True)
        err.print(f"MCP: {mcp}. Stop with Ctrl-C.", markup=False, soft_wrap=True)

    run(place, address, tokens, called or (), is_opened=is_opened, say=say)

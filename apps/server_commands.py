"""Commands that start servers: Prefect with deployments and a worker, up and down; the page; MCP for agents."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from slowwave.common.errors import UnusableInput
from slowwave.integrations.python_api import OpenMemory

from .configuration import Place
from .options import JsonOption, Shown
from .printing import Whole, err, out, print_json

if TYPE_CHECKING:
    from .local_server.setup import Setup

Port = Annotated[
    int, typer.Option("--port", envvar="SLOWWAVE_PORT", min=1, max=65_535, help="The port of the server, on loopback.")
]


def up(
    watch: Annotated[
        list[Path] | None,
        typer.Option("--watch", metavar="FOLDER", help="Read what is new in this folder every hour; may be repeated."),
    ] = None,
    status: Annotated[
        bool, typer.Option("--status", help="Only show what is up. Exit code 1 if a part of it is not.")
    ] = False,
    port: Port = 4200,
    part: Annotated[
        Literal["server", "worker"] | None, typer.Option("--part", hidden=True, help="Become the server or the worker.")
    ] = None,
    *,
    place: Place,
    as_json: JsonOption = False,
) -> Shown:
    """Start a Prefect server, all deployments and a worker on this machine, with a night at 03:00 UTC.

    It returns when they are ready; they stay up until `slowwave down` or the end of the machine. The worker's runs use
    this store and namespace, and the settings of the `slowwave.toml` that counts here.
    """
    from .local_server.parts import become, start_all
    from .local_server.setup import setup_of

    setup = setup_of(place.uri, place.namespace, tuple(watch or ()), port)
    if part is not None:
        become(setup, place, part)
    if not status:
        if not as_json:
            err.print("Starting; it takes a minute, on a busy machine more.")
        if not start_all(setup) and not as_json:
            out.print("It is up already. For settings that have changed: slowwave down, then slowwave up.")
    found = _state(setup)
    yield found
    yield Whole(_described(setup, found))
    if found["state"] != "up":
        raise typer.Exit(1)


def _state(setup: Setup) -> dict[str, Any]:
    from .local_server.parts import PARTS, has_worker, is_healthy, log_file, running

    parts = {part: running(setup, part) for part in PARTS}
    ready = {"server": is_healthy(setup), "worker": has_worker(setup)}
    states: dict[str, Literal["up", "starting", "down"]] = {
        part: "down" if found is None else "up" if ready[part] else "starting" for part, found in parts.items()
    }
    return {
        "state": "up" if {*states.values()} == {"up"} else "down" if {*states.values()} == {"down"} else "partly up",
        "page": setup.page,
        "folder": str(setup.folder),
        "parts": [
            {"part": part, "state": states[part], "pid": (found or {}).get("pid"), "log": str(log_file(setup, part))}
            for part, found in parts.items()
        ],
        "options": next((found["options"] for found in parts.values() if found), []),
    }


def _described(setup: Setup, found: dict[str, Any]) -> str:
    """Where the UI and the logs are, and the next commands."""
    own = "" if setup.port == 4200 else f" --port {setup.port}"
    lines = [f"{each['part']:<7} {each['state']:<9} {each['pid'] or '':<8} {each['log']}" for each in found["parts"]]
    if found["options"]:
        lines += [f"options {shlex.join(found['options'])}"]
    if found["state"] != "up":
        return "\n".join([*lines, f"It is {found['state']}. Start it: slowwave up{own}, with the same options"])
    place, password = shlex.join(found["options"][2:6]), shlex.quote(str(setup.password_file))  # --store, --namespace
    lines += [
        "",
        f"UI:       {setup.page}",
        f"Password: the UI asks for it once, it is in {password}",
        f"Night:    every day at 03:00 UTC; at once: slowwave sleep {place}",
        f"Runs:     slowwave runs {place}",
        f'prefect:  export PREFECT_API_URL={setup.page}/api PREFECT_API_AUTH_STRING="$(cat {password})"',
        f"Stop:     slowwave down{own}",
    ]
    return "\n".join(lines)


def down(port: Port = 4200) -> Shown:
    """Stop what `slowwave up` started on this port.

    The worker stops first. A run that is under way is stopped too; run it again to go on.
    """
    from .local_server.parts import stop_all
    from .local_server.setup import Setup

    stopped = stop_all(Setup("", port=port))
    yield {"stopped": stopped}
    yield f"Stopped: {', '.join(stopped)}." if stopped else f"Nothing is up on port {port}."


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
        ),
    ] = None,
    is_opened: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    *,
    place: Place,
    as_json: JsonOption = False,
) -> None:
    """Serve the memory as a page in the browser, and to agents over MCP, until Ctrl-C.

    Ask, look at people and their past, see what the last night changed and undo it, review what waits, costs, atlas.
    MCP is at /mcp. The page needs one token (SLOWWAVE_SERVE_TOKEN), MCP needs another (SLOWWAVE_MCP_TOKEN),
    so that no agent can approve; random ones are shown at the start. The link logs in once.
    """
    from apps.mcp.server import parse_address, token_for
    from apps.serve.access import PAGE_VARIABLE, Tokens
    from apps.serve.app import serve as run

    address = parse_address(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    tokens = Tokens(token_for(address, PAGE_VARIABLE), token_for(address))

    def say(page: str, mcp: str) -> None:
        if as_json:
            made = {"token": tokens.page, "mcp_token": tokens.mcp}
            shown = {name: token.text for name, token in made.items() if token.is_new}
            print_json({"url": page, "mcp": mcp, "namespace": place.namespace, **shown})
            return
        out.print(f"Memory {place.namespace!r}: {page}", markup=False, soft_wrap=True)
        if tokens.page.is_new:
            out.print("The link logs in once, within ten minutes. After that, log in with the token.")
            err.print(f"Token of the page, shown only now: {tokens.page.text}", markup=False, soft_wrap=True)
        else:
            out.print("Log in there with your token.")
        if tokens.mcp.is_new:
            err.print(f"Token of MCP, shown only now: {tokens.mcp.text}", markup=False, soft_wrap=True)
        err.print(f"MCP: {mcp}. Stop with Ctrl-C.", markup=False, soft_wrap=True)

    run(place, address, tokens, called or (), is_opened=is_opened, say=say)


def mcp(
    http: Annotated[
        str | None,
        typer.Option(
            "--http",
            metavar="HOST:PORT",
            help="Serve over streamable HTTP at /mcp, for example 127.0.0.1:8765; by default on stdin and stdout.",
        ),
    ] = None,
    called: Annotated[
        list[str] | None,
        typer.Option(
            "--host-name",
            metavar="NAME",
            help="With --http: another host name of this machine; requests to unknown names are refused.",
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
    memory = OpenMemory(place)
    if http is None:
        serve_stdio(memory)
        return
    address = parse_address(http)
    serve_http(memory, address, token_for(address), called or ())

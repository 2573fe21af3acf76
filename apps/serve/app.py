"""All addresses of the page and MCP, and the server that answers them."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from apps.configuration import Place
from apps.mcp.server import Address, OneToken, allowed_names, http_server, listening, make_server
from recall.atlas import atlas_data
from slowwave.common.errors import NoStoreYet, SlowwaveError

from . import asking, deciding
from .access import MCP, POLICY, Access, LoginCodes, Tokens, Values
from .site import FOLDER, Handler, Site, pages

ATLAS = FOLDER.parent / "atlas"
FRAMED = POLICY.replace("frame-ancestors 'none'", "frame-ancestors 'self'")


def atlas(site: Site, request: Request, values: Values) -> Response:
    """The page around the map."""
    return site.page(request, "atlas.html")


def atlas_map(site: Site, request: Request, values: Values) -> Response:
    """The map of this moment, for a frame of the page around it."""
    return drawn(site, request, atlas_data(site.place.store(), datetime.now(UTC)))


def drawn(site: Site, request: Request, data: Mapping[str, Any]) -> Response:
    """The map of these data; stored text in it is JSON without markup signs."""
    page = site.page(request, "map.html", data=data)
    page.headers["Content-Security-Policy"] = FRAMED
    return page


PAGES: Sequence[tuple[str, str, Handler]] = (
    ("GET", "/", asking.ask),
    ("POST", "/", asking.ask),
    ("GET", "/people", asking.people),
    ("GET", "/people/{id}", asking.person),
    ("GET", "/runs", deciding.runs_listed),
    ("GET", "/runs/{id}", deciding.one_run),
    ("GET", "/runs/{id}/undo", deciding.way_back),
    ("POST", "/runs/{id}/undo", deciding.undo_now),
    ("GET", "/review", deciding.proposals_listed),
    ("GET", "/review/{id}", deciding.one_proposal),
    ("POST", "/review/{id}/{choice}", deciding.decide_now),
    ("GET", "/costs", asking.costs),
    ("GET", "/atlas", atlas),
    ("GET", "/atlas/map", atlas_map),
    ("GET", "/why/{id:path}", asking.why),
    ("GET", "/message", asking.message),
)


def make_app(
    place: Place, address: Address, tokens: Tokens, names: Sequence[str] = (), codes: LoginCodes | None = None
) -> Starlette:
    """The page of one memory, for whoever shows its token, and MCP with a token of its own."""
    site, verifier, allowed = Site(place), OneToken(tokens.page.text), allowed_names(address, names)
    agents = make_server(site.memory, address, OneToken(tokens.mcp.text)).streamable_http_app(
        host=address.host, transport_security=allowed
    )

    def unknown(request: Request, error: Exception) -> Response:
        status, path = error.status_code if isinstance(error, HTTPException) else 404, request.scope["path"]
        problem = SlowwaveError(
            f"There is no {request.method} {path}.",
            "Begin at /; programs use the command line with --json, Python or MCP.",
        )
        answer = site.problem(request, problem)
        answer.status_code = status
        answer.headers.update(getattr(error, "headers", None) or {})
        return answer

    return Starlette(
        routes=[
            *(Route(path, pages(site, handler), methods=[method]) for method, path, handler in PAGES),
            Mount("/static/atlas", StaticFiles(directory=ATLAS)),
            Mount("/static", StaticFiles(directory=FOLDER / "static"), name="static"),
            Route(MCP, agents),
        ],
        middleware=[
            Middleware(Access, verifier=verifier, names=allowed, login=site.login, codes=codes or LoginCodes())
        ],
        exception_handlers={404: unknown, 405: unknown},
        lifespan=lambda _: agents.router.lifespan_context(agents),  # type: ignore[arg-type]
    )


def serve(
    place: Place, address: Address, tokens: Tokens, names: Sequence[str] = (), *, is_opened: bool = False,
    say: Callable[[str, str], None],
) -> None:  # fmt: skip
    """Serve until the process is told to stop; `say` gets the address of the page, and that of MCP.

    A store that does not exist yet is no error: the page says how to begin. A namespace that does not exist is one.
    """
    with suppress(NoStoreYet):
        place.store()
    with listening(address, "Choose another --port, or --port 0 for a free one.") as listener:
        port = listener.getsockname()[1]
        codes = LoginCodes()
        say(address.url(port, f"/?token={codes.new()}" if tokens.page.is_new else "/"), address.url(port))
        sys.stdout.flush()  # a program reads the link while the server runs
        sys.stderr.flush()
        if is_opened:
            # every user of the machine may see the address in the list of processes: it has no lasting token
            webbrowser.open(address.url(port, f"/?token={codes.new()}"))
        http_server(make_app(place, address, tokens, names, codes)).run(sockets=[listener])

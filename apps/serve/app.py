"""All addresses of the page and of MCP, and the server that answers them."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from apps.configuration import Place
from apps.mcp.server import Address, OneToken, allowed_names, http_server, listening, make_server
from apps.transfer_commands import atlas_page, atlas_policy
from recall.atlas import atlas_data
from slowwave.errors import NoStoreYet, SlowwaveError

from . import asking, changes
from .access import MCP, Access, LoginCodes, Tokens
from .site import FOLDER, Handler, Site, Values, pages

FRAMED = "; frame-ancestors 'self'"


def atlas(site: Site, request: Request, values: Values) -> Response:
    """The page around the map."""
    return site.page(request, "atlas.html", counts=asking.counts(site))


def atlas_map(site: Site, request: Request, values: Values) -> Response:
    """The map of this moment, as `slowwave atlas` writes it; it runs under a policy of its own."""
    data = atlas_data(site.place.store(), datetime.now(UTC), None, site.place.settings.recall.aspects)
    return HTMLResponse(atlas_page(data), headers={"Content-Security-Policy": atlas_policy() + FRAMED})


PAGES: Sequence[tuple[str, str, Handler]] = (
    ("GET", "/", asking.ask),
    ("POST", "/", asking.ask),
    ("GET", "/people", asking.people),
    ("GET", "/people/{id}", asking.person),
    ("GET", "/runs", changes.listed),
    ("GET", "/runs/{id}", changes.one),
    ("GET", "/runs/{id}/undo", changes.way_back),
    ("POST", "/runs/{id}/undo", changes.undo_now),
    ("GET", "/review", changes.waiting),
    ("GET", "/review/{id}", changes.proposal),
    ("POST", "/review/{id}/change", changes.change_now),
    ("POST", "/review/{id}/{choice}", changes.decide_now),
    ("GET", "/costs", changes.costs),
    ("GET", "/atlas", atlas),
    ("GET", "/atlas/map", atlas_map),
    ("GET", "/why/{id:path}", asking.why),
    ("GET", "/message", asking.message),
)


def make_app(
    place: Place, address: Address, tokens: Tokens, names: Sequence[str] = (), codes: LoginCodes | None = None
) -> Starlette:
    """The pages of one memory, for whoever logged in, and MCP with a token of its own."""
    site, verifier, allowed = Site(place), OneToken(tokens.page.text), allowed_names(address, names)
    agents = make_server(site.memory, address, OneToken(tokens.mcp.text)).streamable_http_app(
        host=address.host, transport_security=allowed
    )

    def unknown(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 404
        path = request.scope["path"]
        wrong = f"{path} takes no {request.method}." if status == 405 else f"There is no page {path}."
        answer = site.problem(request, SlowwaveError(wrong, "Choose one of the pages above."))
        answer.status_code = status
        answer.headers.update(getattr(error, "headers", None) or {})
        return answer

    return Starlette(
        routes=[
            *(Route(path, pages(site, handler), methods=[method]) for method, path, handler in PAGES),
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

"""Who may see the page, and what a request may send.

Whoever has the cookie of a login with the token. A browser sends its cookie with whatever any page asks for: so
requests must name the server as it is called, and a change must come from a page of this address.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from python_multipart.exceptions import FormParserError
from starlette.datastructures import ImmutableMultiDict, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apps.mcp.server import UNKNOWN_NAME, OneToken, Token, is_host_alone
from slowwave.common.errors import UnusableInput

# The body of a request: fields of a form, within limits.


Values = ImmutableMultiDict[str, Any]
"""The fields of a form, or of the part of an address after `?`."""
MOST_BYTES = 1_000_000  # of a form


class TooLong(UnusableInput):
    """More bytes than a form may have."""


async def form(request: Request, most: int = MOST_BYTES) -> Values:
    """The fields of a form without files; raises `TooLong` beyond `most` bytes, `UnusableInput` for a broken form."""
    try:
        async with _limited(request, most).form(max_files=0) as fields:
            return ImmutableMultiDict(fields.multi_items())
    except (HTTPException, FormParserError):
        raise UnusableInput("This is no form that can be read.", "Send the form of the page once more.") from None


def _limited(request: Request, most: int) -> Request:
    """The same request, whose body ends in `TooLong` after `most` bytes, whatever length it announces."""
    left = most

    async def receive() -> Message:
        nonlocal left
        message = await request.receive()
        left -= len(message.get("body", b""))
        if left < 0:
            raise TooLong("This is too long.", f"Send at most {most:,} bytes.")
        return message

    return Request(request.scope, receive)


def text(values: Values, name: str) -> str:
    """A text without the spaces around it; empty if there is none."""
    return str(values.get(name) or "").strip()


# Who may come in


STATIC, LOGIN, MCP = "/static/", "/login", "/mcp"
POLICY = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # without any, browsers hide the origin of a form from its own server
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
SAFE = ("GET", "HEAD")
PAGE_VARIABLE = "SLOWWAVE_SERVE_TOKEN"
CODE_S = 600.0
"""How long the code in a link logs in."""
_LONGEST_LOGIN = 10_000  # bytes of a form that anybody may send


@dataclass(frozen=True, slots=True)
class Tokens:
    """That of the page, and that of MCP, with which an agent cannot approve what it proposes."""

    page: Token
    mcp: Token

    def __post_init__(self) -> None:
        if self.page.text == self.mcp.text:
            raise UnusableInput(
                "The page and MCP have the same token, so agents could approve what they propose.",
                f"Give the page a token of its own: {PAGE_VARIABLE}, or none for a random one.",
            )


class LoginCodes:
    """Codes for links: each logs in once, within ten minutes."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def new(self) -> str:
        """A code that needs no quotes in an address or a shell."""
        code = secrets.token_urlsafe(24)
        self._until[code] = time.monotonic() + CODE_S
        return code

    def redeem(self, code: str) -> bool:
        """Whether it is one of them, which it is no longer from now on."""
        return time.monotonic() < self._until.pop(code, 0.0)


class Access:
    """Lets in requests that may come in; MCP has a check of its own. `login` makes the page that asks for the token."""

    def __init__(
        self, app: ASGIApp, *, verifier: OneToken, names: TransportSecuritySettings,
        login: Callable[[Request, str], Response], codes: LoginCodes,
    ) -> None:  # fmt: skip
        self._app, self._verifier, self._login = app, verifier, login
        self._codes = codes
        self._names = TransportSecurityMiddleware(names)
        self._session = secrets.token_urlsafe(32)  # not made from the token, which the cookie would help to guess

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = await self._own_answer(Request(scope, receive))
        await (answer or self._app)(scope, receive, send_safely)

    async def _own_answer(self, request: Request) -> Response | None:
        """The answer to a request that may not come in, or that logs in; None for one that may."""
        if not is_host_alone(request.headers.get("host", "")):
            return _refusal(421)
        if refused := await self._names.validate_request(request):
            return _refusal(refused.status_code)
        path = request.scope["path"]  # as the router reads it; that of `request.url` is made with the header Host
        if path == MCP or path.startswith(STATIC):
            return None
        if path == LOGIN:
            return await self._log_in(request)
        given = request.query_params.get("token") if request.method == "GET" else None
        cookie = request.cookies.get(_cookie(request), "")
        if given is None and hmac.compare_digest(cookie.encode(), self._session.encode()):
            return None if request.method in SAFE or _is_from_here(request) else _refusal(403)
        return await self._let_in(request, given)

    async def _log_in(self, request: Request) -> Response:
        """The form of the login page, sent from that page."""
        if request.method in SAFE:
            return await self._let_in(request, None)
        if not _is_from_here(request):
            return _refusal(403)
        try:
            fields = await form(request, _LONGEST_LOGIN)
        except UnusableInput as error:
            return _refusal(413 if isinstance(error, TooLong) else 400)
        return await self._let_in(request, text(fields, "token"))

    async def _let_in(self, request: Request, given: str | None) -> Response:
        """To the first page, with a cookie and no token in the address; or to the login page."""
        if given is None or not (self._codes.redeem(given) or await self._verifier.verify_token(given)):
            wrong = "" if given is None else "This is not the token, or the link was used before."
            return self._login(request, wrong)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(
            _cookie(request), self._session, httponly=True, samesite="strict", secure=request.url.scheme == "https"
        )
        return answer


def _cookie(request: Request) -> str:
    """Its name; browsers share cookies between all ports of a machine."""
    _, port = request.scope.get("server") or ("", 0)
    return f"slowwave-{port}"


def _is_from_here(request: Request) -> bool:
    """Whether a page of this address sent it, as the browser says."""
    origin = request.headers.get("origin", "")
    return bool(origin) and urlsplit(origin).netloc == request.headers.get("host")


def _refusal(status: int) -> Response:
    reasons = {
        421: UNKNOWN_NAME,
        403: "This request does not say (header Origin) that it comes from this page. Open the page, and try again.",
        400: "This is no form that can be read. Open the page of slowwave, and log in there.",
        413: "This is too long for a login.",
    }
    return PlainTextResponse(reasons.get(status, "Refused."), status)

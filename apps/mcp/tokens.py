"""Who may come in over HTTP: a bearer token, and the names under which the server may be called."""

from __future__ import annotations

import hmac
import ipaddress
import os
import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass

import anyio
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import AnyHttpUrl

from slowwave.errors import Refused, UnusableInput

VARIABLE = "SLOWWAVE_MCP_TOKEN"
_TOKEN = re.compile(r"[\x21-\x7e]{16,}")
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens; `host` without brackets."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def shown_host(self) -> str:
        """As it stands in a URL."""
        return f"[{self.host}]" if ":" in self.host else self.host

    def url(self, port: int) -> str:
        """Where clients connect to."""
        return f"http://{self.shown_host}:{port}/mcp"


def parse_address(text: str) -> Address:
    """HOST:PORT, [IPV6]:PORT; port 0 takes a free one. Raises `UnusableInput` for anything else."""
    host, _, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if not bare or (":" in bare and not host.startswith("[")) or not port.isdecimal() or int(port) > 65535:
        raise UnusableInput(f"{text!r} is no address.", "Write it like 127.0.0.1:8765.")
    return Address(bare, int(port))


@dataclass(frozen=True, slots=True)
class Token:
    """The secret; `is_new`: it was made for this start, so the user must see it."""

    text: str
    is_new: bool


def token_for(address: Address) -> Token:
    """The token of the environment, or a random one, which only a loopback address may do with."""
    given = os.environ.get(VARIABLE, "")
    if given:
        if not _TOKEN.fullmatch(given):
            raise UnusableInput(
                f"{VARIABLE} is no usable token.", "Sixteen printable ASCII characters or more, without spaces."
            )
        return Token(given, False)
    if not address.is_loopback:
        raise Refused(
            f"{address.shown_host} can be reached from other machines, and there is no token.",
            f"Set {VARIABLE}, or listen on 127.0.0.1.",
        )
    return Token(secrets.token_urlsafe(32), True)


class OneToken:
    """Lets in whoever shows the token (`TokenVerifier` of the SDK).

    Wrong tokens are answered one after another, each `pause_s` seconds after the one before and at most `most_s` late,
    so that guessing takes time however many connections guess. The right token never waits.
    """

    def __init__(self, token: str, *, pause_s: float = 0.5, most_s: float = 30.0) -> None:
        self._token, self._pause, self._most = token.encode(), pause_s, most_s
        self._answered_until = 0.0

    async def verify_token(self, token: str) -> AccessToken | None:
        """Compared in constant time."""
        if hmac.compare_digest(token.encode(), self._token):
            return AccessToken(token=token, client_id="slowwave", scopes=[])
        now = time.monotonic()
        self._answered_until = min(max(now, self._answered_until) + self._pause, now + self._most)
        await anyio.sleep(self._answered_until - now)
        return None


def auth_settings(address: Address) -> AuthSettings:
    """A token that was agreed on beforehand: no authorization server is advertised."""
    return AuthSettings(issuer_url=AnyHttpUrl(f"http://{address.shown_host}:{address.port}"), resource_server_url=None)


def allowed_names(address: Address, more: Sequence[str] = ()) -> TransportSecuritySettings:
    """Only requests that name this server as their host are answered: a web page cannot rebind a name to reach it."""
    names = list(dict.fromkeys((*_LOOPBACK, address.shown_host, *more)))
    hosts = [form for name in names for form in (name, f"{name}:*")]
    origins = [f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts]
    return TransportSecuritySettings(enable_dns_rebinding_protection=True, allowed_hosts=hosts, allowed_origins=origins)

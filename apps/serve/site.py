"""What all pages share: the memory, the templates, and errors in plain words."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from apps.configuration import Place
from apps.printing import printable
from inference.secrets import clean_error, without_secrets
from slowwave.common.errors import (
    BudgetReached,
    MissingKey,
    NoStoreYet,
    Refused,
    SlowwaveError,
    Transient,
    UnknownName,
    UnusableInput,
)
from slowwave.common.lexicon.labels import shown_type
from slowwave.common.timestamps import date_in_words
from slowwave.integrations.python_api import OpenMemory
from storage.snapshots import Snapshot

from .access import TooLong, Values, form

FOLDER = Path(__file__).parent
PAGES = (
    ("/", "Ask"), ("/people", "People"), ("/runs", "Runs"), ("/review", "Review"), ("/costs", "Costs"),
    ("/atlas", "Atlas"),
)  # fmt: skip
_STATUS: tuple[tuple[type[SlowwaveError], int], ...] = (
    (NoStoreYet, 404), (UnknownName, 404), (TooLong, 413), (UnusableInput, 400),
    (Refused, 409), (BudgetReached, 429), (MissingKey, 503), (Transient, 503),
)  # fmt: skip

log = logging.getLogger(__name__)

Handler = Callable[["Site", Request, Values], Response]
"""What answers with a page."""


@dataclass(frozen=True)
class Site:
    """One memory and its pages."""

    place: Place

    @cached_property
    def memory(self) -> OpenMemory:
        """For questions, which count as use."""
        return OpenMemory(self.place)

    @cached_property
    def browsing(self) -> OpenMemory:
        """For looking around, which makes nothing look used."""
        return OpenMemory(self.place, is_logged=False)

    @property
    def snapshot(self) -> Snapshot:
        """The newest state."""
        return self.browsing.snapshot

    @cached_property
    def _templates(self) -> Environment:
        made = Environment(
            loader=FileSystemLoader(FOLDER / "templates"), autoescape=True, undefined=StrictUndefined,
            trim_blocks=True, lstrip_blocks=True, finalize=_visible,
        )  # fmt: skip
        filters: dict[str, Callable[..., str]] = {
            "day": _day, "moment": _moment, "count": "{:,}".format, "dollars": "${:,.4f}".format,
            "name_of": lambda path: str(path).rpartition("/")[2],
            "kind": lambda kind: shown_type(kind, self.place.locale), "happens": date_in_words, "id_in": _id_in,
        }  # fmt: skip
        made.filters |= filters
        return made

    def page(self, request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        """A page from its template."""
        waiting = self.snapshot.count("proposals", "state = 'pending'") if status == 200 else 0
        shared = {
            "namespace": self.place.namespace, "uri": self.place.uri, "path": request.scope["path"], "pages": PAGES,
            "waiting": waiting, "now": datetime.now(UTC), "is_in": status != 401,
        }  # fmt: skip
        return HTMLResponse(self._templates.get_template(template).render(shared | values), status)

    def login(self, request: Request, wrong: str) -> HTMLResponse:
        """The page that asks for the token."""
        return self.page(request, "login.html", 401, wrong=wrong)

    def problem(self, request: Request, error: SlowwaveError) -> Response:
        """The page about an error of ours; where there is no memory yet, how to begin."""
        status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
        if isinstance(error, NoStoreYet):
            return self.page(request, "empty.html", status)
        said = {"error": without_secrets(error.message), "remedy": without_secrets(error.remedy)}
        return self.page(request, "problem.html", status, **said)


def pages(site: Site, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """What answers a request with a page; it works in a thread, as reads and writes block."""

    def work(request: Request, values: Values) -> Response:
        try:
            return handler(site, request, values)
        except SlowwaveError as error:
            return site.problem(request, error)
        except Exception as error:
            log.error("%s %s", request.method, request.scope["path"], exc_info=clean_error(error))
            return site.problem(
                request,
                SlowwaveError(
                    f"Something went wrong ({type(error).__name__}).",
                    "Try once more. The log of the server says more, and `slowwave doctor` checks the store.",
                ),
            )

    async def answer(request: Request) -> Response:
        try:
            values = await form(request) if request.method == "POST" else request.query_params
        except SlowwaveError as error:
            return await run_in_threadpool(site.problem, request, error)
        return await run_in_threadpool(work, request, values)

    return answer


def _visible(value: Any) -> Any:
    """Stored text without characters that nobody sees or that turn the direction; nothing for nothing."""
    return (
        printable(value) if isinstance(value, str) and not isinstance(value, Markup) else "" if value is None else value
    )


def _id_in(text: str) -> str:
    """The short id at the end of a line of a story; empty where there is none."""
    last = text.rpartition(" ")[2]
    return last if re.fullmatch(r"[0-9a-f]{6,16}", last) else ""


def _day(at: datetime | date | None) -> str:
    """2 July 2026."""
    return f"{at.day} {at:%B %Y}" if at else ""


def _moment(at: datetime | None) -> str:
    """2 July 2026, 04:10."""
    return f"{_day(at)}, {at:%H:%M}" if at else ""

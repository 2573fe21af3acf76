"""Questions as JSON, as the command line prints them; the other documents stand beside their pages."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request

from recall.atlas import atlas_data
from slowwave.errors import UnusableInput

from .bodies import Values, text
from .site import Site


def recall(site: Site, request: Request, values: Values) -> dict[str, Any]:
    """`q`, and perhaps `k`, `as_of`, `known_as_of`, `scope`, `only`: as `recall --json` prints it."""
    limit = text(values, "k")
    if limit and not (limit.isdecimal() and 0 < int(limit) <= 1000):
        raise UnusableInput(f"{limit!r} is no number of facts.", "Give k from 1 to 1000.")
    how: dict[str, Any] = {name: text(values, name) or None for name in ("as_of", "known_as_of", "scope", "only")}
    return site.memory.recall(_question(values), int(limit) if limit else None, **how).as_json()


def ask(site: Site, request: Request, values: Values) -> dict[str, Any]:
    """`q`, and perhaps `as_of`, `known_as_of`, `scope`: as `ask --json` prints it. It may cost a call of the model."""
    how: dict[str, Any] = {name: text(values, name) or None for name in ("as_of", "known_as_of", "scope")}
    return site.memory.ask(_question(values), **how).as_json()


def why(site: Site, request: Request, values: Values) -> dict[str, Any]:
    """The story of the row that the address names, as `why --json` prints it."""
    return site.browsing.why(request.path_params["id"]).as_json()


def atlas(site: Site, request: Request, values: Values) -> dict[str, Any]:
    """What the atlas draws."""
    place = site.place
    return atlas_data(place.store(), datetime.now(UTC), None, place.report_settings(), place.settings.recall.aspects)


def _question(values: Values) -> str:
    question = text(values, "q")
    if not question:
        raise UnusableInput("There is no question.", "Give it as q.")
    return question

"""Calls, tokens and dollars, by day and model."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from recall.overview import costs_by_day, list_runs, stats

from .bodies import Values
from .site import Site


def shown(site: Site, request: Request, values: Values) -> Response:
    """What it cost."""
    return site.page(request, "costs.html", **as_json(site, request, values))


def as_json(site: Site, request: Request, values: Values) -> dict[str, Any]:
    """`stats` as the command prints them, `costs` by day and model, and `runs` that paid."""
    now, store = datetime.now(UTC), site.place.store()
    paid = [
        {key: run[key] for key in ("id", "flow", "started_at", "calls", "tokens_in", "tokens_out", "usd")}
        for run in list_runs(site.snapshot, 200)
        if run["calls"]
    ]
    return {"stats": stats(store, now), "costs": costs_by_day(store), "runs": paid}

"""Calls, tokens and dollars by day, and the growth of the memory; drawn as shapes whose colours the style sheet has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from recall.overview import costs_by_day, growth, list_runs, stats

from .bodies import Values
from .site import Site

DAYS = 30
"""Days that the chart of costs has room for at least."""
POINTS = 40
WIDTH, HEIGHT = 100.0, 40.0


@dataclass(frozen=True, slots=True)
class Line:
    """A line in a box of 100 × 40, with the highest value and the first and last time."""

    points: str
    most: int
    first: datetime
    last: datetime

    @property
    def area(self) -> str:
        """The same, closed along the bottom."""
        return f"0,{HEIGHT:g} {self.points} {WIDTH:g},{HEIGHT:g}"


@dataclass(frozen=True, slots=True)
class Bar:
    """One day: left edge and height in the same box, and its sum."""

    x: float
    height: float
    day: date
    value: float


def shown(site: Site, request: Request, values: Values) -> Response:
    """What it cost, and how it grew."""
    document = as_json(site, request, values)
    grown, days = document["growth"], _days(document["costs"])
    return site.page(
        request, "costs.html", stats=document["stats"], days=document["costs"], paid=document["runs"],
        facts=line(grown, "facts"), entities=line(grown, "entities"), grown=_table(grown),
        bars=bars(document["costs"], "usd") or bars(document["costs"], "calls"), axis=days,
        is_priced=any(each["usd"] for each in document["costs"]), bar_width=0.8 * WIDTH / len(days),
    )  # fmt: skip


def as_json(site: Site, request: Request, values: Values) -> dict[str, Any]:
    """`stats` as the command prints them, `costs` by day and model, `runs` that paid, and `growth` over time."""
    now, store = datetime.now(UTC), site.place.store()
    paid = [
        {key: run[key] for key in ("id", "flow", "started_at", "calls", "tokens_in", "tokens_out", "usd")}
        for run in list_runs(site.snapshot, 200)
        if run["calls"]
    ]
    return {
        "stats": stats(store, now),
        "costs": costs_by_day(store),
        "runs": paid,
        "growth": growth(site.snapshot, now, POINTS),
    }


def line(grown: Sequence[dict[str, Any]], name: str) -> Line | None:
    """The line of a column; none where nothing changed after the first moment."""
    if len(_table(grown)) < 2:
        return None
    most = max(1, *(each[name] for each in grown))
    step = WIDTH / (len(grown) - 1)
    points = " ".join(f"{n * step:.2f},{HEIGHT * (1 - each[name] / most):.2f}" for n, each in enumerate(grown))
    return Line(points, most, grown[0]["at"], grown[-1]["at"])


def _table(grown: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The moments at which something changed."""
    before = [None, *grown]
    keys = ("facts", "entities")
    return [now for then, now in zip(before, grown, strict=False)
            if then is None or any(then[key] != now[key] for key in keys)]  # fmt: skip


def bars(costs: Sequence[dict[str, Any]], name: str) -> list[Bar]:
    """A bar for each day of the period in which something was paid; empty where the column is nothing."""
    sums: dict[date, float] = {}
    for each in costs:
        sums[each["day"]] = sums.get(each["day"], 0.0) + float(each[name] or 0)
    if not any(sums.values()):
        return []
    days, most = _days(costs), max(sums.values())
    return [Bar((day - days[0]).days * WIDTH / len(days), HEIGHT * value / most, day, value)
            for day, value in sorted(sums.items())]  # fmt: skip


def _days(costs: Sequence[dict[str, Any]]) -> list[date]:
    """The days of the chart: up to the last one on which something was paid."""
    paid = [each["day"] for each in costs] or [datetime.now(UTC).date()]
    span = max(DAYS, (max(paid) - min(paid)).days + 1)
    return [max(paid) - timedelta(days=span - 1 - n) for n in range(span)]

"""Entities, and what was true of one at the end of a day."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from recall.entities import entity_with_id, find_entity
from recall.facts import facts_about
from slowwave.common.types import Entity, RecalledFact
from slowwave.common.validity import Moment

from .asking import end_of_day
from .bodies import Values, text
from .site import Site

MOST = 200
"""Entities on one page."""
FOUND = 20
"""Entities that words find."""
PERSON = "person"


def listed(site: Site, request: Request, values: Values) -> Response:
    """Persons, or entities of another `type`, or those that the words `q` mean."""
    words, type = text(values, "q"), text(values, "type") or PERSON
    types = site.snapshot.frame("entities", columns=["entity_type"])["entity_type"].drop_nulls().unique().sort()
    chosen = type if type in types else None
    if words:
        total, entities = _meant(site, words, chosen if "type" in values else None)
    else:
        total, entities = site.browsing.entities(MOST, chosen)
    return site.page(
        request, "people.html", words=words, type=type, types=types.to_list(), total=total, entities=entities
    )


def _meant(site: Site, words: str, type: str | None) -> tuple[int, tuple[Entity, ...]]:
    now, seen = datetime.now(UTC), site.snapshot
    found = [each for each in site.browsing.find_entities(words, MOST) if type in (None, each.entity_type)]
    entities = tuple(entity_with_id(seen, now, each.id) for each in found[:FOUND])
    return len(entities), entities


def known_of(site: Site, id: str, day: str = "") -> tuple[Entity, tuple[RecalledFact, ...], tuple[RecalledFact, ...]]:
    """The entity of an id or a name, what is true of it, now or at the end of a day, and all facts, newest first."""
    now, seen = datetime.now(UTC), site.snapshot
    entity = entity_with_id(seen, now, id) if seen.count_ids("entities", [id]) else find_entity(seen, now, id)
    facts = facts_about(seen, entity, Moment(now, end_of_day(day) if day else None), False)
    return entity, facts, facts_about(seen, entity, Moment(now), True)


def person(site: Site, request: Request, values: Values) -> Response:
    """One entity, as of the end of the day `as_of`, or now."""
    day = text(values, "as_of")
    entity, facts, ever = known_of(site, request.path_params["id"], day)
    days, shown = days_of_change(ever), {fact.id for fact in facts}
    over = [fact for fact in ever if fact.id not in shown and fact.valid_to is not None]
    return site.page(
        request, "person.html", entity=entity, facts=facts, over=[] if day else over, day=day,
        at=end_of_day(day) if day else None, days=days, first=end_of_day(days[0]),
        speakers=site.browsing.speakers((*facts, *ever)),
    )  # fmt: skip


def days_of_change(facts: tuple[RecalledFact, ...]) -> list[str]:
    """The days on which something began or ended, up to today, which is the last: the stops of the slider."""
    today = datetime.now(UTC).date()
    moments = (at for fact in facts for at in (fact.valid_from, fact.valid_to) if at is not None)
    return sorted({str(day) for at in moments if (day := at.date()) < today} | {str(today)})


def as_json(site: Site, request: Request, values: Values) -> dict[str, Any]:
    """`entity` and `facts`, as the tool `as_of` has them."""
    entity, facts, _ = known_of(site, request.path_params["id"], text(values, "as_of"))
    return {"entity": asdict(entity), "facts": [fact.as_json() for fact in facts]}


def list_as_json(site: Site, request: Request, values: Values) -> dict[str, Any]:
    """`total` and `entities`, of a `type` or of all."""
    total, entities = site.browsing.entities(MOST, text(values, "type") or None)
    return {"total": total, "entities": [asdict(each) for each in entities]}

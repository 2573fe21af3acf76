"""Questions, the story of a fact, a message, an entity or a run, entities over time, and costs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from apps.configuration import answering
from inference.providers import choose
from recall.entities import entity_with_id, find_entity
from recall.facts import facts_about
from recall.order import UNLIKELY, is_weak
from recall.overview import costs_by_day, list_runs, stats
from slowwave.common.errors import SlowwaveError, TookTooLong, UnknownName, UnusableInput
from slowwave.common.types import NOTHING_KNOWN, Entity, RecalledFact, Reply
from slowwave.common.types.stories import sections_of
from slowwave.common.validity import Moment
from storage.rows import quoted

from .access import Values, text
from .site import Site

# Questions


FACTS = 12
"""Facts on the page."""


def ask(site: Site, request: Request, values: Values) -> Response:
    """A question in `q`, perhaps `as_of` the end of a day: sources, and by POST also the answer of a model."""
    question, day = text(values, "q"), text(values, "as_of")
    shared: dict[str, Any] = {"question": question, "day": day, "has_model": has_model(site)}
    if not question:
        known = stats(site.place.store(), datetime.now(UTC))
        return site.page(request, "ask.html", answer=None, problem=None, speakers={}, stats=known, **shared)
    as_of = end_of_day(day) if day else None
    answer, problem, warning = None, None, ""
    if request.method == "POST":
        try:
            answer = site.memory.ask(question, as_of=as_of)
        except UnusableInput:
            raise
        except SlowwaveError as error:  # no model, no budget, no answer: the sources can be read all the same
            problem = error
    if answer is None:
        found = site.memory.recall(question, FACTS, as_of=as_of)
        if found.is_timed_out:
            raise TookTooLong(
                "The memory did not answer in time.", "Ask again; this does not mean that nothing is known."
            )
        answer = Reply(question, "", facts=found.facts, passages=found.passages)
        warning = UNLIKELY if is_weak(found.match) else ""
    return site.page(
        request, "ask.html", answer=answer, problem=problem, warning=warning,
        numbers=range(1, len(answer.facts) + len(answer.passages) + 1),  # of the sources: facts first
        speakers=site.browsing.speakers(answer.facts), nothing_known=NOTHING_KNOWN, **shared,
    )  # fmt: skip


def has_model(site: Site) -> bool:
    """Whether a language model is set that can answer."""
    llm = answering(site.place.settings)
    try:
        return choose(llm.answer_model or llm.model).provider != "quotes"
    except SlowwaveError:  # no key, or a name that no provider has: the page works without a model
        return False


def end_of_day(day: str) -> datetime:
    """The last second of a day such as 2026-03-10, in UTC."""
    try:
        return datetime.strptime(day, "%Y-%m-%d").replace(hour=23, minute=59, second=59, tzinfo=UTC)
    except ValueError:
        raise UnusableInput(f"{day!r} is not a day.", "Write it like 2026-01-31.") from None


# Stories


def why(site: Site, request: Request, values: Values) -> Response:
    """The story of the row that the address names."""
    story = site.browsing.why(request.path_params["id"])
    sections = sections_of(story, site.place.locale)
    entity = story.id if story.kind == "entities" else str(story.columns.get("subject_id") or "")
    return site.page(request, "why.html", story=story, sections=sections, entity=entity)


def message(site: Site, request: Request, values: Values) -> Response:
    """To the story of the message that a conversation has under that name."""
    names = {"conversation_id": str(values.get("in", "")), "message_id": str(values.get("id", ""))}
    where = " AND ".join(f"{column} = {quoted(value)}" for column, value in names.items())
    found = site.snapshot.frame("messages", where, ["id"])["id"].to_list()
    if not found:
        raise UnknownName("message", names["message_id"], (), "It may have been erased.")
    return RedirectResponse(f"/why/{found[0]}", 303)


# Entities, and what was true of one at the end of a day


MOST = 200
"""Entities on one page."""
FOUND = 20
"""Entities that words find."""
PERSON = "person"


def people(site: Site, request: Request, values: Values) -> Response:
    """Persons, or entities of another `type`, or those that the words `q` mean."""
    words, type = text(values, "q"), text(values, "type") or PERSON
    types = site.snapshot.frame("entities", columns=["entity_type"])["entity_type"].drop_nulls().unique().sort()
    chosen = type if type in types else None
    if words:
        now, seen, only = datetime.now(UTC), site.snapshot, chosen if "type" in values else None
        found = [each for each in site.browsing.find_entities(words, MOST) if only in (None, each.entity_type)]
        entities = tuple(entity_with_id(seen, now, each.id) for each in found[:FOUND])
        total = len(entities)
    else:
        total, entities = site.browsing.entities(MOST, chosen)
    return site.page(
        request, "people.html", words=words, type=type, types=types.to_list(), total=total, entities=entities
    )


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


# Calls, tokens and dollars, by day and model


def costs(site: Site, request: Request, values: Values) -> Response:
    """What it cost: counts and costs by day and model, and the runs that paid."""
    now, store = datetime.now(UTC), site.place.store()
    paid = [run for run in list_runs(site.snapshot, 200) if run["calls"]]
    return site.page(request, "costs.html", stats=stats(store, now), costs=costs_by_day(store), runs=paid)

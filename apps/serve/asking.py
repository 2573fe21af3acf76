"""The page to ask, and the story of a fact, a message, an entity or a run; the same as JSON."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from apps.configuration import answering
from inference.providers import choose
from recall.proposals import texts_of
from recall.ranking.order import UNLIKELY, is_weak
from slowwave.common.errors import SlowwaveError, TookTooLong, UnknownName, UnusableInput
from slowwave.common.types import NOTHING_KNOWN, Reply, Story
from slowwave.common.types.stories import StorySection, sections_of
from slowwave.common.validity import live_sql
from storage.rows import quoted

from .bodies import Values, text
from .site import Site

FACTS = 12
"""Facts on the page; the API takes `k`."""


def ask(site: Site, request: Request, values: Values) -> Response:
    """A question in `q`, perhaps `as_of` the end of a day: sources, and by POST also the answer of a model."""
    question, day = text(values, "q"), text(values, "as_of")
    shared: dict[str, Any] = {"question": question, "day": day, "has_model": has_model(site), "counts": counts(site)}
    if not question:
        return site.page(request, "ask.html", answer=None, problem=None, speakers={}, **shared)
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


def counts(site: Site) -> dict[str, int]:
    """How much is known: `facts`, `entities`, `messages`."""
    seen = site.snapshot
    return {
        "facts": seen.count("facts", live_sql(datetime.now(UTC))),
        "entities": seen.count("entities", "(status IS NULL OR status != 'archived') AND merged_into IS NULL"),
        "messages": seen.count("messages"),
    }


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
    return site.page(request, "why.html", story=story, sections=_sections(site, story), entity=_entity_of(story))


def _sections(site: Site, story: Story) -> list[StorySection]:
    """The story in plain sentences, in which entities are named, too."""
    names = texts_of(site.snapshot, {row for each in story.decisions for row in (each.about, *each.beside)})
    return sections_of(replace(story, statements={**names, **story.statements}), site.place.locale)


def _entity_of(story: Story) -> str:
    """The entity that a row is, or is about."""
    return story.id if story.kind == "entities" else str(story.columns.get("subject_id") or "")


def message(site: Site, request: Request, values: Values) -> Response:
    """To the story of the message that a conversation has under that name."""
    names = {"conversation_id": str(values.get("in", "")), "message_id": str(values.get("id", ""))}
    where = " AND ".join(f"{column} = {quoted(value)}" for column, value in names.items())
    found = site.snapshot.frame("messages", where, ["id"])["id"].to_list()
    if not found:
        raise UnknownName("message", names["message_id"], (), "It may have been erased.")
    return RedirectResponse(f"/why/{found[0]}", 303)


# The same as JSON, as the command line prints it


def recall_as_json(site: Site, request: Request, values: Values) -> dict[str, Any]:
    """`q`, and perhaps `k`, `as_of`, `known_as_of`, `scope`, `only`: as `recall --json` prints it."""
    limit = text(values, "k")
    if limit and not (limit.isdecimal() and 0 < int(limit) <= 1000):
        raise UnusableInput(f"{limit!r} is no number of facts.", "Give k from 1 to 1000.")
    how: dict[str, Any] = {name: text(values, name) or None for name in ("as_of", "known_as_of", "scope", "only")}
    return site.memory.recall(_question(values), int(limit) if limit else None, **how).as_json()


def ask_as_json(site: Site, request: Request, values: Values) -> dict[str, Any]:
    """`q`, and perhaps `as_of`, `known_as_of`, `scope`: as `ask --json` prints it. It may cost a call of the model."""
    how: dict[str, Any] = {name: text(values, name) or None for name in ("as_of", "known_as_of", "scope")}
    return site.memory.ask(_question(values), **how).as_json()


def why_as_json(site: Site, request: Request, values: Values) -> dict[str, Any]:
    """The story of the row that the address names, as `why --json` prints it."""
    return site.browsing.why(request.path_params["id"]).as_json()


def _question(values: Values) -> str:
    question = text(values, "q")
    if not question:
        raise UnusableInput("There is no question.", "Give it as q.")
    return question

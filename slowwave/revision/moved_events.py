"""Which facts give the old day of an event that was moved? (S1-21)

"The team dinner was moved to 10 July" names no old day, and "The team dinner is at Luigi's on 3 July" is no relation. A
fact that ends wrongly is hard to find again, so every doubt keeps it: another person's words, another kind of dinner,
another claim in the same sentence, a day that is over, or two dinners on different days.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from slowwave.extraction.events import Event, dated_events, moved_event, places, stems

from .mutual_exclusion import is_dated
from .referenced_facts import unquoted
from .revision_state import Fact

Speakers = Callable[[Fact], frozenset[str]]
"""Normalised names of those who said a fact."""
_NO_MORE = frozenset({"is", "owns", "plans_to"})
"""Relations that say no more than their statement: "is married" of "is getting married", "owns" of "has an exam"."""


def moves(speaker: Fact, words: str | None) -> Event | None:
    """The event that a fact says was moved to another day, if the words of its directive name that event."""
    event = moved_event(unquoted(speaker["statement"]))
    return event if event and words and event.phrase == words else None


def facts_of_the_old_day(event: Event, speaker: Fact, facts: Iterable[Fact], speakers_of: Speakers) -> list[Fact]:
    """The facts that give the moved event another day to come; none if they give several days, or if the new day is
    not known or over."""
    if not speaker["event_at"] or not speaker["event_until"] or speaker["event_until"] <= speaker["said_at"]:
        return []
    who = speakers_of(speaker)
    found = [
        (fact, other)
        for fact in facts
        if _may_be_over(fact, speaker) and speakers_of(fact) & who
        for other in dated_events(unquoted(fact["statement"]))
        if _may_be_one(event, other, fact, who)
    ]
    days = {fact["event_at"] for fact, _ in found}
    named = event.which | event.where
    return [fact for fact, other in found if other.which <= named] if len(days) == 1 else []


def _may_be_over(fact: Fact, speaker: Fact) -> bool:
    """Whether a fact tells of a day to come, at the time of the speaker, and not of the new day."""
    begins, ends = fact["event_at"], fact["event_until"]
    if not begins or not ends or fact["polarity"] == "negated":
        return False
    says_no_more = fact["kind"] != "relation" or is_dated(fact["predicate"]) or fact["predicate"] in _NO_MORE
    is_new_day = begins < speaker["event_until"] and speaker["event_at"] < ends
    return says_no_more and ends > speaker["said_at"] and not is_new_day


def _may_be_one(event: Event, other: Event, fact: Fact, who: frozenset[str]) -> bool:
    """Whether a fact may mean the moved event: the same noun, all its words, and no other owner."""
    owner, others = _of_speaker(event.owner, who), _of_speaker(other.owner, who)
    own = {"my": ("my", "our"), "our": ("my", "our", "")}
    is_owners = not owner or others in own.get(owner, (owner,))
    words = unquoted(fact["statement"])
    return event.kind == other.kind and is_owners and event.which <= stems(words) and event.where <= places(words)


def _of_speaker(owner: str, who: frozenset[str]) -> str:
    """The owner in the words of the speaker: "ana's sister's" is "my sister's" when Ana says it."""
    given = who | {name.partition(" ")[0] for name in who}
    names = "|".join(map(re.escape, sorted(given, key=len, reverse=True)))
    return re.sub(rf"^(?:{names})'s\b", "my", owner)

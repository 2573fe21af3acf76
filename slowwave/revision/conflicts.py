"""Of two objects of a relation that allows one at a time, one holds: which, and since when (S2-58b, S2-59).

What is said later and began later takes the place of what was said before, whichever of the two arrives first (§6.3);
what merely tells of an earlier beginning is over already. Both stay, for a person or a model to settle, where being
said and beginning disagree, where a relation never changes in life, where one place may be a part of the other and
nothing says that somebody moved, and where somebody else speaks of a subject that spoke for itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime

import polars as pl

from slowwave.settings import ReviseSettings

from .evidence import FactSources
from .mutual_exclusion import (
    Claim,
    Forms,
    exclude,
    is_lasting,
    may_overlap,
    names_both,
    plain,
    read_claim,
    tells_what_ended,
)
from .predicates import canonicalise, domain_of
from .revision_state import NOTHING, Fact, RevisionState

REASON, LATE = "conflict", "late"
BOTH = ""
_LIFELONG = "It never changes, so one of the two is wrong: both stay."
_PART = "One may be a part of the other, and nothing says that it changed: both stay."
_HEARSAY = "Its subject said it, and somebody else says otherwise, so both stay."
_MODEL_DECIDES = "A model is asked which of them holds; until then both stay."
_UNCLEAR = "It was said later but began earlier: which holds is not clear, so both stay."
# Parts of parts are parts: two wholes are no conflict, and `contains` is structure, no knowledge (T33).
_NEVER = ("part_of", "contains", "similar_to")


class MutualExclusion:
    """What is known about objects: which relations allow one, what objects are called, what was said in one breath."""

    def __init__(
        self,
        predicates: pl.Series,
        learned: pl.DataFrame,
        names: Mapping[str, frozenset[str]],
        types: Mapping[str, str],
        sources: FactSources,
    ) -> None:
        self.single = single_valued(predicates, learned)
        self._names, self._types, self._sources = names, types, sources
        self._classes: dict[tuple[str, str, str], list[Fact]] = defaultdict(list)
        self._claims: dict[str, tuple[Claim, Forms]] = {}

    def candidates(self, fresh: pl.DataFrame) -> set[str]:
        """Ids of candidates whose relation allows one object."""
        rows = fresh.filter(pl.col("predicate").is_in(list(self.single)), pl.col("kind") == "relation", _is_affirmed())
        return set(rows["id"])

    def place(self, facts: Iterable[Fact]) -> None:
        """Sort facts into classes of which one at a time can hold."""
        for fact in facts:
            if fact["predicate"] in self.single and fact["polarity"] != "negated" and fact["object_text"]:
                self._classes[fact["scope"], fact["subject_id"], fact["predicate"]].append(fact)

    def of(self, fact: Fact) -> list[Fact]:
        """The others of its class that were there before it and whose object excludes its own."""
        mates = self._classes.get((fact["scope"], fact["subject_id"], fact["predicate"]), [])
        return [mate for mate in mates if mate["place"] < fact["place"] and self._exclude(fact, mate)]

    def is_event(self, fact: Fact) -> bool:
        """Whether it tells of a beginning, not of the time when it was said."""
        return self._read(fact)[0].is_event

    def doubt(self, winner: Fact, loser: Fact, later: Fact) -> str:
        """Why the winner may not end the loser by itself; empty if it may. `later` is the one that followed."""
        until = max(winner["said_at"], loser["said_at"])
        if self._is_own(loser, until) and not self._is_own(winner, until):
            return _HEARSAY
        earlier = loser if later is winner else winner
        if is_lasting(later["predicate"]):
            return _LIFELONG
        return _PART if self._may_be_part(later, earlier) and not self._tells_change(later, earlier) else ""

    def _is_own(self, fact: Fact, until: datetime) -> bool:
        """Whether its subject had said it by then."""
        names = self._names.get(fact["subject_id"], frozenset())
        messages = [message for message in self._messages(fact) if self._sources.at.get(message, until) <= until]
        return any(plain(self._sources.speakers.get(message, "")) in names for message in messages)

    def _tells_change(self, later: Fact, earlier: Fact) -> bool:
        """Whether it says that this is new: in words, or by a beginning of its own after the other one's."""
        claim, others = self._read(later)[0], self._read(earlier)[1].names
        if claim.is_event and later["valid_from"] < earlier["valid_from"]:
            return False
        times = self._sources.times.get(later["id"], frozenset()) | {later["said_at"]}
        has_beginning = later["valid_from"] not in times and later["valid_from"] > earlier["valid_from"]
        return claim.tells_change or has_beginning or tells_what_ended(later["statement"] or "", others)

    def _may_be_part(self, a: Fact, b: Fact) -> bool:
        """Whether one may be a part of the other: two places, of which not both are known well enough."""
        forms, others = self._read(a)[1], self._read(b)[1]
        are_places = forms.type == others.type == "place" or domain_of(a["predicate"]) == "home"
        return are_places and may_overlap(forms, others)

    def _exclude(self, new: Fact, known: Fact) -> bool:
        """Whether the two cannot both hold: both plainly so, of the same time, not said in one message."""
        is_same = new["object_id"] and new["object_id"] == known["object_id"]
        if is_same or self._messages(new) & self._messages(known):
            return False
        if max(new["valid_from"], known["valid_from"]) > max(new["said_at"], known["said_at"]):
            return False  # a plan: it may come otherwise
        if new["valid_to"] and new["valid_to"] <= known["valid_from"]:
            return False
        (claim, forms), (other, other_forms) = self._read(new), self._read(known)
        if not (claim.is_plain and other.is_plain and exclude(forms, other_forms, (claim.kind, other.kind))):
            return False
        return not (names_both(new["statement"], other_forms.names) or names_both(known["statement"], forms.names))

    def _messages(self, fact: Fact) -> frozenset[str]:
        return self._sources.messages.get(fact["id"], frozenset()) | ({fact["message_id"]} - {None})

    def _read(self, fact: Fact) -> tuple[Claim, Forms]:
        if fact["id"] not in self._claims:
            text, entity = fact["object_text"], fact["object_id"] or ""
            forms = Forms(self._names.get(entity, frozenset()) | {plain(text)} - {""}, self._types.get(entity, ""))
            self._claims[fact["id"]] = read_claim(fact["statement"] or "", text), forms
        return self._claims[fact["id"]]


def single_valued(predicates: pl.Series, learned: pl.DataFrame) -> frozenset[str]:
    """Those of these canonical predicates that allow one object at a time (S2-61)."""
    forms = canonicalise(predicates, learned)
    single = forms.filter((pl.col("cardinality") == "1") & (pl.col("canonical") == pl.col("raw")))
    return frozenset(single["raw"]) - {*_NEVER}


def _is_affirmed() -> pl.Expr:
    return (pl.col("polarity") != "negated").fill_null(True) & (pl.col("object_text").fill_null("") != "")


def settle_conflicts(state: RevisionState, exclusion: MutualExclusion, new: Fact, settings: ReviseSettings) -> None:
    """Carry out what a new fact means for the others of its class, oldest first."""
    mates = sorted(exclusion.of(new), key=lambda fact: (fact["valid_from"], fact["id"]))
    for known in mates:
        if not state.is_open(new):
            break
        if state.is_open_at(known, new["valid_from"]) and not state.is_contradicted(new, known):
            _settle(state, exclusion, new, known, settings)


def say_again(
    state: RevisionState, exclusion: MutualExclusion, fact: Fact, saying: Fact, settings: ReviseSettings
) -> None:
    """A known fact is said once more: of what was left beside it in doubt until then, this may settle which holds."""
    again = {**fact, **{name: saying[name] for name in ("place", "said_at", "valid_from")}}
    for known in exclusion.of(again):
        is_open = known["said_at"] < again["said_at"] and state.is_open_at(known, again["valid_from"])
        if is_open and not state.is_contradicted(again, known):
            holds = judged(again, known, settings) == fact["id"]
            if holds and not state.refusal(again, again, known) and not exclusion.doubt(again, known, again):
                replace(state, known, again, settings, REASON)


def _settle(state: RevisionState, exclusion: MutualExclusion, new: Fact, known: Fact, settings: ReviseSettings) -> None:
    """One new fact and one that holds, by the order in which they were said, not that in which they arrived."""
    later, earlier = sorted((new, known), key=statement_order, reverse=True)
    is_history = exclusion.is_event(later) and later["valid_from"] < earlier["valid_from"]
    holds = earlier["id"] if is_history else judged(later, earlier, settings)
    winner, loser = (earlier, later) if holds == earlier["id"] else (later, earlier)
    if state.is_late(winner):  # surer, but over already
        winner, loser = loser, winner
    if holds == BOTH:
        _leave_both(state, new, known, settings, _MODEL_DECIDES if settings.strategy == "llm" else _UNCLEAR)
    elif doubt := _doubt(state, exclusion, winner, loser, earlier if is_history else later):
        _leave_both(state, new, known, settings, doubt)
    elif loser is new and (is_history or later is known):
        come_late(state, new, known, settings)
    else:
        replace(state, loser, winner, settings, REASON)


def statement_order(fact: Fact) -> tuple[datetime, datetime, str]:
    """The order in which facts were said; it does not depend on when they arrived."""
    return fact["said_at"], fact["valid_from"], fact["id"]


def _doubt(state: RevisionState, exclusion: MutualExclusion, winner: Fact, loser: Fact, later: Fact) -> str:
    """Why both stay; where rank forbids the change, that is said instead."""
    return "" if state.refusal(winner, winner, loser) else exclusion.doubt(winner, loser, later)


def _leave_both(state: RevisionState, new: Fact, known: Fact, settings: ReviseSettings, reason: str) -> None:
    """Both stay, and the pair waits for somebody who knows: a model's verdict, or a person."""
    _note(state, "refuse", new, known, settings, reason)
    state.doubts.append((new["id"], known["id"], ""))


def judged(new: Fact, known: Fact, settings: ReviseSettings) -> str:
    """Which of two holds; empty where both stay because a model is to say, or nobody can (S2-59)."""
    if settings.strategy == "llm":
        return BOTH
    surer = (new["confidence"] or 0.0) - (known["confidence"] or 0.0)
    if settings.strategy == "confidence" and surer:
        return str((new if surer > 0 else known)["id"])
    return str(new["id"]) if new["valid_from"] >= known["valid_from"] else BOTH


def replace(
    state: RevisionState,
    loser: Fact,
    winner: Fact,
    settings: ReviseSettings,
    why: str,
    seen: Mapping[str, object] = NOTHING,
) -> None:
    """The winner takes the place of the loser, unless rank, a circle or a full chain forbids it."""
    new = winner if winner["place"] > loser["place"] else loser
    if refusal := state.refusal(winner, winner, loser):
        would = state.would(why, winner, winner, loser)
        _note(state, "refuse", winner, loser, settings, refusal, {**seen, **would})
        return
    is_mistake = why == REASON and is_lasting(loser["predicate"])  # it never was: no time is left in which it held
    ends = loser["valid_from"] if is_mistake else max(winner["valid_from"], loser["valid_from"])
    until = loser["valid_to"]
    is_linked = state.supersede(loser, winner, why, f"replaced by {winner['id']}", ends=ends)
    if loser is not new:
        state.retire(loser, winner, new, is_mistake=is_mistake)
    if not is_linked:
        return
    moved = {"valid_to": [until, loser["valid_to"]]}
    _note(state, "supersede", winner, loser, settings, _reason(winner, loser, settings, why), {**seen, **moved})
    if settings.retain_alternatives and why == REASON:
        kept = {name: loser[name] for name in ("id", "object_text", "valid_from", "confidence")}
        seen = {"strategy": settings.strategy, "alternatives": [kept]}
        state.decide("prefer", winner["id"], [loser["id"]], [winner["id"]], "What it was preferred to.", seen)


def _reason(winner: Fact, loser: Fact, settings: ReviseSettings, why: str) -> str:
    if why != REASON:
        return "It says the same two things differently, and later."
    if settings.strategy == "confidence" and winner["confidence"] != loser["confidence"]:
        return "Its relation allows one object at a time, and the other one is surer."
    return "Its relation allows one object at a time, and the other one began later."


def come_late(state: RevisionState, new: Fact, known: Fact, settings: ReviseSettings) -> None:
    """It was over when what holds began (§6.3)."""
    if refusal := state.refusal(known, known, new):
        _note(state, "refuse", known, new, settings, refusal, state.would(LATE, known, known, new))
        return
    state.comes_late(new, known, max(known["valid_from"], new["valid_from"]), REASON)


def _note(
    state: RevisionState,
    action: str,
    winner: Fact,
    loser: Fact,
    settings: ReviseSettings,
    reason: str,
    seen: Mapping[str, object] = NOTHING,
) -> None:
    """A decision about two facts: both values, when they began, how sure they are, and the strategy."""
    both = (loser, winner)
    out = [fact["id"] for fact in both] if action == "supersede" else []
    values = {
        "strategy": settings.strategy,
        "relation": loser["predicate"],
        "objects": [fact["object_text"] for fact in both],
        "valid_from": [fact["valid_from"] for fact in both],
        "confidence": [fact["confidence"] for fact in both],
        "entrenchment": [fact["entrenchment"] for fact in both],
    }
    state.decide(action, loser["id"], [fact["id"] for fact in both], out, reason, {**values, **seen})

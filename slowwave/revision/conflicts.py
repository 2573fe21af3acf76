"""Conflicts: a relation allows one object at a time, so one of two facts supersedes the other (S2-58b, S2-59).

The fact that was said later and began later wins, in whatever order the two arrive (§6.3); a fact with an earlier
beginning is history. Both facts stay, for a model or a person to settle, if the order of the messages and the order of
the beginnings disagree, if the relation never changes in life, if one place may be a part of the other and no text says
that somebody moved, or if another person contradicts the subject's own words.
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
    """Which facts exclude each other: single-valued relations, names of objects, messages of facts."""

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
        is_affirmed = (pl.col("polarity") != "negated").fill_null(True) & (pl.col("object_text").fill_null("") != "")
        is_single = pl.col("predicate").is_in(list(self.single)) & (pl.col("kind") == "relation")
        return set(fresh.filter(is_single, is_affirmed)["id"])

    def place(self, facts: Iterable[Fact]) -> None:
        """Group facts into classes; of a class one fact can hold at a time."""
        for fact in facts:
            if fact["predicate"] in self.single and fact["polarity"] != "negated" and fact["object_text"]:
                self._classes[fact["scope"], fact["subject_id"], fact["predicate"]].append(fact)

    def of(self, fact: Fact) -> list[Fact]:
        """Earlier facts of its class whose object excludes its own."""
        mates = self._classes.get((fact["scope"], fact["subject_id"], fact["predicate"]), [])
        return [mate for mate in mates if mate["place"] < fact["place"] and self._exclude(fact, mate)]

    def is_event(self, fact: Fact) -> bool:
        """Whether the statement tells of a beginning ("moved to Oslo in October"), not of the present."""
        return self._read(fact)[0].is_event

    def doubt(self, winner: Fact, loser: Fact, later: Fact) -> str:
        """Why the winner may not end the loser; empty if it may. `later` is the later of the two."""
        until = max(winner["said_at"], loser["said_at"])
        if self._is_own(loser, until) and not self._is_own(winner, until):
            return _HEARSAY
        earlier = loser if later is winner else winner
        if is_lasting(later["predicate"]):
            return _LIFELONG
        return _PART if self._may_be_part(later, earlier) and not self._tells_change(later, earlier) else ""

    def _is_own(self, fact: Fact, until: datetime) -> bool:
        """Whether the subject of the fact said it, until that time."""
        names = self._names.get(fact["subject_id"], frozenset())
        messages = [message for message in self._messages(fact) if self._sources.at.get(message, until) <= until]
        return any(plain(self._sources.speakers.get(message, "")) in names for message in messages)

    def _tells_change(self, later: Fact, earlier: Fact) -> bool:
        """Whether the later fact says that something changed: in words, or by a later beginning."""
        claim, others = self._read(later)[0], self._read(earlier)[1].names
        if claim.is_event and later["valid_from"] < earlier["valid_from"]:
            return False
        times = self._sources.times.get(later["id"], frozenset()) | {later["said_at"]}
        has_beginning = later["valid_from"] not in times and later["valid_from"] > earlier["valid_from"]
        return claim.tells_change or has_beginning or tells_what_ended(later["statement"] or "", others)

    def _may_be_part(self, a: Fact, b: Fact) -> bool:
        """Whether the objects are places and one may be a part of the other."""
        forms, others = self._read(a)[1], self._read(b)[1]
        are_places = forms.type == others.type == "place" or domain_of(a["predicate"]) == "home"
        return are_places and may_overlap(forms, others)

    def _exclude(self, new: Fact, known: Fact) -> bool:
        """Whether the two cannot both hold: plain statements about the same time, from different messages."""
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
    """The canonical predicates among these that allow one object at a time (S2-61)."""
    forms = canonicalise(predicates, learned)
    single = forms.filter((pl.col("cardinality") == "1") & (pl.col("canonical") == pl.col("raw")))
    return frozenset(single["raw"]) - {*_NEVER}


def settle_conflicts(state: RevisionState, exclusion: MutualExclusion, new: Fact, settings: ReviseSettings) -> None:
    """Settle the conflicts of a new fact with the others of its class, oldest first."""
    mates = sorted(exclusion.of(new), key=lambda fact: (fact["valid_from"], fact["id"]))
    for known in mates:
        if not state.is_open(new):
            break
        if state.is_open_at(known, new["valid_from"]) and not state.is_contradicted(new, known):
            _settle(state, exclusion, new, known, settings)


def say_again(
    state: RevisionState, exclusion: MutualExclusion, fact: Fact, saying: Fact, settings: ReviseSettings
) -> None:
    """A known fact was repeated: this may settle conflicts with facts that stayed beside it."""
    again = {**fact, **{name: saying[name] for name in ("place", "said_at", "valid_from")}}
    for known in exclusion.of(again):
        is_open = known["said_at"] < again["said_at"] and state.is_open_at(known, again["valid_from"])
        if is_open and not state.is_contradicted(again, known):
            holds = judged(again, known, settings) == fact["id"]
            if holds and not state.refusal(again, again, known) and not exclusion.doubt(again, known, again):
                replace(state, known, again, settings, REASON)


def _settle(state: RevisionState, exclusion: MutualExclusion, new: Fact, known: Fact, settings: ReviseSettings) -> None:
    """Settle a new fact and a live one, in message order, not in order of arrival."""
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
    """Sort key of facts in message order; it does not depend on the order of arrival."""
    return fact["said_at"], fact["valid_from"], fact["id"]


def _doubt(state: RevisionState, exclusion: MutualExclusion, winner: Fact, loser: Fact, later: Fact) -> str:
    """Why both stay; empty if rank forbids the change, which `replace` then notes."""
    return "" if state.refusal(winner, winner, loser) else exclusion.doubt(winner, loser, later)


def _leave_both(state: RevisionState, new: Fact, known: Fact, settings: ReviseSettings, reason: str) -> None:
    """Keep both facts; the pair waits for a model or a person."""
    _note(state, "refuse", new, known, settings, reason)
    state.doubts.append((new["id"], known["id"], ""))


def judged(new: Fact, known: Fact, settings: ReviseSettings) -> str:
    """Id of the fact that holds; empty if both stay, for a model or because the order is not clear (S2-59)."""
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
    """Supersede the loser by the winner, unless rank, a circle or a full chain forbids it."""
    new = winner if winner["place"] > loser["place"] else loser
    if refusal := state.refusal(winner, winner, loser):
        would = state.override_request(why, winner, winner, loser)
        _note(state, "refuse", winner, loser, settings, refusal, {**seen, **would})
        return
    is_mistake = why == REASON and is_lasting(loser["predicate"])  # it never held: its interval is empty
    ends = loser["valid_from"] if is_mistake else max(winner["valid_from"], loser["valid_from"])
    until = loser["valid_to"]
    is_linked = state.supersede(loser, winner, why, f"replaced by {winner['id']}", ends=ends)
    if loser is not new:
        state.note_retired(loser, winner, new, is_mistake=is_mistake)
    if not is_linked:
        return
    moved = {"valid_to": [until, loser["valid_to"]]}
    _note(state, "supersede", winner, loser, settings, _reason(winner, loser, settings, why), {**seen, **moved})
    if settings.retain_alternatives and why == REASON:
        kept = {name: loser[name] for name in ("id", "object_text", "valid_from", "confidence")}
        seen = {"strategy": settings.strategy, "alternatives": [kept]}
        state.note_decision("prefer", winner["id"], [loser["id"]], [winner["id"]], "What it was preferred to.", seen)


def _reason(winner: Fact, loser: Fact, settings: ReviseSettings, why: str) -> str:
    if why != REASON:
        return "It says the same two things differently, and later."
    if settings.strategy == "confidence" and winner["confidence"] != loser["confidence"]:
        return "Its relation allows one object at a time, and the other one is surer."
    return "Its relation allows one object at a time, and the other one began later."


def come_late(state: RevisionState, new: Fact, known: Fact, settings: ReviseSettings) -> None:
    """Note that the new fact was over when the known one began (§6.3)."""
    if refusal := state.refusal(known, known, new):
        _note(state, "refuse", known, new, settings, refusal, state.override_request(LATE, known, known, new))
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
    """Note a decision about two facts, with their objects, beginnings, confidence and the strategy."""
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
    state.note_decision(action, loser["id"], [fact["id"] for fact in both], out, reason, {**values, **seen})

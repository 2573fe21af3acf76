"""Which claims did the extractor make? Its answers about windows of messages become CLAIMS."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Protocol

import polars as pl

from slowwave.common import frames
from slowwave.common.lexicon.labels import SAID
from slowwave.common.records import KnownFact, Turn
from slowwave.common.text import SYLLABIC, normalise_name, normalise_statement
from slowwave.common.words import tokens
from slowwave.entities.mentions import JUDGED
from slowwave.reading.extraction.kinship import is_role
from slowwave.reading.extraction.names import has_value, is_entity
from slowwave.reading.extraction.quotes import speaker_name
from slowwave.reading.extraction.roster import GENERIC_NAMES, UNNAMED
from slowwave.reading.ingestion.windows import PlannedWindow

from .candidates import CLAIMS
from .predicates import known_relation, takes_value

JUDGEMENTS: frames.Schema = {"message_id": frames.TEXT, "durable": frames.FLAG, "reason": frames.TEXT}
IN_PLAY: frames.Schema = {
    "window": pl.Int64(),
    "canonical_name": frames.TEXT,
    "entity_id": frames.TEXT,
    "entity_type": frames.TEXT,
    "first_seen_at": frames.TIME,
    "seen_at": frames.TIME,
}
"""The stored entity that a name means in a window."""
NAMES: frames.Schema = {
    "scope": frames.TEXT,
    "entity_id": frames.TEXT,
    "entity": frames.TEXT,
    "name": frames.TEXT,
}
"""A name that a text gives to an entity of the roster; `entity_id` is empty for a speaker who is not stored yet."""
MADE = frozenset({"person", "organization", "project", "tool", "language"})
"""Types that a model may list without a proper name: "Jon's dance studio" is an entity."""
VERDICTS = {
    "updates": ("supersede", "temporal_change"),
    "covers": ("cover", "temporal_change"),
    "corrects": ("supersede", "correction"),
    "ends": ("retract", "temporal_change"),
    "contradicts": ("contradict", "temporal_change"),
}
"""Action and reason of a verdict about a known fact."""


class Dumps(Protocol):
    """A validated response."""

    def model_dump(self) -> dict[str, Any]:
        """The response as plain data."""


@dataclass(frozen=True, slots=True)
class CollectedClaims:
    """CLAIMS, mentions (JUDGED) and JUDGEMENTS of a batch, the entities IN_PLAY that claims name, and learned NAMES.

    `invalid` counts references to messages and facts that were not shown (T37).
    """

    claims: pl.DataFrame
    mentions: pl.DataFrame
    judgements: pl.DataFrame
    in_play: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=dict(IN_PLAY)))
    names: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=dict(NAMES)))
    invalid: int = 0


def collect(
    answered: Iterable[tuple[PlannedWindow, Dumps]], max_entities_per_message: int, *, by_model: bool = False
) -> CollectedClaims:
    """One frame of each kind from all answers, which may only refer to messages and facts that were shown (T37).

    A claim may end only a fact that was shown, by its index or by some of its words, so that no text can make a model
    end other facts. A name is learned only if a person of the window says it.

    The subject of a claim is a mention even if the answer does not list it. A subject that is no entity (`is_entity`)
    and has no value (`has_value`) is replaced by the speaker, or by the person whom the assistant answers; the claim
    becomes an observation. An object that is not listed, or is no entity, stays text.

    If a model uses a relation outside the list, the claim becomes an observation. Documents of a domain may have
    relations of their own (S2-61).
    """
    parts = [_Window(n, *each, by_model=by_model) for n, each in enumerate(answered) if each[0].window.turns]
    return CollectedClaims(
        pl.DataFrame([row for part in parts for row in part.claims], schema=dict(CLAIMS)),
        pl.DataFrame([row for part in parts for row in part.mentions(max_entities_per_message)], schema=JUDGED),
        pl.DataFrame([row for part in parts for row in part.judgements()], schema=dict(JUDGEMENTS)).unique(
            "message_id", keep="first", maintain_order=True
        ),
        pl.DataFrame([row for part in parts for row in part.in_play()], schema=dict(IN_PLAY)).unique(
            maintain_order=True
        ),
        pl.DataFrame([row for part in parts for row in part.learned()], schema=dict(NAMES)),
        sum(part.invalid for part in parts),
    )


class _Window:
    """One answer about one window."""

    def __init__(self, number: int, planned: PlannedWindow, response: Dumps, *, by_model: bool) -> None:
        self._number, self._window = number, planned.window
        self._by_model = by_model
        self._answer = response.model_dump()
        turns = planned.window.turns
        self._rows = {
            turn.index: row for turn, row in zip(turns, planned.message_ids, strict=True) if not turn.is_context
        }
        self._texts = [turn.text for turn in turns]
        self._people = {turn.speaker for turn in turns if turn.role == "user"} | set(map(speaker_name, turns))
        self._is_document = any(turn.role == "document" for turn in turns)
        self._seen_at = max(turn.occurred_at for turn in turns)
        self._valued: set[str] = set()
        self._known = {str(fact.index): fact for fact in self._window.known}
        self._entries = {str(entry.number): entry for entry in self._window.roster}
        self._by_name = {normalise_name(entry.name): entry for entry in self._window.roster}
        self._by_alias = {normalise_name(alias): entry for entry in self._window.roster for alias in entry.aliases}
        self._by_alias |= {
            name: entry for entry in self._window.roster if entry.role == "user" for name in GENERIC_NAMES
        }
        self._by = {turn.index: turn.speaker for turn in turns if turn.index in self._rows}
        facts = [self._on_own_turn(claim) for claim in self._answer["facts"]]
        valid = [(place, claim) for place, claim in enumerate(facts) if claim["message"] in self._rows]
        self._places = {f"f{place}": n for n, (place, _) in enumerate(valid)}
        self.claims = [self._claim(claim) for _, claim in valid]
        again = [each for each in self._answer.get("repeats", ()) if each["message"] in self._rows]
        repeated = [(self._known[str(each["known"])], each) for each in again if str(each["known"]) in self._known]
        self.claims += [self._repetition(fact, each) for fact, each in repeated]
        types = {each["name"]: each["type"] for each in self._answer["entities"]}
        self.claims = self._with_subjects(self.claims, types)
        self.invalid = len(facts) - len(valid) + len(self._answer.get("repeats", ())) - len(repeated)

    def _on_own_turn(self, claim: dict[str, Any]) -> dict[str, Any]:
        """The claim; one that names a turn which is only shown rests on the person's turn that says it, too."""
        own = {*claim.get("also", ())} & {*self._rows}
        return claim if claim["message"] in self._rows or not own else {**claim, "message": min(own)}

    def _claim(self, claim: Mapping[str, Any]) -> dict[str, Any]:
        taken = {name: claim[name] for name in CLAIMS if name in claim}
        relation = self._relation(claim)
        object_ = self._object(claim) if claim["object"] else None
        subject = self._name(claim["subject"])
        first, *further = self._messages(claim)
        found = self._mentioned.finditer(claim["statement"]) if self._mentioned else ()
        named = dict.fromkeys(self._called[match.group()] for match in found)
        return {
            **taken,
            "window": self._number,
            "message_id": first,
            "also": further,
            "subject": subject,
            "object": object_,
            "mentions": [name for name in named if name not in (subject, object_)],
            "relation": relation,
            "kind": claim["kind"] if relation != SAID and object_ else "observation",
            "resolves": [row for each in claim["resolves"] if (row := self._directive(each)) is not None],
        }

    def _messages(self, claim: Mapping[str, Any]) -> list[str]:
        """The messages that say a claim: first the earliest, but the given one where its words of time count from it.

        What others say is no evidence.
        """
        given = claim["message"]
        same = {index for index in claim.get("also", ()) if self._by.get(index) == self._by[given]} | {given}
        order = sorted(same, key=lambda index: (bool(claim.get("temporal_hint")) and index != given, index))
        return [self._rows[index] for index in order]

    @cached_property
    def _called(self) -> dict[str, str]:
        """Name of an entity by each of its names in the window; the longest first."""
        listed = {each["name"]: each["name"] for each in self._answer["entities"]}
        known = {
            name: entry.name
            for entry in self._window.roster
            for name in (entry.name, *entry.aliases)
            if normalise_name(name) not in GENERIC_NAMES and name != UNNAMED
        }
        return dict(sorted({**known, **listed}.items(), key=lambda item: -len(item[0])))

    @cached_property
    def _mentioned(self) -> re.Pattern[str] | None:
        spaced = [rf"(?<!\w){re.escape(name)}(?!\w)" for name in self._called if not SYLLABIC.search(name)]
        joined = [re.escape(name) for name in self._called if SYLLABIC.search(name)]
        return re.compile("|".join((*spaced, *joined))) if self._called else None

    def _relation(self, claim: Mapping[str, Any]) -> str:
        relation: str = claim["relation"].strip()
        return (known_relation(relation) if self._by_model and not self._is_document else relation) or SAID

    def _repetition(self, fact: KnownFact, each: Mapping[str, Any]) -> dict[str, Any]:
        """A claim that repeats a known fact and becomes one more piece of evidence for it."""
        return {
            "window": self._number,
            "message_id": self._rows[each["message"]],
            "kind": "relation" if fact.object else "observation",
            "subject": fact.subject,
            "relation": fact.predicate,
            "object": fact.object or None,
            "statement": fact.statement,
            "edge_type": "",
            "ended": fact.is_over,
            "aspects": [],
            "resolves": [{"known_id": fact.fact_id, "action": "repeat", "reason": "temporal_change"}],
        }

    def _name(self, reference: str) -> str:
        """The name for a reference; numbers are those of the roster."""
        number, name = reference.strip().lstrip("#").strip(), normalise_name(reference)
        entry = self._entries.get(number) or (None if name in self._by_name else self._by_alias.get(name))
        return entry.name if entry is not None else reference

    def _object(self, claim: Mapping[str, Any]) -> str:
        """The name of the object. Where the relation takes a value, some numbers are one, not the entity of the number.

        A year of four digits is a date. An age is a number unless the statement names the entity, beside the subject.
        """
        written = str(claim["object"]).strip()
        entry = self._entries.get(written)
        if entry is None or not takes_value(claim["relation"]):
            return self._name(str(claim["object"]))
        if known_relation(claim["relation"]) != "age":
            return written if re.fullmatch(r"\d{4}", written) else entry.name
        statement = normalise_name(claim["statement"])
        names = map(normalise_name, (entry.name, *entry.aliases))
        is_named = any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", statement) for name in names)
        return entry.name if is_named and entry.name != self._name(claim["subject"]) else written

    def _directive(self, given: Mapping[str, Any]) -> dict[str, Any] | None:
        """The action on one earlier fact; None if a model gives neither verdict nor object."""
        verdict = given.get("verdict")
        if self._by_model and verdict is None and given["object"] is None:
            return None
        action, reason = VERDICTS.get(verdict or "", (given["action"], given["reason"]))
        reference = str(given["known"] or "").strip().lower().lstrip("k#")
        fact = self._known.get(reference)
        return {
            "known_id": fact.fact_id if fact is not None else None,
            "claim": self._places.get(reference),
            "object": self._shown(given["object"]),
            "action": action,
            "reason": reason,
        }

    def _shown(self, object_: str | None) -> str | None:
        """The words for the fact that is over, if some of them were shown; None if the model invented them."""
        words = normalise_statement(object_ or "").split()
        telling = [word for word in words if len(word) > 3]
        if telling:
            return object_ if any(word in self._words for word in telling) else None
        return object_ if not tokens(self._words).isdisjoint(words) else None

    @cached_property
    def _words(self) -> str:
        texts = [*(turn.text for turn in self._window.turns), *(fact.statement for fact in self._window.known)]
        return normalise_statement("\n".join(texts))

    def _is_known(self, name: str, kind: str) -> bool:
        """Whether a name means an entity."""
        if name in self._people or normalise_name(name) in self._by_name or (self._by_model and kind in MADE):
            return True
        return is_entity(name, kind, self._texts, is_document=self._is_document)

    def _with_subjects(self, claims: list[dict[str, Any]], listed: Mapping[str, str]) -> list[dict[str, Any]]:
        """The claims; where the subject is no entity, the speaker is the subject."""
        speakers = _speakers(self._window.turns)
        by_row = {row: speakers[index] for index, row in self._rows.items()}
        self._valued |= {
            claim["subject"] for claim in claims if has_value(claim["subject"], claim["object"], self._texts)
        }
        known = {
            name: name in self._valued or self._is_known(name, listed.get(name, "concept"))
            for name in {claim["subject"] for claim in claims}
        }
        aside = {"kind": "observation", "relation": SAID, "object": None}
        return [
            claim
            if known[claim["subject"]]
            else {
                **claim,
                **aside,
                "subject": by_row[claim["message_id"]],
                # What other people do ("my parents moved") ends no fact about the speaker.
                "resolves": [] if is_role(claim["subject"].rpartition(" ")[2]) else claim["resolves"],
            }
            for claim in claims
        ]

    def mentions(self, max_per_message: int) -> list[dict[str, Any]]:
        """The names that the answer lists as new, and subjects that it does not list."""
        listed: dict[str, tuple[str, str | None]] = {}
        for each in self._answer["entities"][: max_per_message * len(self._rows)]:
            listed.setdefault(each["name"], (each["type"], each["summary"]))
        for claim in self.claims:
            entry = self._by_name.get(normalise_name(claim["subject"]))
            is_speaker = claim["subject"] in self._people
            kind = entry.entity_type if entry else "person" if is_speaker else "concept"
            kind = "file" if is_speaker and self._is_document else kind
            listed.setdefault(claim["subject"], (kind, None))
        used = {name for claim in self.claims for name in _names_of(claim)}
        owners = {speaker_name(turn) for turn in self._window.turns if turn.role == "user" and not turn.is_context}
        return [
            {
                "window": self._number,
                "name": name,
                "entity_type": kind,
                "summary": summary,
                **self._seen(name),
                "is_named": name in self._valued or self._is_known(name, kind),
                "owner": next(iter(owners)) if len(owners) == 1 else None,
            }
            for name, (kind, summary) in listed.items()
            if normalise_name(name) not in self._stored and (name in used or not self._by_model)
        ]

    def _seen(self, name: str) -> dict[str, datetime]:
        """When a name was first and last met: by a claim that names it, else when the window ended."""
        times = self._claimed.get(normalise_name(name)) or [self._seen_at]
        return {"first_seen_at": min(times), "seen_at": max(times)}

    @cached_property
    def _claimed(self) -> dict[str, list[datetime]]:
        at = {self._rows[turn.index]: turn.occurred_at for turn in self._window.turns if turn.index in self._rows}
        found: dict[str, list[datetime]] = defaultdict(list)
        for claim in self.claims:
            for name in _names_of(claim):
                found[normalise_name(name)].append(at[claim["message_id"]])
        return found

    @cached_property
    def _stored(self) -> frozenset[str]:
        return frozenset(name for name, entry in self._by_name.items() if entry.entity_id)

    def in_play(self) -> list[dict[str, Any]]:
        """IN_PLAY: the stored entities of the roster that claims of this window name."""
        used = {normalise_name(name) for claim in self.claims for name in _names_of(claim)}
        return [
            {
                "window": self._number,
                "canonical_name": name,
                "entity_id": entry.entity_id,
                "entity_type": entry.entity_type,
                **self._seen(name),
            }
            for name, entry in self._by_name.items()
            if entry.entity_id and name in used
        ]

    def learned(self) -> list[dict[str, Any]]:
        """NAMES for entities of the roster that a person of the window said; for the owner, that the owner said."""
        found = [
            (self._entries.get(each["entity"].strip().lstrip("#")), " ".join(each["name"].split()))
            for each in self._answer.get("names", ())
        ]
        return [
            {"scope": self._window.scope, "entity_id": entry.entity_id, "entity": entry.name, "name": name}
            for entry, name in found
            if entry is not None
            and self._is_given(name, by=entry.name if entry.role == "user" or entry.name == UNNAMED else "")
        ]

    def _is_given(self, name: str, by: str) -> bool:
        """Whether a person of the window (`by`: only this one) said the name."""
        texts = [
            turn.text for turn in self._window.turns if turn.role == "user" and turn.speaker == (by or turn.speaker)
        ]
        words = re.escape(normalise_name(name))
        return bool(words and re.search(rf"(?<!\w){words}(?!\w)", normalise_name(" ".join(texts))))

    def judgements(self) -> list[dict[str, Any]]:
        """JUDGEMENTS of the extractor; if it gave none and found neither claim nor topic, no message is durable."""
        judged = self._answer["messages"]
        if judged:
            return [
                {"message_id": self._rows[each["message"]], "durable": each["durable"], "reason": each["reason"]}
                for each in judged
                if each["message"] in self._rows
            ]
        topics = [line for line in self._answer.get("outline", ()) if line["message"] in self._rows]
        if self.claims or self.invalid or topics:
            return []
        return [{"message_id": row, "durable": False, "reason": ""} for row in dict.fromkeys(self._rows.values())]


def _names_of(claim: Mapping[str, Any]) -> list[str]:
    """All names in a claim: subject, object and whom else it mentions."""
    return [name for name in (claim["subject"], claim["object"], *claim.get("mentions", ())) if name]


def _speakers(turns: Sequence[Turn]) -> dict[int, str]:
    """The default subject of each turn: the speaker; for an assistant the person whom it answers."""
    people = [turn for turn in turns if turn.role != "assistant"]
    found = {}
    for turn in turns:
        before = [each for each in people if each.index <= turn.index]
        found[turn.index] = speaker_name(before[-1] if before else people[0] if people else turn)
    return found

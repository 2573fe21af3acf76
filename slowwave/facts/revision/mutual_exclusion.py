"""Which facts exclude each other, because their relation allows one object at a time? (S2-58b, S2-61, T9).

A true fact that is retired is hard to find again, so every doubt keeps both: one object may be another name of the
other, a part of it, or a more exact value; a statement may deny something, or name both. Whether a relation holds now
is for who states it to say: no rule reads that out of a sentence (DESIGN §11).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Literal

import polars as pl
from rapidfuzz.distance import Levenshtein

from slowwave.common.comparison.guards import polarity
from slowwave.common.lexicon.labels import DATED
from slowwave.common.lexicon.statement_words import FUNCTION_WORDS
from slowwave.common.text import normalise_name
from slowwave.entities.name_matching import name_parts

from .predicates import domain_of, forms_of
from .repetition import FactSources
from .revision_state import Fact

Kind = Literal["name", "value", "description"]

MIN_TYPO_CHARS = 5
SAME_SPELLING = 0.8
ARTICLES = tuple("the a an my our your his her their its el la los las mi un una der die das".split())
_ARTICLE = re.compile(rf"^(?:{'|'.join(ARTICLES)})\s+")
_OUTER = " \t\"'“”‘’`.,;:!?()"
WORD = re.compile(r"[^\W_]+(?:['’.&+#-][^\W_]+)*[+#]*")
"""A word with inner marks, and with the final marks of "C++" and "C#"."""
_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")
_LASTING = re.compile(r"(?:^|_)(?:born|birth\w*|died|death|native)(?:_|$)")
_KINDS_APART = frozenset({"person", "place", "organization"})


def telling(text: str) -> list[str]:
    """The words of a text as written, without function words."""
    return [word for word in WORD.findall(text) if word.lower() not in FUNCTION_WORDS]


def names_one(statement: str, names: frozenset[str]) -> bool:
    """Whether a statement has one of the names; "Elena's manager" describes whoever it is at the time."""
    lower = statement.lower()
    found = (name for name in names if name in lower and "'s " not in name)
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", lower) for name in found)


def is_lasting(relation: str) -> bool:
    """Whether a relation never changes in life, so one of two different objects is a mistake."""
    return bool(_LASTING.search(relation))


def _kind(object_text: str) -> Kind:
    """Capitalised words are names, numbers among other words are values; all else describes something."""
    words = telling(object_text)
    if any(map(str.isdigit, object_text)) and not any(word[:1].isupper() for word in words):
        return "value"
    is_named = words and all(word != word.lower() or any(map(str.isdigit, word)) for word in words)
    return "name" if is_named else "description"


@dataclass(frozen=True, slots=True)
class Forms:
    """The names of an object in normal form, and the type of its entity (empty if unknown)."""

    names: frozenset[str]
    type: str = ""


def exclude(a: Forms, b: Forms, kinds: tuple[Kind, Kind]) -> bool:
    """Whether two objects cannot both hold."""
    if kinds[0] != kinds[1] or kinds[0] == "description" or not a.names or not b.names:
        return False
    if {a.type, b.type} <= _KINDS_APART and a.type != b.type:
        return False
    pairs = [(one, other) for one in a.names for other in b.names]
    if kinds[0] == "value":
        return all(_are_other_values(one, other) for one, other in pairs)
    return not any(_may_be_one(one, other) for one, other in pairs)


def _may_be_one(a: str, b: str) -> bool:
    """Whether two names may mean one thing, or one is a part of the other."""
    one, other = (name_parts(name, is_person=False).words for name in (a, b))
    if not one or not other or _holds(one, other) or _holds(other, one) or _is_short_for(one, other):
        return True
    typo = min(len(a), len(b)) >= MIN_TYPO_CHARS and not any(map(str.isdigit, a + b))
    return typo and Levenshtein.normalized_similarity(a, b) > SAME_SPELLING


def _are_other_values(a: str, b: str) -> bool:
    """Whether two amounts or dates are the same but for their numbers."""
    one, other = (text.replace(",", "") for text in (a, b))
    return one != other and _NUMBER.sub("#", one) == _NUMBER.sub("#", other)


def _holds(longer: tuple[str, ...], shorter: tuple[str, ...]) -> bool:
    return set(shorter) <= set(longer) or "".join(shorter) == "".join(longer)


def _is_short_for(a: tuple[str, ...], b: tuple[str, ...]) -> bool:
    """Whether one is the initials of the other: MIT, NYC."""
    return any(
        len(short) == 1 and len(long) > 1 and short[0].replace(".", "") == "".join(word[0] for word in long)
        for short, long in ((a, b), (b, a))
    )


@lru_cache(maxsize=65_536)
def bare_name(words: str) -> str:
    """A name for comparison: normalised, without article and outer punctuation."""
    return _ARTICLE.sub("", normalise_name(words).strip(_OUTER))


def names_of(entities: pl.DataFrame, aliases: pl.DataFrame) -> Mapping[str, frozenset[str]]:
    """Every normalised name of each entity."""
    names: dict[str, set[str]] = defaultdict(set)
    own, others = entities.select("id", "canonical_name", "name"), aliases.select("entity_id", "alias_name")
    for entity, *forms in (*own.iter_rows(), *others.iter_rows()):
        names[entity].update(bare_name(form) for form in forms if form)
    return {entity: frozenset(forms) for entity, forms in names.items()}


_LIFELONG = "It never changes, so one of the two is wrong: both stay."
_PART = "One may be a part of the other, and nothing says that it changed: both stay."
_NEXT = "It may be the date of another such event, so both stay."
_HEARSAY = "Its subject said it, and somebody else says otherwise, so both stay."
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
        self._objects: dict[str, tuple[Kind, Forms]] = {}

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

    def doubt(self, winner: Fact, loser: Fact, later: Fact) -> str:
        """Why the winner may not end the loser; empty if it may. `later` is the later of the two."""
        until = max(winner["said_at"], loser["said_at"])
        if self._is_own(loser, until) and not self._is_own(winner, until):
            return _HEARSAY
        earlier = loser if later is winner else winner
        if is_lasting(later["predicate"]):
            return _LIFELONG
        if re.search(DATED, later["predicate"]):
            return _NEXT
        are_places = self._read(later)[1].type == self._read(earlier)[1].type == "place"
        may_be_part = are_places or domain_of(later["predicate"]) == "home"
        return _PART if may_be_part and not self._has_beginning(later, earlier) else ""

    def _is_own(self, fact: Fact, until: datetime) -> bool:
        """Whether the subject of the fact said it, until that time."""
        return bool(self.speakers_of(fact, until) & self._names.get(fact["subject_id"], frozenset()))

    def speakers_of(self, fact: Fact, until: datetime | None = None) -> frozenset[str]:
        """Normalised names of those who said the fact, until that time."""
        messages = self._messages(fact)
        said = (each for each in messages if until is None or self._sources.at.get(each, until) <= until)
        return frozenset(bare_name(self._sources.speakers.get(message, "")) for message in said) - {""}

    def _has_beginning(self, later: Fact, earlier: Fact) -> bool:
        """Whether the later fact says when it began, and that is later."""
        times = self._sources.times.get(later["id"], frozenset()) | {later["said_at"]}
        return later["valid_from"] not in times and later["valid_from"] > earlier["valid_from"]

    def _exclude(self, new: Fact, known: Fact) -> bool:
        """Whether the two cannot both hold: about the same time, from different messages, and no denial."""
        is_same = new["object_id"] and new["object_id"] == known["object_id"]
        if is_same or self._messages(new) & self._messages(known):
            return False
        if max(new["valid_from"], known["valid_from"]) > max(new["said_at"], known["said_at"]):
            return False  # a plan: it may come otherwise
        if new["valid_to"] and new["valid_to"] <= known["valid_from"]:
            return False
        if any(polarity(fact["statement"] or "") for fact in (new, known)):
            return False
        (kind, forms), (other_kind, other_forms) = self._read(new), self._read(known)
        if not exclude(forms, other_forms, (kind, other_kind)):
            return False
        return not (names_one(new["statement"], other_forms.names) or names_one(known["statement"], forms.names))

    def _messages(self, fact: Fact) -> frozenset[str]:
        return self._sources.messages.get(fact["id"], frozenset()) | ({fact["message_id"]} - {None})

    def _read(self, fact: Fact) -> tuple[Kind, Forms]:
        if fact["id"] not in self._objects:
            text, entity = fact["object_text"], fact["object_id"] or ""
            forms = Forms(self._names.get(entity, frozenset()) | {bare_name(text)} - {""}, self._types.get(entity, ""))
            self._objects[fact["id"]] = _kind(text), forms
        return self._objects[fact["id"]]


def single_valued(predicates: Iterable[str | None], learned: pl.DataFrame) -> frozenset[str]:
    """The canonical predicates among these that allow one object at a time (S2-61)."""
    forms = forms_of(predicates, learned)
    return frozenset(raw for raw, canonical, cardinality, _ in forms if cardinality == "1" and raw == canonical) - {
        *_NEVER
    }

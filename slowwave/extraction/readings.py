"""The people, names and facts that the rules have read from a window so far, in the form of a model's answer."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

from slowwave.lexicon.given_names import is_given_name
from slowwave.lexicon.verbs import DATED, is_verb
from slowwave.records import Turn, Window
from slowwave.text import cut_bytes, normalise_name, word_set

from . import dates, names, relations
from .clauses import PEOPLE
from .coreference import quote, retell
from .relations import LIKELY, Triple
from .reversals import Reversal
from .tense import has_verb

MAX_STATEMENT_BYTES = 2048
JOIN_CHARS = 60
PARSED_CHARS = 700
_ROLE_FACTOR = {"assistant": 0.85, "document": 0.95}
PERSONAL = word_set(
    """works_at has_role works_with joined lives_in moved_from grew_up_in prefers likes dislikes
    allergic_to not_allergic_to age drinks does_not_drink eats does_not_eat plays plays_with studies
    learns speaks member_of partner_of married wants_to plans_to considers is_from born_in reports_to
    manages teaches decided stays_with adopted bought sold visited met tolerates fears interested_in
    went_to"""
)
_CONFIRMABLE = PERSONAL - word_set("wants_to plans_to considers likes dislikes studies")
_CONFIRMABLE |= word_set("root_cause caused_by fixed_by")
_JOINED = re.compile(r"(?:,\s)?\b(?:and|but|then|or|before|after)\s(?:(?:then|later|also|now)\s)?|;\s")
_HIERARCHICAL = frozenset({"reports_to", "manages", "member_of", "leads", "has_role"})
_DENIES = re.compile(r"(?:does|do|did|is|was|has)_not_|not_")
FIRST_PERSON = re.compile(r"\b(?:I|i|my|My|me|we|We|our|Our|us)\b")
UNNAMED_TYPES = ("file", "concept")
"""A page and a topic are no person and no named thing: other names of their note name nobody."""
UNCONFIRMED = "nothing that a rule can confirm in an assistant's words"
SECOND_PERSON = re.compile(r"\byou(?:r|rs)?\b", re.IGNORECASE)


@dataclass
class MessageReading:
    """The facts and loose sentences of one message so far."""

    turn: Turn
    speaker: str
    facts: list[dict[str, Any]] = field(default_factory=list)
    loose: list[tuple[str, str, tuple[Reversal, ...]]] = field(default_factory=list)
    last_person: str = ""
    reason: str = ""
    join: int = JOIN_CHARS


@dataclass
class WindowReading:
    """The people, names and facts of one window so far."""

    window: Window
    speakers: frozenset[str]
    known: set[str]
    entities: dict[str, str] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)
    user_text: str = ""
    facts: list[dict[str, Any]] = field(default_factory=list)


def speaker_name(turn: Turn) -> str:
    """The stored name of a speaker; at least three characters (S2-19)."""
    name = " ".join(turn.speaker.split()) or turn.role
    if turn.role == "document" and len(name) >= names.MIN_NAME_CHARS:
        return name[:80]
    return name if names.is_usable(name) else f"speaker {name}"


def statement_of(message: MessageReading, words: str) -> str:
    """The words as a full sentence that names the speaker."""
    if message.turn.role == "document":
        return (
            f"{message.speaker}: {words}"
            if FIRST_PERSON.search(words) and not words.startswith(message.speaker)
            else words
        )
    if message.turn.role == "assistant":
        return words
    return quote(words, message.speaker) if relations.is_spanish(words) else retell(words, message.speaker)


_BEARS = re.compile(
    r"\b(?:the|[Tt]he|[Mm]y|[Oo]ur|[Hh]is|[Hh]er|[Tt]heir|\w+['’]s)\s(?:new\s|first\s|vice[\s-])?(?P<role>[a-z]+)"
    r"(?P<of>\sof\s[^,;.]{2,40}?)?\s(?:is|was|will\sbe)\s(?:now\s|still\s)?$"
)
"""What is said before the name of somebody with an office: "the treasurer is"."""
_OFFICES_OF = word_set("chair principal head")
"""Offices only of something: "my chair" is a seat, "the chair of the club" a person."""


def mention(reader: WindowReading, sentence: str, spotted: list[names.Name]) -> None:
    """Makes entities of the names in observations that are surely names: known, of several words, or met twice.

    Who bears a role and has a given name ("the treasurer is Hilde Brand") is a person.
    """
    for name in spotted:
        reader.seen[name.text] = reader.seen.get(name.text, 0) + 1
        bears = None if name.is_known else _BEARS.search(sentence, 0, name.start)
        has_role = bears and (bears["role"] in PEOPLE or (bears["of"] and bears["role"] in _OFFICES_OF))
        is_person = has_role and is_given_name(name.text.partition(" ")[0])
        kind = "person" if is_person else names.type_of(name.text, "")
        is_sure = name.is_known or " " in name.text or reader.seen[name.text] > 1 or kind == "person"
        if is_sure or name.text.lower() in reader.speakers:
            reader.entities[name.text] = reader.entities.get(name.text) or kind


def flush(reader: WindowReading, message: MessageReading) -> None:
    """Joins adjacent loose sentences to observations of at most about `join` characters."""
    group: list[str] = []
    owner = ""
    taken_back: tuple[Reversal, ...] = ()
    for sentence, about, reversals in [*message.loose, ("", "", ())]:
        is_full = sum(map(len, group)) + len(sentence) > message.join
        if group and (not sentence or about != owner or is_full or taken_back or reversals):
            _add_observation(reader, message, " ".join(_ended(part) for part in group), owner, taken_back)
            group = []
        owner, taken_back = about, reversals
        if sentence:
            group.append(sentence)
    message.loose.clear()


def _add_observation(
    reader: WindowReading, message: MessageReading, words: str, owner: str, taken_back: tuple[Reversal, ...] = ()
) -> None:
    statement = statement_of(message, words)
    if message.turn.role == "document" and owner == message.speaker and not statement.startswith(owner):
        statement = f"{owner}: {words}"
    others = [name for name in reader.speakers if name != message.turn.speaker]
    is_quoted = message.turn.role == "user" and statement.startswith(f"{message.speaker}: ")
    is_to_one = len(reader.speakers) == 2 and others and others[0].lower() != "assistant"
    if is_quoted and is_to_one and SECOND_PERSON.search(words):
        statement = quote(words, f"{message.speaker} to {others[0]}")
    relation = "noted" if message.turn.role == "document" else "said"
    of_speaker = note_type(message) if relation == "noted" else "person"
    kind = reader.entities.get(owner) or (of_speaker if owner == message.speaker else "")
    triple = Triple(relation, "", subject=owner, subject_type=kind, confidence=LIKELY)
    _append(reader, message, statement, triple, words, taken_back)


_HE_OR_SHE = re.compile(r"(?:\A|[.!?\n])\s*(?:He|She)\b")
# Of Markdown, or the path of headings that begins a passage.
_HEADINGS = re.compile(r"^#{1,6}\s.*$|^.+\n(?:=+|-{2,})$|\A[^\n]*[^\n.!?:…]\n\n", re.MULTILINE)
_ABOUT_NOTES = re.compile(
    r"\b(?:birthday|call|chat|dinner|gift|house|ideas?|interview|list|lunch|meeting|minutes|notes?|party|plan|project|review"
    r"|talk|trip|visit|wedding)s?\b",
    re.IGNORECASE,
)
_NAME_OF_PERSON = re.compile(
    r"[A-ZÀ-Þ][a-zà-þ'’-]+(?:\s(?:de|da|do|di|del|von|van|der|den))*(?:\s[A-ZÀ-Þ][\w'’-]+){1,2}"
)


def note_type(message: MessageReading) -> str:
    """The type of a note: a person where its title is a name, and its "he" or "she" can be nobody else; else a file.

    The title begins with a common given name, which also stands before the pronoun, headings apart, or nobody's does.
    """
    title, text = message.speaker, _HEADINGS.sub("", message.turn.text)
    given = title.partition(" ")[0]
    is_name = _NAME_OF_PERSON.fullmatch(title) and is_given_name(given) and not _ABOUT_NOTES.search(title)
    pronoun = _HE_OR_SHE.search(text) if is_name and names.type_of(title) == "concept" else None
    if not pronoun:
        return "file"
    before = text[: pronoun.start()]
    is_meant = re.search(rf"\b{given}\b", before) or not names.spot(before)
    return "person" if is_meant else "file"


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?", "…", ":", '"', "”")) else f"{sentence}."


def add(
    reader: WindowReading,
    message: MessageReading,
    statement: str,
    triple: Triple,
    taken_back: tuple[Reversal, ...] = (),
) -> None:
    if message.turn.role == "assistant" and (
        triple.relation not in _CONFIRMABLE or triple.subject.lower() not in reader.user_text
    ):
        message.reason = message.reason or UNCONFIRMED
        return
    if not triple.subject or not (names.is_usable(triple.subject) or triple.subject == message.speaker):
        triple = replace(triple, subject=message.speaker, subject_type="person")
    if not triple.object or normalise_name(triple.object) == normalise_name(triple.subject):
        return
    if triple.reason == "correction":
        triple = replace(triple, subject=_corrected_subject(reader, message, triple))
    kind = triple.subject_type or names.type_of(triple.subject, "") or ("person" if triple.relation in PERSONAL else "")
    title = message.speaker
    is_implied = triple.subject == title and title not in statement.removeprefix(f"{title}: ")
    if message.turn.role == "document" and is_implied:
        kind = note_type(message)  # "I decided" in a daily note makes no person of the day
    _append(reader, message, _ended(statement), replace(triple, subject_type=kind), statement, taken_back)


def add_accepted(reader: WindowReading, message: MessageReading, words: str, by: str) -> None:
    """Adds findings or proposals of an assistant that a person accepted, in the words of the assistant."""
    triple = Triple("accepted", "", subject=by, subject_type="person", edge_type="causal", confidence=LIKELY)
    _append(reader, message, quote(words, f"{by} accepted"), triple, words, ())


def _corrected_subject(reader: WindowReading, message: MessageReading, triple: Triple) -> str:
    """The subject of the corrected value, if the window has it under another name."""
    for fact in reversed(reader.facts + message.facts):
        if fact["object"] == triple.replaced and fact["relation"] == triple.relation:
            return str(fact["subject"])
    return triple.subject


def _append(
    reader: WindowReading,
    message: MessageReading,
    statement: str,
    triple: Triple,
    words: str,
    taken_back: tuple[Reversal, ...],
) -> None:
    reader.entities[triple.subject] = triple.subject_type or reader.entities.get(triple.subject, "")
    if triple.object_type and names.is_usable(triple.object):
        reader.entities[triple.object] = reader.entities.get(triple.object) or triple.object_type
    edge = triple.edge_type
    if edge == "semantic" and triple.relation in _HIERARCHICAL:
        edge = "hierarchical"
    elif edge == "semantic" and (triple.ended or triple.replaced or taken_back):
        edge = "temporal"
    over = [(triple.replaced, triple.action)] if triple.replaced else []
    objects = {triple.replaced} if _DENIES.match(triple.relation) else {triple.replaced, triple.object}
    own = {normalise_name(name) for name in objects}
    over += [(each.old, each.action) for each in taken_back if normalise_name(each.old) not in own]
    message.facts.append(
        {
            "message": message.turn.index,
            "kind": "relation" if triple.object else "observation",
            "subject": triple.subject,
            "relation": triple.relation,
            "object": triple.object or None,
            "statement": cut_bytes(statement, MAX_STATEMENT_BYTES),
            "edge_type": edge,
            "confidence": round(triple.confidence * _ROLE_FACTOR.get(message.turn.role, 1.0), 3),
            "temporal_hint": _hint(words, triple),
            "ended": triple.ended,
            "aspects": [],
            "resolves": [_directive(reader, triple, *each) for each in over],
        }
    )


def _hint(words: str, triple: Triple) -> str | None:
    """The words of time, unless they are part of the wish, the correction or the value."""
    if re.search(DATED, triple.relation):
        return f"on {triple.object}"
    if not triple.has_time:
        return None
    hint = dates.find_hint(words[:PARSED_CHARS])
    inside = triple.object if triple.reason == "temporal_change" else f"{triple.object} {triple.replaced}"
    between, found, _ = words.partition(triple.object or words)[2].partition(hint or words)
    if found and _is_of_another(between):
        return None
    return hint if hint and hint not in inside and hint.split(" ", 1)[-1] not in inside else None


def _is_of_another(between: str) -> bool:
    """Whether another verb stands between a thing and a time: "in Graz, and lived in Kiel until 2019"."""
    parts = (part.strip() for part in _JOINED.split(between)[1:])
    return any(part and (is_verb(part.split()[0].lower()) or has_verb(part)) for part in parts)


def _directive(reader: WindowReading, triple: Triple, old: str, action: str) -> dict[str, Any]:
    """The words that the fact makes obsolete (S1-21), with the index of the known fact if exactly one fits."""
    about, words = triple.subject.lower(), old.lower()
    fitting = [
        fact.index
        for fact in reader.window.known
        if words in fact.statement.lower() and about in fact.statement.lower()
    ]
    return {
        "known": fitting[0] if len(fitting) == 1 else None,
        "object": old,
        "action": action,
        "reason": triple.reason,
    }

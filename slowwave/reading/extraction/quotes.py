"""The extractor without a model: durable sentences are kept as they were said, with speaker, names and words of time.

No rule parses a sentence. A quotation has the speaker as its subject, or the note that it stands in; whom and what it
names are entities. The words of an assistant become no quotation: they are found as passages.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from slowwave.common.lexicon.labels import NOTED, SAID
from slowwave.common.lexicon.statement_words import PERSONS
from slowwave.common.records import Turn, Window
from slowwave.common.text import cut_bytes, sentences
from slowwave.reading.filters import durability

from . import names
from .dates import find_hint

MAX_STATEMENT_BYTES = 2048
JOIN_CHARS = 60
"""Neighbouring sentences up to this length together make one quotation; of a long message up to a tenth of it. So does
a message up to this length, with what alone would say nothing: "3000 is what all take. 7423"."""
_MOST_JOINED = 1500
_MOST_LEANING = 400
_OF_OTHERS = frozenset(word for word, who in PERSONS.items() if who in ("he", "she", "they"))
_HINT_CHARS = 700
_CONFIDENCE = {"user": 0.75, "document": 0.7125}
UNREAD = "the words of an assistant, found as a passage"
_LOWER_START = re.compile(r"(?<=[a-z]{2}[.!?])(?<!etc\.)(?<!vs\.)(?<!no\.)(?<!approx\.)\s+(?=[a-z])")
_MARKS = re.compile(r"[\"“”]")
_END = (".", "!", "?", "…", ":", '"', "”")


@dataclass
class _MetNames:
    """The names of a window: those that become entities with their types, and how often each was met."""

    speakers: frozenset[str]
    known: set[str]
    types: dict[str, str] = field(default_factory=dict)
    met: dict[str, int] = field(default_factory=dict)

    def read(self, sentence: str) -> None:
        """Keep the names that are surely names: of a tool, of several words, of a speaker, or met twice."""
        for name in names.spot(sentence, self.known):
            self.known.add(name.text.lower())
            self.met[name.text] = self.met.get(name.text, 0) + 1
            is_sure = name.is_known or " " in name.text or self.met[name.text] > 1
            if is_sure or name.text.lower() in self.speakers:
                is_person = names.is_given_name(name.text.partition(" ")[0]) and len(name.text.split()) <= 3
                self.types[name.text] = names.type_of(name.text, "person" if is_person else "")


def extract_window(window: Window) -> dict[str, Any]:
    """Judgements, entities and quotations of the window's new messages, in the form of a model's answer (S2-18)."""
    spoken = {turn.speaker.lower() for turn in window.turns if turn.role in ("user", "assistant")}
    speakers = frozenset(part for name in spoken if len(name) > 2 for part in (name, *name.split()))
    found = _MetNames(speakers, set(speakers))
    judgements: list[dict[str, Any]] = []
    facts: list[dict[str, Any]] = []
    for turn in window.turns:
        if turn.is_context:
            continue
        kept, refusal, text = _durable_sentences(turn)
        reason = "" if kept else refusal
        judgements.append({"message": turn.index, "durable": bool(kept), "reason": reason})
        for sentence in kept:
            found.read(sentence)
        is_short = turn.role == "user" and len(text) <= JOIN_CHARS
        texts = [text] if is_short and kept else kept
        facts += [_quotation(turn, words) for words in _joined(texts, len(turn.text))]
        if kept:
            title = speaker_name(turn)
            found.types[title] = note_type(title) if turn.role == "document" else "person"
    entities = [
        {"name": name, "type": kind or names.type_of(name), "summary": None} for name, kind in found.types.items()
    ]
    return {"messages": judgements, "entities": entities, "facts": facts}


def speaker_name(turn: Turn) -> str:
    """The stored name of a speaker; at least three characters (S2-19)."""
    name = " ".join(turn.speaker.split()) or turn.role
    if turn.role == "document" and len(name) >= names.MIN_NAME_CHARS:
        return name[:80]
    return name if names.is_usable(name) else f"speaker {name}"


def _durable_sentences(turn: Turn) -> tuple[list[str], str, str]:
    """The sentences of a message that are worth keeping, or why none is, and all of its prose."""
    prose = durability.prose_of(_without_headings(turn), turn.role)
    text = " ".join(prose.text.split())
    if prose.refused or turn.role == "assistant":
        return [], prose.refused or UNREAD, text
    kept: list[str] = []
    refusal = ""
    for sentence in (part for whole in sentences(prose.text) for part in _LOWER_START.split(whole)):
        whole = sentence.strip()[:MAX_STATEMENT_BYTES]
        bare = durability.without_question(whole) or whole
        reason = durability.refusal_of(bare)
        if reason:
            refusal = refusal or reason
        else:
            kept.append(bare)
    return kept, refusal, text


def _without_headings(turn: Turn) -> str:
    """The text of a passage without the line of headings above it."""
    first, gap, rest = turn.text.partition("\n\n")
    is_heading = turn.role == "document" and gap and "\n" not in first and not first.rstrip().endswith((".", "!", ":"))
    return rest if is_heading else turn.text


def _joined(kept: list[str], message: int) -> list[str]:
    """Neighbouring sentences as texts of about JOIN_CHARS characters; what leans on the one before stays with it."""
    most = max(JOIN_CHARS, min(message // 10, _MOST_JOINED) if message > _MOST_JOINED else 0)
    groups: list[list[str]] = []
    for sentence in kept:
        length = sum(map(len, groups[-1])) + len(sentence) if groups else 0
        if groups and length <= (_MOST_LEANING if _leans(sentence) else most):
            groups[-1].append(sentence)
        else:
            groups.append([sentence])
    return [" ".join(part if part.endswith(_END) else f"{part}." for part in group) for group in groups]


def _leans(sentence: str) -> bool:
    """Whether a sentence begins with a word for somebody in the one before it: "She sings alto"."""
    return sentence.split(maxsplit=1)[0].lower().partition("'")[0] in _OF_OTHERS


def _quotation(turn: Turn, words: str) -> dict[str, Any]:
    speaker = speaker_name(turn)
    is_document = turn.role == "document"
    statement = words if is_document and speaker in words else f"{speaker}: {words if is_document else _marked(words)}"
    return {
        "message": turn.index,
        "kind": "observation",
        "subject": speaker,
        "relation": NOTED if is_document else SAID,
        "object": None,
        "statement": cut_bytes(statement, MAX_STATEMENT_BYTES),
        "edge_type": "semantic",
        "confidence": _CONFIDENCE.get(turn.role, 0.75),
        "temporal_hint": find_hint(words[:_HINT_CHARS]) or None,
        "ended": False,
        "aspects": [],
        "resolves": [],
    }


def _marked(words: str) -> str:
    """The words in quotation marks; marks inside become single ones."""
    return '"{}"'.format(_MARKS.sub(lambda mark: {'"': "'", "“": "‘", "”": "’"}[mark.group()], words.strip()))


_NAME_OF_PERSON = re.compile(
    r"[A-ZÀ-Þ][a-zà-þ'’-]+(?:\s(?:de|da|do|di|del|von|van|der|den))*(?:\s[A-ZÀ-Þ][\w'’-]+){1,2}"
)


def note_type(title: str) -> str:
    """The type of a note: a person where its title is a name that begins with a common given name, else a file."""
    is_name = _NAME_OF_PERSON.fullmatch(title) and names.is_given_name(title.partition(" ")[0])
    return "person" if is_name and names.type_of(title) == "concept" else "file"

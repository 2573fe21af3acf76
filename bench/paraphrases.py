"""Paraphrases and contradictions of a sentence, seeded: what a memory hears again, and what only sounds like it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from random import Random
from types import MappingProxyType

_OPENINGS = (
    "For the record, ", "By the way, ", "As I said before, ", "Just to repeat: ", "Remember, ",
)  # fmt: skip
_ENDINGS = (", by the way.", ", as I said.", ", just so you know.", ", for the record.")
_CONTRACTIONS = (
    ("is not", "isn't"), ("are not", "aren't"), ("does not", "doesn't"), ("do not", "don't"), ("did not", "didn't"),
    ("was not", "wasn't"), ("cannot", "can't"), ("I am", "I'm"), ("we are", "we're"), ("it is", "it's"),
    ("I have", "I've"), ("we have", "we've"), ("I will", "I'll"), ("that is", "that's"),
)  # fmt: skip
_NUMBER = re.compile(r"\d+")
_FIRST_VERB = re.compile(
    r"\b(works|lives|uses|prefers|owns|took|was|is|are|has|had|likes|loves|went|started|bought|made|got|wants)\b"
)
_DENIED: Mapping[str, str] = MappingProxyType(
    {
        "works": "does not work", "lives": "does not live", "uses": "does not use", "prefers": "does not prefer",
        "owns": "does not own", "took": "never took", "was": "was not", "is": "is not", "are": "are not",
        "has": "does not have", "had": "never had", "likes": "does not like", "loves": "does not love",
        "went": "never went", "started": "never started", "bought": "never bought", "made": "never made",
        "got": "never got", "wants": "does not want",
    }
)  # fmt: skip


def respelt(text: str, random: Random) -> str:
    """The same words with another contraction, end or space; equal where there is nothing to change."""
    for long, short in random.sample(_CONTRACTIONS, len(_CONTRACTIONS)):
        if long in text:
            return text.replace(long, short, 1)
        if short in text:
            return text.replace(short, long, 1)
    return text.rstrip(".!") if text[-1:] in ".!" else f"{text}."


def framed(text: str, random: Random) -> str:
    """The same statement with an opening or an ending that says nothing."""
    if random.random() < 0.5:
        opening = random.choice(_OPENINGS)
        return opening + text
    return text.rstrip(".!?") + random.choice(_ENDINGS)


def renumbered(text: str, random: Random) -> str | None:
    """Another number in its place; None where it has none."""
    found = list(_NUMBER.finditer(text))
    if not found:
        return None
    at = random.choice(found)
    other = str(int(at[0]) + random.randint(1, 9) * 10 ** random.randint(0, max(len(at[0]) - 1, 0)))
    return text[: at.start()] + other + text[at.end() :]


def denied(text: str) -> str | None:
    """Its denial; None where no plain verb is found."""
    changed = _FIRST_VERB.sub(lambda verb: _DENIED[verb[0]], text, count=1)
    return changed if changed != text else None

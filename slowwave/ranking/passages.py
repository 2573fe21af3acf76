"""Passages: what a message says about a question, and whether facts say it already (recall falls back on messages).

A fact is one thing that a message says; a passage is the piece of the message itself, for what no fact holds: what an
assistant advised, a number in passing, the words that were used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from slowwave.ranking.ranking import prose, stems, word_overlaps

WHOLE = 300
"""Characters up to which a message is shown whole; of a longer one the sentences around the best are."""
HELD = 0.8
"""Share of a passage's content words from which on facts that are shown say it already."""
LOOKED_AT = 20_000
"""Characters of a message in which its best piece is looked for."""
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_WORD = re.compile(r"\w+")


def passage_of(question: str, content: str, limit: int = WHOLE) -> str:
    """The piece of a message that says most about a question: whole sentences of at most `limit` characters.

    The sentence that shares most words with the question, then those before and after it, in turn, as long as they fit;
    the beginning where no sentence shares a word. A single sentence that is longer is cut from a little before the
    first word that it shares, with an ellipsis.
    """
    text = prose(content[:LOOKED_AT]).strip()
    if len(text) <= limit:
        return " ".join(text.split())
    sentences = [" ".join(part.split()) for part in _SENTENCE.split(text) if part.strip()]
    overlaps = word_overlaps(question, sentences)
    best = max(range(len(sentences)), key=lambda place: (overlaps[place], -place))
    first, last, size = best, best + 1, len(sentences[best])
    is_growing = True
    while is_growing:
        is_growing = False
        for place in (last, first - 1):
            if 0 <= place < len(sentences) and size + 1 + len(sentences[place]) <= limit:
                size += 1 + len(sentences[place])
                first, last = min(first, place), max(last, place + 1)
                is_growing = True
    piece = " ".join(sentences[first:last])
    return piece if len(piece) <= limit else _cut(piece, stems(question), limit)


def _cut(sentence: str, words: frozenset[str], limit: int) -> str:
    shared = (match.start() for match in _WORD.finditer(sentence) if stems(match.group()) & words)
    start = max(min(next(shared, 0) - limit // 4, len(sentence) - limit), 0)
    start = sentence.find(" ", start) + 1 if start and " " in sentence[start : start + limit // 4] else start
    piece = sentence[start : start + limit - 2]
    piece = piece.rsplit(" ", 1)[0] if " " in piece[limit // 2 :] and start + limit - 2 < len(sentence) else piece
    return ("…" if start else "") + piece + ("…" if start + len(piece) < len(sentence) else "")


def only_asks(passage: str) -> bool:
    """Whether more than half of a passage are questions: who asks says little."""
    sentences = [part.strip() for part in _SENTENCE.split(passage) if part.strip()]
    questions = [sentence for sentence in sentences if sentence.endswith("?")]
    return 2 * len(questions) > len(sentences)


def is_said(passage: str, statements: Iterable[str], share: float = HELD) -> bool:
    """Whether these statements, of the same message, say at least `share` of the passage's content words."""
    content = stems(passage)
    said = {stem for statement in statements for stem in stems(statement)}
    return len(content & said) >= share * len(content)


def in_one_order(facts: Sequence[float], passages: Sequence[float]) -> list[tuple[bool, int]]:
    """Facts and passages by their scores, best first: (whether it is a passage, its place); of equals facts first."""
    rows = [(-score, False, place) for place, score in enumerate(facts)]
    rows += [(-score, True, place) for place, score in enumerate(passages)]
    return [(is_passage, place) for _, is_passage, place in sorted(rows)]

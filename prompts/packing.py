"""Packing: as many questions into one prompt as its limit in bytes, and the room for its answer, hold.

Rows: S2-48, S4-23.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from slowwave.records import CommunityQuestion, SessionQuestion

from .rendering import as_data, render_communities, render_sessions

CUT = "..."

Pack = tuple[CommunityQuestion, ...]
Question = TypeVar("Question", CommunityQuestion, SessionQuestion)


def pack_communities(questions: Sequence[CommunityQuestion], max_bytes: int, most: int) -> Iterator[Pack]:
    """The questions in their order, at most `most` to a pack, whose prompt has at most `max_bytes` of UTF-8.

    They are numbered from 1 in each pack. One that is longer by itself is cut; what was cut ends in "...". A limit that
    has no room even for that is as the smallest that has.
    """
    return _packed(questions, max_bytes, most, _bytes, _cut)


def pack_sessions(
    questions: Sequence[SessionQuestion], max_bytes: int, most: int
) -> Iterator[tuple[SessionQuestion, ...]]:
    """As `pack_communities`; of a conversation that is too long the oldest turns are left out."""
    return _packed(questions, max_bytes, most, _session_bytes, _cut_session)


def _packed(
    questions: Sequence[Question],
    max_bytes: int,
    most: int,
    bytes_of: Callable[[tuple[Question, ...]], int],
    cut: Callable[[Question, int], Question],
) -> Iterator[tuple[Question, ...]]:
    frame = bytes_of(())
    pack: list[Question] = []
    room = max_bytes - frame
    for each in questions:
        question = replace(each, number=len(pack) + 1)
        size = bytes_of((question,)) - frame
        if pack and (size > room or len(pack) >= most):
            yield tuple(pack)
            pack, room, question = [], max_bytes - frame, replace(each, number=1)
            size = bytes_of((question,)) - frame
        if size > room:
            question, size = cut(question, max_bytes), room
        pack.append(question)
        room -= size
    if pack:
        yield tuple(pack)


def _cut(question: CommunityQuestion, max_bytes: int) -> CommunityQuestion:
    """The question with as many of its names and facts as fit; names have half of the room, or what facts leave."""
    room = max_bytes - _bytes((replace(question, names=(), facts=()),))
    names = _first(question.names, max(room // 2, room - sum(map(_line, question.facts))))
    return replace(question, names=names, facts=_first(question.facts, room - sum(map(_line, names))))


def _first(texts: Sequence[str], room: int) -> tuple[str, ...]:
    """The first texts, each on its line, that fit into so many bytes; the first that does not is cut, and the last."""
    kept: list[str] = []
    for n, text in enumerate(texts, 1):
        size = _line(text)
        if size + (_line(CUT) if n < len(texts) else 0) > room:
            chars = bisect_right(range(len(text)), room, key=lambda length: _line(text[:length] + CUT)) - 1
            return (*kept, text[: max(chars, 0)] + CUT)
        kept.append(text)
        room -= size
    return tuple(kept)


def _line(text: str) -> int:
    return len(as_data(text).encode()) + 1


def _bytes(pack: Pack) -> int:
    return len(render_communities(pack).text.encode())


def _cut_session(question: SessionQuestion, max_bytes: int) -> SessionQuestion:
    """The question with as many of its newest turns as fit; of the newest at least as much as fits."""
    total = len(question.turns)

    def last(count: int) -> SessionQuestion:
        left_out = question.left_out + total - count
        return replace(question, turns=question.turns[total - count :], left_out=left_out)

    def begun(chars: int) -> SessionQuestion:
        newest = question.turns[-1]
        return replace(last(1), turns=(replace(newest, text=newest.text[:chars] + CUT),))

    count = bisect_right(range(total), max_bytes, key=lambda n: _session_bytes((last(n),))) - 1
    if count > 0:
        return last(count)
    length = len(question.turns[-1].text)
    return begun(max(0, bisect_right(range(length), max_bytes, key=lambda n: _session_bytes((begun(n),))) - 1))


def _session_bytes(pack: tuple[SessionQuestion, ...]) -> int:
    return len(render_sessions(pack).text.encode())

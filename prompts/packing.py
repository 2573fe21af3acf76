"""Packing: as many communities into one prompt as its limit in bytes holds (S2-48)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from prompts.rendering import render_communities
from slowwave.records import CommunityQuestion

CUT = "..."

Pack = tuple[CommunityQuestion, ...]


def pack_communities(questions: Sequence[CommunityQuestion], max_bytes: int) -> Iterator[Pack]:
    """The questions in their order, in packs whose prompt has at most `max_bytes` of UTF-8, numbered from 1 in each.

    One that is longer by itself is cut and ends in "...". A limit below that of an empty question is as that one.
    """
    frame = _bytes(())
    pack: list[CommunityQuestion] = []
    room = max_bytes - frame
    for each in questions:
        question = replace(each, number=len(pack) + 1)
        size = _bytes((question,)) - frame
        if size > room and pack:
            yield tuple(pack)
            pack, room, question = [], max_bytes - frame, replace(each, number=1)
        if size > room:
            question, size = _cut(question, max_bytes), room
        pack.append(question)
        room -= size
    if pack:
        yield tuple(pack)


def _cut(question: CommunityQuestion, max_bytes: int) -> CommunityQuestion:
    """The question with as many characters of its names and facts, in this order, as fit with the mark of a cut."""
    least, most = 0, sum(map(len, (*question.names, *question.facts)))
    while least < most:
        chars = (least + most + 1) // 2
        fits = _bytes((_shortened(question, chars),)) <= max_bytes
        least, most = (chars, most) if fits else (least, chars - 1)
    return _shortened(question, least)


def _shortened(question: CommunityQuestion, chars: int) -> CommunityQuestion:
    names, left = _first(question.names, chars)
    facts, _ = _first(question.facts, left)
    if facts:
        return replace(question, names=names, facts=(*facts[:-1], facts[-1] + CUT))
    return replace(question, names=(*names[:-1], names[-1] + CUT) if names else (CUT,), facts=())


def _first(texts: Sequence[str], chars: int) -> tuple[tuple[str, ...], int]:
    """The first texts, the last of them cut, up to so many characters; and how many characters are left."""
    kept: list[str] = []
    for text in texts:
        if chars <= 0:
            break
        kept.append(text[:chars])
        chars -= len(kept[-1])
    return tuple(kept), chars


def _bytes(pack: Pack) -> int:
    return len(render_communities(pack).text.encode())

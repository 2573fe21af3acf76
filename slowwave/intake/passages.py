"""Documents → passages: sections and paragraphs of about 500 tokens, with an overlap (S3-01)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal

TOKENS_PER_WORD = 1.3
CHARS_PER_TOKEN = 6

_MAX_BLOCK = 20_000
_MAX_TITLE = 120
_FRONT_MATTER_LINES = 50
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*$")
_FIELD = re.compile(r"^(title|date|created):[ \t]*(.+?)[ \t]*$", re.MULTILINE)
_BREAKS = (re.compile(r"[.!?…][\"'”’)\]]*\s+|\n+"), re.compile(r"\s+"))


@dataclass(frozen=True, slots=True)
class Block:
    """A heading with its level, a fenced piece of code with what its fence says, or a paragraph."""

    kind: Literal["heading", "code", "prose"]
    text: str
    level: int = 0
    info: str = ""


def count_tokens(text: str) -> int:
    """Tokens of a text, estimated: 1.3 per word, and at least one per six characters where words are long."""
    return max(math.ceil(TOKENS_PER_WORD * len(text.split())), math.ceil(len(text) / CHARS_PER_TOKEN))


def document_head(head: str, *, is_markdown: bool, fallback: str) -> tuple[str, str]:
    """Title and date (as written, often empty) from front matter and first heading; `fallback` for the title."""
    if not is_markdown:
        return fallback, ""
    matter, rest = _split_front_matter(head.splitlines())
    fields = {key: value.strip("\"'") for key, value in _FIELD.findall("\n".join(matter))}
    headings = (block.text for block in blocks(rest, is_markdown=True) if block.kind == "heading")
    title = fields.get("title") or next(headings, "") or fallback
    return title[:_MAX_TITLE], fields.get("date") or fields.get("created") or ""


def passages(lines: Iterable[str], *, is_markdown: bool, tokens: int = 500, overlap: int = 50) -> Iterator[str]:
    """Passages of at most `tokens`: a heading starts a new one and its path stands in the first line.

    Neighbours under one heading share up to `overlap` tokens of whole sentences. Fenced code stays in, each piece
    within fences of its own, so that whoever leaves code out leaves all of it out.
    """
    path: list[Block] = []
    held: list[str] = []
    overlap = min(overlap, tokens // 2)
    heading, is_fresh = "", False
    for block in blocks(_body(lines, is_markdown), is_markdown=is_markdown):
        if block.kind == "heading":
            if is_fresh:
                yield _passage(heading, held)
            held, is_fresh = [], False
            path = [*(above for above in path if above.level < block.level), block]
            heading = _heading_line(path, tokens // 4)
            continue
        for piece in _pieces(block, tokens - overlap - count_tokens(heading) - 1):
            if held and count_tokens(_passage(heading, [*held, piece])) > tokens:
                if is_fresh:
                    yield _passage(heading, held)
                tail = _tail(held[-1], overlap)
                held = [tail] if is_fresh and tail and count_tokens(_passage(heading, [tail, piece])) <= tokens else []
            held.append(piece)
            is_fresh = True
    if is_fresh:
        yield _passage(heading, held)


def blocks(lines: Iterable[str], *, is_markdown: bool) -> Iterator[Block]:
    """Headings, fenced code and paragraphs in order; a very long one comes in several."""
    held: list[str] = []
    fence, info, size = "", "", 0
    for raw in lines:
        line = raw.rstrip("\r\n")
        size += len(line) + 1
        opening = _FENCE.match(line)
        if fence:
            closes = opening and opening[1].startswith(fence) and not opening[2].strip()
            if not closes:
                held.append(line)
            if closes or size > _MAX_BLOCK:
                yield from _code(held, info)
                held, size, fence = [], 0, "" if closes else fence
            continue
        underlined = is_markdown and len(held) == 1 and _UNDERLINE.match(line)
        heading = _HEADING.match(line) if is_markdown and line.lstrip().startswith("#") else None
        if underlined:
            yield Block("heading", _title(held[0]), 1 if underlined[1][0] == "=" else 2)
            held, size = [], 0
            continue
        if opening or heading or not line.strip():
            yield from _prose(held)
            held, size = [], 0
        if opening:
            fence, info = opening[1], opening[2].strip()[:40]
        elif heading:
            yield Block("heading", _title(heading[2] or ""), len(heading[1]))
        elif line.strip():
            held.append(line)
        if size > _MAX_BLOCK:
            yield from _prose(held)
            held, size = [], 0
    yield from _code(held, info) if fence else _prose(held)


def _prose(held: list[str]) -> Iterator[Block]:
    if held:
        yield Block("prose", "\n".join(held).strip())


def _code(held: list[str], info: str) -> Iterator[Block]:
    if "".join(held).strip():
        yield Block("code", "\n".join(held), info=info)


def _title(raw: str) -> str:
    return " ".join(raw.split())[:_MAX_TITLE]


def _split_front_matter(lines: list[str]) -> tuple[list[str], list[str]]:
    if lines and lines[0].rstrip() == "---":
        for number, line in enumerate(lines[1 : _FRONT_MATTER_LINES + 1], 1):
            if line.rstrip() in ("---", "..."):
                return lines[1:number], lines[number + 1 :]
    return [], lines


def _body(lines: Iterable[str], is_markdown: bool) -> Iterator[str]:
    """The lines without front matter."""
    rest = iter(lines)
    if is_markdown:
        opening = list(islice(rest, _FRONT_MATTER_LINES + 1))
        yield from _split_front_matter(opening)[1]
    yield from rest


def _heading_line(path: list[Block], limit: int) -> str:
    """The headings above a passage, outermost first; outer ones give way when they are too long together."""
    titles = [block.text for block in path if block.text]
    while len(titles) > 1 and count_tokens(" > ".join(titles)) > limit:
        titles = titles[1:]
    line = " > ".join(titles)
    return line if count_tokens(line) <= limit else ""


def _passage(heading: str, held: list[str]) -> str:
    return "\n\n".join(([heading] if heading else []) + held)


def _pieces(block: Block, room: int) -> Iterator[str]:
    if block.kind == "prose":
        yield from split_text(block.text, room)
        return
    opening, closing = f"```{block.info}\n", "\n```"
    for piece in split_text(block.text, max(room - count_tokens(opening + closing) - 1, 1), keep_lines=True):
        yield f"{opening}{piece}{closing}"


def split_text(text: str, room: int, *, keep_lines: bool = False) -> Iterator[str]:
    """Pieces of at most `room` tokens, cut after sentences and lines, else between words, else anywhere."""
    yield from _split(text, max(room, 1), 0, keep_lines)


def _split(text: str, room: int, level: int, keep_lines: bool) -> Iterator[str]:
    if count_tokens(text) <= room:
        if text.strip():
            yield text.strip("\n") if keep_lines else text.strip()
        return
    if level == len(_BREAKS):
        size = max(room * CHARS_PER_TOKEN, 1)
        yield from (text[start : start + size] for start in range(0, len(text), size))
        return
    start = end = 0
    for stop in (*(found.end() for found in _BREAKS[level].finditer(text)), len(text)):
        if end > start and count_tokens(text[start:stop]) > room:
            yield from _split(text[start:end], room, level + 1, keep_lines)
            start = end
        end = stop
    yield from _split(text[start:end], room, level + 1, keep_lines)


def _tail(text: str, limit: int) -> str:
    """The last whole sentences within `limit` tokens, else the last words; nothing of code."""
    if text.endswith("```") or limit <= 0:
        return ""
    if count_tokens(text) <= limit:
        return text
    for pattern in _BREAKS:
        for found in pattern.finditer(text):
            if count_tokens(text[found.end() :]) <= limit:
                return text[found.end() :].strip()
    return ""

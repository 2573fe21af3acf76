"""Passages of documents: sections and paragraphs of about 500 tokens, with an overlap (S3-01)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal

import polars as pl

from slowwave.common.frames import Schema
from slowwave.common.text import digest, row_id
from slowwave.reading.filters.injection import injection_flags

TOKENS_PER_WORD = 1.3
CHARS_PER_TOKEN = 6

_MAX_BLOCK = 20_000
_MAX_TITLE = 120
_FRONT_MATTER_LINES = 50
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*$")
_FIELD = re.compile(r"^(title|date|created):[ \t]*(.+?)[ \t]*$", re.MULTILINE)
_NOTE_LINK = re.compile(
    r"(?P<code>`+[^`]*`+)|(?P<embeds>!)?\[\[(?P<note>[^\s\[\]|][^\[\]|\n]*)(?:\|(?P<words>[^\[\]\n]+))?\]\]"
)
_BREAKS = (re.compile(r"[.!?…][\"'”’)\]]*\s+|\n+"), re.compile(r"\s+"))


@dataclass(frozen=True, slots=True)
class DocumentBlock:
    """A heading with its level, fenced code with the words on its fence (`info`), or a paragraph."""

    kind: Literal["heading", "code", "prose"]
    text: str
    level: int = 0
    info: str = ""


def count_tokens(text: str) -> int:
    """Estimated tokens of a text: 1.3 per word, and at least one per six characters."""
    return max(math.ceil(TOKENS_PER_WORD * len(text.split())), math.ceil(len(text) / CHARS_PER_TOKEN))


def document_head(head: str, *, is_markdown: bool, fallback: str) -> tuple[str, str]:
    """(title, date as written or empty) from front matter and first heading; `fallback` is a title."""
    if not is_markdown:
        return fallback, ""
    matter, rest = _split_front_matter(head.splitlines())
    fields = {key: value.strip("\"'") for key, value in _FIELD.findall("\n".join(matter))}
    headings = (_without_links(block.text) for block in blocks(rest, is_markdown=True) if block.kind == "heading")
    title = fields.get("title") or next(headings, "") or fallback
    return title[:_MAX_TITLE], fields.get("date") or fields.get("created") or ""


def passages(lines: Iterable[str], *, is_markdown: bool, tokens: int = 500, overlap: int = 50) -> Iterator[str]:
    """Passages of at most `tokens`: a heading starts a new passage, and its path is the first line.

    Neighbours under one heading share up to `overlap` tokens of whole sentences. Each piece of fenced code has its own
    fences, so that a later step can leave all code out.
    """
    path: list[DocumentBlock] = []
    texts: list[str] = []
    overlap = min(overlap, tokens // 2)
    heading, is_fresh = "", False
    for block in blocks(_body(lines, is_markdown), is_markdown=is_markdown):
        if is_markdown and block.kind != "code":
            block = replace(block, text=_without_links(block.text))
        if block.kind == "heading":
            if is_fresh:
                yield _passage(heading, texts)
            texts, is_fresh = [], False
            path = [*(above for above in path if above.level < block.level), block]
            heading = _heading_line(path, tokens // 4)
            continue
        for piece in _pieces(block, tokens - overlap - count_tokens(heading) - 1):
            if texts and count_tokens(_passage(heading, [*texts, piece])) > tokens:
                if is_fresh:
                    yield _passage(heading, texts)
                tail = _tail(texts[-1], overlap)
                texts = [tail] if is_fresh and tail and count_tokens(_passage(heading, [tail, piece])) <= tokens else []
            texts.append(piece)
            is_fresh = True
    if is_fresh:
        yield _passage(heading, texts)


def blocks(lines: Iterable[str], *, is_markdown: bool) -> Iterator[DocumentBlock]:
    """Headings, fenced code and paragraphs in order; a very long one is split."""
    kept: list[str] = []
    fence, info, size = "", "", 0
    for raw in lines:
        line = raw.rstrip("\r\n")
        size += len(line) + 1
        opening = _FENCE.match(line)
        if fence:
            closes = opening and opening[1].startswith(fence) and not opening[2].strip()
            if not closes:
                kept.append(line)
            if closes or size > _MAX_BLOCK:
                yield from _code(kept, info)
                kept, size, fence = [], 0, "" if closes else fence
            continue
        underlined = is_markdown and len(kept) == 1 and _UNDERLINE.match(line)
        heading = _HEADING.match(line) if is_markdown and line.lstrip().startswith("#") else None
        if underlined:
            yield DocumentBlock("heading", _title(kept[0]), 1 if underlined[1][0] == "=" else 2)
            kept, size = [], 0
            continue
        if opening or heading or not line.strip():
            yield from _prose(kept)
            kept, size = [], 0
        if opening:
            fence, info = opening[1], opening[2].strip()[:40]
        elif heading:
            yield DocumentBlock("heading", _title(heading[2] or ""), len(heading[1]))
        elif line.strip():
            kept.append(line)
        if size > _MAX_BLOCK:
            yield from _prose(kept)
            kept, size = [], 0
    yield from _code(kept, info) if fence else _prose(kept)


def _prose(kept: list[str]) -> Iterator[DocumentBlock]:
    if kept:
        yield DocumentBlock("prose", "\n".join(kept).strip())


def _without_links(written: str) -> str:
    """The text with the shown words in place of links between notes (`[[Note|words]]`), and without embedded files.

    Code between backticks stays as it is.
    """
    return _NOTE_LINK.sub(_shown_of_link, written) if "[[" in written else written


def _shown_of_link(found: re.Match[str]) -> str:
    if found["code"] or found["embeds"]:
        return found["code"] or ""
    note = found["note"].partition("#")[0] or found["note"].strip("#^")
    return (found["words"] or note.rpartition("/")[2]).strip()


def _code(kept: list[str], info: str) -> Iterator[DocumentBlock]:
    if "".join(kept).strip():
        yield DocumentBlock("code", "\n".join(kept), info=info)


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


def _heading_line(path: list[DocumentBlock], limit: int) -> str:
    """The headings above a passage, outermost first; outer ones are dropped over the limit of tokens."""
    titles = [block.text for block in path if block.text]
    while len(titles) > 1 and count_tokens(" > ".join(titles)) > limit:
        titles = titles[1:]
    line = " > ".join(titles)
    return line if count_tokens(line) <= limit else ""


def _passage(heading: str, texts: list[str]) -> str:
    return "\n\n".join(([heading] if heading else []) + texts)


def _pieces(block: DocumentBlock, room: int) -> Iterator[str]:
    if block.kind == "prose":
        yield from split_text(block.text, room)
        return
    opening, closing = f"```{block.info}\n", "\n```"
    for piece in split_text(block.text, max(room - count_tokens(opening + closing) - 1, 1), keep_lines=True):
        yield f"{opening}{piece}{closing}"


def split_text(text: str, room: int, *, keep_lines: bool = False, level: int = 0) -> Iterator[str]:
    """Pieces of at most `room` tokens, cut after sentences and lines, else between words (level 1), else anywhere."""
    room = max(room, 1)
    if count_tokens(text) <= room:
        if text.strip():
            yield text.strip("\n") if keep_lines else text.strip()
        return
    if level == len(_BREAKS):
        size = room * CHARS_PER_TOKEN
        yield from (text[start : start + size] for start in range(0, len(text), size))
        return
    start = end = 0
    for stop in (*(found.end() for found in _BREAKS[level].finditer(text)), len(text)):
        if end > start and count_tokens(text[start:stop]) > room:
            yield from split_text(text[start:end], room, keep_lines=keep_lines, level=level + 1)
            start = end
        end = stop
    yield from split_text(text[start:end], room, keep_lines=keep_lines, level=level + 1)


def _tail(text: str, limit: int) -> str:
    """The last whole sentences within `limit` tokens, else the last words; empty for code."""
    if text.endswith("```") or limit <= 0:
        return ""
    if count_tokens(text) <= limit:
        return text
    for pattern in _BREAKS:
        for found in pattern.finditer(text):
            if count_tokens(text[found.end() :]) <= limit:
                return text[found.end() :].strip()
    return ""


# Artifacts: whole documents (S1-15).


UNTITLED = "untitled"
LEFT_OUT = "[left out: it gives its reader orders]"

_TIME = pl.Datetime("us", "UTC")
DRAFTS: Schema = {
    **dict.fromkeys(("id", "title", "type", "content", "content_hash", "summary", "scope"), pl.String()),
    **dict.fromkeys(("conversation_id", "source_id", "message_id"), pl.String()),
    "made_at": _TIME,
}

_PARAGRAPH_END = re.compile(r"(\n[ \t]*\n\s*)")
_NOT_PROSE = re.compile(r"\s*(?:[-*+•|>]|\d+[.)]\s|<|!\[|\[[^\]]*\]:)")
_SUMMARY_CHARS = 300


def document(title: str, content: str, type: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """The draft of a whole document: `row`, its first passage, has scope, conversation_id, source_id, occurred_at."""
    placed = {name: row[name] for name in ("scope", "conversation_id", "source_id")}
    summary = summary_of(content, is_markdown=type == "markdown")
    made = {"title": title or UNTITLED, "type": type, "content": content, "summary": summary}
    return {**made, **placed, "message_id": None, "made_at": row["occurred_at"]}


def without_orders(content: str) -> str:
    """The text with a mark in place of each paragraph that gives its reader orders."""
    parts = _PARAGRAPH_END.split(content)
    flags = injection_flags(pl.Series(parts, dtype=pl.String))
    return "".join(LEFT_OUT if flag else part for part, flag in zip(parts, flags, strict=True))


def drafts(found: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """A frame of DRAFTS; equal texts in one scope have one id."""
    hashes = [each.get("content_hash") or digest(each["content"], size=16) for each in found]
    rows = [
        {**each, "content_hash": mark, "id": row_id("art", each["scope"], mark)}
        for each, mark in zip(found, hashes, strict=True)
    ]
    return pl.DataFrame(rows, schema=dict(DRAFTS))


def embedded_text(draft: Mapping[str, Any]) -> str:
    """The text that is embedded for an artifact: title, summary and the first 2,000 characters (S1-15)."""
    return "\n".join(part for part in (draft["title"], draft["summary"], draft["content"][:2000]) if part)


def summary_of(content: str, *, is_markdown: bool) -> str:
    """The first paragraph of prose, at most 300 characters of it; empty without prose."""
    found = blocks(_body(content.splitlines(), is_markdown), is_markdown=is_markdown)
    prose = (block.text for block in found if block.kind == "prose")
    opening = " ".join(next((text for text in prose if not _NOT_PROSE.match(text)), "").split())
    return opening if len(opening) <= _SUMMARY_CHARS else f"{opening[: _SUMMARY_CHARS - 1]}…"

"""What in a text stands for itself: whole documents, and code or quotations that were pasted into a message (S1-15)."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple

import polars as pl

from slowwave.frames import Schema
from slowwave.intake.injection import injection_flags
from slowwave.intake.passages import blocks
from slowwave.text import cut_bytes, digest, row_id, sentences

PASTING_ROLES = ("user", "assistant")  # of what tools and systems say only the beginning is kept
UNTITLED = "untitled"
LEFT_OUT = "[left out: it gives its reader orders]"

_TIME = pl.Datetime("us", "UTC")
DRAFTS: Schema = {
    **dict.fromkeys(("id", "title", "type", "content", "content_hash", "summary", "scope"), pl.String()),
    **dict.fromkeys(("conversation_id", "source_id", "message_id"), pl.String()),
    "made_at": _TIME,
}

_HOLDS_PASTE = r"(?m)^[ \t]*(?:```|~~~|>)"
_FENCED = re.compile(
    r"^[ \t]*(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>[^`\n]*)\n(?P<body>.*?)(?:^[ \t]*(?P=fence)[`~]*[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
_QUOTED = re.compile(r"(?:^[ \t]*>[^\n]*(?:\n|\Z))+", re.MULTILINE)
_MARK = re.compile(r"^[ \t]*>[ \t]?", re.MULTILINE)
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n.*?\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_PARAGRAPH_END = re.compile(r"(\n[ \t]*\n\s*)")
_NOT_PROSE = re.compile(r"\s*(?:[-*+•|>]|\d+[.)]\s|<|!\[|\[[^\]]*\]:)")
_DATA = "json jsonl json5 ndjson yaml yml toml ini cfg conf csv tsv xml env properties lock plist geojson"
_CODE = (
    "py pyi js mjs cjs ts tsx jsx java kt go rs c h cc cpp hpp cs rb php swift scala clj ex exs erl hs ml sh bash zsh "
    "fish ps1 bat sql r jl lua pl dart vue svelte html htm css scss sass less tf hcl proto graphql gradle cmake ipynb"
)
_TYPES: Mapping[str, str] = {
    **dict.fromkeys(_DATA.split(), "data"),
    **dict.fromkeys(_CODE.split(), "code"),
    **dict.fromkeys(("md", "mdx", "mkd", "markdown"), "markdown"),
    **dict.fromkeys(("txt", "text", "plain", "plaintext", "log", "output", "console", "rst", "adoc", "org"), "text"),
}
_NAMED_FILE = re.compile(
    rf"(?<![\w@])(?:[\w.-]+/)*(?:[\w-]+(?:\.[\w-]+)*\.(?:{'|'.join(_TYPES)})|Dockerfile|Makefile)(?![\w/-])"
)
_DEFINED = re.compile(
    r"^[ \t]*(?:(?:export|public|private|abstract|final|async|default|pub|static)\s+)*"
    r"(?:class|def|function|interface|struct|enum|trait|module|func|fn|create\s+table(?:\s+if\s+not\s+exists)?)"
    r"\s+[\"'`]?([\w.]+)|<title>\s*([^<\n]+?)\s*</title>",
    re.MULTILINE | re.IGNORECASE,
)
_COMMENT = re.compile(r"[ \t]*(?:#|//|--|/\*|<!--|;|%)")
_SETTING = re.compile(r"\s*(?:[-\[\]{}]|[\w.\"'-]+\s*(?:[:=]|$))")
_CODE_LINE = re.compile(
    r".*[;{}()]\s*$|\s*(?:def|class|import|from|return|if|for|while|const|let|var|func|fn|use)\b.*:?$"
)
_HASHES = "# \t"
_SHOWN_TITLE = 120
_SUMMARY_CHARS = 300
_ENOUGH = 80
_LABEL_CHARS = 400


class Paste(NamedTuple):
    """One piece that stands for itself, and what was said just before it."""

    content: str
    info: str
    before: str


def pasted(messages: pl.DataFrame, min_chars: int) -> pl.DataFrame:
    """Drafts of the fenced and quoted pieces of at least `min_chars` in what people and assistants said.

    `messages`: id, conversation_id, role, content (redacted), occurred_at, scope, source_id, has_injection. A message
    that tries to give orders has none: an artifact is shown as a whole, and nothing in it is then read as such.
    """
    may_hold = (
        pl.col("role").is_in(PASTING_ROLES)
        & ~pl.col("has_injection")
        & (pl.col("content").str.len_chars() >= min_chars)
        & pl.col("content").str.contains(_HOLDS_PASTE)
    )
    rows = messages.filter(may_hold).iter_rows(named=True)
    return drafts([draft for row in rows for draft in _of_message(row, min_chars)])


def document(title: str, content: str, type: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """The draft of a whole document: `row`, its first passage, has scope, conversation_id, source_id, occurred_at."""
    placed = {name: row[name] for name in ("scope", "conversation_id", "source_id")}
    summary = summary_of(content, is_markdown=type == "markdown") if type in ("markdown", "text") else ""
    made = {"title": title or UNTITLED, "type": type, "content": content, "summary": summary}
    return {**made, **placed, "message_id": None, "made_at": row["occurred_at"]}


def without_orders(content: str) -> str:
    """The text with a mark in place of each paragraph that gives its reader orders, so that the rest can be shown."""
    parts = _PARAGRAPH_END.split(content)
    flags = injection_flags(pl.Series(parts, dtype=pl.String))
    return "".join(LEFT_OUT if flag else part for part, flag in zip(parts, flags, strict=True))


def drafts(found: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """A frame of DRAFTS: the same text in the same scope always has the same id."""
    hashes = [each.get("content_hash") or digest(each["content"], size=16) for each in found]
    rows = [
        {**each, "content_hash": mark, "id": row_id("art", each["scope"], mark)}
        for each, mark in zip(found, hashes, strict=True)
    ]
    return pl.DataFrame(rows, schema=dict(DRAFTS))


def embedded_text(draft: Mapping[str, Any], chars: int = 2000) -> str:
    """What the vector of an artifact stands for: title, summary and the first 2,000 characters (S1-15)."""
    return "\n".join(part for part in (draft["title"], draft["summary"], draft["content"][:chars]) if part)


def type_of_file(name: str, format: str) -> str:
    """markdown, text, code or data, by the format a file is read in and by the ending of its name."""
    return "markdown" if format == "markdown" else _TYPES.get(PurePath(name).suffix.lower().lstrip("."), "text")


def summary_of(content: str, *, is_markdown: bool) -> str:
    """The first sentences of prose, at least 80 characters where there are so many, at most 300; empty without any."""
    body = _FRONT_MATTER.sub("", content) if is_markdown else content
    prose = (block.text for block in blocks(body.splitlines(), is_markdown=is_markdown) if block.kind == "prose")
    opening = next((text for text in prose if not _NOT_PROSE.match(text)), "")
    told = ""
    for sentence in sentences(" ".join(opening.split())):
        if told and (len(told) >= _ENOUGH or len(told) + len(sentence) >= _SUMMARY_CHARS):
            break
        told = f"{told} {sentence}".strip()
    return told if len(told) <= _SUMMARY_CHARS else f"{told[: _SUMMARY_CHARS - 1]}…"


def _of_message(row: Mapping[str, Any], min_chars: int) -> Iterator[dict[str, Any]]:
    seen = set()
    for paste in pieces(row["content"]):
        if len(paste.content) < min_chars or paste.content in seen:
            continue
        seen.add(paste.content)
        kind = _type_of(paste)
        is_prose = kind in ("markdown", "text")
        own = summary_of(paste.content, is_markdown=kind == "markdown") if is_prose else ""
        placed = {name: row[name] for name in ("scope", "conversation_id", "source_id")}
        told = {"title": _title(paste, kind), "type": kind, "content": paste.content, "summary": own or _label(paste)}
        yield {**told, **placed, "message_id": row["id"], "made_at": row["occurred_at"]}


def pieces(content: str) -> Iterator[Paste]:
    """The fenced pieces of a text, then the quoted ones outside of them; an unclosed fence runs to the end."""
    rest, end = [], 0
    for found in _FENCED.finditer(content):
        rest.append(content[end : found.start()])
        yield Paste(textwrap.dedent(found["body"]).strip("\n"), found["info"].strip(), content[: found.start()])
        end = found.end()
    outside = "\n".join([*rest, content[end:]])
    for quote in _QUOTED.finditer(outside):
        yield Paste(_MARK.sub("", quote[0]).strip("\n"), "text", outside[: quote.start()])


def _type_of(paste: Paste) -> str:
    words = paste.info.lower().split()
    named = _NAMED_FILE.search(paste.info)
    if named:
        return _TYPES.get(named[0].rpartition(".")[2].lower(), "code")
    if words:
        return _TYPES.get(words[0].strip("{}.:"), "code")
    return _guessed(paste.content)


def _guessed(content: str) -> str:
    """data, code or text, by the shape of its lines."""
    if content.lstrip()[:1] in ("{", "["):
        try:
            json.loads(content)
        except ValueError:
            pass
        else:
            return "data"
    lines = [line for line in content.splitlines() if line.strip() and not _COMMENT.match(line)]
    if not lines:
        return "text"
    if sum(bool(_CODE_LINE.match(line)) for line in lines) * 3 >= len(lines):
        return "code"
    return "data" if sum(bool(_SETTING.match(line)) for line in lines) * 5 >= len(lines) * 4 else "text"


def _title(paste: Paste, kind: str) -> str:
    """The file it is, by the fence, by what is said before it or by its first line; else what it defines or begins."""
    lines = [line.strip() for line in paste.content.splitlines() if line.strip()]
    opening = lines[0] if lines else ""
    places = [paste.info, _label(paste), opening if _COMMENT.match(opening) else ""]
    names = [found[0] for place in places for found in list(_NAMED_FILE.finditer(place))[-1:]]
    if names:
        return cut_bytes(names[0], _SHOWN_TITLE)
    defined = _DEFINED.search(paste.content) if kind == "code" else None
    if defined:
        return cut_bytes(defined[1] or defined[2], _SHOWN_TITLE)
    spoken = next((line for line in lines if any(map(str.isalnum, line))), "")
    return cut_bytes(spoken.strip(_HASHES + "/*;-<>!\"'{}[]:,"), _SHOWN_TITLE) or UNTITLED


def _label(paste: Paste) -> str:
    """What was said right before it: the last sentence of the line above."""
    above = paste.before[-_LABEL_CHARS:].rstrip().rpartition("\n")[2]
    told = sentences(above.strip(_HASHES + "*"))
    return told[-1][:_SUMMARY_CHARS] if told else ""

"""The kind of a file by its first bytes: binary or text, encoding, format. `parsers` has the table of formats."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Literal, NamedTuple

import orjson
from charset_normalizer import from_bytes

from slowwave.common import text

Shape = Literal["lines", "values", "prose"]

DOCUMENT_SUFFIXES = frozenset(
    {"", ".md", ".markdown", ".mdx", ".mkd", ".txt", ".text", ".rst", ".adoc", ".org", ".log"}
)
LINE_SUFFIXES = frozenset({".jsonl", ".ndjson"})
MAIL_SUFFIXES = frozenset({".mbox", ".eml"})
"""Mail, which is not read."""
JSON_SUFFIXES = LINE_SUFFIXES | {".json"}
MIXED = "slowwave-mixed"

_MARKDOWN_SUFFIXES = frozenset({".md", ".markdown", ".mdx", ".mkd"})
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_MAGIC = (
    (b"\x1f\x8b", "a gzip archive"),
    (b"PK\x03\x04", "a zip archive or office document"),
    (b"%PDF-", "a PDF"),
    (b"\x89PNG", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
    (b"GIF8", "a picture"),
    (b"SQLite format 3", "an SQLite database"),
    (b"\x7fELF", "a program"),
)
_CONTROL_BYTES = bytes({*range(32), 127} - {*b"\t\n\r\f\x1b"})
_MOST_CONTROL = 0.02
# Bytes of other encodings form a character of UTF-8 by chance in less than a sixth of the cases.
_MOST_DAMAGE = 3
# Guesses between one-byte Latin alphabets are mere chance, so only other scripts overrule cp1252.
_OTHER_SCRIPTS = ("cp1251", "koi8_r", "cp932", "euc_jp", "gb18030", "big5", "euc_kr", "cp1253", "cp1255", "cp1256")
_KEY = re.compile(r'(?<!\\)"(\w+)"\s*:')
_LENIENT = json.JSONDecoder(strict=False)
_HEADING = re.compile(r"^#{1,6} +\S", re.MULTILINE)
_PROJECTS = frozenset({"uuid", "docs", "prompt_template"})


class _Signature(NamedTuple):
    """The keys of a JSON format: all of the first, one of the second; and words that its text has."""

    format: str
    all_keys: frozenset[str]
    one_of: frozenset[str]
    words: str = ""


# The order decides: the sessions of Gemini have keys of Claude Code, and all of them have keys of plain messages.
_SIGNATURES = (
    _Signature("chatgpt", frozenset({"mapping"}), frozenset({"current_node", "create_time", "title"})),
    _Signature("gemini-cli", frozenset({"sessionId", "projectHash"}), frozenset({"messages", "startTime"})),
    _Signature("claude-code", frozenset({"type"}), frozenset({"sessionId", "leafUuid", "parentUuid", "isSidechain"})),
    _Signature("claude-ai", frozenset({"chat_messages", "uuid"}), frozenset({"name", "account"})),
    _Signature(
        "codex",
        frozenset({"timestamp", "type", "payload"}),
        frozenset({"payload"}),
        r'"type"\s*:\s*"(?:session_meta|response_item|event_msg|turn_context)"',
    ),
    _Signature(
        "slack", frozenset({"type", "ts", "text"}), frozenset({"user", "bot_id"}), r'"ts"\s*:\s*"\d{9,10}\.\d{6}"'
    ),
)
_MESSAGE_KEYS = frozenset(
    {"content", "text", "role", "speaker", "sender", "author", "messages", "chat_messages", "conversation_id"}
)
_SNIFFED_LINES = 50


def _read_mixed(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    damaged = error.object[error.start : error.end]
    if not error.encoding.startswith("utf-8"):
        return "\ufffd", error.end
    try:
        return damaged.decode("cp1252"), error.end
    except UnicodeDecodeError:
        return damaged.decode("latin-1"), error.end


codecs.register_error(MIXED, _read_mixed)


def binary_kind(head: bytes) -> str:
    """The kind of a binary file; empty for text."""
    if any(head.startswith(mark) for mark, _ in _MARKS):
        return ""
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    controls = len(head) - len(head.translate(None, _CONTROL_BYTES))
    is_most = controls * 2 > len(head)  # a few stray ones in a short text damage it, and make no program of it
    return "binary data" if is_most or (controls > 2 and controls > _MOST_CONTROL * len(head)) else ""


def encoding_of(head: bytes) -> str:
    """The codec of a text: by its mark, else UTF-8, else by its letters.

    Text that is mostly valid UTF-8 stays UTF-8; `MIXED` reads the damaged places.
    """
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding
    decoder = codecs.getincrementaldecoder("utf-8")("strict")
    try:
        decoder.decode(head)
        return "utf-8"
    except UnicodeDecodeError:
        kept = head.decode("utf-8", "ignore")
        whole = sum(not character.isascii() for character in kept)
        damaged = len(head) - len(kept.encode())
    if whole * _MOST_DAMAGE >= damaged:
        return "utf-8"
    guess = from_bytes(head, cp_isolation=["cp1252", *_OTHER_SCRIPTS]).best()
    return guess.encoding if guess and guess.encoding in _OTHER_SCRIPTS else "cp1252"


def shape_of(head: str, suffix: str) -> Shape:
    """JSON one value per line, JSON values (an array, an object over many lines), or prose."""
    body = head.lstrip("\ufeff \t\r\n")
    lines = [line for line in body.split("\n")[:_SNIFFED_LINES] if line.strip()]
    objects = sum(1 for _ in _objects(lines))
    if objects and (suffix in LINE_SUFFIXES or objects * 2 >= len(lines)):
        return "lines"
    if re.match(r'\[\s*[{\]]|\{\s*["}]', body):
        return "values" if suffix not in LINE_SUFFIXES else "lines"
    return "prose"


def sniff_format(head: str, suffix: str) -> str:
    """The format by the first characters; empty for JSON of another kind."""
    shape = shape_of(head, suffix)
    if shape == "prose":
        if suffix in JSON_SUFFIXES:
            return "" if head.strip() else "messages"
        headings = len(_HEADING.findall(head))
        is_headed = headings > 1 or (headings == 1 and head.lstrip().startswith("#"))
        return "markdown" if suffix in _MARKDOWN_SUFFIXES or is_headed else "text"
    objects = _objects(head.split("\n")[:_SNIFFED_LINES]) if shape == "lines" else ()
    found = [_format_of_keys(keys, head) for keys in (*map(set[str], objects), set(_KEY.findall(head)))]
    known = next((name for name in found if name), "")
    if known or suffix in JSON_SUFFIXES:
        return known or ("messages" if re.fullmatch(r"[\s\[\]{}]*", head) else "")
    return "text"


def top_keys(head: str) -> list[str]:
    """The first few keys of a JSON text, for messages about it."""
    return list(dict.fromkeys(_KEY.findall(head)))[:6]


def json_fault(head: str, *, is_whole: bool) -> str:
    """Why a text is not valid JSON; empty if it is, has valid lines, or `head` is only its beginning."""
    if not is_whole or any(_objects(head.lstrip("\ufeff").split("\n")[:_SNIFFED_LINES])):
        return ""
    with suppress(RecursionError):
        try:
            _LENIENT.decode(head.lstrip("\ufeff").strip())
        except json.JSONDecodeError as error:
            return "" if error.msg == "Extra data" else f"line {error.lineno}, {error.msg[:1].lower()}{error.msg[1:]}"
    return ""


def _objects(lines: Iterable[str]) -> Iterable[dict[str, object]]:
    for line in lines:
        if not line.lstrip().startswith("{"):
            continue
        try:
            value = json.loads(line, strict=False)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def _format_of_keys(keys: set[str], head: str) -> str:
    for each in _SIGNATURES:
        if keys >= each.all_keys and keys & each.one_of and (not each.words or re.search(each.words, head)):
            return each.format
    # The documents of a project have a content, too.
    if keys >= _PROJECTS and not keys & (_MESSAGE_KEYS - {"content"}):
        return ""
    return "messages" if keys & _MESSAGE_KEYS else ""


# JSON values of a file, one by one: a broken value never hides the good ones around it.


class Note(NamedTuple):
    """A note on a piece of input: lost (unreadable), kept in another form (adjusted), left out on purpose (skipped)."""

    kind: Literal["unreadable", "adjusted", "skipped"]
    reason: str


Loaded = tuple[int, Any, Note | None]

_REPAIRED = Note("adjusted", "control characters, halves of characters or bytes outside UTF-8 were repaired")


def load_lines(lines: Iterable[bytes]) -> Iterator[Loaded]:
    """(line number, value, note) of JSON lines; blank lines are skipped."""
    for number, line in enumerate(lines, 1):
        try:
            yield number, orjson.loads(line), None
        except orjson.JSONDecodeError as error:
            if not line.strip():
                continue
            try:
                yield number, _LENIENT.decode(line.decode("utf-8", MIXED).strip()), _REPAIRED
            except (ValueError, RecursionError):
                yield number, None, Note("unreadable", f"not JSON: {text.readable(str(error).split(': line')[0])}")


def load_values(text: str) -> Iterator[Loaded]:
    """(item number, value, note) of a JSON array or of consecutive objects; a broken item is skipped."""
    start = number = 0
    while (start := _next_item(text, start)) < len(text):
        number += 1
        try:
            value, start = _LENIENT.raw_decode(text, start)
            yield number, value, None
        except (ValueError, RecursionError):
            start = _after_broken(text, start)
            where = " at the end, where the file may be cut off," if start == len(text) else ""
            yield number, None, Note("unreadable", f"a broken item of the JSON array{where} was left out")


def _next_item(buffer: str, start: int) -> int:
    while start < len(buffer) and buffer[start] in " \t\r\n,[]\ufeff":
        start += 1
    return start


def _after_broken(buffer: str, start: int) -> int:
    """The start of the next item: a brace with the indent of the broken one, else after a brace and a comma."""
    line = buffer.rfind("\n", 0, start) + 1
    indent = buffer[line:start]
    pattern = r"\n" + indent + r"\{" if line and not indent.strip() else r"\n\{|\}\s*,\s*\{"
    found = re.compile(pattern).search(buffer, start + 1)
    return found.end() - 1 if found else len(buffer)

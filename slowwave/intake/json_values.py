"""JSON values out of a file, one by one: a broken one never hides the good ones around it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

import orjson

from slowwave import text
from slowwave.intake.formats import decode_mixed

MAX_VALUE_CHARS = 64_000_000

_LENIENT = json.JSONDecoder(strict=False)


class Note(NamedTuple):
    """What happened to a piece of input: lost (unreadable), kept in another form (adjusted), left out on purpose."""

    kind: Literal["unreadable", "adjusted", "skipped"]
    reason: str


Loaded = tuple[int, Any, Note | None]

_REPAIRED = Note("adjusted", "control characters, halves of characters or bytes outside UTF-8 were repaired")


def load_lines(lines: Iterable[bytes]) -> Iterator[Loaded]:
    """(line number, value, note) of JSON lines; blank lines are passed over."""
    for number, line in enumerate(lines, 1):
        try:
            yield number, orjson.loads(line), None
        except orjson.JSONDecodeError as error:
            if not line.strip():
                continue
            try:
                yield number, _LENIENT.decode(decode_mixed(line).strip()), _REPAIRED
            except (ValueError, RecursionError):
                yield number, None, Note("unreadable", f"not JSON: {text.readable(str(error).split(': line')[0])}")


def load_values(chunks: Iterable[str]) -> Iterator[Loaded]:
    """(item number, value, note) of a JSON array, or of objects one after the other; a broken item is passed over."""
    feed, buffer, start, number, ended = iter(chunks), "", 0, 0, False
    while True:
        start = _next_item(buffer, start)
        if start < len(buffer):
            try:
                value, start = _LENIENT.raw_decode(buffer, start)
                number += 1
                yield number, value, None
                continue
            except (ValueError, RecursionError) as error:
                if ended or not _may_be_cut(error, buffer, start):
                    number += 1
                    yield number, None, Note("unreadable", "a broken item of the JSON array was left out")
                    start = _after_broken(buffer, start)
                    continue
        elif ended:
            return
        buffer = buffer[start:]
        more = _at_least(feed, max(len(buffer), 1))
        buffer, start, ended = buffer + more, 0, not more


def _at_least(feed: Iterator[str], size: int) -> str:
    """Chunks of together `size` characters: a buffer that doubles is not scanned over and over."""
    parts, total = [], 0
    for chunk in feed:
        parts.append(chunk)
        total += len(chunk)
        if total >= size:
            break
    return "".join(parts)


def _next_item(buffer: str, start: int) -> int:
    while start < len(buffer) and buffer[start] in " \t\r\n,[]\ufeff":
        start += 1
    return start


def _may_be_cut(error: Exception, buffer: str, start: int) -> bool:
    if not isinstance(error, json.JSONDecodeError) or len(buffer) - start > MAX_VALUE_CHARS:
        return False
    return error.msg.startswith("Unterminated") or error.pos >= len(buffer) - 16


def _after_broken(buffer: str, start: int) -> int:
    """Where the next item begins: a brace indented like the broken one, else after a brace and a comma."""
    line = buffer.rfind("\n", 0, start) + 1
    indent = buffer[line:start]
    pattern = r"\n" + indent + r"\{" if line and not indent.strip() else r"\n\{|\}\s*,\s*\{"
    found = re.compile(pattern).search(buffer, start + 1)
    return found.end() - 1 if found else len(buffer)

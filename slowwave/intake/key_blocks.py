"""Private keys over several lines: whole ones, and those of which the beginning or the end is missing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

MARK = "[redacted:private_key]"

# A key has some hundred lines at most: what runs on without an end beyond that is no key.
_MAX_LINES = 1000
_BOUND = re.compile(r"-----(BEGIN|END) [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_GAP = r"(?:\\[rn]|[ \t\r\n>\"',+])*+"
_HEADERS = r"(?:[ \t>]*\r?\n[A-Z][A-Za-z-]{2,20}: [^\n]*+)*+"
# The last line may be a short one: it ends in =, or stands alone and is no word.
_LAST = r"(?:[A-Za-z0-9+/]{0,64}=|(?=[A-Za-z+/]*[0-9+/])[A-Za-z0-9+/]{1,15}(?=[ \t\"',\\]*(?:\r?\n|\Z)))"
_AFTER_BEGIN = re.compile(rf"{_HEADERS}(?:{_GAP}[A-Za-z0-9+/=]{{16,}}+)*+(?:{_GAP}{_LAST})?")
# Read backwards from the end mark, where a line end that is written out is `n\`; the last line may be a short one.
_ECAG = r"(?:n?\\(?:r\\)?|[ \t\r\n>\"',+\\])*+"
_BEFORE_END = re.compile(rf"(?:{_ECAG}[A-Za-z0-9+/=]{{0,15}}?){{0,2}}?(?:{_ECAG}[A-Za-z0-9+/=]{{16,}}+)++")
_KEY_LINE = re.compile(r"[ \t>\"']*+[A-Za-z0-9+/=]{1,200}[\"',+ \t\r\n\\]*+\Z")


def without_keys(text: str) -> str:
    """The text with a mark in place of each key; of one without beginning or end, the lines that look like a key."""
    bounds = list(_BOUND.finditer(text))
    ends = _next_ends(bounds)
    parts, done = [], 0
    for bound, end in zip(bounds, ends, strict=True):
        if bound.start() < done:
            continue
        start = bound.start()
        if bound[1] == "END":
            before = _BEFORE_END.match(text[done:start][::-1])
            start, stop = start - (before.end() if before else 0), bound.end()
        else:
            after = _AFTER_BEGIN.match(text, bound.end())
            stop = end.end() if end else after.end() if after else bound.end()
        parts += [text[done:start], MARK]
        done = stop
    return "".join([*parts, text[done:]])


def _next_ends(bounds: list[re.Match[str]]) -> list[re.Match[str] | None]:
    """For each mark the first end mark from there on."""
    ends: list[re.Match[str] | None] = []
    end: re.Match[str] | None = None
    for bound in reversed(bounds):
        end = bound if bound[1] == "END" else end
        ends.append(end)
    return ends[::-1]


def joined_keys(lines: Iterable[str]) -> Iterator[str]:
    """The lines, each key as one of them, also without its beginning or its end; holds up to a thousand lines."""
    held: list[str] = []
    is_open = False
    for line in lines:
        last = _last_bound(line)
        if is_open or last:
            held.append(line)
            if last == "END" or len(held) > _MAX_LINES:
                yield "".join(held)
                held, is_open = [], False
            is_open = is_open or last == "BEGIN"
        elif _KEY_LINE.match(line) and len(held) < _MAX_LINES:
            held.append(line)
        else:
            yield from held
            held = []
            yield line
    yield from ["".join(held)] if is_open else held


def _last_bound(line: str) -> str:
    return max(_BOUND.finditer(line), key=re.Match.start)[1] if "PRIVATE KEY" in line and _BOUND.search(line) else ""

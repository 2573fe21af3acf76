"""Logs of Git: the commit messages that decide something, as what their authors wrote."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from slowwave.common import text

from .formats import Note
from .transcripts import Message, Origin, time_of

_MAX_CHARS = 1_000_000
"""Of a longer message the rest is dropped while it is read."""
_COMMIT = re.compile(r"commit ([0-9a-f]{7,64})\b")
_FIELD = re.compile(r"(Author|AuthorDate|Date|Merge):\s+(.*)")
_TRAILER = re.compile(r"(?:[A-Z][\w-]*-(?:by|Id|on|to)|Fixes|Closes|Refs|Bug|Cc|Link): \S", re.IGNORECASE)
_ZONE = re.compile(r" (?=[+-]\d{4}\Z)")
_DECIDES = re.compile(
    r"\b(?:decided|decides? (?:to|on|that|against)|decision (?:to|on|against)|agreed|instead of|rather than"
    r"|in favou?r of|because|given that|so that|no longer(?! than)|from now on"
    r"|replac\w+ .{1,80}(?:with|by)|(?:switch|migrat|mov|chang)\w* .{0,80}?(?:to|from)|adopt\w*|deprecat\w+"
    r"|drop\w* support|standardi[sz]e|we (?:use|keep|chose|want|will)|prefer\w*|by default|root cause|due to)\b"
    r"|, (?:as|since) (?!(?:well|before|usual|of|in|per|an?|above|below|described|documented|needed|requested|expected"
    r"|follows)\b)[a-z]",
    re.IGNORECASE,
)
_OF_PROGRAMS = re.compile(
    r"\A(?:(?:bump|update) \S+ (?:from|to) |(?:chore|build|fix)\(deps|merge (?:branch|pull|remote))", re.IGNORECASE
)
_NO_AUTHOR = Note("unreadable", "a commit without an author")
_BEFORE_ANY = Note("unreadable", "text before the first commit")
_DECIDES_NOTHING = Note("skipped", "a commit that decides nothing, of a program, or a merge")


def parse_git_log(lines: Iterable[str], origin: Origin) -> Iterator[tuple[int, Message | Note]]:
    """(line, message or note) of the output of `git log`, also with files or changes; those are passed over."""
    start, commit, is_over, size = 0, "", False, 0
    fields: dict[str, str] = {}
    body: list[str] = []
    for number, line in enumerate(lines, 1):
        plain = line.rstrip("\r\n")
        opening = _COMMIT.match(plain.removeprefix("\ufeff"))
        if opening:
            if commit:
                yield from ((start, each) for each in _message(commit, fields, body, origin))
            start, commit, is_over, size, fields, body = number, opening[1], False, 0, {}, []
        elif not commit:
            if plain.strip("\ufeff \t"):
                yield number, _BEFORE_ANY
        elif not body and (field := _FIELD.match(plain)):
            fields.setdefault(field[1], field[2])
        elif not is_over and (plain.startswith("    ") or not plain.strip()):
            if size < _MAX_CHARS:
                body.append(plain[4:])
            size += len(plain)
        else:
            is_over = bool("".join(body).strip())
    if commit:
        yield from ((start, each) for each in _message(commit, fields, body, origin))


def _message(commit: str, fields: dict[str, str], body: list[str], origin: Origin) -> Iterator[Message | Note]:
    author = fields.get("Author", "").rpartition("<")[0].strip()
    if not author:
        yield _NO_AUTHOR
        return
    words = text.unwrapped("\n".join(line for line in body if not _TRAILER.match(line)).strip())
    if "Merge" in fields or author.endswith("[bot]") or _OF_PROGRAMS.match(words) or not _DECIDES.search(words):
        yield _DECIDES_NOTHING
        return
    at, problem = time_of(_ZONE.sub("", fields.get("AuthorDate") or fields.get("Date") or ""))
    if problem:
        yield problem
    yield Message(origin.conversation_id, commit, "user", author, words, at, origin.scope)

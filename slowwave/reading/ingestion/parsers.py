"""The table of formats, each with its parser, and the conversation that a file is where its messages name none."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, NamedTuple

from slowwave.common.errors import UnknownName

from .agent_sessions import codex_origin, gemini_sessions, parse_codex, parse_gemini
from .chat_exports import parse_claude_ai, parse_slack
from .formats import Loaded
from .transcripts import Origin, Parser, parse_chatgpt, parse_claude_code, parse_message

NextOrigin = Callable[[Any, Origin], Origin]
Gather = Callable[[Iterable[Loaded]], Iterator[Loaded]]


class Format(NamedTuple):
    """A format of files, with the parser of one JSON value; a document has none.

    `is_values`: its JSON values go over many lines. `has_people`: a list of people, `users.json`, lies beside or above
    the file. `next_origin`: how a value sets the defaults of itself and the values after it; the first that does so
    counts. `gather`: how the values of a file become those of the parser, where one value changes another.
    """

    name: str
    parse: Parser | None = None
    is_values: bool = False
    has_people: bool = False
    next_origin: NextOrigin | None = None
    gather: Gather | None = None


_TABLE = (
    Format("messages", parse_message),
    Format("claude-code", parse_claude_code),
    Format("chatgpt", parse_chatgpt, is_values=True),
    Format("claude-ai", parse_claude_ai, is_values=True, has_people=True),
    Format("codex", parse_codex, next_origin=codex_origin),
    Format("gemini-cli", parse_gemini, is_values=True, gather=gemini_sessions),
    Format("slack", parse_slack, is_values=True, has_people=True),
    Format("markdown"),
    Format("text"),
)
FORMATS = tuple(each.name for each in _TABLE)
BY_NAME: Mapping[str, Format] = MappingProxyType({each.name: each for each in _TABLE})
DOCUMENTS = frozenset(each.name for each in _TABLE if not each.parse)

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def known_format(name: str) -> str:
    """The name itself, or UnknownName."""
    if name not in (*FORMATS, "auto"):
        raise UnknownName("format", name, (*FORMATS, "auto"))
    return name


def conversation_of(path: PurePath, format: str) -> str:
    """The default conversation of a file: its name; a channel of Slack, which is a folder of days, has that of it."""
    if format != "slack":
        return path.stem
    folder = path.parent.name
    return f"slack/{folder if folder and _DAY.fullmatch(path.stem) else path.stem}"

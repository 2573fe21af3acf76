"""The parser of each format of conversations, and the conversation that a file is where its messages name none."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePath
from types import MappingProxyType
from typing import Any

from .agent_sessions import codex_origin, gemini_sessions, parse_codex, parse_gemini
from .chat_exports import parse_claude_ai, parse_slack
from .commit_logs import parse_git_log
from .formats import Loaded, Note
from .mail import parse_mail
from .text_chats import parse_cursor, parse_whatsapp
from .transcripts import Message, Origin, Parsed, parse_chatgpt, parse_claude_code, parse_message

Parser = Callable[[Any, Origin], Parsed]
TextParser = Callable[[Iterable[str], Origin], Iterator[tuple[int, Message | Note]]]

PARSERS: Mapping[str, Parser] = MappingProxyType(
    {
        "messages": parse_message, "claude-code": parse_claude_code, "chatgpt": parse_chatgpt,
        "claude-ai": parse_claude_ai, "codex": parse_codex, "gemini-cli": parse_gemini, "slack": parse_slack,
    }
)  # fmt: skip
"""Of one JSON value."""
TEXT_PARSERS: Mapping[str, TextParser] = MappingProxyType(
    {"whatsapp": parse_whatsapp, "cursor": parse_cursor, "mail": parse_mail, "git-log": parse_git_log}
)
"""Of all lines of a file, which can be read more than once."""
NEXT_ORIGIN: Mapping[str, Callable[[Any, Origin], Origin]] = MappingProxyType({"codex": codex_origin})
"""How a value sets the defaults of itself and the values after it; the first that does so counts."""
GATHERED: Mapping[str, Callable[[Iterable[Loaded]], Iterator[Loaded]]] = MappingProxyType(
    {"gemini-cli": gemini_sessions}
)
"""How the values of a file become those of its parser, where one value changes another."""
WITH_PEOPLE = frozenset({"slack", "claude-ai"})
"""Formats with a list of people, `users.json`, beside or above the file."""

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def conversation_of(path: PurePath, format: str) -> str:
    """The default conversation of a file: its name, but the folder where all files have such names.

    A channel of Slack is a folder of days. The chat of WhatsApp on a phone of Apple is always `_chat.txt`.
    """
    folder = path.parent.name
    if format == "slack":
        return f"slack/{folder if folder and _DAY.fullmatch(path.stem) else path.stem}"
    return folder if folder and format == "whatsapp" and path.stem == "_chat" else path.stem

"""Single fields of a message: who speaks, what is said, when, and under which name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from types import MappingProxyType
from typing import Any

from slowwave import text
from slowwave.intake.json_values import Note
from slowwave.timestamps import parse_time

TOOL_CHARS = 500
BAD_LABEL = Note("adjusted", "an identifier, speaker or scope that is not text was ignored")

_ROLE = ("role", "sender", "author", "from")
_SPEAKER = ("speaker", "name", "author_name", "user_name")
ROLES: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("user", "human", "customer"), "user"),
        **dict.fromkeys(("assistant", "ai", "bot", "model", "agent"), "assistant"),
        **dict.fromkeys(("chatbot", "chatgpt", "gpt", "claude"), "assistant"),
        **dict.fromkeys(("tool", "function", "tool_result", "tool_use"), "tool"),
        **dict.fromkeys(("system", "developer"), "system"),
        "document": "document",
    }
)
# As a speaker, "Claude" may well be a person.
_ROLES_AS_SPEAKERS = frozenset(ROLES) - {"claude", "agent", "customer", "document", "model"}
_BAD_TIME = Note("adjusted", "the time is not one that can be read")
_UNKNOWN_ROLE = Note("adjusted", "the role is none of user, assistant, tool, system, document: read as user")
_NO_ROLE = Note("adjusted", "neither role nor speaker: read as user")


_ADDRESS = r"<?(?:mailto:)?([^\s@<>()\"]+)@[^\s@<>()\"]+\.[^\s@<>()\"]+>?"
_ADDRESSED = re.compile(rf"(?P<before>[^<>@()]*?)[ \"']*{_ADDRESS}(?: *\((?P<after>[^()@]+)\))?")


class UnreadableError(Exception):
    """A value that is not a message; the text says why."""


def split_content(content: object) -> tuple[str, list[str]]:
    """What is said, and the texts of tools; pictures, files and reasoning are dropped."""
    if isinstance(content, str):
        return content, []
    if isinstance(content, dict):
        parts = content.get("parts")
        content = parts if isinstance(parts, list) else [content]
        if not any(isinstance(part.get("text") if isinstance(part, dict) else part, str) for part in content):
            raise UnreadableError("content is an object without text")
    if not isinstance(content, list):
        raise UnreadableError(f"content is {kind_of(content)}")
    said, tools = [], []
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else ""
        if isinstance(part, str):
            said.append(part)
        elif kind == "tool_use":
            tools.append(f"{part.get('name')} {text.as_json(part.get('input'))}")
        elif kind == "tool_result":
            tools.append(_result_text(part.get("content")))
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            said.append(part["text"])
    return "\n\n".join(said), [tool for tool in tools if tool]


def _result_text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def shortened(said: str) -> str:
    """At most 500 characters of what a tool says: enough to see what was refused."""
    return said if len(said) <= TOOL_CHARS else said[: TOOL_CHARS - 1] + "…"


def who(item: dict[str, Any]) -> tuple[str, str, list[Note]]:
    """Role, speaker and notes; a name in place of a role is a person who speaks as user."""
    given, named = first(item, _ROLE), first(item, _SPEAKER)
    if isinstance(given, dict):
        author = given
        given, named = author.get("role"), named or author.get("name")
    name, speaker = label(given), label(named)
    if name is None:
        raise UnreadableError(f"role is {kind_of(given)}")
    notes = [BAD_LABEL] if speaker is None else []
    speaker = speaker or ""
    role = ROLES.get(name.casefold())
    if role:
        return role, speaker or role, notes
    if name:
        return "user", speaker or name, notes + [_UNKNOWN_ROLE] * bool(speaker)
    if speaker.casefold() in _ROLES_AS_SPEAKERS:
        role = ROLES[speaker.casefold()]
        return role, role, notes
    return "user", speaker or "user", notes + [_NO_ROLE] * (not speaker)


def display_name(speaker: str) -> str:
    """Who speaks under an address: the name beside it, else its part before the @ without a tag; others unchanged.

    A URL is none: what stands before its @ may be a password.
    """
    is_short = len(speaker) <= text.MAX_NAME_BYTES and "://" not in speaker
    found = _ADDRESSED.fullmatch(speaker) if is_short else None
    if not found:
        return speaker
    beside = (found["before"] or found["after"] or "").strip(" \"'")
    return beside or found[2].split("+")[0] or speaker


def time_of(value: object) -> tuple[int | None, Note | None]:
    """Microseconds since 1970 UTC, and a note when the value is no time."""
    try:
        return parse_time(value), None
    except ValueError:
        return None, _BAD_TIME


def first(item: dict[str, Any], keys: Sequence[str]) -> Any:
    """The value of the first key that has one; empty text is none."""
    for key in keys:
        value = item.get(key)
        if value is not None and value != "":
            return value
    return None


def label(value: object) -> str | None:
    """A name or identifier on one line, empty for nothing, None for what is no such thing."""
    if value is None:
        return ""
    if isinstance(value, str):
        if not (value.isascii() and value.isprintable()):
            value = text.readable(value)
        return " ".join(value.split())
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def folder(path: object) -> str:
    """The last name of a path, of either kind of system."""
    return label(PurePath(path.replace("\\", "/")).name) or "" if isinstance(path, str) else ""


def kind_of(value: object) -> str:
    """A JSON value's kind, with its article."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "a truth value", type(None): "nothing"}
    return names.get(type(value), "a number")

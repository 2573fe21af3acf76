"""Conversation formats: JSON values of a transcript become messages, with notes on adjusted and lost parts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, NamedTuple

from slowwave.common import text
from slowwave.common.timestamps import parse_time

from .formats import Note

# Single fields of a message: speaker, content, time and identifiers.


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
BAD_TIME = Note("adjusted", "the time is not one that can be read")
_UNKNOWN_ROLE = Note("adjusted", "the role is none of user, assistant, tool, system, document: read as user")
_NO_ROLE = Note("adjusted", "neither role nor speaker: read as user")


_ADDRESS = r"<?(?:mailto:)?([^\s@<>()\"]+)@[^\s@<>()\"]+\.[^\s@<>()\"]+>?"
_ADDRESSED = re.compile(rf"(?P<before>[^<>@()]*?)[ \"']*{_ADDRESS}(?: *\((?P<after>[^()@]+)\))?")


class UnreadableError(Exception):
    """A value that is not a message; the text gives the reason."""


def split_content(content: object) -> tuple[str, list[str]]:
    """(text, texts of tools) of a content; pictures, files and reasoning are dropped."""
    if isinstance(content, str):
        return content, []
    if isinstance(content, dict):
        parts = content.get("parts")
        content = parts if isinstance(parts, list) else [content]
        if not any(isinstance(part.get("text") if isinstance(part, dict) else part, str) for part in content):
            raise UnreadableError("content is an object without text")
    if not isinstance(content, list):
        raise UnreadableError(f"content is {kind_of(content)}")
    texts, tools = [], []
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else ""
        if isinstance(part, str):
            texts.append(part)
        elif kind == "tool_use":
            tools.append(f"{part.get('name')} {text.as_json(part.get('input'))}")
        elif kind == "tool_result":
            tools.append(_result_text(part.get("content")))
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(part["text"])
    return "\n\n".join(texts), [tool for tool in tools if tool]


def _result_text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def shortened(words: str) -> str:
    """At most 500 characters of a tool's text: enough to see why it was refused."""
    return words if len(words) <= TOOL_CHARS else words[: TOOL_CHARS - 1] + "…"


def who(item: dict[str, Any]) -> tuple[str, str, list[Note]]:
    """(role, speaker, notes); a name in place of a role is a person with the role user."""
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
    """The name of a speaker with an address: the name beside it, else its part before the @ without a tag.

    Other speakers stay unchanged. A URL is no address: the part before its @ may be a password.
    """
    is_short = len(speaker) <= text.MAX_NAME_BYTES and "://" not in speaker
    found = _ADDRESSED.fullmatch(speaker) if is_short else None
    if not found:
        return speaker
    beside = (found["before"] or found["after"] or "").strip(" \"'")
    return beside or found[2].split("+")[0] or speaker


def time_of(value: object) -> int | None:
    """Microseconds since 1970 UTC; None if the value is no time."""
    try:
        return parse_time(value)
    except ValueError:
        return None


def first(item: dict[str, Any], keys: Sequence[str]) -> Any:
    """The value of the first key with a value; empty text does not count."""
    for key in keys:
        value = item.get(key)
        if value is not None and value != "":
            return value
    return None


def label(value: object) -> str | None:
    """A name or identifier on one line; empty for no value, None for a value of another kind."""
    if value is None:
        return ""
    if isinstance(value, str):
        if not (value.isascii() and value.isprintable()):
            value = text.readable(value)
        return " ".join(value.split())
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


READER = "slowwave-reader-"
"""How the names of the folders begin in which an agent reads for slowwave; those sessions are no conversations."""
OWN_READING = Note("skipped", "a session in which the agent read for slowwave")


def folder(path: object) -> str:
    """The last part of a POSIX or Windows path."""
    return label(PurePath(path.replace("\\", "/")).name) or "" if isinstance(path, str) else ""


def kind_of(value: object) -> str:
    """A JSON value's kind, with its article."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "a truth value", type(None): "nothing"}
    return names.get(type(value), "a number")


_CONVERSATION = ("conversation_id", "session_id", "conversationId", "sessionId", "thread_id", "chat_id", "conversation")
_MESSAGE = ("message_id", "id", "uuid", "messageId", "msg_id")
_CONTENT = ("content", "text", "message", "body")
_TIME = ("occurred_at", "timestamp", "created_at", "create_time", "createdAt", "time", "ts", "date")
_SCOPE = ("scope", "project")
_REMINDER = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)", re.DOTALL)
_WRAPPER = re.compile(
    r"\s*(?:<(?:command-\w+|local-command-\w+|bash-(?:input|stdout|stderr)|user-memory-input|task-notification)\b"
    r"|Caveat: The messages below were generated by the user while running local commands"
    r"|\[Request interrupted by user)"
)
_CLAUDE_META = ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage")


class Message(NamedTuple):
    """One message of a source: `at` in µs since 1970 UTC, identifiers empty if the source has none.

    Of an excerpt (the text of a tool) only the beginning is kept, after redaction.
    """

    conversation_id: str
    message_id: str
    role: str
    speaker: str
    content: str
    at: int | None
    scope: str
    title: str = ""
    is_excerpt: bool = False


class Origin(NamedTuple):
    """Defaults of a file for messages without their own values, and the names of ids that its messages use."""

    conversation_id: str
    scope: str = "global"
    names: Mapping[str, str] = MappingProxyType({})
    title: str = ""


Parsed = Iterable[Message | Note]
Parser = Callable[[Any, Origin], Parsed]


def noting_losses(parse: Parser) -> Parser:
    """The parser, in which the reason why something cannot be read is a note."""

    @wraps(parse)
    def noted(item: Any, origin: Origin) -> Iterator[Message | Note]:
        try:
            yield from parse(item, origin)
        except UnreadableError as reason:
            yield Note("unreadable", str(reason))

    return noted


def said(message: Message, at: object = None, tools: Sequence[str] = ()) -> Iterator[Message | Note]:
    """The message at this time, if it has text, then one message of role tool for each use and result of a tool."""
    try:
        message = message._replace(at=parse_time(at))
    except ValueError:
        yield BAD_TIME
    if message.content:
        yield message
    for number, tool_text in enumerate(tools, 1):
        own_id = f"{message.message_id}/{number}" if message.message_id else ""
        yield message._replace(message_id=own_id, role="tool", speaker="tool", content=tool_text, is_excerpt=True)
    if not message.content and not tools:
        yield Note("skipped", "a message without text")


def in_turn(items: Iterable[Any], parse: Parser, origin: Origin, start: object) -> Iterator[Message | Note]:
    """Messages of the items of a conversation; `start` is its time, which the first has as `start`, too."""
    for item in items:
        for found in parse({**item, "start": start} if isinstance(item, dict) else item, origin):
            start = None if isinstance(found, Message) else start
            yield found


@noting_losses
def parse_message(item: Any, origin: Origin) -> Parsed:
    """Messages of one JSON object: a message itself, or a conversation with a list of them."""
    if not isinstance(item, dict):
        raise UnreadableError(f"{kind_of(item)} instead of an object")
    nested = item.get("messages") or item.get("chat_messages")
    return _parse_nested(item, nested, origin) if isinstance(nested, list) else _message(item, origin)


def _message(item: dict[str, Any], origin: Origin) -> Parsed:
    content = first(item, _CONTENT)
    if isinstance(content, dict) and "content" in content:
        item = {**item, **content}
        content = content["content"]
    if content is None:
        if any(item.get(key) == "" for key in _CONTENT) or item.get("tool_calls"):
            return (Note("skipped", "a message without text"),)
        raise UnreadableError("neither content nor text")
    words, tools = split_content(content)
    role, speaker, notes = who(item)
    conversation, message_id, scope = (label(first(item, keys)) for keys in (_CONVERSATION, _MESSAGE, _SCOPE))
    if conversation is None:
        raise UnreadableError(f"conversation_id is {kind_of(first(item, _CONVERSATION))}")
    if message_id is None or scope is None:
        notes.append(BAD_LABEL)
    found = Message(
        conversation or origin.conversation_id, message_id or "", role, speaker, words, None, scope or origin.scope,
        origin.title,
    )  # fmt: skip
    return (*said(found, first(item, _TIME), tools), *notes)


def _parse_nested(outer: dict[str, Any], nested: list[Any], origin: Origin) -> Iterator[Message | Note]:
    own = label(first(outer, (*_CONVERSATION, "id", "uuid")))
    name = own or f"{origin.conversation_id}-{text.digest([str(child)[:2000] for child in nested], size=4)}"
    title, scope = label(first(outer, ("title", "name"))) or "", label(first(outer, _SCOPE)) or origin.scope
    inherited = {"conversation_id": own} if own else {}
    for child in nested:
        if isinstance(child, dict) and not isinstance(child.get("messages"), list):
            child = {**inherited, _TIME[-1]: first(outer, _TIME), **child}
        yield from parse_message(child, Origin(name, scope, title=title))


@noting_losses
def parse_claude_code(item: Any, origin: Origin) -> Iterator[Message | Note]:
    """Messages of one line of a Claude Code session; subagents and tools have the role tool."""
    if not isinstance(item, dict) or not isinstance(item.get("type"), str):
        raise UnreadableError(f"{kind_of(item)} without a type instead of a line of Claude Code")
    if folder(item.get("cwd")).startswith(READER):
        yield OWN_READING
    elif item["type"] not in ("user", "assistant"):
        yield Note("skipped", "a line that holds no message (summary, system, snapshot)")
    elif any(item.get(key) is True for key in _CLAUDE_META):
        yield Note("skipped", "a line that Claude Code wrote for itself")
    elif not isinstance(message := item.get("message"), dict):
        raise UnreadableError(f"message is {kind_of(message)}")
    else:
        content, tools = split_content(message.get("content"))
        content = _REMINDER.sub("", content).strip()
        if _WRAPPER.match(content):
            yield Note("skipped", "the wrapper of a command")
            return
        role, speaker = ("tool", "subagent") if item.get("isSidechain") is True else (item["type"], item["type"])
        session, own = label(item.get("sessionId")) or origin.conversation_id, label(item.get("uuid")) or ""
        found = Message(session, own, role, speaker, content, None, folder(item.get("cwd")) or origin.scope,
                        is_excerpt=role == "tool")  # fmt: skip
        yield from said(found, item.get("timestamp"), tools)


@noting_losses
def parse_chatgpt(item: Any, origin: Origin) -> Parsed:
    """Messages of one ChatGPT conversation, along the branch that leads to its current node."""
    mapping = item.get("mapping") if isinstance(item, dict) else None
    if not isinstance(mapping, dict):
        raise UnreadableError(f"{kind_of(item)} without a mapping instead of a conversation")
    conversation = label(first(item, ("conversation_id", "id"))) or origin.conversation_id
    origin = origin._replace(conversation_id=conversation, title=label(item.get("title")) or "")
    return in_turn(_branch(mapping, item.get("current_node")), _chatgpt_message, origin, item.get("create_time"))


def _branch(mapping: dict[str, Any], current: object) -> list[dict[str, Any]]:
    """The messages from the first to the current node, each with the id of its node where it has none."""
    node = current if isinstance(current, str) and current in mapping else _latest_leaf(mapping)
    path: dict[str, dict[str, Any]] = {}
    while isinstance(node, str) and node not in path and isinstance(mapping.get(node), dict):
        path[node] = mapping[node]
        node = mapping[node].get("parent")
    found = [(node_id, entry.get("message")) for node_id, entry in reversed(path.items())]
    return [{**message, "id": message.get("id") or node_id} for node_id, message in found if isinstance(message, dict)]


def _latest_leaf(mapping: dict[str, Any]) -> str | None:
    leaves = [
        (time_of(message.get("create_time")) or 0, node_id)
        for node_id, node in mapping.items()
        if isinstance(node, dict) and not node.get("children") and isinstance(message := node.get("message"), dict)
    ]
    return max(leaves)[1] if leaves else None


@noting_losses
def _chatgpt_message(message: dict[str, Any], origin: Origin) -> Iterator[Message | Note]:
    author, content, metadata = (message.get(key) for key in ("author", "content", "metadata"))
    author = author if isinstance(author, dict) else {}
    role = ROLES.get(str(author.get("role")).casefold(), "")
    if not role:
        raise UnreadableError("a message without a known author")
    hidden = isinstance(metadata, dict) and metadata.get("is_visually_hidden_from_conversation") is True
    if hidden or role == "system":
        yield Note("skipped", "a hidden or system message")
        return
    if not isinstance(content, dict):
        raise UnreadableError(f"content is {kind_of(content)}")
    kind, parts = content.get("content_type"), content.get("parts")
    given = parts if isinstance(parts, list) else [content.get("text"), content.get("result")]
    texts = [part.get("text") if isinstance(part, dict) else part for part in given]
    words = "\n\n".join(part for part in texts if isinstance(part, str) and part)
    if not words.strip() or kind in ("thoughts", "reasoning_recap"):
        yield Note("skipped", "a message without text (picture, file, reasoning)")
        return
    is_tool = role == "tool" or message.get("recipient") not in (None, "all") or kind in ("code", "execution_output")
    role = "tool" if is_tool else role
    found = Message(
        origin.conversation_id, label(message.get("id")) or "", role, label(author.get("name")) or role, words, None,
        origin.scope, origin.title, is_tool,
    )  # fmt: skip
    yield from said(found, message.get("create_time") or message["start"])

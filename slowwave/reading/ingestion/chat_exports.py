"""Exports of chats. Claude.ai and Slack: conversations with branches, threads, and names in a list of people.

WhatsApp exports text, in which days are written in the order of the writer's country.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from .formats import CHAT_LINE, CHAT_SENDER, Note
from .transcripts import (
    ROLES,
    Message,
    Origin,
    UnreadableError,
    first,
    in_turn,
    kind_of,
    label,
    noting_losses,
    said,
    sections,
    split_content,
)

_BRANCH = Note("skipped", "a message of a branch that was left (edited or regenerated)")
_FILE = Note("skipped", "the text of an attached file")
_NOTICE = Note("skipped", "a notice of Slack (someone joined, a topic, a call)")
_NO_ANCESTOR = "00000000-0000-4000-8000-000000000000"
_KEPT_SUBTYPES = frozenset({"", "thread_broadcast", "me_message", "file_share", "bot_message"})
_REFERENCE = re.compile(r"<([@#!]?)([^<>|\n]{1,2000})(?:\|([^<>\n]*))?>")
_SHOWN_NAME = ("full_name", "real_name", "real_name_normalized", "display_name", "name")


def names_of(people: list[Any]) -> dict[str, str]:
    """The name of each id in a list of people (`users.json` of Slack or Claude.ai); entries without a name are left."""
    names = {}
    for person in people:
        if not isinstance(person, dict):
            continue
        profile = person.get("profile")
        own = label(first(person, ("id", "uuid")))
        name = label(first((profile if isinstance(profile, dict) else {}) | person, _SHOWN_NAME))
        if own and name:
            names[own] = name
    return names


@noting_losses
def parse_claude_ai(item: Any, origin: Origin) -> Iterator[Message | Note]:
    """Messages of one conversation of Claude.ai, along the branch of its last message.

    The person has the name of the list of people beside it, if there is one.
    """
    listed = item.get("chat_messages") if isinstance(item, dict) else None
    if not isinstance(listed, list):
        raise UnreadableError(f"{kind_of(item)} without chat_messages instead of a conversation")
    branch = _last_branch([each for each in listed if isinstance(each, dict)])
    left = [isinstance(each, dict) and branch is not None and label(each.get("uuid")) not in branch for each in listed]
    yield from (_BRANCH for each in left if each)
    account = item.get("account")
    person = origin.names.get(label(account.get("uuid")) or "", "") if isinstance(account, dict) else ""
    conversation, title = label(item.get("uuid")) or origin.conversation_id, label(item.get("name")) or ""
    origin = origin._replace(conversation_id=conversation, title=title, names={"user": person} if person else {})
    kept = [each for each, is_left in zip(listed, left, strict=True) if not is_left]
    yield from in_turn(kept, _claude_message, origin, item.get("created_at"))


@noting_losses
def _claude_message(item: Any, origin: Origin) -> Iterator[Message | Note]:
    if not isinstance(item, dict):
        raise UnreadableError(f"{kind_of(item)} instead of a message")
    role = ROLES.get(str(item.get("sender")).casefold(), "")
    if not role:
        raise UnreadableError("a message without a known sender")
    words, tools = split_content(item.get("content") or [])
    if not words and not tools and isinstance(plain := item.get("text"), str):
        words = plain
    files = item.get("attachments")
    if isinstance(files, list) and any(isinstance(file, dict) and file.get("extracted_content") for file in files):
        yield _FILE
    own, speaker = label(item.get("uuid")) or "", origin.names.get(role, role)
    found = Message(origin.conversation_id, own, role, speaker, words, None, origin.scope, origin.title)
    yield from said(found, first(item, ("created_at", "updated_at", "start")), tools)


def _last_branch(messages: list[dict[str, Any]]) -> set[str] | None:
    """The ids from the last message up to the first one; None where the parents do not lead there."""
    parents = {each["uuid"]: each.get("parent_message_uuid") for each in messages if isinstance(each.get("uuid"), str)}
    node = messages[-1].get("uuid") if messages else None
    path: set[str] = set()
    while isinstance(node, str) and node in parents and node not in path:
        path.add(node)
        node = parents[node]
    return path if path and node == _NO_ANCESTOR else None


@noting_losses
def parse_slack(item: Any, origin: Origin) -> Iterator[Message | Note]:
    """The message of one item of a day of a Slack channel; a thread is a conversation, with the message it begins at.

    `origin` has the channel, and the name of each user id. Bots have the role tool.
    """
    if not isinstance(item, dict):
        raise UnreadableError(f"{kind_of(item)} instead of a message")
    subtype, content = label(item.get("subtype")), item.get("text")
    if item.get("type", "message") != "message" or subtype not in _KEPT_SUBTYPES:
        yield _NOTICE
        return
    if not isinstance(content, str):
        raise UnreadableError(f"text is {kind_of(content)}")
    ts, thread, channel = label(item.get("ts")) or "", label(item.get("thread_ts")), origin.conversation_id
    is_bot = subtype == "bot_message" or bool(item.get("bot_id"))
    found = Message(
        f"{channel}/{thread}" if thread else channel, ts, "tool" if is_bot else "user",
        _slack_name(item, origin.names), _slack_text(content, origin.names), None, origin.scope,
        "#" + channel.removeprefix("slack/"), is_excerpt=is_bot,
    )  # fmt: skip
    yield from said(found, item.get("ts"))


def _slack_name(item: dict[str, Any], names: Mapping[str, str]) -> str:
    user = label(item.get("user")) or ""
    profile = item.get("user_profile") or item.get("bot_profile")
    own = label(first(profile, _SHOWN_NAME)) if isinstance(profile, dict) else ""
    return names.get(user) or own or label(first(item, ("username", "user", "bot_id"))) or "user"


def _slack_text(content: str, names: Mapping[str, str]) -> str:
    """The text with names in place of ids, and links as they are read."""

    def shown(found: re.Match[str]) -> str:
        kind, target, words = found[1], found[2], found[3] or ""
        if kind == "@":
            return names.get(target) or words or target
        if kind == "#":
            return f"#{words or target}"
        if kind == "!":
            return words or f"@{target.split('^')[0]}"
        is_plain = not words or words in target or target.startswith("mailto:")
        return words or target if is_plain else f"{words} ({target})"

    return html.unescape(_REFERENCE.sub(shown, content))


DayOrder = Literal["ymd", "dmy", "mdy"]

_BEFORE_ANY = Note("unreadable", "text before the first message")
_NO_MESSAGE = Note("skipped", "a notice of WhatsApp (no sender, a file or call, a deleted message)")
_UNCLEAR = "nothing in the chat shows whether its days begin with the day or the month, so they are read as"
_MADE_CLEAR = "where that is wrong, undo this run and write the days as 2026-04-03"
_EDITED = re.compile(
    r"(?:\u200e<[^<>\n]{1,60}>|<(?:Media omitted|This message was edited|Medien ausgeschlossen"
    r"|Diese Nachricht wurde bearbeitet|(?:Multimedia|Archivo) omitido|Se editó este mensaje|Mídia oculta"
    r"|Arquivo de mídia oculto|Mensagem editada|Médias? omis|Ce message a été modifié|Media omessi"
    r"|Questo messaggio è stato modificato|Media weggelaten|Dit bericht is bewerkt)\.?>)\Z"
)
_DELETED = re.compile(
    r"(?:This message was deleted|You deleted this message|null|Missed (?:voice|video) call.*)\.?\Z", re.IGNORECASE
)
_TITLE = re.compile(
    r"\A(?:WhatsApp Chat (?:with|-)|WhatsApp-Chat mit|Chat de WhatsApp con|Conversa do WhatsApp com)\s+"
)


def parse_whatsapp(lines: Iterable[str], origin: Origin) -> Iterator[tuple[int, Message | Note]]:
    """(line, message or note) of an exported chat; `lines` is read twice, the first time for the order of its days.

    The chat is one conversation. It has no zone, so its times are taken for UTC.
    """
    order, unclear = day_order(lines)
    if unclear:
        read_as = "day before month" if order == "dmy" else "month before day"
        yield unclear, Note("adjusted", f"{_UNCLEAR} {read_as}; {_MADE_CLEAR}")
    origin = origin._replace(title=_TITLE.sub("", origin.conversation_id))
    for start, head, body in sections(lines, CHAT_LINE.match):
        found = _chat_message(head, body, order, origin) if head else [_BEFORE_ANY]
        yield from ((start, each) for each in found)


def _chat_message(head: re.Match[str], body: list[str], order: DayOrder, origin: Origin) -> Iterator[Message | Note]:
    sender = CHAT_SENDER.match(head["rest"])
    opening = (sender["words"] or "").strip() if sender else ""
    # Signs from left to right stand before all that WhatsApp writes itself, in every language.
    words = "\n".join(body if opening.startswith("\u200e") else [opening, *body]).strip()
    own = _EDITED.sub("", words).strip()
    if not sender or not own or _DELETED.match(own):
        yield _NO_MESSAGE
        return
    speaker = " ".join(sender["sender"].split())
    found = Message(origin.conversation_id, "", "user", speaker, own, None, origin.scope, origin.title)
    yield from said(found, _moment(head, order))


def day_order(lines: Iterable[str]) -> tuple[DayOrder, int]:
    """The order of day, month and year in the days of a chat; the first line where it is a guess, 0 where it is known.

    A year of four digits or a number above 12 decides, else month before day goes with a clock of twelve hours.
    """
    has_half, unclear = False, 0
    for number, found in enumerate(map(CHAT_LINE.match, lines), 1):
        if not found:
            continue
        a, b = int(found["a"]), int(found["b"])
        if len(found["a"]) == 4:
            return "ymd", 0
        if found["sign"] == "." or a > 12 or b > 12:
            return "mdy" if b > 12 else "dmy", 0
        has_half = has_half or bool(found["half"])
        unclear = unclear or (number if a != b else 0)
    return "mdy" if has_half else "dmy", unclear


def _moment(found: re.Match[str], order: DayOrder) -> str:
    """The time, as if in UTC; in ISO 8601 unless there is no such day or time."""
    day = dict(zip(order, (int(found[name]) for name in "abc"), strict=True))
    hour, half = int(found["hour"]), (found["half"] or "").lower()
    if half:
        hour = hour % 12 + 12 * (half == "p")
    year = day["y"] + 2000 * (day["y"] < 100)
    return f"{year:04}-{day['m']:02}-{day['d']:02}T{hour:02}:{found['minute']}:{int(found['second'] or 0):02}"

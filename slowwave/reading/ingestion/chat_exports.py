"""Exports of chats of Claude.ai and Slack: branches, threads, and names in a list of people."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from typing import Any

from .formats import Note
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

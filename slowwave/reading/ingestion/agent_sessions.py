"""Sessions of Codex and Gemini CLI: people and assistants speak, tools are excerpts, the rest is left out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from slowwave.common import text

from .formats import Loaded, Note
from .transcripts import (
    OWN_READING,
    READER,
    Message,
    Origin,
    UnreadableError,
    first,
    folder,
    kind_of,
    label,
    noting_losses,
    said,
    split_content,
)

_NO_MESSAGE = Note("skipped", "a line that holds no message (settings, reasoning, tokens)")
_OWN_WORDS = Note("skipped", "a message that the program wrote for the model")
_OWN_NOTICE = Note("skipped", "a notice of the program")
_TAKEN_BACK = Note("skipped", "a message that was taken back")
_WRITTEN_BY_CODEX = re.compile(r"\s*(?:<[a-z]+(?:_[a-z]+)+>|<INSTRUCTIONS>|<permissions|# AGENTS\.md instructions)")
_IDE_CONTEXT = re.compile(r"\A# Context from my IDE setup:.*?^## My request for Codex:\s*", re.DOTALL | re.MULTILINE)
_CALL_WORDS = ("arguments", "input", "action", "query")
_GEMINI_ROLES = {"user": "user", "gemini": "assistant"}


def codex_origin(item: Any, origin: Origin) -> Origin:
    """The session and project of the lines that follow: `origin`, unless the line is about the session."""
    payload = item.get("payload") if isinstance(item, dict) and item.get("type") == "session_meta" else None
    if not isinstance(payload, dict):
        return origin
    session = label(payload.get("id")) or origin.conversation_id
    return origin._replace(conversation_id=session, scope=folder(payload.get("cwd")) or origin.scope)


@noting_losses
def parse_codex(item: Any, origin: Origin) -> Iterator[Message | Note]:
    """Messages of one line of a session of Codex; `event_msg` repeats what `response_item` has."""
    payload = item.get("payload") if isinstance(item, dict) else None
    if not isinstance(payload, dict) or not isinstance(item.get("type"), str):
        raise UnreadableError(f"{kind_of(item)} without type and payload instead of a line of Codex")
    kind, role, parts = label(payload.get("type")) or "", payload.get("role"), payload.get("content")
    blank = Message(origin.conversation_id, label(payload.get("id")) or "", "tool", "tool", "", None, origin.scope)
    if origin.scope.startswith(READER):
        yield OWN_READING
    elif item["type"] != "response_item" or (kind not in ("message", "agent_message") and "_call" not in kind):
        yield _NO_MESSAGE
    elif "_call" in kind:
        yield from said(blank._replace(content=_tool_words(payload, kind), is_excerpt=True), item.get("timestamp"))
    else:
        if isinstance(parts, list):
            parts = [each for each in parts if not _is_written_by_codex(each)]
        if role not in ("user", "assistant") or parts == []:
            yield _OWN_WORDS
            return
        words, tools = split_content(parts)
        spoken = blank._replace(role=role, speaker=role, content=_IDE_CONTEXT.sub("", words))
        yield from said(spoken, item.get("timestamp"), tools)


def _is_written_by_codex(part: object) -> bool:
    words = part.get("text") if isinstance(part, dict) else part
    return isinstance(words, str) and bool(_WRITTEN_BY_CODEX.match(words))


def _tool_words(payload: dict[str, Any], kind: str) -> str:
    is_output = kind.endswith("_output")
    words = payload.get("output") if is_output else first(payload, _CALL_WORDS)
    if isinstance(words, dict) and isinstance(words.get("content"), str):
        words = words["content"]
    shown = words if isinstance(words, str) else "" if words is None else text.as_json(words)
    return shown if is_output else f"{label(payload.get('name')) or kind} {shown}".strip()


def gemini_sessions(loaded: Iterable[Loaded]) -> Iterator[Loaded]:
    """The messages of whole sessions or of sessions in lines, each as a session of one message.

    In lines a message is written again when it grows, so its last form counts; `$rewindTo` takes back the message that
    it names and all after it (all where it names none that is known); `$set` changes the session or repeats messages.
    """
    session: dict[str, Any] = {}
    messages: dict[object, Loaded] = {}
    for line, value, note in loaded:
        change = value.get("$set", value) if isinstance(value, dict) else None
        if not isinstance(change, dict):
            yield line, value, note
        elif "$rewindTo" in value:
            known = list(messages)
            target = label(value["$rewindTo"])
            for key in known[known.index(target) if target in messages else 0 :]:
                yield messages.pop(key)[0], None, _TAKEN_BACK
        else:
            is_message = change is value and ("sessionId" not in value or "type" in value)
            listed = [value] if is_message else change.get("messages", [])
            if not isinstance(listed, list):
                yield line, value, note
                continue
            if not is_message:
                if change.get("sessionId", session.get("sessionId")) != session.get("sessionId"):
                    yield from _with_session(session, messages)
                    session, messages = {}, {}
                session |= change
            for number, each in enumerate(listed):
                key = label(each.get("id")) if isinstance(each, dict) else ""
                messages[key or (line, number)] = (line, each, None if number else note)
    yield from _with_session(session, messages)


def _with_session(session: dict[str, Any], messages: dict[object, Loaded]) -> Iterator[Loaded]:
    for line, message, note in messages.values():
        yield line, session | {"messages": [message]}, note


@noting_losses
def parse_gemini(item: Any, origin: Origin) -> Iterator[Message | Note]:
    """Messages of one session of Gemini CLI; calls of tools follow the message that made them."""
    listed = item.get("messages") if isinstance(item, dict) else None
    if not isinstance(listed, list):
        raise UnreadableError(f"{kind_of(item)} without messages instead of a session")
    session, title = label(item.get("sessionId")) or origin.conversation_id, label(item.get("summary")) or ""
    for each in listed:
        for found in _gemini_message(each, origin._replace(conversation_id=session, title=title)):
            yield found
            if found is OWN_READING:
                return


@noting_losses
def _gemini_message(item: Any, origin: Origin) -> Iterator[Message | Note]:
    if not isinstance(item, dict) or not isinstance(item.get("type"), str):
        raise UnreadableError(f"{kind_of(item)} without a type instead of a message")
    role = _GEMINI_ROLES.get(item["type"])
    if role is None:
        yield _OWN_NOTICE
        return
    words, tools = split_content(item.get("content") or "")
    if role == "user" and words.startswith(READER):
        yield OWN_READING
        return
    calls = item.get("toolCalls")
    tools += [_gemini_call(call) for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    own = label(item.get("id")) or ""
    found = Message(origin.conversation_id, own, role, role, words, None, origin.scope, origin.title)
    yield from said(found, item.get("timestamp"), tools)


def _gemini_call(call: dict[str, Any]) -> str:
    shown = call.get("resultDisplay")
    return (
        f"{label(call.get('name'))} {text.as_json(call.get('args'))}\n{shown if isinstance(shown, str) else ''}".strip()
    )

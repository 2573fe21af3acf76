"""Messages as they may be kept: readable, without thinking and secrets, under names that are no addresses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from slowwave import text
from slowwave.intake.message_fields import display_name, shortened
from slowwave.intake.redaction import redact_all
from slowwave.intake.transcripts import Message

# What tells one thing from another stays different when a secret is taken out of it.
_NAMES = ("conversation_id", "message_id", "speaker", "scope")


def cleaned(messages: Sequence[Message]) -> tuple[list[Message], list[bool]]:
    """The messages without secrets in any of their texts, and which of them held one (S4-20)."""
    found = [_readable(message) for message in messages]
    secrets = [message.role == "document" and "[redacted:" in message.content for message in found]
    content, kinds = redact_all(pl.Series("content", [message.content for message in found], dtype=pl.String))
    for row in (kinds.list.len() > 0).arg_true().to_list():
        found[row], secrets[row] = found[row]._replace(content=content[row]), True
    for field in (*_NAMES, "title"):
        values = [getattr(message, field) for message in found]
        hidden = hidden_names(values) if field in _NAMES else _hidden(values)
        if hidden:
            for row in (row for row, value in enumerate(values) if value in hidden):
                found[row], secrets[row] = _renamed(found[row], field, hidden[values[row]]), True
    return [_cut(message) for message in found], secrets


def hidden_names(names: Sequence[str]) -> dict[str, str]:
    """The names that hold a secret, each without it; different ones stay different."""
    return {name: f"{clean}~{text.digest(name, size=4)}" for name, clean in _hidden(names).items()}


def _hidden(values: Sequence[str]) -> dict[str, str]:
    known = sorted(set(values))
    clean, kinds = redact_all(pl.Series(known, dtype=pl.String))
    # A number alone is an identifier, whatever its digits add up to.
    rows = (kinds.list.len() > 0).arg_true().to_list()
    return {known[row]: clean[row] for row in rows if not known[row].isdigit()}


def _renamed(message: Message, field: str, value: str) -> Message:
    change: dict[str, Any] = {field: value}
    return message._replace(**change)


def _readable(message: Message) -> Message:
    """Invisible signs go before secrets are looked for: they would hide one."""
    content = message.content
    if not (content.isascii() and content.isprintable()):
        content = text.readable(content)
    if "<" in content:
        content = text.strip_thinking(content)
    content, speaker = content.strip(), message.speaker
    if "@" in speaker:
        speaker = display_name(speaker)
    if content is message.content and speaker is message.speaker:
        return message
    return message._replace(content=content, speaker=speaker)


def _cut(message: Message) -> Message:
    """What is too long is cut only when no secret can be cut in two (S4-19)."""
    if message.is_excerpt:
        message = message._replace(content=shortened(message.content))
    if len(message.speaker) * 4 > text.MAX_NAME_BYTES:
        message = message._replace(speaker=text.cut_bytes(message.speaker, text.MAX_NAME_BYTES))
    return message

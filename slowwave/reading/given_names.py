"""Names that somebody gives an entity: as they are stored, and why something cannot be one (S2-03, T38, T39)."""

from __future__ import annotations

from slowwave.errors import UnusableInput
from slowwave.intake.injection import injection_reason
from slowwave.intake.redaction import has_secret
from slowwave.text import MAX_NAME_BYTES, cut_bytes, normalise_name, readable

from .mentions import MIN_NAME_BYTES


def shown_name(name: str) -> str:
    """A name as it is stored and shown: visible, on one line, single-spaced, at most 512 bytes."""
    return cut_bytes(" ".join(readable(name).split()), MAX_NAME_BYTES)


def is_too_short(shown: str) -> bool:
    """Whether it is less than a name has, as `shown_name` gives it."""
    return len(normalise_name(shown).encode()) < MIN_NAME_BYTES


def name_to_store(name: str) -> str:
    """The name as `shown_name` gives it; raises `UnusableInput` where that, and not what was given, cannot be one."""
    shown = shown_name(name)
    if reason := injection_reason(shown):
        raise UnusableInput(f"{shown!r} cannot be a name. {reason}", "Say what the entity is called.")
    if has_secret(shown):
        raise UnusableInput("The name holds what looks like a secret.", "Say what the entity is called.")
    if is_too_short(shown):
        raise UnusableInput(f"{shown!r} is too short for a name.", "A name has three characters or more.")
    return shown

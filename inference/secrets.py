"""Removes secrets of this process and of its providers from messages, logs and stored texts."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator

from slowwave.common.errors import SlowwaveError
from slowwave.reading.filters.redaction import redact

MARK = "[secret]"
_SHORTEST = 8  # what is shorter stands in ordinary words
_NAME = re.compile(
    r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PASSCODE|_PASS|_PWD|_PAT|AUTH_STRING|OTLP_HEADERS)$"
    r"|(?:^|_)(?:TOKEN|SECRET|PASSWORD)S?_(?!.*(?:FILE|PATH|DIR|NAME)$)",
    re.IGNORECASE,
)
_IN_URL = re.compile(r"://[^/\s:@]*:([^/\s@]+)@")
_SHAPE = re.compile(r"\bsk-[A-Za-z0-9_-]{8,}|(?i:\bbearer\s+)[A-Za-z0-9._~+/=-]{8,}")  # shorter than in talk


def without_secrets(text: str) -> str:
    """The text without the keys of the environment and without strings that look like a secret."""
    for value in sorted(_of_environment(), key=len, reverse=True):  # one may be part of another
        text = text.replace(value, MARK)
    return redact(_SHAPE.sub(MARK, text)).text


def _of_environment() -> Iterator[str]:
    for name, value in os.environ.items():
        if len(value) >= _SHORTEST and _NAME.search(name):
            yield value
        elif "://" in value and (found := _IN_URL.search(value)) and len(found[1]) >= _SHORTEST:
            yield found[1]


def clean_error(error: BaseException) -> BaseException:
    """The same error whose text, and that of all that led to it, holds no secret; for engines that print them all.

    An error whose text does not come from its arguments is replaced by one without secrets.
    """
    _clean_chain(error, set())
    if not _tells(error):
        return error
    return SlowwaveError(f"{type(error).__name__}: {without_secrets(str(error))}").with_traceback(error.__traceback__)


def _clean_chain(error: BaseException, seen: set[int]) -> None:
    seen.add(id(error))
    if _tells(error):
        if isinstance(error, SlowwaveError):
            error.message, error.remedy = without_secrets(error.message), without_secrets(error.remedy)
        error.args = tuple(without_secrets(each) if isinstance(each, str) else each for each in error.args)
    for link in ("__cause__", "__context__"):
        earlier = getattr(error, link)
        if earlier is not None and id(earlier) not in seen:
            _clean_chain(earlier, seen)
            if _tells(earlier):
                setattr(error, link, None)


def _tells(error: BaseException) -> bool:
    """Whether the text of the error holds a secret."""
    return without_secrets(str(error)) != str(error)


class _Clean(logging.Filter):
    """Removes secrets from log records: from the message and from the error."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Always true; the record is changed."""
        text = record.getMessage()
        clean = without_secrets(text)
        if clean != text:
            record.msg, record.args = clean, ()
        if record.exc_info and record.exc_info[1] is not None:
            error = clean_error(record.exc_info[1])
            record.exc_info = (type(error), error, error.__traceback__)
        return True


logging.getLogger("slowwave").addFilter(_Clean())

"""What a request sends: fields of a form or keys of a JSON document, within limits, read by their types."""

from __future__ import annotations

from typing import Any

from python_multipart.exceptions import FormParserError
from starlette.datastructures import ImmutableMultiDict
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message

from slowwave.common.errors import UnusableInput

Values = ImmutableMultiDict[str, Any]
"""The fields of a form or of the part of an address after `?`, or the keys of a JSON document."""
MOST_BYTES = 1_000_000
"""Of a form or a JSON document."""


class TooLong(UnusableInput):
    """More bytes than a form or a document may have."""


class NotJson(UnusableInput):
    """A body of another type than JSON."""


async def form(request: Request, most: int = MOST_BYTES) -> Values:
    """The fields of a form without files; raises `TooLong` beyond `most` bytes, `UnusableInput` for a broken form."""
    try:
        async with _limited(request, most).form(max_files=0) as fields:
            return ImmutableMultiDict(fields.multi_items())
    except (HTTPException, FormParserError):
        raise UnusableInput("This is no form that can be read.", "Send the form of the page once more.") from None


async def document(request: Request) -> Values:
    """The keys of a JSON object; raises `NotJson` for another type of content, `TooLong`, or `UnusableInput`."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise NotJson(
            f"The body is {kind!r}." if kind else "The body has no type.",
            "Send one JSON object with the header `Content-Type: application/json`.",
        )
    try:
        keys = await _limited(request, MOST_BYTES).json()
    except (ValueError, RecursionError) as error:
        raise UnusableInput(f"This is not JSON: {error}.", "Send one JSON object.") from None
    if not isinstance(keys, dict):
        raise UnusableInput("This is no JSON object.", "Send one, for example {}.")
    return ImmutableMultiDict(keys)


def _limited(request: Request, most: int) -> Request:
    """The same request, whose body ends in `TooLong` after `most` bytes, whatever length it announces."""
    left = most

    async def receive() -> Message:
        nonlocal left
        message = await request.receive()
        left -= len(message.get("body", b""))
        if left < 0:
            raise TooLong("This is too long.", f"Send at most {most:,} bytes.")
        return message

    return Request(request.scope, receive)


def text(values: Values, name: str) -> str:
    """A text without the spaces around it; empty if there is none or null. Raises `UnusableInput` for other types."""
    value = values.get(name)
    if value is not None and not isinstance(value, str):
        raise UnusableInput(f"`{name}` is no text.", f'Send it in quotes: {{"{name}": "…"}}.')
    return (value or "").strip()


def flag(values: Values, name: str) -> bool:
    """Whether a flag is set; not where there is none or null. Raises `UnusableInput` unless it is true or false."""
    value = values.get(name)
    if value is not None and not isinstance(value, bool):
        raise UnusableInput(f"`{name}` is neither true nor false.", f'Send {{"{name}": true}}, without quotes.')
    return bool(value)

"""Stored text on its way to an agent: what a terminal would act on, nobody sees, or a client would fetch goes.

An agent's words may be rendered by a client that knows Markdown or HTML. There a picture is fetched as soon as it is
shown, and its address can carry away what stands beside it; so no picture, and no element, survives as one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from pydantic import BaseModel

from slowwave.text import readable

R = TypeVar("R")

_HIDDEN = re.compile("[\u061c\u2028\u2029\u2065\u206a-\u206f\ufff9-\ufffb]")
_PICTURE = re.compile(r"!(?=\[)")
_ELEMENT = re.compile(r"<(?=[/!?]?[A-Za-z])")


def as_evidence(result: R) -> R:
    """A result whose texts are inert; what is no result of a tool stays as it is."""
    if isinstance(result, BaseModel):
        return type(result).model_validate(inert_values(result.model_dump(by_alias=True)))
    return cast(R, inert_values(result)) if isinstance(result, dict | list) else result


def inert_values(value: Any) -> Any:
    """Plain data with inert texts."""
    if isinstance(value, str):
        return inert_text(value)
    if isinstance(value, Mapping):
        return {inert_values(key): inert_values(each) for key, each in value.items()}
    return [inert_values(each) for each in value] if isinstance(value, list | tuple) else value


def inert_text(text: str) -> str:
    """The text, visible and without pictures or elements: `![x](…)` becomes `! [x](…)`, `<img` becomes `< img`."""
    if text.isascii() and text.isprintable() and "<" not in text and "![" not in text:
        return text
    return _ELEMENT.sub("< ", _PICTURE.sub("! ", _HIDDEN.sub("", readable(text))))

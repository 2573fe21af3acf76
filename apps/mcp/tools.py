"""Functions as tools: each declares its permissions, and our errors become answers, never tracebacks."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, ParamSpec, TypeVar, cast

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.tools import Tool
from mcp.shared.exceptions import MCPError
from mcp_types import ToolAnnotations
from pydantic import BaseModel

from inference.secrets import clean_error, without_secrets
from slowwave.common.errors import SlowwaveError
from slowwave.common.lexicon.labels import Locale, shown_relation, shown_type
from slowwave.common.text import readable
from slowwave.integrations.python_api import OpenMemory

# Stored text on its way to an agent: what a terminal would act on, nobody sees, or a client would fetch goes. An
# agent's words may be rendered by a client that knows Markdown or HTML. There a picture is fetched as soon as it is
# shown, and its address can carry away what stands beside it; so no picture, and no element, survives as one.


R = TypeVar("R")
Document = dict[str, Any]
"""A result, as `--json` prints it."""

_HIDDEN = re.compile("[\u061c\u2028\u2029\u2065\u206a-\u206f\ufff9-\ufffb]")
_PICTURE = re.compile(r"!(?=\[)")
_ELEMENT = re.compile(r"<(?=[/!?]?[A-Za-z])")


def as_evidence(result: R) -> R:
    """A result whose texts are inert; other values stay as they are."""
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


P = ParamSpec("P")

Agent = Context[OpenMemory, Any]
"""The request of an agent; what all requests share is its lifespan context."""

_READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
_ADDS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
_DESTROYS = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)
_PAYS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=True)
_BY_DEED = {"reads": _READS, "pays": _PAYS, "adds": _ADDS, "destroys": _DESTROYS}


TOOLS: dict[str, tuple[Callable[..., Any], str, ToolAnnotations]] = {}
"""The functions that agents may call by name, with title and permissions, in the order of their modules."""


def tool(title: str, deed: Literal["reads", "pays", "adds", "destroys"]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declare a tool: its docstring is what agents read of it.

    What pays reads, and asks a model elsewhere. Destroying needs a person, see `apps.mcp.changes`.
    """

    def declare(function: Callable[P, R]) -> Callable[P, R]:
        wrapped = answering(function)
        TOOLS[function.__name__] = (wrapped, title, _BY_DEED[deed])
        return wrapped

    return declare


def answering(function: Callable[P, R]) -> Callable[P, R]:
    """The function, whose errors of ours are results that say what is wrong and name the way out."""

    @functools.wraps(function)
    def answer(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return as_evidence(function(*args, **kwargs))
        except SlowwaveError as error:
            raise ToolError(inert_text(without_secrets(f"{error.message} {error.remedy}".strip()))) from error
        except (ToolError, MCPError):
            raise
        except Exception as error:
            raise UnexpectedToolError(
                f"Something went wrong in the memory ({type(error).__name__}). Try once more; if it stays so, tell "
                "your person: the log of the server says more, and `slowwave doctor` looks at the store."
            ) from clean_error(error)

    return answer


def memory_of(ctx: Agent) -> OpenMemory:
    """The memory that all sessions share."""
    return ctx.request_context.lifespan_context


def strict_tool(name: str) -> Tool:
    """One of TOOLS, which refuses unknown arguments instead of dropping them."""
    function, title, permissions = TOOLS[name]
    made = Tool.from_function(
        function, name, title=title, description=inspect.getdoc(function), annotations=permissions
    )
    taken = made.fn_metadata.arg_model
    taken.model_config["extra"] = "forbid"
    taken.model_rebuild(force=True)
    made.parameters = taken.model_json_schema(by_alias=True)
    return made


# In which words results name types and relations (C8); those of both languages are understood on the way in.


_WORDS: Mapping[str, Callable[[str, Locale], str]] = {
    "entity_type": shown_type,
    "type": shown_type,
    "predicate": shown_relation,
    "relation_type": shown_relation,
}


def worded(document: R, locale: Locale) -> R:
    """A document in which types and relations are named as the settings say, wherever they stand in it."""
    made: Any = document
    if isinstance(document, Mapping):
        made = {
            key: _WORDS[key](value, locale) if key in _WORDS and isinstance(value, str) else worded(value, locale)
            for key, value in document.items()
        }
    elif isinstance(document, list | tuple):
        made = [worded(each, locale) for each in document]
    return cast(R, made)

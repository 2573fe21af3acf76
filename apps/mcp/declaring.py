"""How a function becomes a tool: what it may do is declared, and an error of ours is an answer, never a traceback."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, ParamSpec, TypeVar

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.shared.exceptions import MCPError
from mcp_types import ToolAnnotations

from inference.secrets import clean_error, without_secrets
from slowwave.errors import NoStoreYet, SlowwaveError

from .door import Door
from .evidence import as_evidence, inert_text

P = ParamSpec("P")
R = TypeVar("R")

Agent = Context[Door, Any]
"""The request of an agent; what all requests share is its lifespan context."""

_READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
_ADDS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
_DESTROYS = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)
_PAYS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=True)
_BY_DEED = {"reads": _READS, "pays": _PAYS, "adds": _ADDS, "destroys": _DESTROYS}


@dataclass(frozen=True, slots=True)
class Declared:
    """A function that agents may call."""

    function: Callable[..., Any]
    title: str
    description: str
    annotations: ToolAnnotations


TOOLS: dict[str, Declared] = {}
"""All tools by name, in the order of their modules."""


def tool(title: str, deed: Literal["reads", "pays", "adds", "destroys"]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declare a tool: its docstring is what agents read of it.

    What pays reads, and asks a model elsewhere. Destroying needs a person, see `apps.mcp.asking`.
    """

    def declare(function: Callable[P, R]) -> Callable[P, R]:
        told = answering(function)
        TOOLS[function.__name__] = Declared(told, title, inspect.getdoc(function) or "", _BY_DEED[deed])
        return told

    return declare


def answering(function: Callable[P, R]) -> Callable[P, R]:
    """The function, whose errors of ours are results that say what is wrong and name the way out."""

    @functools.wraps(function)
    def answer(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return as_evidence(function(*args, **kwargs))
        except NoStoreYet as gone:
            raise _gone(gone) from gone
        except SlowwaveError as error:
            raise ToolError(inert_text(without_secrets(f"{error.message} {error.remedy}".strip()))) from error
        except (ToolError, MCPError):
            raise
        except Exception as error:
            raise _unforeseen(error, [*args, *kwargs.values()]) from clean_error(error)

    return answer


def _gone(error: SlowwaveError) -> ToolError:
    return ToolError(f"{error.message} Tell your person: this server needs the store that it was started on.")


def _unforeseen(error: Exception, given: Sequence[object]) -> ToolError:
    """What the agent is told of an error that nobody meant; the server writes the whole of it to its log."""
    for ctx in given:
        if isinstance(ctx, Context):
            try:
                door_of(ctx).require()
            except SlowwaveError as gone:
                return _gone(gone)
    return UnexpectedToolError(
        f"Something went wrong in the memory ({type(error).__name__}). Try once more; if it stays so, tell your "
        "person: the log of the server says more, and `slowwave doctor` looks at the store."
    )


def door_of(ctx: Agent) -> Door:
    """What the request came in through."""
    return ctx.request_context.lifespan_context

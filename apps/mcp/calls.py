"""How a tool is called: with its own arguments alone, and what is wrong with a call is said in plain words."""

from __future__ import annotations

import re
from typing import Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.tools import Tool
from pydantic import ValidationError

from .declaring import Declared

_MOST_WRONG = 5
_CLASS = re.compile(r"a valid dictionary or instance of \w+")
_NO_ANSWER = (
    "What came back does not match the form, so nothing was decided: it wants a decision, approve or reject, and the "
    "name of the person. Call again to ask anew."
)


class Asked(Tool):
    """A tool that refuses arguments that it does not have, instead of dropping them."""

    @classmethod
    def of(cls, name: str, declared: Declared) -> Tool:
        """The tool of a declared function."""
        made = cls.from_function(
            declared.function, name, title=declared.title, description=declared.description,
            annotations=declared.annotations,
        )  # fmt: skip
        taken = made.fn_metadata.arg_model
        taken.model_config["extra"] = "forbid"
        taken.model_rebuild(force=True)
        made.parameters = taken.model_json_schema(by_alias=True)
        return made

    async def run(self, arguments: dict[str, Any], context: Context[Any, Any], convert_result: bool = False) -> Any:
        """Run it; raises `ToolError` in words that an agent can act on."""
        try:
            return await super().run(arguments, context, convert_result)
        except UnexpectedToolError:
            raise
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                raise ToolError(self._wrong(error.__cause__)) from error.__cause__
            if "Resolver '" in str(error):  # the SDK about a form
                raise ToolError(_NO_ANSWER) from error
            raise

    def _wrong(self, found: ValidationError) -> str:
        known = ", ".join(self.parameters["properties"])
        told = list[str]()
        for each in found.errors(include_url=False, include_context=False, include_input=False):
            name, said = ".".join(map(str, each["loc"])), _CLASS.sub("an object", each["msg"])
            told.append(f"there is no {name}" if each["type"] == "extra_forbidden" else f"{name}: {_small(said)}")
        more = f"; and {len(told) - _MOST_WRONG} more" if len(told) > _MOST_WRONG else ""
        return f"{self.name} cannot be called so: {'; '.join(told[:_MOST_WRONG])}{more}. It takes {known}."


def _small(said: str) -> str:
    return said[:1].lower() + said[1:]

"""A tool set of Pydantic AI: look up, and remember. `pip install 'slowwave[pydantic-ai]'`."""

from __future__ import annotations

import asyncio
from typing import Any

from slowwave.common.errors import UnusableInput
from slowwave.common.types import NOTHING_KNOWN
from slowwave.integrations.python_api import OpenMemory

from .shared import BLOCK_TOKENS, block_for, checked_memory, library

with library("pydantic-ai", "pydantic_ai"):
    from pydantic_ai import FunctionToolset


def memory_tools(memory: OpenMemory, *, token_budget: int = BLOCK_TOKENS, can_add: bool = True) -> FunctionToolset[Any]:
    """The tools `recall` and, with `can_add`, `remember`; none retires or deletes."""
    checked_memory(memory)
    tools: FunctionToolset[Any] = FunctionToolset()

    async def recall(query: str) -> str:
        """Look up what is remembered from earlier conversations.

        Args:
            query: What to look for, as a question or a few words.
        """
        return await asyncio.to_thread(block_for, memory, query, token_budget) or NOTHING_KNOWN

    async def remember(about: str, statement: str) -> str:
        """Remember something that will matter in later conversations; says whether it was added, known or refused.

        Args:
            about: The name of the person, project or thing that it is about.
            statement: What is so, in one whole sentence.
        """
        try:
            added = await asyncio.to_thread(memory.add_observations, about, statement)
        except UnusableInput as error:  # a name that is none, or that several entities have
            return f"refused: {error.message}"
        (outcome,) = added.outcomes
        return f"{outcome.outcome}: {outcome.reason}" if outcome.reason else outcome.outcome

    tools.add_function(recall)
    if can_add:
        tools.add_function(remember)
    return tools

"""Two functions that every library of agents takes as tools: look up, and remember."""

from __future__ import annotations

from collections.abc import Callable

from slowwave.common.errors import UnusableInput
from slowwave.common.types import NOTHING_KNOWN
from slowwave.integrations.python_api import OpenMemory

from .shared import checked_memory, read_or


def memory_tools(memory: OpenMemory, *, token_budget: int = 1000, can_add: bool = True) -> list[Callable[..., str]]:
    """The functions `recall` and, with `can_add`, `remember`; none retires or deletes.

    Their signatures and docstrings tell a model what they are for. A block has `token_budget` tokens at most.
    """
    checked_memory(memory)

    def recall(query: str) -> str:
        """Look up what is remembered from earlier conversations.

        Args:
            query: What to look for, as a question or a few words.
        """
        return read_or("", lambda: memory.context_for(query, token_budget)) or NOTHING_KNOWN

    def remember(about: str, statement: str) -> str:
        """Remember something that will matter in later conversations; says whether it was added, known or refused.

        Args:
            about: The name of the person, project or thing that it is about.
            statement: What is so, in one whole sentence.
        """
        try:
            (outcome,) = memory.add_observations(about, statement).outcomes
        except UnusableInput as error:  # a name that is none, or that several entities have
            return f"refused: {error.message}"
        return f"{outcome.outcome}: {outcome.reason}" if outcome.reason else outcome.outcome

    return [recall, remember] if can_add else [recall]

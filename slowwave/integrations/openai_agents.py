"""A session of the OpenAI Agents SDK that learns, and a tool that recalls. `pip install 'slowwave[openai-agents]'`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, cast

from slowwave.common.errors import LeaseBusy, Transient
from slowwave.common.types import NOTHING_KNOWN
from slowwave.integrations.python_api import OpenMemory

from .shared import BLOCK_TOKENS, block_for, checked_memory, dated, library

with library("openai-agents", "agents"):
    from agents import FunctionTool, SQLiteSession, TResponseInputItem, function_tool
    from agents.memory import SessionABC

log = logging.getLogger("slowwave")
_ROLES = ("user", "assistant")


class SlowwaveSession(SessionABC):
    """A session whose messages are also learned, as the conversation of its id.

    Items are kept by another session. What cannot be learned now, because another writer holds the memory or a model is
    overloaded, is learned with the next items.
    """

    def __init__(self, session_id: str, memory: OpenMemory, underlying: SessionABC | None = None) -> None:
        """By default items are kept by a `SQLiteSession` in working memory: another process begins with none."""
        self.session_id = session_id
        self.underlying = underlying or SQLiteSession(session_id)
        self.session_settings = self.underlying.session_settings
        self._memory = checked_memory(memory)
        self._unlearned: list[Mapping[str, Any]] = []

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The latest items, oldest first."""
        return await self.underlying.get_items(limit)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Keep items, and learn from their messages."""
        await self.underlying.add_items(items)
        given = [cast(Mapping[str, Any], item) for item in items]
        self._unlearned += dated(
            {"role": item["role"], "content": item["content"]}
            for item in given
            if item.get("role") in _ROLES and item.get("content")
        )
        try:
            await self.learn()
        except (LeaseBusy, Transient) as error:
            log.warning("%d messages will be learned later: %s", len(self._unlearned), error)

    async def learn(self) -> None:
        """Learn what could not be learned yet; raises as `OpenMemory.ingest`."""
        if waiting := list(self._unlearned):
            await asyncio.to_thread(self._memory.ingest, waiting, self.session_id)
            del self._unlearned[: len(waiting)]

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the latest item from the session; what was learned from it stays."""
        return await self.underlying.pop_item()

    async def clear_session(self) -> None:
        """Remove all items from the session; what was learned stays."""
        await self.underlying.clear_session()


def recall_tool(memory: OpenMemory, token_budget: int = BLOCK_TOKENS) -> FunctionTool:
    """A tool by which an agent looks something up; the answer has at most so many tokens."""
    checked_memory(memory)

    @function_tool(name_override="recall")
    async def recall(query: str) -> str:
        """Look up what is remembered from earlier conversations.

        Args:
            query: What to look for, as a question or a few words.
        """
        return await asyncio.to_thread(block_for, memory, query, token_budget) or NOTHING_KNOWN

    return recall

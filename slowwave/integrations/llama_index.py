"""A memory block of LlamaIndex that learns what leaves the chat history. `pip install 'slowwave[llama-index]'`."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from pydantic import ConfigDict, Field

from slowwave.integrations.python_api import OpenMemory

from .shared import BLOCK_TOKENS, block_for, dated, library

with library("llama-index", "llama_index"):
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.memory import BaseMemoryBlock

_ROLES = ("user", "assistant")


class SlowwaveMemoryBlock(BaseMemoryBlock[str]):
    """What is known about the last message of the user, as a block of at most `token_budget` tokens.

    Messages that are put into the block are learned, as the conversation of their session.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    name: str = Field(default="Memory", description="The name of the block.")
    memory: OpenMemory = Field(description="An open memory.", exclude=True)
    token_budget: int = Field(default=BLOCK_TOKENS, ge=1, description="The most tokens of the block.")

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        questions = [each.content for each in messages or () if each.role.value == "user" and each.content]
        return await asyncio.to_thread(block_for, self.memory, questions[-1], self.token_budget) if questions else ""

    async def _aput(self, messages: list[ChatMessage]) -> None:
        sessions: dict[str | None, list[dict[str, str]]] = {}
        for each in messages:
            if each.role.value in _ROLES and each.content:
                session = each.additional_kwargs.get("session_id")
                sessions.setdefault(session, []).append({"role": each.role.value, "content": each.content})
        for session, turns in sessions.items():
            await asyncio.to_thread(self.memory.ingest, dated(turns), session)

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """Leave out the block: a part of it might say something else than the whole."""
        return None

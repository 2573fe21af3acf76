"""A retriever of LangChain: facts and passages as documents. `pip install 'slowwave[langchain]'`."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from pydantic import ConfigDict, Field

from slowwave.common.errors import TookTooLong
from slowwave.common.types import Passage, RecalledFact, Recollection, in_one_order
from slowwave.integrations.python_api import Only, OpenMemory

from .shared import library, read_or

with library("langchain", "langchain_core"):
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever


class SlowwaveRetriever(BaseRetriever):
    """At most `k` documents, best first: facts, and passages of messages for what no fact says.

    `as_of` asks what was true then. Raises `TookTooLong` where recall takes longer than the settings allow.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    memory: OpenMemory
    k: int = Field(default=8, ge=1)
    as_of: str | None = None
    with_passages: bool = True

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return self._documents(query, self.k if k is None else k)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return await asyncio.to_thread(self._documents, query, self.k if k is None else k)

    def _documents(self, query: str, k: int) -> list[Document]:
        only: Only | None = None if self.with_passages else "facts"
        found = read_or(Recollection(query), lambda: self.memory.recall(query, k, as_of=self.as_of, only=only))
        if found.is_timed_out:
            raise TookTooLong("Recall took longer than it may.", "Increase recall_timeout_ms of [recall].")
        order = in_one_order(found.facts, found.passages)[:k]
        return [_of_passage(each) if isinstance(each, Passage) else _of_fact(each) for each in order]


def _of_fact(fact: RecalledFact) -> Document:
    metadata = {
        "kind": "fact", "score": fact.score, "confidence": fact.confidence, "subject": fact.subject,
        "predicate": fact.predicate, "object": fact.object, "valid_from": fact.valid_from, "valid_to": fact.valid_to,
        "sources": [
            {"conversation_id": each.conversation_id, "message_id": each.message_id, "quote": each.quote}
            for each in fact.provenance
        ],
    }  # fmt: skip
    return Document(id=fact.id, page_content=fact.statement, metadata=metadata)


def _of_passage(passage: Passage) -> Document:
    metadata = {
        "kind": "passage", "score": passage.score, "role": passage.role, "speaker": passage.speaker,
        "occurred_at": passage.occurred_at,
        "sources": [{"conversation_id": passage.conversation_id, "message_id": passage.message_id}],
    }  # fmt: skip
    return Document(page_content=passage.text, metadata=metadata)

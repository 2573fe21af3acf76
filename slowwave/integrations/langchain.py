"""A retriever of LangChain: facts and passages as documents. `pip install slowwave[langchain]`."""

from __future__ import annotations

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from slowwave.api import Only, OpenMemory
from slowwave.errors import TookTooLong
from slowwave.types import Passage, RecalledFact, Recollection

from .shared import read_or


class SlowwaveRetriever(BaseRetriever):
    """The `k` facts that answer a query best, then passages of messages for what no fact says.

    `as_of` asks what was true then; `with_passages` says whether passages come at all. Raises `TookTooLong` where
    recall takes longer than the settings allow.
    """

    memory: OpenMemory
    k: int = 8
    as_of: str | None = None
    with_passages: bool = True

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        only: Only | None = None if self.with_passages else "facts"
        found = read_or(Recollection(query), lambda: self.memory.recall(query, self.k, as_of=self.as_of, only=only))
        if found.is_timed_out:
            raise TookTooLong("Recall took longer than it may.", "Increase recall_timeout_ms of [recall].")
        return [*map(_of_fact, found.facts), *map(_of_passage, found.passages)]


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

"""Passages: pieces of the messages that match a question, read with their text (`slowwave.ranking.passages`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice

import polars as pl

from slowwave.answers import Passage, RecalledFact
from slowwave.ranking.passages import is_said, only_asks, passage_of
from slowwave.ranking.ranking import OVERLAP_WEIGHT, word_overlaps
from storage.warm import Tables, fetch

from .search import Question, Ranked

UNTOLD, RETOLD = 0.9, 0.5
"""What the score of a passage counts beside that of a fact, and where facts of its message are recalled, too: a
passage takes the room of three facts. Chosen on the development conversations, read by a model."""
STALE = 0.5
"""Share of a passage's content words from which on what no longer holds counts as what it says."""
ROLES = ("user", "assistant", "document")
_COLUMNS = (
    "id", "conversation_id", "message_id", "role", "speaker", "content", "occurred_at", "created_at", "scope",
    "has_injection",
)  # fmt: skip


async def passages(tables: Tables, question: Question, ranked: Ranked, limit: int) -> tuple[Passage, ...]:
    """The best passage of each of the `limit` messages that match best, best first.

    None of a message that gives orders to its reader, of another scope, or from after the moment that is asked about;
    none that says what no longer holds; and none where only facts about some entities are wanted.
    """
    if question.about is not None or not limit:
        return ()
    rows = await fetch(tables["messages"], "id", [*islice(ranked.scores, limit)], _COLUMNS)
    rows = _allowed(rows, question)
    over = await _over(tables, rows["id"].to_list(), question)
    texts = [passage_of(question.text, content) for content in rows["content"].fill_null("")]
    overlaps = word_overlaps(question.text, texts)
    made = [
        Passage(
            row["conversation_id"],
            row["message_id"],
            row["role"],
            row["speaker"] or "",
            text,
            row["occurred_at"],
            round(ranked.scores[row["id"]] + OVERLAP_WEIGHT * overlap, 6),
        )
        for row, text, overlap in zip(rows.iter_rows(named=True), texts, overlaps, strict=True)
        if text and not only_asks(text) and not is_said(text, over.get(row["id"], ()), STALE)
    ]
    return tuple(sorted(made, key=_place))


def beside(found: Sequence[Passage], facts: Sequence[RecalledFact]) -> tuple[Passage, ...]:
    """The passages of which no fact of the same message says the content, with scores that compare with the facts'."""
    said: dict[tuple[str, str], list[str]] = {}
    for fact in facts:
        for source in fact.provenance:
            said.setdefault((source.conversation_id, source.message_id), []).append(fact.statement)
    kept = []
    for passage in found:
        own = said.get((passage.conversation_id, passage.message_id), [])
        if not is_said(passage.text, own):
            kept.append(replace(passage, score=round(passage.score * (RETOLD if own else UNTOLD), 6)))
    return tuple(sorted(kept, key=_place))


def _place(passage: Passage) -> tuple[float, str, str]:
    return (-passage.score, passage.conversation_id, passage.message_id)


async def _over(tables: Tables, messages: list[str], question: Question) -> Mapping[str, list[str]]:
    """By message the statements that were read from it and hold no longer, or never did."""
    at = question.moment.as_of or question.moment.now
    columns = ["message_id", "statement", "status", "valid_to"]
    rows = await fetch(tables["facts"], "message_id", messages, columns)
    is_over = (pl.col("valid_to") <= at).fill_null(False) & pl.col("status").is_in(["active", "superseded"])
    closed = rows.filter(is_over | (pl.col("status") == "retracted")).group_by("message_id").agg("statement")
    return dict(closed.iter_rows())


def _allowed(rows: pl.DataFrame, question: Question) -> pl.DataFrame:
    moment = question.moment
    kept = rows.filter(pl.col("role").is_in(ROLES), ~pl.col("has_injection").fill_null(False))
    if question.scope is not None:
        kept = kept.filter(pl.col("scope") == question.scope)
    if moment.as_of is not None:
        kept = kept.filter(pl.col("occurred_at") <= moment.as_of)
    if moment.known_as_of is not None:
        kept = kept.filter(pl.col("created_at") <= moment.known_as_of)
    return kept

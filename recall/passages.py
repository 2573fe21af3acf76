"""Passages: pieces of the messages that match a question, read with their text (`slowwave.ranking.passages`)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice

import polars as pl

from slowwave.answers import Passage, RecalledFact
from slowwave.ranking.passages import is_said, only_asks, passage_of
from slowwave.ranking.ranking import OVERLAP_WEIGHT, word_overlaps
from storage.warm import Tables, fetch

from .facts import ALL
from .search import Question, Ranked

UNTOLD, RETOLD = 0.9, 0.5
"""What the score of a passage counts beside that of a fact, and where facts of its message are recalled, too: a
passage takes the room of three facts. Chosen on the development conversations, read by a model."""
STALE = 0.5
"""Share of a passage's content words from which on what no longer holds counts as what it says."""
ROLES = ("user", "assistant", "document")
MOST = 30
"""Passages at most; no block has room for more."""
_META = ("id", "role", "occurred_at", "created_at", "scope", "has_injection")
_SHOWN = ("id", "conversation_id", "message_id", "role", "speaker", "content", "occurred_at")
_FACT = ("id", "message_id", "statement", "status", "valid_to", "expired_at")
_UNDECIDED = ("active", "candidate", "rejected")


async def passages(tables: Tables, question: Question, ranked: Ranked, limit: int) -> tuple[Passage, ...]:
    """The best passage of each of the `limit` messages that match best, at most `MOST`, best first.

    None of a message that gives orders to its reader, of another scope, or from after the moment that is asked about;
    none that says what no longer holds; and none where only facts about some entities are wanted.
    """
    if question.about is not None or not limit:
        return ()
    limit = min(limit, MOST)
    wanted = [*ranked.scores] if question.is_narrow else [*islice(ranked.scores, 4 * limit)]
    may = {*_allowed(await fetch(tables["messages"], "id", wanted, _META), question)["id"]}
    best = [message for message in wanted if message in may][:limit]
    rows, read = await asyncio.gather(fetch(tables["messages"], "id", best, _SHOWN), _facts_of(tables, best))
    texts = [passage_of(question.text, content) for content in rows["content"].fill_null("")]
    overlaps = word_overlaps(question.text, texts)
    is_over = _is_over(question)
    over = _by_message(read.filter(is_over))
    live = _by_message(read.filter(~is_over, pl.col("status") == "active"))
    made = []
    for row, text, overlap in zip(rows.iter_rows(named=True), texts, overlaps, strict=True):
        gone, holds = over.get(row["id"], ()), live.get(row["id"], ())
        is_stale = is_said(text, gone, STALE) and not is_said(text, holds, STALE)
        if not text or only_asks(text) or is_stale:
            continue
        score = round(ranked.scores[row["id"]] + OVERLAP_WEIGHT * overlap, 6)
        who, source = row["speaker"] or "", (row["conversation_id"], row["message_id"])
        made.append(Passage(*source, row["role"], who, text, row["occurred_at"], score))
    return tuple(sorted(made, key=_place))


async def _facts_of(tables: Tables, messages: list[str]) -> pl.DataFrame:
    """(said_in, statement, status, valid_to, expired_at) of every fact that each message says, wherever it lies."""
    evidence = await fetch(tables["fact_evidence"], "message_id", messages, ["fact_id", "message_id"])
    keys = (("message_id", messages), ("id", evidence["fact_id"].unique().to_list()))
    parts = await asyncio.gather(*(fetch(tables[name], key, ids, _FACT) for name in ALL for key, ids in keys))
    facts = pl.concat(parts).unique("id", keep="first", maintain_order=True)
    own = facts.rename({"message_id": "said_in"})
    others = evidence.join(facts.drop("message_id"), left_on="fact_id", right_on="id").rename({"message_id": "said_in"})
    columns = ["said_in", "statement", "status", "valid_to", "expired_at"]
    return pl.concat([own.select(columns), others.select(columns)]).unique(maintain_order=True)


def _is_over(question: Question) -> pl.Expr:
    """What had ended at the moment, or is retired, archived or taken back; what waits or was refused says nothing."""
    moment = question.moment
    known = moment.known_as_of or moment.now
    ended = pl.col("valid_to") <= (moment.as_of or known)
    is_gone = ~pl.col("status").is_in(_UNDECIDED) & (pl.col("expired_at").fill_null(known) <= known)
    is_gone |= (pl.col("status") == "active") & (pl.col("expired_at") <= known)
    if moment.as_of is not None:
        is_gone &= pl.col("status") == "retracted"
    return (ended.fill_null(False) & ~pl.col("status").is_in(_UNDECIDED[1:])) | is_gone.fill_null(False)


def _by_message(facts: pl.DataFrame) -> Mapping[str, list[str]]:
    """The statements of facts by the message that says them."""
    return dict(facts.group_by("said_in").agg("statement").iter_rows())


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

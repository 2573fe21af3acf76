"""Search: the words of messages and the meaning of facts, in one order.

Two rounds of reads: full text over messages beside vectors over facts, then everything about the messages that look
best, and the facts that a walk along relations came by. `slowwave.ranking.ranking` says why these two channels, and
how they are put together; what becomes of the scores afterwards is in `placing`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.moments import Moment
from slowwave.ranking.placing import Step
from slowwave.ranking.ranking import (
    Evidence,
    Recalled,
    lexical_scores,
    message_scores,
    prose,
    rank_facts,
    with_neighbours,
    word_overlaps,
)
from slowwave.settings import RecallSettings
from storage.rows import empty_frame, quoted
from storage.search import words
from storage.warm import Tables

from .candidates import candidates
from .facts import ALL, HOT, NEEDED
from .quality import Faded

if TYPE_CHECKING:
    from lancedb import AsyncTable

TABLES = (
    "messages", "facts", "fact_evidence", "entities", "pair_decisions", "facts_archive", "fact_scores", "metadata"
)  # fmt: skip
PAST_TABLES = (*TABLES, "decisions")
QUERY_BYTES = 1000  # a longer query costs full-text search milliseconds and finds nothing more
MESSAGES_PER_FACT = 2
LEAST = 10  # who asks for one fact gets the first of ten, not the best of three messages
FARTHEST = 64  # times the usual reach
LOUDEST = 5  # matching messages whose neighbours are looked at; those of thirty find no more
_PROBES = 20
MESSAGE = ("id", "conversation_id", "message_id", "occurred_at")
_HEARD = (*MESSAGE, "ordinal", "vector")
_FACT = (*NEEDED, "message_id", "quote", "evidence_count", "expired_at", "vector")  # no column more: each costs
_PAST = ("created_at", "replaced_by", "status_reason")

Vector = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Question:
    """A query with its vector and what may answer it."""

    text: str
    vector: Vector
    k: int
    moment: Moment
    scope: str | None = None
    about: frozenset[str] | None = None  # entities: only facts about one of them answer
    conversation: frozenset[str] = frozenset()  # messages of the conversation that is going on
    model: str = ""  # of the vector
    others: tuple[tuple[str, Vector], ...] = ()  # further wordings with their vectors, asked beside it

    @property
    def wordings(self) -> tuple[Question, ...]:
        """The question in each of its wordings, this one first."""
        return (self, *(replace(self, text=text, vector=vector, others=()) for text, vector in self.others))

    @property
    def has_meaning(self) -> bool:
        """Whether the vector says anything: a query of unknown words has none."""
        return bool(self.vector.any())

    @property
    def where(self) -> str:
        """The filter of facts that may answer."""
        parts = [f"({self.moment.where})"]
        if self.scope is not None:
            parts.append(f"scope = {quoted(self.scope)}")
        if self.about is not None:
            listed = ", ".join(map(quoted, sorted(self.about))) or "''"
            parts.append(f"(subject_id IN ({listed}) OR object_id IN ({listed}))")
        return " AND ".join(parts)

    @property
    def is_narrow(self) -> bool:
        """Whether most live facts may not answer."""
        return self.scope is not None or self.about is not None or self.moment.is_past

    @property
    def tables(self) -> tuple[str, ...]:
        """Where facts are looked for: the past is also in the archive."""
        return ALL if self.moment.is_past else HOT

    @property
    def columns(self) -> tuple[str, ...]:
        """What must be known of a fact to choose and rank it."""
        return (*_FACT, *(_PAST if self.moment.is_past else ()), *(() if self.scope is None else ("scope",)))


@dataclass(frozen=True, slots=True)
class Ranked:
    """The ranked facts with their rows (NEEDED and more), and those messages that were read on the way.

    `scores` are those of the messages that may answer themselves, best first.
    """

    order: list[Recalled]
    facts: pl.DataFrame
    messages: pl.DataFrame
    scores: Mapping[str, float]


def together(found: Sequence[Ranked]) -> Ranked:
    """What several wordings of one question found: each fact and message with its best score, best first."""
    if len(found) == 1:
        return found[0]
    best: dict[str, Recalled] = {}
    for one in sorted((place for ranked in found for place in ranked.order), key=lambda place: -place.score):
        best.setdefault(one.fact_id or one.sources[0], one)
    scores: dict[str, float] = {}
    for ranked in found:
        for message, score in ranked.scores.items():
            scores[message] = max(score, scores.get(message, 0.0))
    facts, messages = (
        pl.concat([getattr(ranked, name) for ranked in found]).unique("id", keep="first", maintain_order=True)
        for name in ("facts", "messages")
    )
    return Ranked([*best.values()], facts, messages, dict(sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))))


Walk = Mapping[str, Step]
NO_WALK: Walk = MappingProxyType({})


async def search(
    tables: Tables, question: Question, settings: RecallSettings, faded: Faded, walk: asyncio.Task[Walk] | None = None
) -> Ranked:
    """Everything that was compared, best first; looks farther while too little of what is near still holds (T32).

    Live facts that have faded are left out (S4-03). What the walk came by is compared, too.
    """
    reach = 1
    while True:
        ranked, is_all = await _search(tables, question, settings, faded, reach, walk)
        if is_all or len(ranked.order) >= question.k or reach >= FARTHEST:
            return ranked
        reach *= 8


async def _search(
    tables: Tables,
    question: Question,
    settings: RecallSettings,
    faded: Faded,
    reach: int,
    walk: asyncio.Task[Walk] | None,
) -> tuple[Ranked, bool]:
    """The ranked facts, and whether everything that could match was looked at."""
    wide = max(question.k, LEAST) * reach
    limit = settings.expansion * wide
    (heard, lexical), (near, is_near_all) = await asyncio.gather(
        _lexical(tables["messages"], question, limit, settings.neighbours), _by_meaning(tables, question, limit)
    )
    compared = [*zip(heard["id"], _cosines(heard, question.vector), strict=True), *near.iter_rows()]
    scores = message_scores(lexical, compared, settings.vector_weight)
    top = [*scores][: MESSAGES_PER_FACT * wide]
    is_all = len(heard) < limit and is_near_all and {message for message, _ in compared} <= {*top}
    met = await walk if walk is not None else NO_WALK
    facts, evidence = await candidates(tables, top, question, met)
    if not question.moment.is_past and (low := await faded.among(tables, facts["id"].to_list())):
        facts = facts.filter(~pl.col("id").is_in(low))
    overlaps = word_overlaps(question.text, facts["statement"].to_list())
    measured = dict(zip(facts["id"], zip(_cosines(facts, question.vector), overlaps, strict=True), strict=True))
    told = [Evidence(fact, message, *measured[fact]) for fact, message in evidence if fact in measured]
    order = _each_sentence_once(rank_facts(told, lexical, settings.vector_weight), facts)
    return Ranked(order, facts, heard.select(MESSAGE), scores), is_all


async def _lexical(
    messages: AsyncTable, question: Question, limit: int, neighbours: float
) -> tuple[pl.DataFrame, dict[str, float]]:
    """The messages that match in words, and the lexical scores of these and, by a share, of the turns beside them."""
    heard = await _by_words(messages, question, limit)
    lexical = lexical_scores(dict(heard.select("id", "_score").iter_rows()))
    if neighbours:
        loudest = heard.sort("_score", "id", descending=[True, False]).head(LOUDEST)
        lexical = with_neighbours(lexical, await _beside(messages, loudest), neighbours)
    return heard, lexical


async def _beside(messages: AsyncTable, heard: pl.DataFrame) -> list[tuple[str, str]]:
    """The turns right before and after these, as pairs of messages (of `heard`, beside it)."""
    placed = heard.select("conversation_id", "ordinal", heard="id").drop_nulls()
    turns = pl.concat([placed.with_columns(pl.col("ordinal") + step) for step in (-1, 1)])
    if turns.is_empty():
        return []
    talks = ", ".join(map(quoted, turns["conversation_id"].unique().sort()))
    places = ", ".join(map(str, turns["ordinal"].unique().sort()))
    query = messages.query().where(f"conversation_id IN ({talks}) AND ordinal IN ({places})")
    found = _frame(await query.select(["id", "conversation_id", "ordinal"]).to_arrow())
    return turns.join(found, on=["conversation_id", "ordinal"]).select("heard", "id").rows()


def _each_sentence_once(order: Iterable[Recalled], facts: pl.DataFrame) -> list[Recalled]:
    """Of facts that were read from one sentence, only the best: it would be told twice."""
    sentences = zip(facts["message_id"], facts["statement"], strict=True)
    said = dict(zip(facts["id"], sentences, strict=True))
    kept: dict[tuple[str, str], Recalled] = {}
    for place in order:
        if place.fact_id is not None:
            kept.setdefault(said[place.fact_id], place)
    return list(kept.values())


async def _by_words(messages: AsyncTable, question: Question, limit: int) -> pl.DataFrame:
    """The messages whose text, with the turn before, matches best: _HEARD and _score."""
    asked = words(prose(question.text), QUERY_BYTES)
    if not asked:
        return empty_frame("messages", len(question.vector)).select(*_HEARD, _score=pl.lit(0.0))
    query = await messages.search(asked, query_type="fts", fts_columns="search_text")
    if question.scope is not None:
        query = query.where(f"scope = {quoted(question.scope)}")
    return _frame(await query.limit(limit).select([*_HEARD, "_score"]).to_arrow())


async def _by_meaning(tables: Tables, question: Question, limit: int) -> tuple[pl.DataFrame, bool]:
    """Messages of the facts nearest in meaning (message_id, cosine), and whether there are no others."""
    if not question.has_meaning:
        return pl.DataFrame(schema={"message_id": pl.String, "cosine": pl.Float64}), True
    parts = await asyncio.gather(*(_nearest(tables[name], question, limit) for name in question.tables))
    return pl.concat([near for near, _ in parts]), all(is_all for _, is_all in parts)


async def _nearest(facts: AsyncTable, question: Question, limit: int) -> tuple[pl.DataFrame, bool]:
    """Of one table.

    The status is looked at afterwards, which costs less than a filter while most facts are live, and everything about
    liveness is asked for in the query when too few are left, or when the question is about another time or a scope.
    """
    columns = ["message_id", "_distance", "status"]
    query = facts.query().nearest_to(question.vector).column("vector").distance_type("dot").limit(limit).select(columns)
    if not question.is_narrow:
        found = _frame(await query.nprobes(_PROBES).to_arrow())
        active = found.filter(pl.col("status") == "active")
        if len(active) >= limit // 2:
            return _near(active), len(found) < limit
    exact = _frame(await query.where(question.where).minimum_nprobes(_PROBES).maximum_nprobes(0).to_arrow())
    return _near(exact), len(exact) < limit


def _near(found: pl.DataFrame) -> pl.DataFrame:
    return found.select("message_id", cosine=1.0 - pl.col("_distance").cast(pl.Float64))


def _cosines(rows: pl.DataFrame, vector: Vector) -> list[float]:
    """Of rows with a vector to it; 0 for those without. Rounded, so that equal rows tie wherever they lie."""
    products = np.nan_to_num(rows["vector"].to_numpy().reshape(-1, len(vector))) @ vector
    cosines: list[float] = products.astype(np.float64).round(6).tolist()
    return cosines


def _frame(rows: object) -> pl.DataFrame:
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    return frame

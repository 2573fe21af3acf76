"""Search: the words of messages and the meaning of facts, in one order.

Two rounds of reads: full text over messages beside vectors over facts, then everything about the messages that look
best, and the facts that a walk along relations came by. `recall.order` says why these two channels, how they
are put together, and what becomes of the scores afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from types import MappingProxyType

import numpy as np
import polars as pl

from slowwave.common.frames import of_arrow
from slowwave.common.lexicon.labels import UNRELATED
from slowwave.common.lexicon.languages import without_asking
from slowwave.common.settings import RecallSettings
from slowwave.common.text import prose, signs_of
from slowwave.common.words import stems, with_spellings
from storage.columns import best_scores, index_terms
from storage.residents import Condition, ResidentSpec, Row
from storage.rows import lasting_columns, quoted
from storage.search import words
from storage.warm import Tables, found_in, with_cosines

from .contrast import contrasted, cosines_of
from .ended import holds, live_successors, near_and_ended, raised_by_ended
from .order import (
    QUOTED,
    Evidence,
    RankedFact,
    Step,
    full_match,
    is_quotation,
    lexical_scores,
    message_scores,
    rank_facts,
    with_neighbours,
    word_overlaps,
)
from .question import FACT, PAST, Faded, Question, Vector, possible_answers

TABLES = (
    "messages", "facts", "fact_evidence", "entities", "pair_decisions", "facts_archive", "fact_scores", "metadata"
)  # fmt: skip
PAST_TABLES = (*TABLES, "decisions")
QUERY_BYTES = 1000  # a longer query costs full-text search milliseconds and finds nothing more
MESSAGES_PER_FACT = 2
FULL = 3  # content words of a quotation from which on its meaning counts in full; of 1, 3, 4 and 6 it finds most
FARTHEST = 64  # times the usual reach
MOST_TERMS = 32  # words of a question that are looked for by a query without an index
MOST_TEXTS = 500  # texts with these words that are compared with the question, unless more are wanted
SCANNED_MATCHES = 200_000  # messages with such words that are read
SCANNED_FACTS = 3_000_000  # beyond it the general words are not read for a question
LOUDEST = 5  # matching messages whose neighbours are looked at; those of thirty find no more
LEADING, REPLIES, PASSED_ON, SHORT = 8, 4, 0.95, 80
"""Of so many best messages the next turns, so many of each, are looked at: "90 minutes" has no word of the question
that it answers, nor its meaning. What a user says there in at most SHORT characters counts as the leading message,
less PASSED_ON for each turn. Of coding sessions that nobody read, blocks have the newest state of .905 of what changed
(without it .667; two turns .714, three .905; at .9 .81); conversations of people are as before."""
_PROBES = 20
IN_PERIOD = 0.5
"""Added to the score of facts and messages that are of the period which the question names: half a match of all words.
A factor would leave behind what shares nothing else with "What happened in October?"."""
MESSAGE = ("id", "conversation_id", "message_id", "occurred_at")
_PLACE = (*MESSAGE, "ordinal")
_FACT_STATE = ("consolidated_at", "consolidation_attempts", "patch_batch_id")
_MESSAGE_STATE = ("graph_state", "attempts", "read_by")
_MESSAGE_COLUMNS = (*_PLACE, "role", "speaker", "content", "created_at", "scope", "has_injection", *_MESSAGE_STATE)
RESIDENT = {
    "messages": ResidentSpec(_MESSAGE_COLUMNS, words="search_text", has_vectors=True, is_compared=False),
    "facts": ResidentSpec(
        (*FACT, *PAST, "kind", "owner_entity_id", "statement_hash", *_FACT_STATE),
        words="search_terms",
        has_vectors=True,
        end="valid_to",
        followed=("mentions", "edge_type"),
    ),
    "facts_archive": ResidentSpec((*FACT, *PAST, "statement_hash"), has_vectors=True, end="valid_to"),
    "fact_evidence": ResidentSpec(tuple(lasting_columns("fact_evidence"))),
    "entity_aliases": ResidentSpec(("id", "alias_name", "entity_type", "entity_id")),
    "entities": ResidentSpec(tuple(lasting_columns("entities")), has_vectors=True, followed=("updated_at",)),
}
"""The parts of a namespace that are kept in memory, if it is not too large, so that a question makes no query."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """The ranked facts, and by id the rows (NEEDED and more) and vectors of all that were compared.

    `messages` are rows of those that were read on the way; `scores` those of the messages that may answer themselves,
    best first; `matches` how well these match without what a period adds, words and meaning at most 1 each.
    """

    order: list[RankedFact]
    facts: Mapping[str, Row]
    vectors: Mapping[str, Vector]
    messages: Mapping[str, Row]
    scores: Mapping[str, float]
    matches: Mapping[str, float]


def together(found: Sequence[Ranked]) -> Ranked:
    """What several wordings of one question found: each fact and message with its best score, best first."""
    if len(found) == 1:
        return found[0]
    best: dict[str, RankedFact] = {}
    for one in sorted((place for ranked in found for place in ranked.order), key=lambda place: -place.score):
        best.setdefault(one.fact_id or one.sources[0], one)
    facts, vectors, messages = (
        {name: row for ranked in reversed(found) for name, row in getattr(ranked, kind).items()}
        for kind in ("facts", "vectors", "messages")
    )
    scores = _best(ranked.scores for ranked in found)
    scores = dict(sorted(scores.items(), key=lambda pair: (-pair[1], pair[0])))
    return Ranked([*best.values()], facts, vectors, messages, scores, _best(ranked.matches for ranked in found))


def _best(scores: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The best score of each message."""
    best: dict[str, float] = {}
    for each in scores:
        for message, score in each.items():
            best[message] = max(score, best.get(message, 0.0))
    return best


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
        if is_all or len(ranked.order) >= question.ranked or reach >= FARTHEST:
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
    wide = question.ranked * reach
    limit = settings.expansion * wide
    *views, worded = await tables.together(
        *(_matches(tables, view, limit) for view in question.views), _by_terms(tables, question, wide)
    )
    found = views[0] if len(views) == 1 else _joined(views)
    lexical = await _lexical(tables, question, found, settings.neighbours)
    compared = [*zip(found.messages, cosines_of(found.vectors, question.vector), strict=True), *found.near]
    of_period = {name for view in views[1:] for name in (*view.messages, *(message for message, _ in view.near))}
    scores = message_scores(lexical, compared, dict.fromkeys(of_period, IN_PERIOD))
    matches = message_scores(lexical, compared) if of_period else scores
    top = [*scores][: MESSAGES_PER_FACT * wide]
    is_all = found.is_all and {message for message, _ in compared} <= {*top}
    replies = await _replies(tables, scores, matches, found.messages)
    top += [message for message in replies if message not in scores]
    met = await walk if walk is not None else NO_WALK
    facts, evidence = await possible_answers(tables, top, question, {*met, *worded, *found.ended})
    low: Collection[str] = ()
    if not question.moment.is_past:
        low = await faded.among(tables, [row["id"] for row in facts.rows])
    rows = {row["id"]: row for row in facts.rows if row["id"] not in low}
    ended = {name: row for name, row in rows.items() if question.compares_ended and not holds(row, question.moment.now)}
    vectors = {row["id"]: vector for row, vector in zip(facts.rows, facts.vectors, strict=True)}
    near = zip(facts.rows, contrasted(facts.vectors, question.vector, facts.rows), strict=True)
    cosines = {row["id"]: cosine * _fullness(row["statement"]) for row, cosine in near}
    texts = [_searched(row) for row in rows.values()]
    shared = word_overlaps(question.content, texts)
    weights = (QUOTED if is_quotation(row["statement"]) else 1.0 for row in rows.values())
    overlaps = {name: share * weight for name, share, weight in zip(rows, shared, weights, strict=True)}
    stated = [Evidence(fact, message, cosines[fact], overlaps[fact]) for fact, message in evidence if fact in rows]
    order = rank_facts([one for one in stated if one.fact_id not in ended], lexical)
    order = _with_replies(order, rows, replies)
    if ended:
        rows = {name: row for name, row in rows.items() if name not in ended}
        last, more = await live_successors(tables, question, faded, [*ended.values()], rows)
        rows |= {row["id"]: row for row in more.rows}
        vectors |= {row["id"]: vector for row, vector in zip(more.rows, more.vectors, strict=True)}
        matched = rank_facts([one for one in stated if one.fact_id in ended], lexical)
        order = raised_by_ended(order, matched, last, rows)
    order = _each_sentence_once(order, rows)
    return Ranked(order, rows, vectors, found.messages, scores, matches), is_all


def _fullness(statement: str) -> float:
    """How much the meaning of a fact counts: a quotation of one or two words is near whatever names its speaker."""
    if not is_quotation(statement):
        return 1.0
    return min(len(stems(statement.partition(": ")[2] or statement)) / FULL, 1.0)


def _searched(fact: Row) -> str:
    """The words of a fact: its statement, its general words, and its relation: moving to Faro says lives_in."""
    relates = fact["predicate"] not in UNRELATED and fact["polarity"] != "negated"
    relation = (fact["predicate"] or "").replace("_", " ") if relates else ""
    return f"{fact['statement']} {fact['search_terms'] or ''} {relation}"


@dataclass(frozen=True, slots=True)
class _Matches:
    """Messages that match in words, by id, best first, with their BM25 and (n, d) vectors; `near` those by meaning.

    `ended` are facts near in meaning that have ended; `is_all` says whether no others match.
    """

    messages: Mapping[str, Row]
    scores: Mapping[str, float]
    vectors: Vector
    near: Sequence[tuple[str, float]] = ()
    ended: Collection[str] = ()
    is_all: bool = False


async def _matches(tables: Tables, question: Question, limit: int) -> _Matches:
    """What matches in words and what is near in meaning."""
    found: _Matches
    found, (near, ended, is_near_all) = await tables.together(
        _by_words(tables, question, limit), _by_meaning(tables, question, limit)
    )
    return replace(found, near=near, ended=ended, is_all=len(found.messages) < limit and is_near_all)


def _joined(views: Sequence[_Matches]) -> _Matches:
    """The matches of several views of a question, each message once, scored as in the first that has it."""
    messages = {name: row for view in views for name, row in view.messages.items()}
    vectors = {name: row for view in views for name, row in zip(view.messages, view.vectors, strict=True)}
    scores = {name: score for view in reversed(views) for name, score in view.scores.items()}
    stacked = np.stack([vectors[name] for name in messages]) if messages else views[0].vectors
    near = [pair for view in views for pair in view.near]
    ended = {name for view in views for name in view.ended}
    return _Matches(messages, scores, stacked, near, ended, all(view.is_all for view in views))


async def _lexical(tables: Tables, question: Question, matches: _Matches, neighbours: float) -> dict[str, float]:
    """The lexical scores of the messages that match in words and, by a share, of the turns beside them."""
    resident = tables.residents.get("messages")
    size = len(resident) if resident is not None else await (await tables.table("messages")).count_rows()
    lexical = lexical_scores(matches.scores, full_match(prose(question.content), size))
    if neighbours:
        loudest = sorted(matches.scores, key=lambda name: (-matches.scores[name], name))[:LOUDEST]
        turns = await _turns(tables, [matches.messages[name] for name in loudest], (-1, 1))
        lexical = with_neighbours(lexical, [(name, turn["id"]) for name, _, turn in turns], neighbours)
    return lexical


async def _turns(
    tables: Tables, rows: Iterable[Row], steps: Sequence[int], columns: Sequence[str] = ()
) -> list[tuple[str, int, Row]]:
    """The turns so many steps from these messages: (message, step, turn)."""
    wanted: dict[tuple[str, int], list[tuple[str, int]]] = {}
    for row in rows:
        if row["conversation_id"] is not None and row["ordinal"] is not None:
            for step in steps:
                wanted.setdefault((row["conversation_id"], row["ordinal"] + step), []).append((row["id"], step))
    if not wanted:
        return []
    found = await tables.at_turns("messages", [*wanted], ["id", "conversation_id", "ordinal", *columns])
    return [
        (name, step, turn)
        for turn in found
        for name, step in wanted.get((turn["conversation_id"], turn["ordinal"]), ())
    ]


async def _replies(
    tables: Tables, scores: Mapping[str, float], matches: Mapping[str, float], known: Mapping[str, Row]
) -> dict[str, float]:
    """Short messages of users that follow the best messages, with what the match of these passes on to them."""
    best = [*islice(scores, LEADING)]
    read = await tables.rows("messages", "id", [name for name in best if name not in known], _PLACE)
    leading = [*read, *(known[name] for name in best if name in known)]
    passed: dict[str, float] = {}
    for name, step, turn in await _turns(tables, leading, range(1, REPLIES + 1), ["role", "content"]):
        if turn["role"] == "user" and len(turn["content"] or "") <= SHORT:
            passed[turn["id"]] = max(passed.get(turn["id"], 0.0), matches[name] * PASSED_ON**step)
    return passed


def _with_replies(order: list[RankedFact], facts: Mapping[str, Row], replies: Mapping[str, float]) -> list[RankedFact]:
    """The facts with what is passed on to quotations of short replies, where it is more; sorted again."""
    raised = []
    for place in order:
        passed = max(replies.get(source, 0.0) for source in place.sources)
        if passed > place.score and place.fact_id and is_quotation(facts[place.fact_id]["statement"]):
            raised.append(replace(place, score=passed, parts={**place.parts, "reply": passed, "search": passed}))
        else:
            raised.append(place)
    return sorted(raised, key=lambda place: -place.score)


def _each_sentence_once(order: Iterable[RankedFact], facts: Mapping[str, Row]) -> list[RankedFact]:
    """Of facts that were read from one sentence, only the best: the sentence would come twice."""
    kept: dict[tuple[str, str], RankedFact] = {}
    for place in order:
        if place.fact_id is not None:
            row = facts[place.fact_id]
            kept.setdefault((row["message_id"], row["statement"]), place)
    return list(kept.values())


async def _by_words(tables: Tables, question: Question, limit: int) -> _Matches:
    """The messages whose text, with the turn before, matches best.

    Who speaks seldom says their own name: of a name that most facts are about, a message that says it tells nothing. By
    queries its words count as any others, and the scores of messages that are not in the index yet depend on the
    filter, by some hundredths of each.
    """
    terms = words(with_spellings(without_asking(prose(question.text))), QUERY_BYTES)
    if not terms:
        return _Matches({}, {}, np.zeros((0, len(question.vector)), np.float32))
    within = question.of_messages
    resident = tables.residents.get("messages")
    if resident is not None:
        holding = {term: round(share * len(resident)) for word, share in question.named
                   for term in index_terms(word)}  # fmt: skip
        places, scores = resident.matching(terms, limit, within, holding)
        rows = resident.rows(places, _PLACE)
        return _Matches({row["id"]: row for row in rows}, _by_id(rows, scores), resident.vectors(places))
    query = await (await tables.table("messages")).search(terms, query_type="fts", fts_columns="search_text")
    query = query.where(within.sql) if within is not None else query
    found = of_arrow(await query.limit(limit).select([*_PLACE, "vector", "_score"]).to_arrow())
    if signs := signs_of(terms):
        found = await _with_signs(tables, found, signs, within, limit)
    matched = found_in(found)
    scores = [row["_score"] for row in matched.rows]
    return _Matches({row["id"]: row for row in matched.rows}, _by_id(matched.rows, scores), matched.vectors)


async def _with_signs(
    tables: Tables, found: pl.DataFrame, signs: str, within: Condition | None, limit: int
) -> pl.DataFrame:
    """The matches with those of scripts without spaces, which the index takes for one long word.

    Of the messages with a word of the question only those that say its rarest words are compared, and only those that
    are best get their vectors.
    """
    alone = signs.split()
    searched = [word for word in index_terms(signs) if len(word) > 1 or word in alone]
    where = "true" if within is None else within.sql
    more = await _saying(tables, "messages", "search_text", searched, signs, where, limit, SCANNED_MATCHES)
    both = pl.concat([found.select("id", "_score"), more]).group_by("id").agg(pl.col("_score").sum())
    best = both.sort("_score", "id", descending=[True, False]).head(limit)
    known = found.drop("_score")
    other = best.join(known, on="id", how="anti")["id"].to_list()
    read = await tables.fetch("messages", "id", other, known.columns)
    return best.join(pl.concat([known, read]), on="id", maintain_order="left")


async def _by_terms(tables: Tables, question: Question, limit: int) -> list[str]:
    """Ids of the facts that have most of the question's words among their general words, at most `limit`.

    A question in another language than a message shares words with these alone. Without the columns in memory they are
    looked for in all facts, so none are in a memory of more than `SCANNED_FACTS`.
    """
    terms = words(with_spellings(prose(question.content)), QUERY_BYTES)
    resident = tables.residents.get("facts")
    if resident is not None:
        places, _ = resident.matching(terms, limit, question.searched)
        return resident.values("id", places)
    searched = index_terms(terms)
    if not searched or await (await tables.table("facts")).count_rows() > SCANNED_FACTS:
        return []
    rows = await _saying(tables, "facts", "search_terms", searched, terms, question.searched.sql, limit, None)
    return rows.sort("_score", "id", descending=[True, False])["id"].head(limit).to_list()


async def _saying(
    tables: Tables, name: str, column: str, searched: Sequence[str], text: str, where: str, limit: int, most: int | None
) -> pl.DataFrame:
    """(id, _score) by BM25 of rows, at most `most`, whose column contains some of these words of a text."""
    says = " OR ".join(f"contains({column}, {quoted(word)})" for word in [*dict.fromkeys(searched)][:MOST_TERMS])
    table = await tables.table(name)
    query = table.query().where(f"({says or 'false'}) AND ({where})").select(["id", column])
    rows, size = await tables.together((query if most is None else query.limit(most)).to_arrow(), table.count_rows())
    texts = of_arrow(rows)
    (scores,) = await asyncio.to_thread(best_scores, texts[column], [text], size, max(MOST_TEXTS, limit))
    return texts.select("id", _score=pl.Series(scores, dtype=pl.Float32)).filter(pl.col("_score") > 0)


def _by_id(rows: Sequence[Row], values: Sequence[float]) -> dict[str, float]:
    return {row["id"]: value for row, value in zip(rows, values, strict=True)}


_COMPARED = ["id", "message_id", "_distance", "status", "valid_from", "valid_to"]
_Near = tuple[list[tuple[str, float]], list[str], bool]
"""Messages of the facts nearest in meaning (message_id, cosine), ids of those that have ended, whether it is all."""


async def _by_meaning(tables: Tables, question: Question, limit: int) -> _Near:
    """What is nearest in meaning, of all tables."""
    if not question.has_meaning:
        return [], [], True
    parts = await tables.together(*(_nearest(tables, name, question, limit) for name in question.tables))
    near, ended = ([one for part in parts for one in part[place]] for place in (0, 1))
    return near, ended, all(part[2] for part in parts)


async def _nearest(tables: Tables, name: str, question: Question, limit: int) -> _Near:
    """Of one table.

    By queries, the status is looked at afterwards, which costs less than a filter while most facts are live, and
    everything about liveness is asked for in the query when too few are left, or when the question is about another
    time or a scope.
    """
    resident = tables.residents.get(name)
    if resident is not None:
        places, cosines = resident.nearest(question.vector, limit, question.searched)
        are_live = resident.mask(question.condition)[places]
        ended = resident.values("id", places[~are_live])
        size = len(places)
        if ended and size - len(ended) < limit // 2:
            places, cosines = resident.nearest(question.vector, limit, question.condition)
            are_live = np.ones(len(places), np.bool_)
        both = zip(resident.values("message_id", places), cosines, are_live.tolist(), strict=True)
        return [(message, cosine) for message, cosine, is_live in both if is_live], ended, size < limit
    if not question.is_narrow:
        query = (await tables.nearest(name, question.vector, limit)).select(_COMPARED)
        found = with_cosines(await query.nprobes(_PROBES).to_arrow())
        near, ended = near_and_ended(found, question)
        if len(near) >= limit // 2:
            return near, ended, len(found) < limit

    async def exact(where: str) -> pl.DataFrame:
        query = (await tables.nearest(name, question.vector, limit)).select(_COMPARED).where(where)
        return with_cosines(await query.minimum_nprobes(_PROBES).maximum_nprobes(0).to_arrow())

    found = await exact(question.searched.sql)
    near, ended = near_and_ended(found, question)
    if ended and len(near) < limit // 2:
        near, _ = near_and_ended(await exact(question.where), question)
    return near, ended, len(found) < limit

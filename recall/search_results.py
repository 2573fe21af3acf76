"""From what search compared to an answer: the order of facts, their names and provenance, and passages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain, islice

import numpy as np
import polars as pl

from slowwave.common.settings import LimbicSettings, RecallSettings
from slowwave.common.text import FORGOTTEN
from slowwave.common.types import Passage, RecalledFact
from slowwave.common.validity import Moment
from slowwave.common.words import stems
from slowwave.facts.searched_texts import OBSERVATIONS
from storage.quotations import QUOTES
from storage.residents import Row
from storage.warm import Tables

from .doubts import doubts
from .facts import ALL, EVIDENCE, NameCache, provenance, recalled
from .loop import Kept
from .order import (
    WHOLE,
    RankedFact,
    diversified,
    entities_named,
    fuse,
    is_covered,
    named_in,
    only_asks,
    passage_of,
    raised,
    walk_shares,
    weighted,
    word_overlaps,
    words_of,
)
from .question import FACT_TIMES, Period, Question
from .search import IN_PERIOD, MESSAGE, Ranked, Walk
from .use import Known, fact_factors


async def final_order(
    tables: Tables,
    question: Question,
    settings: RecallSettings,
    found: Ranked,
    walk: Walk,
    use: Kept[Known],
    names: NameCache,
) -> Ranked:
    """At most `k` facts in their final order."""
    order = fuse(found.order, _along_named(found, walk_shares(walk), question.text), settings.graph_weight)
    if settings.others_weight < 1.0:
        order = await _about(tables, order, found, question, settings.others_weight, names)
    elsewhere = _elsewhere(question.text, {name: row["scope"] for name, row in found.facts.items()})
    if elsewhere:
        order = weighted(order, {name: {"scope": OTHER_SCOPE} for name in elsewhere}, "scope")
    if question.period is not None:
        order = raised(order, _of_period(found, question.period), IN_PERIOD, "period")
    if settings.limbic and order:
        order = weighted(order, await _use(tables, found, use, question, settings.use), "limbic")
    if question.conversation:
        order = weighted(order, _current(order, found, question), "episode")
    vectors = np.empty((0, 0), np.float32)
    if settings.diversity and order:
        vectors = np.stack([found.vectors[fact.fact_id] for fact in order if fact.fact_id])
    return replace(found, order=diversified(order, vectors, settings.diversity, question.k))


async def _use(
    tables: Tables, found: Ranked, use: Kept[Known], question: Question, settings: LimbicSettings
) -> dict[str, dict[str, float]]:
    """What the entities of all facts that were compared weigh among each other, by fact."""
    known = await use.of(tables)
    ends = [(name, row["subject_id"], row["object_id"]) for name, row in found.facts.items()]
    entities = {end for _, *both in ends for end in both if end}
    return fact_factors(ends, known.factors(entities, question.moment.now, settings))


async def _about(
    tables: Tables, order: list[RankedFact], found: Ranked, question: Question, weight: float, names: NameCache
) -> list[RankedFact]:
    """Where the question names people, facts about somebody else stand behind facts about them and about things."""
    ends = {name: (row["subject_id"], row["object_id"]) for name, row in found.facts.items()}
    people = await names.of_people(tables, {end for both in ends.values() for end in both if end})
    named = entities_named(question.text, people)
    if not named:
        return order
    others = (name for name, both in ends.items() if both[0] in people and named.isdisjoint(both))
    return weighted(order, {name: {"about": weight} for name in others}, "about")


def _elsewhere(question: str, scopes: Mapping[str, str | None]) -> set[str]:
    """Those of these rows, id → scope, that are of another project than those which the question names."""
    projects = {name: scope for name, scope in scopes.items() if scope and scope != "global"}
    by_words: dict[tuple[str, ...], list[str]] = {}
    for scope in {*projects.values()}:
        by_words.setdefault(words_of(scope), []).append(scope)
    named = {*named_in(question, by_words)}
    return {name for name, scope in projects.items() if named and scope not in named}


def _along_named(found: Ranked, walk: Walk, question: str) -> Walk:
    """The walk; what a relation led to that the question names ("where does she work": works_at) counts in full."""
    words = stems(question)
    relations = {name: found.facts[name]["predicate"] or "" for name in walk if name in found.facts}
    named = {name for name, relation in relations.items() if words & stems(relation.replace("_", " "))}
    return {name: step._replace(score=1.0) if name in named else step for name, step in walk.items()}


def _of_period(found: Ranked, period: Period) -> set[str]:
    """The facts of the period that a question names: said or begun in it, or a relation that held at a time in it."""
    return {
        name
        for name, row in found.facts.items()
        if any(period.covers(row[column]) for column in FACT_TIMES)
        or ((row["object_id"], row["object_text"]) != (None, None) and period.meets(row["valid_from"], row["valid_to"]))
    }


OTHER_SCOPE = 0.6  # what a line of another project counts where the question names one
EPISODE_BOOST = 0.1  # what a fact of the conversation gains that is asked in (S2-74)


def _current(order: Sequence[RankedFact], found: Ranked, question: Question) -> Mapping[str, Mapping[str, float]]:
    """The factor of facts that the conversation says which is going on: one of their messages is of it (S2-74)."""
    rows = ((fact.fact_id, {*fact.sources, found.facts[fact.fact_id]["message_id"]}) for fact in order if fact.fact_id)
    return {name: {"episode": 1.0 + EPISODE_BOOST * (not question.conversation.isdisjoint(by))} for name, by in rows}


async def with_sources(
    tables: Tables, ranked: Ranked, moment: Moment, names: NameCache, conflicts: Kept[pl.DataFrame]
) -> tuple[RecalledFact, ...]:
    """The facts in their order; of their messages, the one that matches best comes first."""
    places = {place.fact_id: place for place in ranked.order if place.fact_id}
    rows = [ranked.facts[name] for name in places]
    formers = {name: place.former for name, place in places.items() if place.former}
    ends = {end for row in rows for end in (row["subject_id"], row["object_id"]) if end is not None}
    evidence, called, messages, doubtful = await tables.together(
        _evidence(tables, rows),
        names.of(tables, ends),
        _messages(tables, ranked.messages, {row["message_id"] for row in rows}),
        doubts(tables, rows, conflicts, moment, formers),
    )
    messages = await _messages(tables, messages, {row["message_id"] for row in evidence})
    return recalled(rows, called, provenance(evidence, messages), places, doubtful)


async def _evidence(tables: Tables, rows: Sequence[Row]) -> list[Row]:
    """Who says the facts; what only one message says stands in the fact itself."""
    own: list[Row] = [
        {"fact_id": row["id"], "message_id": row["message_id"], "quote": row["quote"], "occurred_at": None}
        for row in rows
        if (row["evidence_count"] or 1) <= 1
    ]
    several = [row["id"] for row in rows if (row["evidence_count"] or 1) > 1]
    return [*own, *(await tables.rows("fact_evidence", "fact_id", several, EVIDENCE) if several else ())]


async def _messages(tables: Tables, known: Mapping[str, Row], ids: Iterable[str | None]) -> Mapping[str, Row]:
    """The messages that are known, and of `ids` those that are not known yet."""
    missing = [name for name in ids if name is not None and name not in known]
    if not missing:
        return known
    return {**known, **{row["id"]: row for row in await tables.rows("messages", "id", missing, MESSAGE)}}


# Passages: pieces of the messages that match a question, read with their text (`recall.order`).


OVERLAP_WEIGHT = 0.5
"""Of the words that a passage shares with the question: it decides between messages that are close."""
WITHOUT_FACTS, WITH_FACTS = 0.8, 0.5
"""What the score of a passage counts beside that of a fact, and where facts of its message are recalled, too: a
passage takes the room of three facts. Chosen on the development conversations, read by a model."""
NOTHING_KEPT = 0.7
"""Of a passage of somebody's message that a model read and kept no fact of: most cheer or ask in return."""
STALE = 0.5
"""Share of a passage's content words from which on what no longer holds counts as what it says."""
ROLES = ("user", "assistant", "document")
MOST = 30
"""Passages at most; no block has room for more."""
MAY_BE_SHOWN = ("id", "role", "occurred_at", "created_at", "scope", "has_injection")
_SHOWN = ("id", "conversation_id", "message_id", "role", "speaker", "content", "occurred_at", "read_by")
_FACT = ("id", "message_id", "statement", "status", "valid_to", "expired_at")
_UNDECIDED = ("active", "candidate", "rejected")


async def passages(tables: Tables, question: Question, ranked: Ranked, limit: int) -> tuple[Passage, ...]:
    """The best passage of each of the `limit` messages that match best, at most `MOST`, best first.

    None of a message that gives orders to its reader, of another scope, or from after the moment that is asked about;
    none that says what no longer holds, and none where only facts about some entities are wanted.
    """
    if question.about is not None or not limit:
        return ()
    limit = min(limit, MOST)
    wanted = [*ranked.scores] if question.is_narrow else [*islice(ranked.scores, 4 * limit)]
    read = await tables.rows("messages", "id", wanted, MAY_BE_SHOWN)
    may = {row["id"] for row in read if may_be_shown(row, question)}
    elsewhere = _elsewhere(question.text, {row["id"]: row["scope"] for row in read})
    best = [message for message in wanted if message in may][:limit]
    rows, facts = await tables.together(tables.rows("messages", "id", best, _SHOWN), _facts_of(tables, best))
    texts = [passage_of(question.text, row["content"] or "") for row in rows]
    overlaps = word_overlaps(question.content, texts)
    over, live = _statements_of(facts, question.moment)
    with_facts = {message for message, _ in facts}
    made = []
    for row, text, overlap in zip(rows, texts, overlaps, strict=True):
        gone, holds = over.get(row["id"], ()), live.get(row["id"], ())
        is_stale = bool(gone) and is_covered(text, gone, STALE) and not is_covered(text, holds, STALE)
        is_undecided = row["conversation_id"] == OBSERVATIONS and not holds  # what is stated is nothing but its fact
        if not text.replace(FORGOTTEN, "").strip() or only_asks(text) or is_stale or is_undecided:
            continue
        more = OVERLAP_WEIGHT * overlap
        share = OTHER_SCOPE if row["id"] in elsewhere else 1.0
        if row["role"] == "user" and row["id"] not in with_facts and row["read_by"] not in (None, QUOTES):
            share *= NOTHING_KEPT
        score, match = share * (ranked.scores[row["id"]] + more), share * (ranked.matches[row["id"]] + more)
        who, source = row["speaker"] or "", (row["conversation_id"], row["message_id"])
        is_long = len((row["content"] or "").strip()) > WHOLE
        made.append(Passage(*source, row["role"], who, text, row["occurred_at"], round(score, 6), match, is_long))
    return tuple(sorted(made, key=_place))


async def _facts_of(tables: Tables, messages: list[str]) -> list[tuple[str, Row]]:
    """(message, fact) for every fact that each message says, wherever it lies."""
    evidence = await tables.rows("fact_evidence", "message_id", messages, ["fact_id", "message_id"])
    keys = (("message_id", messages), ("id", sorted({row["fact_id"] for row in evidence})))
    parts = await tables.together(*(tables.rows(name, key, ids, _FACT) for name in ALL for key, ids in keys))
    facts: dict[str, Row] = {}
    for row in chain.from_iterable(parts):
        facts.setdefault(row["id"], row)
    pairs = dict.fromkeys((row["message_id"], name) for name, row in facts.items())
    pairs |= dict.fromkeys((row["message_id"], row["fact_id"]) for row in evidence if row["fact_id"] in facts)
    return [(message, facts[name]) for message, name in pairs]


def _statements_of(
    facts: Sequence[tuple[str, Row]], moment: Moment
) -> tuple[Mapping[str, list[str]], Mapping[str, list[str]]]:
    """By message: the statements that are over, and those that hold."""
    over: dict[str, list[str]] = {}
    live: dict[str, list[str]] = {}
    for message, row in facts:
        if _is_over(row, moment):
            over.setdefault(message, []).append(row["statement"])
        elif row["status"] == "active":
            live.setdefault(message, []).append(row["statement"])
    return over, live


def _is_over(fact: Row, moment: Moment) -> bool:
    """What had ended at the moment, or is retired, archived or taken back; what waits or was refused says nothing."""
    known = moment.known_as_of or moment.now
    status: str = fact["status"]
    ended: datetime | None = fact["valid_to"]
    expired: datetime | None = fact["expired_at"]
    if status in _UNDECIDED[1:]:
        return False
    if ended is not None and ended <= (moment.as_of or known):
        return True
    if moment.as_of is not None and status != "retracted":
        return False
    return expired <= known if expired is not None else status != "active"


def passages_beside_facts(found: Sequence[Passage], facts: Sequence[RecalledFact]) -> tuple[Passage, ...]:
    """The passages whose content is in no fact of the same message, with scores that compare with the facts'."""
    statements: dict[tuple[str, str], list[str]] = {}
    for fact in facts:
        for source in fact.provenance:
            statements.setdefault((source.conversation_id, source.message_id), []).append(fact.statement)
    kept = []
    for passage in found:
        own = statements.get((passage.conversation_id, passage.message_id), [])
        if not is_covered(passage.text, own):
            share = WITH_FACTS if own else WITHOUT_FACTS
            match = None if passage.match is None else share * passage.match
            kept.append(replace(passage, score=round(share * passage.score, 6), match=match))
    return tuple(sorted(kept, key=_place))


def _place(passage: Passage) -> tuple[float, str, str]:
    return (-passage.score, passage.conversation_id, passage.message_id)


def may_be_shown(message: Row, question: Question) -> bool:
    """Whether a message gives no orders to its reader, and is of the scope and the time of a question."""
    moment = question.moment
    if message["role"] not in ROLES or message["has_injection"]:
        return False
    if question.scope is not None and message["scope"] != question.scope:
        return False
    limits = (("occurred_at", moment.as_of), ("created_at", moment.known_as_of))
    return all(t is None or (message[name] is not None and message[name] <= t) for name, t in limits)

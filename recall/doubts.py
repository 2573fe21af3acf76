"""What is not certain: facts in conflict, and pending beliefs between entities (S2-66, S2-69)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import combinations
from types import MappingProxyType

import polars as pl

from slowwave.common import frames
from slowwave.common.settings import BeliefSettings
from slowwave.common.types import Mention, Provenance, RecalledFact, UncertainFact
from slowwave.common.validity import JUDGED, Moment, live_sql
from storage.residents import Row
from storage.rows import quoted
from storage.snapshots import Snapshot
from storage.warm import Tables

from .loop import Kept, rows_where
from .order import named_in, words_of

PENDING = "kind = 'implicit_conflict' AND outcome = 'pending'"
PAIR = ("a_id", "b_id", "at", "expires_at")
_OTHER = (*JUDGED, "statement")
_SCHEMA = {name: frames.FACTS.get(name, frames.TIME) for name in _OTHER}  # created_at is a stamp


@dataclass(frozen=True, slots=True)
class Doubts:
    """By fact: the facts that contradict it, and those whose place it took."""

    conflicts: Mapping[str, tuple[Mention, ...]] = field(default_factory=lambda: MappingProxyType({}))
    former: Mapping[str, tuple[Mention, ...]] = field(default_factory=lambda: MappingProxyType({}))

    def about(self, fact: RecalledFact) -> RecalledFact:
        """The fact with what other facts say about it."""
        against, before = self.conflicts.get(fact.id, ()), self.former.get(fact.id, ())
        return replace(fact, conflicts_with=against, replaces=before) if against or before else fact


NO_DOUBTS = Doubts()


async def pending_pairs(tables: Tables) -> pl.DataFrame:
    """Pending implicit conflicts (PAIR)."""
    return await rows_where(tables, "pair_decisions", PAIR, PENDING)


async def doubts(
    tables: Tables,
    rows: Sequence[Row],
    conflicts: Kept[pl.DataFrame],
    moment: Moment,
    formers: Mapping[str, str] = MappingProxyType({}),
) -> Doubts:
    """What others say about rows of facts (id, supersedes_id); reads nothing more where nothing does.

    `formers` are earlier facts of their chains that are named first.
    """
    pairs = await conflicts.of(tables)
    pending = _both_ways(pairs, (row["id"] for row in rows), moment) if len(pairs) else {}
    others = sorted({*_others(rows, pending), *formers.values()})
    if not others:
        return NO_DOUBTS
    found = await tables.rows("facts", "id", others, _OTHER)
    gone = sorted({*others} - {row["id"] for row in found})
    if gone:
        found = [*found, *await tables.rows("facts_archive", "id", gone, _OTHER)]
    statements = [{name: row[name] for name in _OTHER} for row in found]
    return _doubts(rows, pending, pl.DataFrame(statements, _SCHEMA), moment, formers)


def doubts_of(snapshot: Snapshot, rows: pl.DataFrame, moment: Moment) -> Doubts:
    """`doubts`, of a snapshot."""
    ids: list[str] = rows["id"].to_list() if snapshot.count("pair_decisions") else []
    pairs = [snapshot.by_ids("pair_decisions", ids, PAIR, key=end, where=PENDING) for end in ("a_id", "b_id")]
    pending = _both_ways(pl.concat(pairs), rows["id"], moment)
    facts = rows.select("id", "supersedes_id").rows(named=True)
    others = _others(facts, pending)
    if not others:
        return NO_DOUBTS
    found = pl.concat([snapshot.by_ids(name, others, _OTHER) for name in ("facts", "facts_archive")])
    return _doubts(facts, pending, found, moment)


def _both_ways(pairs: pl.DataFrame, ids: Iterable[str], moment: Moment) -> dict[str, list[str]]:
    """By fact: the facts against it, by what was pending at the moment."""
    at, shown = moment.known_as_of or moment.now, set(ids)
    is_open = pl.col("expires_at").is_null() | (pl.col("expires_at") > at)
    if moment.known_as_of:
        is_open &= pl.col("at") <= at
    found: dict[str, set[str]] = {}
    for a, b in pairs.filter(is_open).select("a_id", "b_id").iter_rows():
        for one, other in ((a, b), (b, a)):
            if one in shown:
                found.setdefault(one, set()).add(other)
    return {name: sorted(others) for name, others in found.items()}


def _others(rows: Sequence[Row], pending: Mapping[str, list[str]]) -> list[str]:
    named = {row["supersedes_id"] for row in rows if row["supersedes_id"] is not None}
    return sorted(named | {other for against in pending.values() for other in against})


def _doubts(
    rows: Sequence[Row],
    pending: Mapping[str, list[str]],
    others: pl.DataFrame,
    moment: Moment,
    formers: Mapping[str, str] = MappingProxyType({}),
) -> Doubts:
    """A fact is contradicted while the other one holds."""
    holding = {*replace(moment, as_of=None).facts(others)["id"]}
    named = {name: Mention(name, words) for name, words in others.select("id", "statement").iter_rows()}
    against = {name: tuple(named[other] for other in found if other in holding) for name, found in pending.items()}
    lasted = (pl.col("status") == "superseded") & (pl.col("valid_to") > pl.col("valid_from"))
    over = {*others.filter(lasted)["id"]} if moment.known_as_of is None else set()
    took = ((row["id"], dict.fromkeys((formers.get(row["id"]), row["supersedes_id"]))) for row in rows)
    before = {name: tuple(named[other] for other in earlier if other in over) for name, earlier in took}
    return Doubts(
        {name: found for name, found in against.items() if found},
        {name: earlier for name, earlier in before.items() if earlier},
    )


# Pending beliefs: possible relations of entities that a query names and no fact relates, never mixed with facts (S2-66,
# S2-69).


TABLES = ("pending_beliefs", "entities", "entity_aliases")
_OPEN = "promoted_at IS NULL AND subject_id IS NOT NULL AND object_id IS NOT NULL"
_KNOWLEDGE = "kind IN ('relation', 'observation', 'note')"


def hoped(snapshot: Snapshot, query: str, now: datetime, scope: str | None, limit: int) -> tuple[UncertainFact, ...]:
    """The most probable pending beliefs between entities that the query names and that no live fact relates."""
    pending = snapshot.frame("pending_beliefs", _OPEN, ["subject_id", "object_id"])
    pairs = {(min(pair), max(pair)) for pair in pending.iter_rows()}
    ids = sorted({end for pair in pairs for end in pair})
    called = snapshot.by_ids("entities", ids, ["name", "canonical_name", "id"])
    others = snapshot.by_ids("entity_aliases", ids, ["alias_name", "entity_id"], key="entity_id")
    names: dict[tuple[str, ...], set[str]] = {}
    for *parts, entity in (*called.iter_rows(), *others.iter_rows()):
        for name in parts:
            names.setdefault(words_of(name or ""), set()).add(entity)
    names.pop((), None)
    found = [
        belief
        for pair in combinations(sorted(named_in(query, names)), 2)
        if pair in pairs
        for belief in _uncertain(snapshot, *pair, now, limit)
        if scope is None or belief.scope == scope
    ]
    return tuple(sorted(found, key=lambda belief: (-belief.probability, belief.id))[:limit])


def _uncertain(snapshot: Snapshot, a: str, b: str, now: datetime, limit: int) -> list[UncertainFact]:
    """The likeliest pending beliefs about two entities (ids); none where a live fact relates the two."""
    from slowwave.facts.revision.pending_beliefs import decayed_at

    one, other = quoted(a), quoted(b)
    pair = f"(subject_id = {one} AND object_id = {other}) OR (subject_id = {other} AND object_id = {one})"
    if snapshot.count("facts", f"({pair}) AND {_KNOWLEDGE} AND {live_sql(now)}"):
        return []
    pending = snapshot.frame("pending_beliefs", f"({pair}) AND promoted_at IS NULL")
    likely = pending.with_columns(probability=decayed_at(now, BeliefSettings().decay_rate)).sort(
        "probability", "last_at", "id", descending=[True, True, False]
    )
    rows = likely.head(limit)
    evidence = _evidence(snapshot, rows)
    return [
        UncertainFact(
            row["id"], row["statement"], row["predicate"], row["scope"], row["probability"],
            tuple(evidence.get(row["id"], ())), row["first_at"], row["last_at"],
        )
        for row in rows.iter_rows(named=True)
    ]  # fmt: skip


def _evidence(snapshot: Snapshot, beliefs: pl.DataFrame) -> dict[str, list[Provenance]]:
    """By belief: the messages that hint at it with the words that come nearest to it, in order of time."""
    from slowwave.facts.revision.candidates import quotes

    hints = snapshot.by_ids("belief_evidence", beliefs["id"], ["belief_id", "message_id", "at"], key="belief_id")
    messages = snapshot.by_ids("messages", hints["message_id"], ["id", "conversation_id", "message_id", "content"])
    rows = hints.join(beliefs.select("statement", belief_id="id"), on="belief_id").join(
        messages.rename({"message_id": "name"}), left_on="message_id", right_on="id", how="left"
    )
    rows = rows.with_columns(quotes(rows)).sort("at", "message_id")
    found: dict[str, list[Provenance]] = {}
    for row in rows.iter_rows(named=True):
        shown = Provenance(
            row["conversation_id"] or "", row["name"] or row["message_id"], row["quote"] or "", row["at"]
        )
        found.setdefault(row["belief_id"], []).append(shown)
    return found

"""Possible relations of entities without known ones: pending beliefs, never mixed with facts (S2-66, S2-69)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import combinations

import polars as pl

from slowwave.ranking.order import named_in, words_of
from slowwave.settings import BeliefSettings
from slowwave.types import Provenance, UncertainFact
from slowwave.validity import live_sql
from storage.rows import quoted
from storage.snapshots import Snapshot
from storage.warm import Tables

_KNOWLEDGE = "kind IN ('relation', 'observation', 'note')"


def uncertain(
    snapshot: Snapshot, entity_a: str, entity_b: str, now: datetime, settings: BeliefSettings, limit: int
) -> tuple[UncertainFact, ...]:
    """The most probable pending beliefs about two entities (ids), in either direction, at most `limit`.

    Empty when a live fact relates the two: what is known is never mixed with what is not.
    """
    from slowwave.revision.pending_beliefs import decayed_at

    pair = _between(entity_a, entity_b)
    if snapshot.count("facts", f"({pair}) AND {_KNOWLEDGE} AND {live_sql(now)}"):
        return ()
    pending = snapshot.frame("pending_beliefs", f"({pair}) AND promoted_at IS NULL")
    likely = pending.with_columns(probability=decayed_at(now, settings.decay_rate)).sort(
        "probability", "last_at", "id", descending=[True, True, False]
    )
    rows = likely.head(limit)
    evidence = _evidence(snapshot, rows)
    return tuple(
        UncertainFact(
            row["id"], row["statement"], row["predicate"], row["scope"], row["probability"],
            tuple(evidence.get(row["id"], ())), row["first_at"], row["last_at"],
        )
        for row in rows.iter_rows(named=True)
    )  # fmt: skip


def _between(a: str, b: str) -> str:
    one, other = quoted(a), quoted(b)
    return f"(subject_id = {one} AND object_id = {other}) OR (subject_id = {other} AND object_id = {one})"


def _evidence(snapshot: Snapshot, beliefs: pl.DataFrame) -> dict[str, list[Provenance]]:
    """By belief: the messages that hint at it with the words that come nearest to it, in order of time."""
    from slowwave.revision.candidates import quotes

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


# What a query may hope for where nothing is known: pending beliefs between entities that it names (S2-69).


TABLES = ("pending_beliefs", "entities", "entity_aliases")
_OPEN = "promoted_at IS NULL AND subject_id IS NOT NULL AND object_id IS NOT NULL"
Names = Mapping[tuple[str, ...], list[str]]


@dataclass(frozen=True, slots=True)
class Hopes:
    """Pairs of entities about which beliefs are pending, and the names of these entities."""

    pairs: frozenset[tuple[str, str]] = frozenset()
    names: Names = field(default_factory=dict)

    def named_in(self, query: str) -> list[tuple[str, str]]:
        """The pairs whose two entities are in the query."""
        if not self.pairs:
            return []
        named = sorted(named_in(query, self.names))
        return [pair for pair in combinations(named, 2) if pair in self.pairs]


class PendingBeliefs:
    """Hopes, kept once they were read, as long as no commit changes them; without any, nothing more is read."""

    def __init__(self) -> None:
        self._hopes = Hopes()
        self._at: tuple[int, ...] = ()

    async def of(self, tables: Tables) -> Hopes:
        """As these tables have them."""
        versions = tuple(tables.versions[name] for name in TABLES)
        if versions != self._at:
            self._hopes, self._at = await _hopes(tables), versions
        return self._hopes


async def _hopes(tables: Tables) -> Hopes:
    if tables.versions["pending_beliefs"] <= 1:
        return Hopes()
    query = tables["pending_beliefs"].query().where(_OPEN).select(["subject_id", "object_id"])
    found = pl.from_arrow(await query.to_arrow())
    assert isinstance(found, pl.DataFrame)
    pairs = frozenset((min(pair), max(pair)) for pair in found.unique().iter_rows())
    ids = sorted({end for pair in pairs for end in pair})
    called = await tables.fetch("entities", "id", ids, ["name", "canonical_name", "id"])
    others = await tables.fetch("entity_aliases", "entity_id", ids, ["alias_name", "entity_id"])
    names: dict[tuple[str, ...], set[str]] = {}
    for *parts, entity in (*called.iter_rows(), *others.iter_rows()):
        for name in parts:
            names.setdefault(words_of(name or ""), set()).add(entity)
    names.pop((), None)
    return Hopes(pairs, {words: sorted(of) for words, of in names.items()})


def hoped(
    snapshot: Snapshot,
    hopes: Hopes,
    query: str,
    now: datetime,
    scope: str | None,
    settings: BeliefSettings,
    limit: int,
) -> tuple[UncertainFact, ...]:
    """The most probable pending beliefs between entities that the query names and that no live fact relates."""
    found = [
        belief
        for a, b in hopes.named_in(query)
        for belief in uncertain(snapshot, a, b, now, settings, limit)
        if scope is None or belief.scope == scope
    ]
    return tuple(sorted(found, key=lambda belief: (-belief.probability, belief.id))[:limit])

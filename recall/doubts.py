"""What other facts say about facts that are shown: what they lean on no longer holds, what contradicts them, and what
they took the place of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import polars as pl

from slowwave import frames
from slowwave.types import Mention, RecalledFact
from slowwave.validity import JUDGED, Moment
from storage.residents import Row
from storage.snapshots import Snapshot
from storage.warm import Tables

if TYPE_CHECKING:
    from lancedb import AsyncTable

PENDING = "kind = 'implicit_conflict' AND outcome = 'pending'"
PAIR = ("a_id", "b_id", "at", "expires_at")
_OTHER = (*JUDGED, "statement")
_SCHEMA = {name: frames.FACTS.get(name, frames.TIME) for name in _OTHER}  # created_at is a stamp


@dataclass(frozen=True, slots=True)
class Doubts:
    """By fact: the retired fact that it leans on, the facts that contradict it, the one whose place it took."""

    suspects: Mapping[str, Mention] = field(default_factory=lambda: MappingProxyType({}))
    conflicts: Mapping[str, tuple[Mention, ...]] = field(default_factory=lambda: MappingProxyType({}))
    former: Mapping[str, Mention] = field(default_factory=lambda: MappingProxyType({}))

    def about(self, fact: RecalledFact) -> RecalledFact:
        """The fact with what other facts say about it."""
        leans_on, against = self.suspects.get(fact.id), self.conflicts.get(fact.id, ())
        before = self.former.get(fact.id)
        if not (leans_on or against or before):
            return fact
        return replace(fact, suspect_of=leans_on, conflicts_with=against, replaces=(before,) if before else ())


NO_DOUBTS = Doubts()


class Conflicts:
    """Pending implicit conflicts (PAIR), kept once they were read, as long as no commit changes the pairs."""

    def __init__(self) -> None:
        self._pairs = pl.DataFrame(schema=dict.fromkeys(PAIR, pl.String))
        self._version = 0

    async def of(self, pairs: AsyncTable, version: int) -> pl.DataFrame:
        """All of them."""
        if version != self._version:
            found = pl.from_arrow(await pairs.query().where(PENDING).select(list(PAIR)).to_arrow())
            assert isinstance(found, pl.DataFrame)
            self._pairs, self._version = found, version
        return self._pairs


async def doubts(tables: Tables, rows: Sequence[Row], conflicts: Conflicts, moment: Moment) -> Doubts:
    """What others say about rows of facts (id, suspect_of, supersedes_id); reads nothing more where nothing does."""
    pairs = await conflicts.of(tables["pair_decisions"], tables.versions["pair_decisions"])
    pending = _both_ways(pairs, (row["id"] for row in rows), moment) if len(pairs) else {}
    others = _others(rows, pending)
    if not others:
        return NO_DOUBTS
    found = await tables.rows("facts", "id", others, _OTHER)
    gone = sorted({*others} - {row["id"] for row in found})
    if gone:
        found = [*found, *await tables.rows("facts_archive", "id", gone, _OTHER)]
    statements = [{name: row[name] for name in _OTHER} for row in found]
    return _doubts(rows, pending, pl.DataFrame(statements, _SCHEMA), moment)


def doubts_of(snapshot: Snapshot, rows: pl.DataFrame, moment: Moment) -> Doubts:
    """`doubts`, of a snapshot."""
    ids: list[str] = rows["id"].to_list() if snapshot.count("pair_decisions") else []
    pairs = [snapshot.by_ids("pair_decisions", ids, PAIR, key=end, where=PENDING) for end in ("a_id", "b_id")]
    pending = _both_ways(pl.concat(pairs), rows["id"], moment)
    facts = rows.select("id", "suspect_of", "supersedes_id").rows(named=True)
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
    named = {row[name] for row in rows for name in ("suspect_of", "supersedes_id") if row[name] is not None}
    return sorted(named | {other for against in pending.values() for other in against})


def _doubts(rows: Sequence[Row], pending: Mapping[str, list[str]], others: pl.DataFrame, moment: Moment) -> Doubts:
    """A fact is suspect while what it leans on does not hold, and contradicted while the other one does.

    Of the past nothing is suspect that leans on what held then.
    """
    holding = {*replace(moment, as_of=None).facts(others)["id"]}
    valid = {*moment.facts(others)["id"]} if moment.as_of is not None else holding
    named = {name: Mention(name, words) for name, words in others.select("id", "statement").iter_rows()}
    leaning = ((row["id"], row["suspect_of"]) for row in rows)
    against = {name: tuple(named[other] for other in found if other in holding) for name, found in pending.items()}
    lasted = (pl.col("status") == "superseded") & (pl.col("valid_to") > pl.col("valid_from"))
    over = {*others.filter(lasted)["id"]} if moment.known_as_of is None else set()
    took = ((row["id"], row["supersedes_id"]) for row in rows)
    return Doubts(
        {name: named[other] for name, other in leaning if other in named and other not in holding | valid},
        {name: found for name, found in against.items() if found},
        {name: named[other] for name, other in took if other in over},
    )

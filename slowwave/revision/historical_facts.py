"""Historical facts: candidates that are over already when they arrive, for example from another memory.

Such a candidate ends no other fact by contradiction, and is never the target of a duplicate. It may end only a live
fact with the same words that was not repeated since.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import polars as pl

from slowwave.validity import MAX_CHAIN

from .exact_duplicates import DUPLICATES, TEXT_KEY, ends_later
from .revision_state import Fact, RevisionState, Supersessions
from .supersession import KNOWN


@dataclass(frozen=True, slots=True, eq=False)
class HistoricalChanges:
    """DUPLICATES among historical candidates, and the facts that they end."""

    duplicates: pl.DataFrame
    supersessions: Supersessions


def is_past(now: datetime) -> pl.Expr:
    """Whether the fact had ended at `now`."""
    return (pl.col("valid_to") <= now).fill_null(False)


def settle_past(past: pl.DataFrame, facts: pl.DataFrame, gone: pl.Series, now: datetime) -> HistoricalChanges:
    """Each candidate ends or repeats the fact with the same words; else it stays as an interval of its own.

    Frames are those of `supersede_facts`, with `from_`, `to` and the comparison keys; `gone` are ids of facts that
    other candidates end.
    """
    pairs = _pairs(past, facts, gone)
    ends = [*pairs["id"].unique(), *pairs["target_id"].unique()]
    rows = [past.with_columns(is_live=pl.lit(False)).select(KNOWN), facts.select(KNOWN)]
    near = pl.concat(rows).filter(pl.col("id").is_in(ends)).unique("id", keep="first")
    state = RevisionState(now, {row["id"]: row for row in near.iter_rows(named=True)})
    root: dict[str, str] = dict(_inside(past).iter_rows())
    for id_, target, covers in pairs.select("id", "target_id", "covers").iter_rows():
        new, known = state.facts[id_], state.facts[target]
        if id_ not in root and (_ends(state, new, known) or covers):
            root[id_] = target
    found = [(id_, root.get(target, target), "text", None) for id_, target in root.items()]
    return HistoricalChanges(pl.DataFrame(found, schema=DUPLICATES, orient="row"), state.supersessions())


def join_supersessions(one: Supersessions, other: Supersessions) -> Supersessions:
    """The supersessions of both; no fact is in both."""
    return replace(
        one,
        facts=pl.concat([one.facts, other.facts]),
        retired=pl.concat([one.retired, other.retired]),
        ended=pl.concat([one.ended, other.ended]),
        decisions=[*one.decisions, *other.decisions],
    )


def _pairs(past: pl.DataFrame, facts: pl.DataFrame, gone: pl.Series) -> pl.DataFrame:
    """(id, target_id, covers): candidates in their order with facts of the same words, live facts first."""
    known = facts.filter(~pl.col("id").is_in(gone.implode())).select(
        *TEXT_KEY, "is_live", "from_", "to", target_id="id"
    )
    both = past.select("id", "place", "valid_from", "valid_to", *TEXT_KEY).join(known, on=TEXT_KEY, nulls_equal=True)
    both = both.with_columns(covers=(pl.col("from_") <= pl.col("valid_from")) & ends_later())
    met = both.filter(pl.col("covers") | (pl.col("is_live") & (pl.col("from_") < pl.col("valid_to"))))
    return met.sort("place", ~pl.col("is_live"), ~pl.col("covers"), "target_id").select("id", "target_id", "covers")


def _inside(past: pl.DataFrame) -> pl.DataFrame:
    """(id, target_id) of candidates with the words and interval of an earlier one of the batch."""
    key = [*TEXT_KEY, "valid_from", "valid_to"]
    first = past.sort("place").unique(key, keep="first", maintain_order=True).select(*key, target_id="id")
    return (
        past.join(first, on=key, nulls_equal=True).filter(pl.col("id") != pl.col("target_id")).select("id", "target_id")
    )


def _ends(state: RevisionState, new: Fact, known: Fact) -> bool:
    """End a live fact where the candidate says that it is over, unless it was repeated since or outranks it."""
    until: datetime = new["valid_to"]
    if not state.is_open(known) or new["said_at"] < known["said_at"] or until < known["valid_from"]:
        return False
    ids = [known["id"], new["id"]]
    if refusal := state.refusal(new, new, known):
        state.note_decision("refuse", known["id"], ids, [], refusal, _seen(known, until))
        return False
    seen = _seen(known, until)
    state.change(known, status_reason=f"ended by {new['id']}", valid_to=until)
    state.note_decision(
        "close", known["id"], ids, [known["id"]], "A later reading of the same says that it is over.", seen
    )
    state.note_retired(known, new, new)
    return True


def _seen(known: Fact, until: datetime) -> Mapping[str, object]:
    return {"valid_to": [known["valid_to"], until], "known_said_at": known["said_at"]}


# Chains of supersession in order, without endless circles (S2-55, T35).


@dataclass(frozen=True, slots=True)
class Order:
    """Facts of one chain, oldest first; whether the steps form a circle, and whether facts are left out."""

    ids: list[str]
    has_circle: bool
    is_cut: bool


def oldest_first(start: str, steps: Iterable[tuple[str, str]]) -> Order:
    """The facts that steps (old, new) connect with `start`, each once and after all facts that it replaced.

    At most MAX_CHAIN: the nearest to `start` (ties by id). In a circle the order goes on at the smallest id that is
    left.
    """
    forward: dict[str, set[str]] = {start: set()}
    back: dict[str, set[str]] = {start: set()}
    for old, new in steps:
        for name in (old, new):
            forward.setdefault(name, set())
            back.setdefault(name, set())
        forward[old].add(new)
        back[new].add(old)
    near = _nearest(start, forward, back)
    kept = set(near[:MAX_CHAIN])
    ordered: list[str] = []
    has_circle = False
    while left := kept.difference(ordered):
        ready = sorted(name for name in left if not (back[name] & left))
        has_circle |= not ready
        ordered += ready or [min(left)]
    return Order(ordered, has_circle, len(near) > MAX_CHAIN)


def _nearest(start: str, forward: dict[str, set[str]], back: dict[str, set[str]]) -> list[str]:
    """All connected facts, by distance, then id."""
    near, ring = [start], [start]
    while ring:
        ring = sorted({other for name in ring for other in forward[name] | back[name]}.difference(near))
        near += ring
    return near

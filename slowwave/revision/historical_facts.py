"""Candidates that are over before they come in, as another memory hands them over: they tell of the past alone.

Such a candidate ends nothing by contradiction and is never what something new repeats. The one fact that it may end is
the one that it is: the same words, believed to hold, and not said again since.
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
    """What candidates of the past come to: which of them repeat (REPEATS), and what they end."""

    duplicates: pl.DataFrame
    supersessions: Supersessions


def is_past(now: datetime) -> pl.Expr:
    """Whether it no longer held at `now`."""
    return (pl.col("valid_to") <= now).fill_null(False)


def settle_past(past: pl.DataFrame, facts: pl.DataFrame, gone: pl.Series, now: datetime) -> HistoricalChanges:
    """Each candidate ends, or repeats, the fact that says the same words; else it stays as a stretch of its own.

    Frames are those of `close_facts`, with `from_`, `to` and the keys of repetition; `gone` are facts that others end.
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


def joined(one: Supersessions, other: Supersessions) -> Supersessions:
    """What both close; no fact is closed by both."""
    return replace(
        one,
        facts=pl.concat([one.facts, other.facts]),
        retired=pl.concat([one.retired, other.retired]),
        ended=pl.concat([one.ended, other.ended]),
        decisions=[*one.decisions, *other.decisions],
    )


def _pairs(past: pl.DataFrame, facts: pl.DataFrame, gone: pl.Series) -> pl.DataFrame:
    """(id, target_id, covers): candidates in their order and facts of the same words, those that hold first."""
    known = facts.filter(~pl.col("id").is_in(gone.implode())).select(
        *TEXT_KEY, "is_live", "from_", "to", target_id="id"
    )
    both = past.select("id", "place", "valid_from", "valid_to", *TEXT_KEY).join(known, on=TEXT_KEY, nulls_equal=True)
    both = both.with_columns(covers=(pl.col("from_") <= pl.col("valid_from")) & ends_later())
    met = both.filter(pl.col("covers") | (pl.col("is_live") & (pl.col("from_") < pl.col("valid_to"))))
    return met.sort("place", ~pl.col("is_live"), ~pl.col("covers"), "target_id").select("id", "target_id", "covers")


def _inside(past: pl.DataFrame) -> pl.DataFrame:
    """(id, target_id) of candidates that say the same of the same stretch as an earlier one of the batch."""
    key = [*TEXT_KEY, "valid_from", "valid_to"]
    first = past.sort("place").unique(key, keep="first", maintain_order=True).select(*key, target_id="id")
    return (
        past.join(first, on=key, nulls_equal=True).filter(pl.col("id") != pl.col("target_id")).select("id", "target_id")
    )


def _ends(state: RevisionState, new: Fact, known: Fact) -> bool:
    """End a fact that holds where the candidate says that it is over, unless it was said again since or outranks it."""
    until: datetime = new["valid_to"]
    if not state.is_open(known) or new["said_at"] < known["said_at"] or until < known["valid_from"]:
        return False
    ids = [known["id"], new["id"]]
    if refusal := state.refusal(new, new, known):
        state.decide("refuse", known["id"], ids, [], refusal, _seen(known, until))
        return False
    seen = _seen(known, until)
    state.change(known, status_reason=f"ended by {new['id']}", valid_to=until)
    state.decide("close", known["id"], ids, [known["id"]], "A later reading of the same says that it is over.", seen)
    state.retire(known, new, new)
    return True


def _seen(known: Fact, until: datetime) -> Mapping[str, object]:
    return {"valid_to": [known["valid_to"], until], "known_said_at": known["said_at"]}


# Chains of replacements: who came before whom, without going round in a circle (S2-55, T35).


@dataclass(frozen=True, slots=True)
class Order:
    """Facts of one chain, oldest first; whether steps lead back, and whether facts are left out."""

    ids: list[str]
    has_circle: bool
    is_cut: bool


def oldest_first(start: str, steps: Iterable[tuple[str, str]]) -> Order:
    """The facts that steps (old, new) connect with `start`, each once and after all that it replaced.

    At most 64: those fewest steps away from `start` (ties by id). Where steps form a circle, the order begins anew at
    the smallest id that is left.
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
    """All that is connected with it, in order of distance, then of id."""
    near, ring = [start], [start]
    while ring:
        ring = sorted({other for name in ring for other in forward[name] | back[name]}.difference(near))
        near += ring
    return near

"""When a fact holds (live now, valid or believed at a time), which status may follow (§6.3), who stands behind it.

A condition is the SQL text of a store's filter, and by `of_rows` the same of a frame; `is_live` alone is written twice.
`Moment` puts them together for a question about any time.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

import polars as pl

from . import frames
from .errors import SlowwaveError
from .records import REDUNDANT
from .timestamps import in_utc

MAX_CHAIN = 64
TRANSITIONS: Mapping[str, frozenset[str]] = {
    # A candidate that is older than what is known is applied as already superseded (out-of-order rule).
    "candidate": frozenset({"active", "rejected", "superseded"}),
    "active": frozenset({"superseded", "retracted", "archived"}),
    "archived": frozenset({"active"}),
    "rejected": frozenset(),
    "superseded": frozenset(),
    "retracted": frozenset(),
}
STATUSES: tuple[str, ...] = tuple(TRANSITIONS)
_WAS_TRUE = ("active", "superseded", "archived")


_MOMENT = re.compile(r"\btimestamp '(?=\d)")
_NOT_TRUE = re.compile(r"\b(\w+) IS NOT TRUE\b")  # of what is null Polars says null
_OTHERWISE = re.compile(r"LIKE|REGEXP|IS NOT (TRUE|FALSE)", re.IGNORECASE)
_TEXTS = re.compile(r"'(?:[^']|'')*'")


@lru_cache(64)  # one question asks the same of several parts of a table
def of_rows(sql: str) -> pl.Expr:
    """A filter of a store as a condition of frames; where columns are null it may be null."""
    return pl.sql_expr(_MOMENT.sub("timestamp with time zone '", _NOT_TRUE.sub(r"NOT coalesce(\1, false)", sql)))


@lru_cache(64)
def judged_columns(sql: str) -> tuple[str, ...] | None:
    """The columns that `of_rows` of a filter reads; None where the store may judge otherwise than a frame."""
    bare = _TEXTS.sub("", sql)
    if _OTHERWISE.search(_NOT_TRUE.sub("", bare)) or len(_NOT_TRUE.findall(bare)) != len(_NOT_TRUE.findall(sql)):
        return None
    try:
        names = tuple(of_rows(sql).meta.root_names())
    except pl.exceptions.PolarsError:
        return None
    return names if names and "vector" not in names else None


def is_live(now: datetime) -> pl.Expr:
    """Active, still believed and still true at `now`; quicker than `of_rows`, because every statement asks for it."""
    open_ended = pl.col("valid_to").is_null() | (pl.col("valid_to") > frames.moment(now))
    return (pl.col("status") == "active") & pl.col("expired_at").is_null() & open_ended


def live_sql(now: datetime) -> str:
    """`is_live` as a filter of a store."""
    return f"status = 'active' AND expired_at IS NULL AND {_not_over_sql(now)}"


def has_ended_sql(now: datetime) -> str:
    """Was true for some time and is over at `now`, whether something took its place or not; never taken back."""
    return f"status IN ('active', 'superseded') AND valid_to > valid_from AND valid_to <= {time_sql(now)}"


def as_of_sql(t: datetime) -> str:
    """True in the world at `t`, also if it ended since; retracted facts never were (S2-36)."""
    listed = ", ".join(f"'{status}'" for status in _WAS_TRUE)
    return f"status IN ({listed}) AND valid_from <= {time_sql(t)} AND {_not_over_sql(t)}"


def _not_over_sql(t: datetime) -> str:
    """The filter of rows without an end, or with one later than t.

    Written so that the index of `valid_to` is left alone: it would give nine of ten rows, to be intersected with the
    few that another index finds, and a look-up would take twice as long (decision 29).
    """
    return f"coalesce(valid_to > {time_sql(t)}, true)"


def known_as_of_sql(t: datetime) -> str:
    """Believed by the store at `t`: the second time axis."""
    moment = time_sql(t)
    return f"created_at <= {moment} AND (expired_at IS NULL OR expired_at > {moment})"


def time_sql(t: datetime) -> str:
    """A moment as a SQL literal in UTC, to the microsecond."""
    return f"timestamp '{in_utc(t):%Y-%m-%d %H:%M:%S.%f}'"


def valid_facts(facts: pl.DataFrame, t: datetime) -> pl.DataFrame:
    """Facts true at `t`, each once (§6.3); `facts` must hold the replacements of its rows, step by step.

    A fact is left out while a replacement, through any number of steps, is itself true at `t`: redundant facts keep an
    open end when another wording absorbs them. Such a wording ends with the one that absorbed it, and was never true if
    that one was retracted. Of facts that replace each other in a circle the live one answers, else the newest id (T35).
    """
    valid = facts.filter(of_rows(as_of_sql(t)))
    replaced = facts.filter(pl.col("replaced_by").is_not_null())
    steps = dict(replaced.select("id", "replaced_by").iter_rows())
    starts = [start for start in valid["id"] if start in steps]
    if not starts:
        return valid
    alive = dict(valid.select("id", pl.col("status") == "active").iter_rows())
    ends = {name: (status, end) for name, status, end in facts.select("id", "status", "valid_to").iter_rows()}
    hidden = [
        start
        for start in starts
        if _is_replaced(start, steps, alive) or _is_over(start, [start, *successors(start, steps)], ends, t)
    ]
    return valid.filter(~pl.col("id").is_in(hidden))


def _is_replaced(start: str, steps: Mapping[str, str], alive: Mapping[str, bool]) -> bool:
    """Whether one of its replacements is itself true."""
    for step in successors(start, steps):
        is_circle = step in alive and start in successors(step, steps)
        if step in alive and (not is_circle or (alive[step], step) > (alive[start], start)):
            return True
    return False


def _is_over(start: str, chain: list[str], ends: Mapping[str, tuple[str, datetime | None]], t: datetime) -> bool:
    """Whether the wording that it became a part of has ended by `t`, or was retracted."""
    for name in chain:
        status, end = ends.get(name, ("", None))
        if status == "retracted" and name != start:
            return True
        if end is not None or not status:
            return end is not None and end <= t
    return False


def successors(start: str, replaced_by: Mapping[str, str]) -> list[str]:
    """The replacements of a fact, nearest first, without itself; ends at 64 steps or where they would turn back."""
    chain: list[str] = []
    step = replaced_by.get(start)
    while step is not None and step != start and step not in chain and len(chain) < MAX_CHAIN:
        chain.append(step)
        step = replaced_by.get(step)
    return chain


def check_transition(old: str, new: str) -> None:
    """Raise unless a fact of status `old` may get status `new`; staying the same is always allowed."""
    for status in (old, new):
        if status not in TRANSITIONS:
            raise SlowwaveError(
                f"There is no status {status!r} (from {old!r} to {new!r}).", f"Known: {', '.join(STATUSES)}."
            )
    if old != new and new not in TRANSITIONS[old]:
        allowed = ", ".join(sorted(TRANSITIONS[old])) or "nothing: it is final"
        raise SlowwaveError(f"A fact that is {old} cannot become {new}.", f"After {old} may come: {allowed}.")


def is_out_of_order(said_at: datetime, head_said_at: datetime) -> bool:
    """Whether something said at `said_at` comes too late to overturn a head last said at `head_said_at` (§6.3)."""
    return said_at < head_said_at


# The moment a question is about: now, a time in the world, a time in the store's own life, or both (§6.3).


END_CHANGES: frames.Schema = {
    "id": frames.TEXT,
    "end_known_at": frames.TIME,
    "end_before": frames.TIME,
    "replaced_before": frames.TEXT,
}
"""Changes of the end of a fact: when each was learned, which end and which replacement the fact had until then."""
JUDGED = ("id", "status", "status_reason", "valid_from", "valid_to", "created_at", "expired_at", "replaced_by")
"""The columns by which a question about the past is answered."""
_NEVER_BELIEVED = ("candidate", "rejected")
_REDUNDANT = f"^({'|'.join(REDUNDANT)}): absorbed by "


@dataclass(frozen=True, slots=True)
class Moment:
    """Facts that were true at `as_of`, as the store knew them at `known_as_of`; without either, facts live at `now`.

    `known_as_of` alone asks what would have been answered at that time.
    """

    now: datetime
    as_of: datetime | None = None
    known_as_of: datetime | None = None

    @property
    def is_past(self) -> bool:
        """Whether archived facts may answer too."""
        return self.as_of is not None or self.known_as_of is not None

    @property
    def where(self) -> str:
        """A filter of a store that lets every fact pass which `facts` may choose; for a live question none besides."""
        if self.known_as_of is None:
            return live_sql(self.now) if self.as_of is None else as_of_sql(self.as_of)
        believed = "status NOT IN ('candidate', 'rejected')"
        if self.as_of is None:
            return f"{believed} AND {known_as_of_sql(self.known_as_of)}"
        known = f"created_at <= {time_sql(self.known_as_of)}"
        return f"{believed} AND {known} AND valid_from <= {time_sql(self.as_of)}"

    def facts(self, rows: pl.DataFrame, ends: pl.DataFrame | None = None) -> pl.DataFrame:
        """Those that answer, as they were then.

        A live question reads status, valid_to and expired_at; one about the past reads JUDGED, and `rows` must hold the
        replacements of its rows, step by step. `ends` as in `as_known`.
        """
        if self.known_as_of is not None:
            rows = as_known(rows, self.known_as_of, ends)
        if self.as_of is not None:
            return valid_facts(rows, self.as_of)
        return rows.filter(is_live(self.known_as_of or self.now))


def as_known(rows: pl.DataFrame, t: datetime, ends: pl.DataFrame | None = None) -> pl.DataFrame:
    """The facts as the store knew them at `t`: what it learned later is taken back (second time axis, §6.3).

    - Not there yet: what was created later; candidates and rejected ones never were.
    - Retired later (`expired_at` > t): active, with no replacement and no reason.
    - Its end set or moved later: it has the end it had, and the replacement, if that was another one. The first change
      after `t` in `ends` (END_CHANGES) says which.
    - Retired later, and `ends` has no row of it: its end is unknown again, if the retirement set it. A superseded
      fact ends where its replacement begins, or later; an end before that was known already. The end of a retracted
      fact came with the retraction. Redundant and archived ones keep what they had.
    - Retired by `t`: as it is, so that a question about an earlier time of the world finds it.

    What was merely made surer since (confidence, evidence, a start that moved back when another wording was absorbed)
    is as today: no column remembers it.
    """
    known = rows.filter((pl.col("created_at") <= t) & ~pl.col("status").is_in(_NEVER_BELIEVED))
    starts = rows.select(replaced_by="id", replaced_from="valid_from").unique("replaced_by")
    judged = known.join(starts, on="replaced_by", how="left", maintain_order="left")
    judged = judged.join(_changed_first(ends, t), on="id", how="left", maintain_order="left")
    is_later = (pl.col("expired_at") > t).fill_null(False)
    is_known_before = (pl.col("valid_to") < pl.col("replaced_from")).fill_null(False)
    is_redundant = pl.col("status_reason").str.contains(_REDUNDANT).fill_null(False)
    came_with_retirement = pl.col("status").is_in(["superseded", "retracted"]) & ~is_known_before & ~is_redundant
    is_unknown = is_later & came_with_retirement & ~pl.col("had_end").fill_null(False)
    is_unknown &= pl.col("end_known_at").is_null() | (pl.col("end_known_at") > pl.col("expired_at"))
    end = pl.when(pl.col("end_known_at").is_null()).then("valid_to").otherwise("end_before")
    return judged.with_columns(
        *[pl.when(~is_later).then(column).alias(column) for column in ("expired_at", "status_reason")],
        replaced_by=pl.when(~is_later).then(pl.coalesce("replaced_before", "replaced_by")),
        status=pl.when(is_later).then(pl.lit("active")).otherwise("status"),
        valid_to=pl.when(~is_unknown).then(end),
    ).select(rows.columns)


def _changed_first(ends: pl.DataFrame | None, t: datetime) -> pl.DataFrame:
    """The first of END_CHANGES of each fact after `t`, nulls where there is none; `had_end`: one was known by `t`.

    Of changes at one moment the first is the one that found no end, else the latest: ends only move earlier.
    """
    known = frames.conform(frames.empty(END_CHANGES) if ends is None else ends, END_CHANGES)
    is_by_then = pl.col("end_known_at") <= t
    first = known.filter(~is_by_then).sort("end_known_at", "end_before", descending=[False, True])
    by_then = known.filter(is_by_then).select("id", had_end=True).unique("id")
    return first.unique("id", keep="first", maintain_order=True).join(by_then, on="id", how="full", coalesce=True)


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
    forward: dict[str, set[str]] = defaultdict(set)
    back: dict[str, set[str]] = defaultdict(set)
    for old, new in steps:
        forward[old].add(new)
        back[new].add(old)
    near, ring = [start], [start]
    while ring:
        ring = sorted({other for name in ring for other in forward[name] | back[name]}.difference(near))
        near += ring
    kept = set(near[:MAX_CHAIN])
    ordered: list[str] = []
    has_circle = False
    while left := kept.difference(ordered):
        ready = sorted(name for name in left if not (back[name] & left))
        has_circle |= not ready
        ordered += ready or [min(left)]
    return Order(ordered, has_circle, len(near) > MAX_CHAIN)


# Entrenchment: who stands behind a fact, weakest first, and which facts nothing automatic may retire (S1-22).


RANKS: Mapping[str, int] = {"system_inferred": 0, "user_stated": 1, "user_axiom": 2}
AXIOM = RANKS["user_axiom"]
_BY_RANK = {rank: name for name, rank in RANKS.items()}


def rank_of(entrenchment: str | None) -> int:
    """0 inferred or unknown, 1 stated, 2 axiom."""
    return RANKS.get(entrenchment or "", 0)


def entrenchment_rank(column: str) -> pl.Expr:
    """`rank_of` a column."""
    return pl.col(column).replace_strict(RANKS, default=0, return_dtype=pl.Int8)


def entrenchment_named(rank: str) -> pl.Expr:
    """The entrenchment of each rank in a column; null where it is none."""
    return pl.col(rank).replace_strict(_BY_RANK, default=None, return_dtype=pl.String)


KEPT_KINDS = ("structural", "similarity")
KEPT_RANK = "user_axiom"
ENDS = ("subject_id", "object_id", "owner_entity_id")
"""Where a fact names entities."""


def not_kept_sql() -> str:
    """The SQL condition of facts that nothing of their own keeps: not pinned, no axiom, no structure.

    It is `~is_kept()`; facts about pinned entities, which `is_kept(pinned)` keeps too, meet it.
    """
    kinds = ", ".join(f"'{kind}'" for kind in KEPT_KINDS)
    return (
        "(pinned IS NULL OR NOT pinned)"
        f" AND (entrenchment IS NULL OR entrenchment <> '{KEPT_RANK}')"
        f" AND (kind IS NULL OR kind NOT IN ({kinds}))"
    )


def is_kept(pinned: Collection[str] = ()) -> pl.Expr:
    """Facts that nothing automatic may hide or retire: pinned facts, axioms, structure, facts about `pinned` entities.

    Needs the ends of a fact only where there are pinned entities.
    """
    kept = ~of_rows(not_kept_sql())
    for end in ENDS if pinned else ():
        kept |= pl.col(end).is_in(list(pinned)).fill_null(False)
    return kept

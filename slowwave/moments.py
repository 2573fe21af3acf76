"""The moment a question is about: now, a time in the world, a time in the store's own life, or both (§6.3)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import polars as pl

from slowwave import frames
from slowwave.validity import (
    as_of,
    as_of_sql,
    is_live,
    known_as_of,
    known_as_of_sql,
    live_sql,
    time_sql,
    valid_facts,
)

ENDS: frames.Schema = {
    "id": frames.TEXT,
    "end_known_at": frames.TIME,
    "end_before": frames.TIME,
    "replaced_before": frames.TEXT,
}
"""Changes of the end of a fact: when each was learned, which end and which replacement the fact had until then."""
JUDGED = ("id", "status", "status_reason", "valid_from", "valid_to", "created_at", "expired_at", "replaced_by")
"""The columns by which a question about the past is answered."""
_NEVER_BELIEVED = ("candidate", "rejected")
_REDUNDANT = "^(dedup|consolidated): absorbed by "


@dataclass(frozen=True, slots=True)
class Moment:
    """What was true at `as_of`, as the store knew it at `known_as_of`; without either, what holds at `now`.

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

    @property
    def may_answer(self) -> pl.Expr:
        """`where`, of rows in a frame."""
        if self.known_as_of is None:
            return is_live(self.now) if self.as_of is None else as_of(self.as_of)
        believed = ~pl.col("status").is_in(_NEVER_BELIEVED)
        if self.as_of is None:
            return believed & known_as_of(self.known_as_of)
        return believed & (pl.col("created_at") <= self.known_as_of) & (pl.col("valid_from") <= self.as_of)

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
    """The facts as the store held them at `t`: what it learned later is taken back (second time axis, §6.3).

    - Not there yet: what was created later; candidates and rejected ones never were.
    - Retired later (`expired_at` > t): active, with no replacement and no reason.
    - Its end set or moved later: it has the end it had, and the replacement, if that was another one. The first change
      after `t` in `ends` (ENDS) says which.
    - Retired later, and `ends` does not tell of it: its end is unknown again, if the retirement set it. A superseded
      fact ends where its replacement begins, or later; an end before that was known already. The end of a retracted
      fact came with the retraction. Redundant and archived ones keep what they had.
    - Retired by `t`: as it is, so that a question about an earlier time of the world finds it.

    What was merely made surer since (confidence, evidence, a start that moved back when another wording was absorbed)
    is as today: no column remembers it.
    """
    held = rows.filter((pl.col("created_at") <= t) & ~pl.col("status").is_in(_NEVER_BELIEVED))
    starts = rows.select(replaced_by="id", replaced_from="valid_from").unique("replaced_by")
    judged = held.join(starts, on="replaced_by", how="left", maintain_order="left")
    judged = judged.join(_changed_first(ends, t), on="id", how="left", maintain_order="left")
    is_later = (pl.col("expired_at") > t).fill_null(False)
    is_unknown = is_later & _came_with_retirement() & ~pl.col("had_end").fill_null(False)
    is_unknown &= pl.col("end_known_at").is_null() | (pl.col("end_known_at") > pl.col("expired_at"))
    end = pl.when(pl.col("end_known_at").is_null()).then("valid_to").otherwise("end_before")
    return judged.with_columns(
        *[pl.when(~is_later).then(column).alias(column) for column in ("expired_at", "status_reason")],
        replaced_by=pl.when(~is_later).then(pl.coalesce("replaced_before", "replaced_by")),
        status=pl.when(is_later).then(pl.lit("active")).otherwise("status"),
        valid_to=pl.when(~is_unknown).then(end),
    ).select(rows.columns)


def _changed_first(ends: pl.DataFrame | None, t: datetime) -> pl.DataFrame:
    """ENDS of the first change of each fact after `t`, nulls where there is none; `had_end`: one was known by `t`.

    Of changes at one moment the first is the one that found no end, else the latest: ends only move earlier.
    """
    known = frames.conform(frames.empty(ENDS) if ends is None else ends, ENDS)
    is_by_then = pl.col("end_known_at") <= t
    first = known.filter(~is_by_then).sort("end_known_at", "end_before", descending=[False, True])
    by_then = known.filter(is_by_then).select("id", had_end=True).unique("id")
    return first.unique("id", keep="first", maintain_order=True).join(by_then, on="id", how="full", coalesce=True)


def _came_with_retirement() -> pl.Expr:
    """Whether the end of a retired fact was set by its retirement, as far as its columns tell."""
    is_known_before = (pl.col("valid_to") < pl.col("replaced_from")).fill_null(False)
    is_redundant = pl.col("status_reason").str.contains(_REDUNDANT).fill_null(False)
    return pl.col("status").is_in(["superseded", "retracted"]) & ~is_known_before & ~is_redundant

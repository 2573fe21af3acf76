"""The moment a question is about: now, a time in the world, a time in the store's own life, or both (§6.3)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import polars as pl

from slowwave import frames
from slowwave.validity import as_of_sql, is_live, known_as_of_sql, live_sql, time_sql, valid_facts

ENDS: frames.Schema = {"id": frames.TEXT, "end_known_at": frames.TIME}
JUDGED = ("id", "status", "valid_from", "valid_to", "created_at", "expired_at", "replaced_by")
"""The columns by which a question about the past is answered."""
_NEVER_BELIEVED = ("candidate", "rejected")


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
    - Retired later (`expired_at` > t): active, with no replacement and no reason. Its end is unknown again, if the
      retirement set it: a superseded fact ends where its replacement begins, or later; an end before that was known
      already. The end of a retracted fact came with the retraction; an archived one keeps what it had.
    - Ended later but still believed ("I left in May"): its end is unknown again; `ends` (id, end_known_at) says when
      the last end of a fact was learned, and decides wherever it names a fact.
    - Retired by `t`: as it is, so that a question about an earlier time of the world finds it.

    What was merely made surer since (confidence, evidence, a start that moved back when another wording was absorbed)
    is as today: no column remembers it.
    """
    held = rows.filter((pl.col("created_at") <= t) & ~pl.col("status").is_in(_NEVER_BELIEVED))
    starts = rows.select(replaced_by="id", replaced_from="valid_from").unique("replaced_by")
    learned = frames.empty(ENDS) if ends is None else ends.group_by("id").agg(pl.col("end_known_at").max())
    judged = held.join(starts, on="replaced_by", how="left", maintain_order="left")
    judged = judged.join(learned, on="id", how="left", maintain_order="left")
    is_later = (pl.col("expired_at") > t).fill_null(False)
    before = (pl.col("valid_to") < pl.col("replaced_from")).fill_null(False)
    came_with_it = is_later & pl.col("status").is_in(["superseded", "retracted"]) & ~before
    is_unknown = pl.coalesce(pl.col("end_known_at") > t, came_with_it)
    taken_back = [c for c in ("expired_at", "replaced_by", "status_reason") if c in rows.columns]
    return judged.with_columns(
        *[pl.when(~is_later).then(column).alias(column) for column in taken_back],
        status=pl.when(is_later).then(pl.lit("active")).otherwise("status"),
        valid_to=pl.when(~is_unknown).then("valid_to"),
    ).drop("replaced_from", "end_known_at")

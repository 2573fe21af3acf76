"""Aspect scores: how well each aspect of a life is known, written down after a run that learned or forgot (S3-19).

They follow what was written since they were scored last: its rows as they were then and as they are now
(`aspect_parts`). All facts are read only where that cannot be told (an undo, a repair, deleted facts, an old version
that is gone), where most of them changed, and by the nightly steward, to be sure.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import polars as pl

from recall.groups import scored_from
from slowwave.common.errors import StoreMismatch
from slowwave.common.validity import time_sql
from slowwave.facts.aspects import COUNTED, PARTS, TOTALS, added, changed_scores, difference, parts_of, scores_of
from storage.rows import MARK, quoted
from storage.snapshots import MANY, Reading, Snapshot
from storage.store import Store
from storage.transactions import Transaction
from tasks.runtime.engine import task
from tasks.runtime.runs import Run, Writing, store_of

KIND = "aspects"
AGAIN = 500  # so many are written down as looked at even if no score changed
_MADE_OF = ("facts", "fact_aspects")
_PARTS = "aspect_parts"
_NOTHING = pl.DataFrame(schema=PARTS)
_UNTOLD = ("undo", "repair")  # kinds of commits after which a row may be older than its mark says


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """Slug and COUNTED of the fourteen aspects, parts to write, and whether to write it."""

    scores: pl.DataFrame
    parts: pl.DataFrame
    is_due: bool


@task("refresh aspects")
def refreshed_aspects(run: Run, *, anew: bool = False) -> Writing | None:
    """Bring all fourteen aspects up to what is live now; what writes them in the commit that ends the run.

    None where no score says something else than before and little was looked at; else all of them are written, so that
    they speak of one time. `anew` counts all facts, whatever was kept.
    """
    store = store_of(run)
    snapshot = store.snapshot()
    found = _counted(store, snapshot, run.now, anew)
    if not found.is_due:
        return None
    return Writing(KIND, partial(_write, run=run, found=found, counted_at=snapshot.sequence, anew=anew))


def _write(tx: Transaction, run: Run, found: _Found, counted_at: int, anew: bool) -> None:
    """Store what was counted at the commit `counted_at`; counted again where another run wrote something since."""
    if tx.sequence != counted_at + 1:
        found = _counted(store_of(run), tx, run.now, anew)
    if found.is_due:
        tx.upsert("aspect_scores", found.scores.rename({"slug": "id"}).with_columns(scored_at=pl.lit(run.now)))
        tx.upsert(_PARTS, found.parts.filter(pl.col("number") != 0))
        tx.delete(_PARTS, found.parts.filter(pl.col("number") == 0)["id"])


def _counted(store: Store, reading: Reading, now: datetime, anew: bool) -> _Found:
    changes = None if anew else _changes(store, reading, now)
    if changes is None:
        facts, tags = scored_from(reading, now)
        fresh, stored = added(_NOTHING, parts_of(facts, tags)), reading.frame(_PARTS, columns=[*PARTS])
        gone = stored.join(fresh, on="id", how="anti").with_columns(number=pl.lit(0, dtype=pl.Int64))
        parts = pl.concat([fresh.join(stored, on=["id", "number"], how="anti"), gone])
        scores, is_due = scores_of(fresh), len(parts) > 0 or (not anew and len(facts) > AGAIN)
    else:
        change, looked_at = changes
        kept = reading.by_ids(_PARTS, [*TOTALS, *change["id"]], [*PARTS])
        parts = added(kept, change)
        scores, is_due = scores_of(pl.concat([kept.join(parts, on="id", how="anti"), parts])), looked_at > AGAIN
    changed = len(changed_scores(scores, reading.frame("aspect_scores", columns=["id", *COUNTED])))
    return _Found(scores, parts, is_due or changed > 0)


def _changes(store: Store, reading: Reading, now: datetime) -> tuple[pl.DataFrame, int] | None:
    """The parts that changed since aspects were scored last, and of how many facts; None where it cannot be told."""
    earlier, scored_at = _last(store, reading), reading.frame("aspect_scores", columns=["scored_at"])["scored_at"].max()
    if earlier is None or not isinstance(scored_at, datetime):
        return None
    ids = _changed_facts(earlier, reading, scored_at, now)
    if len(ids) > MANY:
        return None
    try:
        facts, tags = scored_from(earlier, scored_at, ids)
        others = earlier.count("facts") - earlier.count_ids("facts", ids)
        untagged = earlier.count("fact_aspects") - len(tags)
    except StoreMismatch:  # its versions are no longer kept
        return None
    fresh, fresh_tags = scored_from(reading, now, ids)
    is_whole = reading.count("facts") == others + reading.count_ids("facts", ids)
    if not is_whole or reading.count("fact_aspects") != untagged + len(fresh_tags):
        return None  # rows were deleted, and leave no mark
    return difference(parts_of(facts, tags), parts_of(fresh, fresh_tags)), len(ids)


def _last(store: Store, reading: Reading) -> Snapshot | None:
    """The state of the facts that the aspects were scored by last; None where none is known, or marks since mislead."""
    last = reading.frame("commits", f"kind = {quoted(KIND)}", ["sequence"], 1, ["-sequence"])["sequence"]
    if last.is_empty():
        return None
    since = reading.frame("commits", f"sequence >= {last[0]}", ["sequence", "kind", "versions"]).sort("sequence")
    versions = json.loads(since["versions"][0])
    if _PARTS not in versions or since["kind"].is_in(_UNTOLD).any():
        return None
    made_of = {name: versions[name] for name in _MADE_OF}
    return Snapshot(store.db, made_of, last[0], ("", reading.dims))


def _changed_facts(earlier: Snapshot, reading: Reading, scored_at: datetime, now: datetime) -> pl.Series:
    """Ids of facts that were written since, in themselves or their tags, or that end between the two times."""
    first, last = sorted((scored_at, now))
    ends = f"valid_to > {time_sql(first)} AND valid_to <= {time_sql(last)}"
    parts = [reading.frame("facts", ends, ["id"])["id"]]
    for name, column in zip(_MADE_OF, ("id", "fact_id"), strict=True):
        if reading.versions[name] != earlier.versions[name]:
            parts.append(reading.frame(name, f"{MARK} > {earlier.versions[name]}", [column])[column])
    return pl.concat([part.rename("id") for part in parts]).unique()

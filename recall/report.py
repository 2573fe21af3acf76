"""The consolidation report: one look over a whole memory that changes nothing and leaves no trace (S0-17 … S0-28)."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

import polars as pl

from slowwave.common import frames
from slowwave.common.errors import UnusableInput
from slowwave.common.settings import ReportSettings
from slowwave.common.types import DuplicatePair
from slowwave.common.validity import Moment, live_sql
from slowwave.lifecycle.usage_scores import entity_usage_of, fold_reads, weigh
from slowwave.review import report as rules
from storage.rows import CREATED
from storage.snapshots import Reading, Snapshot

from .doubts import doubts_of
from .entity_review import OBSERVED, duplicates_among, scan_entities

# Reads of entities so far: what is counted, and what was logged since and waits to be counted (S0-23, T5).


LOG = "entity_access_log"


def reads_so_far(reading: Reading) -> pl.DataFrame:
    """ENTITY_USAGE of every entity that was ever read, reads that no steward has counted yet included (T5)."""
    usage = reading.frame("entity_usage", columns=list(frames.ENTITY_USAGE))
    merged = dict(reading.frame("entities", "merged_into IS NOT NULL", ["id", "merged_into"]).iter_rows())
    unread = _uncounted(reading)
    touched = [*merged, *merged.values(), *unread["entity_id"]]
    days = reading.by_ids("entity_days", touched, list(frames.ENTITY_DAYS), key="entity_id")
    fresh, fresh_days = fold_reads(usage, days, unread)
    whole, all_days = (
        pl.concat([old.join(newer, on="id", how="anti"), newer]) for old, newer in ((usage, fresh), (days, fresh_days))
    )
    return entity_usage_of(whole, all_days, merged)


def _uncounted(reading: Reading) -> pl.DataFrame:
    """Reads that were logged after those that are counted: all of them, if the log was written again since."""
    marks = reading.by_ids("log_marks", [LOG], ["version"])["version"].to_list()
    mark = marks[0] if marks and marks[0] <= reading.handle(LOG).version else 0
    return reading.frame(LOG, f"{CREATED} > {mark}", ["entity_id", "query_hash", "at"])


PAIRS_EACH = 3
"""Listed pairs of each entity whose observations look alike, the nearest ones."""
_ENTITY = ("id", "name", "entity_type", "status", "created_at", "pinned")
PENDING = "state = 'pending'"


def consolidation_report(
    snapshot: Snapshot, settings: ReportSettings, now: datetime, stale_days: float | None = None
) -> dict[str, Any]:
    """What wants a person's eye, in the names of sofia's `consolidation_report`; times are ISO 8601.

    Nothing is written, and no read is logged (T27). `stale_days` is a number of days from 0, None: that of the
    settings; raises `UnusableInput` for any other.
    """
    unread_for = _checked(settings.stale_days if stale_days is None else stale_days)
    sizes = scan_entities(snapshot, settings.split, now)
    entities, usage = _entities(snapshot, sizes), reads_so_far(snapshot)
    scores = weigh(entities, usage, _relations(snapshot, now), now, settings.use)
    archival = rules.archival_candidates(entities, scores, usage)
    flagged = rules.flagged_observations(_flagged(snapshot, now), entities)
    ids = [each["entity_id"] for each in archival]
    stale = rules.stale_entities(entities, usage, ids, settings, now, unread_for)
    candidates = rules.split_candidates(sizes, entities)
    large = rules.large_entities(sizes, entities, settings.split)
    doubted = rules.suspects(_suspects(snapshot, now), entities)
    active = _most_read(entities, usage, settings.top_n_active)
    summary = {
        "total_entities": len(entities.filter(rules.is_listed())),
        "total_observations": int(entities["count"].sum()),
        "split_candidates_count": len(candidates),
        "flagged_observations_count": sum(map(len, flagged.values())),
        "stale_entities_count": len(stale),
        "large_entities_count": len(large),
        "archival_candidates_count": len(archival),
        "suspects_count": len(doubted),
        "pending_proposals_count": snapshot.count("proposals", PENDING),
    }
    return {
        "summary": summary, "split_candidates": candidates, "flagged_observations": flagged, "stale_entities": stale,
        "large_entities": large, "archival_candidates": archival, "suspects": doubted,
        "duplicates": _alike(snapshot, active, now), "reviewed_entities": len(active), "commit": snapshot.sequence,
        "generated_at": now.isoformat(), "stale_days": unread_for,
    }  # fmt: skip


def _checked(stale_days: float) -> float:
    most = 36_500.0
    if math.isnan(stale_days) or not 0.0 <= stale_days <= most:
        raise UnusableInput(f"stale_days = {stale_days} is out of range.", f"It is a number from 0 to {most:.0f}.")
    return float(stale_days)


def _entities(snapshot: Snapshot, sizes: pl.DataFrame) -> pl.DataFrame:
    """ENTITIES of the rules, in order of ids; of what is archived no observations are counted."""
    whole = snapshot.frame("entities", "merged_into IS NULL", _ENTITY).with_columns(pl.col("name").fill_null(""))
    named = whole.with_columns(rules.called_names(whole["name"], whole["entity_type"], whole["id"]))
    counted = named.join(sizes.select("count", id="entity_id"), on="id", how="left")
    return counted.with_columns(pl.col("count").fill_null(0)).sort("id")


def _relations(snapshot: Snapshot, now: datetime) -> pl.DataFrame:
    return snapshot.frame("facts", f"kind = 'relation' AND {live_sql(now)}", ["subject_id", "object_id"])


def _flagged(snapshot: Snapshot, now: datetime) -> pl.DataFrame:
    columns = ["id", "owner_entity_id", "statement", "similar_to_id", "similarity_score"]
    return snapshot.frame("facts", f"similarity_flag AND {OBSERVED} AND {live_sql(now)}", columns)


def _suspects(snapshot: Snapshot, now: datetime) -> pl.DataFrame:
    """Live facts that lean on one that does not hold: id, statement, owner_entity_id, suspect_of, leans_on."""
    columns = ["id", "statement", "owner_entity_id", "suspect_of", "supersedes_id"]
    marked = snapshot.frame("facts", f"suspect_of IS NOT NULL AND {live_sql(now)}", columns)
    doubts = doubts_of(snapshot, marked, Moment(now)) if len(marked) else None
    leaning = {} if doubts is None else {fact: mention.statement for fact, mention in doubts.suspects.items()}
    reasons = pl.DataFrame(
        {"id": [*leaning], "leans_on": [*leaning.values()]}, {"id": pl.String, "leans_on": pl.String}
    )
    return marked.join(reasons, on="id")


def _most_read(entities: pl.DataFrame, usage: pl.DataFrame, number: int) -> pl.DataFrame:
    """The most read entities that hold several observations; of equally read ones the fullest first (S0-28)."""
    read = entities.join(usage.select("id", "access_count"), on="id", how="left")
    several = read.filter(pl.col("count") > 1).with_columns(pl.col("access_count").fill_null(0))
    return several.sort("access_count", "count", "name", "id", descending=[True, True, False, False]).head(number)


def _alike(snapshot: Snapshot, active: pl.DataFrame, now: datetime) -> list[dict[str, Any]]:
    """Those of the entities in which observations look alike, most read first."""
    names = dict(active.select("id", "called").iter_rows())
    reads = dict(active.select("id", "access_count").iter_rows())
    return [
        {
            "entity_id": found.entity_id, "entity_name": found.entity, "access_count": reads[found.entity_id],
            "total_observations": found.total_observations, "duplicates_found": found.duplicates_found,
            "pairs": [_pair(each) for each in found.pairs],
        }
        for found in duplicates_among(snapshot, now, names, PAIRS_EACH)
        if found.duplicates_found
    ]  # fmt: skip


def _pair(pair: DuplicatePair) -> dict[str, Any]:
    """The earlier observation first (S0-04)."""
    sides = {"a_id": pair.a.id, "a_content": pair.a.content, "b_id": pair.b.id, "b_content": pair.b.content}
    measures = {"similarity_score": pair.similarity_score, "containment": pair.containment}
    return {**sides, **measures, "match_type": pair.match_type}

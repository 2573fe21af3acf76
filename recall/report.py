"""What in a memory wants a person's eye: what looks alike (S0-04), what to split (S0-07 … S0-16), and the report.

The report looks over a whole memory, changes nothing and leaves no trace (S0-17 … S0-28).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import polars as pl

from slowwave.common import frames
from slowwave.common.comparison.similarity import SimilarityThresholds
from slowwave.common.errors import UnusableInput
from slowwave.common.settings import ReportSettings, SplitSettings
from slowwave.common.text import normalise_name
from slowwave.common.types import DuplicatePair, DuplicateReport, Observation
from slowwave.common.validity import live_sql
from slowwave.facts.deduplication.observations import KINDS, find_duplicates
from slowwave.lifecycle.usage_scores import entity_usage_of, fold_reads, weigh
from slowwave.review import report as rules
from slowwave.review.split_plan import SplitPart, plan_hash
from slowwave.review.split_suggestions import (
    SplitSuggestion,
    find_topics,
    threshold_column,
    weighed,
    words_in,
)
from storage.rows import CREATED, quoted
from storage.search import unit_matrix
from storage.snapshots import Reading, Snapshot

from .entities import LISTED, exact_row, find_entity

NEEDED = ("id", "statement", "scope", "message_id", "valid_from", "similarity_flag")
DIGITS = 4


def duplicates_of(
    snapshot: Snapshot,
    now: datetime,
    name: str,
    threshold: float = 0.85,
    containment_threshold: float = 0.70,
    limit: int | None = 1000,
) -> DuplicateReport:
    """Pairs of live observations that look alike, flagged or not, and what they connect; raises for an unknown entity.

    At most `limit` pairs are listed; clusters are made of all of them.
    """
    for given in (threshold, containment_threshold):
        if not 0.0 <= given <= 1.0:
            raise UnusableInput(f"A threshold of {given} is out of range.", "It is a number from 0 to 1.")
    entity = find_entity(snapshot, now, name)
    likeness = SimilarityThresholds(threshold, containment_threshold)
    return duplicates_among(snapshot, now, {entity.id: entity.name}, limit, likeness)[0]


def duplicates_among(
    snapshot: Snapshot,
    now: datetime,
    entities: Mapping[str, str],
    limit: int | None,
    likeness: SimilarityThresholds = SimilarityThresholds(),  # noqa: B008 (frozen)
) -> tuple[DuplicateReport, ...]:
    """`duplicates_of` for several entities, name by id, read at once; in their order (S0-28)."""
    if not entities:
        return ()
    where = f"owner_entity_id IN ({', '.join(map(quoted, entities))}) AND {OBSERVED} AND {live_sql(now)}"
    facts = snapshot.frame("facts", where, [*NEEDED, "owner_entity_id", "vector"])
    parts = facts.partition_by("owner_entity_id", as_dict=True)
    return tuple(
        _reviewed(parts.get((id_,), facts.clear()), snapshot.dims, id_, name, likeness, limit)
        for id_, name in entities.items()
    )


def _reviewed(
    facts: pl.DataFrame, dims: int, entity_id: str, name: str, likeness: SimilarityThresholds, limit: int | None
) -> DuplicateReport:
    vectors = unit_matrix(facts["vector"], dims)
    found = find_duplicates(facts.drop("vector"), vectors, likeness, limit)
    observations = {
        fact: Observation(fact, statement or "", bool(flag))
        for fact, statement, flag in facts.select("id", "statement", "similarity_flag").iter_rows()
    }
    clusters = tuple(tuple(observations[fact] for fact in members) for members in found.clusters)
    rounded = found.pairs.with_columns(pl.col("cosine", "containment").round(DIGITS)).iter_rows()
    pairs = tuple(DuplicatePair(observations[a], observations[b], *measures) for a, b, *measures in rounded)
    return DuplicateReport(name, entity_id, found.total, found.found, pairs, clusters)


# Entities that hold too much: which should be split, by which topics, and into what (S0-07 … S0-13, S0-16).


SCANNED = {
    "entity_id": pl.String(),
    "name": pl.String(),
    "entity_type": pl.String(),
    "count": pl.Int64(),
    "threshold": pl.Int64(),
    "topics": pl.List(pl.Struct({"label": pl.String(), "ids": pl.List(pl.String())})),
    "n_apart": pl.Int64(),
    "is_distinct": pl.Boolean(),
    "is_candidate": pl.Boolean(),
    "split_score": pl.Float64(),
}
OBSERVED = f"kind IN ({', '.join(map(quoted, KINDS))})"
READ_AT_ONCE = 20_000
"""Most observations in memory at once, with their vectors; those of one entity stay together."""


def scan_entities(snapshot: Reading, settings: SplitSettings, now: datetime) -> pl.DataFrame:
    """SCANNED of every entity with a live observation, highest score first: how full it is, and its topics (S0-08)."""
    counted = _counted(snapshot, settings, now)
    full = counted.filter(pl.col("count") >= settings.proactive_ratio * pl.col("threshold"))
    scored = [
        {**row, **_scored(row, observations, settings, snapshot.dims)}
        for row, observations in _with_observations(snapshot, full, now)
    ]
    rest = counted.join(full, on="entity_id", how="anti").with_columns(
        topics=pl.lit([], SCANNED["topics"]),
        n_apart=pl.lit(0, pl.Int64),
        is_distinct=pl.lit(False),
        is_candidate=pl.lit(False),
        split_score=pl.col("count") / pl.col("threshold"),
    )
    both = [pl.DataFrame(scored, schema=SCANNED), rest.select(*SCANNED).cast(pl.Schema(SCANNED))]
    return pl.concat(both).sort(-pl.col("split_score"), "name", "entity_id")


def _with_observations(
    snapshot: Reading, full: pl.DataFrame, now: datetime
) -> Iterator[tuple[dict[str, Any], pl.DataFrame]]:
    """Each of these entities with its observations, read for many entities at a time."""
    columns, where = ["owner_entity_id", "id", "statement", "vector"], f"{OBSERVED} AND {live_sql(now)}"
    batch = (pl.col("count").cum_sum() // READ_AT_ONCE).alias("batch")
    for part in full.with_columns(batch).partition_by("batch", maintain_order=True, include_key=False):
        rows = snapshot.by_ids("facts", part["entity_id"], columns, key="owner_entity_id", where=where).sort("id")
        by_owner = rows.partition_by("owner_entity_id", as_dict=True)
        yield from ((row, by_owner[(row["entity_id"],)]) for row in part.iter_rows(named=True))


def _counted(snapshot: Reading, settings: SplitSettings, now: datetime) -> pl.DataFrame:
    where = f"{OBSERVED} AND {live_sql(now)} AND owner_entity_id IS NOT NULL"
    filed = snapshot.frame("facts", where, ["owner_entity_id"])
    counted = filed.group_by(entity_id="owner_entity_id").agg(count=pl.len().cast(pl.Int64))
    listed = snapshot.frame("entities", LISTED, ["id", "name", "entity_type"])
    named = counted.join(listed, left_on="entity_id", right_on="id")
    return named.with_columns(threshold_column(named["entity_type"], settings))


def _scored(row: Mapping[str, Any], observations: pl.DataFrame, settings: SplitSettings, dims: int) -> dict[str, Any]:
    """Topics and scores of an entity (name, threshold) with these observations; no topics where there are too few."""
    ids, texts = observations["id"].to_list(), observations["statement"].fill_null("").to_list()
    is_enough = len(ids) >= settings.proactive_ratio * row["threshold"]
    vectors = unit_matrix(observations["vector"], dims)
    topics = find_topics(texts, vectors, settings, words_in(row["name"])) if is_enough else {}
    listed = [{"label": label, "ids": [ids[place] for place in members]} for label, members in topics.items()]
    return {"topics": listed, **weighed(len(ids), row["threshold"], [*map(len, topics.values())], settings)}


def observations_of(snapshot: Reading, entity_id: str, now: datetime) -> pl.DataFrame:
    """(id, statement, vector) of the live observations that are filed under an entity, in order of their ids."""
    where = f"owner_entity_id = {quoted(entity_id)} AND {OBSERVED} AND {live_sql(now)}"
    return snapshot.frame("facts", where, ["id", "statement", "vector"]).sort("id")


def find_split_candidates(snapshot: Reading, settings: SplitSettings, now: datetime) -> list[dict[str, Any]]:
    """The entities that should be split, the one with the highest score first (S0-08, S0-11), as plain data."""
    rows = scan_entities(snapshot, settings, now).filter("is_candidate")
    return [
        {
            "entity_id": row["entity_id"], "entity_name": row["name"], "entity_type": row["entity_type"],
            "observation_count": row["count"], "threshold": row["threshold"],
            "split_score": round(row["split_score"], DIGITS),
            "topics": {topic["label"]: len(topic["ids"]) for topic in row["topics"]},
        }
        for row in rows.iter_rows(named=True)
    ]  # fmt: skip


def analyze_split(snapshot: Reading, settings: SplitSettings, now: datetime, name: str) -> dict[str, Any]:
    """How full an entity is and what it is about (S0-12); `name` is a whole name, alias, `name (type)` or id."""
    row = exact_row(snapshot, name)
    observations = observations_of(snapshot, row["id"], now)
    return _analysed(row, observations, settings, snapshot.dims)[0]


def _analysed(
    row: Mapping[str, Any], observations: pl.DataFrame, settings: SplitSettings, dims: int
) -> tuple[dict[str, Any], dict[str, list[str]], dict[str, str]]:
    """The analysis of an entity with these observations, their ids by topic, and their contents."""
    threshold = threshold_column(pl.Series([row["entity_type"]]), settings)[0]
    found = _scored({**row, "threshold": threshold}, observations, settings, dims)
    says = dict(observations.select("id", pl.col("statement").fill_null("")).iter_rows())
    topics = {topic["label"]: topic["ids"] for topic in found["topics"]}
    analysis = {
        "entity_id": row["id"], "entity_name": row["name"], "entity_type": row["entity_type"],
        "observation_count": found["count"], "threshold": threshold, "needs_split": found["is_candidate"],
        "is_distinct": found["is_distinct"],
        "topics": {label: [says[fact] for fact in ids] for label, ids in topics.items()},
        "split_score": round(found["split_score"], DIGITS), "plan_hash": plan_hash(row, observations["id"].to_list()),
    }  # fmt: skip
    return analysis, topics, says


def suggest_split(snapshot: Reading, settings: SplitSettings, now: datetime, name: str) -> SplitSuggestion:
    """How an entity could be split by topic; no splits, and why, where it need not be (S0-13).

    From `proactive_ratio` of its threshold on it is split early where its topics are clearly apart (S0-16). Topics of
    fewer than `min_topic_size` observations stay on the parent.
    """
    row = exact_row(snapshot, name)
    seen, topics, says = _analysed(row, observations_of(snapshot, row["id"], now), settings, snapshot.dims)
    count, enough = f"{row['name']} holds {seen['observation_count']} observations", seen["threshold"]
    if not seen["is_distinct"]:
        why = f"{count}, more than enough would be {enough}, but they are not of several topics: nothing to split."
        fits = f"{count}, {enough} are enough: it need not be split."
        return SplitSuggestion(seen, (), why if topics else fits, says)
    large = {label: ids for label, ids in topics.items() if len(ids) >= settings.min_topic_size}
    names = _free_names(snapshot, [f"{row['name']} - {label}" for label in large])
    splits = tuple(
        SplitPart(called, row["entity_type"], tuple(ids)) for called, ids in zip(names, large.values(), strict=True)
    )
    early = "" if seen["needs_split"] else "; it is not too full yet, and its topics are clearly apart"
    message = f"{count}, {enough} are enough{early}: {len(splits)} topics could be entities of their own."
    return SplitSuggestion(seen, splits, message, says)


def _free_names(snapshot: Reading, names: list[str]) -> list[str]:
    """The names; one by which something is known already ends in the first number that makes it new."""
    free: list[str] = []
    for name in names:
        options = [name, *(f"{name}_{number}" for number in range(2, 100))]
        used = called(snapshot, options)["alias_name"].to_list() + [normalise_name(each) for each in free]
        free.append(next(each for each in options if normalise_name(each) not in used))
    return free


def called(reading: Reading, names: Sequence[str]) -> pl.DataFrame:
    """(alias_name, entity_id) of all entities, gone ones too, that have one of these names in any case."""
    plain = [normalise_name(name) for name in names]
    aliases = reading.by_ids("entity_aliases", plain, ["alias_name", "entity_id"], key="alias_name")
    own = reading.by_ids("entities", plain, ["canonical_name", "id"], key="canonical_name")
    return pl.concat([aliases, own.select(alias_name="canonical_name", entity_id="id")]).unique().sort("alias_name")


# Reads of entities so far: what is counted, and what was logged since and waits to be counted (S0-23, T5).


LOG = "entity_access_log"


def reads_so_far(reading: Reading) -> pl.DataFrame:
    """ENTITY_USAGE of every entity that was ever read, reads that no steward has counted yet included (T5)."""
    usage = reading.frame("entity_usage", columns=list(frames.ENTITY_USAGE))
    merged = dict(reading.frame("entities", "merged_into IS NOT NULL", ["id", "merged_into"]).iter_rows())
    marks = reading.by_ids("log_marks", [LOG], ["version"])["version"].to_list()
    mark = marks[0] if marks and marks[0] <= reading.handle(LOG).version else 0  # 0: the log was written again since
    unread = reading.frame(LOG, f"{CREATED} > {mark}", ["entity_id", "query_hash", "at"])
    touched = [*merged, *merged.values(), *unread["entity_id"]]
    days = reading.by_ids("entity_days", touched, list(frames.ENTITY_DAYS), key="entity_id")
    fresh, fresh_days = fold_reads(usage, days, unread)
    whole, all_days = (
        pl.concat([old.join(newer, on="id", how="anti"), newer]) for old, newer in ((usage, fresh), (days, fresh_days))
    )
    return entity_usage_of(whole, all_days, merged)


PAIRS_EACH = 3
"""Listed pairs of each entity whose observations look alike, the nearest ones."""
_ENTITY = ("id", "name", "entity_type", "status", "created_at", "pinned")
PENDING = "state = 'pending'"
MOST_DAYS = 36_500.0


def consolidation_report(
    snapshot: Snapshot, settings: ReportSettings, now: datetime, stale_days: float | None = None
) -> dict[str, Any]:
    """What wants a person's eye, in the names of sofia's `consolidation_report`; times are ISO 8601.

    Nothing is written, and no read is logged (T27). `stale_days` is a number of days from 0, None: that of the
    settings; raises `UnusableInput` for any other.
    """
    days = settings.stale_days if stale_days is None else stale_days
    if not 0.0 <= days <= MOST_DAYS:  # nan is in no range
        raise UnusableInput(f"stale_days = {days} is out of range.", f"It is a number from 0 to {MOST_DAYS:.0f}.")
    unread_for = float(days)
    sizes = scan_entities(snapshot, settings.split, now)
    entities, usage = _entities(snapshot, sizes), reads_so_far(snapshot)
    relations = snapshot.frame("facts", f"kind = 'relation' AND {live_sql(now)}", ["subject_id", "object_id"])
    scores = weigh(entities, usage, relations, now, settings.use)
    archival = rules.archival_candidates(entities, scores, usage)
    columns = ["id", "owner_entity_id", "statement", "similar_to_id", "similarity_score"]
    alike = snapshot.frame("facts", f"similarity_flag AND {OBSERVED} AND {live_sql(now)}", columns)
    flagged = rules.flagged_observations(alike, entities)
    ids = [each["entity_id"] for each in archival]
    stale = rules.stale_entities(entities, usage, ids, settings, now, unread_for)
    candidates = rules.split_candidates(sizes, entities)
    large = rules.large_entities(sizes, entities, settings.split)
    active = _most_read(entities, usage, settings.top_n_active)
    summary = {
        "total_entities": len(entities.filter(rules.is_listed())),
        "total_observations": int(entities["count"].sum()),
        "split_candidates_count": len(candidates),
        "flagged_observations_count": sum(map(len, flagged.values())),
        "stale_entities_count": len(stale),
        "large_entities_count": len(large),
        "archival_candidates_count": len(archival),
        "pending_proposals_count": snapshot.count("proposals", PENDING),
    }
    return {
        "summary": summary, "split_candidates": candidates, "flagged_observations": flagged, "stale_entities": stale,
        "large_entities": large, "archival_candidates": archival,
        "duplicates": _alike(snapshot, active, now), "reviewed_entities": len(active), "commit": snapshot.sequence,
        "generated_at": now.isoformat(), "stale_days": unread_for,
    }  # fmt: skip


def _entities(snapshot: Snapshot, sizes: pl.DataFrame) -> pl.DataFrame:
    """ENTITIES of the rules, in order of ids; of what is archived no observations are counted."""
    whole = snapshot.frame("entities", "merged_into IS NULL", _ENTITY).with_columns(pl.col("name").fill_null(""))
    named = whole.with_columns(rules.called_names(whole["name"], whole["entity_type"], whole["id"]))
    counted = named.join(sizes.select("count", id="entity_id"), on="id", how="left")
    return counted.with_columns(pl.col("count").fill_null(0)).sort("id")


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

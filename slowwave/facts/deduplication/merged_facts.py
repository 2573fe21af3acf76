"""Merged facts: merges and verdicts carried out in order, each fact merged at most once (T35, T36).

The sentence of the representative stays as it is; it takes over times, confidence, evidence and aspects of its cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import polars as pl

from slowwave.common import frames
from slowwave.common.records import CONSOLIDATED, DEDUP
from slowwave.common.validity import check_transition, entrenchment_named, entrenchment_rank, successors
from slowwave.facts.aspects import SLUGS
from slowwave.facts.revision.search_terms import joined_words

from .duplicates import Merges

STEPS = {"id": pl.String(), "winner_id": pl.String(), "how": pl.String()}
MEMBERS = {"root_id": pl.String(), "id": pl.String()}


@dataclass(slots=True)
class ClusterMerge:
    """The result of merges and verdicts.

    `steps`: duplicate → the fact that absorbed it; `how`: duplicate → DEDUP (a rule) or CONSOLIDATED (a model or a
    person).
    """

    facts: pl.DataFrame
    stored: Mapping[str, str]
    steps: dict[str, str] = field(default_factory=dict)
    how: dict[str, str] = field(default_factory=dict)

    def roots(self) -> dict[str, str]:
        """Duplicate → its last representative."""
        ends: dict[str, str] = {}
        for id_ in reversed(self.steps):  # later steps are nearer to the end
            ends[id_] = ends.get(self.steps[id_], self.steps[id_])
        return ends

    def closed(self) -> pl.DataFrame:
        """STEPS of every duplicate: its representative, and who decided."""
        rows = [(id_, winner, self.how[id_]) for id_, winner in self.steps.items()]
        return pl.DataFrame(rows, schema=STEPS, orient="row").sort("id")

    def members(self) -> pl.DataFrame:
        """MEMBERS: all facts of each cluster, with the representative."""
        roots = self.roots()
        rows = {**roots, **{root: root for root in roots.values()}}
        return pl.DataFrame([(root, id_) for id_, root in rows.items()], schema=MEMBERS, orient="row").sort(*MEMBERS)


def merge_clusters(facts: pl.DataFrame, merges: Merges, verdicts: Iterable[tuple[str, str]] = ()) -> ClusterMerge:
    """Carry out merges by rule, then verdicts (duplicate, representative) of a model or a person, in their order.

    `facts` are live. A step with a side that is merged already, and one that forms a circle, is left out (T35, T36).
    """
    stored = dict(facts.drop_nulls("replaced_by").select("id", "replaced_by").iter_rows())
    done = ClusterMerge(frames.conform(facts, frames.FACTS), stored)
    for duplicate, representative in merges.duplicates.select("loser_id", "winner_id").iter_rows():
        _take(done, duplicate, representative, DEDUP)
    for duplicate, representative in verdicts:
        _take(done, duplicate, representative, CONSOLIDATED)
    return done


def _take(done: ClusterMerge, duplicate: str, representative: str, how: str) -> None:
    """Note a step, unless one of the two was absorbed already or the step forms a circle (T35)."""
    if duplicate == representative or duplicate in done.steps or representative in done.steps:
        return
    if duplicate not in successors(representative, {**done.stored, **done.steps} if done.stored else done.steps):
        done.steps[duplicate] = representative
        done.how[duplicate] = how


# Merge provenance: a representative takes over time, confidence, evidence and aspects of its cluster (S1-06, C13).


def evidence_of(done: ClusterMerge, evidence: pl.DataFrame) -> pl.DataFrame:
    """FACT_EVIDENCE of representatives: every message of their clusters, once, without stored rows."""
    return _taken_over(done, evidence, frames.FACT_EVIDENCE, "v", "message_id", ["occurred_at", "id"])


def aspects_of(done: ClusterMerge, tags: pl.DataFrame) -> pl.DataFrame:
    """FACT_ASPECTS of representatives: those of their clusters, without stored rows."""
    return _taken_over(done, tags, frames.FACT_ASPECTS, "as", "slug", ["slug", "id"])


def _taken_over(
    done: ClusterMerge, rows: pl.DataFrame, schema: frames.Schema, prefix: str, what: str, order: list[str]
) -> pl.DataFrame:
    """The rows about members of each cluster as rows about its representative, the first of each `what`."""
    if not done.steps:
        return frames.empty(schema)
    known = frames.conform(rows, schema).select(*schema)
    heirs = done.members().select("root_id", fact_id="id")
    every = known.join(heirs, on="fact_id").sort("root_id", *order, nulls_last=True).drop("fact_id")
    first = every.unique(["root_id", what], keep="first", maintain_order=True).rename({"root_id": "fact_id"})
    new = first.join(known, on=["fact_id", what], how="anti", maintain_order="left")
    return frames.conform(frames.with_ids(new, prefix, "fact_id", what), schema).select(*schema)


def lineage_of(done: ClusterMerge) -> pl.DataFrame:
    """LINEAGE: one step per duplicate, to the fact that absorbed it."""
    rows = done.closed().select(old_id="id", new_id="winner_id", reason="how")
    return frames.conform(frames.with_ids(rows, "l", "old_id", "new_id"), frames.LINEAGE)


def merged_facts(done: ClusterMerge, evidence: pl.DataFrame, now: datetime) -> pl.DataFrame:
    """All facts: representatives with the values of their cluster, duplicates closed; valid_to stays (§6.3).

    A duplicate was as true as its representative, so questions about the past still see one fact.
    """
    if not done.steps:
        return done.facts
    steps = done.closed()
    for status in done.facts.join(steps, on="id", how="semi")["status"].unique():
        check_transition(status, "superseded")
    closed = steps.select(
        "id",
        status=pl.lit("superseded"),
        status_reason=pl.format("{}: absorbed by {}", "how", "winner_id"),
        replaced_by="winner_id",
        expired_at=pl.lit(now, dtype=frames.TIME),
    )
    return done.facts.update(_provenance(done, evidence), on="id").update(closed, on="id")


def _provenance(done: ClusterMerge, evidence: pl.DataFrame) -> pl.DataFrame:
    """The id of each representative with the values of its cluster, under the names of FACTS.

    Earliest valid_from, highest confidence, strongest entrenchment, each message counted once, aspects in the order of
    the taxonomy, the latest duplicate as supersedes_id, and the general words of all.
    """
    members = done.members()
    rows = members.join(done.facts, on="id").with_columns(rank=entrenchment_rank("entrenchment"))
    counts = (
        frames.conform(evidence, frames.FACT_EVIDENCE)
        .join(members.select("root_id", fact_id="id"), on="fact_id")
        .group_by("root_id")
        .agg(messages=pl.col("message_id").n_unique().cast(pl.Int64))
    )
    older = rows.filter(pl.col("id") != pl.col("root_id")).sort("valid_from", "id")
    latest = older.group_by("root_id").agg(supersedes_id=pl.col("id").last())
    worth = rows.group_by("root_id").agg(
        pl.col("valid_from").min(), pl.col("confidence", "evidence_count", "rank").max(),
        slugs=pl.col("aspect_slugs").explode().drop_nulls().unique(),
    )  # fmt: skip
    words = joined_words(rows.select("search_terms", id="root_id"), done.facts).rename({"id": "root_id"})
    joined = worth
    for more in (counts, latest, words):
        joined = joined.join(more, on="root_id", how="left")
    slugs = [pl.when(pl.col("slugs").list.contains(slug)).then(pl.lit(slug)) for slug in SLUGS]
    return joined.select(
        "valid_from", "confidence", "supersedes_id", "search_terms",
        id="root_id",
        evidence_count=pl.max_horizontal("evidence_count", "messages"),
        entrenchment=entrenchment_named("rank"),
        aspect_slugs=pl.concat_list(slugs).list.drop_nulls(),
    )  # fmt: skip

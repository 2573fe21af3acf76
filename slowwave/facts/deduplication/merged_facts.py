"""Merged facts: merges and verdicts carried out in order, each fact merged at most once (T35, T36)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import polars as pl

from slowwave.common import frames
from slowwave.common.comparison.guards import may_yield
from slowwave.common.entrenchment import entrenchment_named, entrenchment_rank
from slowwave.common.records import CONSOLIDATED, DEDUP
from slowwave.common.text import row_id, statement_hash, timed_id
from slowwave.common.validity import successors
from slowwave.common.words import content_stems
from slowwave.facts.aspects import SLUGS
from slowwave.facts.revision.application import activated
from slowwave.facts.revision.candidates import MAX_STATEMENT_BYTES
from slowwave.facts.revision.search_terms import joined_words

from .duplicates import Merges

# Notes that are merged keep all words of both (S4-09).


LEAST_OVERLAP = 20  # characters; a shorter overlap may be chance


def combine(keep: str, drop: str, least_overlap: int = LEAST_OVERLAP) -> str:
    """One text that contains both.

    The longer one if it contains the other. Else both, joined at the longest overlap of one's end with the other's
    beginning, of at least `least_overlap` characters; `keep` first, if possible. Else the longer one, an empty line,
    the shorter one.
    """
    longer, shorter = (keep, drop) if len(keep) >= len(drop) else (drop, keep)
    if shorter in longer:
        return longer
    for first, second in ((keep, drop), (drop, keep)):
        if shared := _overlap(first, second, max(least_overlap, 1)):
            return first + second[shared:]
    return f"{longer}\n\n{shorter}"


def _overlap(first: str, second: str, least: int) -> int:
    """Length of the longest end of the first text that begins the second; 0 below `least`."""
    lengths = range(min(len(first), len(second)), least - 1, -1)
    return next((length for length in lengths if first.endswith(second[:length])), 0)


def combined_notes(pairs: pl.DataFrame) -> dict[str, str]:
    """New texts of notes (id, keep) that absorb others (drop) with further words.

    Notes that differ only in endings, articles or punctuation keep their text, and so do notes whose joined text would
    be too long for a statement.
    """
    lacks = content_stems("drop").list.set_difference(content_stems("keep")).list.len() > 0
    texts: dict[str, str] = {}
    for id_, keep, drop in pairs.filter(lacks).select("id", "keep", "drop").iter_rows():
        text = combine(texts.get(id_, keep), drop)
        if len(text.encode()) <= MAX_STATEMENT_BYTES:
            texts[id_] = text
    kept = dict(pairs.select("id", "keep").iter_rows())
    return {id_: text for id_, text in texts.items() if text != kept[id_]}


STEPS = {"id": pl.String(), "winner_id": pl.String(), "target_id": pl.String(), "how": pl.String()}
TARGETS = {"root_id": pl.String(), "target_id": pl.String(), "statement": pl.String()}
MEMBERS = {"target_id": pl.String(), "root_id": pl.String(), "id": pl.String()}


@dataclass(slots=True)
class ClusterMerge:
    """The result of merges and verdicts.

    `steps`: duplicate → the fact that absorbed it; `how`: duplicate → DEDUP (a rule) or CONSOLIDATED (a model or a
    person). `wordings`: note → new statement with the words of others.
    """

    facts: pl.DataFrame
    stored: Mapping[str, str]
    steps: dict[str, str] = field(default_factory=dict)
    how: dict[str, str] = field(default_factory=dict)
    wordings: dict[str, str] = field(default_factory=dict)

    def roots(self) -> dict[str, str]:
        """Duplicate → its last representative."""
        ends: dict[str, str] = {}
        for id_ in reversed(self.steps):  # later steps are nearer to the end
            ends[id_] = ends.get(self.steps[id_], self.steps[id_])
        return ends

    def reworded(self) -> pl.DataFrame:
        """TARGETS: representatives that get a new row with a new statement; its id is deterministic, for retries."""
        if not self.wordings:
            return pl.DataFrame(schema=TARGETS)
        starts = dict(self.facts.select("id", "valid_from").iter_rows())
        roots = self.roots()
        groups = {root: sorted(id_ for id_, end in roots.items() if end == root) for root in self.wordings}
        rows = [
            (root, timed_id("f", min(known), "reworded", root, groups[root], words), words)
            for root, words in self.wordings.items()
            if root not in self.steps and (known := [at for i in (root, *groups[root]) if (at := starts.get(i))])
        ]
        return pl.DataFrame(rows, schema=TARGETS, orient="row").sort("root_id")

    def supersessions(self) -> pl.DataFrame:
        """STEPS of every closed fact: its representative, the row of that now, and who decided."""
        new = dict(self.reworded().select("root_id", "target_id").iter_rows())
        rows = [
            (id_, representative, new.get(representative, representative), self.how[id_])
            for id_, representative in self.steps.items()
        ]
        rows += [(root, root, target, DEDUP) for root, target in new.items()]
        return pl.DataFrame(rows, schema=STEPS, orient="row").sort("id")

    def members(self) -> pl.DataFrame:
        """MEMBERS: all facts of each target, with the representative in its old wording."""
        roots = self.roots()
        new = dict(self.reworded().select("root_id", "target_id").iter_rows())
        everyone = {**roots, **{root: root for root in (*roots.values(), *new)}}
        rows = [(new.get(root, root), root, id_) for id_, root in everyone.items()]
        return pl.DataFrame(rows, schema=MEMBERS, orient="row").sort("target_id", "id")


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
    if merges.joins_notes:
        _join_notes(done)
    return done


def _join_notes(done: ClusterMerge) -> None:
    """Give notes a new wording with the words of the notes that they absorbed by rule, in their order (S4-09).

    Not notes that were absorbed, are pinned, or are axioms.
    """
    notes = done.facts.filter(pl.col("kind") == "note")
    free = notes.filter(may_yield(""), ~pl.col("id").is_in(list(done.steps)))
    steps = [
        (representative, duplicate) for duplicate, representative in done.steps.items() if done.how[duplicate] == DEDUP
    ]
    pairs = (
        pl.DataFrame(steps, schema={"id": pl.String, "loser_id": pl.String}, orient="row")
        .join(free.select("id", keep="statement"), on="id", maintain_order="left")
        .join(notes.select(loser_id="id", drop="statement"), on="loser_id", maintain_order="left")
    )
    done.wordings |= combined_notes(pairs)


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
    known = frames.conform(rows, schema).select(*schema)
    heirs = done.members().select("target_id", fact_id="id")
    every = known.join(heirs, on="fact_id").sort("target_id", *order, nulls_last=True).drop("fact_id")
    first = every.unique(["target_id", what], keep="first", maintain_order=True).rename({"target_id": "fact_id"})
    new = first.join(known, on=["fact_id", what], how="anti", maintain_order="left")
    ids = [row_id(prefix, *pair) for pair in new.select("fact_id", what).iter_rows()]
    return frames.conform(new.with_columns(id=pl.Series(ids, dtype=pl.String)), schema).select(*schema)


def merge_provenance(done: ClusterMerge, evidence: pl.DataFrame) -> pl.DataFrame:
    """Per representative (root_id, target_id) the values of its cluster, under the names of FACTS.

    Earliest valid_from, highest confidence, strongest entrenchment, each message counted once, aspects in the order of
    the taxonomy, the latest predecessor as supersedes_id, and the general words of all.
    """
    members = done.members()
    rows = members.join(done.facts, on="id").with_columns(rank=entrenchment_rank("entrenchment"))
    counts = (
        frames.conform(evidence, frames.FACT_EVIDENCE)
        .join(members.select("target_id", fact_id="id"), on="fact_id")
        .group_by("target_id")
        .agg(messages=pl.col("message_id").n_unique().cast(pl.Int64))
    )
    # A reworded representative replaces its old wording, any other one the facts that it absorbed.
    older = rows.filter((pl.col("id") != pl.col("root_id")) | (pl.col("root_id") != pl.col("target_id")))
    latest = older.sort("valid_from", "id").group_by("target_id").agg(supersedes_id=pl.col("id").last())
    worth = rows.group_by("target_id", "root_id").agg(
        pl.col("valid_from").min(),
        pl.col("confidence").max(),
        pl.col("evidence_count").max(),
        pl.col("rank").max(),
        slugs=pl.col("aspect_slugs").explode().drop_nulls().unique(),
    )
    statements = done.facts.select(root_id="id", known="statement")
    statements = members.select("target_id", "root_id").unique().join(statements, on="root_id")
    statements = statements.join(done.reworded(), on=["target_id", "root_id"], how="left")
    statements = statements.select(id="target_id", statement=pl.coalesce("statement", "known"))
    words = joined_words(rows.select("search_terms", id="target_id"), statements).rename({"id": "target_id"})
    joined = worth
    for more in (counts, latest, words):
        joined = joined.join(more, on="target_id", how="left")
    slugs = [pl.when(pl.col("slugs").list.contains(slug)).then(pl.lit(slug)) for slug in SLUGS]
    return joined.sort("target_id").select(
        "target_id", "root_id", "valid_from", "confidence", "supersedes_id", "search_terms",
        evidence_count=pl.max_horizontal("evidence_count", "messages"),
        entrenchment=entrenchment_named("rank"),
        aspect_slugs=pl.concat_list(slugs).list.drop_nulls(),
    )  # fmt: skip


def with_merge_provenance(done: ClusterMerge, worth: pl.DataFrame, now: datetime) -> pl.DataFrame:
    """All facts: representatives with the values of their cluster, duplicates closed; valid_to stays (§6.3).

    A duplicate was as true as its representative, so questions about the past still see one fact.
    """
    own = worth.filter(pl.col("target_id") == pl.col("root_id")).drop("root_id").rename({"target_id": "id"})
    closed = done.supersessions().select(
        "id",
        status=pl.lit("superseded"),
        status_reason=pl.format("{}: absorbed by {}", "how", "target_id"),
        replaced_by="target_id",
        expired_at=pl.lit(now, dtype=frames.TIME),
    )
    return done.facts.update(own, on="id").update(closed, on="id")


def reworded_facts(done: ClusterMerge, worth: pl.DataFrame, facts: pl.DataFrame, batch_id: str) -> pl.DataFrame:
    """FACTS: new rows of reworded representatives, without vector; subject and object stay (C14).

    `facts` are all facts after the merge, for the marks of the old rows.
    """
    new = done.reworded()
    hashes = pl.Series([statement_hash(text) for text in new["statement"]], dtype=pl.String)
    inherits = worth.join(new.select("root_id"), on="root_id", how="semi").rename({"target_id": "id"})
    old = facts.rename({"id": "root_id"}).drop(c for c in inherits.columns if c in frames.FACTS and c != "id")
    rows = (
        new.select("root_id", "statement", statement_hash=hashes)
        .join(old.drop("statement", "statement_hash"), on="root_id", maintain_order="left")
        .join(inherits, on="root_id", maintain_order="left")
        .with_columns(
            status=pl.lit("candidate"),
            replaced_by=pl.lit(None, dtype=pl.String),
            expired_at=pl.lit(None, dtype=frames.TIME),
            pinned=pl.lit(False),
            patch_batch_id=pl.lit(batch_id),
            similarity_flag=pl.lit(False),
            similar_to_id=pl.lit(None, dtype=pl.String),
            similarity_score=pl.lit(None, dtype=pl.Float64),
            embed_model=pl.lit(None, dtype=pl.String),
        )
    )
    return activated(frames.conform(rows, frames.FACTS).select(*frames.FACTS), "consolidated")


def lineage_of(done: ClusterMerge) -> pl.DataFrame:
    """LINEAGE: one step per closed fact, to the row that replaces it."""
    rows = done.supersessions().select(old_id="id", new_id="target_id", reason="how")
    ids = [row_id("l", *pair) for pair in rows.select("old_id", "new_id").iter_rows()]
    return frames.conform(rows.with_columns(id=pl.Series(ids, dtype=pl.String)), frames.LINEAGE)

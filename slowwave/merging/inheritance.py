"""What a survivor takes over: time, confidence, evidence, aspects of all it absorbs; nothing is lost (S1-06, C13)."""

from __future__ import annotations

from datetime import datetime

import polars as pl

from slowwave import frames
from slowwave.application.application import activated
from slowwave.application.entrenchment import entrenchment_named, entrenchment_rank
from slowwave.aspects import SLUGS
from slowwave.general_words import joined_words
from slowwave.merging.absorption import Absorption
from slowwave.text import row_id, statement_hash


def evidence_of(done: Absorption, evidence: pl.DataFrame) -> pl.DataFrame:
    """FACT_EVIDENCE of survivors: every message that one of theirs was said in, once, where it is not there yet."""
    held = frames.conform(evidence, frames.FACT_EVIDENCE).select(*frames.FACT_EVIDENCE)
    heirs = done.members().select("target_id", fact_id="id")
    said = held.join(heirs, on="fact_id").sort("target_id", "occurred_at", "id", nulls_last=True)
    first = said.unique(["target_id", "message_id"], keep="first", maintain_order=True).drop("fact_id")
    named = first.rename({"target_id": "fact_id"})
    new = named.join(held, on=["fact_id", "message_id"], how="anti", maintain_order="left")
    ids = [row_id("v", *pair) for pair in new.select("fact_id", "message_id").iter_rows()]
    rows = new.with_columns(id=pl.Series(ids, dtype=pl.String))
    return frames.conform(rows, frames.FACT_EVIDENCE).select(*frames.FACT_EVIDENCE)


def aspects_of(done: Absorption, tags: pl.DataFrame) -> pl.DataFrame:
    """FACT_ASPECTS of survivors: those of all they absorbed, where they are not there yet."""
    held = frames.conform(tags, frames.FACT_ASPECTS).select(*frames.FACT_ASPECTS)
    heirs = done.members().select("target_id", fact_id="id")
    named = held.join(heirs, on="fact_id").sort("target_id", "slug", "id").drop("fact_id")
    first = named.unique(["target_id", "slug"], keep="first", maintain_order=True).rename({"target_id": "fact_id"})
    new = first.join(held, on=["fact_id", "slug"], how="anti", maintain_order="left")
    ids = [row_id("as", *pair) for pair in new.select("fact_id", "slug").iter_rows()]
    rows = new.with_columns(id=pl.Series(ids, dtype=pl.String))
    return frames.conform(rows, frames.FACT_ASPECTS).select(*frames.FACT_ASPECTS)


def inherited(done: Absorption, evidence: pl.DataFrame) -> pl.DataFrame:
    """Per survivor (root_id, target_id) what it is worth with all it absorbed, under the names of FACTS.

    Earliest valid_from, highest confidence, strongest entrenchment, messages counted once, aspects in the order of the
    taxonomy, as supersedes_id the latest of its predecessors, and the general words of all.
    """
    members = done.members()
    rows = members.join(done.facts, on="id").with_columns(rank=entrenchment_rank("entrenchment"))
    counts = (
        frames.conform(evidence, frames.FACT_EVIDENCE)
        .join(members.select("target_id", fact_id="id"), on="fact_id")
        .group_by("target_id")
        .agg(heard=pl.col("message_id").n_unique().cast(pl.Int64))
    )
    # A reworded survivor takes the place of its old wording, everything else that of what it absorbed.
    older = rows.filter((pl.col("id") != pl.col("root_id")) | (pl.col("root_id") != pl.col("target_id")))
    latest = older.sort("valid_from", "id").group_by("target_id").agg(supersedes_id=pl.col("id").last())
    worth = rows.group_by("target_id", "root_id").agg(
        pl.col("valid_from").min(),
        pl.col("confidence").max(),
        pl.col("evidence_count").max(),
        pl.col("rank").max(),
        slugs=pl.col("aspect_slugs").explode().drop_nulls().unique(),
    )
    said = done.facts.select(root_id="id", known="statement")
    said = members.select("target_id", "root_id").unique().join(said, on="root_id")
    said = said.join(done.reworded(), on=["target_id", "root_id"], how="left")
    said = said.select(id="target_id", statement=pl.coalesce("statement", "known"))
    words = joined_words(rows.select("search_terms", id="target_id"), said).rename({"id": "target_id"})
    joined = worth
    for more in (counts, latest, words):
        joined = joined.join(more, on="target_id", how="left")
    return joined.sort("target_id").select(
        "target_id", "root_id", "valid_from", "confidence", "supersedes_id", "search_terms",
        evidence_count=pl.max_horizontal("evidence_count", "heard"),
        entrenchment=entrenchment_named("rank"),
        aspect_slugs=pl.concat_list(_ordered_slugs()).list.drop_nulls(),
    )  # fmt: skip


def _ordered_slugs() -> list[pl.Expr]:
    return [pl.when(pl.col("slugs").list.contains(slug)).then(pl.lit(slug)) for slug in SLUGS]


def with_inheritance(done: Absorption, worth: pl.DataFrame, now: datetime) -> pl.DataFrame:
    """All facts, survivors with what they inherit and absorbed ones closed; valid_to is untouched (§6.3).

    Redundancy is no change: an absorbed fact was as true as the other, and questions about the past still see one.
    """
    own = worth.filter(pl.col("target_id") == pl.col("root_id")).drop("root_id").rename({"target_id": "id"})
    closed = done.closings().select(
        "id",
        status=pl.lit("superseded"),
        status_reason=pl.format("{}: absorbed by {}", "how", "target_id"),
        replaced_by="target_id",
        expired_at=pl.lit(now, dtype=frames.TIME),
    )
    return done.facts.update(own, on="id").update(closed, on="id")


def reworded_facts(done: Absorption, worth: pl.DataFrame, facts: pl.DataFrame, batch_id: str) -> pl.DataFrame:
    """FACTS: the new rows of survivors in better words; what they are about is what the old ones were about (C14).

    They have no vector yet. `facts` are all facts as they will be, for the marks of the old rows.
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


def lineage_of(done: Absorption) -> pl.DataFrame:
    """LINEAGE: one step per closed fact, to the row that took its place."""
    rows = done.closings().select(old_id="id", new_id="target_id", reason="how")
    ids = [row_id("l", *pair) for pair in rows.select("old_id", "new_id").iter_rows()]
    return frames.conform(rows.with_columns(id=pl.Series(ids, dtype=pl.String)), frames.LINEAGE)

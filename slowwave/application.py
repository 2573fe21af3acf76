"""Passed candidates become knowledge: repeats, replacements, ends, and the row that tells of each (S3-11, §6.2, §6.3).

The only rule that makes a fact active. It never retires a fact for being similar: only what a claim says is over is
closed (T10, T21), by nothing weaker (S1-22), and never by what was said before it (§6.3).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

import polars as pl

from slowwave import aspects, frames
from slowwave.closing import Closings, close_facts
from slowwave.patches import DIRECTIVES, MESSAGES
from slowwave.repeats import NEIGHBOURS, entrenchment_rank, find_flags, find_repeats, pairs_of, with_keys
from slowwave.settings import EvaluateSettings
from slowwave.text import as_json, row_id, timed_id
from slowwave.validity import is_live

_NAMES = ("user_axiom", "user_stated", "system_inferred")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What memory holds near a batch of candidates. Every frame may be wider than its schema.

    `facts`: rows with a candidate's id, statement_hash, subject or directive's known_id, and its neighbours, of any
    status. `evidence`: FACT_EVIDENCE of those facts. `neighbours`: (candidate_id, fact_id, cosine) to facts and among
    candidates.
    `entities`, `aliases`: those that the facts and candidates are about.
    """

    facts: pl.DataFrame = field(default_factory=lambda: frames.empty(frames.FACTS))
    evidence: pl.DataFrame = field(default_factory=lambda: frames.empty(frames.FACT_EVIDENCE))
    neighbours: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=NEIGHBOURS))
    entities: pl.DataFrame = field(default_factory=lambda: frames.empty(frames.ENTITIES))
    aliases: pl.DataFrame = field(default_factory=lambda: frames.empty(frames.ALIASES))


@dataclass(frozen=True, slots=True)
class ApplicationPlan:
    """Rows to upsert: decided candidates and changed facts in one frame, and everything that hangs on them."""

    facts: pl.DataFrame
    evidence: pl.DataFrame
    lineage: pl.DataFrame
    aspects: pl.DataFrame
    batches: pl.DataFrame
    decisions: pl.DataFrame

    def summary(self) -> dict[str, int]:
        """How many decisions of each kind."""
        return dict(self.decisions.group_by("action").len().sort("action").iter_rows())


def plan_application(
    passed: pl.DataFrame,
    directives: pl.DataFrame,
    messages: pl.DataFrame,
    batches: pl.DataFrame,
    near: Surroundings,
    settings: EvaluateSettings,
    now: datetime,
) -> ApplicationPlan:
    """Decide every passed candidate, in the order in which they were said.

    It ends active; or rejected with reason `repeats <fact>`, its message being evidence of that fact; or superseded at
    once, because what it would replace was said later. A candidate that is already decided in `near.facts` is left
    alone, so a second application changes nothing.
    """
    fresh = _undecided(passed, near.facts, messages)
    others = _known(near, now)
    pairs = pairs_of(fresh, others, near.neighbours)
    repeats = find_repeats(fresh, others, pairs, settings)
    kept = fresh.join(repeats, on="id", how="anti", maintain_order="left")
    closings = close_facts(
        fresh, repeats, others.filter("is_live"), directives_of(directives, fresh), near.entities, near.aliases, now
    )
    gone = closings.facts["id"].to_list()
    staying = kept.filter(~pl.col("id").is_in(gone))
    flags = find_flags(staying, others.filter(pl.col("is_live") & ~pl.col("id").is_in(gone)), pairs, settings)
    evidence = _evidence(fresh, repeats, near.evidence, near.facts)
    decided = _decided(fresh, repeats, flags)
    facts = _with_closings(
        _with_evidence(pl.concat([decided, near.facts], how="diagonal"), fresh, repeats, evidence), closings
    )
    facts = _changed(facts, near.facts)
    typed = _typed(
        facts.filter((pl.col("status") == "active") & pl.col("id").is_in(kept["id"].to_list())), near.entities
    )
    return ApplicationPlan(
        facts,
        evidence,
        closings.lineage,
        aspects.aspect_rows(typed),
        _applied(batches, fresh),
        _decisions(staying, repeats, flags, closings, settings, now),
    )


def activated(candidates: pl.DataFrame, reason: str) -> pl.DataFrame:
    """Candidates that another rule of the house has decided about already, as active facts: a reworded survivor."""
    return candidates.with_columns(status=pl.lit("active"), status_reason=pl.lit(reason))


def directives_of(directives: pl.DataFrame, fresh: pl.DataFrame) -> pl.DataFrame:
    """The directives of these candidates in their order, first said first."""
    rows = frames.conform(directives, DIRECTIVES).rename({"candidate_id": "id"})
    return rows.join(fresh.select("id", "place"), on="id").sort("place", maintain_order=True).drop("place")


def _undecided(passed: pl.DataFrame, known: pl.DataFrame, messages: pl.DataFrame) -> pl.DataFrame:
    """Candidates that nobody decided yet in order of being said, with said_at, place and the keys of repetition."""
    decided = known.filter(pl.col("status") != "candidate")
    said = frames.conform(messages, MESSAGES).select(message_id="id", said_at="occurred_at").unique("message_id")
    fresh = (
        passed.filter(pl.col("status") == "candidate")
        .unique("id", keep="first", maintain_order=True)
        .join(decided, on="id", how="anti", maintain_order="left")
        .join(said, on="message_id", how="left", maintain_order="left")
        .with_columns(said_at=pl.coalesce("said_at", "valid_from"))
        .sort("said_at", "valid_from", "id")
        .with_columns(place=pl.int_range(pl.len(), dtype=pl.Int64))
    )
    return with_keys(fresh)


def _known(near: Surroundings, now: datetime) -> pl.DataFrame:
    """Facts that hold or held, with said_at (latest evidence), place -1, and the keys of repetition."""
    said = near.evidence.group_by(id="fact_id").agg(said_at=pl.col("occurred_at").max())
    held = frames.conform(near.facts, frames.FACTS).unique("id", keep="first", maintain_order=True)
    held = held.filter(pl.col("status").is_in(["active", "superseded"])).join(
        said, on="id", how="left", maintain_order="left"
    )
    return with_keys(
        held.with_columns(
            said_at=pl.coalesce("said_at", "valid_from"),
            place=pl.lit(-1, dtype=pl.Int64),
            is_live=is_live(now).fill_null(False),
            from_="valid_from",
            to="valid_to",
        )
    )


def _evidence(fresh: pl.DataFrame, repeats: pl.DataFrame, known: pl.DataFrame, facts: pl.DataFrame) -> pl.DataFrame:
    """One row per fact and message that is not there yet."""
    targets = fresh.join(repeats.select("id", "target_id"), on="id", how="left", maintain_order="left")
    rows = targets.filter(pl.col("message_id").is_not_null()).select(
        "message_id", "confidence", "quote", fact_id=pl.coalesce("target_id", "id"), occurred_at="said_at"
    )
    first = facts.filter(pl.col("status") != "candidate").select(fact_id="id", message_id="message_id")
    seen = pl.concat([known.select("fact_id", "message_id"), first])
    rows = rows.unique(["fact_id", "message_id"], keep="first", maintain_order=True).join(
        seen, on=["fact_id", "message_id"], how="anti", maintain_order="left"
    )
    ids = [row_id("v", *pair) for pair in rows.select("fact_id", "message_id").iter_rows()]
    return frames.conform(rows.with_columns(id=pl.Series(ids, dtype=pl.String)), frames.FACT_EVIDENCE)


def _decided(fresh: pl.DataFrame, repeats: pl.DataFrame, flags: pl.DataFrame) -> pl.DataFrame:
    """The candidates with their new status and what they resemble, without the columns of this rule."""
    own = ["said_at", "place", "object_key", "day"]
    marks = ["similar_to_id", "similarity_score", "related_id"]
    rows = fresh.drop(own).drop(marks, strict=False)
    rows = rows.join(
        repeats.select("id", repeated="target_id", how="cosine"), on="id", how="left", maintain_order="left"
    )
    rows = rows.join(flags, on="id", how="left", maintain_order="left")
    is_repeat = pl.col("repeated").is_not_null()
    return rows.with_columns(
        status=pl.when(is_repeat).then(pl.lit("rejected")).otherwise(pl.lit("active")),
        status_reason=pl.when(is_repeat).then(pl.lit("repeats ") + pl.col("repeated")).otherwise(pl.lit("applied")),
        similar_to_id=pl.coalesce("repeated", "similar_to_id"),
        similarity_score=pl.coalesce("how", "similarity_score"),
        similarity_flag=~is_repeat & pl.col("similar_to_id").is_not_null(),
    ).drop("repeated", "how")


def _with_evidence(
    facts: pl.DataFrame, fresh: pl.DataFrame, repeats: pl.DataFrame, evidence: pl.DataFrame
) -> pl.DataFrame:
    """Repeated facts with one more message each, the highest confidence, the strongest speaker (S2-57, C13)."""
    new = evidence.join(fresh.select(fact_id="id", message_id="message_id"), on=["fact_id", "message_id"], how="anti")
    counts = new.group_by(id="fact_id").agg(more=pl.len().cast(pl.Int64))
    repeated = (
        fresh.join(repeats.select("id", "target_id"), on="id")
        .group_by(id="target_id")
        .agg(surest=pl.col("confidence").max(), rank=entrenchment_rank("entrenchment").max())
    )
    joined = facts.join(repeated, on="id", how="left", maintain_order="left").join(
        counts, on="id", how="left", maintain_order="left"
    )
    stronger = pl.col("rank") > entrenchment_rank("entrenchment")
    named = pl.col("rank").replace_strict(
        {2: _NAMES[0], 1: _NAMES[1], 0: _NAMES[2]}, default=None, return_dtype=pl.String
    )
    return joined.with_columns(
        confidence=pl.max_horizontal("confidence", "surest"),
        evidence_count=pl.col("evidence_count").fill_null(1) + pl.col("more").fill_null(0),
        entrenchment=pl.when(stronger.fill_null(False)).then(named).otherwise("entrenchment"),
    ).drop("surest", "rank", "more")


def _with_closings(facts: pl.DataFrame, closings: Closings) -> pl.DataFrame:
    """The facts with the changes of `closings` where those have a value."""
    return facts.update(closings.facts, on="id").update(closings.predecessors, on="id")


def _changed(facts: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
    """The rows that are new or differ from what was there before; the order of columns is that of a fact."""
    columns = [
        "status",
        "status_reason",
        "valid_to",
        "expired_at",
        "replaced_by",
        "supersedes_id",
        "confidence",
        "evidence_count",
        "entrenchment",
    ]
    rows = frames.conform(facts, frames.FACTS).unique("id", keep="first", maintain_order=True)
    old = frames.conform(before, frames.FACTS).select("id", *columns)
    return rows.join(old, on=["id", *columns], how="anti", nulls_equal=True, maintain_order="left")


def _typed(facts: pl.DataFrame, entities: pl.DataFrame) -> pl.DataFrame:
    """The facts with the types of their ends, as the classifier of aspects reads them."""
    types = entities.select("id", "entity_type").unique("id")
    for end in ("subject", "object"):
        named = types.rename({"id": f"{end}_id", "entity_type": f"{end}_type"})
        facts = facts.join(named, on=f"{end}_id", how="left", maintain_order="left")
    return facts


def _applied(batches: pl.DataFrame, fresh: pl.DataFrame) -> pl.DataFrame:
    """The batches of these candidates, applied."""
    return batches.filter(pl.col("id").is_in(fresh["patch_batch_id"].unique().to_list())).with_columns(
        state=pl.lit("applied")
    )


def _decisions(
    staying: pl.DataFrame,
    repeats: pl.DataFrame,
    flags: pl.DataFrame,
    closings: Closings,
    settings: EvaluateSettings,
    now: datetime,
) -> pl.DataFrame:
    """One row per candidate and per closed or spared fact: what was seen, what was done, why."""
    alone = pl.lit("It passed and nothing says the same.")
    beside = pl.format("It passed and looks like {}: both are kept.", "similar_to_id")
    created = staying.select("id", "confidence").join(flags, on="id", maintain_order="left")
    created = created.select(
        action=pl.lit("create"),
        subject_id="id",
        ids_in=pl.concat_list("similar_to_id", "related_id").list.drop_nulls(),
        ids_out=pl.concat_list("id"),
        measures=pl.struct(
            "confidence", pl.lit(settings.flag_cosine).alias("flag_cosine"), cosine="similarity_score"
        ).struct.json_encode(),
        reason=pl.when(pl.col("similar_to_id").is_null()).then(alone).otherwise(beside),
    )
    again = pl.when(pl.col("stage") == "text").then(pl.lit("The same words again."))
    reasserted = repeats.select(
        action=pl.lit("reassert"),
        subject_id="target_id",
        ids_in=pl.concat_list("id"),
        ids_out=pl.concat_list("target_id"),
        measures=pl.struct(
            "cosine", pl.lit(settings.reassert_cosine).alias("reassert_cosine"), "stage"
        ).struct.json_encode(),
        reason=again.otherwise(pl.lit("The same in other words, and every guard agrees.")),
    )
    closed = pl.DataFrame(
        [{**row, "measures": as_json(row["measures"])} for row in closings.decisions], schema=created.schema
    )
    rows = pl.concat([created, reasserted, closed])
    keys = rows.select("action", "subject_id", pl.col("ids_in").list.join(" ")).iter_rows()
    ids = pl.Series([timed_id("d", now, *key) for key in keys], dtype=pl.String)
    return frames.conform(
        rows.with_columns(id=ids, decided_by=pl.lit("rule"), at=pl.lit(now, dtype=frames.TIME)), frames.DECISIONS
    )

"""The decisions of an application: what was created, repeated, closed, doubted, and why (the ledger)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import polars as pl

from slowwave import frames
from slowwave.settings import EvaluateSettings
from slowwave.text import as_json, timed_id

_TOLD = pl.Schema(
    {
        "action": pl.String(),
        "subject_id": pl.String(),
        "ids_in": pl.List(pl.String()),
        "ids_out": pl.List(pl.String()),
        "measures": pl.String(),
        "reason": pl.String(),
        "decided_by": pl.String(),
        "model": pl.String(),
    }
)


def decision_rows(
    staying: pl.DataFrame,
    repeats: pl.DataFrame,
    flags: pl.DataFrame,
    told: list[Mapping[str, object]],
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
        reason=again.when(pl.col("stage") == "stated")
        .then(pl.lit("It is said to repeat it, and neither a denial nor a number speaks against it."))
        .otherwise(pl.lit("The same in other words, and every guard agrees.")),
    )
    by_rule = [part.with_columns(decided_by=pl.lit("rule"), model=pl.lit("")) for part in (created, reasserted)]
    return _identified(pl.concat([*by_rule, _as_rows(told)]), now)


def told_rows(told: list[Mapping[str, object]], now: datetime) -> pl.DataFrame:
    """DECISIONS of what was noted while facts were closed."""
    return _identified(_as_rows(told), now)


def _as_rows(told: list[Mapping[str, object]]) -> pl.DataFrame:
    return pl.DataFrame([{**row, "measures": as_json(row["measures"])} for row in told], schema=_TOLD)


def _identified(rows: pl.DataFrame, now: datetime) -> pl.DataFrame:
    """The rows with their ids; what two rules refused alike, a directive and a conflict, is told once."""
    keys = rows.select("action", "subject_id", pl.col("ids_in").list.join(" ")).iter_rows()
    ids = pl.Series([timed_id("d", now, *key) for key in keys], dtype=pl.String)
    told = rows.with_columns(id=ids, model=pl.col("model").replace("", None), at=pl.lit(now, dtype=frames.TIME))
    return frames.conform(told.unique("id", keep="first", maintain_order=True), frames.DECISIONS)

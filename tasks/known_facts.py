"""Known facts: what an extractor is shown of what memory holds, so that it can say what is over."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from slowwave.application.counterparts import claims_of, find_counterparts
from slowwave.intake.windows import PlannedWindow
from slowwave.settings import ExtractSettings
from slowwave.validity import live_sql
from storage.search import near_ids, unit_matrix
from storage.snapshots import Snapshot

from .runs import Run, embedder_of

POOL_PER_MESSAGE = 20
COLUMNS = ["id", "scope", "statement", "valid_from"]


def with_known_facts(
    run: Run, snapshot: Snapshot, planned: Sequence[PlannedWindow], batch: pl.DataFrame, settings: ExtractSettings
) -> list[PlannedWindow]:
    """Show each window the live facts that its messages may contradict or bring up to date, the likeliest first."""
    facts, found = _counterparts(run, snapshot, batch, settings)
    told = {row["id"]: (row["id"], row["statement"], row["valid_from"]) for row in facts.iter_rows(named=True)}
    near: dict[str, list[tuple[int, float, str]]] = {}
    for message, fact, place, score in found.iter_rows():
        near.setdefault(message, []).append((place, -score, fact))
    shown = []
    for each in planned:
        ranked = sorted(option for message in each.new_ids for option in near.get(message, []))
        ids = list(dict.fromkeys(fact for _, _, fact in ranked))[: settings.known_facts]
        shown.append(each.knowing([told[fact] for fact in ids]))
    return shown


def _counterparts(
    run: Run, snapshot: Snapshot, batch: pl.DataFrame, settings: ExtractSettings
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Live facts near the messages by meaning or by words, and for each message its counterparts among them."""
    live = live_sql(run.now)
    told = batch.filter(pl.col("vector").is_not_null())
    ids = near_ids(snapshot, "facts", told.select("scope", "vector", text="content"), POOL_PER_MESSAGE, live)
    facts = snapshot.by_ids("facts", ids, [*COLUMNS, "vector"]).filter(pl.col("vector").is_not_null())
    asked = told.select("id", pl.col("scope").fill_null("global"), statement=_claims(told["content"])).explode(
        "statement"
    )
    vectors = embedder_of(run).embed(asked["statement"].to_list())
    found = find_counterparts(
        asked, vectors, facts.drop("vector"), unit_matrix(facts["vector"], snapshot.dims), settings.known_facts
    )
    return facts.drop("vector"), found


def _claims(texts: pl.Series) -> pl.Series:
    return pl.Series([claims_of(text or "") for text in texts], dtype=pl.List(pl.String))

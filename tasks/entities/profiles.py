"""Profiles: what each entity is as a whole, as one text with its vector, renewed where the text has changed (S0-06)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from slowwave.ranking.searched_texts import DescribedEntity, Observed, entity_text
from slowwave.text import digest
from slowwave.validity import live_sql
from storage.snapshots import Reading
from tasks.runtime.engine import task
from tasks.runtime.runs import Run, embedder_of, store_of, vector_column

MOST_NAMED = 2000  # entities that are looked up by name; beyond, one look at everything is faster
_TEXTS = {"id": pl.String, "text": pl.String, "text_hash": pl.String}
_OBSERVED_KINDS = ("observation", "note")
_READ = ("id", "kind", "predicate", "object_id", "object_text", "statement", "owner_entity_id", "valid_from")

Listed = Mapping[str, list[Any]]


@task("refresh profiles")
def refresh_profiles(run: Run, entity_ids: pl.Series | None = None) -> int:
    """Renew the profiles of these entities, or of all, whose text has changed; returns how many.

    An entity under which nothing live is filed has no profile.
    """
    store = store_of(run)
    snapshot = store.snapshot()
    fresh, gone = _changes(snapshot, run, entity_ids)
    if fresh.is_empty() and gone.is_empty():
        return 0
    embedded = _embedded(run, fresh)
    with store.commit(run.id, "profiles", run.now) as tx:
        if tx.sequence != snapshot.sequence + 1:  # another run has changed something meanwhile
            fresh, gone = _changes(tx, run, entity_ids)
            embedded = pl.concat([embedded, _embedded(run, fresh.join(embedded, on="text_hash", how="anti"))])
        vectors = embedded.unique("text_hash")
        tx.upsert("entity_profiles", fresh.join(vectors, on="text_hash", how="left", maintain_order="left"))
        tx.delete("entity_profiles", gone)
    return len(fresh) + len(gone)


def _changes(reading: Reading, run: Run, entity_ids: pl.Series | None) -> tuple[pl.DataFrame, pl.Series]:
    """(id, text, text_hash) of the profiles that are new or different, and the ids of those to remove."""
    now = _texts(reading, run, entity_ids)
    known = _rows(reading, "entity_profiles", "id", entity_ids, ("id", "text_hash"))
    fresh = now.join(known, on=["id", "text_hash"], how="anti", maintain_order="left")
    return fresh, known.join(now, on="id", how="anti")["id"]


def _texts(reading: Reading, run: Run, entity_ids: pl.Series | None) -> pl.DataFrame:
    facts = _rows(reading, "facts", "owner_entity_id", entity_ids, _READ, live_sql(run.now))
    facts = facts.filter(pl.col("kind").is_in([*_OBSERVED_KINDS, "relation"]))
    entities = _rows(reading, "entities", "id", entity_ids, ("id", "name", "entity_type", "status"))
    entities = entities.join(facts, left_on="id", right_on="owner_entity_id", how="semi").sort("id")
    observed, related = _observations(facts), _relations(reading, facts)
    texts = [
        entity_text(
            DescribedEntity(name, kind, status or "active"),
            [Observed(each["kind"], each["statement"]) for each in observed.get(entity, [])],
            [(each["predicate"], each["target"]) for each in related.get(entity, [])],
        )
        for entity, name, kind, status in entities.select("id", "name", "entity_type", "status").iter_rows()
    ]
    hashes = [digest(text) for text in texts]
    return pl.DataFrame({"id": entities["id"], "text": texts, "text_hash": hashes}, schema_overrides=_TEXTS)


def _observations(facts: pl.DataFrame) -> Listed:
    """By entity: kind and statement, in order of time; a statement that was read twice appears once."""
    observed = facts.filter(pl.col("kind").is_in(_OBSERVED_KINDS)).sort("valid_from", "id", nulls_last=False)
    return _grouped(
        observed.unique(["owner_entity_id", "statement"], keep="first", maintain_order=True), "kind", "statement"
    )


def _relations(reading: Reading, facts: pl.DataFrame) -> Listed:
    """By entity: predicate and target, the newest first."""
    related = facts.filter(pl.col("kind") == "relation")
    names = _rows(reading, "entities", "id", related["object_id"].drop_nulls(), ("id", "name"))
    aimed = related.join(names, left_on="object_id", right_on="id", how="left").with_columns(
        target=pl.coalesce("name", "object_text")
    )
    newest = aimed.drop_nulls("target").sort("valid_from", "id", descending=True, nulls_last=True)
    return _grouped(newest, "predicate", "target")


def _grouped(rows: pl.DataFrame, *columns: str) -> Listed:
    by_entity = rows.group_by("owner_entity_id", maintain_order=True).agg(each=pl.struct(*columns))
    return dict(by_entity.iter_rows())


def _rows(
    reading: Reading, name: str, key: str, ids: pl.Series | None, columns: tuple[str, ...], where: str | None = None
) -> pl.DataFrame:
    """Rows whose key is among the ids; all rows where there are none."""
    if ids is not None and ids.n_unique() <= MOST_NAMED:
        return reading.by_ids(name, ids, columns, key=key, where=where)
    rows = reading.frame(name, where, columns)
    return rows if ids is None else rows.filter(pl.col(key).is_in(ids.implode()))


def _embedded(run: Run, fresh: pl.DataFrame) -> pl.DataFrame:
    """(text_hash, vector) of the texts, each embedded once."""
    embedder = embedder_of(run)
    texts = fresh.unique("text_hash", keep="first", maintain_order=True)
    vectors = embedder.embed(texts["text"].to_list()) if len(texts) else np.empty((0, embedder.dims), np.float32)
    return texts.select("text_hash").with_columns(vector_column(vectors))

"""What follows from what is known about an entity: its profile (S0-06), its links (S2-71), its community (S2-50)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from inference.embedding import StaticEmbedder
from recall.entities import LISTED, with_last_seen
from recall.graphs import RELATIONS
from slowwave.common.settings import LinkSettings
from slowwave.common.text import digest
from slowwave.common.validity import live_sql
from slowwave.facts.searched_texts import entity_text
from slowwave.graph.community_detection import JoinPlan, plan_joining, waiting
from slowwave.graph.graph import LINK_ENDS, LINKABLE, NEAR, LinkPlan, named_together, plan_links
from storage.rows import mentioning, quoted
from storage.search import Nearest, nearest_in, unit_matrix
from storage.snapshots import Reading
from storage.transactions import Transaction
from tasks.runtime.engine import task
from tasks.runtime.runs import Run, embedder_of, store_of, vector_column
from tasks.runtime.writing import decide_and_write

log = logging.getLogger("slowwave")

_TEXTS = {"id": pl.String, "text": pl.String, "text_hash": pl.String}
_OBSERVED_KINDS = ("observation", "note")
_READ = ("id", "kind", "predicate", "object_id", "object_text", "statement", "owner_entity_id", "valid_from")

_BROKEN_OFF = ("interrupted", "failed")

Listed = Mapping[str, list[Any]]


@task("refresh profiles")
def refresh_profiles(run: Run, entity_ids: pl.Series | None = None) -> int:
    """Renew the profiles of these entities, or of all, whose text has changed; returns how many.

    An entity under which nothing live is filed has no profile.
    """
    store = store_of(run)
    snapshot = store.snapshot()
    changes = fresh, gone = _profile_changes(snapshot, run, entity_ids)
    if fresh.is_empty() and gone.is_empty():
        return 0
    embedded = _embedded_texts(run, fresh)
    with store.commit(run.id, "profiles", run.now) as tx:
        if tx.is_overtaken(snapshot):
            changes = _profile_changes(tx, run, entity_ids)
        return _write_profiles(tx, run, *changes, embedded)


def embeds_here(run: Run) -> bool:
    """Whether texts are embedded in this process: a model that is asked is not asked inside a commit."""
    return isinstance(embedder_of(run), StaticEmbedder)


def write_profiles(tx: Transaction, run: Run, entity_ids: Sequence[str]) -> None:
    """Renew the profiles of a few entities, as a transaction has left them, if texts are embedded in this process.

    Where embedding fails, the night renews them.
    """
    if not embeds_here(run):
        return
    changes = _profile_changes(tx, run, pl.Series(entity_ids, dtype=pl.String))
    try:
        embedded = _embedded_texts(run, changes[0])
    except Exception as error:
        log.warning("The profiles of %d entities were not renewed: %s", len(entity_ids), error)
    else:
        _write_profiles(tx, run, *changes, embedded)


def _write_profiles(tx: Transaction, run: Run, fresh: pl.DataFrame, gone: pl.Series, embedded: pl.DataFrame) -> int:
    missing = _embedded_texts(run, fresh.join(embedded, on="text_hash", how="anti"))
    vectors = pl.concat([embedded, missing]).unique("text_hash")
    tx.upsert("entity_profiles", fresh.join(vectors, on="text_hash", how="left", maintain_order="left"))
    tx.delete("entity_profiles", gone)
    return len(fresh) + len(gone)


def _profile_changes(reading: Reading, run: Run, entity_ids: pl.Series | None) -> tuple[pl.DataFrame, pl.Series]:
    """(id, text, text_hash) of the profiles that are new or different, and the ids of those to remove."""
    now = _profile_texts(reading, run, entity_ids)
    known = _rows(reading, "entity_profiles", "id", entity_ids, ("id", "text_hash"))
    fresh = now.join(known, on=["id", "text_hash"], how="anti", maintain_order="left")
    return fresh, known.join(now, on="id", how="anti")["id"]


def _profile_texts(reading: Reading, run: Run, entity_ids: pl.Series | None) -> pl.DataFrame:
    facts = _rows(reading, "facts", "owner_entity_id", entity_ids, _READ, live_sql(run.now))
    facts = facts.filter(pl.col("kind").is_in([*_OBSERVED_KINDS, "relation"]))
    entities = _rows(reading, "entities", "id", entity_ids, ("id", "name", "entity_type", "status"))
    entities = entities.join(facts, left_on="id", right_on="owner_entity_id", how="semi").sort("id")
    said = facts.filter(pl.col("kind").is_in(_OBSERVED_KINDS)).sort("valid_from", "id", nulls_last=False)
    said = said.unique(["owner_entity_id", "statement"], keep="first", maintain_order=True)
    observed, related = _grouped(said, "kind", "statement"), _relations(reading, facts)
    texts = [
        entity_text(
            name,
            kind,
            status or "active",
            [(each["kind"], each["statement"]) for each in observed.get(entity, [])],
            [(each["predicate"], each["target"]) for each in related.get(entity, [])],
        )
        for entity, name, kind, status in entities.select("id", "name", "entity_type", "status").iter_rows()
    ]
    hashes = [digest(text) for text in texts]
    return pl.DataFrame({"id": entities["id"], "text": texts, "text_hash": hashes}, schema_overrides=_TEXTS)


def _relations(reading: Reading, facts: pl.DataFrame) -> Listed:
    """By entity: predicate and target, the newest first."""
    related = facts.filter(pl.col("kind") == "relation")
    names = _rows(reading, "entities", "id", related["object_id"].drop_nulls(), ("id", "name"))
    aimed = related.join(names, left_on="object_id", right_on="id", how="left")
    aimed = aimed.with_columns(target=pl.coalesce("name", "object_text"))
    newest = aimed.drop_nulls("target").sort("valid_from", "id", descending=True, nulls_last=True)
    return _grouped(newest, "predicate", "target")


def _grouped(rows: pl.DataFrame, *columns: str) -> Listed:
    by_entity = rows.group_by("owner_entity_id", maintain_order=True).agg(each=pl.struct(*columns))
    return dict(by_entity.iter_rows())


def _rows(
    reading: Reading, name: str, key: str, ids: pl.Series | None, columns: tuple[str, ...], where: str | None = None
) -> pl.DataFrame:
    """Rows whose key is among the ids; all rows where there are none."""
    if ids is None:
        return reading.frame(name, where, columns)
    return reading.by_ids_or_all(name, ids, columns, key=key, where=where).filter(pl.col(key).is_in(ids.implode()))


def _embedded_texts(run: Run, fresh: pl.DataFrame) -> pl.DataFrame:
    """(text_hash, vector) of the texts, each embedded once."""
    embedder = embedder_of(run)
    texts = fresh.unique("text_hash", keep="first", maintain_order=True)
    vectors = embedder.embed(texts["text"].to_list()) if len(texts) else np.empty((0, embedder.dims), np.float32)
    return texts.select("text_hash").with_columns(vector_column(vectors))


# Links: entities of a run are linked with those whose descriptions are like theirs (S2-71).


BATCH = 512


@dataclass(frozen=True, slots=True, eq=False)
class _Neighbourhood:
    """What was near (NEAR) to the entities that were looked at, and all that were there then (LINK_ENDS)."""

    ids: pl.Series
    near: pl.DataFrame
    ends: pl.DataFrame


@task("link entities")
def link_entities(
    run: Run,
    settings: LinkSettings,
    entities: Sequence[str] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Link these entities (ids), or all, with those that are like them; returns how many links changed.

    Their own vectors are compared, those of `name: summary`. What was seen last comes first; when the time is up, what
    was found by then is kept. One commit, and none where nothing changes. `clock` counts seconds.
    """
    if not settings.enabled:
        return 0
    looked = _look_around(store_of(run).snapshot(), settings, entities, clock)

    def write(tx: Transaction, plan: LinkPlan) -> None:
        tx.upsert("entity_links", plan.links)
        tx.delete("entity_links", plan.gone)

    return len(
        decide_and_write(run, "ingest.link", partial(_link_plan, run=run, looked=looked, settings=settings), write)
    )


def touched_entities(run: Run) -> list[str]:
    """Ids of the entities written last by this run, or by one of its flow that broke off since the last that did not.

    A run that dies after its facts were written leaves what follows from them to the run after it.
    """
    snapshot = store_of(run).snapshot()
    runs = snapshot.frame("runs", f"flow = {quoted(run.flow)} AND state != 'undone'", ["id", "state", "started_at"])
    whole = runs.filter(~pl.col("state").is_in([*_BROKEN_OFF, "running"]) & (pl.col("id") != run.id))
    since = pl.lit(whole["started_at"].max(), dtype=runs.schema["started_at"])
    broken = runs.filter(pl.col("state").is_in(_BROKEN_OFF) & (since.is_null() | (pl.col("started_at") > since)))
    return snapshot.referring("entities", "run_id", [run.id, *broken["id"]], ["id"])["id"].to_list()


def _look_around(
    reading: Reading, settings: LinkSettings, entities: Sequence[str] | None, clock: Callable[[], float]
) -> _Neighbourhood:
    begun = clock()
    known = with_last_seen(reading, reading.frame("entities", LINKABLE, [*LINK_ENDS, "last_seen_at"]))
    wanted = known if entities is None else known.filter(pl.col("id").is_in(list(entities)))
    latest = wanted.sort("last_seen_at", "id", descending=[True, False], nulls_last=True)["id"]
    if latest.is_empty():
        return _Neighbourhood(latest, pl.DataFrame(schema=dict(NEAR)), known.select(*LINK_ENDS))
    parts, near, ask = [], [], nearest_in(reading, "entities", LINKABLE)
    for ids in _in_time(latest, begun + settings.timeout_s, clock):
        parts.append(ids)
        near.append(_near(reading, ask, ids, settings.top_k))
    return _Neighbourhood(pl.concat(parts), pl.concat(near), known.select(*LINK_ENDS))


def _in_time(ids: pl.Series, until: float, clock: Callable[[], float]) -> Iterator[pl.Series]:
    """Batches: the first, and then as long as one that takes no longer than the slowest so far will be done in time."""
    before, slowest = clock(), 0.0
    for start in range(0, len(ids), BATCH):
        if start and before + slowest > until:
            return
        yield ids[start : start + BATCH]
        after = clock()
        before, slowest = after, max(slowest, after - before)


def _near(reading: Reading, ask: Nearest, ids: pl.Series, top_k: int) -> pl.DataFrame:
    rows = reading.by_ids("entities", ids, ["id"], where="vector IS NOT NULL", with_vector=True)
    found = ask(unit_matrix(rows["vector"], reading.dims), top_k + 1)
    return found.select(
        id=rows["id"].gather(found["query"]), near_id="id", cosine=pl.col("cosine").cast(pl.Float64)
    )  # fmt: skip


def _link_plan(reading: Reading, run: Run, looked: _Neighbourhood, settings: LinkSettings) -> LinkPlan:
    """The changed links, of entities that are unchanged since they were compared."""
    ends = reading.frame("entities", LINKABLE, list(LINK_ENDS))
    same = ends.join(looked.ends, on=["id", "embed_text_hash"], how="semi", nulls_equal=True)
    looked_at = looked.ids.filter(looked.ids.is_in(same["id"].implode()))
    near = looked.near.filter(pl.col("id").is_in(looked_at.implode()), pl.col("near_id").is_in(same["id"].implode()))
    return plan_links(reading.frame("entity_links"), near, looked_at, ends, settings, run.now)


# Membership: who is new joins a community, and who is no more leaves it (S2-50, T31).


_JOINED = ["id", "name", "entity_ids", "joined_ids", "refreshed_at"]
_ENDS = ["id", "subject_id", "object_id"]


@task("assign new entities")
def assign_new(run: Run) -> int:
    """Let entities of this run that have no community join that of most of their relations; returns how many.

    Only their own relations are read, not the graph. One commit, or none.
    """
    store = store_of(run)
    snapshot = store.snapshot()
    if not snapshot.count("communities"):
        return 0
    touched = pl.Series("id", touched_entities(run), dtype=pl.String)
    plan = _join_plan(snapshot, run, touched)
    if plan.members.is_empty():
        return 0
    with store.commit(run.id, "communities.assign", run.now) as tx:
        if tx.is_overtaken(snapshot):
            plan = _join_plan(tx, run, touched)
        stored = tx.by_ids("communities", plan.grown["id"]).drop("joined_ids")
        grown = stored.join(plan.grown, on="id", maintain_order="left")
        tx.upsert("communities", grown.with_columns(fingerprint=pl.lit(None, dtype=pl.String)))
        tx.upsert("decisions", plan.decisions)
    return len(plan.members)


def _join_plan(reading: Reading, run: Run, touched: pl.Series) -> JoinPlan:
    stored = reading.frame("communities", columns=_JOINED)
    new = reading.by_ids("entities", waiting(touched, stored), ["id"], where=LISTED)["id"]
    where = f"{RELATIONS} AND {live_sql(run.now)}"
    parts = [reading.by_ids("facts", new, _ENDS, key=end, where=where) for end in ("subject_id", "object_id")]
    naming = reading.frame("facts", f"{mentioning(new.to_list())} AND {live_sql(run.now)}", [*_ENDS, "mentions"])
    named = named_together(naming.with_columns(predicate=pl.lit(""), edge_type=pl.lit(""), weight=pl.lit(1.0)), {})
    found = pl.concat([*parts, named.select(_ENDS)]).unique()
    ends = pl.concat([found["subject_id"], found["object_id"]])
    listed = reading.by_ids("entities", ends, ["id"], where=LISTED)["id"].implode()
    known = found.filter(pl.col("subject_id").is_in(listed) & pl.col("object_id").is_in(listed))
    return plan_joining(new, known, stored, run.now)

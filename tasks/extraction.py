"""Extraction: pending messages become candidate facts in patch batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from inference.answers import Answer
from inference.language import Language
from prompts.rendering import render_extraction
from prompts.responses import WindowExtraction
from slowwave.claims import Said, collect
from slowwave.noise import TEACHING_GATES
from slowwave.patches import Candidates, build_candidates
from slowwave.resolution import Resolution
from slowwave.settings import ExtractSettings, IngestSettings
from slowwave.text import row_id
from slowwave.validity import live_sql
from slowwave.windows import COLUMNS, PlannedWindow, plan_windows
from storage.search import nearest, unit_matrix
from storage.snapshots import Reading, Snapshot
from storage.store import Store

from .admission import EXCERPT, episode_id
from .engine import task
from .naming import resolve_names
from .runs import Run, embed_rows, language_of, store_of

UNFINISHED = "graph_state IN ('pending', 'failed')"
DURABILITY = "durability"
EXTRACTION_COUNT = "extraction_count"


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a run has come through the unfinished messages; those that fail are not tried twice in one run."""

    occurred_at: float = float("-inf")
    id: str = ""


@dataclass(frozen=True, slots=True)
class Extracted:
    """What one batch gave: `cursor` is None when nothing waits behind it."""

    cursor: Cursor | None
    messages: int = 0
    windows: int = 0
    candidates: int = 0
    not_durable: int = 0
    failed: int = 0
    left: int = 0
    dropped: int = 0
    entities: int = 0
    errors: tuple[str, ...] = ()


def unfinished(reading: Reading, settings: ExtractSettings) -> pl.DataFrame:
    """Ids and times of messages that wait for extraction, in the order in which they were said."""
    where = f"{UNFINISHED} AND attempts < {settings.max_attempts}"
    return reading.frame("messages", where, ["id", "occurred_at"]).sort("occurred_at", "id")


def count_unfinished(run: Run, settings: ExtractSettings) -> int:
    """How many messages wait for extraction."""
    return len(unfinished(store_of(run).snapshot(), settings))


@task("extract facts")
async def extract_facts(run: Run, settings: IngestSettings, after: Cursor) -> Extracted:
    """One batch of messages: windows, model, names, candidates; committed together with the state of each message."""
    store = store_of(run)
    snapshot = store.snapshot()
    batch, cursor = _next_batch(snapshot, settings.extract, after)
    if batch.is_empty():
        return Extracted(None)
    language = language_of(run, settings.llm)
    planned = _windows(snapshot, batch, settings.extract, language, run)
    prompts = [render_extraction(each.window, settings.extract) for each in planned]
    answers = await language.ask_many(prompts, WindowExtraction, "extract")
    answered = [(w, a.value) for w, a in zip(planned, answers, strict=True) if a.value is not None]
    said = collect(answered, settings.extract.max_entities_per_message)
    resolution = await resolve_names(run, language, snapshot, said.mentions, settings.resolve)
    candidates = _candidates(run, snapshot, said, batch, resolution, settings.extract)
    states, refusals = _message_states(planned, answers, said, candidates, batch)
    _commit(store, run, resolution, candidates, states, refusals)
    return _counted(cursor, planned, answers, said, candidates, resolution, refusals)


def _next_batch(snapshot: Snapshot, settings: ExtractSettings, after: Cursor) -> tuple[pl.DataFrame, Cursor | None]:
    """The messages that come next, and how far they reach; None if nothing waits behind them."""
    stamp = pl.col("occurred_at").dt.timestamp("us").cast(pl.Float64)
    waiting = (
        unfinished(snapshot, settings)
        .with_columns(stamp=stamp)
        .filter(
            (pl.col("stamp") > after.occurred_at) | ((pl.col("stamp") == after.occurred_at) & (pl.col("id") > after.id))
        )
    )
    taken = waiting.head(settings.batch_messages)
    batch = snapshot.by_ids("messages", taken["id"], with_vector=True)
    if len(taken) == len(waiting):
        return batch, None
    last = taken.row(-1, named=True)
    return batch, Cursor(last["stamp"], last["id"])


def _windows(
    snapshot: Snapshot, batch: pl.DataFrame, settings: ExtractSettings, language: Language, run: Run
) -> list[PlannedWindow]:
    planned = plan_windows(batch, _earlier(snapshot, batch, settings), settings)
    if language.is_keyless("extract") or not settings.known_facts:
        return planned  # rules name what is replaced by its words
    return _with_known(snapshot, planned, batch, settings, run)


def _earlier(snapshot: Snapshot, batch: pl.DataFrame, settings: ExtractSettings) -> pl.DataFrame:
    """The last handled messages before the batch in each of its conversations."""
    if not settings.context_messages:
        return batch.head(0)
    first = batch.group_by("conversation_id").agg(first=pl.col("ordinal").min())
    heard = "graph_state != 'skipped_injection' AND graph_state != 'skipped_role'"
    places = snapshot.by_ids(
        "messages", first["conversation_id"], ["id", "conversation_id", "ordinal"], key="conversation_id", where=heard
    )
    before = places.join(first, on="conversation_id").filter(pl.col("ordinal") < pl.col("first"))
    last = before.sort("ordinal").group_by("conversation_id").tail(settings.context_messages)
    return snapshot.by_ids("messages", last["id"], COLUMNS)


def _with_known(
    snapshot: Snapshot, planned: Sequence[PlannedWindow], batch: pl.DataFrame, settings: ExtractSettings, run: Run
) -> list[PlannedWindow]:
    """Show each window the live facts nearest to its messages, newest knowledge that it may supersede."""
    told = batch.filter(pl.col("vector").is_not_null())
    found = nearest(snapshot, "facts", unit_matrix(told["vector"], snapshot.dims), 3, live_sql(run.now))
    facts = {r["id"]: r for r in snapshot.by_ids("facts", found["id"], ["id", "statement", "valid_from"]).to_dicts()}
    near: dict[str, list[tuple[float, str]]] = {}
    for query, fact, cosine in found.iter_rows():
        near.setdefault(told["id"][query], []).append((-cosine, fact))
    shown = []
    for each in planned:
        ranked = sorted(pair for row in each.new_ids for pair in near.get(row, []))
        ids = list(dict.fromkeys(fact for _, fact in ranked))[: settings.known_facts]
        shown.append(each.knowing([(i, facts[i]["statement"], facts[i]["valid_from"]) for i in ids]))
    return shown


def _candidates(
    run: Run, snapshot: Snapshot, said: Said, batch: pl.DataFrame, resolution: Resolution, settings: ExtractSettings
) -> Candidates:
    episodes = {name: episode_id(name) for name in batch["conversation_id"].unique()}
    messages = batch.with_columns(episode_id=pl.col("conversation_id").replace_strict(episodes, return_dtype=pl.String))
    learned = snapshot.frame("predicates")
    return build_candidates(said.claims, messages, resolution.names, learned, settings, run.now)


def _message_states(
    planned: Sequence[PlannedWindow],
    answers: Sequence[Answer[WindowExtraction]],
    said: Said,
    candidates: Candidates,
    batch: pl.DataFrame,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Full message rows with their new state, and refusals for those that were judged not durable (S2-25)."""
    states: dict[str, str] = {}
    for each, answer in zip(planned, answers, strict=True):
        if answer.value is not None:
            states |= dict.fromkeys(each.new_ids, "done")
        elif not answer.skipped:
            states |= dict.fromkeys(each.new_ids, "failed")
    productive = candidates.facts["message_id"].unique().to_list()
    dull = said.judgements.filter(~pl.col("durable") & ~pl.col("message_id").is_in(productive))
    states |= dict.fromkeys(dull["message_id"], f"skipped_{DURABILITY}")
    state = pl.col("id").replace_strict(states, default=None, return_dtype=pl.String)
    rows = (
        batch.with_columns(state=state)
        .filter(pl.col("state").is_not_null())
        .with_columns(graph_state="state", attempts=pl.col("attempts") + (pl.col("state") == "failed").cast(pl.Int64))
    )
    return rows.drop("state"), _not_durable(dull, batch)


def _not_durable(dull: pl.DataFrame, batch: pl.DataFrame) -> pl.DataFrame:
    rows = dull.join(batch.select("id", "content", "vector"), left_on="message_id", right_on="id")
    ids = [row_id("x", message, DURABILITY) for message in rows["message_id"]]
    return rows.select(
        pl.Series("id", ids, dtype=pl.String),
        subject_id="message_id",
        subject_kind=pl.lit("message"),
        gate=pl.lit(DURABILITY),
        reason=pl.col("reason").replace("", "Nothing in it will matter later."),
        teaches=pl.lit(DURABILITY in TEACHING_GATES),
        excerpt=pl.col("content").str.slice(0, EXCERPT),
        vector="vector",
    )


def _commit(
    store: Store, run: Run, resolution: Resolution, candidates: Candidates, states: pl.DataFrame, refusals: pl.DataFrame
) -> None:
    entities = embed_rows(run, resolution.entities, resolution.to_embed)
    facts = embed_rows(run, candidates.facts, candidates.facts.select("id", text="statement"))
    facts = facts.with_columns(embed_model=pl.lit(run.embedder))
    directives = _directive_rows(candidates.directives)
    links = _episode_links(candidates.facts)
    with store.commit(run.id, "ingest.candidates", run.now) as tx:
        # Another run may have extracted some of them since this one looked: what it made stays as it is.
        waiting = tx.by_ids("messages", states["id"], ["id"], where=UNFINISHED)["id"].to_list()
        decided = tx.by_ids("facts", facts["id"], ["id"])["id"].to_list()
        facts = facts.filter(pl.col("message_id").is_in(waiting) & ~pl.col("id").is_in(decided))
        batches = facts["patch_batch_id"].unique().to_list()
        tx.upsert("entities", _merged(tx, entities))
        tx.upsert("entity_aliases", resolution.aliases)
        tx.upsert("facts", facts)
        tx.upsert("fact_directives", directives.filter(pl.col("candidate_id").is_in(facts["id"].to_list())))
        tx.upsert("patch_batches", candidates.batches.filter(pl.col("id").is_in(batches)))
        tx.upsert("episode_entities", links)
        tx.upsert("refusals", refusals.filter(pl.col("subject_id").is_in(waiting)))
        tx.upsert("decisions", resolution.decisions)
        tx.upsert("messages", states.filter(pl.col("id").is_in(waiting)))
        tx.upsert("metadata", _counter(tx, len(waiting)))


def _counter(tx: Reading, attempts: int) -> pl.DataFrame:
    """How many messages ever reached the extractor, fruitful or not (S2-24)."""
    before = tx.by_ids("metadata", [EXTRACTION_COUNT])["number"].sum()
    return pl.DataFrame({"id": [EXTRACTION_COUNT], "number": [float(before) + attempts]})


def _merged(tx: Reading, entities: pl.DataFrame) -> pl.DataFrame:
    """Keep the vector of an entity whose meaning did not change."""
    kept = tx.by_ids("entities", entities.filter(pl.col("vector").is_null())["id"], ["id", "vector"])
    both = entities.join(kept, on="id", how="left", suffix="_kept", maintain_order="left")
    return both.with_columns(vector=pl.coalesce("vector", "vector_kept")).drop("vector_kept")


def _directive_rows(directives: pl.DataFrame) -> pl.DataFrame:
    ids = [row_id("fd", *row) for row in directives.iter_rows()]
    return directives.with_columns(pl.Series("id", ids, dtype=pl.String)).unique(
        "id", keep="first", maintain_order=True
    )


def _episode_links(facts: pl.DataFrame) -> pl.DataFrame:
    """Which entities an episode is about (S2-74)."""
    ends = [facts.select("episode_id", entity_id=end) for end in ("subject_id", "object_id")]
    pairs = pl.concat(ends).drop_nulls().unique(maintain_order=True)
    ids = [row_id("ee", *pair) for pair in pairs.iter_rows()]
    return pairs.with_columns(pl.Series("id", ids, dtype=pl.String))


def _counted(
    cursor: Cursor | None,
    planned: Sequence[PlannedWindow],
    answers: Sequence[Answer[WindowExtraction]],
    said: Said,
    candidates: Candidates,
    resolution: Resolution,
    refusals: pl.DataFrame,
) -> Extracted:
    sizes: Mapping[str, int] = {
        kind: sum(len(w.new_ids) for w, a in zip(planned, answers, strict=True) if test(a))
        for kind, test in (
            ("failed", lambda a: a.value is None and not a.skipped),
            ("left", lambda a: a.skipped),
        )
    }
    return Extracted(
        cursor,
        sum(len(w.new_ids) for w in planned),
        len(planned),
        len(candidates.facts),
        len(refusals),
        sizes["failed"],
        sizes["left"],
        said.invalid + sum(candidates.dropped.values()),
        len(resolution.entities),
        tuple(sorted({a.error for a in answers if a.error})),
    )

"""Foreign candidates: a part of an export becomes messages, entities and candidates that wait to be applied (S3-07)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from slowwave.common import frames
from slowwave.common.run_counts import RunCount
from slowwave.common.settings import ExtractSettings, IngestSettings
from slowwave.common.text import row_id
from slowwave.common.validity import is_live
from slowwave.entities.entity_resolution import Resolution
from slowwave.facts.revision.candidates import DIRECTIVES, build_candidates
from slowwave.integrations.foreign.records import ROLE, SCOPE, VERSION, Adopted
from slowwave.reading.filters.injection import injection_reasons
from storage.snapshots import Reading
from tasks.entities.names_and_pins import names_in_use
from tasks.ingest.admission import EXCERPT, episode_id, episode_rows
from tasks.ingest.candidate_rows import BatchRows, RelationForms, episode_links, ontology, write
from tasks.ingest.identities import names_of, resolve_again
from tasks.runtime.engine import task
from tasks.runtime.retrying import EMBEDS
from tasks.runtime.runs import Run, embed_rows, store_of

_INJECTION = "injection"
_FACT = ["id", "message_id", "status", "valid_from", "valid_to", "expired_at"]


@dataclass(frozen=True, slots=True, eq=False)
class ExportPart:
    """What one commit brings: some messages with their claims, the entities they need, and the file they are from."""

    source: Mapping[str, Any]  # its row in `sources`
    adopted: Adopted

    @property
    def system(self) -> str:
        """The system that wrote it."""
        return str(self.source["format"])

    def new_messages(self, reading: Reading) -> pl.DataFrame:
        """The messages that are not stored."""
        stored = reading.by_ids("messages", self.adopted.messages["id"], ["id"])
        return self.adopted.messages.join(stored, on="id", how="anti", maintain_order="left")


@task("store candidates of an import", about="{run.namespace}, {part.system}", tags=[EMBEDS])
def store_candidates(run: Run, part: ExportPart, settings: IngestSettings) -> Counter[RunCount]:
    """Store what is new of a part: messages, entities and candidates, embedded before the lease is taken (T40)."""
    store = store_of(run)
    snapshot = store.snapshot()
    found = _decide(run, snapshot, part, settings)
    with store.commit(run.id, "import.candidates", run.now) as tx:
        if tx.is_overtaken(snapshot):
            found = _decide(run, tx, part, settings)
        tx.upsert("sources", pl.DataFrame([dict(part.source)]))
        write(tx, found)
        tx.upsert("episodes", episode_rows(tx, found.messages))
    return Counter(
        {
            RunCount.ITEMS_KNOWN: len(part.adopted.messages) - len(found.messages),
            RunCount.CANDIDATES: len(found.facts),
            RunCount.ITEMS_WITH_ORDERS: len(found.refusals),
            RunCount.ITEMS_ABOUT_NOBODY: found.candidates.dropped["no_subject"],
        }
    )


def _decide(run: Run, reading: Reading, part: ExportPart, settings: IngestSettings) -> BatchRows:
    """The rows of what is new, which takes the place of what its items said before."""
    fresh = part.new_messages(reading)
    resolution = _resolved(run, reading, part.adopted, settings)
    earlier = _earlier_facts(reading, fresh).filter(is_live(run.now)).select("id", "known_id")
    since = pl.when(pl.col("id").is_in(earlier["id"].implode())).then(pl.max_horizontal("valid_from", "occurred_at"))
    dated = fresh.with_columns(valid_from=pl.coalesce(since, "valid_from"))
    found = _found(run, reading, part, dated, resolution, settings)
    return replace(found, candidates=replace(found.candidates, directives=_directives(found.facts, earlier)))


def _resolved(run: Run, reading: Reading, adopted: Adopted, settings: IngestSettings) -> Resolution:
    """Which entities the names mean, by rules alone; with the other names that nobody else has."""
    resolution = resolve_again(run, reading, adopted.mentions, settings.resolve, {})
    meant = resolution.names.select("entity_id", "entity_type", name="canonical_name")
    wanted = adopted.aliases.join(meant, on="name").filter(pl.col("alias_name") != pl.col("name"))
    taken = pl.concat(
        [
            names_in_use(reading, wanted["alias_name"].unique().to_list()).select("alias_name"),
            resolution.names.select(alias_name="canonical_name"),
        ]
    )
    free = wanted.join(taken, on="alias_name", how="anti").unique("alias_name", keep="first", maintain_order=True)
    parts = free.select("alias_name", "entity_type", "entity_id")
    ids = [row_id("a", *row) for row in parts.iter_rows()]
    rows = frames.conform(parts.with_columns(id=pl.Series(ids, dtype=pl.String)), frames.ALIASES)
    return replace(resolution, aliases=pl.concat([resolution.aliases, rows.select(resolution.aliases.columns)]))


def _found(
    run: Run, reading: Reading, part: ExportPart, fresh: pl.DataFrame, resolution: Resolution, settings: IngestSettings
) -> BatchRows:
    """The rows of what is new, candidates with their vectors."""
    spoken = fresh.with_columns(
        occurred_at="valid_from", role=pl.lit(ROLE), speaker=pl.lit(part.system), scope=pl.lit(SCOPE),
        episode_id=pl.Series([episode_id(name) for name in fresh["conversation_id"]], dtype=pl.String),
    )  # fmt: skip
    readable = spoken.filter(~pl.col("has_injection"))
    claims = part.adopted.claims.filter(pl.col("message_id").is_in(readable["id"].implode()))
    known = ontology(reading, RelationForms(), run.now)
    called = names_of(reading, resolution.names, resolution.aliases)
    candidates = build_candidates(
        claims, readable, resolution.names, known.predicates, ExtractSettings(), run.now, called
    )
    ends = fresh.select("valid_to", message_id="id")
    facts = candidates.facts.drop("valid_to").join(ends, on="message_id", how="left", maintain_order="left")
    facts = embed_rows(run, facts, facts.select("id", text="statement"))
    messages = _messages(run, reading, part, fresh)
    return BatchRows(
        resolution,
        known,
        replace(candidates, batches=candidates.batches.with_columns(origin=pl.lit("import"))),
        None,
        embed_rows(run, resolution.entities, resolution.to_embed),
        facts.with_columns(embed_model=pl.lit(run.embedder)),
        episode_links(facts),
        messages,
        _refusals(messages),
    )


def _messages(run: Run, reading: Reading, part: ExportPart, fresh: pl.DataFrame) -> pl.DataFrame:
    """Rows of `messages` behind those of their conversations; nothing is left to extract from them."""
    columns = ["conversation_id", "ordinal"]
    stored = reading.by_ids("messages", fresh["conversation_id"].unique(), columns, key="conversation_id")
    ends = stored.group_by("conversation_id").agg(end=pl.col("ordinal").max() + 1)
    state = pl.when("has_injection").then(pl.lit(f"skipped_{_INJECTION}")).otherwise(pl.lit("done"))
    rows = fresh.join(ends, on="conversation_id", how="left", maintain_order="left").select(
        "id", "message_id", "conversation_id", "content", "search_text", "occurred_at", "has_injection",
        ordinal=pl.col("end").fill_null(0) + pl.int_range(pl.len(), dtype=pl.Int64).over("conversation_id"),
        role=pl.lit(ROLE), speaker=pl.lit(part.system), scope=pl.lit(SCOPE), source_id=pl.lit(part.source["id"]),
        graph_state=state, attempts=pl.lit(0, dtype=pl.Int64), content_score=pl.lit(None, dtype=pl.Float64),
    )  # fmt: skip
    texts = rows.filter(~pl.col("has_injection")).select("id", text="search_text")
    return embed_rows(run, rows, texts)


def _refusals(messages: pl.DataFrame) -> pl.DataFrame:
    refused = messages.filter("has_injection")
    ids = [row_id("x", message, _INJECTION) for message in refused["id"]]
    return refused.select(
        pl.Series("id", ids, dtype=pl.String), injection_reasons(refused["content"]), subject_id="id",
        subject_kind=pl.lit("message"), gate=pl.lit(_INJECTION), teaches=pl.lit(False),
        excerpt=pl.col("content").str.slice(0, EXCERPT), vector="vector",
    )  # fmt: skip


def _earlier_facts(reading: Reading, fresh: pl.DataFrame) -> pl.DataFrame:
    """Messages of an item of an earlier export, by `id`, and the facts that it stated then, by `known_id`."""
    items = fresh.filter(pl.col("key") != "").select("id", "key", "conversation_id")
    columns = ["id", "message_id", "conversation_id"]
    stored = reading.by_ids("messages", items["conversation_id"].unique(), columns, key="conversation_id")
    parted = stored.select(
        "conversation_id", message="id", key=pl.col("message_id").str.replace(rf"{VERSION}[0-9a-f]+$", "")
    )
    both = items.join(parted, on=["key", "conversation_id"], maintain_order="left")
    facts = reading.by_ids("facts", both["message"].unique(), _FACT, key="message_id", where="status = 'active'")
    return both.join(facts.rename({"message_id": "message", "id": "known_id"}), on="message")


def _directives(facts: pl.DataFrame, earlier: pl.DataFrame) -> pl.DataFrame:
    """DIRECTIVES: what an item says now takes the place of what it said before."""
    open_ended = facts.filter(pl.col("valid_to").is_null()).select("message_id", candidate_id="id")
    rows = open_ended.join(earlier, left_on="message_id", right_on="id")
    directives = rows.with_columns(action=pl.lit("supersede"), reason=pl.lit("temporal_change"))
    return frames.conform(directives, DIRECTIVES).select(*DIRECTIVES)

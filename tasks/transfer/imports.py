"""Imports: what another memory system exported comes in as candidates, which become facts as those of messages (S3-07).

The same file again imports nothing, and an item that is known imports nothing, whichever file names it. An import is no
synchronisation: what an item says now is a new candidate beside what it said before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from recall.export import is_own_export
from slowwave.common.errors import UnusableInput
from slowwave.common.run_counts import RunCount
from slowwave.common.settings import ExtractSettings, IngestSettings
from slowwave.common.text import digest, row_id
from slowwave.facts.revision.candidates import build_candidates
from slowwave.integrations.foreign.parsers import READS, read_export
from slowwave.integrations.foreign.records import ROLE, SCOPE, Adopted, Foreign, Skipped, adopt, without_secrets
from slowwave.reading.filters.injection import injection_reasons
from storage.rows import quoted
from storage.snapshots import Reading
from tasks.entities.derived import assign_new, link_entities, touched_entities
from tasks.entities.retirement import renew_profiles
from tasks.ingest.admission import EXCERPT, episode_id, episode_rows
from tasks.ingest.application import apply_patches
from tasks.ingest.candidate_rows import BatchRows, RelationForms, episode_links, ontology, write
from tasks.ingest.identities import names_of, resolve_again
from tasks.ingest.reading import loaded
from tasks.ingest.sources import open_source, shown_path
from tasks.nightly.groups import note_due, refreshed_aspects
from tasks.orchestration.phases import tidy
from tasks.runtime.engine import task
from tasks.runtime.retrying import EMBEDS
from tasks.runtime.runs import Counts, Run, embed_rows, recorded, store_of
from tasks.runtime.writing import titles_of, under_approval

LISTED = 200


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import.

    `counts` says how many of each kind; `skipped` lists the first items that were not taken as they are.
    `is_known`: the very bytes were imported before.
    """

    run: str
    path: str
    system: str
    is_known: bool
    counts: Mapping[str, int]
    skipped: tuple[Skipped, ...]

    def as_json(self) -> dict[str, Any]:
        """The contract of `import --json`."""
        return {
            "run": self.run,
            "path": self.path,
            "system": self.system,
            "known": self.is_known,
            "counts": dict(self.counts),
            "skipped": [each._asdict() for each in self.skipped],
        }


def import_export(
    run: Run,
    path: str | Path,
    settings: IngestSettings,
    system: str = "auto",
    *,
    require_approval: bool = False,
    dry_run: bool = False,
) -> Imported:
    """Import a file or folder that another memory system exported, as a run of its own, which can be undone.

    Raises `UnusableInput` for what cannot be read before anything is made. With approval, candidates wait for a person.
    """
    file = read_foreign(path, system)
    content, redacted = without_secrets(file.content)
    tally = Counts(run.id)
    total = tally.counts
    parameters = {"path": file.uri, "from": system, "require_approval": require_approval}
    with recorded(run, tally, parameters, dry_run=dry_run, last=refreshed_aspects) as run:
        where = f"state = 'completed' AND format = {quoted(file.content.format)}"
        snapshot = store_of(run).snapshot()
        same = snapshot.by_ids("sources", [file.content_hash], ["id"], key="content_hash", where=where)
        is_known = not same.is_empty()  # the same bytes were imported to their end, under whatever name
        adopted = adopt(content, file.modified_at)
        total[RunCount.ITEMS_READ] += len(content.claims)
        total[RunCount.ENTITIES_READ] += content.entities["name"].n_unique()
        total[RunCount.ITEMS_LEFT_OUT] += len(content.skipped)
        total[RunCount.TEXTS_WITH_SECRETS] += redacted
        if not is_known:
            for part in _parts(file, adopted, settings.extract.batch_messages):
                total.update(_store_and_apply(run, part, settings, require_approval, dry_run))
        if not is_known and not dry_run:
            _finish(run, file, settings)
            total[RunCount.CHANGES_PROPOSED] = len(titles_of(run))
    counts = tally.summary()["counts"]
    return Imported(run.id, file.uri, content.format, is_known, counts, content.skipped[:LISTED])


def _parts(file: ForeignFile, adopted: Adopted, size: int) -> Iterator[ExportPart]:
    """As much as a commit should hold; what has no claims comes with the first."""
    for start in range(0, max(len(adopted.messages), 1), size):
        messages = adopted.messages.slice(start, size)
        claims = adopted.claims.slice(start, size)
        own = pl.concat([claims["subject"], claims["object"]]).drop_nulls().unique()
        mentions = adopted.mentions.filter(pl.col("name").is_in(own.implode())) if start else adopted.mentions
        yield ExportPart(_source(file, "running"), Adopted(messages, claims, mentions))


def _store_and_apply(
    run: Run, part: ExportPart, settings: IngestSettings, require: bool, dry_run: bool
) -> Counter[RunCount]:
    """Store a part as candidates and apply them; what is counted."""
    if dry_run:
        every, new = len(part.adopted.messages), len(part.new_messages(store_of(run).snapshot()))
        return Counter({RunCount.ITEMS_KNOWN: every - new, RunCount.ITEMS_NEW: new})
    counts = store_candidates(run, part, settings)
    applying = under_approval(run, "patch", settings.approval, require=require, risks=False)
    applied = apply_patches(applying, settings, look_back=False)
    named = Counter({RunCount(what): number for what, number in applied.counts.items()})
    return counts + named + Counter({RunCount.ITEMS_REFUSED: sum(applied.refused.values())})


def _source(file: ForeignFile, state: str) -> dict[str, Any]:
    """The row of the file in `sources`."""
    content = file.content
    return {
        "id": file.id,
        "uri": file.uri,
        "format": content.format,
        "content_hash": file.content_hash,
        "state": state,
        "messages": len(content.claims),
        "unreadable": len(content.skipped),
    }


def _finish(run: Run, file: ForeignFile, settings: IngestSettings) -> None:
    """The file is read to its end; what follows from new facts is brought up to date, as after `ingest`."""
    with store_of(run).commit(run.id, "import.source", run.now) as tx:
        tx.upsert("sources", pl.DataFrame([_source(file, "completed")]))
    touched = touched_entities(run)
    link_entities(run, settings.extract.note_linking, touched)
    assign_new(run)
    renew_profiles(run, touched)
    note_due(run, settings.extract.community_refresh_interval)
    tidy(run)


# Candidates: a part of an export becomes messages, entities and candidates that wait to be applied (S3-07).


_INJECTION = "injection"


@dataclass(frozen=True, slots=True, eq=False)
class ExportPart:
    """What one commit brings: some messages with their claims, the entities they need, and the file they are from."""

    source: Mapping[str, Any]  # its row in `sources`
    adopted: Adopted

    def new_messages(self, reading: Reading) -> pl.DataFrame:
        """The messages that are not stored."""
        stored = reading.by_ids("messages", self.adopted.messages["id"], ["id"])
        return self.adopted.messages.join(stored, on="id", how="anti", maintain_order="left")


@task("store candidates of an import", about="{run.namespace}, {part.source[format]}", tags=[EMBEDS])
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
    """The rows of what is new, candidates with their vectors."""
    fresh = part.new_messages(reading)
    resolution = resolve_again(run, reading, part.adopted.mentions, settings.resolve, {})  # by rules alone
    spoken = fresh.with_columns(
        occurred_at="valid_from", role=pl.lit(ROLE), speaker=pl.lit(part.source["format"]), scope=pl.lit(SCOPE),
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
        role=pl.lit(ROLE), speaker=pl.lit(part.source["format"]), scope=pl.lit(SCOPE),
        source_id=pl.lit(part.source["id"]), graph_state=state, attempts=pl.lit(0, dtype=pl.Int64),
        content_score=pl.lit(None, dtype=pl.Float64),
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


# Files: an export of another memory system is read whole, whatever its encoding, and never changed.


_SUFFIXES = frozenset({".json", ".jsonl", ".ndjson"})


@dataclass(frozen=True, slots=True, eq=False)
class ForeignFile:
    """An export and the hash by which its bytes are known again; `uri` is its path as it may be stored."""

    uri: str
    content_hash: str
    modified_at: datetime
    content: Foreign

    @property
    def id(self) -> str:
        """Its row in `sources`."""
        return row_id("s", self.uri, self.content_hash)


def read_foreign(path: str | Path, system: str = "auto") -> ForeignFile:
    """An export of a memory system: a file, or a folder whose JSON files belong together.

    What cannot be read of it is listed in `skipped`. Raises `UnusableInput` for a path that is missing, no text, or no
    JSON, and where nothing shows which system wrote it.
    """
    given = Path(path).expanduser()
    uri = shown_path(given)
    if is_own_export(given):
        raise UnusableInput(f"{uri} is an export of slowwave.", "slowwave import takes it as a whole.")
    if not given.exists():
        raise UnusableInput(f"There is no file or folder {str(given)!r}.", "Check the path.")
    listed = sorted(given.iterdir()) if given.is_dir() else []
    files = [file for file in listed if file.is_file() and file.suffix.lower() in _SUFFIXES] or [given]
    sources = [open_source(file, "messages", is_named=True) for file in files]
    values: list[tuple[str, Any]] = []
    broken: list[Skipped] = []
    for source in sources:
        found, what = [*loaded(source)], "line" if source.shape == "lines" else "item"
        for number, value, note in found:
            place = (
                f"{source.path.name if len(sources) > 1 else ''} {f'{what} {number}' if len(found) > 1 else ''}".strip()
            )
            if note is not None and note.kind == "unreadable":
                broken.append(Skipped(place, note.reason))
            else:
                values.append((place, value))
    if not values:
        raise UnusableInput(f"Nothing in {uri} can be read: {broken[0].reason if broken else 'it is empty'}.", READS)
    whole = digest(*(source.content_hash for source in sources), size=16)
    content = read_export(values, system, uri)
    return ForeignFile(
        uri, whole, max(source.modified_at for source in sources), replace(content, skipped=(*broken, *content.skipped))
    )

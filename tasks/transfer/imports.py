"""Imports: what another memory system exported comes in as candidates, which become facts as those of messages (S3-07).

The same file again imports nothing, and an item that is known imports nothing, whichever file names it. An item that
says something else than before takes the place of what it said, and one that is over ends what it said; what its system
has deleted since is not looked for.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from inference.embedding import open_embedder
from recall.export import SealCheck, is_own_export
from slowwave.common.comparison.similarity import resolve_cosine_of
from slowwave.common.errors import UnusableInput
from slowwave.common.run_counts import RunCount
from slowwave.common.settings import IngestSettings, Settings
from slowwave.common.text import readable, row_id
from slowwave.integrations.foreign.audit import audit
from slowwave.integrations.foreign.parsers import READS, read_export
from slowwave.integrations.foreign.records import Adopted, Foreign, Skipped, adopt, without_secrets
from slowwave.reading.ingestion.conversations import hidden_names
from slowwave.reading.ingestion.formats import MIXED, binary_kind, encoding_of, load_lines
from storage.rows import quoted
from tasks.entities.derived import assign_new, link_entities, touched_entities
from tasks.entities.retirement import renew_profiles
from tasks.ingest.application import Applied, apply_patches
from tasks.nightly.groups import note_due, refreshed_aspects
from tasks.orchestration.phases import tidy
from tasks.orchestration.tallies import OUTCOMES
from tasks.runtime.runs import Counts, Run, recorded, store_of
from tasks.runtime.writing import titles_of, under_approval

from .foreign_candidates import ExportPart, store_candidates

LISTED = 200


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import.

    `counts` says how many of each kind; `skipped` lists the first items that were not taken as they are.
    `is_known`: the very bytes were imported before. Of an export of our own `seal` says what its seal is worth here.
    """

    run: str
    path: str
    system: str
    is_known: bool
    counts: Mapping[str, int]
    skipped: tuple[Skipped, ...]
    seal: SealCheck | None = None

    def as_json(self) -> dict[str, Any]:
        """The contract of `import --json`."""
        return {
            "run": self.run,
            "path": self.path,
            "system": self.system,
            "known": self.is_known,
            "counts": dict(self.counts),
            "skipped": [{"place": s.place, "reason": s.reason, "loss": s.loss} for s in self.skipped],
            **({"seal": asdict(self.seal)} if self.seal else {}),
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
    total: Counter[RunCount] = Counter()
    tally = Counts(run.id, total)
    parameters = {"path": file.uri, "from": system, "require_approval": require_approval}
    with recorded(run, tally, parameters, dry_run=dry_run, last=refreshed_aspects) as run:
        is_known = _is_known(run, file)
        adopted = adopt(content, file.modified_at)
        total.update(_read_counts(content, redacted))
        if not is_known:
            for part in _parts(file, adopted, settings.extract.batch_messages):
                total.update(_store_and_apply(run, part, settings, require_approval, dry_run))
        if not is_known and not dry_run:
            _finish(run, file, settings)
            total[RunCount.CHANGES_PROPOSED] = len(titles_of(run))
    counts = tally.summary()["counts"]
    return Imported(run.id, file.uri, content.format, is_known, counts, content.skipped[:LISTED])


def _read_counts(content: Foreign, redacted: int) -> Counter[RunCount]:
    by_loss = Counter(each.loss for each in content.skipped)
    return Counter(
        {
            RunCount.ITEMS_READ: len(content.claims),
            RunCount.ENTITIES_READ: content.entities["name"].n_unique(),
            RunCount.ITEMS_UNREADABLE: by_loss["broken"] + by_loss["endless"],
            RunCount.ITEMS_DELETED_OR_DERIVED: by_loss["gone"],
            RunCount.TEXTS_WITH_SECRETS: redacted,
        }
    )


def _is_known(run: Run, file: ForeignFile) -> bool:
    """Whether the same bytes were imported to their end, under whatever name."""
    where = f"state = 'completed' AND format = {quoted(file.content.format)}"
    found = store_of(run).snapshot().by_ids("sources", [file.content_hash], ["id"], key="content_hash", where=where)
    return len(found) > 0


def _parts(file: ForeignFile, adopted: Adopted, size: int) -> Iterator[ExportPart]:
    """As much as a commit should hold; what has no claims comes with the first."""
    for start in range(0, max(len(adopted.messages), 1), size):
        messages = adopted.messages.slice(start, size)
        claims = adopted.claims.slice(start, size)
        own = pl.concat([claims["subject"], claims["object"]]).drop_nulls().unique()
        part = replace(
            adopted,
            messages=messages,
            claims=claims,
            mentions=adopted.mentions.filter(pl.col("name").is_in(own.implode())) if start else adopted.mentions,
            aliases=adopted.aliases.clear() if start else adopted.aliases,
        )
        yield ExportPart(_source(file, "running"), part)


def _store_and_apply(
    run: Run, part: ExportPart, settings: IngestSettings, require: bool, dry_run: bool
) -> Counter[RunCount]:
    """Store a part as candidates and apply them; what is counted."""
    if dry_run:
        every, new = len(part.adopted.messages), len(part.new_messages(store_of(run).snapshot()))
        return Counter({RunCount.ITEMS_KNOWN: every - new, RunCount.ITEMS_NEW: new})
    counts = store_candidates(run, part, settings)
    applying = under_approval(run, "patch", settings.approval, require=require, risks=False)
    return counts + _outcomes(apply_patches(applying, settings, look_back=False))


def _outcomes(applied: Applied) -> Counter[RunCount]:
    named = Counter({OUTCOMES[action]: n for action, n in applied.decisions.items() if action in OUTCOMES})
    return named + Counter({RunCount.ITEMS_REFUSED: applied.rejected})


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


# Files: an export of another memory system is read whole, whatever its encoding, and never changed.


_SUFFIXES = frozenset({".json", ".jsonl", ".ndjson"})
_HEAD_BYTES = 262_144


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
    uri = _shown(given)
    if is_own_export(given):
        raise UnusableInput(f"{uri} is an export of slowwave.", "slowwave import takes it as a whole.")
    if not given.exists():
        raise UnusableInput(f"There is no file or folder {str(given)!r}.", "Check the path.")
    listed = sorted(given.iterdir()) if given.is_dir() else []
    files = [file for file in listed if file.is_file() and file.suffix.lower() in _SUFFIXES] or [given]
    try:
        content = [(f"{file.name} " if len(files) > 1 else "", file.read_bytes()) for file in files]
    except OSError as error:
        raise UnusableInput(f"{uri} cannot be read: {error.strerror or error}.", READS) from error
    loaded = [
        (f"{name}{place}".strip(), value, why) for name, raw in content for place, value, why in _values(uri, raw)
    ]
    values = [(place, value) for place, value, why in loaded if not why]
    broken = [Skipped(place, why) for place, _, why in loaded if why]
    if not values:
        first = f": {broken[0].place}: {broken[0].reason}" if broken else " is empty"
        raise UnusableInput(f"Nothing can be read, {uri}{first}.", f"{READS} Was the export finished?")
    whole = hashlib.blake2b(b"".join(raw for _, raw in content), digest_size=16).hexdigest()
    modified = datetime.fromtimestamp(max(file.stat().st_mtime for file in files), UTC)
    return ForeignFile(uri, whole, modified, read_export(values, system, broken, uri))


def _values(uri: str, raw: bytes) -> Iterator[tuple[str, Any, str]]:
    """(place, value, why it cannot be read) of each JSON value: one document, or one value a line."""
    if kind := binary_kind(raw[:_HEAD_BYTES]):
        raise UnusableInput(f"{uri} is {kind}, not JSON.", f"{READS} Unpack or export it first.")
    text = raw.decode(encoding_of(raw[:_HEAD_BYTES]), MIXED).removeprefix("\ufeff").encode()
    try:
        whole = orjson.loads(text or b"[]")
    except orjson.JSONDecodeError as error:
        found = [*load_lines(text.split(b"\n"))]
        if text.strip() and not any(isinstance(value, dict) for _, value, _ in found):
            where = readable(str(error))
            raise UnusableInput(
                f"{uri} is no JSON: {where}.", f"{READS} If it was cut off, export it again."
            ) from error
        for number, value, note in found:
            yield f"line {number}", value, note.reason if note is not None and note.kind == "unreadable" else ""
        return
    yield from (
        ((f"[{n}]", value, "") for n, value in enumerate(whole)) if isinstance(whole, list) else [("", whole, "")]
    )


def _shown(path: Path) -> str:
    """The path as it may be stored and told: without secrets."""
    name = readable(path.as_posix())
    return hidden_names([name]).get(name, name)


# Audits: an export of another memory system is read and judged; no store is needed, and none is opened.


LEAST_COSINE = 0.6  # what denies or opposes a statement is less like it than what repeats it


def audit_export(
    path: str | Path, settings: Settings, system: str = "auto", *, now: datetime | None = None, stale_days: int = 365
) -> dict[str, Any]:
    """What is wrong with an export, by the rules and thresholds of the settings; reads the file and changes nothing.

    Raises `UnusableInput` for what cannot be read.
    """
    file = read_foreign(path, system)
    seat = open_embedder(settings.embedder)
    resolve = min(settings.consolidate.resolve_cosine or 1.0, resolve_cosine_of(seat.name), LEAST_COSINE)
    vectors = seat.embed(file.content.claims["statement"].to_list())
    return audit(file.content, vectors, now or datetime.now(UTC), settings, resolve, file.uri, stale_days)

"""Imports: what another memory system exported comes in as candidates, on the one road to an active fact (S3-07).

The same file again imports nothing, and an item that is known imports nothing, whichever file names it. An item that
says something else than before takes the place of what it said, and one that is over ends what it said; what its system
has deleted since is not looked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from recall.export_files import SealCheck
from slowwave.foreign.adoption import Adopted, Safe, adopt, without_secrets
from slowwave.foreign.records import Skipped
from slowwave.lifecycle.run_counts import RunCount, by_label
from slowwave.settings import IngestSettings
from storage.rows import quoted
from tasks.entities.linking import assign_new, link_entities, touched_entities
from tasks.entities.retirement import renew_profiles
from tasks.ingest.application import Applied, apply_patches
from tasks.nightly.aspects import refreshed_aspects
from tasks.nightly.communities import note_due
from tasks.orchestration.phases import tidy
from tasks.orchestration.tallies import OUTCOMES
from tasks.runtime.proposing import titles_of, under_approval
from tasks.runtime.runs import Counts, Run, recorded, store_of

from .foreign_candidates import Part, store_candidates, stored_messages
from .foreign_files import ForeignFile, read_foreign

LISTED = 200


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import.

    `counts` says how many of each kind; `skipped` lists the first items that were not taken as they are,
    `unknown_types` counts words for kinds of things that none of our types means: such things are concepts. `is_known`:
    the very bytes were imported before. Of an export of our own `seal` says what its seal is worth here, and
    `as_it_is` whether its rows came in as they are.
    """

    run: str
    path: str
    system: str
    is_known: bool
    counts: Mapping[str, int]
    skipped: tuple[Skipped, ...]
    unknown_types: Mapping[str, int]
    seal: SealCheck | None = None
    as_it_is: bool = False

    def as_json(self) -> dict[str, Any]:
        """The contract of `import --json`."""
        return {
            "run": self.run,
            "path": self.path,
            "system": self.system,
            "known": self.is_known,
            "counts": dict(self.counts),
            "skipped": [{"place": s.place, "reason": s.reason, "loss": s.loss} for s in self.skipped],
            "unknown_types": dict(self.unknown_types),
            **({"seal": asdict(self.seal), "as_it_is": self.as_it_is} if self.seal else {}),
        }


@dataclass(slots=True)
class _Counted(Counts):
    """The counts of an import for its row in `runs`."""

    total: Counter[RunCount] = field(default_factory=Counter)

    def summary(self) -> dict[str, Any]:
        """Everything counted, as plain data."""
        return {"run": self.run, "state": self.state, "counts": {name: n for name, n in self.total.items() if n}}


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
    safe = without_secrets(file.content)
    tally = _Counted(run.id)
    parameters = {"path": file.uri, "from": system, "require_approval": require_approval}
    with recorded(run, tally, parameters, dry_run=dry_run, last=refreshed_aspects) as run:
        is_known = _is_known(run, file)
        adopted = adopt(safe.content, file.modified_at)
        tally.total.update(_read(file, safe))
        notes: dict[Skipped, None] = {}
        if not is_known:
            for part in _parts(file, adopted, settings.extract.batch_messages):
                taken, left_out = _take_in(run, part, settings, require_approval, dry_run)
                tally.total.update(taken)
                notes |= dict.fromkeys(left_out)
        if not is_known and not dry_run:
            _finish(run, file, settings)
            tally.total[RunCount.CHANGES_PROPOSED] = len(titles_of(run))
    content = safe.content
    counts = {what: number for what, number in by_label(tally.total).items() if number}
    unknown = adopted.unknown_types
    skipped = (*notes, *content.skipped)[:LISTED]
    return Imported(run.id, file.uri, content.format, is_known, counts, skipped, unknown)


def _read(file: ForeignFile, safe: Safe) -> Counter[RunCount]:
    content = safe.content
    by_loss = Counter(each.loss for each in content.skipped)
    return Counter(
        {
            RunCount.ITEMS_READ: len(content.claims),
            RunCount.ENTITIES_READ: content.entities["name"].n_unique(),
            RunCount.SOURCE_TEXTS_READ: len(content.episodes),
            RunCount.ITEMS_BROKEN: by_loss["broken"] + by_loss["endless"],
            RunCount.ITEMS_GONE: by_loss["gone"],
            RunCount.TEXTS_REDACTED: safe.redacted,
        }
    )


def _is_known(run: Run, file: ForeignFile) -> bool:
    """Whether the same bytes were imported to their end, under whatever name."""
    where = f"state = 'completed' AND format = {quoted(file.content.format)}"
    found = store_of(run).snapshot().by_ids("sources", [file.content_hash], ["id"], key="content_hash", where=where)
    return len(found) > 0


def _parts(file: ForeignFile, adopted: Adopted, size: int) -> Iterator[Part]:
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
            episodes=adopted.episodes.clear() if start else adopted.episodes,
        )
        yield Part(_source(file, "running"), file.content.format, part)


def _take_in(
    run: Run, part: Part, settings: IngestSettings, require: bool, dry_run: bool
) -> tuple[Counter[RunCount], tuple[Skipped, ...]]:
    """Store a part as candidates and apply them; what is counted, and what is not taken over as the export has it."""
    if dry_run:
        known = len(stored_messages(store_of(run).snapshot(), part.adopted.messages["id"]))
        return Counter({RunCount.ITEMS_KNOWN: known, RunCount.ITEMS_NEW: len(part.adopted.messages) - known}), ()
    stored = store_candidates(run, part, settings)
    applying = under_approval(run, "patch", settings.approval, require=require, risks=False)
    applied = _outcomes(apply_patches(applying, settings, look_back=False))
    notes = {RunCount.ENTITIES_OF_OTHER_TYPE: stored.other_types, RunCount.ENDS_KEPT: stored.kept_ends}
    more = Counter({name: len(each) for name, each in notes.items()})
    return stored.counts + applied + more, (*stored.other_types, *stored.kept_ends)


def _outcomes(applied: Applied) -> Counter[RunCount]:
    named = Counter({OUTCOMES[action]: n for action, n in applied.decisions.items() if action in OUTCOMES})
    return named + Counter({RunCount.ITEMS_REFUSED: applied.rejected})


def _source(file: ForeignFile, state: str) -> dict[str, Any]:
    """The row of the file in `sources`."""
    content = file.content
    lost = sum(each.loss != "adjusted" for each in content.skipped)
    return {
        "id": file.id,
        "uri": file.uri,
        "format": content.format,
        "content_hash": file.content_hash,
        "state": state,
        "messages": len(content.claims) + len(content.episodes),
        "unreadable": lost,
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

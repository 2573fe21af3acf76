"""Forgetting: a person or topic is erased from every table, index, log and older version, and that is proved.

Not a Prefect task, because its parameters would keep the name; nor are the names in the run's row. The run is three
steps, each of which the next run finishes if this one dies: one commit that writes every table again, the logs, the
older versions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from recall.entities import exact_row
from slowwave.common.decisions import decision, decision_frame
from slowwave.common.errors import Refused, StoreMismatch, UnknownName
from slowwave.common.records import OPEN_BATCH
from slowwave.common.run_counts import RunCount
from slowwave.common.text import normalise_name
from slowwave.lifecycle import erasure
from slowwave.lifecycle.forgotten_names import NameMatcher, check_name
from storage.paid_answers import StoredAnswers
from storage.snapshots import Reading
from storage.store import Store
from storage.tables import Role, tables_of
from storage.upkeep import (
    LEDGER,
    TableErasure,
    drop_versions,
    erase,
    files_left,
    files_of,
    purge_log,
    read_rows_naming,
    versions_of,
)
from tasks.entities.derived import refresh_profiles
from tasks.runtime.runs import Counts, Run, alive_runs, embed_rows, recorded, store_of

from .erasure_plan import LOGS, REQUIRED, ErasurePlan, plan_erasure, retold_among

TOPIC = "topic"


@dataclass(frozen=True, slots=True)
class Subject:
    """What is to be forgotten: an entity (empty: a topic) and all its names; `is_past`: only older versions have it."""

    entity_id: str
    called: str
    names: NameMatcher
    is_past: bool = False
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Report:
    """The result; `left` lists places that still name the subject, none when all is well."""

    subject: Subject
    plan: ErasurePlan
    run: str | None = None
    versions: int = 0
    files_dropped: int = 0
    rows_before: Mapping[str, int] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def state(self) -> str:
        """Completed, unless something is left."""
        return "incomplete" if self.left else "completed"

    @property
    def counts(self) -> dict[RunCount, int]:
        """For the run's row, without a name."""
        return {
            RunCount.ROWS_REMOVED: sum(self.plan.removed().values()),
            RunCount.ROWS_STRUCK: sum(self.plan.changed().values()),
            RunCount.VERSIONS_DROPPED: self.versions,
            RunCount.FILES_DROPPED: self.files_dropped,
            RunCount.PLACES_LEFT: len(self.left),
        }


def find_subject(run: Run, wanted: str, also: Sequence[str] = (), only: Sequence[str] = ()) -> Subject:
    """The entity of that name or id, now or in an older version, or else a topic; `only` are the names to erase.

    Raises `UnknownName` where nothing has that name and no text says it, `UnusableInput` for a name that is too short
    or too common, unless it was given in `only` or `also`.
    """
    store = store_of(run)
    reading: Reading = store.snapshot()
    near, remedy = [], ""
    try:
        entity, is_past = str(exact_row(reading, wanted)["id"]), False
    except UnknownName as error:
        near, remedy = error.known, error.remedy
        found = _earlier(store, wanted)
        entity, is_past, reading = (found[0], True, found[1]) if found else ("", False, reading)
    listed = _names_of(reading, entity) if entity else [wanted]
    for name in () if only else listed:
        check_name(name)
    names = NameMatcher.of([*(only or listed), *also])
    notes = _first_name(reading, entity, names) if entity else ()
    if not entity:
        is_past = not bool(read_rows_naming(store, names, only_newest=True).cells)
        if is_past and not read_rows_naming(store, names).cells:
            raise UnknownName("entity or topic", wanted, near, remedy)
    called = reading.by_ids("entities", [entity], ["name"])["name"][0] if entity else wanted
    return Subject(entity, called or wanted, names, is_past, notes)


def _earlier(store: Store, wanted: str) -> tuple[str, Reading] | None:
    """The entity as the newest older state knew it that is still there."""
    seen: set[tuple[int, int]] = set()
    for commit, versions in store.commits().sort("sequence", descending=True).select("sequence", "versions").rows():
        at = json.loads(versions)
        pair = (at.get("entities", 1), at.get("entity_aliases", 1))
        if pair in seen:
            continue
        seen.add(pair)
        try:
            state = store.snapshot(commit=commit)
            return str(exact_row(state, wanted)["id"]), state
        except UnknownName:
            continue
        except StoreMismatch:
            return None
    return None


def _names_of(reading: Reading, entity: str) -> list[str]:
    """All names of an entity, and of those that were merged into it."""
    merged = reading.by_ids("entities", [entity], ["id"], key="merged_into")["id"].to_list()
    ids = [entity, *merged]
    own = reading.by_ids("entities", ids, ["id", "canonical_name", "name"])
    aliases = reading.by_ids("entity_aliases", ids, ["alias_name"], key="entity_id")["alias_name"]
    return [name for name in (*own["name"], *own["canonical_name"], *aliases) if name]


def _first_name(reading: Reading, entity: str, names: NameMatcher) -> tuple[str, ...]:
    """The note for a person whose first name alone stays."""
    row = reading.by_ids("entities", [entity], ["entity_type", "name"]).row(0, named=True)
    words = (row["name"] or "").split()
    if (
        row["entity_type"] != "person"
        or len(words) < 2
        or normalise_name(words[0]) in map(normalise_name, names.listed)
    ):
        return ()
    return (f"{words[0]!r} alone is not erased, because others may have that name: add --also {words[0]!r}.",)


def preview(run: Run, subject: Subject) -> Report:
    """What forgetting would do; changes nothing."""
    store = store_of(run)
    plan = plan_erasure(store.snapshot(), subject.entity_id, subject.names)
    rows = read_rows_naming(store, subject.names, only_newest=not subject.is_past)
    report = Report(subject, plan, rows_before=rows.cells, words=tuple(sorted(rows.words)), notes=subject.notes)
    report.versions = sum(count - 1 for name, count in versions_of(store).items() if name != LEDGER)
    return report


def forget(run: Run, subject: Subject) -> Report:
    """Erase a subject and prove it. There is no undo, of this run or of any before it.

    Raises `Refused` while another run or a batch of a model goes on: it could store again what it read before.
    """
    _check_alone(store_of(run))
    report = Report(subject, ErasurePlan({}, {}, {}, (), ()), run.id, notes=subject.notes)
    tally = Counts(run.id)
    with recorded(run, tally, {"names": len(subject.names.listed)}):
        store = store_of(run)
        files, versions = files_of(store), versions_of(store)
        report.rows_before = read_rows_naming(store, subject.names, only_newest=not subject.is_past).cells
        report.plan = _write(run, subject)
        _purge_again(store, report.plan, subject.names)
        drop_versions(store, run.id, run.now)
        left = versions_of(store)
        report.versions = sum(max(0, count - left[name]) for name, count in versions.items() if name != LEDGER)
        if report.plan.owners:
            refresh_profiles(run, pl.Series(report.plan.owners))
        rows, now = read_rows_naming(store, subject.names), files_of(store)
        report.files_dropped = len(files - now)
        report.words = tuple(sorted(rows.words))
        cells = tuple(f"{name}: {count} texts" for name, count in sorted(rows.cells.items()))
        words = tuple(f"{name}: {count} with words of a name" for name, count in sorted(rows.general.items()))
        report.left = (*cells, *words, *(f"{file} is from before" for file in files_left(files, now)))
        tally.counts.update(report.counts)
        tally.state = report.state
    return report


def _check_alone(store: Store) -> None:
    if alive := alive_runs(store):
        way_out = f"Wait until it has ended, or stop it; if its machine is gone: slowwave runs {alive[0]} --end"
        raise Refused(f"Run {', '.join(alive)} is still going on and may have read what is to be erased.", way_out)
    under_way = [each for each in StoredAnswers(store).batches() if each.state in OPEN_BATCH]
    if under_way:
        prompts, models = sum(len(each.keys) for each in under_way), sorted({each.model for each in under_way})
        raise Refused(
            f"{prompts} prompts are still in a batch ({', '.join(models)}), and the answers may name what is to be "
            "erased.",
            "Run `slowwave ingest` with that model until they are collected (`slowwave sleep` for those of a night), "
            "which takes a day at most; then forget.",
        )


def _write(run: Run, subject: Subject) -> ErasurePlan:
    """The logs, and the one commit: every table without what goes, with a decision that does not say who it was.

    Logs go first: once the commit is there, nobody knows any more which of their rows were about the subject.
    """
    store = store_of(run)
    snapshot = store.snapshot()
    plan = plan_erasure(snapshot, subject.entity_id, subject.names)
    vectors = _vectors(run, plan)
    for name in LOGS:
        purge_log(store, name, plan.gone[name])
    with store.commit(run.id, "forget", run.now) as tx:
        if tx.is_overtaken(snapshot):
            again = plan_erasure(tx, subject.entity_id, subject.names)
            plan = replace(again, gone={name: ids | again.gone[name] for name, ids in plan.gone.items()})
            vectors = _vectors(run, again)
        for name in tables_of(Role.STATE, Role.HISTORY):
            change = TableErasure(frozenset(plan.gone[name]), plan.struck[name], vectors[name])
            if name != LEDGER or change.gone or len(change.struck):
                erase(tx, name, change)
        tx.upsert("decisions", _decision(run, subject, plan))
    return plan


def _vectors(run: Run, plan: ErasurePlan) -> dict[str, pl.DataFrame]:
    """(id, vector) by table; every text is embedded once."""
    listed = pl.concat([texts.select("text") for texts in plan.texts.values()]).unique(maintain_order=True)
    distinct = listed.drop_nulls().with_columns(id="text")
    known = embed_rows(run, distinct.select("id"), distinct).rename({"id": "text"})
    return {
        name: texts.join(known, on="text", how="left", maintain_order="left").select("id", "vector")
        for name, texts in plan.texts.items()
    }


def _decision(run: Run, subject: Subject, plan: ErasurePlan) -> pl.DataFrame:
    measures = {"removed": plan.removed(), "struck": plan.changed(), "names": len(subject.names.listed)}
    about = subject.entity_id or TOPIC
    reason = "A person had it erased, with everything that names it; there is no undo."
    row = decision("forget", about, None, None, reason, run.now, measures, decided_by="person", key=(run.id,))
    return decision_frame([row])


def _purge_again(store: Store, plan: ErasurePlan, names: NameMatcher) -> None:
    """Purge rows that were appended to the logs meanwhile."""
    ids = pl.Series(sorted(set().union(*plan.gone.values())), dtype=pl.String)
    for name in LOGS:
        rows = store.log(name)
        about = rows.filter(pl.any_horizontal(pl.lit(False), *(pl.col(c).is_in(ids.implode()) for c in REQUIRED[name])))
        retold = retold_among(rows) if name == "llm_calls" else ()
        worded = rows.filter(erasure.with_words_of(rows, names))["id"]
        if gone := {*erasure.naming(rows, names)["id"], *worded, *about["id"], *retold}:
            purge_log(store, name, gone)

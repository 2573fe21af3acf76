"""What is killed: each flow on a store that gives it something to do. A scene can be run any number of times."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from safetensors.numpy import load_file, save_file

from flows.ingest import ingest
from flows.maintenance import communities, consolidate, decay, steward, upkeep
from flows.nights import backfill, sleep
from flows.oversight import reembed
from inference.embedding import STATIC_MODELS
from recall.history import archived
from recall.proposals import list_proposals
from recall.report import consolidation_report
from slowwave.common.errors import UnknownName
from slowwave.common.settings import (
    DEFAULT_EMBEDDER,
    BackfillSettings,
    CommunitySettings,
    ConsolidateSettings,
    DecaySettings,
    IngestSettings,
    ReembedSettings,
    ReportSettings,
    RetentionSettings,
    SleepSettings,
    StewardSettings,
)
from slowwave.review.proposals import Person
from storage.store import Store
from storage.undo import undo
from storage.upkeep import read_rows_naming
from tasks.entities.merges import merge
from tasks.entities.retirement import restore
from tasks.people.forgetting import find_subject, forget
from tasks.people.observations import observe
from tasks.people.review import approve, propose
from tasks.runtime.runs import existing_run, new_run

from .model import NAME

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NOW = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
LATER = NOW + timedelta(days=200)  # everything has been out of use for longer than anything is kept
KEYLESS = {"model": "quotes"}
ASKING = {"model": NAME}
MERGING_APART = {"enabled": False}
EARLIER = ("c02-lunch-two-annas", "c03-devon-first-talk", "c06-devon-new-job")
SMALLER = "smaller-model"
FORGOTTEN = "Devon Clarke"
EVENTS = 12
GATE = {"enabled": True, "probes": 10}


@dataclass(frozen=True, slots=True)
class Scene:
    """One flow: what is in the store before, the work itself, and what else must hold once it is done.

    `asks` says that it asks a model, `erases` that facts may be gone for good afterwards.
    """

    name: str
    before: Callable[[Path], object]
    work: Callable[[Path], object]
    asks: bool = False
    erases: bool = False
    check: Callable[[Path], list[str]] = lambda place: []


def _read(place: Path, names: tuple[str, ...], now: datetime, **settings: Any) -> None:
    files = [str(path) for name in names for path in EXAMPLES.rglob(f"{name}.*")]
    chosen = IngestSettings.model_validate({"llm": KEYLESS, **settings})
    asyncio.run(ingest(files, store=str(place), settings=chosen, now=now))


def nothing(place: Path) -> None:
    """No store yet."""


def talks(place: Path) -> None:
    """A few conversations and a document, of which nothing is merged; some facts were recalled since."""
    _read(place, (*EARLIER, "runbook-kestrel"), NOW, consolidate=MERGING_APART)
    store = Store.open(str(place))
    facts = store.snapshot().frame("facts", "status = 'active'", ["id"])["id"].sort().head(EVENTS)
    recalled = {"id": [f"r{n}" for n in range(len(facts))], "fact_id": facts, "cosine": 0.8, "rank": 1}
    store.append("retrieval_events", pl.DataFrame(recalled).with_columns(query_hash=pl.lit("q"), at=NOW), NOW)


def waiting(place: Path) -> None:
    """Facts that wait for a person."""
    _read(place, EARLIER[:1], NOW)
    _read(place, EARLIER[1:2], NOW, approval={"mode": "manual"}, consolidate=MERGING_APART)


def unread(place: Path) -> None:
    """Messages of three months from which nothing was learned yet."""
    _read(place, EARLIER, NOW, extract={"enabled": False}, consolidate=MERGING_APART)


def connected(place: Path) -> None:
    """A few conversations with communities, which later ones join."""
    talks(place)
    asyncio.run(communities(store=str(place), settings=CommunitySettings.model_validate({"llm": KEYLESS}), now=NOW))


def turning(place: Path) -> None:
    """A few conversations, and beside the store another embedding model: the shipped one with fewer dimensions."""
    talks(place)
    source, folder = STATIC_MODELS[DEFAULT_EMBEDDER], place.parent / SMALLER
    folder.mkdir()
    for name in ("config.json", "tokenizer.json"):
        shutil.copy(source / name, folder)
    tables = load_file(source / "model.safetensors")
    tables["embeddings"] = np.ascontiguousarray(tables["embeddings"][:, :96])
    save_file(tables, folder / "model.safetensors")


def kept(place: Path) -> None:
    """A store in which a run retired facts, and another one learned more since."""
    talks(place)
    swept(place)
    _read(place, ("c12-devon-catches-up",), LATER)


def ingest_anew(place: Path) -> None:
    """A new store; a model reads two conversations and two versions of a document, in several batches."""
    names = ("c02-lunch-two-annas", "c06-devon-new-job", "runbook-kestrel", "runbook-kestrel-july")
    extract = {"window_messages": 6, "batch_messages": 16}
    _read(place, names, NOW, llm=ASKING, extract=extract)


def ingest_more(place: Path) -> None:
    """Without a model, what contradicts, repeats and goes on with what is known."""
    extract = {"note_linking": {"enabled": True}, "batch_messages": 16}
    _read(place, ("c12-devon-catches-up", "c10-the-sisters", "runbook-kestrel-july"), LATER, extract=extract)


def reread(place: Path) -> None:
    """A model reads what was kept as quotations, in several batches."""
    _read(place, (), LATER, llm=ASKING, extract={"reread": True, "window_messages": 6})


def consolidated(place: Path) -> None:
    """What says the same becomes one, as the model says."""
    settings = ConsolidateSettings.model_validate({"llm": ASKING, "merge_cosine": 0.5, "per_call": 2})
    asyncio.run(consolidate(store=str(place), settings=settings, now=LATER))


def swept(place: Path) -> None:
    """Facts are scored, and what nobody recalled is archived."""
    settings = StewardSettings.model_validate({"llm": KEYLESS, "learning_events": 5, "prune_threshold": 0.4})
    asyncio.run(steward(store=str(place), settings=settings, now=LATER))


def decayed(place: Path) -> None:
    """What ended long ago and entities of which nothing is known move to the archive."""
    settings = DecaySettings.model_validate({"expired_edge_retention_days": 1})
    asyncio.run(decay(store=str(place), settings=settings, now=LATER))


def grouped(place: Path) -> None:
    """Communities are found, and a model says what they are about."""
    settings = CommunitySettings.model_validate({"llm": ASKING})
    asyncio.run(communities(store=str(place), settings=settings, now=LATER))


def slept(place: Path) -> None:
    """The whole night, watched over by a gate, with a model for what it merges and sums up."""
    phases = {
        "consolidate": {"llm": ASKING, "merge_cosine": 0.5}, "steward": {"llm": KEYLESS, "learning_events": 5},
        "decay": {"expired_edge_retention_days": 1}, "communities": {"llm": ASKING}, "gate": GATE,
    }  # fmt: skip
    asyncio.run(sleep(store=str(place), settings=SleepSettings.model_validate(phases), now=LATER))


def backfilled(place: Path) -> None:
    """Messages are extracted month by month, with a model."""
    settings = {"ingest": {"llm": ASKING, "extract": {"window_messages": 6}, "consolidate": MERGING_APART}}
    chosen = BackfillSettings.model_validate(settings)
    asyncio.run(backfill(store=str(place), window="month", settings=chosen, now=LATER))


def reembedded(place: Path) -> None:
    """Every vector is of another model."""
    settings = ReembedSettings.model_validate({"gate": GATE})
    model = f"model2vec/{place.parent / SMALLER}"
    asyncio.run(reembed(store=str(place), embedder=model, settings=settings, now=LATER))


def proposed(place: Path) -> None:
    """A proposal for the split of each entity that is large."""
    settings = ReportSettings.model_validate({"split": {"thresholds": {"person": 4, "default": 4}}})
    found = consolidation_report(Store.open(str(place)).snapshot(), settings, LATER)
    for each in found["split_candidates"]:
        propose(existing_run("split-propose", str(place), "default", LATER), each["entity_id"], settings.split)


def approved(place: Path) -> None:
    """A person says yes to everything that waits."""
    run = existing_run("review", str(place), "default", LATER)
    if ids := [each.id for each in list_proposals(Store.open(str(place)).snapshot())]:
        approve(run, ids, Person("ana", "python"))


def tended(place: Path) -> None:
    """Compaction of every table, indexes, and nothing kept for undo."""
    asyncio.run(upkeep(store=str(place), settings=RetentionSettings(undo_days=1)))


def forgotten(place: Path) -> None:
    """A person is erased from every table and version."""
    run = existing_run("forget", str(place), "default", LATER)
    try:
        subject = find_subject(run, FORGOTTEN)
    except UnknownName:  # done before
        return
    forget(run, subject)


def is_erased(place: Path) -> list[str]:
    """Whatever still names the person who was forgotten."""
    store = Store.open(str(place))
    run = existing_run("forget", str(place), "default", LATER)
    try:
        subject = find_subject(run, FORGOTTEN)
        return [f"{subject.called} is still known"]
    except UnknownName:
        from slowwave.lifecycle.forgotten_names import NameMatcher

        rows = read_rows_naming(store, NameMatcher.of([FORGOTTEN])).cells
        raw = FORGOTTEN.lower().encode()
        files = [path for path in place.rglob("*") if path.is_file() and raw in path.read_bytes().lower()]
        return [f"{FORGOTTEN} is still in {each}" for each in (*rows, *files)]


def undone(place: Path) -> None:
    """A run is taken back, and what was built on it."""
    run = new_run("undo", str(place), "default", "", LATER)
    undo(Store.open(str(place)), _first_run(place, "steward"), run.id, LATER, cascade=True)


def _first_run(place: Path, flow: str) -> str:
    return str(Store.open(str(place)).snapshot().frame("runs", f"flow = '{flow}'", ["id"])["id"].sort()[0])


def restored(place: Path) -> None:
    """What a run archived comes back."""
    run = existing_run("restore", str(place), "default", LATER)
    restore(run, [each["id"] for each in archived(Store.open(str(place)).snapshot(), limit=10_000)[1]])


def observed(place: Path) -> None:
    """Line by line is stated, so often that small pieces are joined."""
    settings = IngestSettings.model_validate({"llm": KEYLESS})
    for number, said in enumerate(("likes trams", "owns a kayak", "sings in a choir", "keeps bees", "reads maps") * 4):
        run = existing_run("observe", str(place), "default", LATER + timedelta(minutes=number))
        observe(run, "Devon Clarke", [f"Devon {said} on line {number}."], settings)


def merged(place: Path) -> None:
    """Two entities become one."""
    run = existing_run("merge", str(place), "default", LATER)
    merge(run, "Redis", "PgBouncer", force=True)


ALL = (
    Scene("ingest", nothing, ingest_anew, asks=True),
    Scene("ingest more", connected, ingest_more),
    Scene("reread", talks, reread, asks=True, erases=True),
    Scene("consolidate", talks, consolidated, asks=True),
    Scene("steward", talks, swept),
    Scene("decay", talks, decayed),
    Scene("communities", talks, grouped, asks=True),
    Scene("sleep", talks, slept, asks=True),
    Scene("split", talks, proposed),
    Scene("review", waiting, approved),
    Scene("upkeep", talks, tended),
    Scene("forget", talks, forgotten, erases=True, check=is_erased),
    Scene("undo", kept, undone),
    Scene("restore", kept, restored),
    Scene("merge", talks, merged),
    Scene("observe", talks, observed),
    Scene("backfill", unread, backfilled, asks=True),
    Scene("reembed", turning, reembedded),
)
SCENES: Mapping[str, Scene] = {scene.name: scene for scene in ALL}
BEFORES: Mapping[str, Callable[[Path], object]] = {scene.before.__name__: scene.before for scene in ALL}

"""Extraction: pending messages become candidate facts in patch batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np
import polars as pl

from inference.language import Language
from inference.request_batch import ModelAnswer
from prompts.rendering import render_extraction
from prompts.responses import WindowExtraction
from slowwave.common.records import KnownFact
from slowwave.common.run_counts import RunCount
from slowwave.common.settings import ExtractSettings, IngestSettings
from slowwave.common.validity import live_sql
from slowwave.facts.revision.extracted_claims import CollectedClaims
from slowwave.facts.revision.predicates import INTENTIONS
from slowwave.facts.revision.referenced_facts import claims_of, find_counterparts
from slowwave.reading.extraction.roster import any_nameless, with_owner_names
from slowwave.reading.ingestion.windows import COLUMNS as WINDOW_COLUMNS
from slowwave.reading.ingestion.windows import (
    PlannedWindow,
    brief_windows,
    first_of_each,
    plan_windows,
    with_topics,
)
from storage.quotations import QUOTES
from storage.row_steps import FEW
from storage.search import near_rows, unit_matrix
from storage.snapshots import Snapshot
from tasks.entities.retirement import renew_profiles
from tasks.runtime.engine import task
from tasks.runtime.retrying import ASKS_MODEL, LONGEST_WAIT_FOR_A_MODEL_S
from tasks.runtime.run_pages import TaskResult
from tasks.runtime.runs import Run, embedder_of, language_of, store_of
from tasks.runtime.writing import applies_at_once

from .application import APPLY, apply_few
from .candidate_rows import (
    AnsweredBatch,
    BatchRows,
    RelationForms,
    find_candidates,
    name_relations,
    still_waiting,
    to_extract,
    write,
)
from .gating import learn_noise
from .identities import Roster, as_stored, read_roster, resolve_again, resolve_names, with_roster, write_roster

KNOWN_FACTS = 36
"""Live facts near a window that its messages may repeat, end or contradict."""
POOL_PER_CLAIM = 24
PASSING = 0.75
"""Weight of a plan, a wish, an opinion or what happened on a day: they are many, and seldom what a message changes. Of
the states and tastes that updates of a development user replace, the best 36 have .51 with it and .47 without."""
COLUMNS = ("id scope statement message_id subject_id predicate object_id object_text polarity event_at").split()
Known = list[tuple[KnownFact, tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class Cursor:
    """How many messages a run took, and those of them that still wait: none is tried twice in one run."""

    taken: int = 0
    tried: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Extracted:
    """What one batch gave: `cursor` is None when nothing waits behind it; `not_durable` messages will not matter later.

    `patches` are the batches of candidates that are to be applied, `applied` is what became of those that were few.
    `owner` is the name of who speaks as user without a name, empty while it is not known; None where nobody does.
    """

    cursor: Cursor | None
    counts: Mapping[RunCount, int] = field(default_factory=dict)
    not_durable: int = 0
    owner: str | None = None
    errors: tuple[str, ...] = ()
    patches: tuple[str, ...] = ()
    applied: TaskResult = field(default_factory=TaskResult)


def count_unfinished(run: Run, settings: ExtractSettings) -> int:
    """How many messages the run is going to extract."""
    snapshot = store_of(run).snapshot()
    waiting = snapshot.count("messages", to_extract(snapshot, settings))
    return waiting if settings.limit is None else min(waiting, settings.limit)


@task(
    "extract facts",
    about="{run.namespace}, after {after.taken} messages",
    longest_s=LONGEST_WAIT_FOR_A_MODEL_S,
    tags=[ASKS_MODEL],
)
async def extract_facts(run: Run, settings: IngestSettings, after: Cursor) -> Extracted:
    """One batch of messages: windows, model, names, candidates; committed together with the state of each message.

    A model reads in the order of time: of what shares a speaker one window at a time, so that each knows what the ones
    before it gave; what shares nobody is read beside it. Quotations and batches take all at once.
    """
    store = store_of(run)
    snapshot = store.snapshot()
    language = language_of(run, settings.llm)
    is_by_rule = language.is_keyless("extract")
    in_order = not is_by_rule and settings.llm.mode != "batch"
    batch = _next_batch(snapshot, settings.extract, after)
    if batch.is_empty():
        return Extracted(None)
    roster = read_roster(snapshot, batch, settings)
    planned = _windows(snapshot, batch, settings, roster, brief=not is_by_rule)
    settled = {*batch["id"]}
    if in_order:
        planned = first_of_each(planned)
        settled = {row for each in planned for row in each.new_ids}
    cursor = _passed(after, batch, settled, settings.extract)
    batch = batch.filter(pl.col("id").is_in(settled))
    if not is_by_rule:
        known = known_facts(run, snapshot, planned)
        planned = with_roster(snapshot, planned, known, roster.owners)
    answers = await _answers(language, planned, settings.extract)
    answered = AnsweredBatch(batch, planned, answers, QUOTES if is_by_rule else language.model("extract"))
    statements = answered.statements(settings.extract, roster.owners)
    skipped = language.skipped
    resolution, verdicts = await resolve_names(run, language, snapshot, statements.mentions, settings.resolve)
    if language.skipped > skipped:  # who is meant could not be asked: all of it waits, rather than become a stranger
        answered = answered.left()
        statements = answered.statements(settings.extract, roster.owners)
        resolution, verdicts = await resolve_names(run, language, snapshot, statements.mentions, settings.resolve)
    named = await name_relations(language, snapshot, _of_documents(statements.claims, batch), settings.revise)
    found = find_candidates(run, snapshot, answered, statements, resolution, named, settings)
    patches, applied = tuple[str, ...](), TaskResult()
    is_small = len(found.facts) <= FEW and applies_at_once(run, settings.approval)
    with store.commit(run.id, APPLY if is_small else "ingest.candidates", run.now) as tx:
        if tx.is_overtaken(snapshot):  # what another run did meanwhile may change what names mean
            answered = still_waiting(tx, answered, settings.extract)
            statements = as_stored(tx, answered.statements(settings.extract, roster.owners), roster)
            resolution = resolve_again(run, tx, statements.mentions, settings.resolve, verdicts)
            found = find_candidates(run, tx, answered, statements, resolution, named, settings)
        write(tx, found)
        moved, roster = write_roster(tx, run, roster, statements)
        if len(found.refusals):
            learn_noise(tx, run.embedder, settings.noise)
        batches = tuple(found.candidates.batches["id"])
        if is_small:
            applied = apply_few(tx, run, settings, batches)
        else:
            patches = batches
    if moved:
        renew_profiles(run, moved)
    if cursor is not None and not settings.extract.force:
        cursor = replace(cursor, tried=cursor.tried - {*found.messages.filter(pl.col("graph_state") != "failed")["id"]})
    counted = _counted(cursor, answered, statements, found, named)
    owner = roster.speaker if any_nameless(batch) else None
    return replace(counted, owner=owner, patches=patches, applied=applied)


async def _answers(
    language: Language, planned: Sequence[PlannedWindow], settings: ExtractSettings
) -> list[ModelAnswer[WindowExtraction]]:
    """The answer to each window; a window in which no person speaks is not put to a model."""
    prompts = [render_extraction(each.window, settings) for each in planned if each.speaking_ids]
    given = iter(await language.ask_many(prompts, WindowExtraction, "extract"))
    return [next(given) if each.speaking_ids else ModelAnswer(WindowExtraction()) for each in planned]


def _of_documents(claims: pl.DataFrame, batch: pl.DataFrame) -> pl.DataFrame:
    """The claims whose relations may be learned: documents have the words of their domain, conversations the list."""
    documents = batch.filter(pl.col("role") == "document")["id"]
    return claims.filter(pl.col("message_id").is_in(documents.implode()))


def _passed(after: Cursor, batch: pl.DataFrame, settled: set[str], settings: ExtractSettings) -> Cursor | None:
    """The cursor behind these messages; None where nothing of the batch is left and the batch was not full."""
    taken = after.taken + len(settled)
    is_last = len(settled) == len(batch) < settings.batch_messages
    if is_last or taken == settings.limit:
        return None
    return Cursor(taken=taken, tried=after.tried | settled)


def _next_batch(snapshot: Snapshot, settings: ExtractSettings, after: Cursor) -> pl.DataFrame:
    """The first messages that wait for extraction and were not tried, in the order they were said."""
    room = settings.batch_messages
    if settings.limit is not None:
        room = min(room, settings.limit - after.taken)
    if room <= 0:
        return snapshot.by_ids("messages", [], with_vector=True)
    order = ["occurred_at", "id"]
    waiting = snapshot.frame("messages", to_extract(snapshot, settings), order, room + len(after.tried), order)
    untried = waiting.filter(~pl.col("id").is_in(list(after.tried))).head(room)
    return snapshot.by_ids("messages", untried["id"], with_vector=True)


def _windows(
    snapshot: Snapshot, batch: pl.DataFrame, settings: IngestSettings, roster: Roster, *, brief: bool
) -> list[PlannedWindow]:
    """The windows of a batch, the owner under the name that is known; `brief` as a model reads them."""
    extract = settings.extract
    new = with_topics(batch, settings.noise) if extract.by_topic else batch
    earlier = with_owner_names(earlier_messages(snapshot, batch, extract), roster.owners)
    planned = plan_windows(with_owner_names(new, roster.owners), earlier, extract)
    return brief_windows(planned, extract) if brief else planned


def earlier_messages(snapshot: Snapshot, batch: pl.DataFrame, settings: ExtractSettings) -> pl.DataFrame:
    """The last handled messages before the batch in each of its conversations."""
    if not settings.context_messages:
        return batch.head(0)
    first = batch.group_by("conversation_id").agg(first=pl.col("ordinal").min())
    where = "has_injection IS NOT TRUE AND graph_state != 'skipped_role'"  # also one whose extraction was forced
    places = snapshot.by_ids(
        "messages", first["conversation_id"], ["id", "conversation_id", "ordinal"], key="conversation_id", where=where
    )
    before = places.join(first, on="conversation_id").filter(pl.col("ordinal") < pl.col("first"))
    last = before.sort("ordinal").group_by("conversation_id").tail(settings.context_messages)
    return snapshot.by_ids("messages", last["id"], WINDOW_COLUMNS)


def _counted(
    cursor: Cursor | None, answered: AnsweredBatch, statements: CollectedClaims, found: BatchRows, named: RelationForms
) -> Extracted:
    windows = list(zip(answered.planned, answered.answers, strict=True))
    beliefs = found.beliefs.counts if found.beliefs is not None else {}
    counts = {
        RunCount.MESSAGES_EXTRACTED: sum(len(w.new_ids) for w, a in windows if a.value is not None),
        RunCount.MESSAGES_FAILED: sum(len(w.new_ids) for w, a in windows if a.value is None and not a.skipped),
        RunCount.MESSAGES_LEFT_FOR_LATER: sum(len(w.new_ids) for w, a in windows if a.value is None and a.skipped),
        RunCount.CANDIDATE_FACTS: len(found.candidates.facts),
        RunCount.CLAIMS_DROPPED: statements.invalid + sum(found.candidates.dropped.values()),
        RunCount.CLAIMS_TOO_UNSURE: beliefs.get("too unsure", 0),
        RunCount.BELIEFS_HELD_BACK: beliefs.get("held", 0),
        RunCount.BELIEFS_PROMOTED: beliefs.get("promoted", 0),
        RunCount.BELIEFS_DROPPED: beliefs.get("evicted", 0),
        RunCount.RELATIONS_LEARNED: len(found.ontology.new),
        RunCount.RELATIONS_UNKNOWN: len(found.candidates.unmapped),
    }
    errors = {*(a.error for _, a in windows if a.error), *named.errors}
    return Extracted(cursor, counts, len(found.refusals), errors=tuple(sorted(errors)))


# Known facts: what an extractor is shown of what memory holds, so that it can say what is over, wrong or repeated.


def known_facts(run: Run, snapshot: Snapshot, planned: Sequence[PlannedWindow]) -> list[Known]:
    """For each window the live facts that its messages may contradict, repeat or bring up to date, likeliest first.

    They are chosen claim by claim: what a long message says in one clause is a small part of its words. With each fact
    come the ids of the entities that it is about.
    """
    claims = pl.DataFrame(
        list(_claims(planned)), schema={"id": pl.String, "scope": pl.String, "statement": pl.String}, orient="row"
    )
    vectors = embedder_of(run).embed(claims["statement"].to_list())
    near = claims.select("scope", pl.Series("vector", list(vectors), dtype=pl.List(pl.Float32)), text="statement")
    found = near_rows(snapshot, "facts", near, POOL_PER_CLAIM, live_sql(run.now), [*COLUMNS, "vector"])
    facts = found.filter(pl.col("vector").is_not_null())
    pool = facts.drop("vector")
    is_passing = pl.col("event_at").is_not_null() | pl.col("predicate").is_in(INTENTIONS)
    weights = np.where(pool.select(is_passing.fill_null(False)).to_series(), np.float32(PASSING), np.float32(1.0))
    matrix = unit_matrix(facts["vector"], snapshot.dims)
    found = find_counterparts(claims, vectors, pool, matrix, KNOWN_FACTS, weights)
    rows = {row["id"]: row for row in pool.iter_rows(named=True)}
    names = _names(snapshot, pool)
    times = dict(snapshot.by_ids("messages", pool["message_id"].drop_nulls(), ["id", "occurred_at"]).iter_rows())
    best = dict(found.group_by("id", maintain_order=True).agg("candidate_id").iter_rows())
    return [
        [_known(n, rows[fact], names, times) for n, fact in enumerate(best.get(str(window), ()))]
        for window in range(len(planned))
    ]


def _claims(planned: Sequence[PlannedWindow]) -> Iterator[tuple[str, str, str]]:
    """(number of the window, scope, claim): what each window says was or is, clause by clause.

    Also the turns that are shown beside: an assistant may be the only one who names what has changed ("your income is
    1,200 now"). Of the states and tastes that updates of a development user replace, the best 36 have .46 with these
    turns and .38 without.
    """
    for number, each in enumerate(planned):
        for turn in each.window.turns:
            yield from ((str(number), each.window.scope, claim) for claim in claims_of(turn.text))


def _names(snapshot: Snapshot, facts: pl.DataFrame) -> dict[str, str]:
    ids = pl.concat([facts["subject_id"], facts["object_id"]]).drop_nulls()
    return dict(snapshot.by_ids("entities", ids, ["id", "name"]).iter_rows())


def _known(
    number: int, row: dict[str, object], names: dict[str, str], times: dict[str, datetime]
) -> tuple[KnownFact, tuple[str, ...]]:
    subject, object_ = str(row["subject_id"] or ""), str(row["object_id"] or "")
    fact = KnownFact(
        number,
        str(row["id"]),
        str(row["statement"]),
        times.get(str(row["message_id"])),
        names.get(subject, ""),
        str(row["predicate"] or ""),
        names.get(object_, str(row["object_text"] or "")),
        is_over=row["polarity"] == "negated",
    )
    return fact, tuple(id_ for id_ in (subject, object_) if id_)

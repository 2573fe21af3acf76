"""Application: open patch batches are evaluated, approved and applied. The only way to an active fact (S3-07)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

import polars as pl

from inference.language import has_reader
from inference.providers import choose
from slowwave.common import frames
from slowwave.common.records import Usage
from slowwave.common.run_counts import RunCount
from slowwave.common.settings import EvaluateSettings, IngestSettings, ReviseSettings, SleepSettings
from slowwave.common.text import row_id
from slowwave.common.validity import ENDS
from slowwave.facts.revision.application import ApplicationPlan, plan_application
from slowwave.facts.revision.candidates import DIRECTIVES
from slowwave.facts.revision.evaluation import EvaluationPlan, evaluate
from slowwave.facts.revision.late_arrivals import REPEATED
from slowwave.facts.searched_texts import CONTEXT_ROLES
from slowwave.lifecycle.pruning_and_eviction import QUOTATIONS, plan_replacement, replacement_decisions
from slowwave.reading.extraction.roster import with_owner_names
from storage.changes import FACT_TABLES
from storage.quotations import OF_A_RUN, OF_QUOTATIONS, UNREAD, Keeping, count_quoted, keeping, run_in
from storage.rows import quoted
from storage.snapshots import Reading
from storage.transactions import Transaction
from tasks.entities.retirement import Purge, delete_entities, delete_facts, mentioned, plan_purge
from tasks.ingest.surroundings import facts_by, near_candidates, with_speakers
from tasks.runtime.engine import task
from tasks.runtime.run_pages import TaskResult
from tasks.runtime.runs import Run, store_of
from tasks.runtime.writing import decide_and_write, settle_patches, touched_by, under_approval

from .candidate_rows import to_extract
from .identities import owners_of

APPLY = "ingest.apply"
"""The kind of commits that make facts hold."""
_TURN = ["id", "conversation_id", "ordinal"]
OPEN = "state IN ('open', 'evaluating', 'approved')"


OUTCOMES = {
    "create": RunCount.FACTS_LEARNED,
    "reassert": RunCount.FACTS_CONFIRMED,
    "supersede": RunCount.FACTS_SUPERSEDED,
    "retract": RunCount.FACTS_RETRACTED,
    "close": RunCount.FACTS_ENDED,
    "refuse": RunCount.CHANGES_REFUSED,
    "dispute": RunCount.CONTRADICTIONS_NOTED,
}


@dataclass(frozen=True, slots=True, eq=False)
class Patches:
    """Batches with their candidates (vectors included), directives and messages, stored already or not."""

    batches: pl.DataFrame
    candidates: pl.DataFrame
    directives: pl.DataFrame
    messages: pl.DataFrame


@dataclass(frozen=True, slots=True, eq=False)
class DecidedPatches:
    """What becomes of the candidates of some batches."""

    patches: Patches
    verdict: EvaluationPlan
    plan: ApplicationPlan


@task("apply patches")
def apply_patches(
    run: Run,
    settings: IngestSettings,
    *,
    look_back: bool = True,
    batch_ids: Sequence[str] | None = None,
) -> TaskResult:
    """Evaluate every open batch and apply what passes; a batch that an earlier run left behind comes first (S3-12).

    Under manual approval what would be applied waits for a person, each group of facts as one proposal (S3-10). Without
    `look_back` only repetitions of the messages that are applied now are counted as evidence; the first call of a run
    looks at all of them.
    Only the open batches of `batch_ids` are looked at, if any are named. No model is asked here.
    """
    run = under_approval(run, "patch", settings.approval, risks=False)
    store = store_of(run)
    snapshot = store.snapshot()
    decided = _decide(snapshot, settings, run, batch_ids)
    if decided is None and (not look_back or _missing_evidence(snapshot).is_empty()):
        return TaskResult()
    with store.commit(run.id, APPLY, run.now) as tx:
        if tx.is_overtaken(snapshot):
            decided = _decide(tx, settings, run, batch_ids)
        if decided is not None:
            _write(tx, decided, waits=run.proposes is not None)
        if look_back or decided is not None:
            _add_missing_evidence(tx, None if look_back or decided is None else decided.plan.evidence["message_id"])
    if decided is None:
        return TaskResult()
    return _counted(decided, decided.plan.decisions if run.proposes is None else _written_decisions(run, decided.plan))


def apply_few(tx: Transaction, run: Run, settings: IngestSettings, batch_ids: Sequence[str]) -> TaskResult:
    """`apply_patches` in the commit that stores the candidates: to decide about few takes no longer than to write."""
    decided = _decide(tx, settings, run, batch_ids)
    if decided is None:
        return TaskResult()
    _write(tx, decided, waits=False)
    _add_missing_evidence(tx, decided.plan.evidence["message_id"])
    return _counted(decided, decided.plan.decisions)


def _decide(
    reading: Reading, settings: IngestSettings, run: Run, batch_ids: Sequence[str] | None = None
) -> DecidedPatches | None:
    """What becomes of the open batches; None when there is none."""
    patches = _open_patches(reading, batch_ids)
    return None if patches.batches.is_empty() else decide(reading, patches, settings, run.now)


def decide(
    reading: Reading, patches: Patches, settings: IngestSettings, now: datetime, alike: pl.DataFrame | None = None
) -> DecidedPatches:
    """What becomes of the candidates: judged alone, then beside as much of the store as may matter to them.

    `alike`: ALIKE of the candidates, where the caller compared them with all there is about the same.
    """
    author = with_owner_names(patches.messages, owners_of(reading, patches.messages))["speaker"].alias("author")
    verdict = evaluate(
        patches.candidates.drop("vector"),
        patches.messages.with_columns(author),
        patches.batches,
        settings.evaluate,
        content_gate=settings.noise.content_gate,
        answered=_answered(reading, patches, settings.evaluate),
    )
    approved = verdict.batches
    if any(state != "approved" for state in approved["state"]):
        approved = approved.filter(pl.col("state") == "approved")
    vectors = patches.candidates.select("id", "scope", "vector")
    if not verdict.rejected.is_empty():
        vectors = vectors.filter(pl.col("id").is_in(verdict.passed["id"].implode()))
    given = verdict.passed, vectors, patches.directives, patches.messages, approved
    plan = plan_over_store(reading, *given, settings.evaluate, _strategy(settings), now, alike)
    return DecidedPatches(patches, verdict, plan)


def _answered(reading: Reading, patches: Patches, settings: EvaluateSettings) -> pl.DataFrame | None:
    """(id, content): of each candidate that is unsure, the turn that its message answers; None without any.

    Only an unsure candidate is refused for the words that its message lacks. A turn that gives orders to its reader
    does not count.
    """
    factor, least = settings.ungrounded_factor, settings.min_confidence
    if not any(sure is not None and sure * factor < least for sure in patches.candidates["confidence"]):
        return None
    is_unsure = pl.col("confidence") * factor < least
    unsure = patches.candidates.filter(is_unsure).select("id", "message_id")
    places = patches.messages.select(_TURN).drop_nulls("ordinal").rename({"id": "message_id"})
    said = places.join(unsure, on="message_id")
    if said.is_empty():
        return None
    where = f"has_injection IS NOT TRUE AND role IN ({', '.join(map(quoted, CONTEXT_ROLES))})"
    turns = reading.by_ids("messages", said["conversation_id"], _TURN, key="conversation_id", where=where)
    before = said.sort("ordinal").join_asof(
        turns.rename({"id": "turn"}).sort("ordinal"),
        on="ordinal", by="conversation_id", strategy="backward", allow_exact_matches=False, check_sortedness=False,
    )  # fmt: skip
    contents = reading.by_ids("messages", before["turn"].drop_nulls(), ["id", "content"]).rename({"id": "turn"})
    return before.join(contents, on="turn").select("id", "content")


def plan_over_store(
    reading: Reading,
    passed: pl.DataFrame,
    vectors: pl.DataFrame,
    directives: pl.DataFrame,
    messages: pl.DataFrame,
    batches: pl.DataFrame,
    settings: EvaluateSettings,
    revise: ReviseSettings,
    now: datetime,
    alike: pl.DataFrame | None = None,
) -> ApplicationPlan:
    """`plan_application` of the `passed` candidates, with as much of the store as may matter to them.

    `vectors`: (id, scope, vector) of the candidates. `alike`: as for `decide`.
    """
    given = passed, vectors, directives, messages, settings, revise, now
    near = near_candidates(reading, *given, alike)
    messages = with_speakers(reading, passed, messages, near)
    return plan_application(passed, directives, messages, batches, near, settings, now, revise=revise)


def _open_patches(reading: Reading, batch_ids: Sequence[str] | None) -> Patches:
    if batch_ids is None:
        batches = reading.frame("patch_batches", OPEN)
    else:
        batches = reading.by_ids("patch_batches", batch_ids, where=OPEN)
    candidates = reading.by_ids(
        "facts", batches["id"], key="patch_batch_id", where="status = 'candidate'", with_vector=True
    )
    return Patches(
        batches,
        candidates,
        reading.by_ids("fact_directives", candidates["id"], list(DIRECTIVES), key="candidate_id"),
        reading.by_ids("messages", candidates["message_id"]),
    )


def _strategy(settings: IngestSettings) -> ReviseSettings:
    """How conflicts are settled: by recency where a model is to say which fact holds, but none is asked (S2-59)."""
    llm, merging = settings.llm, settings.consolidate
    if settings.revise.strategy != "llm":
        return settings.revise
    has_judge = merging.enabled and merging.ask_model and choose(llm.model).provider != "quotes"
    return settings.revise if has_judge else settings.revise.model_copy(update={"strategy": "recency"})


# Writing: facts, evidence and decisions.


def _write(tx: Transaction, decided: DecidedPatches, *, waits: bool) -> None:
    write_facts(tx, decided_facts(tx, decided))
    write_beside_facts(tx, decided)
    applied = decided.plan.batches.with_columns(state=pl.lit("needs_review" if waits else "applied"))
    rest = decided.verdict.batches.join(applied, on="id", how="anti")
    tx.upsert("patch_batches", pl.concat([applied, rest], how="diagonal_relaxed"))


def decided_facts(reading: Reading, decided: DecidedPatches) -> pl.DataFrame:
    """Full rows, with vectors, of the candidates and of the facts that change with them."""
    plan = decided.plan
    rejected = decided.verdict.rejected
    known = [name for name in plan.facts.columns if name in rejected.columns]  # what is not stored yet has no stamps
    facts = plan.facts
    if len(rejected):
        both = pl.concat([facts, rejected.select(known)], how="diagonal_relaxed")
        facts = both.unique("id", keep="first", maintain_order=True)
    return _with_vectors(reading, facts, decided.patches, dict(plan.again))


def write_beside_facts(tx: Transaction, decided: DecidedPatches, new: pl.Series | None = None) -> None:
    """Write what belongs to the facts of a decision; `new` are ids of facts that are in no table yet."""
    verdict, plan = decided.verdict, decided.plan
    is_all_new = new is not None and {*plan.facts["id"]} <= {*new}
    write = tx.insert if is_all_new else tx.upsert  # what belongs to new facts alone is new, too
    write("fact_evidence", plan.evidence)
    write("fact_aspects", plan.aspects)
    write("refusals", verdict.refusals)
    write("decisions", plan.decisions)
    tx.upsert("lineage", plan.lineage)
    tx.upsert("pair_decisions", plan.pairs)


def _with_vectors(reading: Reading, facts: pl.DataFrame, patches: Patches, again: Mapping[str, str]) -> pl.DataFrame:
    """Full rows need their vectors: those of candidates are at hand, those of changed facts are read again.

    What holds `again` (new id, known id) has the vector of the known fact.
    """
    sources = [again.get(id_, id_) for id_ in facts["id"]]
    mine = patches.candidates.select("id", "vector")
    if sources == mine["id"].to_list():
        vectors = mine["vector"]
    else:
        others = [*{*sources} - {*mine["id"]}]
        stored = [reading.by_ids(name, others, ["id", "vector"]) for name in FACT_TABLES] if others else []
        known = pl.concat([mine, *stored]).unique("id", keep="first")
        vectors = pl.DataFrame({"id": sources}).join(known, on="id", how="left", maintain_order="left")["vector"]
    return pl.DataFrame([*(each for each in facts.get_columns() if each.name != "vector"), vectors])


def write_supersessions(tx: Transaction, facts: pl.DataFrame, lineage: pl.DataFrame, decisions: pl.DataFrame) -> None:
    """Write facts that ended, and others that changed with them; full rows without vectors."""
    stored = pl.concat([tx.by_ids(name, facts["id"], ["id", "vector"]) for name in FACT_TABLES])
    write_facts(tx, facts.drop("vector", strict=False).join(stored, on="id", how="left", maintain_order="left"))
    tx.upsert("lineage", lineage)
    tx.upsert("decisions", decisions)


def write_facts(tx: Transaction, facts: pl.DataFrame, new: pl.Series | None = None) -> None:
    """Write full rows of facts to the table that they are in: what is in the archive stays there.

    `new` are ids of facts that are in no table yet.
    """
    fresh = set() if new is None else {*new}
    places = [place for place, id_ in enumerate(facts["id"]) if id_ not in fresh]
    if places:
        known = facts[places]
        moved = {*tx.by_ids("facts_archive", known["id"], ["id"])["id"]}
        is_moved = pl.Series([id_ in moved for id_ in known["id"]], dtype=pl.Boolean)
        tx.upsert("facts", known.filter(~is_moved))
        tx.upsert("facts_archive", known.filter(is_moved))
        facts = facts[[place for place, id_ in enumerate(facts["id"]) if id_ in fresh]]
    tx.insert("facts", facts)


def _counted(decided: DecidedPatches, decisions: pl.DataFrame) -> TaskResult:
    counts: dict[str, int] = {
        OUTCOMES[action]: number for action, number in decisions.group_by("action").len().iter_rows()
    }
    return TaskResult(counts, refused=dict(decided.verdict.refusals.group_by("gate").len().iter_rows()))


def _written_decisions(run: Run, plan: ApplicationPlan) -> pl.DataFrame:
    """Those of a plan that waits for a person; patches with nothing left to decide are closed."""
    with store_of(replace(run, proposes=None)).commit(run.id, "ingest.settle", run.now) as tx:
        settle_patches(tx, plan.facts["id"])
        return tx.by_ids("decisions", plan.decisions["id"], ["action"])


# Repetitions: a message that was refused as one supports what its original said (C13).


def _missing_evidence(reading: Reading, originals: pl.Series | None = None) -> pl.DataFrame:
    """Evidence that is still missing: a message refused as a repetition supports what its original said (C13).

    Only for repetitions of the messages `originals`, or for all there are; without what a person is asked about, or
    said no to.
    """
    pair, gate = ["subject_id", "similar_to_id"], "gate = 'repeat'"
    repeats = (
        reading.frame("refusals", gate, pair)
        if originals is None
        else reading.by_ids("refusals", originals, pair, key="similar_to_id", where=gate)
    )
    columns = ["fact_id", "message_id", "confidence"]
    sources = pl.concat([repeats["similar_to_id"], repeats["subject_id"]])
    known = reading.by_ids("fact_evidence", sources, columns, key="message_id")
    both = repeats.join(known, left_on="similar_to_id", right_on="message_id").join(
        known, left_on=["subject_id", "fact_id"], right_on=["message_id", "fact_id"], how="anti"
    )
    ids = [row_id("v", *pair) for pair in frames.rows_of(both, "fact_id", "subject_id")]
    proposed = set[str]().union(*touched_by(reading, "patch")) if ids else set[str]()
    rows = both.with_columns(pl.Series("evidence_id", ids, dtype=pl.String))
    rows = rows.filter(~pl.col("evidence_id").is_in(list(proposed)))
    messages = reading.by_ids("messages", rows["subject_id"], ["id", "content", "occurred_at"])
    return (
        rows.join(messages, left_on="subject_id", right_on="id")
        .select(
            pl.col("evidence_id").alias("id"),
            "fact_id",
            "confidence",
            "occurred_at",
            message_id="subject_id",
            quote=pl.col("content").str.slice(0, 500),
        )
        .unique("id", keep="first", maintain_order=True)
    )


def _add_missing_evidence(tx: Transaction, originals: pl.Series | None) -> None:
    """Repetitions count as evidence, whichever run refused them: none is silently lost."""
    repeats = _missing_evidence(tx, originals)
    more = repeats.group_by(id="fact_id").agg(more=pl.len().cast(pl.Int64))
    facts = facts_by(tx, more["id"], with_vector=True).join(more, on="id")
    tx.upsert("fact_evidence", repeats)
    write_facts(tx, facts.with_columns(pl.col("evidence_count").fill_null(1) + pl.col("more")).drop("more"))


# Rereading: once a model has read messages that were kept as quotations, what it read replaces these.


LIMITS = ("max_calls", "max_tokens", "max_usd", "max_calls_per_day", "max_tokens_per_day", "max_usd_per_day")
_WAITS = "status = 'candidate'"
_REPEATS = f"status = 'rejected' AND status_reason LIKE '{REPEATED}%'"
_MAY_GO = "pinned IS NOT TRUE AND coalesce(status, 'active') IN ('active', 'archived')"


@dataclass(frozen=True, slots=True, eq=False)
class _Replacement:
    """The quotations that go, the entities that they are about, and the decisions about them."""

    kept: Keeping
    purge: Purge
    entities: pl.Series
    decisions: pl.DataFrame

    def __len__(self) -> int:
        return len(self.purge.ids)


def quoted_left(run: Run) -> int:
    """How many messages are kept as quotations now."""
    return count_quoted(store_of(run).snapshot())


def reading_of_night(run: Run, settings: SleepSettings) -> IngestSettings | None:
    """How a night reads what waits; None where nobody can read, nothing limits the cost, or nothing waits."""
    chosen = settings.after(Usage()).ingest
    is_limited = any(getattr(chosen.llm, name) is not None for name in LIMITS)
    if not (chosen.extract.enabled and is_limited and has_reader(chosen.llm)):
        return None
    extract = chosen.extract.model_copy(update={"reread": True})
    snapshot = store_of(run).snapshot()
    waits = snapshot.count("messages", to_extract(snapshot, extract))
    return chosen.model_copy(update={"extract": extract}) if waits else None


def has_quotations(run: Run) -> bool:
    """Whether anything is kept as it was said; a run that reads with a model adds nothing to that."""
    return bool(store_of(run).snapshot().count("patch_batches", OF_QUOTATIONS))


@task("replace quotations")
def replace_quotations(run: Run, model: str) -> int:
    """Delete the quotations of messages that a model has read by now, in one commit; returns how many.

    What they alone made known goes with them: entities, names, and places in conversations.
    """
    return len(
        decide_and_write(run, "ingest.reread", partial(_decide_replacement, run=run, model=model), _write_replacement)
    )


def _decide_replacement(reading: Reading, run: Run, model: str) -> _Replacement:
    kept = keeping(reading)
    rows = [reading.by_ids(name, kept.patches, [*QUOTATIONS, *ENDS], key="patch_batch_id") for name in FACT_TABLES]
    quotations = pl.concat(rows).unique("id")
    ids = quotations["id"]
    evidence = reading.by_ids_or_all("fact_evidence", ids, ["fact_id", "message_id"], key="fact_id")
    own = evidence.filter(pl.col("fact_id").is_in(ids.implode()))
    gone = plan_replacement(quotations, own, _waiting(reading), _held(reading, kept, ids)) if len(ids) else None
    if gone is None or gone.is_empty():
        return _Replacement(kept, Purge(ids.clear(), {}, pl.DataFrame()), ids.clear(), pl.DataFrame())
    purge = plan_purge(reading, gone["id"])
    gone = gone.filter(pl.col("id").is_in(purge.ids.implode()))
    about = quotations.filter(pl.col("id").is_in(gone["id"].implode()))
    entities = pl.concat([about[end].rename("id") for end in ENDS]).drop_nulls().unique()
    messages = gone["message_ids"].explode().unique()
    says = reading.by_ids("fact_evidence", messages, ["fact_id", "message_id"], key="message_id")
    says = says.filter(~pl.col("fact_id").is_in(ids.implode()))
    read = dict(says.group_by("message_id").agg("fact_id").iter_rows())
    return _Replacement(kept, purge, entities, replacement_decisions(gone, read, model, run.now))


def _waiting(reading: Reading) -> pl.Series:
    """Messages that wait for a reader, or with a fact that waits for a decision."""
    unread = reading.frame("messages", UNREAD, ["id"])["id"]
    return pl.concat([unread, reading.frame("facts", _WAITS, ["message_id"])["message_id"].rename("id")]).drop_nulls()


def _held(reading: Reading, kept: Keeping, quotations: pl.Series) -> pl.Series:
    """Quotations that a person decided about, or of which something that was read became a part."""
    persons = reading.frame("decisions", "decided_by = 'person'", ["subject_id", "ids_in", "ids_out"])
    named = [persons["subject_id"], persons["ids_in"].explode(), persons["ids_out"].explode()]
    repeats = pl.concat([reading.frame(name, _REPEATS, ["similar_to_id", "patch_batch_id"]) for name in FACT_TABLES])
    repeats = repeats.filter(~pl.col("patch_batch_id").is_in(kept.patches.implode()).fill_null(False))
    steps = reading.by_ids_or_all("lineage", quotations, ["old_id", "new_id"], key="new_id")
    steps = steps.filter(~pl.col("old_id").is_in(quotations.implode()))
    return pl.concat([each.rename("id") for each in (*named, repeats["similar_to_id"], steps["new_id"])]).drop_nulls()


def _write_replacement(tx: Transaction, plan: _Replacement) -> None:
    delete_facts(tx, plan.purge, plan.purge.ids)
    tx.upsert("decisions", plan.decisions)
    by_them = run_in(plan.kept.over)
    theirs = tx.frame("entities", by_them, ["id"])["id"]
    about = pl.concat([plan.entities, theirs]).unique()
    unnamed = about.filter(~about.is_in(mentioned(tx).implode()))
    delete_entities(tx, tx.by_ids("entities", unnamed, ["id"], where=_MAY_GO)["id"])
    for name in OF_A_RUN:  # of entities that others know by now
        rows = tx.frame(name, by_them, ["id", "entity_id"])
        tx.delete(name, rows.filter(~pl.col("entity_id").is_in(theirs.implode()))["id"])
    full = [tx.by_ids(name, plan.kept.patches, ["patch_batch_id"], key="patch_batch_id") for name in FACT_TABLES]
    is_empty = ~plan.kept.patches.is_in(pl.concat(full)["patch_batch_id"].implode())
    tx.delete("patch_batches", plan.kept.patches.filter(is_empty))

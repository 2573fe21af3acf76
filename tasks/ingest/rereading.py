"""Rereading: once a model has read messages that were kept as quotations, what it read replaces these."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import polars as pl

from inference.language import has_reader
from slowwave.common.entrenchment import ENDS
from slowwave.common.records import Usage
from slowwave.common.settings import IngestSettings, SleepSettings
from slowwave.facts.revision.late_arrivals import REPEATED
from slowwave.lifecycle.pruning_and_eviction import QUOTATIONS, plan_replacement, replacement_decisions
from storage.changes import FACT_TABLES
from storage.quotations import OF_A_RUN, UNREAD, Keeping, count_quoted, keeping, run_in
from storage.snapshots import Reading
from storage.transactions import Transaction
from tasks.entities.retirement import Purge, delete_entities, delete_facts, mentioned, plan_purge
from tasks.runtime.engine import task
from tasks.runtime.runs import Run, store_of
from tasks.runtime.writing import decide_and_write

from .candidate_rows import to_extract

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


@task("replace quotations")
def replace_quotations(run: Run, model: str) -> int:
    """Delete the quotations of messages that a model has read by now, in one commit; returns how many.

    What they alone made known goes with them: entities, names, and places in conversations.
    """
    return len(decide_and_write(run, "ingest.reread", partial(_decide, run=run, model=model), _write))


def _decide(reading: Reading, run: Run, model: str) -> _Replacement:
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


def _write(tx: Transaction, plan: _Replacement) -> None:
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

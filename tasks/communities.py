"""Communities: what belongs together is found anew, and what changed is summarised (S2-45 … S2-50).

Groups are found and models are asked outside the lease. Inside it the plan is made again if another run wrote
meanwhile: a summary belongs to a fingerprint, so that of a community that is no more as it was is not written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import polars as pl

from inference.language import Language
from recall.graphs import graph_of
from slowwave.graph.communities import Grouping, group_entities
from slowwave.graph.community_members import JoinPlan, plan_joining
from slowwave.graph.community_plan import CommunityPlan, needs_summary, plan_communities
from slowwave.graph.community_summaries import Summary, strongest_facts, summary_by_rule
from slowwave.graph.partition import find_groups
from slowwave.settings import CommunitySettings
from storage.snapshots import Reading, Snapshot
from storage.transactions import Transaction

from .community_questions import Asked, ask_model, packs_of
from .community_trigger import extractions as extractions
from .community_trigger import note_due as note_due
from .engine import report_progress, task
from .runs import Run, store_of
from .tellings import LISTED, TOLD, Telling

MANY = 5000  # from so many rows on reading a whole narrow table beats naming each
_MADE_OF = ("facts", "fact_usage", "entities", "fact_aspects", "communities", "entity_communities")
_FACT = ["id", "statement", "evidence_count"]
_HELD = ["id", "name", "summary", "summarised_by", "prompt_version", "fingerprint", "entity_ids", "facts", "aspects",
         "created_at"]  # fmt: skip

Summaries = Mapping[str, Summary]


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What became of the communities; `left` have no summary for want of budget, `failed` because nobody could tell.

    `would_ask` is how many prompts a dry run would put.
    """

    counts: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    left: int = 0
    failed: int = 0
    would_ask: int = 0
    is_written: bool = False
    told: tuple[Telling, ...] = ()
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class _View:
    """The communities as one state of the store has them: found now, and held."""

    grouping: Grouping
    held: pl.DataFrame
    memberships: pl.DataFrame


@task("refresh communities")
async def refresh_communities(
    run: Run, settings: CommunitySettings, language: Language, *, dry_run: bool = False
) -> Refreshed:
    """Find the communities of what is live now and summarise those that changed; one commit, or none.

    A dry run asks nobody and writes nothing. Without a model the strongest facts are the summary.
    """
    store, has_model = store_of(run), not language.is_keyless("summarize")
    snapshot = store.snapshot()
    view = _view(snapshot, run, settings)
    due = needs_summary(view.grouping, view.held, has_model=has_model)
    due = due if settings.max_prompt_bytes else due.clear()
    await report_progress("communities to summarise", len(due))
    asked = await _summaries(snapshot, view, due, settings, language, dry_run=dry_run)
    plan = _plan(snapshot, run, view, asked.summaries)
    if not dry_run and not plan.is_empty:
        with store.commit(run.id, "communities.refresh", run.now) as tx:
            if is_overtaken(tx, snapshot):
                plan = _plan(tx, run, _view(tx, run, settings), asked.summaries)
            _write(tx, plan)
    return _counted(plan, asked, len(packs_of(asked, settings)) if dry_run and has_model else 0, dry_run=dry_run)


@task("assign new entities")
def assign_new(run: Run) -> int:
    """Let entities without a community join that of most of their relations; one commit, or none; returns how many."""
    store = store_of(run)
    snapshot = store.snapshot()
    if not snapshot.count("communities"):
        return 0
    plan = _joining(snapshot, run)
    if plan.members.is_empty():
        return 0
    with store.commit(run.id, "communities.assign", run.now) as tx:
        if is_overtaken(tx, snapshot):
            plan = _joining(tx, run)
        tx.upsert("entity_communities", plan.members)
        tx.upsert("communities", plan.communities)
        tx.upsert("decisions", plan.decisions)
    return len(plan.members)


def is_overtaken(later: Transaction | Snapshot, snapshot: Snapshot) -> bool:
    """Whether anything that communities are made of changed since the snapshot."""
    return any(later.versions[name] != snapshot.versions[name] for name in _MADE_OF)


def part_with(tx: Transaction, entity: str) -> None:
    """Take an entity that is no more out of its community, whose summary is then to be made again (T31)."""
    own = tx.by_ids("entity_communities", [entity])
    held = tx.by_ids("communities", own["community_id"])
    left = pl.col("entity_ids").list.eval(pl.element().filter(pl.element() != entity))
    tx.delete("entity_communities", own["id"])
    tx.upsert("communities", held.with_columns(entity_ids=left, fingerprint=pl.lit(None, dtype=pl.String)))


def _view(reading: Reading, run: Run, settings: CommunitySettings) -> _View:
    graph = graph_of(reading, run.now)
    held = reading.frame("communities", columns=_HELD).sort("id")
    memberships = reading.frame("entity_communities", columns=["id", "community_id"])
    return _View(group_entities(graph, find_groups(graph, settings), held), held, memberships)


async def _summaries(
    reading: Reading, view: _View, due: pl.DataFrame, settings: CommunitySettings, language: Language, *, dry_run: bool
) -> Asked:
    """What is told of the communities that are due, by fingerprint; a dry run with a model tells nothing."""
    ids = view.grouping.relations.join(due, left_on="community_id", right_on="id", how="semi")["fact_id"]
    facts = strongest_facts(view.grouping, _chosen(reading, "facts", ids, _FACT), settings.facts_per_summary)
    if language.is_keyless("summarize"):
        by_id = dict(facts.group_by("community_id", maintain_order=True).agg("statement").iter_rows())
        told = (
            (mark, summary_by_rule(by_id.get(id_, ()))) for id_, mark in due.select("id", "fingerprint").iter_rows()
        )
        return Asked({mark: Summary(text, "rule") for mark, text in told if text})
    names = _chosen(reading, "entities", due["entity_ids"].explode().drop_nulls(), ["id", "name"])
    asked = Asked(due=due, names=names, facts=facts)
    return asked if dry_run else await ask_model(asked, settings, language)


def _plan(reading: Reading, run: Run, view: _View, summaries: Summaries) -> CommunityPlan:
    names = _chosen(reading, "entities", view.grouping.groups["entity_ids"].list.head(3).explode(), ["id", "name"])
    aspects = _chosen(reading, "fact_aspects", view.grouping.relations["fact_id"], ["fact_id", "slug"], key="fact_id")
    return plan_communities(view.grouping, view.held, view.memberships, names, aspects, summaries, run.now)


def _chosen(reading: Reading, name: str, ids: pl.Series, columns: list[str], key: str = "id") -> pl.DataFrame:
    """Rows whose key is among the ids; perhaps others too, where there are many."""
    distinct = ids.drop_nulls().unique()
    return (
        reading.frame(name, columns=columns)
        if len(distinct) > MANY
        else reading.by_ids(name, distinct, columns, key=key)
    )


def _write(tx: Transaction, plan: CommunityPlan) -> None:
    known = tx.by_ids("communities", plan.communities["id"], ["id", "created_at"])
    tx.upsert("communities", plan.communities.join(known, on="id", how="left", maintain_order="left"))
    tx.upsert("entity_communities", plan.members)
    tx.delete("communities", plan.dropped)
    tx.delete("entity_communities", plan.left)
    tx.upsert("decisions", plan.decisions)


def _joining(reading: Reading, run: Run) -> JoinPlan:
    held = reading.frame("communities")
    memberships = reading.frame("entity_communities", columns=["id", "community_id"])
    return plan_joining(graph_of(reading, run.now), held, memberships, run.now)


def _counted(plan: CommunityPlan, asked: Asked, would_ask: int, *, dry_run: bool) -> Refreshed:
    most = LISTED if dry_run else TOLD
    size = pl.col("measures").str.json_path_match("$.members").cast(pl.Int64)
    rows = plan.decisions.sort(size, "id", descending=[True, False]).select("action", "subject_id", "reason").head(most)
    said = dict(plan.communities.select("id", "summary").iter_rows())
    told = tuple(Telling(action, said.get(id_) or id_, reason) for action, id_, reason in rows.iter_rows())
    return Refreshed(
        plan.summary(), asked.left, asked.failed, would_ask, not (dry_run or plan.is_empty), told, asked.errors
    )

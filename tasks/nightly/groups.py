"""What belongs together: communities are found and summarised (S2-45 … S2-50), and aspects are scored (S3-19).

For the flow `communities` groups are found and models are asked outside the lease. If another run writes in between,
the plan is made again under the lease. A summary belongs to a fingerprint: where a community has changed in between,
its summary is not written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import polars as pl

from inference.language import Language
from prompts.rendering import pack_communities, prompt_version, render_communities
from prompts.responses import CommunitySummaries
from recall.graphs import graph_of
from recall.groups import scored
from slowwave.common.run_counts import RunCount
from slowwave.common.settings import CommunitySettings
from slowwave.facts.aspects import COUNTED, changed_scores
from slowwave.graph.community_detection import Grouping, find_groups, group_entities, is_due
from slowwave.graph.community_plan import (
    CommunityPlan,
    SignedSummary,
    needs_summary,
    plan_communities,
    questions_about,
    strongest_facts,
    summary_by_rule,
    summary_sources,
)
from storage.rows import quoted
from storage.snapshots import Reading
from storage.transactions import Transaction
from tasks.ingest.sessions import ANSWER_TOKENS, SummaryAnswers, ask_for_summaries
from tasks.ingest.statements import CONVERSATION
from tasks.runtime.engine import Event, announce, report_progress, task
from tasks.runtime.retrying import ASKS_MODEL, LONGEST_WAIT_FOR_A_MODEL_S, WHOLE_MEMORY
from tasks.runtime.run_pages import LISTED, SHOWN, DecisionSummary, TaskResult
from tasks.runtime.runs import Run, Writing, store_of

PROMPT = "summarize_communities"
FACTS_PER_SUMMARY = 20  # the strongest relations within (S2-48)
_MADE_OF = ("facts", "fact_usage", "entities", "fact_aspects", "communities")
_FACT = ["id", "statement", "evidence_count"]
_STORED = ["id", "name", "summary", "summarised_by", "prompt_version", "told_fact_ids", "fingerprint", "entity_ids",
         "joined_ids", "facts", "aspects", "created_at"]  # fmt: skip
Summaries = Mapping[str, SignedSummary]
Sources = Mapping[str, Sequence[str]]


@task("refresh communities", longest_s=LONGEST_WAIT_FOR_A_MODEL_S, tags=(ASKS_MODEL, WHOLE_MEMORY))
async def refresh_communities(
    run: Run, settings: CommunitySettings, language: Language, *, dry_run: bool = False
) -> TaskResult:
    """Find the communities of what is live now and summarise those that changed; one commit, or none.

    A dry run asks nobody and writes nothing. Without a model the strongest facts are the summary.
    """
    store, has_model = store_of(run), not language.is_keyless("summarize")
    snapshot = store.snapshot()
    grouping, stored = _state(snapshot, run)
    due = needs_summary(grouping, stored, has_model=has_model)
    due = due if settings.max_prompt_bytes else due.clear()
    await report_progress("communities to summarise", len(due))
    inside = grouping.relations.join(due, left_on="community_id", right_on="id", how="semi")["fact_id"]
    facts = snapshot.by_ids_or_all("facts", inside, _FACT)
    strongest = strongest_facts(grouping, facts, FACTS_PER_SUMMARY)
    sources = summary_sources(grouping, strongest)
    answers = await _summaries(snapshot, due, strongest, settings, language, dry_run=dry_run)
    plan = _plan(snapshot, run, grouping, stored, answers.summaries, sources)
    if not dry_run and not plan.is_empty:
        with store.commit(run.id, "communities.refresh", run.now) as tx:
            if tx.is_overtaken(snapshot, *_MADE_OF):
                plan = _plan(tx, run, *_state(tx, run), answers.summaries, sources)
            known = tx.by_ids("communities", plan.communities["id"], ["id", "created_at"])
            tx.upsert("communities", plan.communities.join(known, on="id", how="left", maintain_order="left"))
            tx.delete("communities", plan.dropped)
            tx.upsert("decisions", plan.decisions)
    return _counted(plan, answers, dry_run=dry_run)


def _state(reading: Reading, run: Run) -> tuple[Grouping, pl.DataFrame]:
    """The communities as one state of the store has them: found now, and held."""
    graph = graph_of(reading, run.now)
    stored = reading.frame("communities", columns=_STORED).sort("id")
    return group_entities(graph, find_groups(graph), stored), stored


def _plan(
    reading: Reading, run: Run, grouping: Grouping, stored: pl.DataFrame, summaries: Summaries, sources: Sources
) -> CommunityPlan:
    named = grouping.groups["entity_ids"].list.head(3).explode()
    names = reading.by_ids_or_all("entities", named, ["id", "name"])
    aspects = reading.by_ids_or_all("fact_aspects", grouping.relations["fact_id"], ["fact_id", "slug"], key="fact_id")
    return plan_communities(grouping, stored, names, aspects, summaries, sources, run.now)


def _counted(plan: CommunityPlan, answers: SummaryAnswers, *, dry_run: bool) -> TaskResult:
    """The result of a run. Decisions name communities; the summary of a community is only in its own row."""
    most = LISTED if dry_run else SHOWN
    size = pl.col("measures").str.json_path_match("$.members").cast(pl.Int64)
    rows = plan.decisions.sort(size, "id", descending=[True, False]).select("action", "subject_id", "reason").head(most)
    called = dict(plan.communities.select("id", "name").iter_rows())
    decisions = tuple(
        DecisionSummary(action, called.get(id_) or id_, reason) for action, id_, reason in rows.iter_rows()
    )
    counts = {
        **plan.summary(),
        RunCount.COMMUNITIES_NOT_SUMMARISED: answers.failed,
        RunCount.COMMUNITIES_LEFT_FOR_LATER: answers.left,
        RunCount.QUESTIONS_FOR_A_MODEL: answers.would_ask,
    }
    return TaskResult(counts, decisions, answers.errors)


# Questions about communities: what is due, what a model is shown of it, and what it answered (S2-48).


async def _summaries(
    reading: Reading,
    due: pl.DataFrame,
    facts: pl.DataFrame,
    settings: CommunitySettings,
    language: Language,
    *,
    dry_run: bool,
) -> SummaryAnswers:
    """The summaries of the communities that are due; none in a dry run with a model.

    `facts` (community_id, statement) are the source of the summaries. A prompt holds as many questions as it and its
    answer have room for.
    """
    if language.is_keyless("summarize"):
        by_id = dict(facts.group_by("community_id", maintain_order=True).agg("statement").iter_rows())
        texts = (
            (mark, summary_by_rule(by_id.get(id_, ()))) for id_, mark in due.select("id", "fingerprint").iter_rows()
        )
        return SummaryAnswers({mark: SignedSummary(text, "rule") for mark, text in texts if text})
    if due.is_empty():
        return SummaryAnswers()
    names = reading.by_ids_or_all("entities", due["entity_ids"].explode().drop_nulls(), ["id", "name"])
    most = max(1, settings.llm.max_output_tokens // ANSWER_TOKENS)
    packs = list(pack_communities(questions_about(due, names, facts), settings.max_prompt_bytes, most))
    if dry_run:
        return SummaryAnswers(would_ask=len(packs))
    return await ask_for_summaries(
        language, due["fingerprint"].to_list(), packs, render_communities, CommunitySummaries, prompt_version(PROMPT)
    )


# When communities are due: each time so many more messages were extracted (S2-24, S2-45).

EXTRACTION_COUNT = "extraction_count"  # as it was when communities were last said to be due
_EXTRACTED = "graph_state IN ('done', 'skipped_durability')"
_NOT_READ = f"{_EXTRACTED} AND conversation_id = {quoted(CONVERSATION)}"  # observations, which nothing extracts


@task("note whether communities are due")
def note_due(run: Run, interval: int) -> bool:
    """Say that communities are due where extractions went past a multiple of the interval since that was said (T17).

    Under Prefect as an event, upon which the deployment `communities` runs. How many there were is written down after
    it: a run that dies in between says it again, and one that died before leaves it to the next.
    """
    store = store_of(run)
    snapshot = store.snapshot()
    marks = snapshot.by_ids("metadata", [EXTRACTION_COUNT], ["number"])["number"].to_list()
    before, after = int(marks[0]) if marks else 0, extractions(snapshot)
    if not is_due(before, after, interval):
        return False
    announce(Event.REFRESH_DUE, run, before=before, after=after, interval=interval)
    with store.commit(run.id, "communities.due", run.now) as tx:
        tx.upsert("metadata", pl.DataFrame({"id": [EXTRACTION_COUNT], "number": [float(after)]}))
    return True


def extractions(reading: Reading) -> int:
    """How often a message reached the extractor, attempts that failed among them (S2-24).

    The messages themselves tell, so it is right after a kill, an undo and an undone undo.
    """
    failed = reading.frame("messages", "attempts > 0", ["attempts"])["attempts"].sum()
    read = reading.count("messages", _EXTRACTED) - reading.count("messages", _NOT_READ)  # each by indexes alone
    return read + int(failed or 0)


# Aspects: how well each aspect of a life is known, written down after a run that learned or forgot (S3-19).

LARGE = 200_000  # facts above which only the nightly steward counts: it takes some seconds for each million
MANY = 5_000  # facts above which a run that wrote little leaves it to the next one that wrote more


@task("refresh aspects")
def refreshed_aspects(run: Run, *, is_nightly: bool = False, after_little: bool = False) -> Writing | None:
    """Score all fourteen aspects by what is live now; what writes the scores in the commit that ends the run.

    None where no score differs from the stored one; else all of them are written, so that they speak of one time.
    """
    snapshot = store_of(run).snapshot()
    if not is_nightly and snapshot.count("facts") > (MANY if after_little else LARGE):
        return None
    scores = scored(snapshot, run.now)
    if changed_scores(scores, snapshot.frame("aspect_scores", columns=["id", *COUNTED])).is_empty():
        return None
    return Writing("aspects", partial(_write_aspects, run=run, scores=scores, counted_at=snapshot.sequence))


def _write_aspects(tx: Transaction, run: Run, scores: pl.DataFrame, counted_at: int) -> None:
    """Store the scores of the commit `counted_at`; counted again where another run wrote something since."""
    fresh = scores if tx.sequence == counted_at + 1 else scored(tx, run.now)
    tx.upsert("aspect_scores", fresh.rename({"slug": "id"}).with_columns(scored_at=pl.lit(run.now)))

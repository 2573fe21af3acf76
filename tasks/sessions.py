"""Sessions: conversations that have grown get a summary (S4-23).

What is due is found and a model is asked outside the lease. Inside it a summary is written only where the conversation
is as it was when it was read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import polars as pl

from inference.language import Language
from prompts.packing import pack_sessions
from prompts.rendering import prompt_version, render_sessions
from prompts.responses import SessionSummaries
from slowwave.graph.community_summaries import Summary
from slowwave.intake.sessions import (
    TALKS,
    TOLD,
    TURNS_SHOWN,
    count_pairs,
    decisions_about,
    may_be_due,
    plan_due,
    questions_of,
    summaries_by_rule,
    with_summaries,
)
from slowwave.settings import IngestSettings, SessionSettings
from slowwave.validity import live_sql
from storage.rows import quoted
from storage.snapshots import Reading, Snapshot

from .candidates import spoken
from .engine import report_progress, task
from .limits import ASKS_MODEL
from .retrying import LONGEST_WAIT_FOR_A_MODEL_S
from .runs import Run, store_of
from .summary_questions import ANSWER_TOKENS, Asking

PROMPT = "summarize_sessions"
_ASKING = Asking(render_sessions, SessionSummaries, "The model said nothing about a conversation.")
_PLACE = ["id", "conversation_id", "ordinal", "role", "speaker"]
_SAID = [*_PLACE, "content", "occurred_at"]
_FACT = ["id", "episode_id", "statement", "evidence_count", "confidence"]


@dataclass(frozen=True, slots=True)
class Summarised:
    """What became of the conversations that were due: `summaries` by episode, of which so many were `written`.

    `left` were not asked about for want of budget, `failed` without an answer that can be used.
    """

    summaries: Mapping[str, Summary] = field(default_factory=lambda: MappingProxyType({}))
    written: int = 0
    left: int = 0
    failed: int = 0
    errors: tuple[str, ...] = ()


@task("summarise conversations", longest_s=LONGEST_WAIT_FOR_A_MODEL_S, tags=[ASKS_MODEL])
async def summarise_sessions(run: Run, settings: IngestSettings, language: Language) -> Summarised:
    """Summarise the conversations that are due; one commit, or none. Without a model their facts are the summary."""
    store, has_model = store_of(run), not language.is_keyless("summarize")
    snapshot = store.snapshot()
    said, due = _due(snapshot, settings.sessions, has_model=has_model)
    if due.is_empty():
        return Summarised()
    await report_progress("conversations to summarise", len(due))
    told = await _by_model(snapshot, said, due, settings, language) if has_model else _by_rule(snapshot, due, run)
    if not told.summaries:
        return told
    with store.commit(run.id, "ingest.sessions", run.now) as tx:
        whole = due if tx.versions["messages"] == snapshot.versions["messages"] else _whole(tx, said, due)
        rows = with_summaries(tx.by_ids("episodes", whole["id"]), whole, told.summaries)
        tx.upsert("episodes", rows)
        tx.upsert("decisions", decisions_about(rows, due, told.summaries, run.now))
    return replace(told, written=len(rows))


def _due(reading: Reading, settings: SessionSettings, *, has_model: bool) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Where the messages of conversations are that may be due, and the episodes that are, with their `turns`."""
    held = reading.frame("episodes", columns=["id", "conversation_id", "messages", *TOLD])
    talks = may_be_due(held, settings)["conversation_id"]
    said = reading.by_ids("messages", talks, _PLACE, key="conversation_id", where=_heard(reading))
    due = plan_due(held, count_pairs(said), settings, has_model=has_model)
    turns = said.group_by("conversation_id").agg(turns=pl.len().cast(pl.Int64))
    return said, due.join(turns, on="conversation_id", maintain_order="left")


def _heard(reading: Reading) -> str:
    """What people and assistants said in conversations, but nothing that gives orders to its reader."""
    return f"has_injection IS NOT TRUE AND role IN ({', '.join(map(quoted, TALKS))}) AND {spoken(reading)}"


async def _by_model(
    snapshot: Snapshot, said: pl.DataFrame, due: pl.DataFrame, settings: IngestSettings, language: Language
) -> Summarised:
    newest = said.join(due, on="conversation_id", how="semi").sort("ordinal", "id")
    shown = newest.group_by("conversation_id").tail(TURNS_SHOWN)["id"]
    questions = questions_of(due, snapshot.by_ids("messages", shown, _SAID))
    most = max(1, settings.llm.max_output_tokens // ANSWER_TOKENS)
    told = await _ASKING.hear(language, list(pack_sessions(questions, settings.sessions.max_prompt_bytes, most)))
    model, version = language.model("summarize"), prompt_version(PROMPT)
    pairs = zip(due["id"], told, strict=True)
    return Summarised(
        {id_: Summary(each.text, "model", model, version) for id_, each in pairs if each.text},
        left=sum(each.is_skipped for each in told),
        failed=sum(each.has_failed for each in told),
        errors=_ASKING.errors(told),
    )


def _by_rule(snapshot: Snapshot, due: pl.DataFrame, run: Run) -> Summarised:
    facts = snapshot.by_ids("facts", due["id"], _FACT, key="episode_id", where=live_sql(run.now))
    return Summarised(summaries_by_rule(due, facts))


def _whole(reading: Reading, said: pl.DataFrame, due: pl.DataFrame) -> pl.DataFrame:
    """Those that are due of which no message that was read is gone meanwhile."""
    theirs = said.join(due, on="conversation_id", how="semi")
    left = reading.by_ids("messages", theirs["id"], ["id"])
    gone = theirs.join(left, on="id", how="anti")
    return due.join(gone, on="conversation_id", how="anti", maintain_order="left")

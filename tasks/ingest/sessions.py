"""Sessions: conversations that have grown get a summary (S4-23).

What is due is found and a model is asked outside the lease. Inside it a summary is written only where the conversation
is as it was when it was read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

import polars as pl

from inference.language import Language
from prompts.rendering import Question, pack_sessions, prompt_version, render_sessions
from prompts.responses import SessionSummaries, Summaries
from slowwave.common.records import Prompt
from slowwave.common.run_counts import RunCount
from slowwave.common.settings import IngestSettings
from slowwave.graph.community_plan import SignedSummary
from slowwave.reading.ingestion.sessions import (
    SUMMARY_COLUMNS,
    TALKS,
    TURNS_SHOWN,
    count_pairs,
    decisions_about,
    may_be_due,
    plan_due,
    questions_of,
    with_summaries,
)
from storage.rows import quoted
from storage.snapshots import Reading, Snapshot
from tasks.runtime.engine import report_progress, task
from tasks.runtime.retrying import ASKS_MODEL, LONGEST_WAIT_FOR_A_MODEL_S
from tasks.runtime.run_pages import TaskResult
from tasks.runtime.runs import Run, store_of

from .candidate_rows import spoken

PROMPT = "summarize_sessions"
ANSWER_TOKENS = 150
"""About what one summary takes in an answer."""
PROMPT_BYTES = 16_384
"""Conversations share a prompt up to here; of a longer one the newest turns are shown, and the earlier summary."""
_PLACE = ["id", "conversation_id", "ordinal", "role", "speaker"]
_SHOWN = [*_PLACE, "content", "occurred_at"]


@task("summarise conversations", longest_s=LONGEST_WAIT_FOR_A_MODEL_S, tags=[ASKS_MODEL])
async def summarise_sessions(run: Run, settings: IngestSettings, language: Language) -> TaskResult:
    """Summarise the conversations that are due; one commit, or none. Without a model there are no summaries."""
    if language.is_keyless("summarize"):
        return TaskResult()
    store = store_of(run)
    snapshot = store.snapshot()
    messages, due = _due(snapshot)
    if due.is_empty():
        return TaskResult()
    await report_progress("conversations to summarise", len(due))
    summaries, done = await _by_model(snapshot, messages, due, settings, language)
    if not summaries:
        return done
    with store.commit(run.id, "ingest.sessions", run.now) as tx:
        whole = _whole(tx, messages, due) if tx.is_overtaken(snapshot, "messages") else due
        rows = with_summaries(tx.by_ids("episodes", whole["id"]), whole, summaries)
        tx.upsert("episodes", rows)
        tx.upsert("decisions", decisions_about(rows, due, summaries, run.now))
    return replace(done, counts={**done.counts, RunCount.CONVERSATIONS_SUMMARISED: len(rows)})


def _due(reading: Reading) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Where the messages of conversations are that may be due, and the episodes that are, with their `turns`."""
    episodes = reading.frame("episodes", columns=["id", "conversation_id", "messages", *SUMMARY_COLUMNS])
    talks = may_be_due(episodes)["conversation_id"]
    said = f"has_injection IS NOT TRUE AND role IN ({', '.join(map(quoted, TALKS))}) AND {spoken(reading)}"
    messages = reading.by_ids("messages", talks, _PLACE, key="conversation_id", where=said)
    due = plan_due(episodes, count_pairs(messages))
    turns = messages.group_by("conversation_id").agg(turns=pl.len().cast(pl.Int64))
    return messages, due.join(turns, on="conversation_id", maintain_order="left")


async def _by_model(
    snapshot: Snapshot, messages: pl.DataFrame, due: pl.DataFrame, settings: IngestSettings, language: Language
) -> tuple[Mapping[str, SignedSummary], TaskResult]:
    """A model's summaries by episode, and what it left out."""
    newest = messages.join(due, on="conversation_id", how="semi").sort("ordinal", "id")
    shown = newest.group_by("conversation_id").tail(TURNS_SHOWN)["id"]
    questions = questions_of(due, snapshot.by_ids("messages", shown, _SHOWN))
    most = max(1, settings.llm.max_output_tokens // ANSWER_TOKENS)
    packs = list(pack_sessions(questions, PROMPT_BYTES, most))
    version = prompt_version(PROMPT)
    answers = await ask_for_summaries(language, due["id"].to_list(), packs, render_sessions, SessionSummaries, version)
    counts: dict[str, int] = {
        RunCount.CONVERSATIONS_NOT_SUMMARISED: answers.failed,
        RunCount.CONVERSATIONS_LEFT_FOR_LATER: answers.left,
    }
    return answers.summaries, TaskResult(counts, errors=answers.errors)


def _whole(reading: Reading, messages: pl.DataFrame, due: pl.DataFrame) -> pl.DataFrame:
    """Those that are due of which no message that was read is gone meanwhile."""
    theirs = messages.join(due, on="conversation_id", how="semi")
    left = reading.by_ids("messages", theirs["id"], ["id"])
    gone = theirs.join(left, on="id", how="anti")
    return due.join(gone, on="conversation_id", how="anti", maintain_order="left")


# Questions for summaries, of conversations and of communities: several to a prompt (S2-48, S4-23, T14, T37).


@dataclass(frozen=True, slots=True)
class SummaryAnswers:
    """Summaries by id; `left` were not asked about for want of budget, `failed` have no usable answer.

    `would_ask` is how many prompts a dry run would put.
    """

    summaries: Mapping[str, SignedSummary] = field(default_factory=dict)
    left: int = 0
    failed: int = 0
    would_ask: int = 0
    errors: tuple[str, ...] = ()


async def ask_for_summaries(
    language: Language,
    ids: Sequence[str],
    packs: Sequence[tuple[Question, ...]],
    render: Callable[[tuple[Question, ...]], Prompt],
    response: type[Summaries],
    version: str,
) -> SummaryAnswers:
    """The summaries of these ids, whose questions are packed in their order.

    What a prompt about several has no usable answer for is asked about once more, alone, except where the model could
    not be reached. An answer about one alone that says nothing is not kept: the next run asks again.
    """
    questions = [question for pack in packs for question in pack]
    ends = accumulate(map(len, packs))
    groups = [range(end - len(pack), end) for pack, end in zip(packs, ends, strict=True)]
    texts, errors, left = dict[int, str](), dict[int, str](), set[int]()
    while groups:
        prompts = [render(tuple(replace(questions[n], number=i) for i, n in enumerate(group, 1))) for group in groups]
        again = []
        for group, answer in zip(groups, await language.ask_many(prompts, response, "summarize"), strict=True):
            written = [(number, text) for number, text in answer.value.texts if text] if answer.value else []
            if len(group) == 1:  # whatever number it has
                written = [(1, dict(written).get(1) or text) for _, text in written[:1]]
            texts |= {group[number - 1]: text for number, text in reversed(written) if 0 < number <= len(group)}
            silent = [n for n in group if n not in texts]
            errors |= dict.fromkeys(silent, answer.error or "The model gave no summary of some.")
            left.update(silent if answer.skipped else ())
            again += [range(n, n + 1) for n in silent] if len(group) > 1 and not answer.is_unanswered else []
        groups = again
    failed = [n for n in range(len(questions)) if n not in texts and n not in left]
    model = language.model("summarize")
    return SummaryAnswers(
        {ids[n]: SignedSummary(texts[n], "model", model, version) for n in sorted(texts)},
        len(left),
        len(failed),
        errors=tuple(sorted({errors[n] for n in failed})),
    )

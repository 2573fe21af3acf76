"""Sessions: conversations that have grown get a summary (S4-23).

What is due is found and a model is asked outside the lease. Inside it a summary is written only where the conversation
is as it was when it was read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Generic

import polars as pl

from inference.language import Language
from inference.request_batch import ModelAnswer
from prompts.rendering import Question, pack_sessions, prompt_version, render_sessions
from prompts.responses import SessionSummaries, Summaries
from slowwave.common.records import REFUSED, Prompt
from slowwave.common.run_counts import RunCount
from slowwave.common.settings import IngestSettings
from slowwave.common.validity import live_sql
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
    summaries_by_rule,
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
PROMPT_BYTES = 16_384
"""Conversations share a prompt up to here; of a longer one the newest turns are shown, and the earlier summary."""
"""About what one summary takes in an answer."""
_UNUSABLE = ("cut", "invalid", REFUSED)
"""How errors begin that fewer questions in a prompt may help."""
_PLACE = ["id", "conversation_id", "ordinal", "role", "speaker"]
_SHOWN = [*_PLACE, "content", "occurred_at"]
_FACT = ["id", "episode_id", "statement", "evidence_count", "confidence"]


@task("summarise conversations", longest_s=LONGEST_WAIT_FOR_A_MODEL_S, tags=[ASKS_MODEL])
async def summarise_sessions(run: Run, settings: IngestSettings, language: Language) -> TaskResult:
    """Summarise the conversations that are due; one commit, or none. Without a model their facts are the summary."""
    store, has_model = store_of(run), not language.is_keyless("summarize")
    snapshot = store.snapshot()
    messages, due = _due(snapshot, has_model=has_model)
    if due.is_empty():
        return TaskResult()
    await report_progress("conversations to summarise", len(due))
    if has_model:
        summaries, done = await _by_model(snapshot, messages, due, settings, language)
    else:
        summaries, done = _by_rule(snapshot, due, run), TaskResult()
    if not summaries:
        return done
    with store.commit(run.id, "ingest.sessions", run.now) as tx:
        whole = _whole(tx, messages, due) if tx.is_overtaken(snapshot, "messages") else due
        rows = with_summaries(tx.by_ids("episodes", whole["id"]), whole, summaries)
        tx.upsert("episodes", rows)
        tx.upsert("decisions", decisions_about(rows, due, summaries, run.now))
    return replace(done, counts={**done.counts, RunCount.CONVERSATIONS_SUMMARISED: len(rows)})


def _due(reading: Reading, *, has_model: bool) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Where the messages of conversations are that may be due, and the episodes that are, with their `turns`."""
    episodes = reading.frame("episodes", columns=["id", "conversation_id", "messages", *SUMMARY_COLUMNS])
    talks = may_be_due(episodes)["conversation_id"]
    messages = reading.by_ids("messages", talks, _PLACE, key="conversation_id", where=_summarisable(reading))
    due = plan_due(episodes, count_pairs(messages), has_model=has_model)
    turns = messages.group_by("conversation_id").agg(turns=pl.len().cast(pl.Int64))
    return messages, due.join(turns, on="conversation_id", maintain_order="left")


def _summarisable(reading: Reading) -> str:
    """What people and assistants said in conversations, but nothing that gives orders to its reader."""
    return f"has_injection IS NOT TRUE AND role IN ({', '.join(map(quoted, TALKS))}) AND {spoken(reading)}"


async def _by_model(
    snapshot: Snapshot, messages: pl.DataFrame, due: pl.DataFrame, settings: IngestSettings, language: Language
) -> tuple[Mapping[str, SignedSummary], TaskResult]:
    """A model's summaries by episode, and what it left out."""
    newest = messages.join(due, on="conversation_id", how="semi").sort("ordinal", "id")
    shown = newest.group_by("conversation_id").tail(TURNS_SHOWN)["id"]
    questions = questions_of(due, snapshot.by_ids("messages", shown, _SHOWN))
    most = max(1, settings.llm.max_output_tokens // ANSWER_TOKENS)
    results = await _SUMMARISER.ask(language, list(pack_sessions(questions, PROMPT_BYTES, most)))
    model, version = language.model("summarize"), prompt_version(PROMPT)
    pairs = zip(due["id"], results, strict=True)
    counts: dict[str, int] = {
        RunCount.CONVERSATIONS_NOT_SUMMARISED: sum(each.has_failed for each in results),
        RunCount.CONVERSATIONS_LEFT_FOR_LATER: sum(each.is_skipped for each in results),
    }
    summaries = {id_: SignedSummary(each.text, "model", model, version) for id_, each in pairs if each.text}
    return summaries, TaskResult(counts, errors=_SUMMARISER.errors(results))


def _by_rule(snapshot: Snapshot, due: pl.DataFrame, run: Run) -> Mapping[str, SignedSummary]:
    facts = snapshot.by_ids("facts", due["id"], _FACT, key="episode_id", where=live_sql(run.now))
    return summaries_by_rule(due, facts)


def _whole(reading: Reading, messages: pl.DataFrame, due: pl.DataFrame) -> pl.DataFrame:
    """Those that are due of which no message that was read is gone meanwhile."""
    theirs = messages.join(due, on="conversation_id", how="semi")
    left = reading.by_ids("messages", theirs["id"], ["id"])
    gone = theirs.join(left, on="id", how="anti")
    return due.join(gone, on="conversation_id", how="anti", maintain_order="left")


# Questions for summaries: several to a prompt, fewer where an answer is no use, alone what it left out. Rows: S2-48,
# S4-23, T14, T37.

_Group = tuple[int, ...]  # places of the questions that share a prompt


@dataclass(frozen=True, slots=True)
class SummaryAnswer:
    """What was answered about one thing: a text, or why there is none, or it was never asked about."""

    text: str = ""
    error: str = ""
    is_skipped: bool = False

    @property
    def has_failed(self) -> bool:
        """Whether it was asked about, and nothing of use was answered."""
        return not (self.text or self.is_skipped)


@dataclass(frozen=True, slots=True)
class Summariser(Generic[Question]):
    """How things of one kind are asked about; `silent` says that a model said nothing about one."""

    render: Callable[[tuple[Question, ...]], Prompt]
    response: type[Summaries]
    silent: str

    async def ask(self, language: Language, packs: Sequence[tuple[Question, ...]]) -> list[SummaryAnswer]:
        """What was answered about each question, in order, at the last time that it was put.

        Where an answer is no use they are put again in halves, and alone what one left out. An answer about one alone
        that says nothing is not kept: the next run asks again.
        """
        questions = [question for pack in packs for question in pack]
        results = [SummaryAnswer()] * len(questions)
        ends = accumulate(map(len, packs))
        groups = [tuple(range(end - len(pack), end)) for pack, end in zip(packs, ends, strict=True)]
        while groups:
            prompts = [self.render(_numbered(questions, group)) for group in groups]
            answers = await language.ask_many(prompts, self.response, "summarize")
            for group, answer in zip(groups, answers, strict=True):
                for n, result in zip(group, _answers_of(len(group), answer, self.silent), strict=True):
                    results[n] = result
            groups = [part for group in groups for part in _again(group, results)]
        return results

    def errors(self, results: Sequence[SummaryAnswer]) -> tuple[str, ...]:
        """Why some have no summary, each reason once."""
        return tuple(sorted({each.error or self.silent for each in results if each.has_failed}))


def _numbered(questions: Sequence[Question], group: _Group) -> tuple[Question, ...]:
    return tuple(replace(questions[n], number=number) for number, n in enumerate(group, 1))


def _again(group: _Group, results: Sequence[SummaryAnswer]) -> tuple[_Group, ...]:
    """What is to be asked once more: both halves if the answer was no use, else each alone that it left out."""
    if len(group) == 1:
        return ()
    if all(results[n].error.startswith(_UNUSABLE) for n in group):
        half = len(group) // 2
        return group[:half], group[half:]
    return tuple((n,) for n in group if results[n] == SummaryAnswer())


def _answers_of(count: int, answer: ModelAnswer[Summaries], silent: str) -> list[SummaryAnswer]:
    """Of one answer about so many: by number; where one was asked about alone, whatever says something (T37)."""
    if answer.value is None:
        return [
            SummaryAnswer(error="" if answer.skipped else answer.error or silent, is_skipped=answer.skipped)
        ] * count
    by_number = {number: text for number, text in reversed(answer.value.told) if text}
    if count == 1:
        return [SummaryAnswer(by_number.get(1) or next(text for _, text in answer.value.told if text))]
    return [SummaryAnswer(by_number.get(number, "")) for number in range(1, count + 1)]


_SUMMARISER = Summariser(render_sessions, SessionSummaries, "The model said nothing about a conversation.")

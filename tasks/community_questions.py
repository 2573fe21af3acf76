"""Questions about communities: several to a prompt, fewer where an answer is no use, alone what it left out.

Rows: S2-48, T14, T37.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from types import MappingProxyType

import polars as pl

from inference.answers import Answer
from inference.language import Language
from prompts.packing import Pack, pack_communities
from prompts.rendering import prompt_version, render_communities
from prompts.responses import CommunitySummaries
from slowwave.graph.community_summaries import Summary, cleaned_answer, questions_about
from slowwave.records import REFUSED, CommunityQuestion
from slowwave.settings import CommunitySettings

PROMPT = "summarize_communities"
SILENT = "The model said nothing about a community."
ANSWER_TOKENS = 150
"""About what the summary of one community takes in an answer."""
_UNUSABLE = ("cut", "invalid", REFUSED)
"""How errors begin that fewer communities in a prompt may help."""
_NOBODY = pl.DataFrame(schema={"id": pl.String, "fingerprint": pl.String, "entity_ids": pl.List(pl.String)})


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """Summaries by fingerprint, and what they were asked from: COMMUNITIES that are `due`, names and facts of theirs.

    `left` were not asked about for want of budget, `failed` without an answer that can be used.
    """

    summaries: Mapping[str, Summary] = field(default_factory=lambda: MappingProxyType({}))
    due: pl.DataFrame = field(default_factory=lambda: _NOBODY)
    names: pl.DataFrame = field(default_factory=lambda: _NOBODY)
    facts: pl.DataFrame = field(default_factory=lambda: _NOBODY)
    left: int = 0
    failed: int = 0
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Told:
    """What was answered about one community: a text, or why there is none, or it was never asked about."""

    text: str = ""
    error: str = ""
    is_skipped: bool = False


_Group = tuple[int, ...]  # places of the questions that share a prompt


def packs_of(asked: Asked, settings: CommunitySettings) -> list[Pack]:
    """The questions about all that is due, in order, as many to a prompt as it and its answer hold."""
    if asked.due.is_empty():
        return []
    most = max(1, settings.llm.max_output_tokens // ANSWER_TOKENS)
    questions = questions_about(asked.due, asked.names, asked.facts)
    return list(pack_communities(questions, settings.max_prompt_bytes, most))


async def ask_model(asked: Asked, settings: CommunitySettings, language: Language) -> Asked:
    """A model's summaries of all that is due.

    Where an answer is no use the communities are asked about again in halves, and alone what one left out. An answer
    about one alone that says nothing is not kept: the next run asks again.
    """
    told = await _hear(language, packs_of(asked, settings))
    model, version = language.model("summarize"), prompt_version(PROMPT)
    marks = asked.due["fingerprint"].to_list()
    failed = [each for each in told if not (each.text or each.is_skipped)]
    return replace(
        asked,
        summaries={
            mark: Summary(each.text, "model", model, version)
            for mark, each in zip(marks, told, strict=True)
            if each.text
        },
        left=sum(each.is_skipped for each in told),
        failed=len(failed),
        errors=tuple(sorted({each.error or SILENT for each in failed})),
    )


async def _hear(language: Language, packs: Sequence[Pack]) -> list[_Told]:
    """What was answered about each question, in order, at the last time that it was put."""
    questions = [question for pack in packs for question in pack]
    told = [_Told()] * len(questions)
    groups = [tuple(range(end - len(pack), end)) for pack, end in zip(packs, accumulate(map(len, packs)), strict=True)]
    while groups:
        prompts = [render_communities(_numbered(questions, group)) for group in groups]
        answers = await language.ask_many(prompts, CommunitySummaries, "summarize")
        for group, answer in zip(groups, answers, strict=True):
            for n, heard in zip(group, _told_of(len(group), answer), strict=True):
                told[n] = heard
        groups = [part for group in groups for part in _again(group, told)]
    return told


def _numbered(questions: Sequence[CommunityQuestion], group: _Group) -> Pack:
    return tuple(replace(questions[n], number=number) for number, n in enumerate(group, 1))


def _again(group: _Group, told: Sequence[_Told]) -> tuple[_Group, ...]:
    """What is to be asked once more: both halves if the answer was no use, else each alone that it left out."""
    if len(group) == 1:
        return ()
    if all(told[n].error.startswith(_UNUSABLE) for n in group):
        half = len(group) // 2
        return group[:half], group[half:]
    return tuple((n,) for n in group if told[n] == _Told())


def _told_of(count: int, answer: Answer[CommunitySummaries]) -> list[_Told]:
    """Of one answer about so many: by number; where one was asked about alone, whatever says something (T37)."""
    if answer.value is None:
        return [_Told(error="" if answer.skipped else answer.error or SILENT, is_skipped=answer.skipped)] * count
    texts = [(each.community, cleaned_answer(each.summary)) for each in answer.value.summaries]
    by_number = {number: text for number, text in reversed(texts) if text}
    if count == 1:
        return [_Told(by_number.get(1) or next(text for _, text in texts if text))]
    return [_Told(by_number.get(number, "")) for number in range(1, count + 1)]

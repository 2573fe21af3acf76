"""Questions about communities: several to a prompt, and alone what an answer left out (S2-48, T14, T37)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import polars as pl

from inference.answers import Answer
from inference.language import Language
from prompts.packing import Pack, pack_communities
from prompts.rendering import prompt_version, render_communities
from prompts.responses import CommunitySummaries
from slowwave.graph.community_summaries import Summary, cleaned_answer, questions_about
from slowwave.settings import CommunitySettings

PROMPT = "summarize_communities"
SILENT = "The model said nothing about a community."
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
    """What was answered about one community: a text, or an error, or it was never asked about."""

    text: str = ""
    error: str = ""
    is_skipped: bool = False

    @property
    def is_missing(self) -> bool:
        """Whether there is an answer that says nothing of it."""
        return not (self.text or self.error or self.is_skipped)


def packs_of(asked: Asked, settings: CommunitySettings) -> list[Pack]:
    """The questions about all that is due, in order, as many to a prompt as it holds."""
    if asked.due.is_empty():
        return []
    return list(pack_communities(questions_about(asked.due, asked.names, asked.facts), settings.max_prompt_bytes))


async def ask_model(asked: Asked, settings: CommunitySettings, language: Language) -> Asked:
    """A model's summaries of all that is due; what an answer left out is asked about once more, alone."""
    packs = packs_of(asked, settings)
    told = await _hear(language, packs)
    missing = [n for n, pack in enumerate(_each(packs)) if told[n].is_missing and len(pack) > 1]
    alone = [question for pack in packs for question in pack]
    again = await _hear(language, [(replace(alone[n], number=1),) for n in missing])
    for n, heard in zip(missing, again, strict=True):
        told[n] = heard
    model, version = language.model("summarize"), prompt_version(PROMPT)
    marks = asked.due["fingerprint"].to_list()
    return replace(
        asked,
        summaries={
            mark: Summary(each.text, "model", model, version)
            for mark, each in zip(marks, told, strict=True)
            if each.text
        },
        left=sum(each.is_skipped for each in told),
        failed=sum(bool(each.error) or each.is_missing for each in told),
        errors=tuple(sorted({each.error or SILENT for each in told if each.error or each.is_missing})),
    )


def _each(packs: Sequence[Pack]) -> Iterator[Pack]:
    """The pack of each question."""
    return (pack for pack in packs for _ in pack)


async def _hear(language: Language, packs: Sequence[Pack]) -> list[_Told]:
    """What was answered about each question, in order."""
    if not packs:
        return []
    answers = await language.ask_many([render_communities(pack) for pack in packs], CommunitySummaries, "summarize")
    return [told for pack, answer in zip(packs, answers, strict=True) for told in _told_of(pack, answer)]


def _told_of(pack: Pack, answer: Answer[CommunitySummaries]) -> list[_Told]:
    """Of one answer: by number, or the only one where one community was asked about (T37)."""
    if answer.value is None:
        return [_Told(error="" if answer.skipped else answer.error or SILENT, is_skipped=answer.skipped)] * len(pack)
    said = answer.value.summaries
    if len(pack) == len(said) == 1:
        return [_Told(cleaned_answer(said[0].summary))]
    by_number = {each.community: each.summary for each in reversed(said)}
    return [_Told(cleaned_answer(by_number.get(question.number, ""))) for question in pack]

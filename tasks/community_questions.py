"""Questions about communities: what is due, what a model is shown of it, and what it answered (S2-48)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import polars as pl

from inference.language import Language
from prompts.packing import Pack, pack_communities
from prompts.rendering import prompt_version, render_communities
from prompts.responses import CommunitySummaries
from slowwave.graph.community_summaries import Summary, questions_about
from slowwave.settings import CommunitySettings

from .summary_questions import ANSWER_TOKENS, Asking

PROMPT = "summarize_communities"
_ASKING = Asking(render_communities, CommunitySummaries, "The model said nothing about a community.")
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


def packs_of(asked: Asked, settings: CommunitySettings) -> list[Pack]:
    """The questions about all that is due, in order, as many to a prompt as it and its answer hold."""
    if asked.due.is_empty():
        return []
    most = max(1, settings.llm.max_output_tokens // ANSWER_TOKENS)
    questions = questions_about(asked.due, asked.names, asked.facts)
    return list(pack_communities(questions, settings.max_prompt_bytes, most))


async def ask_model(asked: Asked, settings: CommunitySettings, language: Language) -> Asked:
    """A model's summaries of all that is due."""
    told = await _ASKING.hear(language, packs_of(asked, settings))
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
        failed=sum(each.has_failed for each in told),
        errors=_ASKING.errors(told),
    )

"""Naming: the names of a batch are matched with known entities, and ambiguous ones are asked about together."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from inference.language import Language
from prompts.rendering import render_resolution
from prompts.responses import NameResolution
from slowwave.reading.mentions import Mentions, embed_texts, mentions_in
from slowwave.reading.resolution import LIKENESS, Resolution, ResolutionPlan, finish, plan_resolution
from slowwave.records import NameQuestion
from slowwave.settings import ResolveSettings
from storage.rows import quoted
from storage.search import nearest
from storage.snapshots import Reading, Snapshot

from .runs import Run, embedder_of

QUESTIONS_PER_CALL = 40
CANDIDATES = 5
_WHOLE = "parent_entity_id IS NULL"  # what was split off is known under its whole name alone (C17)


Verdicts = Mapping[tuple[str, str, str], bool]
"""What a model said: (new name, type, known entity) → whether they are the same."""


async def resolve_names(
    run: Run, language: Language, snapshot: Snapshot, raw: pl.DataFrame, settings: ResolveSettings
) -> tuple[Resolution, Verdicts]:
    """The entities that the mentions mean; one model call for every forty names that rules cannot settle."""
    plan = _plan(run, snapshot, raw, settings)
    answers = await _ask(language, plan.asked())
    keys = dict(zip(plan.questions["question"], _keys(plan), strict=True))
    return finish(plan, answers, run.now), {keys[question]: same for question, same in answers.items()}


def resolve_again(
    run: Run, reading: Reading, raw: pl.DataFrame, settings: ResolveSettings, verdicts: Verdicts
) -> Resolution:
    """The entities that the mentions mean in a newer state: by rules and answers given before, without a model."""
    plan = _plan(run, reading, raw, settings)
    keys = dict(zip(plan.questions["question"], _keys(plan), strict=True))
    return finish(plan, {question: verdicts[key] for question, key in keys.items() if key in verdicts}, run.now)


def _plan(run: Run, reading: Reading, raw: pl.DataFrame, settings: ResolveSettings) -> ResolutionPlan:
    mentions = mentions_in(raw, type_strict=settings.type_strict)
    aliases = reading.by_ids("entity_aliases", mentions.names(), key="alias_name")
    likeness = _likeness(run, reading, mentions) if settings.use_embedding_resolution else pl.DataFrame(schema=LIKENESS)
    by_name = reading.by_ids("entities", mentions.names(), ["id", "merged_into"], key="canonical_name")
    ids = pl.concat([by_name["id"], by_name["merged_into"], aliases["entity_id"], likeness["entity_id"]])
    return plan_resolution(mentions, reading.by_ids("entities", ids), aliases, likeness, settings)


def _keys(plan: ResolutionPlan) -> list[tuple[str, str, str]]:
    return [
        (name, kind, known) for name, kind, known in plan.questions.select("name", "entity_type", "entity_id").rows()
    ]


async def _ask(language: Language, questions: tuple[NameQuestion, ...]) -> dict[int, bool]:
    groups = [questions[n : n + QUESTIONS_PER_CALL] for n in range(0, len(questions), QUESTIONS_PER_CALL)]
    answers = await language.ask_many([render_resolution(group) for group in groups], NameResolution, "resolve")
    put = {question.number for question in questions}  # a model may answer what nobody asked (T37)
    return {
        each.question: each.same_entity
        for answer in answers
        if answer.value is not None
        for each in answer.value.answers
        if each.question in put
    }


def _likeness(run: Run, reading: Reading, mentions: Mentions) -> pl.DataFrame:
    """For each mention the five entities of its type whose vector is nearest (S2-07)."""
    vectors = embedder_of(run).embed(embed_texts(mentions.distinct).to_list())
    parts = []
    for (kind,), rows in mentions.distinct.group_by("entity_type", maintain_order=True):
        places = rows["mention"].to_numpy()
        found = nearest(
            reading,
            "entities",
            np.asarray(vectors[places]),
            CANDIDATES,
            f"entity_type = {quoted(str(kind))} AND {_WHOLE}",
        )
        named = found.with_columns(mention=pl.Series(places).gather(found["query"]))
        parts.append(named.select("mention", entity_id="id", cosine=pl.col("cosine").cast(pl.Float64)))
    return pl.concat(parts) if parts else pl.DataFrame(schema=LIKENESS)

"""Naming: the names of a batch are matched with known entities, and ambiguous ones are asked about together."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from inference.language import Language
from prompts.rendering import render_resolution
from prompts.responses import NameResolution
from slowwave.records import NameQuestion
from slowwave.resolution.entity_resolution import (
    COSINES,
    Resolution,
    ResolutionPlan,
    exact_matches,
    finish,
    plan_resolution,
)
from slowwave.resolution.known_entities import KNOWN, MATCHED, NOTHING_JOINED, Joined, may_join, near_names, plan_joins
from slowwave.resolution.mentions import Mentions, embed_texts, mentions_in
from slowwave.settings import ResolveSettings
from storage.rows import quoted
from storage.search import nearest
from storage.snapshots import Reading, Snapshot
from tasks.runtime.runs import Run, embedder_of

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
    answers = await _ask(language, plan.name_questions())
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
    likeness = _likeness(run, reading, mentions) if settings.use_embedding_resolution else pl.DataFrame(schema=COSINES)
    by_name = reading.by_ids("entities", mentions.names(), ["id", "merged_into"], key="canonical_name")
    ids = pl.concat([by_name["id"], by_name["merged_into"], aliases["entity_id"], likeness["entity_id"]])
    entities = reading.by_ids("entities", ids)
    joined = _joined(reading, mentions, entities, aliases, settings)
    more = reading.by_ids("entities", joined.joins["entity_id"])
    entities = pl.concat([entities, more]).unique("id", keep="first", maintain_order=True)
    return plan_resolution(mentions, entities, aliases, likeness, settings, joined)


def _joined(
    reading: Reading, mentions: Mentions, entities: pl.DataFrame, aliases: pl.DataFrame, settings: ResolveSettings
) -> Joined:
    """What the rules about names join; only where there is a name that nobody is known by, or one that is short."""
    exact = exact_matches(mentions, entities, aliases, settings)
    met = mentions.distinct.join(exact.select("mention", "how"), on="mention", maintain_order="left")
    kinds = met.filter(pl.col("entity_type").is_in(MATCHED) & may_join())["entity_type"].unique().sort()
    if kinds.is_empty():
        return NOTHING_JOINED
    is_kind = f"entity_type IN ({', '.join(map(quoted, kinds))})"
    where = f"{is_kind} AND merged_into IS NULL AND {_WHOLE}"
    named = reading.frame("entities", where, ["id", "canonical_name", "name", "entity_type"])
    called = reading.frame("entity_aliases", is_kind, ["entity_id", "entity_type", "alias_name"])
    known = pl.concat(
        [
            named.select("entity_type", entity_id="id", name="canonical_name"),
            named.select("entity_type", entity_id="id", name="name"),
            called.select("entity_type", "entity_id", name="alias_name"),
        ]
    ).drop_nulls()
    known = known.select(*KNOWN).join(named.select(entity_id="id"), on="entity_id", how="semi", maintain_order="left")
    found = dict(exact.filter(pl.col("entity_id").is_not_null()).select("mention", "entity_id").iter_rows())
    merged = entities.filter(pl.col("merged_into").is_not_null())["id"]
    return plan_joins(mentions, found, near_names(mentions, known), merged)


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
    return pl.concat(parts) if parts else pl.DataFrame(schema=COSINES)

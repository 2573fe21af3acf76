"""The ontology: relations that no table knows are asked about once, many to a call, and never again (S2-61)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import polars as pl

from inference.answers import Answer
from inference.language import Language
from prompts.rendering import prompt_version, render_relations
from prompts.responses import RelationNames
from slowwave import frames
from slowwave.application.predicates import Cardinality, Names, canonicalise, learned_rows, settle_names
from slowwave.records import RelationQuestion
from slowwave.settings import ReviseSettings
from slowwave.text import as_json, timed_id
from storage.snapshots import Reading

RELATIONS_PER_CALL = 40


@dataclass(frozen=True, slots=True)
class Named:
    """What a model said about the relations of a batch, who said it, and why some questions have no answer."""

    names: Names = field(default_factory=dict)
    model: str = ""
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ontology:
    """All that is known about relations (PREDICATES), the part of it that is new, and the decisions about that."""

    predicates: pl.DataFrame
    new: pl.DataFrame
    decisions: pl.DataFrame


async def name_relations(language: Language, reading: Reading, claims: pl.DataFrame, settings: ReviseSettings) -> Named:
    """The canonical forms of the relations between two things that no table knows; nothing is asked without a key.

    A call that fails leaves its relations as they are, and a later run asks again. One that is answered is answered for
    all of its relations: those that the model left out mean themselves.
    """
    if language.is_keyless("judge") or not settings.learn_predicates or language.budget_reached:
        return Named()
    learned = reading.frame("predicates")
    questions = _questions(claims, learned)
    groups = [questions[n : n + RELATIONS_PER_CALL] for n in range(0, len(questions), RELATIONS_PER_CALL)]
    answers = await language.ask_many([render_relations(group) for group in groups], RelationNames, "judge")
    told = zip(groups, answers, strict=True)
    said = {name: form for group, answer in told for name, form in _said(group, answer)}
    errors = tuple(sorted({answer.error for answer in answers if answer.error}))
    return Named(settle_names(said, learned), f"{language.model('judge')} {prompt_version('name_relations')}", errors)


def ontology(reading: Reading, named: Named, now: datetime) -> Ontology:
    """What was said now beside what is stored, which wins: another run may have asked meanwhile."""
    stored = reading.frame("predicates", columns=list(frames.PREDICATES))
    new = learned_rows(named.names).join(stored, on="alias", how="anti", maintain_order="left")
    return Ontology(pl.concat([stored, new.select(stored.columns)]), new, _decisions(new, named, now))


def _questions(claims: pl.DataFrame, learned: pl.DataFrame) -> tuple[RelationQuestion, ...]:
    """Each unknown relation once, with the first statement that it was read from; observations have no second thing."""
    between = claims.filter((pl.col("kind") == "relation") & (pl.col("object").fill_null("").str.strip_chars() != ""))
    forms = canonicalise(between["relation"], learned).filter((pl.col("source") == "raw") & (pl.col("canonical") != ""))
    first = (
        between.join(forms.select("canonical", relation="raw"), on="relation", maintain_order="left")
        .unique("canonical", keep="first", maintain_order=True)
        .select("canonical", "statement")
    )
    return tuple(RelationQuestion(n, name, example or "") for n, (name, example) in enumerate(first.iter_rows(), 1))


def _said(
    group: Sequence[RelationQuestion], answer: Answer[RelationNames]
) -> Iterable[tuple[str, tuple[str, Cardinality]]]:
    """The answer to each question of a group, the first of several; only its number is trusted (T37)."""
    if answer.value is None:
        return
    forms = {each.question: (each.canonical, each.cardinality) for each in reversed(answer.value.answers)}
    for question in group:
        yield question.relation, forms.get(question.number, (question.relation, "n"))


def _decisions(new: pl.DataFrame, named: Named, now: datetime) -> pl.DataFrame:
    rows = [
        {
            "id": timed_id("d", now, "name_relation", row["id"]),
            "action": "name_relation",
            "subject_id": row["id"],
            "ids_in": [],
            "ids_out": [row["id"]],
            "measures": as_json({name: row[name] for name in ("alias", "canonical", "cardinality")}),
            "decided_by": "model",
            "model": named.model,
            "reason": f"{row['alias']} means {row['canonical']}."
            if row["alias"] != row["canonical"]
            else f"{row['alias']} means what none of the known relations means.",
            "at": now,
        }
        for row in new.iter_rows(named=True)
    ]
    return frames.conform(pl.DataFrame(rows), frames.DECISIONS) if rows else frames.empty(frames.DECISIONS)

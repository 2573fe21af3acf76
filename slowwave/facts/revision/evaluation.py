"""Which candidates pass? Grounded confidence, quality, and the state of the batch (S3-09 a and c, S3-10)."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from slowwave.common import frames
from slowwave.common.lexicon.languages import DATES, DATES_IN_SIGNS, ENGLISH, SMALL_WORDS, language_of
from slowwave.common.settings import EvaluateSettings
from slowwave.common.text import row_id
from slowwave.common.timestamps import MONTH_NAMES
from slowwave.common.words import content_stems, without_ending
from slowwave.facts.searched_texts import around
from slowwave.reading.filters.redaction import redact_all

from .candidates import MAX_STATEMENT_BYTES

MIN_STATEMENT_BYTES = 8
MIN_ALNUM_RATIO = 0.40
_MONTHS = [name.lower() for name in MONTH_NAMES]
_DATE_NUMBERS = map(str, (*range(1, 32), *range(1950, 2101)))
_DATE_WORDS = pl.lit(pl.Series([[*_DATE_NUMBERS, *(without_ending(name, 4) for name in _MONTHS), *_MONTHS]]))
"""Words of dates; the message may give the date in other words ("yesterday")."""
_ELSEWHERE = {
    language: sorted(
        word for each in small | DATES.get(language, frozenset()) for word in (each, without_ending(each, 4))
    )
    for language, small in SMALL_WORDS.items()
    if language != ENGLISH
}
"""Small words and words of dates in other languages, as `content_stems` has them."""
_HARD = ("self_loop", "secret")
_OPEN_TEXTS = ("statement", "object_text", "search_terms")
"""Texts of a candidate that are not its quote; the quote was redacted with the message."""
# In the order in which a failure is named; a check that decides alone comes first.
_SENTENCES = {
    "self_loop": "Subject and object are the same.",
    "secret": "It still holds something that looks like a secret.",
    "length": f"The statement is not {MIN_STATEMENT_BYTES} to {MAX_STATEMENT_BYTES} bytes long.",
    "alnum": "Too few letters and digits.",
    "ends": "Subject or relation is missing.",
    "declarative": "It is a question.",
    "content": "The message it comes from is close to noise.",
}


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """`verdicts`: id, passes, confidence (grounded), grounding, quality, failed, reason.

    `passed`: candidates with that confidence. `rejected`: full rows with their reason. `refusals`: REFUSALS. `batches`:
    PATCH_BATCHES with new states.
    """

    verdicts: pl.DataFrame
    passed: pl.DataFrame
    rejected: pl.DataFrame
    refusals: pl.DataFrame
    batches: pl.DataFrame


def evaluate(
    candidates: pl.DataFrame,
    messages: pl.DataFrame,
    batches: pl.DataFrame,
    settings: EvaluateSettings,
    *,
    content_gate: float,
    answered: pl.DataFrame | None = None,
) -> EvaluationPlan:
    """Judge each candidate alone (S3-09 a, c); contradictions are settled when the batch is applied.

    A candidate may fail one of the seven checks if all seven were possible. Without a content score of the message six
    are possible, and it may fail none.

    `messages` needs id, content and speaker, and may have `author`, the name of who speaks as user without one.
    `answered`: (id of a candidate, content of the whole turn that its message answers); somebody who says "yes" to a
    turn says its words. A candidate that passes stays a candidate until it is applied; a rejected one never comes back.
    """
    open_ = candidates.filter(pl.col("status") == "candidate")
    verdicts = _verdicts(open_, messages, settings, content_gate, answered)
    judged = open_.join(
        verdicts.select("id", "passes", "reason", grounded="confidence"), on="id", maintain_order="left"
    )
    passed = judged.filter("passes").with_columns(confidence="grounded").select(open_.columns)
    rejected = judged.filter(~pl.col("passes")).with_columns(status=pl.lit("rejected"), status_reason="reason")
    # A rejected row is stored, so the secret that it was rejected for must be redacted (T39).
    rejected = rejected.with_columns(redact_all(rejected[text])[0] for text in (*_OPEN_TEXTS, "quote")).select(
        open_.columns
    )
    return EvaluationPlan(
        verdicts, passed, rejected, _refusals(rejected, verdicts, settings), _batch_states(batches, judged)
    )


def grounding(candidates: pl.DataFrame, messages: pl.DataFrame, answered: pl.DataFrame | None = None) -> pl.Series:
    """Share of each statement's content words that its conversation has, 0 to 1, without dates and author (S3-09a).

    A statement may join several messages, so all messages of one conversation count together, each with the end of the
    turn that it answers, and without the answer to it. Candidates that are `answered` also have the whole turn.
    """
    stems = content_stems("content")
    if "search_text" in messages.columns:
        messages = messages.with_columns(around(messages)["context"])
        stems = stems.list.set_union(content_stems("context"))
    place = "conversation_id" if "conversation_id" in messages.columns else "id"
    author = "author" if "author" in messages.columns else "speaker"
    rows = messages.select(message_id="id", place=pl.coalesce(place, "id"), author=author, known=stems)
    together = rows.explode("known").group_by("place").agg(pl.col("known").drop_nulls().unique())
    spoken = rows.drop("known").join(together, on="place", how="left", maintain_order="left")
    claims = candidates.select("id", "message_id", "statement").with_columns(
        pl.col("statement").str.replace_all(DATES_IN_SIGNS, " "),
        small=pl.Series(
            [_ELSEWHERE.get(language_of([text or ""]), []) for text in candidates["statement"]],
            dtype=pl.List(pl.String),
        ),
    )
    pairs = claims.join(spoken, on="message_id", how="left", maintain_order="left")
    if answered is not None:
        turns = answered.select("id", before=content_stems("content"))
        pairs = pairs.join(turns, on="id", how="left", maintain_order="left").with_columns(
            known=pl.col("known").fill_null([]).list.set_union(pl.col("before").fill_null([]))
        )
    stems = content_stems("statement", drop="author").list.set_difference(_DATE_WORDS)
    words = pairs.select("known", stems=stems.list.set_difference("small"))
    shared = pl.col("stems").list.set_intersection(pl.col("known").fill_null([])).list.len()
    count = pl.col("stems").list.len()
    return words.select(grounding=pl.when(count > 0).then(shared / count).otherwise(1.0))["grounding"]


def _verdicts(
    candidates: pl.DataFrame,
    messages: pl.DataFrame,
    settings: EvaluateSettings,
    content_gate: float,
    answered: pl.DataFrame | None,
) -> pl.DataFrame:
    checks = candidates.select("id", confidence="confidence").with_columns(
        grounding(candidates, messages, answered), *_checks(candidates, content_gate)
    )
    is_grounded = pl.col("grounding") >= settings.grounding_ratio
    failed = pl.coalesce(pl.when(~pl.col(name)).then(pl.lit(name)) for name in _SENTENCES)
    hard = ~pl.all_horizontal(_HARD)
    return (
        checks.with_columns(
            confidence=pl.when(is_grounded)
            .then("confidence")
            .otherwise(pl.col("confidence") * settings.ungrounded_factor),
            quality=pl.mean_horizontal(*_SENTENCES),
        )
        .with_columns(
            unsure=pl.col("confidence") < settings.min_confidence,
            failed=pl.when(hard | (pl.col("quality") < settings.min_quality)).then(failed),
        )
        .with_columns(failed=pl.coalesce("failed", pl.when("unsure").then(pl.lit("confidence"))))
        .select(
            "id",
            "confidence",
            "grounding",
            "quality",
            "failed",
            passes=pl.col("failed").is_null(),
            reason=pl.col("failed").replace_strict(
                _SENTENCES | {"confidence": "Too unsure, given how little of it its message says."},
                default=None,
                return_dtype=pl.String,
            ),
        )
    )


def _checks(candidates: pl.DataFrame, content_gate: float) -> list[pl.Series]:
    """The seven checks of S3-09c as boolean columns; null where a check is not possible."""
    statement = pl.col("statement")
    size = statement.str.len_bytes()
    alnum = statement.str.count_matches(r"[\p{L}\p{M}\p{N}]") / pl.max_horizontal(statement.str.len_chars(), 1)
    named = (pl.col("subject_id").fill_null("") != "") & (pl.col("predicate").fill_null("") != "")
    open_texts = candidates.select(pl.col(_OPEN_TEXTS).fill_null(""))
    is_clean = open_texts.select(
        secret=pl.all_horizontal(pl.col(text) == redact_all(open_texts[text])[0] for text in _OPEN_TEXTS)
    )
    rows = candidates.select(
        self_loop=(pl.col("subject_id") != pl.col("object_id")).fill_null(True),
        length=size.is_between(MIN_STATEMENT_BYTES, MAX_STATEMENT_BYTES),
        alnum=alnum >= MIN_ALNUM_RATIO,
        ends=named,
        declarative=~statement.str.strip_chars().str.contains(r"[?？][\"'”’)\]]*$"),
        content=pl.col("content_score") >= content_gate,
    )
    return [*rows.get_columns(), *is_clean.get_columns()]


def _refusals(rejected: pl.DataFrame, verdicts: pl.DataFrame, settings: EvaluateSettings) -> pl.DataFrame:
    unsure = pl.col("failed") == "confidence"
    rows = (
        rejected.select("id", "statement")
        .join(verdicts, on="id", maintain_order="left")
        .select(
            id=pl.Series([row_id("r", "fact", fact) for fact in rejected["id"]], dtype=pl.String),
            subject_kind=pl.lit("fact"),
            subject_id="id",
            gate=pl.lit("evaluation"),
            reason="reason",
            measure=pl.when(unsure).then("confidence").otherwise("quality"),
            threshold=pl.when(unsure).then(pl.lit(settings.min_confidence)).otherwise(pl.lit(settings.min_quality)),
            teaches=pl.lit(False),
            excerpt=pl.col("statement").str.slice(0, 500),
        )
    )
    return frames.conform(rows, frames.REFUSALS)


def _batch_states(batches: pl.DataFrame, judged: pl.DataFrame) -> pl.DataFrame:
    """The batches as `approved` if one candidate passes, else `rejected` (S3-10, S3-12)."""
    counts = (
        judged.group_by("patch_batch_id")
        .agg(count=pl.col("passes").sum().cast(pl.Int64))
        .rename({"patch_batch_id": "id"})
    )
    return (
        batches.join(counts, on="id", maintain_order="left")
        .with_columns(
            passed="count", state=pl.when(pl.col("count") > 0).then(pl.lit("approved")).otherwise(pl.lit("rejected"))
        )
        .drop("count")
    )

"""Which candidates pass? Grounded confidence, quality, and the state of the batch (S3-09 a and c, S3-10)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from unicodedata import category

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

Row: TypeAlias = dict[str, Any]
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
_SENTENCES = {
    "self_loop": "Subject and object are the same.",
    "secret": "It still holds something that looks like a secret.",
    "length": f"The statement is not {MIN_STATEMENT_BYTES} to {MAX_STATEMENT_BYTES} bytes long.",
    "alnum": "Too few letters and digits.",
    "ends": "Subject or relation is missing.",
    "declarative": "It is a question.",
    "content": "The message it comes from is close to noise.",
    "confidence": "Too unsure, given how little of it its message says.",
}
_JUDGED = ("id", "subject_id", "object_id", "predicate", "statement", "confidence", "content_score")
_QUESTION = re.compile(r"[?？][\"'”’)\]]*$")


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """`verdicts`: of each candidate in their order its grounded confidence, and what it failed at.

    `passed`: candidates with that confidence. `rejected`: full rows with their reason. `refusals`: REFUSALS. `batches`:
    PATCH_BATCHES with new states.
    """

    verdicts: Sequence[Row]
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
    open_ = candidates
    if any(status != "candidate" for status in candidates["status"]):
        open_ = candidates.filter(pl.col("status") == "candidate")
    rows = _verdicts(open_, messages, settings, content_gate, answered)
    passes = pl.Series("passes", [row["passes"] for row in rows], dtype=pl.Boolean)
    confidence = pl.Series("confidence", [row["confidence"] for row in rows], dtype=pl.Float64)
    passed, rejected = open_.with_columns(confidence), open_.clear()
    if not passes.all():
        passed, rejected = passed.filter(passes), open_.filter(~passes)
    refused = [row for row in rows if not row["passes"]]
    if refused:  # a rejected row is stored, so the secret that it was rejected for must be redacted (T39)
        reasons = pl.Series("status_reason", [row["reason"] for row in refused], dtype=pl.String)
        clean = (redact_all(rejected[text])[0] for text in (*_OPEN_TEXTS, "quote"))
        rejected = rejected.with_columns(*clean, reasons, status=pl.lit("rejected"))
    return EvaluationPlan(
        rows,
        passed,
        rejected,
        _refusals(rejected, refused, settings),
        _batch_states(batches, open_["patch_batch_id"], passes),
    )


def grounding(candidates: pl.DataFrame, messages: pl.DataFrame, answered: pl.DataFrame | None = None) -> pl.Series:
    """Share of each statement's content words that its conversation has, 0 to 1, without dates and author (S3-09a).

    A statement may join several messages, so all messages of one conversation count together, each with the end of the
    turn that it answers, and without the answer to it. Candidates that are `answered` also have the whole turn.
    """
    said = dict(frames.rows_of(messages, "id", "content"))
    if all(said.get(message) == text for message, text in frames.rows_of(candidates, "message_id", "statement")):
        return pl.Series("grounding", [1.0] * len(candidates), dtype=pl.Float64)
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
) -> list[Row]:
    """The verdicts, in the order of the candidates."""
    found = []
    texts = [candidates[name] for name in _OPEN_TEXTS]
    clean = [[now == text for now, text in zip(redact_all(each)[0], each, strict=True)] for each in texts]
    shares = grounding(candidates, messages, answered)
    for share, row, *is_clean in zip(shares, candidates.select(_JUDGED).iter_rows(named=True), *clean, strict=True):
        checks = _checks(row, all(is_clean), content_gate)
        known = [check for check in checks.values() if check is not None]
        quality = sum(known) / len(known)
        confidence = row["confidence"]
        if confidence is not None and share < settings.grounding_ratio:
            confidence *= settings.ungrounded_factor
        failed = None
        if quality < settings.min_quality or not all(checks[name] for name in _HARD):
            failed = next(name for name, check in checks.items() if check is False)
        elif confidence is not None and confidence < settings.min_confidence:
            failed = "confidence"
        found.append(
            {
                "id": row["id"],
                "confidence": confidence,
                "grounding": share,
                "quality": quality,
                "failed": failed,
                "passes": failed is None,
                "reason": _SENTENCES[failed] if failed else None,
            }
        )
    return found


def _checks(row: Row, is_clean: bool, content_gate: float) -> dict[str, bool | None]:
    """The seven checks of S3-09c, in the order in which a failure is named; None where a check is not possible."""
    statement, score = row["statement"] or "", row["content_score"]
    alnum = sum(letter.isalnum() or category(letter)[0] == "M" for letter in statement)
    return {
        "self_loop": row["object_id"] is None or row["subject_id"] != row["object_id"],
        "secret": is_clean,
        "length": MIN_STATEMENT_BYTES <= len(statement.encode()) <= MAX_STATEMENT_BYTES,
        "alnum": alnum / max(len(statement), 1) >= MIN_ALNUM_RATIO,
        "ends": bool(row["subject_id"] and row["predicate"]),
        "declarative": not _QUESTION.search(statement.strip()),
        "content": None if score is None else score >= content_gate,
    }


def _refusals(rejected: pl.DataFrame, verdicts: Sequence[Row], settings: EvaluateSettings) -> pl.DataFrame:
    rows = []
    for row, statement in zip(verdicts, rejected["statement"], strict=True):
        is_unsure = row["failed"] == "confidence"
        rows.append(
            {
                "id": row_id("r", "fact", row["id"]),
                "subject_kind": "fact",
                "subject_id": row["id"],
                "gate": "evaluation",
                "reason": row["reason"],
                "measure": row["confidence"] if is_unsure else row["quality"],
                "threshold": settings.min_confidence if is_unsure else settings.min_quality,
                "teaches": False,
                "excerpt": (statement or "")[:500],
            }
        )
    return pl.DataFrame(rows, schema=dict(frames.REFUSALS)) if rows else frames.empty(frames.REFUSALS)


def _batch_states(batches: pl.DataFrame, judged: pl.Series, passes: pl.Series) -> pl.DataFrame:
    """The batches as `approved` if one candidate passes, else `rejected` (S3-10, S3-12); others are left out."""
    counts = dict.fromkeys(judged, 0)
    for batch in judged.filter(passes):
        counts[batch] += 1
    known = batches[[place for place, id_ in enumerate(batches["id"]) if id_ in counts]]
    passed = [counts[id_] for id_ in known["id"]]
    states = ["approved" if count else "rejected" for count in passed]
    return known.with_columns(pl.Series("passed", passed, pl.Int64), pl.Series("state", states, pl.String))

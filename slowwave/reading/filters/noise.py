"""Messages that are refused before they become knowledge, with gate and reason (SEMANTICS §5.3, §6.5)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.common.lexicon import words_of
from slowwave.common.lexicon.languages import ENGLISH, language_of
from slowwave.common.settings import NoiseSettings
from slowwave.common.text import SYLLABIC

from .novelty import EXCHANGE_COSINE, plan_repeats

# Phrases of small talk, procedure and findings, and example texts of value and noise: English first, with the
# commonest in Spanish and German; all lower case, straight apostrophes.


def _listed(table: str) -> tuple[str, ...]:
    return tuple(" ".join(phrase.split()) for phrase in table.split("|"))


# Replies without content of their own (S4-11). Replies that can answer a question are separate.
ASSENTS = _listed(words_of("assents"))
THANKS = _listed(words_of("thanks"))

# Phrases for the announcement or report of a step (S4-11); matched at the start of an assistant's message.
PROCEDURAL_OPENERS = (
    r"^(?:i'll |i will |i've |i have |i looked at|i(?:'ve| have)? ?(?:made|updated|changed|added|removed|fixed|"
    r"created|modified|"
    r"implemented|wrote|ran)\b|i (?:made|updated|changed|added|removed|fixed|created|modified|implemented|wrote|"
    r"ran)\b|"
    r"let me (?:look|check|read|see)\b|sure! |sure, (?:i|let)|of course|done! |done\.|done$|absolutely|"
    r"voy a |he (?:hecho|actualizado|cambiado|añadido)|por supuesto|claro, |ich werde |ich habe |natürlich|gerne)"
)

# Words that announce a finding (S4-12).
FINDINGS = _listed(words_of("findings"))

# Texts worth keeping: work first, then the lives of people (S4-16).
QUALITY_PROTOTYPES = _listed(words_of("quality_prototypes"))
# Three of each kind, so that the three nearest can all be of the kind that a text is like.
NOISE_PROTOTYPES = _listed(words_of("noise_prototypes"))


# Scores: the similarity of a text to valuable texts and to noise (S4-16, S4-18, S4-22).

Vectors = npt.NDArray[np.float32]

TEACHING_GATES = ("pre_filter", "durability")  # a refusal by score must not teach the score (T19)
_SAME = 0.95
_BLOCK = 8192


class Prototypes(NamedTuple):
    """Example texts of value and of noise; the caller embeds them."""

    quality: tuple[str, ...]
    noise: tuple[str, ...]


def prototype_texts(settings: NoiseSettings | None = None) -> Prototypes:
    """The prototypes of the settings, else the built-in ones."""
    settings = settings or NoiseSettings()
    return Prototypes(settings.quality_prototypes or QUALITY_PROTOTYPES, settings.noise_prototypes or NOISE_PROTOTYPES)


@dataclass(frozen=True, slots=True, eq=False)
class ContentScorer:
    """Scores texts by their vectors; `quality` and `noise` are unit rows, `noise` with the learned ones."""

    quality: Vectors
    noise: Vectors
    top_k: int = 3

    def score(self, vectors: Vectors) -> npt.NDArray[np.float64]:
        """q / (q + n) in [0, 1] per row: q the mean cosine to quality, n the mean of the nearest noise (S4-16)."""
        if not len(vectors) or not len(self.quality) or not len(self.noise):
            return np.full(len(vectors), 0.5)
        worth = vectors.astype(np.float64) @ self.quality.mean(axis=0).astype(np.float64)
        noise = np.concatenate(
            [self._noise(vectors[start : start + _BLOCK]) for start in range(0, len(vectors), _BLOCK)]
        )
        total = worth + noise
        ratio = np.divide(worth, total, out=np.full(len(vectors), 0.5), where=total > 0)
        return np.asarray(np.clip(ratio, 0.0, 1.0), dtype=np.float64)

    def _noise(self, vectors: Vectors) -> npt.NDArray[np.float64]:
        near = (vectors @ self.noise.T).astype(np.float64)
        k = min(self.top_k, near.shape[1])
        return np.asarray(np.partition(near, near.shape[1] - k, axis=1)[:, -k:].mean(axis=1), dtype=np.float64)


class LearnedNoise(NamedTuple):
    """Noise prototypes learned from refusals, newest first."""

    texts: tuple[str, ...]
    vectors: Vectors


def is_relearning_due(teaching_count: int, learned_at: int, settings: NoiseSettings) -> bool:
    """Whether `rebuild_every` refusals have come since the last rebuild (T17), or some are gone: they must not teach.

    `teaching_count` is the number of teaching refusals, `learned_at` that number at the last rebuild.
    """
    return not 0 <= teaching_count - learned_at < settings.rebuild_every


def plan_prototypes(ring: pl.DataFrame, defaults: Vectors, settings: NoiseSettings) -> LearnedNoise:
    """The learned prototypes, rebuilt from the ring of refusals.

    The ring, newest first, has `text`, `gate` and `vector`; `defaults` are the unit rows of the built-in noise, which
    always stay beside the learned ones (T19).
    """
    teaches = pl.col("gate").is_in(TEACHING_GATES) & pl.col("vector").is_not_null()
    newest = ring.filter(teaches).head(settings.max_learned)
    texts: Sequence[str] = newest["text"].to_list()
    vectors = np.array(newest["vector"].to_list(), dtype=np.float32).reshape(len(texts), defaults.shape[1])
    kept = _distinct(vectors, defaults)
    return LearnedNoise(tuple(texts[row] for row in kept), vectors[kept])


def _distinct(vectors: Vectors, known: Vectors) -> list[int]:
    """Rows that are not nearly equal to a known one or to an earlier kept row."""
    alike = vectors @ vectors.T >= _SAME
    fresh = ~(vectors @ known.T >= _SAME).any(axis=1) & vectors.any(axis=1)
    kept: list[int] = []
    for row in np.flatnonzero(fresh):
        if not alike[row, kept].any():
            kept.append(int(row))
    return kept


def group_topics(vectors: Vectors, lengths: npt.NDArray[np.integer], settings: NoiseSettings) -> npt.NDArray[np.int64]:
    """Group number of each consecutive passage: a new group on a new topic or if it gets too long (S4-22)."""
    turns = np.ones(len(vectors), dtype=bool)
    turns[1:] = np.einsum("ij,ij->i", vectors[1:], vectors[:-1]) < settings.topic_boundary
    groups = np.zeros(len(vectors), dtype=np.int64)
    group, size = -1, 0
    for row, (turn, length) in enumerate(zip(turns.tolist(), np.asarray(lengths).tolist(), strict=True)):
        if turn or size + length > settings.max_group_chars:
            group, size = group + 1, 0
        groups[row], size = group, size + length
    return groups


_FENCE = r"(?s)```.*?(?:```|\z)"
_SPOKEN = r"[\p{L}\p{M}\p{N}]"
_FINDING_CHARS = 500
_TALK = ("user", "assistant")
_SEQUENCE = ("role", "speaker", "scope", "content", "occurred_at")


@cache
def _acknowledgement(phrases: tuple[str, ...]) -> str:
    """A pattern for messages of only these phrases, up to six of them, with any punctuation around."""
    one = "|".join(sorted(map(re.escape, phrases), key=len, reverse=True))
    # Punctuation and emoji do not count, but digits and letters of any script do.
    gap = r"[^\p{L}\p{M}\p{N}]"
    return rf"^{gap}*(?:(?:{one})(?:{gap}+|$)){{1,6}}$"


def only_acknowledges(texts: pl.Series) -> pl.Series:
    """Whether each text only assents, thanks or greets: "ok thanks", "great, thank you!"."""
    straight = pl.col("text").str.replace_all("[’‘]", "'").str.to_lowercase()
    is_only = straight.str.contains(_acknowledgement((*ASSENTS, *THANKS)))
    return texts.rename("text").to_frame().select(is_only)["text"]


def plan_gates(
    messages: pl.DataFrame,
    vectors: Vectors,
    accepted: Vectors,
    accepted_messages: pl.DataFrame,
    scorer: ContentScorer | None,
    settings: NoiseSettings,
) -> pl.DataFrame:
    """One row per message in the same order: `gate` (null where it passes), `reason`, `measure`, `threshold`,
    `content_score`, `similar_to_id`, `teaches`.

    `messages` has id, conversation_id, ordinal, role, speaker, content (redacted), occurred_at, scope, has_injection;
    `vectors` their unit rows. `accepted_messages` and `accepted` are the newest accepted ones in order of time.
    A message of role user is refused only if it is empty of content or a repetition: stories of people's lives are too
    near to small talk for a score. A repetition names its original, so that it counts as evidence.
    """
    frame = _with_exchanges(_read(messages))
    frame = frame.with_columns(
        content_score=pl.Series(scorer.score(vectors), dtype=pl.Float64) if scorer else pl.lit(None, pl.Float64),
        verdict=pl.coalesce(_early_gates(settings)),
    )
    frame = _with_repeats(frame, vectors, accepted, accepted_messages, settings)
    said_again = pl.col("original_id").is_not_null(), "It says again what was said a moment ago."
    repeat = _gate("repeat", *said_again, pl.col("repeat_cosine"), EXCHANGE_COSINE)
    frame = frame.with_columns(pl.coalesce("verdict", repeat, _content_gate(settings)))
    verdict = pl.col("verdict").struct
    return frame.select(
        *(verdict.field(name) for name in ("gate", "reason", "measure", "threshold")),
        content_score="content_score",
        similar_to_id=pl.when(verdict.field("gate") == "repeat").then(pl.col("original_id")),
        teaches=(verdict.field("gate") == "pre_filter").fill_null(False) & pl.col("is_spoken"),
    )


def _read(messages: pl.DataFrame) -> pl.DataFrame:
    """Adds the marks for the gates: text without code, is_spoken, is_assent, is_thanks, opens, asks and finds."""
    text = pl.col("content").fill_null("").str.replace_all(_FENCE, " ").str.strip_chars()
    small = pl.col("small")
    return (
        messages.with_row_index("row")
        .with_columns(text=text)
        .with_columns(small=pl.col("text").str.replace_all("[’‘]", "'").str.to_lowercase())
        .with_columns(
            is_english=pl.col("text").map_elements(lambda text: language_of([text]) == ENGLISH, pl.Boolean),
            is_spoken=pl.col("content").fill_null("").str.contains(_SPOKEN),
            is_assent=small.str.contains(_acknowledgement((*ASSENTS, *THANKS))),
            is_thanks=small.str.contains(_acknowledgement(THANKS)),
            opens=small.str.contains(PROCEDURAL_OPENERS),
            asks=small.str.contains(r"[?？]"),
            finds=small.str.slice(0, _FINDING_CHARS).str.contains_any([*FINDINGS]),
        )
    )


def _with_exchanges(frame: pl.DataFrame) -> pl.DataFrame:
    """Adds the neighbours in the talk: `partner` (row of the other half of an exchange), its marks, `answers`."""
    talk = frame.filter(pl.col("role").is_in(_TALK)).sort(["conversation_id", "ordinal", "row"])
    after, before = pl.col("role").shift(-1).over("conversation_id"), pl.col("role").shift(1).over("conversation_id")
    asks_here = (pl.col("role") == "user") & (after == "assistant")
    answers_here = (pl.col("role") == "assistant") & (before == "user")

    def of_partner(column: str) -> pl.Expr:
        then, ago = pl.col(column).shift(-1).over("conversation_id"), pl.col(column).shift(1).over("conversation_id")
        return pl.when(asks_here).then(then).when(answers_here).then(ago)

    talk = talk.select(
        "row",
        partner=of_partner("row"),
        partner_opens=of_partner("opens"),
        partner_assents=of_partner("is_assent"),
        partner_finds=of_partner("finds"),
        answers=pl.col("asks").shift(1).over("conversation_id"),
    )
    flags = ("partner_opens", "partner_assents", "partner_finds", "answers")
    return frame.join(talk, on="row", how="left", maintain_order="left").with_columns(
        [pl.col(flag).fill_null(False) for flag in flags]
    )


def _gate(
    name: str, refused: pl.Expr, reason: str, measure: pl.Expr | None = None, threshold: float | None = None
) -> pl.Expr:
    """A verdict if the gate refuses, else null."""
    return pl.when(refused).then(
        pl.struct(
            pl.lit(name).alias("gate"),
            pl.lit(reason).alias("reason"),
            (measure if measure is not None else pl.lit(None)).cast(pl.Float64).alias("measure"),
            pl.lit(threshold, pl.Float64).alias("threshold"),
        )
    )


def _letters(text: pl.Expr) -> pl.Expr:
    """Characters of a text; one that is a syllable or a word counts as three."""
    return text.str.len_chars() + 2 * text.str.count_matches(SYLLABIC.pattern)


def _early_gates(settings: NoiseSettings) -> list[pl.Expr]:
    """Role, injection, pre-filter, length and passage, in this order; a finding passes the pre-filter (S4-12)."""
    role, found = pl.col("role"), pl.col("finds") | pl.col("partner_finds")
    is_user, is_assistant = role == "user", role == "assistant"
    exchange = (is_user & pl.col("is_assent") & pl.col("partner_opens")) | (
        is_assistant & pl.col("opens") & pl.col("partner_assents")
    )
    # "Yes" has no content, unless it answers a question of another person.
    alone = is_user & pl.col("is_spoken") & (pl.col("is_thanks") | (pl.col("is_assent") & ~pl.col("answers")))
    chars = _letters(pl.col("text"))
    passage = role == "document"
    whole = pl.when(passage).then(pl.col("content").fill_null("")).otherwise(pl.lit("")).str.strip_chars()
    visible = whole.str.replace_all(r"\s+", " ")
    share = visible.str.count_matches(_SPOKEN) / visible.str.len_chars().clip(1)
    shortest, floor = settings.min_assistant_chars, settings.min_alnum_ratio
    return [
        _gate(
            "role",
            ~role.is_in([*_TALK, "document"]),
            "It is the output of a tool or a system message, not something somebody said.",
        ),
        _gate("injection", pl.col("has_injection").fill_null(False), "It tries to give its reader orders."),
        _gate("pre_filter", role.is_in(_TALK) & ~pl.col("is_spoken"), "It holds no words."),
        _gate("pre_filter", exchange & ~found, "A go-ahead and the announcement of a step: nothing to remember."),
        _gate("pre_filter", alone & ~found, "A bare acknowledgement says nothing to remember."),
        _gate(
            "length",
            is_assistant & ~found & (chars < shortest),
            f"An answer of fewer than {shortest} characters without its code.",
            chars,
            shortest,
        ),
        _gate(
            "length",
            passage & (_letters(whole) < settings.min_chunk_chars),
            f"A passage of fewer than {settings.min_chunk_chars} characters.",
            _letters(whole),
            settings.min_chunk_chars,
        ),
        _gate(
            "content",
            passage & (share < floor),
            f"Fewer than {floor:.0%} of the passage are letters and digits.",
            share,
            floor,
        ),
    ]


def _content_gate(settings: NoiseSettings) -> pl.Expr:
    found = pl.col("finds") | pl.col("partner_finds")
    low = (pl.col("content_score") < settings.content_gate).fill_null(False)
    return _gate(
        "content",
        (pl.col("role") == "assistant") & pl.col("is_english") & ~found & low,  # as the examples of noise are
        "It is nearer to small talk and offers of help than to anything worth keeping.",
        pl.col("content_score"),
        settings.content_gate,
    )


def _with_repeats(
    frame: pl.DataFrame, vectors: Vectors, accepted: Vectors, accepted_messages: pl.DataFrame, settings: NoiseSettings
) -> pl.DataFrame:
    """Adds `original_id` and `repeat_cosine` to repetitions; an exchange repeats whole or not at all."""
    window = 2 * settings.exchange_window  # an exchange is two messages
    fresh = frame.filter(pl.col("verdict").is_null() & pl.col("role").is_in(_TALK)).sort(
        ["occurred_at", "conversation_id", "ordinal", "row"]
    )
    past = accepted_messages.tail(window).with_columns(answers=pl.lit(False)) if window else accepted_messages.clear()
    if not window or fresh.is_empty():
        return frame.with_columns(original_id=pl.lit(None, pl.String), repeat_cosine=pl.lit(None, pl.Float64))
    columns = [*_SEQUENCE, "id", "answers"]
    sequence = pl.concat([past.select(columns), fresh.select(columns)], how="vertical_relaxed")
    rows = np.concatenate([np.full(len(past), -1), fresh["row"].to_numpy().astype(np.int64)])
    every = (
        np.concatenate([accepted[len(accepted) - len(past) :], vectors[rows[len(past) :]]])
        if len(past)
        else vectors[rows]
    )
    found = plan_repeats(sequence, every, len(past), settings)
    repeats = pl.DataFrame(
        {
            "row": pl.Series(rows[found["row"].to_numpy()], dtype=frame.schema["row"]),
            "original_id": sequence["id"].gather(found["original"]),
            "repeat_cosine": found["cosine"],
        }
    )
    waiting = fresh.select("row", "partner")
    halves = repeats.join(waiting, on="row", how="left").filter(
        ~pl.col("partner").is_in(waiting["row"].implode()).fill_null(False)
        | pl.col("partner").is_in(repeats["row"].implode())
    )
    return frame.join(halves.drop("partner"), on="row", how="left", maintain_order="left")

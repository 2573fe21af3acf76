"""The novelty of a message: its distance from the last turns and names of its conversation (S2-72)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.common.comparison.guards import guards_pass, is_time_bound
from slowwave.common.comparison.similarity import NEAR, Vectors, near_rows, word_overlap
from slowwave.common.settings import NoiseSettings, SurpriseSettings
from slowwave.common.text import normalise_statement

RECENT_TURNS = 10
RECENT_NAMES = 200


@dataclass(frozen=True, slots=True, eq=False)
class SurpriseState:
    """The last turns and names of one conversation; stored between runs (T46)."""

    recent_names: tuple[str, ...] = ()
    recent_turns: Vectors = field(default_factory=lambda: np.empty((0, 0), np.float32))
    consecutive_skips: int = 0


class SurprisePlan(NamedTuple):
    """`decisions`: `surprise`, `extract` per message in the order given; `states` after them."""

    decisions: pl.DataFrame
    states: Mapping[str, SurpriseState]


def score_surprise(vector: Vectors, names: tuple[str, ...], state: SurpriseState) -> float:
    """Half 1 − highest cosine to the last ten turns, half the share of new names; in [0, 1], 1.0 without a past."""
    if not len(state.recent_turns):
        return 1.0
    nearest = max(0.0, float((state.recent_turns @ vector).max()))
    seen = set(state.recent_names)
    novelty = sum(name not in seen for name in names) / len(names) if names else 0.0
    return 0.5 * max(0.0, 1.0 - nearest) + 0.5 * novelty


def plan_surprise(
    messages: pl.DataFrame, vectors: Vectors, states: Mapping[str, SurpriseState], settings: SurpriseSettings
) -> SurprisePlan:
    """The messages to extract; each conversation separately, in order of its ordinals (T47).

    `messages` has `conversation_id`, `ordinal` and `names`, in lower case; `vectors` its unit rows. Every message
    changes the state, extracted or not. After `max_skip_turns` skips in a row the next message is forced.
    """
    after = dict(states)
    decided: list[tuple[float | None, bool]] = [(None, True)] * len(messages)
    order = messages.with_row_index("row").sort(["conversation_id", "ordinal", "row"])
    for row, conversation, named in order.select("row", "conversation_id", "names").iter_rows():
        state, vector = after.get(conversation, SurpriseState()), vectors[row]
        names = tuple(named)
        score = score_surprise(vector, names, state)
        decided[row] = (score, score >= settings.threshold or state.consecutive_skips >= settings.max_skip_turns)
        turns = np.concatenate([state.recent_turns.reshape(-1, len(vector)), vector[None, :]])[-RECENT_TURNS:]
        skips = 0 if decided[row][1] else state.consecutive_skips + 1
        after[conversation] = SurpriseState((*state.recent_names, *names)[-RECENT_NAMES:], turns, skips)
    schema = {"surprise": pl.Float64, "extract": pl.Boolean}
    return SurprisePlan(pl.DataFrame(decided, schema=schema, orient="row"), after)


# Repetitions of recent messages (S4-14); similarity alone is never enough (T29).


EXCHANGE_COSINE = 0.85  # from which an exchange repeats a recent one (S4-14)
_SAME_WORDS = 0.85
_SAME_SUBJECT = 0.5  # a cosine from which two messages may be about one thing
_NEAREST = 4  # originals looked at per message: bounds the work on a flood of near-equal messages


def plan_repeats(sequence: pl.DataFrame, vectors: Vectors, first_new: int, settings: NoiseSettings) -> pl.DataFrame:
    """The repetitions in `sequence` from row `first_new` on: columns `row`, `original` (row numbers), `cosine`.

    `sequence` is in order of time, earlier accepted messages first, and has `role`, `speaker`, `scope`, `content`,
    `occurred_at` and `answers` (it replies to a question: the same words may answer another one). A message repeats an
    accepted one of the last `exchange_window` exchanges if it has nearly the same words of the same person, all guards
    agree, neither is relative to its own day, and the person stated nothing else about the subject in between.
    """
    voice = sequence.select(pl.struct("role", "speaker", "scope").rank("dense"))["role"].to_numpy()
    pairs = _near_pairs(sequence, vectors, voice, first_new, settings)
    pairs = _same_statement(sequence, pairs)
    same = set(zip(pairs["row"].to_list(), pairs["original"].to_list(), strict=True))
    repeats: dict[int, tuple[int, float]] = {}
    for row, original, cosine, is_equal in pairs.sort(["row", "original"], descending=[False, True]).iter_rows():
        # An equal of a repetition repeats the same original; a merely similar one might drift away from it.
        if (
            row in repeats
            or (original in repeats and not is_equal)
            or _is_interrupted(vectors, voice, row, original, same)
        ):
            continue
        repeats[row] = (repeats[original][0] if original in repeats else original, cosine)
    schema = {"row": pl.Int64, "original": pl.Int64, "cosine": pl.Float64}
    return pl.DataFrame([(row, *found) for row, found in repeats.items()], schema=schema, orient="row")


def _near_pairs(
    sequence: pl.DataFrame, vectors: Vectors, voice: npt.NDArray[np.integer], first_new: int, settings: NoiseSettings
) -> pl.DataFrame:
    """Pairs within the window, of one voice and scope, whose cosine reaches the threshold."""
    free = ~sequence["answers"]
    window = 2 * settings.exchange_window  # an exchange is two messages
    found = near_rows(vectors, EXCHANGE_COSINE, voice, first_new, window)
    near = pl.concat([pl.DataFrame(schema=NEAR), *found])
    pairs = near.filter(free.gather(near["b"])).select(
        pl.col("cosine"), row=pl.col("b").cast(pl.Int64), original=pl.col("a").cast(pl.Int64)
    )
    nearest = pairs.sort(["row", pl.col("cosine").round(4), "original"], descending=[False, True, True])
    return nearest.group_by("row", maintain_order=True).head(_NEAREST)


def _same_statement(sequence: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    """The pairs that are equal but for case, spaces and outer marks, or share nearly all words and pass every guard."""
    text, day = sequence["content"], sequence["occurred_at"].dt.date()
    both = pairs.with_columns(
        text=text.gather(pairs["row"]),
        text_b=text.gather(pairs["original"]),
        is_one_day=(day.gather(pairs["row"]) == day.gather(pairs["original"])).fill_null(False),
    )
    both = both.filter(word_overlap(both["text"], both["text_b"])["jaccard"] >= _SAME_WORDS)
    both = both.filter(pl.col("is_one_day") | ~(is_time_bound(both["text"]) | is_time_bound(both["text_b"])))
    agrees = guards_pass(both["text"], both["text_b"])["passes"]
    normal = [both[side].map_elements(normalise_statement, return_dtype=pl.String) for side in ("text", "text_b")]
    asks = [both[side].str.contains(r"[?？]") for side in ("text", "text_b")]
    both = both.with_columns(is_equal=(normal[0] == normal[1]) & (asks[0] == asks[1]))
    return both.filter(agrees | pl.col("is_equal")).select("row", "original", "cosine", "is_equal")


def _is_interrupted(
    vectors: Vectors, voice: npt.NDArray[np.integer], row: int, original: int, same: set[tuple[int, int]]
) -> bool:
    """Whether the same voice changed the subject in between: vim, neovim and vim again is a change."""
    if row - original < 2:
        return False
    between = slice(original + 1, row)
    near = (
        np.flatnonzero((vectors[between] @ vectors[row] >= _SAME_SUBJECT) & (voice[between] == voice[row]))
        + original
        + 1
    )
    return any((row, int(other)) not in same for other in near)

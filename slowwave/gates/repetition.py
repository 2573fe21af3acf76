"""Which messages only say again what was said a moment ago (S4-14), and never because of likeness alone (T29)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.merging.guards import guards_pass, is_time_bound
from slowwave.settings import NoiseSettings
from slowwave.similarity import word_overlap
from slowwave.text import normalise_statement

Vectors = npt.NDArray[np.float32]

_SAME_WORDS = 0.85
_SAME_SUBJECT = 0.5  # a cosine from which two messages may be about one thing
_NEAREST = 4  # originals looked at per message: bounds the work on a flood of near-equal messages
_BLOCK = 128


def plan_repeats(sequence: pl.DataFrame, vectors: Vectors, first_new: int, settings: NoiseSettings) -> pl.DataFrame:
    """The repetitions in `sequence` from row `first_new` on: columns `row`, `original` (row numbers), `cosine`.

    `sequence` is in order of time, earlier accepted messages first, and has `role`, `speaker`, `scope`, `content`,
    `occurred_at` and `answers` (it replies to a question: the same words may answer another one). A message repeats an
    accepted one in the last `exchange_window` exchanges if the same person said nearly the same words, all guards
    agree, neither speaks relative to its own day, and nothing else about the matter was said in between.
    """
    voice = sequence.select(pl.struct("role", "speaker", "scope").rank("dense"))["role"].to_numpy()
    pairs = _near_pairs(sequence, vectors, voice, first_new, settings)
    pairs = _same_statement(sequence, pairs)
    same = set(zip(pairs["row"].to_list(), pairs["original"].to_list(), strict=True))
    repeats: dict[int, tuple[int, float]] = {}
    for row, original, cosine, is_equal in pairs.sort(["row", "original"], descending=[False, True]).iter_rows():
        # What equals a repetition repeats the same original; what is only near one might drift away from it.
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
    free = ~sequence["answers"].to_numpy()
    window = 2 * settings.exchange_window  # an exchange is two messages
    found: list[pl.DataFrame] = []
    for start in range(first_new, len(vectors), _BLOCK):
        begin = max(0, start - window)
        products = vectors[start : start + _BLOCK] @ vectors[begin : start + _BLOCK].T
        row, original = np.nonzero(products >= settings.exchange_similarity)
        cosine = products[row, original]
        row, original = row + start, original + begin
        keep = (original < row) & (row - original <= window) & (voice[row] == voice[original]) & free[row]
        found.append(
            pl.DataFrame({"row": row[keep], "original": original[keep], "cosine": cosine[keep].astype(np.float64)})
        )
    schema = {"row": pl.Int64, "original": pl.Int64, "cosine": pl.Float64}
    pairs = pl.concat(found) if found else pl.DataFrame(schema=schema)
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
    """Whether the same voice said something else about the matter in between: vim, neovim and vim again is a change."""
    if row - original < 2:
        return False
    between = slice(original + 1, row)
    near = (
        np.flatnonzero((vectors[between] @ vectors[row] >= _SAME_SUBJECT) & (voice[between] == voice[row]))
        + original
        + 1
    )
    return any((row, int(other)) not in same for other in near)

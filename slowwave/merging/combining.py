"""Combining: two notes that become one keep every word of both (S4-09)."""

from __future__ import annotations

import polars as pl

from slowwave.application.patches import MAX_STATEMENT_BYTES, content_stems

LEAST_OVERLAP = 20  # characters; a shorter overlap may be chance


def combine(keep: str, drop: str, least_overlap: int = LEAST_OVERLAP) -> str:
    """One text that contains both.

    The longer one where it contains the other. Else the two joined where one ends as the other begins, over at least
    `least_overlap` characters and as many as there are; that `keep` comes first is tried first. Else the longer one, a
    blank line, the shorter one.
    """
    longer, shorter = (keep, drop) if len(keep) >= len(drop) else (drop, keep)
    if shorter in longer:
        return longer
    for first, second in ((keep, drop), (drop, keep)):
        if shared := _overlap(first, second, max(least_overlap, 1)):
            return first + second[shared:]
    return f"{longer}\n\n{shorter}"


def _overlap(first: str, second: str, least: int) -> int:
    """Characters of the longest end of the first text that begins the second; 0 where there are fewer than `least`."""
    lengths = range(min(len(first), len(second)), least - 1, -1)
    return next((length for length in lengths if first.endswith(second[:length])), 0)


def combined_notes(pairs: pl.DataFrame) -> dict[str, str]:
    """The new text of each note (id, keep) that drops others (drop), where one of them has a word that it lacks.

    Notes that only differ in endings, articles or marks go on as they are: nothing would be gained but a repetition. So
    do those whose texts together would be longer than a statement may be.
    """
    lacks = content_stems("drop").list.set_difference(content_stems("keep")).list.len() > 0
    texts: dict[str, str] = {}
    for id_, keep, drop in pairs.filter(lacks).select("id", "keep", "drop").iter_rows():
        text = combine(texts.get(id_, keep), drop)
        if len(text.encode()) <= MAX_STATEMENT_BYTES:
            texts[id_] = text
    kept = dict(pairs.select("id", "keep").iter_rows())
    return {id_: text for id_, text in texts.items() if text != kept[id_]}

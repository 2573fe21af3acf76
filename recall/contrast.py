"""Contrast: how near facts are to a question in meaning, told apart from what all that is near shares."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from storage.residents import Row

from .order import is_quotation
from .question import Vector

CENTRE, NEAREST, FEW = 0.625, 100, 50
"""How far towards the middle of so many nearest facts meaning is seen from; FEW have no middle."""


def contrasted(vectors: Vector, vector: Vector, rows: Sequence[Row]) -> list[float]:
    """Cosines of facts to the question; of those that a model read, both seen from near the middle of the nearest.

    What all of these share, the people and their matter, is no sign of an answer. On the scale of plain cosines.
    """
    cosines = np.array(cosines_of(vectors, vector))
    is_read = np.array([not is_quotation(row["statement"]) for row in rows], dtype=bool) & vectors.any(axis=1)
    read = np.flatnonzero(is_read)
    if len(read) >= FEW:
        first = np.argsort(-cosines[read], kind="stable")[:NEAREST]  # places among those that were read
        nearest = read[first]
        middle = CENTRE * vectors[nearest].mean(axis=0, dtype=np.float64)
        seen, wanted = vectors[read] - middle, vector - middle
        apart = seen @ wanted / (np.linalg.norm(seen, axis=1) * np.linalg.norm(wanted))
        scale = cosines[nearest].std() / max(apart[first].std(), 1e-9)
        cosines[read] = cosines[nearest].mean() + (apart - apart[first].mean()) * scale
    contrast: list[float] = cosines.round(6).tolist()
    return contrast


def cosines_of(vectors: Vector, vector: Vector) -> list[float]:
    """Of vectors (n, d) to one; 0 for rows of zeros.

    Rounded, so that equal rows tie wherever they lie, and from double precision, so that they are rounded alike.
    """
    cosines: list[float] = (vectors.astype(np.float64) @ vector.astype(np.float64)).round(6).tolist()
    return cosines

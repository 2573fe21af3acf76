"""All pairs of unit vectors above a cosine, exactly, without ever holding the whole matrix of products.

Rows are turned so that their first few coordinates hold most of their length. What the rest can add to a product is at
most the product of the two remaining lengths (Cauchy–Schwarz), and that product is one more coordinate: a narrow matrix
product gives an upper bound of every cosine, and only pairs whose bound passes are looked at in full.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int32]

_STRIPE, _TILE = 1024, 4096  # rows and columns of one product of matrices: 16 MiB
_SLACK = 1e-4  # more than float32 loses in a product of a few thousand coordinates
_GATHERED = 2048  # pairs looked at in full at once: their vectors stay in the cache
_PENDING = 4_000_000  # pairs held before the best are chosen among them
_DENSE = 0.05  # share of a tile from which its whole product is cheaper than pair by pair
_LEAST = 1e-6  # what is at right angles, as zero rows are to all, is never close
_SMALL = 4_000_000  # products below which finding the best bound costs more than it saves
_SAMPLE = 20_000
_PREFIXES = (31, 47, 63, 95, 127, 191)
# Nanoseconds of a product per coordinate, and of one pair in full: only their ratio matters.
_COORDINATE_NS, _PAIR_NS = 0.0115, 200.0


class ClosePairs(NamedTuple):
    """Row numbers of pairs, first < second, and their cosines; in the order of the rows."""

    first: Rows
    second: Rows
    cosine: Vectors


def close_pairs(vectors: Vectors, seeds: int, threshold: float, per_seed: int, per_row: int) -> ClosePairs:
    """Pairs with cosine ≥ `threshold` of which at least one is among the first `seeds` rows of `vectors` (n, d).

    Of the rows behind the seeds each seed keeps its best `per_row`; a pair of seeds stays where it is among the best
    `per_seed` of either. Best is the higher cosine, then the lower row. Zero rows have no pairs. Memory is bounded by
    the narrow copy, (per_seed / 2 + per_row) pairs a seed, and a constant.
    """
    kept = _Kept(len(vectors), seeds, np.float32(max(threshold, _LEAST)), per_seed, per_row)
    bounds = _upper_bounds(vectors, seeds, threshold)
    room = np.empty((_STRIPE, _TILE), dtype=np.float32)
    for start in range(0, seeds, _STRIPE):
        rows = slice(start, min(start + _STRIPE, seeds))
        for column in range(start, len(vectors), _TILE):
            kept.take(_tile(rows, slice(column, column + _TILE), vectors, bounds, kept, room))
    return kept.best()


class _Kept:
    """The best pairs seen so far, and how good a pair must be to become one of them."""

    def __init__(self, rows: int, seeds: int, threshold: np.float32, per_seed: int, per_row: int) -> None:
        self.seeds, self.threshold = seeds, threshold
        self._limits = (per_seed, per_row)
        self._parts: list[ClosePairs] = []
        self._pending = 0  # since the best were last chosen
        # What the worst kept pair of a row has, once it keeps as many as it may: against seeds, and against others.
        self.least = np.full((2, rows), threshold, dtype=np.float32)

    def may_stay(self, first: Rows, second: Rows, bound: Vectors) -> npt.NDArray[np.bool_]:
        """Whether pairs can still be among the best, given what their cosines are at most."""
        among_seeds = np.minimum(self.least[0][first], self.least[0][second])
        least = np.where(second < self.seeds, among_seeds, self.least[1][first])
        passes: npt.NDArray[np.bool_] = bound >= least - np.float32(_SLACK)
        return passes

    def take(self, found: ClosePairs) -> None:
        """Add pairs; choose the best as soon as too many are held."""
        if len(found.first):
            self._parts.append(found)
            self._pending += len(found.first)
        if self._pending > _PENDING:
            self._cut()

    def best(self) -> ClosePairs:
        """The best of all pairs."""
        self._cut()
        return self._parts[0]

    def _cut(self) -> None:
        whole = ClosePairs(
            np.concatenate([np.empty(0, np.int32), *(part.first for part in self._parts)]),
            np.concatenate([np.empty(0, np.int32), *(part.second for part in self._parts)]),
            np.concatenate([np.empty(0, np.float32), *(part.cosine for part in self._parts)]),
        )
        stays = best_of(*whole, self.seeds, *self._limits, self.least)
        self._parts = [ClosePairs(whole.first[stays], whole.second[stays], whole.cosine[stays])]
        self._pending = 0


def best_of(
    first: Rows,
    second: Rows,
    measure: npt.NDArray[np.floating],
    seeds: int,
    per_seed: int,
    per_row: int,
    least: Vectors | None = None,
) -> npt.NDArray[np.int64]:
    """Places of the pairs that stay, ordered by (first, second); the rule of `close_pairs` for any measure.

    Where given, `least` (2, n) is raised to the measure of each row's last place against seeds, and against others.
    """
    stays = np.zeros(len(first), dtype=bool)
    is_inner = second < seeds
    inner, outer = np.flatnonzero(is_inner), np.flatnonzero(~is_inner)
    both_ways = (np.concatenate([first[inner], second[inner]]), np.concatenate([second[inner], first[inner]]))
    places = _first_places(*both_ways, np.tile(measure[inner], 2), per_seed, None if least is None else least[0])
    stays[inner[places % len(inner)] if len(inner) else inner] = True
    places = _first_places(first[outer], second[outer], measure[outer], per_row, None if least is None else least[1])
    stays[outer[places]] = True
    chosen = np.flatnonzero(stays)
    return chosen[np.lexsort((second[chosen], first[chosen]))]


def _first_places(
    owner: Rows, other: Rows, measure: npt.NDArray[np.floating], limit: int, least: Vectors | None
) -> npt.NDArray[np.int64]:
    """Places of each owner's best `limit` pairs."""
    order = np.lexsort((other, -measure, owner))
    ordered = owner[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    if least is not None:
        last = order[rank == limit - 1]
        least[owner[last]] = measure[last]
    return order[rank < limit]


def _tile(rows: slice, columns: slice, vectors: Vectors, bounds: Vectors, kept: _Kept, room: Vectors) -> ClosePairs:
    """The pairs of some seeds with some rows; `room` is where their products are put."""
    whole = bounds[columns]
    limit = kept.threshold - np.float32(_SLACK)
    room = room[: rows.stop - rows.start, : len(whole)]
    tile = np.matmul(bounds[rows], whole.T, out=room)
    places = _passing(tile, limit)
    if len(places[0]) > _DENSE * tile.size and bounds.shape[1] < vectors.shape[1]:
        tile = np.matmul(vectors[rows], vectors[columns].T, out=room)
        places = _passing(tile, limit)
    first = (places[0] + rows.start).astype(np.int32)
    second = (places[1] + columns.start).astype(np.int32)
    stays = np.flatnonzero((first < second) & kept.may_stay(first, second, tile[places]))
    first, second = first[stays], second[stays]
    cosine = cosines(vectors, first, second)
    stays = np.flatnonzero(cosine >= kept.threshold)
    return ClosePairs(first[stays], second[stays], cosine[stays])


def _passing(tile: Vectors, limit: np.float32) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Rows and columns of what reaches the limit."""
    row, column = np.divmod(np.flatnonzero(tile >= limit), tile.shape[1])
    return row, column


def cosines(vectors: Vectors, first: npt.NDArray[np.integer], second: npt.NDArray[np.integer]) -> Vectors:
    """Of pairs of unit rows; the same for a pair wherever it stands."""
    found = np.empty(len(first), dtype=np.float32)
    for start in range(0, len(first), _GATHERED):
        part = slice(start, start + _GATHERED)
        np.vecdot(vectors.take(first[part], axis=0), vectors.take(second[part], axis=0), out=found[part])
    return found


def _upper_bounds(vectors: Vectors, seeds: int, threshold: float) -> Vectors:
    """(n, m) rows whose products are upper bounds of the cosines: narrow where that saves time, else the vectors."""
    rows, dims = vectors.shape
    prefixes = [width for width in _PREFIXES if width < dims - 1]
    if seeds * rows < _SMALL or not prefixes:
        return vectors
    axes = _main_axes(vectors)[:, : prefixes[-1]]
    sample = vectors[:: max(1, rows // _TILE)]
    turned, lengths = sample @ axes, np.einsum("ij,ij->i", sample, sample)
    costs = {dims: dims * _COORDINATE_NS}
    for width in prefixes:
        narrow = _with_rest(turned[:, :width], lengths)
        passing = float(np.mean(narrow[::8] @ narrow.T >= threshold))
        costs[width] = width * _COORDINATE_NS + passing * _PAIR_NS
    best = min(costs, key=lambda width: (costs[width], width))
    return vectors if best == dims else _narrowed(vectors, axes[:, :best])


def _main_axes(vectors: Vectors) -> Vectors:
    """(d, d) directions, those along which the rows are longest first."""
    sample = vectors[:: max(1, len(vectors) // _SAMPLE)]
    _, axes = np.linalg.eigh((sample.T @ sample).astype(np.float64))
    return np.ascontiguousarray(axes[:, ::-1], dtype=np.float32)


def _narrowed(vectors: Vectors, axes: Vectors) -> Vectors:
    narrow = np.empty((len(vectors), axes.shape[1] + 1), dtype=np.float32)
    for start in range(0, len(vectors), _SAMPLE):
        part = vectors[start : start + _SAMPLE]
        narrow[start : start + _SAMPLE] = _with_rest(part @ axes, np.einsum("ij,ij->i", part, part))
    return narrow


def _with_rest(turned: Vectors, lengths: Vectors) -> Vectors:
    """The first coordinates, and the length of what they leave out."""
    rest = np.sqrt(np.maximum(lengths - np.einsum("ij,ij->i", turned, turned), 0.0))
    return np.column_stack([turned, rest]).astype(np.float32, copy=False)

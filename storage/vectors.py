"""Vectors of a table, kept so that the rows nearest to a query are found exactly, and with little memory.

Where there are many, the whole ones lie in a file without a name, and only their short forms (`short_forms`) in memory:
these rule most rows out, and the few that remain are compared whole.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import IO
from weakref import finalize

import numpy as np
import numpy.typing as npt

# Short forms of vectors: bounds of the product of each row with a query, from which most rows are ruled out. A row is
# split along the main axes of all (principal components). Its head, along the few axes that tell most, is kept as it
# is and compared with every query. Its tail, along the others, is kept in bytes; what these miss is known by its
# length. What is left out of a product is at most the product of two lengths (Cauchy and Schwarz), so no row is ruled
# out that could be among the nearest: by heads alone nearly all are, by tails of the others all but a few.


Vectors = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.float32]
Places = npt.NDArray[np.int64]

KEPT = 0.85
"""Share of the squared length that heads keep on average. Less makes the first comparison cheaper and lets more rows
through to the second: of 100,000 sentences of conversations some 1,000 at .85, some 5,000 at .77."""
_PART = 4_096  # rows that are compared at a time
_STEP = 16  # a head has a multiple of so many numbers
_FIRST = 3  # times k: the rows that tell how near the others must be
_SLACK = 1e-5  # products of single precision differ in their last digits
_LEFT = 1e-6  # and so do squared lengths
_STRETCH = 64
_ALONE = 1 << 18  # multiplications up to which OpenBLAS wakes no other thread


class ShortForms:
    """Short forms of (n, d) vectors, along the axes of a sample (s, d) of them. `read` gives rows by their places."""

    def __init__(self, count: int, sample: Vectors, read: Callable[[Places], Vectors]) -> None:
        axes, size = _main_axes(sample)
        self._head_axes, self._tail_axes = np.ascontiguousarray(axes[:, :size]), np.ascontiguousarray(axes[:, size:])
        self._heads, self._rest = np.empty((count, size), np.float32), np.empty(count, np.float32)
        self._tails = np.empty((count, axes.shape[1] - size), np.int8)
        self._scales, self._missed = np.empty(count, np.float32), np.empty(count, np.float32)
        for start in range(0, count, _PART):
            own = slice(start, min(start + _PART, count))
            part = read(np.arange(own.start, own.stop))
            np.dot(part, self._head_axes, out=self._heads[own])
            tails = part @ self._tail_axes
            scales = np.maximum(np.abs(tails).max(axis=1, initial=0.0), np.finfo(np.float32).tiny) / np.float32(127)
            self._tails[own] = coarse = np.rint(tails / scales[:, None])
            self._scales[own], self._rest[own] = scales, _lengths(tails)
            self._missed[own] = _lengths(tails - coarse * scales[:, None])

    def compared(self, vectors: Vectors) -> Vectors:
        """(m, n) products of the heads with those of vectors (m, d)."""
        return products_of(self._heads, vectors @ self._head_axes)

    def within_reach(self, vector: Vectors, k: int, penalties: Numbers, products: Numbers) -> Places:
        """Rows among which are the `k` nearest to a vector (d,); `products` (n,) are those of the heads.

        `penalties` (n,) are 0 for rows that may be found, −∞ for others.
        """
        products = products + penalties
        near = at_least(products, least_of_best(products, _FIRST * k))
        if len(near) < k:
            return near  # these are all that may be found
        tail = vector @ self._tail_axes
        length = _lengths(tail[None])[0]
        least = self._least(near, products[near], tail, length, k)
        products += length * self._rest
        others = at_least(products, least)
        middles = self._with_tails(others, products[others] - length * self._rest[others], tail)
        slack = length * self._missed[others]
        least = max(least, float(np.partition(middles - slack, -k)[-k])) if len(others) >= k else least
        kept: Places = others[middles + slack >= least - _SLACK]
        return kept

    def _least(self, places: Places, products: Numbers, tail: Numbers, length: np.float32, k: int) -> float:
        """What the k-th of these rows has at least as its product with the whole vector."""
        certain = self._with_tails(places, products, tail) - length * self._missed[places]
        return float(np.partition(certain, -k)[-k])

    def _with_tails(self, places: Places, products: Numbers, tail: Numbers) -> Numbers:
        """Products of heads, with those of the tails as the bytes tell them."""
        found = products.copy()
        for start in range(0, len(places), _PART):
            own = slice(start, start + _PART)
            coarse = np.einsum("ij,j->i", self._tails[places[own]].astype(np.float32), tail)
            found[own] += self._scales[places[own]] * coarse
        return found


def products_of(rows: Vectors, vectors: Vectors) -> Vectors:
    """(m, n) products of rows (n, d) with vectors (m, d), in pieces so small that no thread waits for another."""
    (count, dims), turned = rows.shape, np.ascontiguousarray(vectors.T)
    found = np.empty((count, len(vectors)), np.float32)
    size = max(min(_ALONE // max(turned.size, 1), _STRETCH), 1)
    whole = count - count % size
    np.matmul(rows[:whole].reshape(-1, size, dims), turned, out=found[:whole].reshape(-1, size, len(vectors)))
    np.matmul(rows[whole:], turned, out=found[whole:])
    return found.T


def least_of_best(values: npt.NDArray[np.floating], k: int) -> float:
    """At most the `k`-th largest of the values (n,), and near it; −∞ where there are no more than k."""
    if len(values) <= k:
        return float("-inf")
    if len(values) > 4 * k * _STRETCH:
        values = values[: len(values) // _STRETCH * _STRETCH].reshape(-1, _STRETCH).max(axis=1)
    return float(np.partition(values, -k)[-k])


def at_least(products: Numbers, least: float) -> Places:
    """The places of products that are no less than this, as far as single precision can tell; of −∞ never."""
    lowest = float(np.finfo(np.float32).min)  # of rows that may not be found
    return np.flatnonzero(products >= max(least - _SLACK, lowest))


def _main_axes(vectors: Vectors) -> tuple[Vectors, int]:
    """(d, d) the main axes of vectors (s, d), orthonormal, and how many have KEPT of their squared length."""
    exact = vectors.astype(np.float64)
    weights, axes = np.linalg.eigh(exact.T @ exact)
    shares = np.cumsum(weights[::-1]) / max(float(weights.sum()), np.finfo(np.float64).tiny)
    count = -(-(int(np.searchsorted(shares, KEPT)) + 1) // _STEP) * _STEP
    return axes[:, ::-1].astype(np.float32), min(count, len(axes))


def _lengths(vectors: Vectors) -> Numbers:
    """(n,) a little more than the length of each."""
    found: Numbers = np.sqrt(np.einsum("ij,ij->i", vectors, vectors) + np.float32(_LEFT))
    return found


Penalties = npt.NDArray[np.float32]
Cosines = npt.NDArray[np.float64]

log = logging.getLogger("slowwave")

IN_MEMORY = 16 << 20
"""Bytes of vectors up to which the whole ones stay in memory, and are compared without short forms."""
_SAMPLE = 4_096  # vectors that the axes are found from


class VectorRows:
    """(n, d) vectors, zeros where a row has none, as they are written part by part; `seal` makes their short forms."""

    def __init__(self, count: int, dims: int) -> None:
        self._count, self._width, self.dims = count, 4 * dims, dims
        is_large = count * self._width > IN_MEMORY
        self._file = _reserved(count * self._width) if is_large else None
        if self._file is not None:
            finalize(self, self._file.close)
        self._whole: Vectors | None = np.zeros((count, dims), np.float32) if self._file is None else None
        self._short: ShortForms | None = None
        self._foreseen: dict[bytes, Vectors] = {}
        self.is_there: npt.NDArray[np.bool_] = np.zeros(count, np.bool_)

    def write(self, start: int, vectors: Vectors) -> None:
        """Rows (m, d) from place `start` on."""
        self.is_there[start : start + len(vectors)] = vectors.any(axis=1)
        if self._whole is not None:
            self._whole[start : start + len(vectors)] = vectors
        elif self._file is not None:
            os.pwrite(self._file.fileno(), np.ascontiguousarray(vectors, np.float32).data, start * self._width)

    def seal(self) -> None:
        """Make the short forms, where there are so many rows that these save something."""
        if self._count * self._width > IN_MEMORY:
            sample = self[np.unique(np.linspace(0, self._count - 1, _SAMPLE).astype(np.int64))]
            self._short = ShortForms(self._count, sample, self.__getitem__)

    def __getitem__(self, places: Places) -> Vectors:
        """(m, d) the vectors at these places."""
        if self._whole is not None:
            return self._whole[places]
        assert self._file is not None
        number, width = self._file.fileno(), self._width
        rows = [os.pread(number, width, width * place) for place in places.tolist()]
        return np.frombuffer(b"".join(rows), np.float32).reshape(-1, width // 4)

    @contextmanager
    def foreseen(self, vectors: Vectors) -> Iterator[None]:
        """Compare many vectors (m, d) at once; until the block ends, `nearest` looks each of them up.

        Of blocks that overlap only the latest is looked up; what is compared takes 4 bytes for each vector and row.
        """
        products = self._compared(vectors)
        foreseen = self._foreseen = {vector.tobytes(): row for vector, row in zip(vectors, products, strict=True)}
        try:
            yield
        finally:
            if self._foreseen is foreseen:
                self._foreseen = {}

    def nearest(self, vector: Vectors, k: int, penalties: Penalties) -> tuple[Places, Cosines]:
        """The `k` rows nearest to a unit vector, with their cosines, best first; of equals the first.

        `penalties` (n,) are 0 for rows that may be found, −∞ for others.
        """
        foreseen = self._foreseen.get(vector.tobytes())
        products = self._compared(vector[None])[0] if foreseen is None else foreseen
        if self._short is not None:
            near = self._short.within_reach(vector, k, penalties, products)
        else:
            products = products + penalties
            near = at_least(products, least_of_best(products, k))
        cosines = self._cosines(near, vector)
        order = np.lexsort((near, -cosines))[:k]
        return near[order], cosines[order]

    def _compared(self, vectors: Vectors) -> Vectors:
        """(m, n) products with vectors (m, d), of the short forms if there are any."""
        if self._short is not None:
            return self._short.compared(vectors)
        assert self._whole is not None
        return products_of(self._whole, vectors)

    def _cosines(self, places: Places, vector: Vectors) -> Cosines:
        """Exact, and the same for equal rows wherever they lie."""
        exact, found = vector.astype(np.float64), np.empty(len(places))
        for start in range(0, len(places), _PART):
            own = slice(start, start + _PART)
            found[own] = np.einsum("ij,j->i", self[places[own]].astype(np.float64), exact)
        return found


def _reserved(size: int) -> IO[bytes] | None:
    """A file of this size that has no name, so that it goes when nobody needs it; None where there is no room."""
    if not hasattr(os, "posix_fallocate"):
        return None
    try:
        file = TemporaryFile(prefix="slowwave-", buffering=0)  # noqa: SIM115 it lives as long as the vectors
        os.posix_fallocate(file.fileno(), 0, size)
    except OSError as error:
        log.warning("vectors stay in memory, %.0f MB of them: %s", size / 1e6, error)
        return None
    return file

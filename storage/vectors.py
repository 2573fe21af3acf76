"""Vectors of a table, kept so that the rows nearest to a query are found exactly, and with little memory.

Where there are many, the whole ones lie in a file without a name, and only their short forms (`short_forms`) in memory:
these rule most rows out, and the few that remain are compared whole.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import IO
from weakref import finalize

import numpy as np
import numpy.typing as npt

from .short_forms import ShortForms, at_least, least_of_best, products_of

Vectors = npt.NDArray[np.float32]
Places = npt.NDArray[np.int64]
Penalties = npt.NDArray[np.float32]
Cosines = npt.NDArray[np.float64]

log = logging.getLogger("slowwave")

IN_MEMORY = 16 << 20
"""Bytes of vectors up to which the whole ones stay in memory, and are compared without short forms."""
_PART = 4_096  # vectors that are compared at a time
_SAMPLE = 4_096  # vectors that the axes are found from


class VectorRows:
    """(n, d) vectors, zeros where a row has none, as they are written part by part; `seal` makes their short forms."""

    def __init__(self, count: int, dims: int) -> None:
        self._count, self._width = count, 4 * dims
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

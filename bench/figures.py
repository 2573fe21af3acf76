"""Figures: what a benchmark measured, with the bar it is held to, and the cost of a stretch of work."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from storage.connection import files
from storage.store import Store

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number; `bar` is what DESIGN promises, in the same unit."""

    benchmark: str
    name: str
    value: float
    unit: str = ""
    bar: float | None = None
    better: Literal["higher", "lower"] = "higher"
    note: str = ""

    @property
    def is_met(self) -> bool | None:
        """Whether the bar is reached; None where there is none."""
        if self.bar is None:
            return None
        return self.value >= self.bar if self.better == "higher" else self.value <= self.bar


@dataclass(frozen=True, slots=True)
class Options:
    """What the benchmarks are to do: where to work, where the data are, whether to hurry, how long, and how many facts.

    Without `sizes` each benchmark has its own. The last three are of `coding`: a store that is there already, the size
    of a block, and where to write the blocks.
    """

    place: Path
    data: Path
    is_quick: bool = False
    minutes: float = 3.0
    sizes: tuple[int, ...] = ()
    store: str = ""
    chars: int = 3000
    out: Path | None = None


class Absent(Exception):
    """Something that a benchmark needs is not there; it is skipped, with this message."""


@dataclass
class Cost:
    """Seconds on the clock and of processor time that a block took."""

    wall_s: float = 0.0
    cpu_s: float = 0.0


@contextmanager
def measured() -> Iterator[Cost]:
    """Time a block."""
    cost, wall, cpu = Cost(), time.perf_counter(), time.process_time()
    try:
        yield cost
    finally:
        cost.wall_s, cost.cpu_s = time.perf_counter() - wall, time.process_time() - cpu


def percentiles(values: Sequence[float]) -> tuple[float, float]:
    """Median and 95th percentile."""
    return float(np.percentile(values, 50)), float(np.percentile(values, 95))


def stored_bytes(store: Store) -> int:
    """Bytes of all files of the namespace, older versions and indexes included."""
    return sum(files(f"{store.uri.rstrip('/')}/{store.namespace}").values())


def peak_memory_mib() -> float:
    """The most memory that this process ever held."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def in_fresh_process(work: Callable[..., T], *args: Any) -> T:
    """The result of a module-level function, run where nothing is loaded and no memory is held yet."""
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, *args).result()

"""Near-duplicate pairs: all of them, exactly, beside SemHash's index on the same vectors in one run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from inference.embedding import open_embedder
from slowwave.common.comparison.similarity import close_pairs
from slowwave.common.settings import MergeSettings
from slowwave.facts.deduplication.duplicates import find_pairs

from . import synthetic
from .figures import Figure, Options, in_fresh_process, measured, peak_memory_mib

SEED = 29
COSINE = 0.9  # SemHash's own threshold
NEIGHBOURS = 1000  # as many as SemHash looks at for one vector
SAMPLE = 500
MILLION, ARRIVED = 1_000_000, 10_000
RECALL_BAR, TIME_BAR, MEMORY_BAR = 0.99, 1.0, 4096.0

Vectors = npt.NDArray[np.float32]
Found = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


class Joined(NamedTuple):
    """Seconds on the clock and of processor time, pairs as row numbers, and the most memory held."""

    wall_s: float
    cpu_s: float
    pairs: Found
    peak_mib: float


def run(options: Options) -> Iterable[Figure]:
    """Recall of exact pairs and wall time of both; then facts with their words, and a batch against a million."""
    count = 10_000 if options.is_quick else 100_000
    texts, vectors = _statements(count)
    path = options.place / "vectors.npy"
    np.save(path, vectors)
    ours = in_fresh_process(_joined, _by_bounds, str(path))
    name = f"{count:,} vectors"
    yield Figure("pairs", f"{name}: recall", _recall(vectors, ours.pairs), "", RECALL_BAR, note=f"cosine ≥ {COSINE}")
    yield Figure("pairs", f"{name}: time", ours.wall_s, "s", note=f"{len(ours.pairs[0]):,} pairs")
    yield Figure("pairs", f"{name}: peak memory", ours.peak_mib, "MiB", MEMORY_BAR, "lower")
    yield from _beside_semhash(name, path, vectors, ours)
    yield from _with_words(name, texts, vectors)
    if not options.is_quick:
        yield from _a_million(vectors, options.place / "million.npy")


def _beside_semhash(name: str, path: Path, vectors: Vectors, ours: Joined) -> Iterable[Figure]:
    if not find_spec("semhash"):
        yield Figure("pairs", f"{name}: beside SemHash", 0.0, note="not measured: pip install -e .[bench]")
        return
    theirs = in_fresh_process(_joined, _by_semhash, str(path))
    yield Figure("pairs", f"{name}: SemHash recall", _recall(vectors, theirs.pairs))
    yield Figure("pairs", f"{name}: SemHash time", theirs.wall_s, "s", note="its default index, built and asked")
    yield Figure("pairs", f"{name}: SemHash peak memory", theirs.peak_mib, "MiB")
    yield Figure("pairs", f"{name}: time beside SemHash", ours.wall_s / theirs.wall_s, "×", TIME_BAR, "lower")
    ratio = ours.cpu_s / theirs.cpu_s
    yield Figure("pairs", f"{name}: processor time beside SemHash", ratio, "×", better="lower", note="when others run")


def _with_words(name: str, texts: list[str], vectors: Vectors) -> Iterable[Figure]:
    """A sweep as it is run: by meaning and by words, the number of pairs bounded."""
    facts = pl.DataFrame({"id": [f"f{place:07d}" for place in range(len(texts))], "statement": texts}).with_columns(
        scope=pl.lit("global"), kind=pl.lit("relation"), is_seed=pl.lit(True)
    )
    with measured() as cost:
        found = find_pairs(facts, vectors, MergeSettings(), COSINE)
    yield Figure("pairs", f"{name}: a sweep, words too", cost.wall_s, "s", note=f"{len(found):,} pairs")


def _a_million(vectors: Vectors, path: Path) -> Iterable[Figure]:
    """A batch against everything: memory is what a whole sweep needs, but for its pairs."""
    random = np.random.default_rng(SEED)
    many = np.lib.format.open_memmap(path, "w+", np.float32, (MILLION, vectors.shape[1]))
    for start in range(0, MILLION, len(vectors)):
        near = vectors + random.normal(0, 0.012, vectors.shape).astype(np.float32)
        many[start : start + len(vectors)] = near / np.linalg.norm(near, axis=1, keepdims=True)
    many.flush()
    del many
    joined = in_fresh_process(_joined, _by_batch, str(path))
    name = f"{MILLION:,} vectors, {ARRIVED:,} of them new"
    yield Figure("pairs", f"{name}: time", joined.wall_s, "s", note=f"{len(joined.pairs[0]):,} pairs")
    yield Figure("pairs", f"{name}: peak memory", joined.peak_mib, "MiB", MEMORY_BAR, "lower")


def _statements(count: int) -> tuple[list[str], Vectors]:
    """So many different statements with their vectors."""
    told = (fact.statement for fact in synthetic.facts(100 * count, SEED))
    seen: dict[str, None] = {}
    texts = list(islice((text for text in told if text not in seen and not seen.update({text: None})), count))
    return texts, open_embedder().embed(texts)


def _recall(vectors: Vectors, pairs: Found) -> float:
    """Share of the exact neighbours of evenly spread rows that are among the pairs."""
    asked = np.arange(0, len(vectors), max(1, len(vectors) // SAMPLE))
    row, other = np.nonzero(vectors[asked] @ vectors.T >= COSINE)
    exact = {(int(a), int(b)) for a, b in zip(asked[row], other, strict=True) if a != b}
    both = np.concatenate([np.stack(pairs), np.stack(pairs[::-1])], axis=1)
    kept = both[:, np.isin(both[0], asked)]
    return len(exact & set(zip(*kept.tolist(), strict=True))) / len(exact)


def _joined(join: Callable[[Vectors], Found], path: str) -> Joined:
    """A join of stored vectors, measured; the arrays are loaded and the libraries imported before."""
    vectors = np.load(path)
    if join is _by_semhash:
        import semhash.index  # noqa: F401
    with measured() as cost:
        pairs = join(vectors)
    return Joined(cost.wall_s, cost.cpu_s, pairs, peak_memory_mib())


def _by_bounds(vectors: Vectors) -> Found:
    found = close_pairs(vectors, len(vectors), COSINE, NEIGHBOURS, NEIGHBOURS)
    return found.first.astype(np.int64), found.second.astype(np.int64)


def _by_batch(vectors: Vectors) -> Found:
    found = close_pairs(vectors, ARRIVED, COSINE, NEIGHBOURS, MergeSettings().max_existing_matches)
    return found.first.astype(np.int64), found.second.astype(np.int64)


def _by_semhash(vectors: Vectors) -> Found:
    from semhash.index import Index
    from vicinity import Backend

    items: list[Any] = [[{"text": ""}]] * len(vectors)
    index = Index.from_vectors_and_items(vectors=vectors, items=items, backend_type=Backend.USEARCH)
    near = index.query_threshold(vectors, COSINE)
    first = np.repeat(np.arange(len(near)), [len(found) for found, _ in near])
    second = np.concatenate([found for found, _ in near]).astype(np.int64)
    differ = first != second
    return first[differ], second[differ]

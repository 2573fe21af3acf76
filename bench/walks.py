"""How long walks take on 100,000 entities and 1,000,000 relations, beside peers that only count hops."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from recall.graphs import Graphs
from slowwave.common import frames
from slowwave.common.settings import WalkSettings
from slowwave.common.validity import Moment
from slowwave.graph.graph import EDGE_TYPES, Graph, build_graph
from slowwave.graph.name_index import index_names
from slowwave.graph.walks import Seeds, WalkGraph, breadth_first, spread
from storage.store import Store

from . import synthetic
from .big_store import build_store
from .figures import Figure, Options, in_fresh_process, measured, percentiles

SEED = 23
ENTITIES, RELATIONS = 100_000, 1_000_000
QUICK_ENTITIES, QUICK_RELATIONS = 10_000, 100_000
SKEW = 0.75  # of how often an entity is talked about: rank ** -SKEW
SEEDS, HOPS, FACTS = 10, 2, 30
ASKED = 200
STORED, QUICK_STORED = 100_000, 10_000
NOW = synthetic.START + timedelta(days=900)

Starts = Sequence[npt.NDArray[np.int32]]


def run(options: Options) -> Iterable[Figure]:
    """Walks from ten seeds each, drawn as often as they are talked about."""
    size = (QUICK_ENTITIES, QUICK_RELATIONS) if options.is_quick else (ENTITIES, RELATIONS)
    yield from in_fresh_process(_arrays, *size)
    yield from in_fresh_process(_names, size[0])
    facts = QUICK_STORED if options.is_quick else STORED
    uri = str(options.place / "store")
    options.place.mkdir(parents=True, exist_ok=True)
    build_store(uri, facts, SEED)
    seconds, kept = in_fresh_process(_loaded, uri)
    yield Figure("walks", f"{facts:,} facts in a store: graph loaded", seconds, "s", note="once per commit")
    yield Figure("walks", f"{facts:,} facts in a store: graph kept", kept * 1000, "ms")


def _arrays(entities: int, relations: int) -> list[Figure]:
    return list(_walked(entities, relations))


def _walked(entities: int, relations: int) -> Iterator[Figure]:
    ids, edges, often = _relations(entities, relations)
    with measured() as building:
        graph = build_graph(ids, edges)
    what = f"{entities:,} entities, {relations:,} relations"
    yield Figure("walks", f"{what}: arrays built", building.wall_s, "s")
    random = np.random.default_rng(SEED + 1)
    starts = [np.unique(random.choice(entities, SEEDS, p=often)).astype(np.int32) for _ in range(ASKED)]
    ours = _timed(starts, _walk(graph, breadth_first))
    yield from _latency("breadth first, 2 hops", ours)
    yield from _latency("spreading activation, 3 hops", _timed(starts, _walk(graph, spread)))
    for name, peer in _peers(graph).items():
        median, slow = percentiles(_timed(starts, peer))
        note = f"hops alone; ours {percentiles(ours)[0] / median:.2f} times, with scores and facts"
        yield Figure("walks", f"{name}: 2 hops p50", median, "ms", note=note)
        yield Figure("walks", f"{name}: 2 hops p95", slow, "ms")


def _relations(entities: int, relations: int) -> tuple[pl.Series, pl.DataFrame, npt.NDArray[np.float64]]:
    """Ids, EDGES, and how often each entity is talked about."""
    random = np.random.default_rng(SEED)
    often = np.arange(1, entities + 1) ** -SKEW
    often /= often.sum()
    ids = pl.Series("id", [f"e_{number:024x}" for number in random.permutation(entities)]).sort()
    chosen = random.permutation(entities)
    source, target = (chosen[random.choice(entities, relations, p=often)] for _ in range(2))
    edges = pl.DataFrame(
        {
            "id": [f"f_{number:024x}" for number in random.permutation(relations)],
            "subject_id": ids.gather(source),
            "object_id": ids.gather(target),
            "predicate": pl.Series(random.integers(0, 50, relations)).cast(pl.String),
            "edge_type": pl.Series(EDGE_TYPES).gather(random.integers(0, len(EDGE_TYPES), relations)),
            "weight": random.uniform(0.3, 1.0, relations),
        }
    ).with_columns(valid_from=pl.lit(NOW) - pl.duration(days=pl.lit(pl.Series(random.integers(0, 900, relations)))))
    inverse = np.empty(entities)
    inverse[chosen] = often
    return ids, frames.conform(edges, frames.EDGES), inverse


def _walk(graph: Graph, walk: Callable[..., Any]) -> Callable[[npt.NDArray[np.int32]], Any]:
    settings, ground = WalkSettings(max_hops=HOPS), WalkGraph(graph)
    return lambda seeds: walk(ground, Seeds(seeds, np.linspace(1.0, 0.1, len(seeds))), settings, NOW, FACTS)


def _timed(starts: Starts, walk: Callable[[npt.NDArray[np.int32]], Any]) -> list[float]:
    """Milliseconds of each walk, after a few that warm up."""
    times = []
    for seeds in (*starts[:5], *starts):
        started = time.perf_counter()
        walk(seeds)
        times.append((time.perf_counter() - started) * 1000)
    return times[5:]


def _latency(name: str, times: list[float]) -> Iterator[Figure]:
    median, slow = percentiles(times)
    note = f"{SEEDS} seeds, {len(times)} walks"
    yield Figure("walks", f"{name}: p50", median, "ms", note=note)
    yield Figure("walks", f"{name}: p95", slow, "ms")


def _peers(graph: Graph) -> dict[str, Callable[[npt.NDArray[np.int32]], Any]]:
    """What others take to find the same entities; igraph only where it is installed."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    ones = np.ones(len(graph.near), np.int8)
    matrix = csr_array((ones, graph.near, graph.starts), shape=(len(graph), len(graph)))
    limits = {"unweighted": True, "limit": HOPS, "min_only": True}
    peers = {"scipy dijkstra": lambda seeds: dijkstra(matrix, indices=seeds, **limits)}
    try:
        import igraph
    except ImportError:
        return peers
    other = igraph.Graph(len(graph), np.stack((graph.source, graph.target), axis=1))
    return peers | {"igraph neighborhood": lambda seeds: other.neighborhood(seeds.tolist(), order=HOPS)}


def _names(entities: int) -> list[Figure]:
    random = np.random.default_rng(SEED)
    words = pl.Series(["".join(letters) for letters in random.choice(list("abcdefghijklmnoprstuvw"), (20_000, 6))])
    name = words.gather(random.integers(0, len(words), entities)) + " " + words.gather(random.integers(0, 99, entities))
    told = [" ".join(words.gather(random.integers(0, 2_000, 8))) for _ in range(entities)]
    rows = pl.DataFrame({"id": [f"e_{number:024x}" for number in range(entities)], "name": name, "summary": told})
    with measured() as building:
        index = index_names(rows, rows.select(entity_id="id", alias_name="name"))
    asked = [word[: random.integers(2, 7)] for word in words.sample(ASKED, seed=SEED)]
    times = []
    for word in asked:
        started = time.perf_counter()
        index.find(word, 2 * SEEDS)
        times.append((time.perf_counter() - started) * 1000)
    median, slow = percentiles(times)
    return [
        Figure("walks", f"index of {entities:,} names and summaries: built", building.wall_s, "s", 1.0, "lower"),
        Figure("walks", "entity search, a word: p50", median, "ms", 5.0, "lower", f"{ASKED} words, some cut short"),
        Figure("walks", "entity search, a word: p95", slow, "ms"),
    ]


def _loaded(uri: str) -> tuple[float, float]:
    """Seconds until the graph is there for the first time, and for the second time."""
    snapshot, graphs = Store.open(uri).snapshot(), Graphs()
    times = []
    for _ in range(2):
        started = time.perf_counter()
        graphs.of(snapshot, Moment(NOW))
        times.append(time.perf_counter() - started)
    return times[0], times[1]

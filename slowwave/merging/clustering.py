"""Which facts belong before a model together: connected, and never too many (S1-03, T28).

Two facts that share a neighbour are joined through it. What becomes too large that way is cut by average linkage, a
little higher each time until every part fits.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.settings import MergeSettings
from slowwave.similarity import Vectors

CLUSTERS = {"cluster": pl.Int64(), "id": pl.String()}
STEP = 0.05
LARGEST_PARTITION = 5000
"""Average linkage keeps all distances at once: 5,000 facts are 200 MB, and eight seconds of HDBSCAN."""
_DIGITS = 6  # a cosine of float32 is known no better, and equal vectors are to have exactly 1
_EVEN = 1e-9

Rows = npt.NDArray[np.int64]
Likeness = npt.NDArray[np.float64]


def clusters_of(
    ids: pl.Series, vectors: Vectors, pairs: pl.DataFrame, settings: MergeSettings, resolve: float
) -> pl.DataFrame:
    """(cluster, id): facts that may say the same, 2 to `max_cluster_size` of them; who stands alone is left out.

    `ids` are distinct; `vectors` are their unit rows, in the same order. `pairs` (a_id, b_id, cosine, jaccard) connect
    two facts whose cosine reaches `resolve` or whose words reach `text_dedup`; others are ignored. The members of what
    had to be cut reach `resolve` on average. Clusters are numbered from 0 by their smallest id, members sorted by id.
    """
    order = ids.arg_sort()
    links = _links(ids.gather(order), pairs, settings, resolve)
    parting = _Parting(vectors[order.to_numpy()], links, settings, resolve)
    parts = sorted((part for part in parting.parts() if len(part) > 1), key=lambda part: int(part[0]))
    numbers = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    rows = np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
    return pl.DataFrame({"cluster": numbers, "id": ids.gather(order).gather(rows)}, schema=CLUSTERS)


def _links(ids: pl.Series, pairs: pl.DataFrame, settings: MergeSettings, resolve: float) -> pl.DataFrame:
    """(a, b, likeness, is_text) by place in `ids`, each pair once."""
    places = pl.DataFrame({"id": ids, "place": np.arange(len(ids))}, schema={"id": pl.String, "place": pl.Int64})
    by_text = (pl.col("jaccard") >= settings.text_dedup).fill_null(False)
    cosine = pl.col("cosine").fill_null(-1.0).round(_DIGITS)
    linked = pairs.select(
        "a_id", "b_id", likeness=pl.when(by_text).then(pl.max_horizontal(cosine, "jaccard")).otherwise(cosine),
        is_text=by_text,
    ).filter(pl.col("is_text") | (pl.col("likeness") >= resolve))  # fmt: skip
    named = linked.join(places.rename({"id": "a_id", "place": "a"}), on="a_id").join(
        places.rename({"id": "b_id", "place": "b"}), on="b_id"
    )
    ends = named.select("likeness", "is_text", a=pl.min_horizontal("a", "b"), b=pl.max_horizontal("a", "b"))
    return ends.filter(pl.col("a") != pl.col("b")).group_by("a", "b").agg(pl.all().max()).sort("a", "b")


class _Parting:
    """One parting of facts: their vectors and links, by place."""

    def __init__(self, vectors: Vectors, links: pl.DataFrame, settings: MergeSettings, resolve: float) -> None:
        self.vectors, self.settings, self.resolve = vectors, settings, resolve
        self.ends: Rows = links.select("a", "b").to_numpy().astype(np.int64).reshape(-1, 2)
        self.likeness: Likeness = links["likeness"].to_numpy()
        self.is_text: npt.NDArray[np.bool_] = links["is_text"].to_numpy()
        self.first: Rows = np.searchsorted(self.ends[:, 0], np.arange(len(vectors) + 1))

    def parts(self) -> Iterator[Rows]:
        """Sorted places of each part; singletons among them."""
        every = np.arange(len(self.vectors))
        for component in self._connected(every, self.resolve):
            if len(component) <= self.settings.max_cluster_size:
                yield component
            else:
                yield from self._cohesive(component, self.resolve)

    def _connected(self, members: Rows, cut: float) -> Iterator[Rows]:
        """What links of at least `cut` connect within the members; links by text always count up to likeness 1."""
        from scipy.sparse import coo_array  # half a second that most runs do not need
        from scipy.sparse.csgraph import connected_components

        a, b, link = self._inside(members)
        strong = self.likeness[link] >= cut - _EVEN
        if cut <= self.resolve:
            strong |= self.is_text[link]
        graph = coo_array((np.ones(strong.sum(), dtype=np.int8), (a[strong], b[strong])), shape=(len(members),) * 2)
        _, labels = connected_components(graph, directed=False)
        yield from _groups(members, labels)

    def _inside(self, members: Rows) -> tuple[Rows, Rows, Rows]:
        """Both ends, by place among the sorted members, of the links between them, and which links these are."""
        starts, counts = self.first[members], self.first[members + 1] - self.first[members]
        a = np.repeat(np.arange(len(members)), counts)
        link = np.arange(counts.sum()) + np.repeat(starts - (np.cumsum(counts) - counts), counts)
        other = self.ends[link, 1]
        b = np.searchsorted(members, other).clip(max=len(members) - 1)
        known = members[b] == other
        return a[known], b[known], link[known]

    def _cohesive(self, members: Rows, cut: float) -> Iterator[Rows]:
        """The parts of a component; one that is too large for average linkage is parted first."""
        if len(members) < 2:
            return
        if cut > 1.0:
            yield from _by_place(members, self.settings.max_cluster_size)
        elif len(members) > LARGEST_PARTITION:
            for part in self._connected(members, cut + STEP):
                yield from self._cohesive(part, cut + STEP)
        elif len(members) > self.settings.partition_from:
            for part in _partition(members, self.vectors[members], cut):
                for component in self._connected(part, cut):
                    yield from self._linked(component)
        else:
            yield from self._linked(members)

    def _linked(self, members: Rows) -> Iterator[Rows]:
        """Average linkage, cut at the threshold and, where a part is too large, a step higher and again (S1-03)."""
        if len(members) <= 2:
            yield members
            return
        from scipy.cluster.hierarchy import fcluster, linkage

        tree = linkage(self._distances(members), method="average")

        def cut_at(part: npt.NDArray[np.int64], cut: float) -> Iterator[Rows]:
            labels = fcluster(tree, max(1.0 - cut, 0.0) + _EVEN, criterion="distance")[part]
            for piece in _groups(part, labels):
                if len(piece) <= self.settings.max_cluster_size:
                    yield members[piece]
                elif cut >= 1.0:
                    yield from _by_place(members[piece], self.settings.max_cluster_size)
                else:
                    yield from cut_at(piece, min(cut + STEP, 1.0))

        yield from cut_at(np.arange(len(members)), self.resolve)

    def _distances(self, members: Rows) -> Likeness:
        """1 − likeness of all pairs of members, condensed; words count where they are nearly the same."""
        rows = self.vectors[members].astype(np.float64)
        alike = np.round(rows @ rows.T, _DIGITS)
        a, b, link = self._inside(members)
        by_text = self.is_text[link]
        a, b, link = a[by_text], b[by_text], link[by_text]
        alike[a, b] = np.maximum(alike[a, b], self.likeness[link])
        condensed: Likeness = 1.0 - alike[np.triu_indices(len(members), 1)]
        return condensed.clip(0.0)


def _groups(members: Rows, labels: npt.NDArray[np.integer]) -> Iterator[Rows]:
    """The members by label, each group sorted."""
    order = np.argsort(labels, kind="stable")
    for group in np.split(members[order], np.flatnonzero(np.diff(labels[order])) + 1):
        if len(group):
            yield group


def _by_place(members: Rows, size: int) -> Iterator[Rows]:
    """Facts that nothing tells apart, in even portions of at most `size`."""
    yield from np.array_split(members, -(-len(members) // size))


def _partition(members: Rows, vectors: Vectors, cut: float) -> Iterator[Rows]:
    """The members by HDBSCAN; a point that is noise stands alone.

    On unit vectors a cosine c is the distance sqrt(2(1 − c)). With `min_samples` 1 a point with one near neighbour is
    no noise: a single pair is what is looked for. Equal vectors are one point: HDBSCAN takes a heap of them for noise.
    """
    from hdbscan import HDBSCAN

    points, which = np.unique(vectors.round(_DIGITS), axis=0, return_inverse=True)
    labels = np.zeros(len(points), dtype=np.int64)
    if len(points) > 2:
        finder = HDBSCAN(
            min_cluster_size=2, min_samples=1, metric="euclidean", cluster_selection_method="leaf",
            cluster_selection_epsilon=float(np.sqrt(2.0 * (1.0 - cut))), allow_single_cluster=True, core_dist_n_jobs=1,
        )  # fmt: skip
        labels = finder.fit_predict(points.astype(np.float64))
    noise = labels < 0
    labels[noise] = labels.max(initial=-1) + 1 + np.arange(noise.sum())
    yield from _groups(members, labels[which])

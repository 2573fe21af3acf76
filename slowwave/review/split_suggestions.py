"""Suggestions: which entities to split, and into which topics (S0-09 … S0-13, T2)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.common.comparison.similarity import Vectors
from slowwave.common.errors import UnknownName
from slowwave.common.lexicon.labels import TYPES, canonical_type
from slowwave.common.lexicon.statement_words import STOP_WORDS
from slowwave.common.settings import SplitSettings
from slowwave.graph.graph import CONTAINS, INVERSE

from .split_plan import SplitPart

# The words that separate and name topics: c-TF-IDF over observations and over topics (S0-09, S0-10, T2).


SHORTEST = 4
ANCHORS = 10
UNNAMED = "Tema"

Labels = npt.NDArray[np.int64]


def topic_words(texts: Sequence[str] | pl.Series, stop_words: Collection[str]) -> pl.DataFrame:
    """(text, term) of every word that may tell topics apart, in order: runs of letters, lower-cased, accents kept."""
    frame = pl.DataFrame({"text": np.arange(len(texts)), "term": pl.Series(texts, dtype=pl.String)})
    runs = pl.col("term").str.normalize("NFC").str.to_lowercase().str.extract_all(r"\p{L}+")
    is_kept = (pl.col("term").str.len_chars() >= SHORTEST) & ~pl.col("term").is_in(sorted(stop_words))
    return frame.with_columns(runs).explode("term").filter(is_kept)


def anchor_topics(texts: Sequence[str] | pl.Series, stop_words: Collection[str]) -> Labels:
    """(n,) number of the topic of each text: those that share their weightiest anchor; a text without any is alone.

    The ten terms with the most weight, the sum of tf/length·ln(N/df), df ≥ 2, are the anchors (path B of S0-09).
    """
    tally = _tally(topic_words(texts, stop_words))
    df = tally.group_by("term").agg(df=pl.len()).filter(pl.col("df") >= 2)
    weighed = tally.join(df, on="term").with_columns(idf=(len(texts) / pl.col("df")).log())
    weights = weighed.group_by("term").agg(weight=(pl.col("share") * pl.col("idf")).sum().round(12))
    anchors = weights.sort(-pl.col("weight"), "term").head(ANCHORS).with_row_index("rank")
    best = tally.join(anchors, on="term").group_by("text").agg(pl.col("rank").min().cast(pl.Int64))
    labels = np.arange(len(texts)) + ANCHORS
    labels[best["text"].to_numpy()] = best["rank"].to_numpy()
    return labels


def name_topics(topics: Sequence[Sequence[str]], stop_words: Collection[str], label_terms: int = 2) -> list[str]:
    """A label for each topic, given its texts: its `label_terms` weightiest words by tf/length·ln(topics/df) (S0-10).

    Where all words are in every topic the commonest name it. A topic without words is `Tema_3`, the third; the second
    of two equal labels ends in its number.
    """
    tally = _tally(topic_words([" ".join(texts) for texts in topics], stop_words))
    df = tally.group_by("term").agg(df=pl.len())
    score = (pl.col("share") * (len(topics) / pl.col("df")).log()).round(12)
    scored = tally.join(df, on="term").with_columns(score=score)
    weight = pl.when(pl.col("score").max().over("text") > 0).then("score").otherwise("share")
    best = scored.sort("text", -weight, "term")
    named = best.group_by("text", maintain_order=True).agg(pl.col("term").head(label_terms))
    found = {text: " ".join(word.capitalize() for word in terms) for text, terms in named.iter_rows()}
    return _distinct([found.get(number) or f"{UNNAMED}_{number + 1}" for number in range(len(topics))])


def _tally(words: pl.DataFrame) -> pl.DataFrame:
    """(text, term, share): how much of its text each term is."""
    counted = words.group_by("text", "term").agg(tf=pl.len())
    return counted.with_columns(share=pl.col("tf") / pl.col("tf").sum().over("text")).drop("tf")


def _distinct(labels: Sequence[str]) -> list[str]:
    seen: set[str] = set()
    made = []
    for number, label in enumerate(labels):
        made.append(f"{label}_{number + 1}" if label in seen else label)
        seen.add(made[-1])
    return made


NOISE = -1
LARGEST = 5000
LARGE_ENTITY = 200  # observations beyond which HDBSCAN finds the topics (decision 35)
"""Density is measured between that many observations at most, eight seconds; the others wait for the next split."""
DENSE = 5
"""Fewer observations that are near each other are no topic of an entity that has hundreds."""
_DIGITS = 6  # a cosine of float32 is known no better
_EVEN = 1e-9


def find_topics(
    texts: Sequence[str], vectors: Vectors, settings: SplitSettings, own_words: Collection[str] = ()
) -> dict[str, list[int]]:
    """The observations of each topic of an entity by place, largest topic first; what is noise is in none.

    `vectors`, (n, d), are unit rows in the order of the texts, zero where there is none. `own_words` name no topic.
    Where the vectors tell none or all apart, the words decide; a single topic is no diversity (T2).
    """
    stop = STOP_WORDS | set(own_words)
    labels = _by_vectors(vectors, settings)
    found = len(np.unique(labels[labels != NOISE]))
    if found < 2 or found == len(labels):
        labels = anchor_topics(texts, stop)
    groups = _groups(labels)
    names = name_topics([[texts[place] for place in members] for members in groups], stop, settings.label_terms)
    return dict(zip(names, groups, strict=True))


def words_in(name: str) -> frozenset[str]:
    """The words of an entity's name that could name a topic."""
    return frozenset(topic_words([name], ())["term"])


def _by_vectors(vectors: Vectors, settings: SplitSettings) -> Labels:
    if len(vectors) < 2 or not vectors.any():
        return np.zeros(len(vectors), np.int64)
    return _by_density(vectors, settings) if len(vectors) > LARGE_ENTITY else _by_linkage(vectors, settings)


def _by_linkage(vectors: Vectors, settings: SplitSettings) -> Labels:
    """Average linkage on the cosine distance, cut at `cut_distance`."""
    from scipy.cluster.hierarchy import fcluster, linkage  # half a second that most runs do not need

    rows = vectors.astype(np.float64)
    distances = np.round(1.0 - rows @ rows.T, _DIGITS).clip(0.0, 2.0)
    tree = linkage(distances[np.triu_indices(len(rows), 1)], method="average")
    return np.asarray(fcluster(tree, settings.cut_distance + _EVEN, criterion="distance"), np.int64)


def _by_density(vectors: Vectors, settings: SplitSettings) -> Labels:
    """HDBSCAN on unit vectors that are seen from the middle of them all; what is nowhere dense is noise.

    What all observations share would else be the one dense topic. Equal vectors are one point, as HDBSCAN takes a heap
    of them for noise; a heap that is large enough is a topic.
    """
    from hdbscan import HDBSCAN

    distinct, which, times = np.unique(vectors.round(_DIGITS), axis=0, return_inverse=True, return_counts=True)
    points, least = _unit(distinct - distinct.mean(axis=0)), max(settings.min_topic_size, DENSE)
    seen = np.unique(np.linspace(0, len(points) - 1, min(len(points), LARGEST)).astype(np.int64))
    labels = np.full(len(points), NOISE, np.int64)
    if len(seen) > least:
        finder = HDBSCAN(min_cluster_size=least, min_samples=1, metric="euclidean", core_dist_n_jobs=1)
        labels[seen] = finder.fit_predict(points[seen].astype(np.float64))
        labels = _cohesive(distinct, labels, settings)
    heaps = np.flatnonzero((labels == NOISE) & (times >= least))
    labels[heaps] = labels.max() + 1 + np.arange(len(heaps))
    return np.asarray(labels[which], np.int64)


def _cohesive(vectors: Vectors, labels: Labels, settings: SplitSettings) -> Labels:
    """The labels without topics whose members are farther from each other than topics part: leftovers of HDBSCAN."""
    kept = labels.copy()
    for topic in range(labels.max(initial=NOISE) + 1):
        middle = vectors[labels == topic].mean(axis=0)
        if middle @ middle < 1.0 - settings.cut_distance:  # the mean cosine of all pairs
            kept[labels == topic] = NOISE
    return kept


def _unit(rows: Vectors) -> Vectors:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1.0), np.float32)


def _groups(labels: Labels) -> list[list[int]]:
    """The places of each topic; the largest first, then the one that begins first."""
    placed = pl.DataFrame({"label": labels}).with_row_index("place").filter(pl.col("label") != NOISE)
    grouped = placed.group_by("label", maintain_order=True).agg("place")
    return grouped.sort(-pl.col("place").list.len().cast(pl.Int64), pl.col("place").list.first())["place"].to_list()


@dataclass(frozen=True, slots=True)
class SplitSuggestion:
    """How an entity could be split; no splits, and why, where it need not be (S0-13).

    `analysis` is plain data (S0-12), `contents` are the observations by id.
    """

    analysis: Mapping[str, Any]
    splits: tuple[SplitPart, ...]
    message: str
    contents: Mapping[str, str]

    def as_json(self) -> dict[str, Any]:
        """The contract of `split propose --json --dry-run`: what to approve, or null and why."""
        seen, parent = self.analysis, self.analysis["entity_name"]
        count, moved = seen["observation_count"], sum(len(each.observations) for each in self.splits)
        plan = {
            "original_entity": parent,
            "entity_id": seen["entity_id"],
            "entity_type": seen["entity_type"],
            "suggested_splits": [
                {"name": each.name, "entity_type": each.entity_type,
                 "observations": [{"id": fact, "content": self.contents[fact]} for fact in each.observations]}
                for each in self.splits
            ],
            "relations_to_create": [
                {"from": one, "relation_type": relation, "to": other}
                for each in self.splits
                for one, relation, other in (
                    (parent, CONTAINS, each.name), (each.name, INVERSE[CONTAINS], parent),
                )
            ],
            "analysis": {
                "observation_count": count, "threshold": seen["threshold"], "split_score": seen["split_score"],
                "n_topics": len(seen["topics"]), "moved_observations": moved,
                "original_observations_remaining": count - moved,
            },
            "plan_hash": seen["plan_hash"],
        }  # fmt: skip
        return {"proposal": plan if self.splits else None, "message": self.message}


# How much is too much for an entity, and whether what it holds is of several topics (S0-07, S0-08, T1).


DEFAULT = "default"
MOST_OF_DIVERSITY = 0.5


def thresholds_of(settings: SplitSettings) -> dict[str, int]:
    """The threshold of every type by its canonical name (S0-07); keys of other vocabularies (Sesion) are understood.

    Raises `UnknownName` for a key that is no type.
    """
    given = {**SplitSettings().thresholds, **{_type_of(key): most for key, most in settings.thresholds.items()}}
    return {kind: given.get(kind, given[DEFAULT]) for kind in (*TYPES, DEFAULT)}


def _type_of(key: str) -> str:
    kind = DEFAULT if key.strip().lower() == DEFAULT else canonical_type(key)
    if kind is None:
        raise UnknownName("entity type in split.thresholds", key, (*TYPES, DEFAULT))
    return kind


def threshold_column(types: pl.Series, settings: SplitSettings) -> pl.Series:
    """The threshold of each of these types, in their order; of an unknown type the default."""
    known = thresholds_of(settings)
    return types.replace_strict(known, default=known[DEFAULT], return_dtype=pl.Int64).alias("threshold")


def split_score(count: int, threshold: int, n_topics: int) -> float:
    """Fullness plus diversity, from 0 up: `count/threshold + min(n_topics/count, 0.5)` (S0-08)."""
    fullness = count / threshold if threshold else 1.0
    return fullness + min(n_topics / max(count, 1), MOST_OF_DIVERSITY)


def weighed(count: int, threshold: int, sizes: Sequence[int], settings: SplitSettings) -> dict[str, Any]:
    """How full an entity is, and whether its topics, of these sizes, are apart.

    `n_apart` have at least `min_topic_size` observations; `is_distinct` from `min_topics` of them on (T1);
    `is_candidate` beyond the threshold, too. Up to the threshold topics add no score.
    """
    is_full, n_apart = count > threshold, sum(size >= settings.min_topic_size for size in sizes)
    is_distinct = n_apart >= settings.min_topics
    return {
        "count": count, "threshold": threshold, "n_apart": n_apart, "is_distinct": is_distinct,
        "is_candidate": is_full and is_distinct,
        "split_score": split_score(count, threshold, len(sizes) if is_full else 0),
    }  # fmt: skip

"""Scores of texts by words where no index has them: only the texts that say most of a query are taken apart.

To take a text apart costs a quarter of a millisecond; to look for a few words in it, a thousandth of that.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from .columns import WordIndex, index_terms

Scores = npt.NDArray[np.float64]
_RAREST = 16
"""Words of a query by which texts are chosen; all count in the scores."""


def best_scores(texts: pl.Series, queries: Sequence[str], of: int, most: int) -> list[Scores]:
    """For each query the BM25 of each of n texts, (n,): at most `most` texts of a query are above 0.

    Those are the texts that say its rarest words; the words are as rare as in `of` texts.
    """
    texts = texts.fill_null("")
    if len(texts) <= most:
        whole = WordIndex(texts, of=of)
        return [whole.scores(query) for query in queries]
    asked = pl.DataFrame(
        [(number, word) for number, query in enumerate(queries) for word in _telling(index_terms(query))],
        schema={"query": pl.Int64, "word": pl.String},
        orient="row",
    )
    if asked.is_empty():
        return [np.zeros(len(texts)) for _ in queries]
    said = (
        texts.str.to_lowercase()
        .str.extract_many(asked["word"].unique(maintain_order=True).to_list(), overlapping=True)
        .list.unique()
        .rename("word")
        .to_frame()
        .with_row_index("place")
        .explode("word")
        .drop_nulls()
    )
    saying = said.group_by("word").len()
    rarity = (1 + (max(of, len(texts)) - pl.col("len") + 0.5).clip(0.5) / (pl.col("len") + 0.5)).log()
    rarest = asked.join(saying.with_columns(rarity=rarity), on="word").sort("rarity", "word", descending=[True, False])
    sums = said.join(rarest.group_by("query").head(_RAREST), on="word")
    sums = sums.group_by("query", "place").agg(pl.col("rarity").sum().round(9))
    kept = sums.sort("query", "rarity", "place", descending=[False, True, True]).group_by("query").head(most)
    places = kept["place"].unique().sort()
    others = {word for query in queries for word in index_terms(query)} - {*saying["word"]}
    holding = {word: int(texts.str.contains(word, literal=True).sum()) for word in sorted(others)}
    index = WordIndex(texts.gather(places), of=of, holding=holding | dict(saying.iter_rows()))
    own = {number: rows["place"] for (number,), rows in kept.group_by("query")}
    found = []
    for number, query in enumerate(queries):
        scores = np.zeros(len(texts))
        scores[places.to_numpy()] = index.scores(query)
        mask = np.zeros(len(texts), bool)
        mask[own.get(number, pl.Series([], dtype=pl.UInt32)).to_numpy()] = True
        found.append(np.where(mask, scores, 0.0))
    return found


def _telling(words: Sequence[str]) -> list[str]:
    """The distinct words, without those of one character where there are longer ones."""
    return [*dict.fromkeys(word for word in words if len(word) > 1)] or [*dict.fromkeys(words)]

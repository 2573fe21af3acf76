"""The words by which topics are told apart and named: c-TF-IDF over observations and over topics (S0-09, S0-10, T2)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

SHORTEST = 4
ANCHORS = 10
UNNAMED = "Tema"

Labels = npt.NDArray[np.int64]


def words_of(texts: Sequence[str] | pl.Series, stop_words: Collection[str]) -> pl.DataFrame:
    """(text, term) of every word that may tell topics apart, in order: runs of letters, lower-cased, accents kept."""
    told = pl.DataFrame({"text": np.arange(len(texts)), "term": pl.Series(texts, dtype=pl.String)})
    runs = pl.col("term").str.normalize("NFC").str.to_lowercase().str.extract_all(r"\p{L}+")
    is_kept = (pl.col("term").str.len_chars() >= SHORTEST) & ~pl.col("term").is_in(sorted(stop_words))
    return told.with_columns(runs).explode("term").filter(is_kept)


def anchor_topics(texts: Sequence[str] | pl.Series, stop_words: Collection[str]) -> Labels:
    """(n,) number of the topic of each text: those that share their weightiest anchor; a text without any is alone.

    The ten terms with the most weight, the sum of tf/length·ln(N/df) over the texts, are the anchors; a term of one
    text alone is none (path B of S0-09).
    """
    tally = _tally(words_of(texts, stop_words))
    df = tally.group_by("term").agg(df=pl.len()).filter(pl.col("df") >= 2)
    weighed = tally.join(df, on="term").with_columns(idf=(len(texts) / pl.col("df")).log())
    weights = weighed.group_by("term").agg(weight=(pl.col("share") * pl.col("idf")).sum().round(12))
    anchors = weights.sort(-pl.col("weight"), "term").head(ANCHORS).with_row_index("rank")
    best = tally.join(anchors, on="term").group_by("text").agg(pl.col("rank").min().cast(pl.Int64))
    labels = np.arange(len(texts)) + ANCHORS
    labels[best["text"].to_numpy()] = best["rank"].to_numpy()
    return labels


def name_topics(topics: Sequence[Sequence[str]], stop_words: Collection[str], label_terms: int = 2) -> list[str]:
    """A label for each topic, given the texts of each: its `label_terms` weightiest words, capitalised (S0-10).

    The weight is tf/length·ln(topics/df), each topic being one document; where all of a topic's words are in every
    topic, the commonest name it. Ties are alphabetical. A topic without words is `Tema_3`, the third; the second of
    two equal labels ends in its number.
    """
    tally = _tally(words_of([" ".join(texts) for texts in topics], stop_words))
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

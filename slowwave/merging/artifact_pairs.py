"""How alike two documents or pasted texts are, and what follows from it by rule (S1-16 … S1-18)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.merging.guards import GUARDS, guards_pass
from slowwave.settings import ArtifactSettings

SHINGLE_WORDS = 5
WEIGHTS: Mapping[str, float] = {"cosine": 0.5, "shingle_jaccard": 0.3, "title_jaccard": 0.2}
NEAR = {"id": pl.String, "head_id": pl.String, "cosine": pl.Float64}

_SUBSTANCE = tuple({guard.name: guard for guard in GUARDS}[name] for name in ("polarity", "quantity", "time", "name"))
_PAIRS_AT_ONCE = 2000
_FACTORS = np.array(
    [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F],
    dtype=np.uint64,
)
_TITLE_WORD = r"[\p{L}\p{N}]+"
_EDITION = r"(?i)\b(?:v|ver|version|rev|revision|draft|edition)[ ._-]*\d+(?:\.\d+)*\b|\b(?:draft|final|copy|revised)\b"
_ENDING = r"\.[A-Za-z][A-Za-z0-9]{0,7}$"


def shingle_jaccard(a: pl.Series, b: pl.Series) -> pl.Series:
    """Shared runs of five words over all such runs, pair by pair; a shorter text is one run (S1-17)."""
    texts = pl.concat([a.alias("text"), b.alias("text")]).unique()
    known = pl.DataFrame({"text": texts, "runs": _shingles(texts)})
    pairs = pl.DataFrame({"text": a, "text_b": b})
    pairs = pairs.join(known, on="text", how="left", maintain_order="left")
    pairs = pairs.join(known, left_on="text_b", right_on="text", how="left", maintain_order="left", suffix="_b")
    return _jaccard(pairs, "runs", "runs_b")


def title_jaccard(a: pl.Series, b: pl.Series) -> pl.Series:
    """Shared words over all words of two titles, without file endings and what only tells the edition (S1-18)."""
    return _jaccard(pl.DataFrame({"a": _title_words(a), "b": _title_words(b)}), "a", "b")


def measure_pairs(artifacts: pl.DataFrame, near: pl.DataFrame, settings: ArtifactSettings) -> pl.DataFrame:
    """Every near pair of one scope once (id < head_id): its measures, and `relation` by rule (null: none).

    `artifacts` holds both sides: id, title, type, content, scope, conversation_id, message_id. Cosines below
    `similar_cosine` are no pairs (S1-16).
    """
    first, second = pl.min_horizontal("id", "head_id"), pl.max_horizontal("id", "head_id")
    pairs = near.filter((pl.col("cosine") >= settings.similar_cosine) & (pl.col("id") != pl.col("head_id")))
    pairs = (
        pairs.select(id=first, head_id=second, cosine="cosine").group_by("id", "head_id").agg(pl.col("cosine").max())
    )
    sides = artifacts.select("id", "title", "type", "content", "scope", "conversation_id", "message_id")
    pairs = pairs.sort("id", "head_id").join(sides, on="id", maintain_order="left")
    pairs = pairs.join(sides, left_on="head_id", right_on="id", suffix="_b", maintain_order="left")
    pairs = pairs.filter(pl.col("scope") == pl.col("scope_b"))
    parts = [_measured(part, settings) for part in pairs.iter_slices(_PAIRS_AT_ONCE)]
    return pl.concat(parts) if parts else _measured(pairs, settings)


def _shingles(texts: pl.Series) -> pl.Series:
    """Per text the distinct hashes of its runs of five words."""
    words = (
        pl.DataFrame({"word": texts.str.to_lowercase().str.extract_all(r"\w+")}).with_row_index("row").explode("word")
    )
    words = words.filter(pl.col("word").is_not_null())
    rows, hashes = words["row"].to_numpy(), words["word"].hash(7).to_numpy()
    frame = pl.concat([_runs(rows, hashes), _short_runs(words)])
    lists = frame.group_by("row").agg(pl.col("run").unique())
    every = pl.DataFrame({"row": pl.int_range(len(texts), dtype=pl.UInt32, eager=True)})
    found = every.join(lists, on="row", how="left", maintain_order="left")["run"]
    return found.fill_null([])


def _runs(rows: npt.NDArray[np.uint32], hashes: npt.NDArray[np.uint64]) -> pl.DataFrame:
    count = max(len(rows) - SHINGLE_WORDS + 1, 0)
    runs = np.zeros(count, np.uint64)
    for step, factor in enumerate(_FACTORS):
        runs += hashes[step : step + count] * factor
    inside = rows[:count] == rows[SHINGLE_WORDS - 1 : SHINGLE_WORDS - 1 + count]
    return pl.DataFrame({"row": rows[:count][inside], "run": runs[inside]}, schema={"row": pl.UInt32, "run": pl.UInt64})


def _short_runs(words: pl.DataFrame) -> pl.DataFrame:
    short = words.filter(pl.len().over("row") < SHINGLE_WORDS)
    whole = short.group_by("row", maintain_order=True).agg(pl.col("word").str.join(" "))
    return whole.select(pl.col("row").cast(pl.UInt32), run=pl.col("word").hash(7))


def _title_words(titles: pl.Series) -> pl.Series:
    bare = titles.str.replace(_ENDING, "").str.to_lowercase().str.replace_all("_", " ", literal=True)
    words = bare.str.replace_all(_EDITION, " ").str.extract_all(_TITLE_WORD)
    frame = pl.DataFrame({"words": words, "all": bare.str.extract_all(_TITLE_WORD)})
    chosen = pl.when(pl.col("words").list.len() > 0).then("words").otherwise("all")
    return frame.select(words=chosen.list.unique())["words"]


def _jaccard(pairs: pl.DataFrame, a: str, b: str) -> pl.Series:
    shared = pl.col(a).list.set_intersection(b).list.len().cast(pl.Float64)
    both = pl.col(a).list.len().cast(pl.Float64) + pl.col(b).list.len().cast(pl.Float64) - shared
    return pairs.select(jaccard=pl.when(both > 0).then(shared / both).otherwise(1.0))["jaccard"]


def _measured(pairs: pl.DataFrame, settings: ArtifactSettings) -> pl.DataFrame:
    same_file = (pl.col("conversation_id") == pl.col("conversation_id_b")) & pl.all_horizontal(
        pl.col("message_id", "message_id_b").is_null()
    )
    measured = pairs.with_columns(
        shingle_jaccard=shingle_jaccard(pairs["content"], pairs["content_b"]),
        title_jaccard=title_jaccard(pairs["title"], pairs["title_b"]),
        is_same_file=same_file.fill_null(False),
        is_same_type=pl.col("type") == pl.col("type_b"),
    ).with_columns(confidence=pl.sum_horizontal(weight * pl.col(name) for name, weight in WEIGHTS.items()))
    measured = measured.with_columns(changed=_changed(measured, settings))
    kept = ("id", "head_id", *WEIGHTS, "confidence", "is_same_file", "is_same_type", "changed")
    return measured.select(*kept, relation=_relation(settings))


def _changed(pairs: pl.DataFrame, settings: ArtifactSettings) -> pl.Series:
    """Of pairs alike enough to be one text: the guard by which what differs is another statement, "" where none is; of
    others null.

    A long text with one number or name changed shares nearly all of its runs, and yet it is news (G1, G2, T29).
    """
    alike = pairs.with_row_index("row").filter(pl.col("shingle_jaccard") >= settings.text_dedup)
    differing = [_differing(a, b) for a, b in alike.select("content", "content_b").iter_rows()]
    first, second = (pl.Series([pair[side] for pair in differing], dtype=pl.String) for side in (0, 1))
    failed = guards_pass(first, second, _SUBSTANCE)["failed_guard"].fill_null("")
    found = alike.select("row").with_columns(changed=failed)
    rows = pairs.select(pl.int_range(pl.len(), dtype=pl.UInt32).alias("row"))
    return rows.join(found, on="row", how="left", maintain_order="left")["changed"]


def _differing(a: str, b: str) -> tuple[str, str]:
    """The lines that only one side has, as often as it has more of them."""
    first, second = (Counter(line.strip() for line in text.splitlines()) for text in (a, b))
    return "\n".join((first - second).elements()), "\n".join((second - first).elements())


def _relation(settings: ArtifactSettings) -> pl.Expr:
    is_one_text = pl.col("changed") == ""  # null where too little is shared for one text
    is_sure = pl.col("confidence") >= settings.link_confidence
    is_titled_so = pl.col("is_same_type") & (pl.col("title_jaccard") >= settings.title_jaccard)
    return (
        pl.when(is_one_text).then(pl.lit("duplicate"))
        .when(is_titled_so & (is_sure | pl.col("is_same_file"))).then(pl.lit("version"))
        .when(is_sure).then(pl.lit("derivative"))
    )  # fmt: skip

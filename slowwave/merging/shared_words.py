"""All pairs of texts that share most of their words, exactly, by looking only where rare words meet (S1-03).

Two sets of words with Jaccard ≥ t share at least ⌈t·n⌉ of the n words of either. So of any n − ⌈t·n⌉ + l words of one,
l are shared: the rarest are taken, and texts are compared where l of these meet. With l = 1 that is prefix filtering;
where few distinct words recur in very many texts, two or three together are rare though each alone is not.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from slowwave.similarity import word_sets

_MEETINGS = 30  # per set of words; beyond, it is tried whether more words at once meet less often
_MOST_WORDS = 3
_AT_ONCE = 10_000_000  # rows of one join
_MEASURED = 500_000
_SPREAD = 2_654_435_761  # an odd number: combinations of words become numbers, seldom the same
OVERLAPS = {"first": pl.Int32, "second": pl.Int32, "jaccard": pl.Float64}


def distinct_words(texts: pl.Series, groups: pl.Series) -> tuple[pl.Series, pl.DataFrame]:
    """The number of each text's set of words within its group, and the sets: set, group, size, words (rarest first).

    Words are numbers, smaller the rarer they are.
    """
    texts = texts.cast(pl.String).fill_null("")
    known = texts.unique(maintain_order=True).to_frame("text")
    known = known.with_columns(words=word_sets(known["text"]).list.sort())
    key = pl.struct(pl.col("words").list.join(" "), "group").rank("dense").cast(pl.Int32) - 1
    told = pl.DataFrame({"text": texts, "group": groups}).join(known, on="text", how="left", maintain_order="left")
    told = told.with_columns(set=key)
    sets = told.unique("set", keep="first").select("set", "group", "words").sort("set")
    spread = sets.explode("words").drop_nulls("words")
    often = spread.group_by("words").len().sort("len", "words").with_row_index("word")
    coded = spread.join(often, on="words").sort("set", "word").group_by("set", maintain_order=True).agg("word")
    joined = sets.select("set", "group").join(coded, on="set", how="left", maintain_order="left")
    words = joined["word"].fill_null(pl.Series([[]], dtype=pl.List(pl.UInt32)))
    return told["set"], joined.select("set", "group", size=words.list.len().cast(pl.Int32), words=words)


def shared_words(sets: pl.DataFrame, asked: pl.Series, threshold: float) -> pl.DataFrame:
    """OVERLAPS: pairs of sets of one group with Jaccard ≥ `threshold`, first < second, at least one of them `asked`.

    `sets` as from `distinct_words`, `asked` is boolean in its order. Sets without a common word never pair, whatever
    the threshold.
    """
    least = pl.max_horizontal((pl.col("size") * threshold - 1e-9).ceil().cast(pl.Int32), 1)
    held = sets.with_columns(is_asked=asked, least=least).filter(pl.col("size") > 0)
    meetings = _cheapest_meetings(held)
    found = [_overlaps(part, sets, threshold) for part in _met(meetings, threshold)]
    return pl.concat([pl.DataFrame(schema=OVERLAPS), *found]).unique().sort("first", "second")


def overlap_of(first: pl.Series, second: pl.Series) -> pl.Series:
    """Jaccard of two columns of sets of words, row by row; both empty 1.0."""
    shared = first.list.set_intersection(second).list.len().cast(pl.Float64)
    whole = first.list.len().cast(pl.Float64) + second.list.len() - shared
    found: pl.Series = pl.select(pl.when(whole > 0).then(shared / whole).otherwise(1.0)).to_series()
    return found


def _cheapest_meetings(held: pl.DataFrame) -> pl.DataFrame:
    """Where sets meet (group, key, set, size, is_asked), by as many words at once as makes the least work."""
    best: tuple[int, pl.DataFrame] | None = None
    for together in range(1, _MOST_WORDS + 1):
        if best and (best[0] <= _MEETINGS * len(held) or _combinations(held, together) >= best[0]):
            break
        meetings = _meetings(held, together)
        work = len(meetings) + _comparisons(meetings)
        if best is None or work < best[0]:
            best = work, meetings
    assert best is not None
    return best[1]


def _combinations(held: pl.DataFrame, together: int) -> int:
    """How many combinations of so many words there are among the rarest of all sets."""
    ways = pl.lit(1.0)
    for drawn in range(together):
        ways = ways * (_width(together).cast(pl.Float64) - drawn) / (drawn + 1)
    return int(held.select(ways.clip(0).sum()).item())


def _comparisons(meetings: pl.DataFrame) -> int:
    met = meetings.group_by("group", "key").agg(pl.len().cast(pl.Int64), asked=pl.col("is_asked").sum().cast(pl.Int64))
    return int(met.select((pl.col("len") * pl.col("asked")).sum()).item())


def _width(together: int) -> pl.Expr:
    """Of how many of its rarest words a set must have so many in common with any that overlaps enough."""
    return pl.min_horizontal(pl.col("size") - pl.col("least") + together, "size")


def _meetings(held: pl.DataFrame, together: int) -> pl.DataFrame:
    """Combinations of `together` words; of sets that may pair by sharing fewer, also of that many."""
    parts = [_combined(held.filter(pl.col("least") <= fewer), fewer) for fewer in range(1, together)]
    return pl.concat([*parts, _combined(held, together)])


def _combined(held: pl.DataFrame, together: int) -> pl.DataFrame:
    about = ["group", "set", "size", "is_asked"]
    spread = (
        held.select(*about, word=pl.col("words").list.head(_width(together)))
        .explode("word")
        .select(*about, place=pl.int_range(pl.len(), dtype=pl.Int32), word=pl.col("word").cast(pl.UInt64))
    )
    found = spread.rename({"word": "key"})
    for _ in range(together - 1):
        more = found.join(spread.select("set", "place", "word"), on="set", suffix="_next")
        # Equal keys of different words do no harm: what meets is measured.
        found = more.filter(pl.col("place_next") > pl.col("place")).select(
            *about, place="place_next", key=pl.col("key") * _SPREAD + pl.col("word") + 1
        )
    return found.select(*about, key=pl.col("key") * _MOST_WORDS + (together - 1))


def _met(meetings: pl.DataFrame, threshold: float) -> Iterator[pl.DataFrame]:
    """Pairs of sets that meet and are long enough for each other, a bounded number of meetings at once."""
    key = ["group", "key"]
    counts = meetings.with_columns(met=pl.len().over(key)).filter(pl.col("is_asked") & (pl.col("met") > 1))
    asked = counts.with_columns(part=(pl.col("met").cast(pl.Int64).cum_sum() // _AT_ONCE)).drop("met")
    for part in asked.partition_by("part", include_key=False):
        pairs = part.join(meetings, on=key, suffix="_b")
        long_enough = pl.min_horizontal("size", "size_b") >= pl.max_horizontal("size", "size_b") * threshold - 1e-9
        is_new = pl.when("is_asked_b").then(pl.col("set") < pl.col("set_b")).otherwise(True)
        yield (
            pairs.filter(long_enough & is_new & (pl.col("set") != pl.col("set_b")))
            .select(first=pl.min_horizontal("set", "set_b"), second=pl.max_horizontal("set", "set_b"))
            .unique()
        )


def _overlaps(pairs: pl.DataFrame, sets: pl.DataFrame, threshold: float) -> pl.DataFrame:
    words = sets["words"]
    parts = [
        part.with_columns(jaccard=overlap_of(words.gather(part["first"]), words.gather(part["second"]))).filter(
            pl.col("jaccard") >= threshold
        )
        for part in pairs.iter_slices(_MEASURED)
    ]
    return pl.concat([pl.DataFrame(schema=OVERLAPS), *parts])

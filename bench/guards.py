"""What the guards let through: labelled pairs of SICK, and sentences in which one thing was changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from random import Random
from typing import Literal

import numpy as np
import polars as pl

from inference.embedding import open_embedder
from slowwave.common.comparison.guards import guards_pass
from slowwave.common.comparison.similarity import word_overlap
from slowwave.common.settings import MergeSettings
from slowwave.common.text import sentences as split_sentences

from . import data
from .figures import Absent, Figure, Options, measured

SEED = 11
CHANGED = 10_000
SPEED_PAIRS = 100_000
NEAR = 4.8  # relatedness, 1 to 5, from which annotators saw hardly a difference
COSINES = (0.92, 0.80, MergeSettings().merge_cosine)  # the last is what consolidation does

NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "twelve", "twenty", "fifty")
MONTHS = tuple("January February March April May June July August September October November December".split())
WEEKDAYS = tuple("Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split())
NAMES = tuple(
    "Ana Ben Carla Dmitri Elena Farid Greta Hugo Ines Jonas Kira Liam Mona Nadia Oscar Priya Quentin Rosa Stefan Tara "
    "Uma Viktor Wanda Xavier Yusuf Zoe Berlin Lisbon Toronto Nairobi Oslo Kyoto Acme Globex Initech Umbra".split()
)
_DENIABLE = re.compile(r"\b(is|are|was|were|can|could|will|would|should|has|have|had|do|does|did)(?= )", re.IGNORECASE)
_DENIAL = re.compile(r"(?<=\w)n't\b|\b(?:not|never) ", re.IGNORECASE)
_DIGITS = re.compile(r"\d+")
_NUMBER = re.compile(rf"\b(?:{'|'.join(NUMBERS)})\b")
_DATE = re.compile(rf"\b(?:{'|'.join((*MONTHS, *WEEKDAYS))})\b|\b\d{{4}}-\d\d-\d\d\b")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,}\b")

Better = Literal["higher", "lower"]
Change = Callable[[str, Random], str | None]


def run(options: Options) -> Iterable[Figure]:
    """SICK's pairs by label, changed sentences, and the rate."""
    yield from sick_figures(judged(sick(options.data)))
    texts = sentences(options.data)
    yield changed_figure(texts, CHANGED // 10 if options.is_quick else CHANGED)
    yield from speed_figures(texts, SPEED_PAIRS // 10 if options.is_quick else SPEED_PAIRS)


def sick(folder: Path) -> pl.DataFrame:
    """SICK's pairs: `a`, `b`, `label`, `relatedness` (1 to 5)."""
    parts = sorted((folder / "sick").glob("*.txt"))
    if not parts:
        raise Absent(f"no SICK data in {folder}: set SLOWWAVE_DATA to the folder that holds sick/")
    whole = pl.concat([pl.read_csv(part, separator="\t", quote_char=None) for part in parts])
    return whole.select(
        a="sentence_A", b="sentence_B", label="entailment_judgment", relatedness=pl.col("relatedness_score")
    )


def judged(pairs: pl.DataFrame) -> pl.DataFrame:
    """The pairs with `cosine` of the shipped embedder, `jaccard`, `passes` and `failed_guard`."""
    embedder = open_embedder()
    first, second = (embedder.embed(pairs[side].to_list()) for side in ("a", "b"))
    cosine = pl.Series("cosine", np.einsum("ij,ij->i", first, second), dtype=pl.Float64)
    measures = [word_overlap(pairs["a"], pairs["b"]), guards_pass(pairs["a"], pairs["b"])]
    return pl.concat([pairs.with_columns(cosine), *measures], how="horizontal")


def sick_figures(pairs: pl.DataFrame) -> Iterator[Figure]:
    """Shares merged without a model: guards alone, and behind the likeness that the ladder asks for."""
    near = (pl.col("label") == "ENTAILMENT") & (pl.col("relatedness") >= NEAR)
    same_words = pl.col("jaccard") >= MergeSettings().text_dedup
    rungs = {"guards alone": pl.lit(True)} | {
        f"words ≥ {MergeSettings().text_dedup:g} or cosine ≥ {least:.2f}": same_words | (pl.col("cosine") >= least)
        for least in COSINES
    }
    for rung, reached in rungs.items():
        merged = pl.col("passes") & reached
        label = pl.col("label")
        yield _share(pairs, "contradictions merged", label == "CONTRADICTION", merged, rung, 0.01, "lower")
        yield _share(pairs, "near-identical entailments decided", near, merged, rung, None, "higher")
        yield _share(pairs, "neutral pairs merged", label == "NEUTRAL", merged, rung, 0.01, "lower")


def _share(
    pairs: pl.DataFrame, name: str, which: pl.Expr, merged: pl.Expr, rung: str, bar: float | None, better: Better
) -> Figure:
    chosen = pairs.filter(which).select(merged.alias("merged"))["merged"]
    count = int(chosen.sum())
    share = count / max(len(chosen), 1)
    note = f"{count} of {len(chosen)}"
    return Figure("guards", f"SICK {name}, {rung}", share, "", bar, better, note=note)


def sentences(folder: Path) -> list[str]:
    """The distinct sentences of the evaluation conversations, in their order."""
    talks = [*data.locomo(folder), *data.beam(folder)]
    found = (part.strip() for talk in talks for row in talk.messages for part in split_sentences(row["content"]))
    return list(dict.fromkeys(part for part in found if 3 <= len(part.split()) <= 60))


def changed(texts: Sequence[str], count: int, seed: int = SEED) -> list[tuple[str, str, str]]:
    """(kind, sentence, the same with one number, date, name or negation changed), kinds in turn; at most `count`."""
    random = Random(seed)
    order = random.sample(texts, len(texts))
    by_kind = [_changed_so(kind, order, random) for kind in CHANGES]
    in_turn = (one for ones in zip_longest(*by_kind) for one in ones if one is not None)
    return list(islice(in_turn, count))


def _changed_so(kind: str, texts: Sequence[str], random: Random) -> Iterator[tuple[str, str, str]]:
    for text in texts:
        other = CHANGES[kind](text, random)
        if other is not None:
            yield kind, text, other


def change_digits(text: str, random: Random) -> str | None:
    """One number in digits becomes another with as many."""
    return _replaced(text, _DIGITS, random, lambda old: _other_digits(old, random))


def change_number_word(text: str, random: Random) -> str | None:
    """One number in words becomes another."""
    return _replaced(text, _NUMBER, random, lambda old: _other(old, NUMBERS, random))


def change_date(text: str, random: Random) -> str | None:
    """One month, weekday or date becomes another."""

    def other(old: str) -> str:
        pool = next((names for names in (MONTHS, WEEKDAYS) if old in names), None)
        return _other(old, pool, random) if pool else old[:-2] + f"{int(old[-2:]) % 28 + 1:02d}"

    return _replaced(text, _DATE, random, other)


def change_name(text: str, random: Random) -> str | None:
    """One capitalised word inside the sentence becomes another name."""
    return _replaced(text, _NAME, random, lambda old: _other(old, NAMES, random))


def change_negation(text: str, random: Random) -> str | None:
    """A negation goes, or comes where there is none."""
    if _DENIAL.search(text):
        return _replaced(text, _DENIAL, random, lambda old: "")
    return _replaced(text, _DENIABLE, random, lambda old: f"{old} not")


CHANGES: Mapping[str, Change] = {
    "number": change_digits,
    "number word": change_number_word,
    "date": change_date,
    "name": change_name,
    "negation": change_negation,
}


def _replaced(text: str, pattern: re.Pattern[str], random: Random, other: Callable[[str], str]) -> str | None:
    found = list(pattern.finditer(text))
    if not found:
        return None
    one = random.choice(found)
    return text[: one.start()] + other(one[0]) + text[one.end() :]


def _other(old: str, pool: Sequence[str], random: Random) -> str:
    return random.choice([each for each in pool if each != old])


def _other_digits(old: str, random: Random) -> str:
    place = random.randrange(len(old))
    return old[:place] + _other(old[place], "123456789", random) + old[place + 1 :]


def changed_figure(texts: Sequence[str], count: int) -> Figure:
    """How many changed sentences would be merged with what they were made of, if only the guards were asked."""
    made = changed(texts, count)
    verdicts = guards_pass(pl.Series([a for _, a, _ in made]), pl.Series([b for _, _, b in made]))
    merged = int(verdicts["passes"].sum())
    return Figure("guards", "changed sentences merged", merged, "pairs", 0.0, "lower", f"of {len(made)}, seed {SEED}")


def speed_figures(texts: Sequence[str], count: int) -> Iterator[Figure]:
    """Pairs a second: sentences that have nothing to do with each other, and such as differ in one thing."""
    random = Random(SEED)
    unlike = tuple(pl.Series(random.choices(texts, k=count)) for _ in range(2))
    made = changed(texts, count // 10)
    alike = tuple(pl.Series([one[side] for one in made]) for side in (1, 2))
    for name, (a, b), bar in (("unlike", unlike, 20_000), ("with one change", alike, None)):
        with measured() as cost:
            guards_pass(a, b)
        yield Figure("guards", f"rate, pairs {name}", len(a) / cost.wall_s, "pairs/s", bar, note=f"{len(a):,} pairs")

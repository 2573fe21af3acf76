"""What an audit reads out of a statement: what it is about, how it denies, what it counts, and when that was.

A count is a number of something: "2 cats", "two cats", "20 euros". A date, a year, a time of day, and the number of a
chapter or a room are none: two statements that differ in one speak of two things or two events, which may both hold.
"""

from __future__ import annotations

import re

import polars as pl

from slowwave.application.patches import content_stems
from slowwave.merging.guard_marks import read_polarities, straight
from slowwave.merging.guard_words import MONTHS, NUMBER_WORDS, POLARITY, RELATIVE_TIME, UNITS, WEEKDAYS

_DENIAL = rf"\b(?:{'|'.join(POLARITY.values())})\b"
_PLAIN = ("not", "never", "no", "no longer")
_CANNOT = r"\b(?:cannot|can't|cant|can not|unable to|not able to)\b"
_CARDINALS = {word: value for word, value in NUMBER_WORDS.items() if value.isdigit() and word not in ("both", "single")}
_DAY = r"\d{1,2}(?:st|nd|rd|th|\.)?"
_MONTH = rf"(?:{'|'.join(sorted(MONTHS, key=len, reverse=True))})\b\.?"
_NUMBERED = (
    "chapter|page|part|season|episode|room|bus|line|version|level|grade|route|number|gate|platform|floor|step|"
    "apartment|flat|track|class|volume|issue|phase|day|week|month|year|capítulo|página|kapitel|seite"
)
_OCCASION = (
    rf"(?:the )?{_DAY} (?:of |de )?{_MONTH}(?:,? (?:of |de )?\d{{4}})?|{_MONTH} {_DAY}(?:,? \d{{4}})?(?!\d)|"
    rf"\d+(?:[/:-]\d+)+|\d+(?:\.\d+){{2,}}|\d+(?:st|nd|rd|th)\b|(?:19|20)\d\d(?!\w)|at \d+|"
    rf"\d+ ?(?:am|pm|a\.m|p\.m|o'clock|uhr)\b|(?:{_NUMBERED}) \d+|"
    rf"(?:{_MONTH}|(?:{'|'.join(WEEKDAYS)})\b)"
)
_UNIT = "|".join(re.escape(unit) for unit in sorted(UNITS, key=len, reverse=True) if unit[0].isalpha())
_DIGITS = rf"(?:\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?|\d+(?:\.\d+)?)(?![\d.,:/-]*\d)(?=(?:{_UNIT})\b|\W|$)"
_COUNT = rf"{_DIGITS}|(?:{'|'.join(_CARDINALS)})\b"
_MONEY = r"\d+,\d\d(?= ?[€$£%])"
_ANY = re.compile(
    rf"(?<![\w.,:/-])(?:(?P<money>{_MONEY})|(?P<occasion>{_OCCASION})|(?P<count>{_COUNT}))", re.IGNORECASE
)
_BLANK = "0"
_COUNTED = pl.Struct({"rest": pl.String, "counts": pl.List(pl.String), "occasions": pl.List(pl.String)})


def read_matter(texts: pl.Series) -> pl.Series:
    """The words of each text that say what it is about, without common endings: no denials, no numbers."""
    plain = pl.DataFrame({"text": straight(texts).str.to_lowercase().str.replace_all(_DENIAL, " ")})
    word = pl.element()
    is_number = word.str.contains(r"\p{N}") | word.is_in([*_CARDINALS])
    return plain.select(words=content_stems("text").list.eval(word.filter(~is_number)))["words"]


def read_denials(texts: pl.Series) -> pl.Series:
    """How each text denies: `none`, `not` or `cannot` for one plain denial, `other` for several or less than that."""
    small = straight(texts).str.to_lowercase()
    read = pl.DataFrame({"text": small, "marks": read_polarities(small)})
    size, first = pl.col("marks").list.len(), pl.col("marks").list.first()
    kind = (
        pl.when(size == 0).then(pl.lit("none"))
        .when((size == 1) & pl.col("text").str.contains(_CANNOT)).then(pl.lit("cannot"))
        .when((size == 1) & first.is_in(_PLAIN)).then(pl.lit("not"))
        .otherwise(pl.lit("other"))
    )  # fmt: skip
    return read.select(kind=kind)["kind"]


def read_counts(texts: pl.Series) -> pl.Series:
    """Structs of `counts`, the numbers of something in their order, `rest`, the text without them, and `occasions`.

    Occasions are dates, times of day, and numbers that name something, in the order of the text.
    """
    small = straight(texts)
    relative = small.str.to_lowercase().str.extract_all(rf"\b(?:{RELATIVE_TIME})\b").to_list()
    rows = [(*_counted(text), said) for text, said in zip(small, relative, strict=True)]
    told = [{"rest": rest, "counts": counts, "occasions": [*on, *said]} for rest, counts, on, said in rows]
    return pl.Series("counted", told, dtype=_COUNTED)


def _counted(text: str) -> tuple[str, list[str], list[str]]:
    counts: list[str] = []
    occasions: list[str] = []

    def blank(found: re.Match[str]) -> str:
        said = found[0].lower()
        if found["occasion"] is not None:
            occasions.append(said)
            return found[0]
        counts.append(_CARDINALS.get(said, said.replace(",", "." if found["money"] else "")))
        return f"{_BLANK} " if text[found.end() : found.end() + 1].isalpha() else _BLANK

    return _ANY.sub(blank, text), counts, occasions

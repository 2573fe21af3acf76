"""What a guard reads out of texts: negations, amounts, times, names, owners, ends of scales (§6.2 G1, G2).

A reader takes a series of straight texts and gives a list of marks per text; equal marks are spelt alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import polars as pl

from slowwave.merging.guard_forms import WORD, as_article, spelling
from slowwave.merging.guard_pairs import ENDS, TURNING
from slowwave.merging.guard_stems import base
from slowwave.merging.guard_words import (
    AMBIGUOUS_CALENDAR,
    FUNCTION_WORDS,
    MONTHS,
    NUMBER_WORDS,
    POLARITY,
    RELATIVE_TIME,
    TIME_WORDS,
    UNITS,
    WEEKDAYS,
)

_ANY_UNIT = "|".join(re.escape(unit) for unit in sorted(UNITS, key=len, reverse=True) if unit[0].isalpha())
_ANY_NUMBER_WORD = "|".join(NUMBER_WORDS)
_POLARITY = r"\b(?:" + "|".join(POLARITY.values()) + r")\b"
_QUOTED = (
    r"`[^`\n]{1,200}`|\"[^\"\n]{1,200}\"|“[^”\n]{1,200}”|«[^»\n]{1,200}»|„[^“”\n]{1,200}[“”]|(?:^|"
    r"[\s(])'[^'\n]{1,200}'(?:[\s.,;:!?)]|$)"
)
_AMOUNT = rf"(?:[$€£¥#]\s?|(?:^|[\s(])[-~<>]?)[\w.,:/+%°^-]*\d[\w.,:/+%°^#-]*(?:[\s-]?(?:{_ANY_UNIT})\b|\s?[%€$£])?"
_SPELLED = rf"\b(?:{_ANY_NUMBER_WORD})\b(?:[\s-](?:{_ANY_UNIT})\b)?"
_IDENTIFIER = (
    r"[\w@.~/\\-]*\w(?:[/\\@_]|::|->|\.)\w[\w@.~/\\-]*|\b\w(?:\+\+|#)|\B\.[a-z]{2,8}\b|--[a-z][\w-]+|"
    r"\b\p{Ll}+\p{Lu}\w*"
)
_CALENDAR = r"\b(?i:" + "|".join(sorted({*MONTHS, *WEEKDAYS}, key=len, reverse=True)) + r")\b"
_TIME = r"\b(?:" + "|".join(TIME_WORDS) + r")\b"
_NAME = r"\b\p{Lu}(?:[\p{L}\p{N}&]|['-][\p{L}\p{N}])*"
_OWNER = r"[\p{L}\p{N}-]+'s\b|\p{L}+s'"
_NAMED_POLARITY = {name: re.compile(pattern) for name, pattern in POLARITY.items()}
_SPLIT_AMOUNT = re.compile(rf"(.*?[\d%]|{_ANY_NUMBER_WORD})[\s-]?({_ANY_UNIT}|[%€$£])?", re.DOTALL)
_TURNING = re.compile(TURNING)
_OTHER_END = str.maketrans("+-", "-+")


def _marks(texts: pl.Series, pattern: str, canonical: Callable[[str], str | None]) -> pl.Series:
    """Per text what the pattern finds, in one spelling each, in the order of the text; None drops a find."""
    return _spelt(texts.str.extract_all(pattern), canonical)


def _spelt(found: pl.Series, canonical: Callable[[str], str | None]) -> pl.Series:
    """Lists of finds with each in its one spelling."""
    raw = found.explode(empty_as_null=True).drop_nulls().unique().to_list()
    if not raw:
        return found
    named = pl.element().replace_strict(raw, [canonical(each) for each in raw], return_dtype=pl.String)
    return found.list.eval(named.drop_nulls())


def _together(*lists: pl.Series) -> pl.Series:
    """The lists of each row as one, sorted: multisets that compare with `==`."""
    frame = pl.DataFrame({str(index): part for index, part in enumerate(lists)})
    return frame.select(marks=pl.concat_list(pl.all()).list.eval(pl.element().sort()))["marks"]


def _polarity_name(found: str) -> str | None:
    return next((name for name, pattern in _NAMED_POLARITY.items() if pattern.fullmatch(found)), found)


def _amount_name(found: str) -> str | None:
    text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", found.strip(" \t\n(").rstrip(".,:;/-^#").lstrip("~+.,:/#"))
    whole = _SPLIT_AMOUNT.fullmatch(text)
    if whole is None:
        return text
    number, unit = whole[1], whole[2] or ""
    return NUMBER_WORDS.get(number, number.replace(" ", "")) + UNITS.get(unit, unit)


def _calendar_name(found: str) -> str | None:
    word = found.lower()
    if word in AMBIGUOUS_CALENDAR and found[0].islower():
        return None
    return MONTHS.get(word) or WEEKDAYS[word]


def _name(found: str) -> str | None:
    word = _bare(found)
    return None if word in FUNCTION_WORDS or word in NUMBER_WORDS else spelling(word)


def _bare(word: str) -> str:
    return word.lower().removesuffix("'s").removesuffix("n't")


def _base(found: str) -> str:
    return base(_bare(found))


def _opposite(ends: str | None) -> str | None:
    return ends and ends.translate(_OTHER_END)


def _turned(found: str) -> str | None:
    """The word that this one turns round: of "unhappy" "happy", of "useless" "useful"."""
    word = _base(found)
    if whole := _TURNING.fullmatch(word):
        return whole[1]
    return word.removesuffix("less") + "ful" if word.endswith("less") else None


_FRAME = (
    r"by the way|btw|for the record|fyi|just so you know|just to repeat|to repeat|as a reminder|reminder|remember|"
    r"(?:like|as) (?:i|we) (?:just )?(?:said|mentioned|wrote|told you)(?: before| earlier| already| last time)?|"
    r"as (?:said|mentioned)(?: before| earlier| already)?|once again|again|note|please note"
)


def unframed(texts: pl.Series) -> pl.Series:
    """The texts without an opening or an ending that only says that something is said: "By the way: …"."""
    bare = texts.str.replace(
        rf"(?i)^([^:\n]{{1,60}}: )?(?:(?:{_FRAME}|also|and|oh|well|so|yes)(?:, that|[,:;]| -)\s+)+", "$1"
    )
    return bare.str.replace(rf"(?i),\s+(?:{_FRAME})([.!]?)$", "$1")


def straight(texts: pl.Series) -> pl.Series:
    """Texts with one kind of apostrophe and no compatibility characters; null is empty."""
    return texts.cast(pl.String).fill_null("").str.normalize("NFKC").str.replace_all("[’‘]", "'")


def read_polarities(texts: pl.Series) -> pl.Series:
    """The negation markers of each text, sorted, each as often as it stands there."""
    return _together(_marks(texts.str.to_lowercase(), _POLARITY, _polarity_name))


def read_amounts(texts: pl.Series) -> pl.Series:
    """Numbers with their units, dates, versions, quoted and code-like identifiers, sorted."""
    rest = texts.str.replace_all(_QUOTED, " ")
    small = rest.str.to_lowercase()
    return _together(
        _marks(texts, _QUOTED, lambda found: found.strip(" \t\n(`\"“”«»„'.,;:!?)")),
        _marks(small, _AMOUNT, _amount_name),
        _marks(as_article(small), _SPELLED, _amount_name),
        _marks(rest, _IDENTIFIER, lambda found: None if any(map(str.isdigit, found)) else found.strip("-")),
    )


def reader_of_kinds(kinds: Mapping[str, str]) -> Callable[[pl.Series], pl.Series]:
    """A reader of the kinds of word that occur in a text, each once."""
    return lambda texts: _marks(texts, WORD, lambda found: kinds.get(found.lower())).list.eval(
        pl.element().unique().sort()
    )


def read_times(texts: pl.Series) -> pl.Series:
    """Months, weekdays and words of time, sorted."""
    return _together(_marks(texts, _CALENDAR, _calendar_name), _marks(texts.str.to_lowercase(), _TIME, str))


def read_names(texts: pl.Series) -> pl.Series:
    """Structs of `names`, the capitalised words of each text, and `words`, all of them."""
    words = _marks(texts, WORD, lambda found: spelling(_bare(found)))
    return pl.DataFrame({"names": _marks(texts, _NAME, _name), "words": words}).to_struct()


def read_owners(texts: pl.Series) -> pl.Series:
    """Whose something is: "Ana's", sorted."""
    return _marks(texts, _OWNER, lambda found: None if _bare(found) in FUNCTION_WORDS else _bare(found)).list.eval(
        pl.element().sort()
    )


def read_questions(texts: pl.Series) -> pl.Series:
    """Whether each text asks."""
    return texts.str.contains("[?？]")


def read_ends(texts: pl.Series) -> pl.Series:
    """Structs of the `words`, the `ends` of scales that they stand at, the `opposites`, and what they turn round."""
    found = texts.str.extract_all(WORD)
    read = {
        "ends": _spelt(found, lambda word: ENDS.get(_base(word))).list.join(" ").str.extract_all(r"\S+"),
        "opposites": _spelt(found, lambda word: _opposite(ENDS.get(_base(word))))
        .list.join(" ")
        .str.extract_all(r"\S+"),
        "words": _spelt(found, _base),
        "turned": _spelt(found, _turned),
    }
    return pl.DataFrame(read).to_struct()


def is_time_bound(texts: pl.Series) -> pl.Series:
    """Which texts speak of a time relative to when they were said: the same words on another day say something else."""
    return straight(texts).str.to_lowercase().str.contains(rf"\b(?:{RELATIVE_TIME})\b")

"""Guards: what must agree before two statements are merged without a model; similarity is not enough (§6.2, T29).

A guard reads *marks* from both texts of a pair and decides whether they agree. A missed merge costs a pair in a queue,
a wrong merge costs a memory: every doubt is a "no". A new guard is one more entry in `GUARDS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.common.lexicon.statement_words import (
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
from slowwave.common.validity import AXIOM, entrenchment_rank
from slowwave.common.words import without_ending

# Readers of marks: negations, amounts, times, names, words (§6.2 G1, G2). A reader takes a series of
# texts (from `straight`) and gives a list of marks per text; equal marks have one spelling. Grammar is not read: two
# sentences of one meaning in other words, or in another order, wait for a model (decision 11).


EMPTY_WORDS = frozenset("a an the some any very really quite also yes yeah hey hi hello wow oh".split())
"""Words that change no statement."""
_LETTER = r"[\p{L}\p{N}\p{M}]"
WORD = rf"{_LETTER}+(?:'{_LETTER}+)*"
_TOKEN = rf"{WORD}|[%$€£<>=+*&|^~#@/\\]|\p{{So}}"
_AS_ARTICLE = (  # "one man" is "a man", but not in "at least one", "one or two", "one of them"
    (r"\b(least|most|only|just|than|about|another|each|every|no|this|that|or|to|any|which) one\b", "$1 1"),
    (r"\bone (or|to|of|and|more|less|in|is|are|was|has|who|hundred|thousand|million)\b", "1 $1"),
    (r"\bone (\p{L})", "a $1"),
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
_NAMED_POLARITY = {name: re.compile(pattern) for name, pattern in POLARITY.items()}
_SPLIT_AMOUNT = re.compile(rf"(.*?[\d%]|{_ANY_NUMBER_WORD})[\s-]?({_ANY_UNIT}|[%€$£])?", re.DOTALL)


def _marks(texts: pl.Series, pattern: str, canonical: Callable[[str], str | None]) -> pl.Series:
    """Per text the matches of the pattern in their canonical spelling, in text order; None drops a match."""
    found = texts.str.extract_all(pattern)
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
    return None if word in FUNCTION_WORDS or word in NUMBER_WORDS else without_ending(word, 4)


def _bare(word: str) -> str:
    return word.lower().removesuffix("'s").removesuffix("n't")


_FRAME = (
    r"by the way|btw|for the record|fyi|just so you know|just to repeat|to repeat|as a reminder|reminder|remember|"
    r"(?:like|as) (?:i|we) (?:just )?(?:said|mentioned|wrote|told you)(?: before| earlier| already| last time)?|"
    r"as (?:said|mentioned)(?: before| earlier| already)?|once again|again|note|please note"
)


def unframed(texts: pl.Series) -> pl.Series:
    """The texts without a phrase at the start or end that adds nothing: "By the way: …"."""
    bare = texts.str.replace(
        rf"(?i)^([^:\n]{{1,60}}: )?(?:(?:{_FRAME}|also|and|oh|well|so|yes)(?:, that|[,:;]| -)\s+)+", "$1"
    )
    return bare.str.replace(rf"(?i),\s+(?:{_FRAME})([.!]?)$", "$1")


def straight(texts: pl.Series) -> pl.Series:
    """Texts with one kind of apostrophe and no compatibility characters; null is empty."""
    return texts.cast(pl.String).rename("text").to_frame().select(_STRAIGHT)["text"].rename(texts.name)


_STRAIGHT = pl.col("text").fill_null("").str.normalize("NFKC").str.replace_all("[’‘]", "'")


def read_polarities(texts: pl.Series) -> pl.Series:
    """The negation markers of each text, sorted, with repetitions."""
    return _together(_marks(texts.str.to_lowercase(), _POLARITY, _polarity_name))


def read_amounts(texts: pl.Series) -> pl.Series:
    """Numbers with their units, dates, versions, quoted and code-like identifiers, sorted."""
    rest = texts.str.replace_all(_QUOTED, " ")
    small = rest.str.to_lowercase()
    return _together(
        _marks(texts, _QUOTED, lambda found: found.strip(" \t\n(`\"“”«»„'.,;:!?)")),
        _marks(small, _AMOUNT, _amount_name),
        _marks(_with_articles(small), _SPELLED, _amount_name),
        _marks(rest, _IDENTIFIER, lambda found: None if any(map(str.isdigit, found)) else found.strip("-")),
    )


def read_times(texts: pl.Series) -> pl.Series:
    """Months, weekdays and words of time, sorted."""
    return _together(_marks(texts, _CALENDAR, _calendar_name), _marks(texts.str.to_lowercase(), _TIME, str))


def read_names(texts: pl.Series) -> pl.Series:
    """Structs of `names`, the capitalised words of each text, and `words`, all of them."""
    words = _marks(texts, WORD, lambda found: without_ending(_bare(found), 4))
    return pl.DataFrame({"names": _marks(texts, _NAME, _name), "words": words}).to_struct()


def read_words(texts: pl.Series) -> pl.Series:
    """The words and signs of each text in their order, without EMPTY_WORDS."""
    plain = texts.str.to_lowercase().str.replace_all(r"(\d),(\d{3})\b", "$1$2").str.replace_all("n't\\b", " not")
    plain = plain.str.replace_all(r"(\d),(\d{3})\b", "$1$2")  # the second comma of "1,000,000"
    return _marks(_with_articles(plain), _TOKEN, _spelling)


def _with_articles(texts: pl.Series) -> pl.Series:
    """Lower-case texts with "a" for "one" used as an article."""
    for pattern, replacement in _AS_ARTICLE:
        texts = texts.str.replace_all(pattern, replacement)
    return texts


def _spelling(word: str) -> str | None:
    return None if word in EMPTY_WORDS else NUMBER_WORDS.get(word) or UNITS.get(word) or word


_RELATIVE = rf"\b(?:{RELATIVE_TIME})\b"


def is_time_bound(texts: pl.Series) -> pl.Series:
    """Whether each text has a time relative to its message: the same words on another day say something else."""
    return straight(texts).str.to_lowercase().str.contains(_RELATIVE)


Marks = tuple[str, ...]
Codes = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Guard:
    """A reader of marks, and the comparison of two marks."""

    name: str
    read: Callable[[pl.Series], pl.Series]
    agrees: Callable[[pl.Expr, pl.Expr], pl.Expr] = pl.Expr.eq_missing


def _names_known(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """Every name of either side is a word of the other; a capital may only be the start of a sentence."""
    names_a, words_a = a.struct.field("names"), a.struct.field("words")
    names_b, words_b = b.struct.field("names"), b.struct.field("words")
    return (names_a.list.set_difference(words_b).list.len() == 0) & (
        names_b.list.set_difference(words_a).list.len() == 0
    )


GUARDS: tuple[Guard, ...] = (
    Guard("polarity", read_polarities),
    Guard("quantity", read_amounts),
    Guard("time", read_times),
    Guard("name", read_names, _names_known),
    Guard("question", lambda texts: texts.str.contains("[?？]")),
    Guard("word", read_words),
)
"""The last one, in which every word counts, keeps apart what most others do: they say in what two statements differ."""


def guards_pass(a: pl.Series, b: pl.Series, guards: tuple[Guard, ...] = GUARDS) -> pl.DataFrame:
    """Per pair `passes` and `failed_guard`, the first guard that fails (null: none).

    Both sides of a passing pair say the same, neither more than the other. A guard reads only the texts of pairs that
    passed the guards before it.
    """
    first, second = unframed(straight(a)), unframed(straight(b))
    texts, codes = _coded(first, second)
    failed = pl.Series([None], dtype=pl.String).new_from_index(0, len(first))
    left = (first != second).arg_true().to_numpy()
    for guard in guards:
        if not len(left):
            break
        known, places = np.unique(codes[:, left], return_inverse=True)
        read = guard.read(texts.gather(known))
        sides = [read.gather(side) for side in places.reshape(2, len(left))]
        agree = pl.DataFrame({"a": sides[0], "b": sides[1]}).select(agree=guard.agrees(pl.col("a"), pl.col("b")))[
            "agree"
        ]
        refused = ~agree.to_numpy()
        failed = failed.scatter(left[refused], guard.name)
        left = left[~refused]
    return pl.DataFrame({"passes": failed.is_null(), "failed_guard": failed})


def _coded(first: pl.Series, second: pl.Series) -> tuple[pl.Series, Codes]:
    """The distinct texts of both sides, and the number of the text per side and pair: (2, pairs)."""
    both = pl.concat([first, second])
    codes = both.rank("dense").cast(pl.Int64).to_numpy() - 1
    return both.unique().sort(), codes.reshape(2, len(first))


def is_same_identity() -> pl.Expr:
    """G3 over a frame of fact pairs: one scope, kind and subject; of relations also one predicate, object and polarity.

    It reads scope, kind, subject_id, predicate, object_id, object_text and polarity, of the other side with `_b`.
    """

    def same(column: str) -> pl.Expr:
        return pl.col(column).eq_missing(pl.col(f"{column}_b"))

    texts = (pl.col(column).str.strip_chars().str.to_lowercase() for column in ("object_text", "object_text_b"))
    no_entity = pl.col("object_id").is_null() & pl.col("object_id_b").is_null()
    by_text = no_entity & pl.Expr.eq_missing(*texts)
    by_entity = (pl.col("object_id") == pl.col("object_id_b")).fill_null(False)
    one_relation = same("predicate") & same("polarity") & (by_entity | by_text)
    no_relation = pl.col("kind") != "relation"
    return same("scope") & same("kind") & same("subject_id") & (no_relation | one_relation)


def may_yield() -> pl.Expr:
    """G4 over a frame of fact pairs: the duplicate (plain columns) is not pinned, no axiom, not better entrenched.

    Needs `pinned` and `entrenchment` of the duplicate, and `entrenchment_b` of the representative.
    """
    loser, winner = (entrenchment_rank(column) for column in ("entrenchment", "entrenchment_b"))
    return ~pl.col("pinned").fill_null(False) & (loser < AXIOM) & (loser <= winner)


def _of_one(read: Callable[[pl.Series], pl.Series], text: str) -> Marks:
    return tuple(read(straight(pl.Series([text], dtype=pl.String)))[0])


def polarity(text: str) -> Marks:
    """The negation markers of a text, sorted, with repetitions (G1)."""
    return _of_one(read_polarities, text)


def quantities(text: str) -> Marks:
    """Its numbers with their units, dates, versions, quoted and code-like identifiers, sorted (G2)."""
    return _of_one(read_amounts, text)

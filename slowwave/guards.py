"""What must agree before two statements may be merged without a model: likeness alone never suffices (§6.2, T29).

A guard reads *marks* out of every text and says whether the two sides of a pair agree. A merge that is missed costs a
pair in a queue, a false one costs a memory: every doubt is a "no". The next guard is one more entry in `GUARDS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import polars as pl

from slowwave.guard_words import (
    AMBIGUOUS_CALENDAR,
    DIRECTIONS,
    FUNCTION_WORDS,
    MODALITY,
    MONTHS,
    NUMBER_WORDS,
    PERSONS,
    POLARITY,
    RELATIVE_TIME,
    TIME_WORDS,
    UNITS,
    WEEKDAYS,
)

Marks = tuple[str, ...]

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
_WORD = r"[\p{L}\p{N}](?:[\p{L}\p{N}]|['-][\p{L}\p{N}])*"

_ENTRENCHMENT: Mapping[str, int] = {"system_inferred": 0, "user_stated": 1, "user_axiom": 2}
_OWNER = r"[\p{L}\p{N}-]+'s\b|\p{L}+s'"

_ONE_POLARITY = re.compile(_POLARITY)
_NAMED_POLARITY = {name: re.compile(pattern) for name, pattern in POLARITY.items()}
_SPLIT_AMOUNT = re.compile(rf"(.*?[\d%]|{_ANY_NUMBER_WORD})[\s-]?({_ANY_UNIT}|[%€$£])?", re.DOTALL)
_FILLING = (FUNCTION_WORDS - DIRECTIONS) | set(NUMBER_WORDS) | set(PERSONS)
# "-ed" stays: "lives" and "lived" are two statements.
_ENDINGS = re.compile(r"(?<=\w{2})(?:ing|es|s|e|ly)$")
_LAST_VOWEL = re.compile(r"(?<=\w{2})[iy]$")
_DOUBLED = re.compile(r"([b-df-hj-np-tv-z])\1$")


def _marks(texts: pl.Series, pattern: str, canonical: Callable[[str], str | None]) -> pl.Series:
    """Per text what the pattern finds, in one spelling each, in the order of the text; None drops a find."""
    found = texts.str.extract_all(pattern)
    raw = found.explode(empty_as_null=True).drop_nulls().unique().to_list()
    spelt = {each: canonical(each) for each in raw}
    if not spelt:
        return found
    named = pl.element().replace_strict(list(spelt), list(spelt.values()), return_dtype=pl.String)
    return found.list.eval(named).list.drop_nulls()


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
    return None if word in FUNCTION_WORDS else word


def _bare(word: str) -> str:
    return word.lower().removesuffix("'s").removesuffix("n't")


def _stem(word: str) -> str | None:
    bare = _bare(word)
    if bare in _FILLING or not bare.isalpha() or _ONE_POLARITY.fullmatch(word.lower()):
        return None  # numbers and negations have guards of their own
    if bare in UNITS:
        return UNITS[bare]
    return _DOUBLED.sub(r"\1", _LAST_VOWEL.sub("", _ENDINGS.sub("", bare)))


def _straight(texts: pl.Series) -> pl.Series:
    return texts.cast(pl.String).fill_null("").str.normalize("NFKC").str.replace_all("[’‘]", "'")


def _together(*lists: pl.Series) -> pl.Series:
    """The lists of each row as one, sorted: multisets that compare with `==`."""
    frame = pl.DataFrame({str(index): part for index, part in enumerate(lists)})
    return frame.select(marks=pl.concat_list(pl.all()).list.sort())["marks"]


def _polarities(texts: pl.Series) -> pl.Series:
    return _together(_marks(texts.str.to_lowercase(), _POLARITY, _polarity_name))


def _amounts(texts: pl.Series) -> pl.Series:
    rest = texts.str.replace_all(_QUOTED, " ")
    small = rest.str.to_lowercase()
    return _together(
        _marks(texts, _QUOTED, lambda found: found.strip(" \t\n(`\"“”«»„'.,;:!?)")),
        _marks(small, _AMOUNT, _amount_name),
        _marks(small, _SPELLED, _amount_name),
        _marks(rest, _IDENTIFIER, lambda found: None if any(map(str.isdigit, found)) else found.strip("-")),
    )


def _word_kinds(kinds: Mapping[str, str]) -> Callable[[pl.Series], pl.Series]:
    """A reader of the kinds of word that occur in a text, each once."""
    return lambda texts: _marks(texts, _WORD, lambda found: kinds.get(found.lower())).list.unique().list.sort()


def _times(texts: pl.Series) -> pl.Series:
    return _together(_marks(texts, _CALENDAR, _calendar_name), _marks(texts.str.to_lowercase(), _TIME, str))


@dataclass(frozen=True, slots=True)
class Guard:
    """One thing that must agree: how it is read from texts, and how two readings are compared."""

    name: str
    read: Callable[[pl.Series], pl.Series]
    agrees: Callable[[pl.Expr, pl.Expr], pl.Expr] = pl.Expr.eq_missing


def _names_known(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """Every name of either side is a word of the other: a capital at a sentence's start may be just that."""
    names_a, words_a = a.struct.field("names"), a.struct.field("words")
    names_b, words_b = b.struct.field("names"), b.struct.field("words")
    return (names_a.list.set_difference(words_b).list.len() == 0) & (
        names_b.list.set_difference(words_a).list.len() == 0
    )


def _no_exchange(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """No word of one side stands where the other has another: one side may only say more than the other."""
    return (a.list.set_difference(b).list.len() == 0) | (b.list.set_difference(a).list.len() == 0)


def _same_order(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """The same words in another order are another statement: "Anna pays Ben", "Ben pays Anna"."""
    return (a == b) | (a.list.sort() != b.list.sort())


def _read_names(texts: pl.Series) -> pl.Series:
    return pl.DataFrame({"names": _marks(texts, _NAME, _name), "words": _marks(texts, _WORD, _bare)}).to_struct()


def _read_words(texts: pl.Series) -> pl.Series:
    return _marks(texts, _WORD, _stem)


def _read_owners(texts: pl.Series) -> pl.Series:
    return _marks(texts, _OWNER, lambda found: None if _bare(found) in FUNCTION_WORDS else _bare(found)).list.sort()


def _read_questions(texts: pl.Series) -> pl.Series:
    return texts.str.contains("[?？]")


GUARDS: tuple[Guard, ...] = (
    Guard("polarity", _polarities),
    Guard("quantity", _amounts),
    Guard("time", _times),
    Guard("person", _word_kinds(PERSONS)),
    Guard("modality", _word_kinds(MODALITY)),
    Guard("name", _read_names, _names_known),
    Guard("owner", _read_owners),
    Guard("question", _read_questions),
    Guard("word", _read_words, _no_exchange),
    Guard("order", _read_words, _same_order),
)


def guards_pass(a: pl.Series, b: pl.Series, guards: tuple[Guard, ...] = GUARDS) -> pl.DataFrame:
    """Per pair `passes` and `failed_guard`, the first guard whose marks do not agree (null where all do)."""
    first, second = _straight(a), _straight(b)
    texts = pl.concat([first.alias("text"), second.alias("text")]).unique()
    read = pl.DataFrame({"text": texts, **{guard.name: guard.read(texts) for guard in guards}})
    pairs = pl.DataFrame({"text": first, "text_b": second})
    pairs = pairs.join(read, on="text", how="left", maintain_order="left")
    pairs = pairs.join(read, left_on="text_b", right_on="text", how="left", maintain_order="left", suffix="_b")
    failed = [
        pl.when(~guard.agrees(pl.col(guard.name), pl.col(f"{guard.name}_b"))).then(pl.lit(guard.name))
        for guard in guards
    ]
    equal = pl.col("text") == pl.col("text_b")
    return pairs.select(failed_guard=pl.when(~equal).then(pl.coalesce(failed))).select(
        passes=pl.col("failed_guard").is_null(), failed_guard="failed_guard"
    )


def is_same_identity(suffix: str = "_b") -> pl.Expr:
    """G3 over a frame of fact pairs: one scope, kind and subject; of relations also one predicate, object and polarity.

    The other side's columns bear the suffix: scope, kind, subject_id, predicate, object_id, object_text, polarity.
    """

    def same(column: str) -> pl.Expr:
        return pl.col(column).eq_missing(pl.col(f"{column}{suffix}"))

    texts = (pl.col(column).str.strip_chars().str.to_lowercase() for column in ("object_text", f"object_text{suffix}"))
    no_entity = pl.col("object_id").is_null() & pl.col(f"object_id{suffix}").is_null()
    by_text = no_entity & pl.Expr.eq_missing(*texts)
    by_entity = (pl.col("object_id") == pl.col(f"object_id{suffix}")).fill_null(False)
    one_relation = same("predicate") & same("polarity") & (by_entity | by_text)
    no_relation = (pl.col("kind") != "relation").fill_null(False)
    return same("scope") & same("kind") & same("subject_id") & (no_relation | one_relation)


def may_yield(suffix: str = "_b") -> pl.Expr:
    """G4 over a frame of fact pairs: the loser (plain columns) is not pinned, no axiom, not better entrenched.

    Needs `pinned` and `entrenchment` of the loser and `entrenchment` with the suffix of the winner.
    """
    loser, winner = (
        pl.col(column).replace_strict(_ENTRENCHMENT, default=0, return_dtype=pl.Int8)
        for column in ("entrenchment", f"entrenchment{suffix}")
    )
    return ~pl.col("pinned").fill_null(False) & (loser < _ENTRENCHMENT["user_axiom"]) & (loser <= winner)


def _of_one(read: Callable[[pl.Series], pl.Series], text: str) -> Marks:
    return tuple(read(_straight(pl.Series([text], dtype=pl.String)))[0])


def polarity(text: str) -> Marks:
    """The negation markers of a text, sorted, each as often as it stands there (G1)."""
    return _of_one(_polarities, text)


def quantities(text: str) -> Marks:
    """Its numbers with their units, dates, versions, quoted and code-like identifiers, sorted (G2)."""
    return _of_one(_amounts, text)


def times(text: str) -> Marks:
    """Its months, weekdays and words of time, sorted."""
    return _of_one(_times, text)


def is_time_bound(texts: pl.Series) -> pl.Series:
    """Which texts speak of a time relative to when they were said: the same words on another day say something else."""
    return _straight(texts).str.to_lowercase().str.contains(rf"\b(?:{RELATIVE_TIME})\b")

"""Names that are to be forgotten: where a text contains them, and what remains of that text.

A name is found as whole words, in any case, in composed and decomposed form, with white space, `_`, `-`, `.`, `+` or
`%20` between its words, and with digits or `_` beside it: `zorblax_quint-2.md` names Zorblax Quint. `planning` does not
name Ann. In scripts that put no space between words, a name is found wherever it stands.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import polars as pl

from slowwave.common.errors import UnusableInput
from slowwave.common.lexicon import words_of
from slowwave.common.lexicon.statement_words import FUNCTION_WORDS
from slowwave.common.text import FORGOTTEN, UNSPACED, as_json, normalise_name, word_set
from slowwave.facts.revision.search_terms import have_part_of_name, parts_of_names

MIN_CHARS = 3
MIN_UNSPACED = 2  # a name of two signs is long where a sign is a syllable

_FORMS: tuple[Literal["NFC", "NFD", "NFKC", "NFKD"], ...] = ("NFC", "NFD", "NFKC", "NFKD")
_APART = "\0"  # between texts: nothing that is found reaches over it
_LETTER = r"[^\W\d_]"
_MARK = "\u0300-\u036f"
_UNSPACED = re.compile(UNSPACED)
_BETWEEN = r"(?:\s+|[_.+-]|%20|\\[nrt])"
# A text may be JSON, in which an escape stands before a word.
_STARTS = rf"(?:(?<!{_LETTER})(?<![{_MARK}])|(?<=\\[nrtbf])|(?<=\\u[0-9a-fA-F]{{4}}))"
_ENDS = rf"(?!{_LETTER}|[{_MARK}])"
_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+|(?<=[。！？])|\n+")
_ABBREVIATION = re.compile(r"(?:\b(?:Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|e\.g|i\.e|No|Inc|Ltd)|\b[A-Z])\.$")
_COMMON = FUNCTION_WORDS | word_set(words_of("words_of_many_sentences"))


def check_name(name: str) -> None:
    """Raise `UnusableInput` for a name that would strike far more than the person it stands for."""
    plain = normalise_name(name)
    least = MIN_UNSPACED if _UNSPACED.search(plain) else MIN_CHARS
    way_out = f"If you mean it, name all there is to erase: --name {name!r}; or --name with the longer names only."
    if sum(sign.isalnum() for sign in plain) < least:
        raise UnusableInput(f"{name!r} is too short to be erased: it may mean anything.", way_out)
    if all(word in _COMMON for word in plain.split()):
        raise UnusableInput(f"{name!r} is a common word: every sentence that has it would go.", way_out)


@dataclass(frozen=True)
class NameMatcher:
    """All names of one subject, each once, the longest first."""

    listed: tuple[str, ...]

    @classmethod
    def of(cls, names: Iterable[str]) -> NameMatcher:
        """The names, single-spaced, without those that differ only in case."""
        written = [" ".join(name.split()) for name in names if name.strip()]
        once = {normalise_name(name): name for name in reversed(written)}  # as it was given first
        return cls(tuple(sorted(once.values(), key=lambda name: (-len(name), name))))

    @cached_property
    def _whole(self) -> re.Pattern[str]:
        bounded = (
            f"{_edge(each[0], _STARTS, '(?<![0-9])')}{_spaced(each)}{_edge(each[-1], _ENDS, '(?![0-9])')}"
            for each in self._variants
        )
        return re.compile("|".join(bounded), re.IGNORECASE)

    @cached_property
    def _anywhere(self) -> re.Pattern[str]:
        return re.compile(rf"{_LETTER}*(?:{'|'.join(map(_spaced, self._variants))}){_LETTER}*", re.IGNORECASE)

    @cached_property
    def _variants(self) -> list[str]:
        return list(dict.fromkeys(variant for name in self.listed for variant in _variants(name)))

    @cached_property
    def _needles(self) -> list[str]:
        """Strings in lower case; a text that contains a name contains one of them."""
        return sorted({max(variant.lower().split(), key=len) for variant in self._variants})

    @cached_property
    def _parts(self) -> frozenset[str]:
        """The words of all names; common ones only of a name that has no others."""
        rows = pl.DataFrame({"name": self.listed}, schema={"name": pl.String})
        words = [frozenset(each) for each in rows.select(parts_of_names(pl.col("name")))["name"]]
        return frozenset[str]().union(*(each - _COMMON or each for each in words))

    def are_in(self, text: str | None) -> bool:
        """Whether the text names the subject."""
        return bool(text) and self._whole.search(str(text)) is not None

    def candidates(self, rows: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
        """The rows that may name the subject in one of the columns; cheap, and never too few."""
        if rows.is_empty() or not columns:
            return rows.clear()
        lists = [name for name in columns if rows.schema[name] == pl.List]
        texts = [pl.col(name).list.join(_APART) if name in lists else pl.col(name) for name in columns]
        text = pl.concat_str(texts, separator=_APART, ignore_nulls=True).str.to_lowercase()
        return rows.filter(text.str.contains_any(self._needles))

    def named(self, texts: pl.Series) -> pl.Series:
        """Whether each text, or any text of each list, names the subject."""
        joined = texts.list.join(_APART) if texts.dtype == pl.List(pl.String) else texts
        return pl.Series(texts.name, [self.are_in(text) for text in joined], dtype=pl.Boolean)

    def have_words_in(self, general_words: pl.Series) -> pl.Series:
        """Whether each text of general words has a word of a name, alone, in another order or with an ending, too."""
        return have_part_of_name(general_words, self._parts)

    def words_around(self, texts: Iterable[str | None]) -> set[str]:
        """Longer words of these texts that have a name inside, in lower case: `planning` for Ann."""
        found: set[str] = set()
        for text in texts:
            whole = [each.span() for each in self._whole.finditer(text)] if text else []
            for each in self._anywhere.finditer(text or ""):
                if not any(start < each.end() and each.start() < end for start, end in whole):
                    found.add(each.group().lower())
        return found

    def without_name(self, text: str) -> str:
        """The text with only the names themselves struck: for paths and identifiers."""
        return self._whole.sub(FORGOTTEN, text)

    def without_sentences(self, text: str, quotes: Sequence[str] = ()) -> str:
        """The text without the sentences that name the subject, and without these quotes; the rest as it was."""
        named = [found.span() for found in self._whole.finditer(text)]
        quoted = [span for quote in quotes for span in _places(text, quote)]
        if not named and not quoted:
            return text
        whole = [(a, b) for a, b in _sentences(text) if any(start < b and a < end for start, end in named)]
        return _struck(text, sorted([*whole, *quoted, *named]))

    def without(self, text: str | None, quotes: Sequence[str] = ()) -> str | None:
        """The same; JSON stays JSON: each of its strings is struck on its own."""
        if text is None:
            return None
        if text[:1] in "{[" and text[-1:] in "]}":
            try:
                document = json.loads(text)
            except ValueError:
                document = None
            if isinstance(document, dict | list):
                return as_json(self._without(document, quotes)) if quotes or self.are_in(text) else text
        return self.without_sentences(text, quotes)

    def _without(self, value: Any, quotes: Sequence[str]) -> Any:
        if isinstance(value, dict):
            return {self.without_name(key): self._without(each, quotes) for key, each in value.items()}
        if isinstance(value, list):
            return [self._without(each, quotes) for each in value]
        return self.without(value, quotes) if isinstance(value, str) else value


def _variants(name: str) -> list[str]:
    """The forms in which a name may be written, JSON escapes among them."""
    forms = [unicodedata.normalize(form, name) for form in _FORMS]
    written = [name, *forms, name.casefold()]
    return list(dict.fromkeys([*written, *(json.dumps(each)[1:-1] for each in written)]))


def _spaced(variant: str) -> str:
    return _BETWEEN.join(map(re.escape, variant.split()))


def _edge(sign: str, by_letter: str, by_digit: str) -> str:
    """A pattern of the signs that may not stand beside the first or last sign of a name."""
    if _UNSPACED.match(sign):
        return ""
    if sign.isdigit():
        return by_digit
    return by_letter if sign.isalpha() or unicodedata.combining(sign) else ""


def _sentences(text: str) -> list[tuple[int, int]]:
    """Where the sentences stand."""
    places: list[tuple[int, int]] = []
    start = 0
    for end in _SENTENCE_END.finditer(text):
        if not end.group().startswith("\n") and _ABBREVIATION.search(text[start : end.start()]):
            continue
        places.append((start, end.start() + len(end.group().rstrip())))
        start = end.end()
    places.append((start, start + len(text[start:].rstrip())))
    return [place for place in places if place[0] < place[1]]


def _places(text: str, quote: str) -> list[tuple[int, int]]:
    """Where a quote stands, however its white space was changed; nowhere for one too short to mean anything."""
    words = quote.split()
    if len("".join(words)) < MIN_CHARS:
        return []
    return [found.span() for found in re.finditer(r"\s+".join(map(re.escape, words)), text)]


def _struck(text: str, places: Iterable[tuple[int, int]]) -> str:
    """The text with one mark for each stretch of places that touch or have only blanks between them."""
    joined: list[tuple[int, int]] = []
    for start, end in places:
        if joined and (start <= joined[-1][1] or not text[joined[-1][1] : start].strip(" \t")):
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    for start, end in reversed(joined):
        text = f"{text[:start]}{FORGOTTEN}{text[end:]}"
    return text

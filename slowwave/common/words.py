"""How texts are split into words, and words freed of their endings: each way once, beside the others.

- `tokens`, `word_sets`: what stands between spaces. For overlaps: "v1.2" and "don't" stay whole (S0-03).
- `words_of`: runs of letters and digits. For everything below, and for the words of a statement.
- `content_words`: those without function words and endings, in order. Two rules use it: `content_stems` asks whether a
  text has the words of another; `subject_words` searches for statements about one matter, which differ in numbers and
  denials, and leaves these out.
- `stems`: the same of one text, for questions. It also takes "city" and "cities" for one word, because a question has
  other forms than the statement that answers it; candidates and facts are both statements.
- `folded`: texts as names are looked up by them.
"""

from __future__ import annotations

import re
import string
from collections.abc import Collection, Iterable
from functools import lru_cache
from itertools import chain

import polars as pl

from slowwave.common.lexicon.languages import ELSEWHERE, ENGLISH, SMALL_WORDS, language_of, without_asking
from slowwave.common.lexicon.statement_words import FUNCTION_WORDS
from slowwave.common.text import plain_letters, segmented, word_set

ENDING = r"(?:ing|ed|es|s|e)$"
"""The common endings of English words."""
_WORD = r"[\p{L}\p{N}][\p{L}\p{M}\p{N}]*(?:'[\p{L}\p{M}\p{N}]+)?"
_PLAIN_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
_Y = re.compile(r"(?<=[^\W\d_aeiou])y$")  # "family" has to meet "families"
_MARKS = "[\u0300-\u036f]"  # accents, which nobody types
_DENIALS = word_set(
    "not never no none nothing nobody cannot can't don't doesn't didn't haven't hasn't hadn't isn't aren't wasn't "
    "weren't won't wouldn't couldn't shouldn't"
)
SHORT = 400  # characters of texts whose words are kept: some 10 MB of them


def tokens(text: str) -> frozenset[str]:
    """Whitespace-split lower-cased words without outer ASCII punctuation (S0-03)."""
    return frozenset(word for raw in text.lower().split() if (word := raw.strip(string.punctuation)))


def word_sets(texts: pl.Series) -> pl.Series:
    """Per text its `tokens` as a list without repetitions."""
    word = pl.element()
    raw = pl.col("text").cast(pl.String).fill_null("").str.to_lowercase().str.extract_all(r"\S+")
    bare = raw.list.eval(word.str.strip_chars(string.punctuation)).list.eval(word.filter(word != ""))
    return texts.alias("text").to_frame().select(bare.list.unique())["text"].alias(texts.name)


def words_of(text: pl.Expr) -> pl.Expr:
    """The words of a text in lower case, numbers among them, as a list; `segmented` where a script has no spaces."""
    return (
        text.map_elements(segmented, pl.String)
        .str.to_lowercase()
        .str.replace_all("’", "'", literal=True)
        .str.extract_all(_WORD)
    )


def without_ending(word: str, least: int) -> str:
    """The word without its common ending, if it has at least `least` characters."""
    return re.sub(ENDING, "", word) if len(word) >= least else word


def content_words(
    text: pl.Expr, least: int, left_out: Collection[str] = FUNCTION_WORDS, drop: pl.Expr | None = None
) -> pl.Expr:
    """The words of a text as a list, without `left_out`, without the words of the text `drop`, and without endings.

    Words with fewer than `least` characters keep their ending. With `drop`, no word is there twice.
    """
    word = pl.element()
    kept = _bare_words(text).list.eval(word.filter(~word.is_in(sorted(left_out))))
    if drop is not None:
        kept = kept.list.set_difference(_bare_words(drop.fill_null("")))
    return kept.list.eval(pl.when(word.str.len_chars() >= least).then(word.str.replace(ENDING, "")).otherwise(word))


def _bare_words(text: pl.Expr) -> pl.Expr:
    return words_of(text).list.eval(pl.element().str.strip_suffix("'s"))


def content_stems(text: str, *, drop: str | None = None) -> pl.Expr:
    """Distinct stems of the content words of column `text`, without the words of column `drop`."""
    return content_words(pl.col(text), 4, drop=None if drop is None else pl.col(drop)).list.unique()


def subject_words(texts: pl.Series) -> pl.Series:
    """Per text the stems of its subject words: no function words, denials, numbers; four letters stay whole."""
    words = texts.cast(pl.String).fill_null("").rename("text").to_frame()
    found = words.select(content_words(pl.col("text"), 5, FUNCTION_WORDS | _DENIALS))["text"]
    return found.list.eval(pl.element().filter(~pl.element().str.contains(r"\p{N}")))


# English is spelled in two ways. Each pair of endings is British and American, with what stands before and after.
_SPELLED = (
    (r"(?<=\w{3})", "our", "or", r"(?=(?:s|ed|ing|ite|ites|able|ful|less|ers?|al|hoods?)?$)"),  # colour
    (r"(?<=\w{2})", "ence", "ense", r"(?=[sd]?$)"),  # licence
    (r"(?<=\w{3})", "is", "iz", r"(?=(?:e[drs]?|ers|ing|ations?)$)"),  # organise
    (r"(?<=\w{2})", "ys", "yz", r"(?=(?:e[drs]?|ing)$)"),  # analyse
    (r"(?<=\w{2}[bt])", "re", "er", r"(?=s?$)"),  # centre
    (r"(?<=\w{2})", "ogue", "og", r"(?=s?$)"),  # catalogue
)
_DOUBLES = (r"(?<=[aeiou][^aeiou][aeo])", "ll", "l", r"(?=(?:ed|ing|ers?)$)")  # travelled; stems have `_DOUBLED`
_AMERICAN, *_BOTH = (
    [(re.compile(f"{before}{pair[n]}{after}"), pair[1 - n]) for before, *pair, after in pairs]
    for pairs, n in ((_SPELLED, 0), ((*_SPELLED, _DOUBLES), 0), ((*_SPELLED, _DOUBLES), 1))
)
_DOUBLED = re.compile(r"(?<=[aeiouy])(\w*[aeo]l)l$")
"""The end of "travell" and "install", not of "call": whatever ends in one or two of them has one stem."""
_HYPHEN = re.compile(r"(?<![^\W_])([^\W\d_])-(?=[^\W\d_])")  # e-mail


def with_spellings(text: str) -> str:
    """An English text, and after it its words as they are spelled elsewhere ("colour" for "color", "email")."""
    lower = text.lower()
    words = _PLAIN_WORD.findall(lower)
    if _language(lower, words) != ENGLISH:
        return text
    others = chain.from_iterable(map(_spellings, words))
    found = dict.fromkeys((*others, *_PLAIN_WORD.findall(_joined(lower))))
    return " ".join([text, *(word for word in found if word not in words)])


@lru_cache(16_384)
def _spellings(word: str) -> tuple[str, ...]:
    return tuple(_spelled(word, ways) for ways in _BOTH)


def _joined(lower: str) -> str:
    return _HYPHEN.sub(r"\1", lower) if "-" in lower else lower


def _spelled(word: str, ways: Iterable[tuple[re.Pattern[str], str]]) -> str:
    for pattern, other in ways:
        word = pattern.sub(other, word, count=1)
    return word


def _language(lower: str, words: Collection[str]) -> str:
    is_plain = lower.isascii() and ELSEWHERE.isdisjoint(words)
    return ENGLISH if is_plain else language_of([lower])


def stems(text: str) -> frozenset[str]:
    """The content words of a text, lower-cased, without common endings, so that "works" meets "work".

    Small words are those of its language; letters are plain ("Múnich" meets "munich"), English words are spelled in one
    way, and sentences without spaces are `segmented`.
    """
    return _stems_of_short(text) if len(text) <= SHORT else _stems(text)


def _stems(text: str) -> frozenset[str]:
    lower = text.lower().replace("’", "'")
    words, small = _PLAIN_WORD.findall(lower), FUNCTION_WORDS
    language = _language(lower, words)
    if language != ENGLISH:
        lower, small = without_asking(lower).replace("'", " "), SMALL_WORDS.get(language, small)
    elif (joined := _joined(lower)) != lower:
        lower = f"{lower} {joined}"
    words = _PLAIN_WORD.findall(segmented(lower))
    bare = (word.removesuffix("'s") for word in words)
    kept = [plain_letters(word) for word in bare if word not in small]
    return frozenset(map(_english_stem if language == ENGLISH else _stem, kept))


_stems_of_short = lru_cache(8_192)(_stems)  # statements are compared by many questions


@lru_cache(16_384)
def _english_stem(word: str) -> str:
    return _DOUBLED.sub(r"\1", _stem(_spelled(word, _AMERICAN)))


@lru_cache(16_384)
def _stem(word: str) -> str:
    bare = without_ending(word, 4)
    return _Y.sub("i", bare) if len(bare) > 3 else bare


def folded(texts: pl.Series) -> pl.Series:
    """Texts as names are compared: compatible forms, lower case, no accents; marks of other scripts stay."""
    lower = texts.cast(pl.String).str.to_lowercase()
    accented = (lower.str.len_bytes() != lower.str.len_chars()).arg_true()
    if not len(accented):
        return lower
    plain = lower.gather(accented).str.normalize("NFKD").str.replace_all(_MARKS, "").str.to_lowercase()
    return lower.scatter(accented, plain)

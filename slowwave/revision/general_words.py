"""General words: with which somebody may ask for a fact who does not know what it says (decision 31).

A fact keeps them as one text of single words, in lower case and of letters only, none of which its statement has. Words
of names are none: whoever is forgotten would live on in them.
"""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from slowwave.filters.redaction import redact_all
from slowwave.text import readable

COLUMN = "search_terms"
MAX_TERMS, MAX_TERM = 6, 24
"""General words that are taken of one claim, and the characters of one at most."""
MAX_KEPT = 12
"""General words of a fact that was said more than once, or that others went on in."""
MIN_BEGINNING = 4
"""Letters that a part of a name has at least for longer words that begin with it to stand for it."""
UNSPACED = "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
"""Signs of scripts that put no space between words."""
_LETTERS = r"[\p{L}\p{M}]+"
_UNWRITTEN = r"[\u{300}-\u{36f}\u{591}-\u{5c7}\u{64b}-\u{65f}\u{670}\p{Cf}]"  # accents, points of Hebrew and Arabic
_PLAIN = {"ß": "ss", "ł": "l", "ø": "o", "æ": "ae", "œ": "oe", "đ": "d", "ð": "d", "þ": "th", "ı": "i", "ς": "σ"}
_LAST_VOWEL = "[aeiouyаеиоуыьэюяαεηιουω]$"
_REDACTED = r"\[redacted:\w*\]"


def words_of(text: pl.Expr) -> pl.Expr:
    """The words of a text in lower case, numbers among them, as a list."""
    return text.str.to_lowercase().str.extract_all(r"[\p{L}\p{M}\p{N}]+(?:['’][\p{L}]+)?")


def general_words(
    rows: pl.DataFrame, most: int | pl.Expr = MAX_TERMS, names: Collection[str] = frozenset()
) -> pl.Series:
    """The general words that may be asked for, as one text: of letters, at most `most`, none of the statement's.

    `rows` needs search_terms as they were given (null where there are none) and statement. Words among `names` and,
    where there is such a column, in the list `own_names` are left out; both are `parts_of_names`. Nothing is kept of a
    secret: letters that were cut out of one would not be recognised any more.
    """
    seen = [None if text is None else readable(text) for text in rows[COLUMN]]
    clean, _ = redact_all(pl.Series(COLUMN, seen, dtype=pl.String))
    word = pl.element().str.len_chars().is_between(2, MAX_TERM)
    letters = pl.col(COLUMN).str.replace_all(_REDACTED, " ").str.to_lowercase().str.extract_all(_LETTERS)
    terms = rows.with_columns(clean).select(
        pl.col("^own_names$"),
        row=pl.int_range(pl.len()),
        most=most,
        stated=words_of(pl.col("statement").fill_null("")),
        terms=letters.list.eval(pl.element().filter(word)).list.unique(maintain_order=True),
    )
    spread = terms.explode("terms").drop_nulls("terms").filter(~pl.col("terms").is_in(pl.col("stated")))
    spread = spread.filter(~have_part_of_name(spread["terms"], names))
    if "own_names" in rows.columns:
        pairs = spread.explode("own_names").drop_nulls("own_names")
        own = pairs.filter(_apart(pl.col("terms")).str.contains(_sought(pl.col("own_names")), literal=True))
        spread = spread.join(own, on=["row", "terms"], how="anti", maintain_order="left")
    kept = spread.group_by("row", maintain_order=True).agg("terms", pl.col("most").first())
    whole = terms.select("row").join(kept, on="row", how="left", maintain_order="left")
    return whole.select(search_terms=_as_text(pl.col("terms").list.head(pl.col("most"))))[COLUMN]


def joined_words(rows: pl.DataFrame, statements: pl.DataFrame) -> pl.DataFrame:
    """(id, search_terms): all general words of several rows (id, search_terms) of one fact that it does not say itself.

    `statements` is (id, statement). In the order of the alphabet and the first MAX_KEPT of them, so that it is the same
    in whatever order they come together.
    """
    spread = rows.select("id", terms=pl.col(COLUMN).str.split(" ")).explode("terms").drop_nulls()
    both = spread.group_by("id").agg(pl.col("terms").unique()).join(statements.select("id", "statement"), on="id")
    new = pl.col("terms").list.set_difference(words_of(pl.col("statement").fill_null("")))
    return both.select("id", search_terms=_as_text(new.list.sort().list.head(MAX_KEPT))).drop_nulls().sort("id")


def _as_text(words: pl.Expr) -> pl.Expr:
    text = words.list.join(" ")
    return pl.when(text != "").then(text)


def folded(text: pl.Expr) -> pl.Expr:
    """A text as names are compared: in lower case, without accents and vowel points, with plain letters for ß, ł, ø.

    Other marks stay: in Devanagari or Thai they are vowels, and a name without them is another name.
    """
    plain = text.str.normalize("NFKD").str.replace_all(_UNWRITTEN, "").str.to_lowercase()
    return plain.str.replace_many([*_PLAIN], [*_PLAIN.values()])


def parts_of_names(name: pl.Expr) -> pl.Expr:
    """The words of two letters and more that a name is made of, as a list: anne, marie, annemarie of "Anne-Marie".

    What hyphens or apostrophes join is there in parts and as a whole: a text may have either.
    """
    joined = folded(name).str.replace_all(r"[^\p{L}\p{M}\s]", "")
    words = folded(name).str.extract_all(_LETTERS).list.set_union(joined.str.extract_all(_LETTERS))
    return words.list.eval(pl.element().filter(pl.element().str.len_chars() >= 2))


def have_part_of_name(texts: pl.Series, parts: Collection[str]) -> pl.Series:
    """Whether each text has a word that may stand for one of these `parts_of_names`; false for none.

    This alone decides what is kept, what is erased and what the proof looks for. A word may be the part itself, or
    begin with one of MIN_BEGINNING letters and more, whose last vowel may be another ("quints", "ивановой"); in a
    script without spaces the part may stand anywhere. That is too much rather than too little.
    """
    rows = pl.DataFrame({"part": sorted(parts)}, schema={"part": pl.String})
    sought = rows.select(_sought(pl.col("part")).implode()).to_series()
    has = _apart(pl.col("text")).str.contains_any(pl.lit(sought))
    return texts.rename("text").to_frame().select(text=has.fill_null(False))["text"]


def _apart(text: pl.Expr) -> pl.Expr:
    """The words of a text, folded, with a blank before and after each."""
    return pl.format(" {} ", folded(text).str.replace_all(r"[^\p{L}\p{M}]+", " "))


def _sought(part: pl.Expr) -> pl.Expr:
    """What is looked for in words that stand apart: blanks say where a word must begin and end."""
    stem = part.str.replace(_LAST_VOWEL, "")
    has_stem, is_long = (each.str.count_matches(r"\p{L}") >= MIN_BEGINNING for each in (stem, part))
    beginning = pl.format(" {}", pl.when(has_stem).then(stem).otherwise(part))
    whole = pl.format(" {} ", part)
    return pl.when(part.str.contains(UNSPACED)).then(part).when(is_long).then(beginning).otherwise(whole)

"""By which further words is a fact found? General words that its statement does not have (decision 31).

A fact keeps them as one text of words in lower case, letters only. Words of names are left out, so that a forgotten
person leaves no trace in them.
"""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from slowwave.common.text import UNSPACED, readable
from slowwave.common.words import words_of
from slowwave.reading.extraction.kinship import ROLES
from slowwave.reading.filters.redaction import redact_all

COLUMN = "search_terms"
MAX_TERMS, MAX_TERM = 12, 24
"""The most general words of a fact, in two languages where it is not English, and the most characters of a word."""
MIN_BEGINNING = 4
"""The least letters of a part of a name for a match with longer words that begin with it."""
_LETTERS = r"[\p{L}\p{M}]+"
_UNWRITTEN = r"[\u{300}-\u{36f}\u{591}-\u{5c7}\u{64b}-\u{65f}\u{670}\p{Cf}]"  # accents, points of Hebrew and Arabic
_PLAIN = {"ß": "ss", "ł": "l", "ø": "o", "æ": "ae", "œ": "oe", "đ": "d", "ð": "d", "þ": "th", "ı": "i", "ς": "σ"}
_LAST_VOWEL = "[aeiouyаеиоуыьэюяαεηιουω]$"
_REDACTED = r"\[redacted:\w*\]"


def general_words(rows: pl.DataFrame, names: Collection[str] = frozenset()) -> pl.Series:
    """The general words of each row as one text: letters only, at most MAX_TERMS, without words of the statement.

    `rows` needs search_terms as the source gave them (or null) and statement. Words of `names` and of the optional list
    column `own_names` are left out; both are `parts_of_names`. Secrets are redacted first: their single letters could
    not be recognised later.
    """
    seen = [None if text is None else readable(text) for text in rows[COLUMN]]
    clean, _ = redact_all(pl.Series(COLUMN, seen, dtype=pl.String))
    word = pl.element().str.len_chars().is_between(2, MAX_TERM)
    letters = pl.col(COLUMN).str.replace_all(_REDACTED, " ").str.to_lowercase().str.extract_all(_LETTERS)
    terms = rows.with_columns(clean).select(
        pl.col("^own_names$"),
        row=pl.int_range(pl.len()),
        stated=words_of(pl.col("statement").fill_null("")),
        terms=letters.list.eval(pl.element().filter(word)).list.unique(maintain_order=True),
    )
    spread = terms.explode("terms").drop_nulls("terms").filter(~pl.col("terms").is_in(pl.col("stated")))
    spread = spread.filter(~have_part_of_name(spread["terms"], names))
    if "own_names" in rows.columns:
        pairs = spread.explode("own_names").drop_nulls("own_names")
        own = pairs.filter(_apart(pl.col("terms")).str.contains(_sought(pl.col("own_names")), literal=True))
        spread = spread.join(own, on=["row", "terms"], how="anti", maintain_order="left")
    kept = spread.group_by("row", maintain_order=True).agg("terms")
    whole = terms.select("row").join(kept, on="row", how="left", maintain_order="left")
    return whole.select(search_terms=_as_text(pl.col("terms").list.head(MAX_TERMS)))[COLUMN]


def joined_words(rows: pl.DataFrame, statements: pl.DataFrame) -> pl.DataFrame:
    """(id, search_terms): the general words of all rows (id, search_terms) of a fact, without words of its statement.

    `statements` is (id, statement). The first MAX_TERMS in the order of the alphabet, so that the order
    of the rows does not matter.
    """
    spread = rows.select("id", terms=pl.col(COLUMN).str.split(" ")).explode("terms").drop_nulls()
    both = spread.group_by("id").agg(pl.col("terms").unique()).join(statements.select("id", "statement"), on="id")
    new = pl.col("terms").list.set_difference(words_of(pl.col("statement").fill_null("")))
    return both.select("id", search_terms=_as_text(new.list.sort().list.head(MAX_TERMS))).drop_nulls().sort("id")


def _as_text(words: pl.Expr) -> pl.Expr:
    text = words.list.join(" ")
    return pl.when(text != "").then(text)


def folded(text: pl.Expr) -> pl.Expr:
    """A text for the comparison of names: lower case, no accents and vowel points, plain letters for ß, ł, ø.

    Other marks stay: in Devanagari or Thai they are vowels, and a name without them is another name.
    """
    plain = text.str.normalize("NFKD").str.replace_all(_UNWRITTEN, "").str.to_lowercase()
    return plain.str.replace_many([*_PLAIN], [*_PLAIN.values()])


def parts_of_names(name: pl.Expr) -> pl.Expr:
    """The words of a name with two letters or more, as a list: anne, marie, annemarie for "Anne-Marie".

    Words with hyphens or apostrophes are there in parts and as a whole: a text may have either.
    """
    joined = folded(name).str.replace_all(r"[^\p{L}\p{M}\s]", "")
    words = folded(name).str.extract_all(_LETTERS).list.set_union(joined.str.extract_all(_LETTERS))
    return words.list.eval(pl.element().filter(pl.element().str.len_chars() >= 2))


def have_part_of_name(texts: pl.Series, parts: Collection[str]) -> pl.Series:
    """Whether each text has a word that may stand for one of these `parts_of_names`; false for null.

    This rule alone decides which words are kept, which are erased, and which the proof of erasure looks for. A word
    matches if it is the part, or begins with a part of MIN_BEGINNING letters or more, whose last vowel may differ
    ("quints", "ивановой"); in a script without spaces the part may stand anywhere. It matches too much rather than too
    little.
    """
    rows = pl.DataFrame({"part": sorted(parts)}, schema={"part": pl.String})
    sought = rows.select(_sought(pl.col("part")).implode()).to_series()
    has = _apart(pl.col("text")).str.contains_any(pl.lit(sought))
    return texts.rename("text").to_frame().select(text=has.fill_null(False))["text"]


def _apart(text: pl.Expr) -> pl.Expr:
    """The folded words of a text with a space before and after each."""
    return pl.format(" {} ", folded(text).str.replace_all(r"[^\p{L}\p{M}]+", " "))


def _sought(part: pl.Expr) -> pl.Expr:
    """The search pattern of a part in `_apart` text; spaces mark where a word must begin and end."""
    stem = part.str.replace(_LAST_VOWEL, "")
    has_stem, is_long = (each.str.count_matches(r"\p{L}") >= MIN_BEGINNING for each in (stem, part))
    beginning = pl.format(" {}", pl.when(has_stem).then(stem).otherwise(part))
    whole = pl.format(" {} ", part)
    return pl.when(part.str.contains(UNSPACED)).then(part).when(is_long).then(beginning).otherwise(whole)


def terms_of(facts: pl.DataFrame, names: pl.DataFrame, aliases: pl.DataFrame | None) -> pl.Series:
    """The general words of facts; `aliases` (alias_name, entity_id) are further names of the entities of `names`."""
    if not facts[COLUMN].count():  # no model has given any
        return pl.Series(COLUMN, [None] * len(facts), dtype=pl.String)
    known = names.select("entity_id", "entity_type", name="canonical_name").unique()
    if aliases is not None:
        kinds = known.select("entity_id", "entity_type").unique("entity_id")
        others = aliases.select("entity_id", name="alias_name").join(kinds, on="entity_id")
        known = pl.concat([known, others.select(known.columns)])
    return search_terms(facts, known)


def search_terms(rows: pl.DataFrame, names: pl.DataFrame) -> pl.Series:
    """General words of claims (search_terms, statement, subject_id, object_id), without names.

    `names` (name, entity_id, entity_type) are left out of facts about their entity, and names of persons everywhere.
    Words of kinship such as "sister" stay, because people search with them.
    """
    parts = names.select("entity_id", "entity_type", word=parts_of_names(pl.col("name"))).explode("word")
    parts = parts.drop_nulls("word").filter(~pl.col("word").is_in(sorted(ROLES)))
    own = parts.group_by("entity_id").agg(pl.col("word").unique())
    for end in ("subject", "object"):
        of_end = own.rename({"entity_id": f"{end}_id", "word": end})
        rows = rows.drop(end, strict=False).join(of_end, on=f"{end}_id", how="left", maintain_order="left")
    both = pl.concat_list(pl.col("subject", "object").fill_null([]))
    people = parts.filter(pl.col("entity_type") == "person")["word"]
    return general_words(rows.with_columns(own_names=both), frozenset(people))

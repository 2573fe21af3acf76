"""What the counts of aspects are made of, so that a change of few facts changes them by those facts alone (S3-18).

Facts can be counted up and down. How many different entities and relations they name cannot, unless it is known how
many facts name each: that is a part of its own. `aspects.score_aspects` counts the same from all facts at once.
"""

from __future__ import annotations

import polars as pl

from slowwave.settings import AspectSettings

from .aspects import NO_KNOWLEDGE, SLUGS, USUAL, confidence_units, mean_confidence, with_scores

FACTS, RATED, CONFIDENCE = "facts", "rated", "confidence"
DISTINCT = {"end": "entities", "relation": "predicates"}
"""The parts that say how many facts name one thing, and the part that says how many such things there are."""
KEY = ("id", "slug", "part", "key")
PARTS = {**dict.fromkeys(KEY, pl.String()), "number": pl.Int64()}
TOTALS = tuple(f"{slug} {part} " for slug in SLUGS for part in (FACTS, RATED, CONFIDENCE, *DISTINCT.values()))
"""Ids of the parts that scores are told from."""
_NOTHING = pl.lit("", dtype=pl.String)
_ID = pl.concat_str("slug", "part", "key", separator=" ").alias("id")


def parts_of(facts: pl.DataFrame, tags: pl.DataFrame) -> pl.DataFrame:
    """PARTS of these live facts (`aspects.TAGGED`) and their tags (fact_id, slug), each key once."""
    known = facts.filter(~pl.col("kind").fill_null("").is_in(NO_KNOWLEDGE))
    said = tags.select("slug", id="fact_id").filter(pl.col("slug").is_in(SLUGS)).unique()
    tagged = said.join(known, on="id").with_columns(pl.col("predicate").replace("", None), units=confidence_units())

    def part(name: str, key: pl.Expr = _NOTHING, number: pl.Expr | None = None) -> pl.DataFrame:
        one = pl.lit(1) if number is None else number
        rows = tagged.select("slug", part=pl.lit(name), key=key, number=one.cast(pl.Int64))
        return rows.drop_nulls()

    rows = [
        part("end", pl.col("subject_id")),
        part("end", pl.col("object_id")),
        part("relation", pl.col("predicate")),
        part(FACTS),
        part(RATED, number=pl.col("units").is_not_null()),
        part(CONFIDENCE, number=pl.col("units")),
    ]
    return pl.concat(rows).select(_ID, pl.all()).group_by(KEY).agg(pl.col("number").sum())


def difference(before: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
    """PARTS by which `after` is more than `before`; those that are alike are left out."""
    both = pl.concat([after, before.with_columns(-pl.col("number"))])
    return both.group_by(KEY).agg(pl.col("number").sum()).filter(pl.col("number") != 0)


def added(stored: pl.DataFrame, change: pl.DataFrame) -> pl.DataFrame:
    """The parts that a change makes of stored ones (id, number): PARTS as they are then, 0 of what is no more.

    `stored` must hold those of the change and `TOTALS`, as far as there are any; only what changes is returned.
    """
    moved = _sum(stored, change)
    appeared = (pl.col("number") > 0).cast(pl.Int64) - (pl.col("number_before") > 0).cast(pl.Int64)
    counts = moved.filter(pl.col("part").is_in(list(DISTINCT))).with_columns(
        pl.col("part").replace_strict(DISTINCT, return_dtype=pl.String), number=appeared, key=_NOTHING
    )
    totals = _sum(stored, difference(pl.DataFrame(schema=PARTS), counts.select(_ID, *list(PARTS)[1:])))
    return pl.concat([moved, totals]).select(*PARTS)


def _sum(stored: pl.DataFrame, change: pl.DataFrame) -> pl.DataFrame:
    before = stored.select("id", number_before="number")
    both = change.join(before, on="id", how="left").with_columns(pl.col("number_before").fill_null(0))
    return both.with_columns(pl.col("number") + pl.col("number_before"))


def scores_of(parts: pl.DataFrame, settings: AspectSettings = USUAL) -> pl.DataFrame:
    """Slug and `aspects.COUNTED` of all fourteen aspects from parts (id, number) that hold `TOTALS`."""
    numbers = dict(parts.select("id", "number").iter_rows())

    def total(part: str) -> list[int]:
        return [numbers.get(f"{slug} {part} ", 0) for slug in SLUGS]

    counted = pl.DataFrame({name: total(name) for name in (FACTS, *DISTINCT.values(), RATED, CONFIDENCE)})
    means = mean_confidence(pl.col(CONFIDENCE), pl.col(RATED))
    rows = counted.select(pl.Series("slug", SLUGS), FACTS, *DISTINCT.values(), confidence=means)
    return with_scores(rows, settings)

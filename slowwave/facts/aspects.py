"""The fourteen aspects of a life: the aspects of each fact, and a score of each aspect (S3-13 … S3-19)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

import polars as pl

from slowwave.common import frames
from slowwave.common.lexicon import table_of
from slowwave.common.settings import AspectSettings
from slowwave.common.text import row_id

NO_KNOWLEDGE = ("similarity", "structural")
"""Kinds of facts that nobody stated: they do not count as knowledge (T33)."""
TAGGED = ("id", "kind", "subject_id", "object_id", "predicate", "confidence")
"""The columns of a fact that scores need."""
COUNTED = ("facts", "entities", "predicates", "confidence", "score")


@dataclass(frozen=True, slots=True)
class Aspect:
    """One aspect and its word stems; the icon is one character, two cells wide in a terminal."""

    slug: str
    display_name: str
    category: str
    icon: str
    stems: str

    def as_json(self) -> dict[str, str]:
        """The public fields (S3-13)."""
        return {name: getattr(self, name) for name in ("slug", "display_name", "category", "icon")}


TAXONOMY = tuple(Aspect(slug, *row.split(" / ")) for slug, row in table_of("aspects").items())
SLUGS: tuple[str, ...] = tuple(aspect.slug for aspect in TAXONOMY)
BY_SLUG: Mapping[str, Aspect] = MappingProxyType({aspect.slug: aspect for aspect in TAXONOMY})
_STEMS = sorted({stem for each in TAXONOMY for stem in each.stems.split("|")}, key=len, reverse=True)
_ANY_STEM = rf"\b(?:{'|'.join(_STEMS)})"
"""The longest stem at each beginning of a word. One pattern for all aspects: Polars keeps 32 of those it has read, and
reads all others anew with each call."""
_ORDER = pl.DataFrame({"slug": SLUGS, "place": range(len(SLUGS))})
USUAL = AspectSettings()
_DIGITS = 9  # beyond them floating-point sums differ


def classify(facts: pl.DataFrame) -> pl.Series:
    """Slugs of each row in taxonomy order, by the stems in its words (S3-14).

    Reads `predicate`, `subject_type`, `object_type`, `kind` and `statement`, if present.
    """
    read = [c for c in ("predicate", "subject_type", "object_type", "kind", "statement") if c in facts.columns]
    text = pl.concat_str(read, separator=" . ", ignore_nulls=True).str.to_lowercase()
    plain = text.str.replace_all("_", " ", literal=True).str.replace_all("’", "'", literal=True)
    found = facts.select(stems=plain.str.extract_all(_ANY_STEM))["stems"]
    return pl.Series("slugs", [_slugs_of(tuple(stems or ())) for stems in found.to_list()], dtype=frames.TEXTS)


@lru_cache(4_096)
def _slugs_of(stems: tuple[str, ...]) -> list[str]:
    """The slugs of texts with these stems, in taxonomy order: of a word that begins with two stems, both count."""
    return [
        each.slug for each in TAXONOMY if any(stem.startswith(own) for own in each.stems.split("|") for stem in stems)
    ]


def merge(model_tags: pl.Series, found: pl.Series) -> tuple[pl.Series, int]:
    """Union of a model's tags and the classifier's, once each, in taxonomy order; how many others (S3-15, S3-16)."""
    if not model_tags.count():  # what was found is in that order
        return found.cast(frames.TEXTS), 0
    both = pl.DataFrame({"tags": model_tags.cast(frames.TEXTS), "found": found.cast(frames.TEXTS)}).with_row_index(
        "row"
    )
    tags = pl.concat([both.select("row", slug=name).explode("slug").drop_nulls() for name in ("tags", "found")])
    known = tags.join(_ORDER, on="slug")
    merged = known.unique(["row", "slug"]).sort("row", "place").group_by("row", maintain_order=True).agg("slug")
    slugs = both.select("row").join(merged, on="row", how="left", maintain_order="left")["slug"]
    return slugs.fill_null(pl.Series([[]], dtype=frames.TEXTS)), tags.height - known.height


def aspect_rows(facts: pl.DataFrame) -> pl.DataFrame:
    """Rows of `fact_aspects` for applied facts: one per staged slug, with its source `via` (S3-17)."""
    facts = facts[[place for place, slugs in enumerate(facts["aspect_slugs"].to_list()) if slugs]]
    rows = [
        {"id": row_id("as", id_, slug), "fact_id": id_, "slug": slug, "via": "regex" if slug in found else "model"}
        for (id_, slugs), found in zip(frames.rows_of(facts, "id", "aspect_slugs"), classify(facts), strict=True)
        for slug in slugs
        if slug is not None
    ]
    return pl.DataFrame(rows, schema=dict(frames.FACT_ASPECTS))


def score(facts: int, entities: int, predicates: int, confidence: float, *, settings: AspectSettings = USUAL) -> float:
    """The score of an aspect, 0 to 100, from counts and mean confidence in [0, 1] (S3-18); 0 without facts."""
    if facts <= 0:
        return 0.0
    weights, enough = settings.weights, settings.saturation
    parts = (
        weights.facts * min(facts / enough.facts, 1.0)
        + weights.entities * min(entities / enough.entities, 1.0)
        + weights.predicates * min(predicates / enough.predicates, 1.0)
        + weights.confidence * min(confidence / enough.confidence, 1.0)
    )
    return round(100.0 * parts / weights.whole, _DIGITS)


def shown(value: float) -> int:
    """The shown score: rounded half up (S3-18)."""
    return math.floor(round(value, _DIGITS) + 0.5)


def score_aspects(facts: pl.DataFrame, tags: pl.DataFrame, settings: AspectSettings = USUAL) -> pl.DataFrame:
    """Slug and COUNTED of all fourteen aspects in their order, of live facts (TAGGED) and their tags (fact_id, slug).

    Tags of other facts and kinds in NO_KNOWLEDGE do not count. Subjects and objects are entities, relations the
    canonical ones; a fact without either adds none.
    """
    known = facts.filter(~pl.col("kind").fill_null("").is_in(NO_KNOWLEDGE))
    tagged = tags.select("slug", id="fact_id").unique().join(known, on="id")
    # The sum of integers is the same in any order.
    units = (pl.col("confidence").fill_nan(None) * 1e9).round().cast(pl.Int64)
    counted = tagged.group_by("slug").agg(
        facts=pl.len(),
        entities=pl.col("subject_id").append(pl.col("object_id")).drop_nulls().n_unique(),
        predicates=pl.col("predicate").replace("", None).drop_nulls().n_unique(),
        confidence=(units.sum() / units.count() / 1e9).round(_DIGITS).fill_nan(0.0),
    )
    every = _ORDER.join(counted, on="slug", how="left", maintain_order="left").fill_null(0)
    rows = every.select("slug", pl.col("facts", "entities", "predicates").cast(pl.Int64), "confidence")
    scores = [score(*row, settings=settings) for _, *row in rows.iter_rows()]
    return rows.with_columns(score=pl.Series(scores, dtype=pl.Float64))


def changed_scores(fresh: pl.DataFrame, stored: pl.DataFrame) -> pl.DataFrame:
    """The rows of `fresh` (slug and COUNTED) that differ from `stored` (id and COUNTED) (S3-19).

    An aspect without a stored row and without facts is no change.
    """
    before = stored.select(pl.col("id").alias("slug"), *COUNTED)
    before_scores = fresh.select("slug").join(before, on="slug", how="left", maintain_order="left")
    before_scores = before_scores.with_columns(pl.col(COUNTED).fill_null(0))
    return fresh.join(before_scores, on=["slug", *COUNTED], how="anti", maintain_order="left")

"""The fourteen aspects of a life: which of them a fact touches, and how well each is known (S3-13 … S3-18)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import polars as pl

from slowwave import frames
from slowwave.text import row_id


@dataclass(frozen=True, slots=True)
class Aspect:
    """One aspect and the word starts that speak of it."""

    slug: str
    display_name: str
    category: str
    icon: str
    stems: str


TAXONOMY: tuple[Aspect, ...] = (
    Aspect("film_tv", "Film & TV", "Cultural", "🎬", "film|movie|cinema|tv|show|series|watch|actor|director"),
    Aspect("music", "Music", "Cultural", "🎵", "music|song|album|band|listen|concert|guitar|piano|sing"),
    Aspect("books", "Books", "Cultural", "📚", "book|read|novel|author|library|literature"),
    Aspect("creativity", "Creativity", "Cultural", "🎨", "art|paint|draw|design|create|craft|write|photo|invent"),
    Aspect(
        "career", "Career", "Identity", "💼", "work|job|career|employ|company|manag|project|colleague|salary|promot"
    ),
    Aspect("education", "Education", "Identity", "🎓", "stud|school|universit|degree|course|learn|teach|train|certif"),
    Aspect("identity", "Identity", "Identity", "🪪", "identit|name|gender|nationalit|personalit|self|born|describe"),
    Aspect("childhood", "Childhood", "Identity", "🧸", "child|kid|grew up|young|school days|parents' house"),
    Aspect(
        "family",
        "Family",
        "Relationships",
        "👪",
        "famil|mother|father|parent|brother|sister|son|daughter|wife|husband|spouse|cousin|grand",
    ),
    Aspect(
        "relationships",
        "Relationships",
        "Relationships",
        "🤝",
        "friend|partner|dating|married|relationship|know|met|love|neighbo",
    ),
    Aspect("philosophy", "Philosophy", "Worldview", "🤔", "think|believ|philosoph|meaning|ethic|idea|opinion"),
    Aspect(
        "values", "Values", "Worldview", "⚖️", "value|principle|important|prefer|priorit|care about|honest|integrity"
    ),
    Aspect("spirituality", "Spirituality", "Worldview", "🕊️", "god|faith|church|pray|relig|spirit|meditat|soul"),
    Aspect(
        "health",
        "Health",
        "Lifestyle",
        "🩺",
        "health|ill|sick|doctor|medic|diet|sleep|exercise|run|allerg|injur|weight",
    ),
)
SLUGS: tuple[str, ...] = tuple(aspect.slug for aspect in TAXONOMY)
_ORDER = pl.DataFrame({"slug": SLUGS, "place": range(len(SLUGS))})


def classify(facts: pl.DataFrame) -> pl.Series:
    """Slugs of each row in taxonomy order, by word starts in its words (S3-14).

    Reads `predicate`, `subject_type`, `object_type`, `kind` and `statement`, those that are there.
    """
    read = [c for c in ("predicate", "subject_type", "object_type", "kind", "statement") if c in facts.columns]
    words = facts.select(
        pl.concat_str(read, separator=" . ", ignore_nulls=True)
        .str.replace_all("_", " ")
        .str.replace_all("’", "'")
        .alias("words")
    )
    hits = [
        pl.when(pl.col("words").str.contains(rf"(?i)\b(?:{aspect.stems})")).then(pl.lit(aspect.slug))
        for aspect in TAXONOMY
    ]
    return words.select(slugs=pl.concat_list(hits).list.drop_nulls())["slugs"]


@dataclass(frozen=True, slots=True)
class Tagging:
    """Slugs per row after the merge, and how many tags of the model were not in the taxonomy."""

    slugs: pl.Series
    unknown: int


def merge(said: pl.Series, found: pl.Series) -> Tagging:
    """Union of a model's tags and the classifier's, once each, in taxonomy order; others are counted (S3-15, S3-16)."""
    both = pl.DataFrame({"said": said.cast(frames.TEXTS), "found": found.cast(frames.TEXTS)}).with_row_index("row")
    tags = pl.concat([both.select("row", slug=name).explode("slug").drop_nulls() for name in ("said", "found")])
    known = tags.join(_ORDER, on="slug")
    merged = known.unique(["row", "slug"]).sort("row", "place").group_by("row", maintain_order=True).agg("slug")
    slugs = both.select("row").join(merged, on="row", how="left", maintain_order="left")["slug"]
    return Tagging(slugs.fill_null(pl.Series([[]], dtype=frames.TEXTS)), tags.height - known.height)


def aspect_rows(facts: pl.DataFrame) -> pl.DataFrame:
    """Rows of `fact_aspects` for applied facts: one per staged slug, and who found it (S3-17)."""
    found = facts.select("id", "aspect_slugs", found=classify(facts)).explode("aspect_slugs").drop_nulls("aspect_slugs")
    rows = found.select(
        fact_id="id",
        slug="aspect_slugs",
        via=pl.when(pl.col("found").list.contains(pl.col("aspect_slugs")))
        .then(pl.lit("regex"))
        .otherwise(pl.lit("model")),
    )
    ids = [row_id("as", fact, slug) for fact, slug in rows.select("fact_id", "slug").iter_rows()]
    return frames.conform(rows.with_columns(pl.Series("id", ids, dtype=pl.String)), frames.FACT_ASPECTS)


def score(facts: int, entities: int, predicates: int, confidence: float) -> float:
    """How well an aspect is known, 0 to 100, from counts and mean confidence (S3-18); no facts is 0."""
    if facts <= 0:
        return 0.0
    parts = 0.40 * min(facts / 25, 1.0) + 0.25 * min(entities / 12, 1.0) + 0.20 * min(predicates / 8, 1.0)
    return 100.0 * (parts + 0.15 * confidence)


def shown(value: float) -> int:
    """A score as people see it: rounded half up."""
    return math.floor(value + 0.5)


def score_aspects(facts: pl.DataFrame, tags: pl.DataFrame) -> pl.DataFrame:
    """All fourteen aspects as (slug, facts, entities, predicates, confidence, score), of live facts and their tags."""
    tagged = tags.select("slug", pl.col("fact_id").alias("id")).unique().join(facts, on="id")
    ends = pl.col("subject_id").append(pl.col("object_id")).drop_nulls().n_unique()
    counts = tagged.group_by("slug").agg(
        facts=pl.len().cast(pl.Int64),
        entities=ends.cast(pl.Int64),
        predicates=pl.col("predicate").drop_nulls().n_unique().cast(pl.Int64),
        confidence=pl.col("confidence").mean(),
    )
    rows = (
        _ORDER.select("slug")
        .join(counts, on="slug", how="left", maintain_order="left")
        .with_columns(pl.col("facts", "entities", "predicates").fill_null(0), pl.col("confidence").fill_null(0.0))
    )
    scores = [score(*row) for row in rows.select("facts", "entities", "predicates", "confidence").iter_rows()]
    return rows.with_columns(score=pl.Series(scores, dtype=pl.Float64))

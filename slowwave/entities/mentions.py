"""Mentions: the names of a batch, each once, in their stored form (S2-02, S2-18)."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from slowwave.common import frames
from slowwave.common.errors import UnusableInput
from slowwave.common.lexicon.labels import canonical_type
from slowwave.common.text import MAX_NAME_BYTES, cut_bytes, normalise_name, one_line, readable, row_id
from slowwave.reading.extraction.kinship import KIN_MARK, Kin, read_kin
from slowwave.reading.filters.injection import injection_reason
from slowwave.reading.filters.redaction import has_secret

MIN_NAME_BYTES = 3
MAX_SUMMARY_BYTES = 2048
RAW_MENTIONS = {
    "window": pl.Int64(),
    "name": pl.String(),
    "entity_type": pl.String(),
    "summary": pl.String(),
    "seen_at": frames.TIME,
}
JUDGED = RAW_MENTIONS | {
    "first_seen_at": frames.TIME,
    "is_named": pl.Boolean(),
    "owner": pl.String(),
    "kin": pl.String(),
}
"""RAW_MENTIONS with columns that a reader may add: `first_seen_at` where `seen_at` is only the last time, `is_named` by
`is_entity` (null: not judged), `owner` (the speaker of a "my" in the name), `kin` (the kin name of its bearer, "Evan's
wife")."""


@dataclass(frozen=True, slots=True)
class Mentions:
    """The names of a batch.

    `distinct`: mention, canonical_name, entity_type, name (latest form), clean_name, summary (latest), kin (the kin
    name of its bearer, if known), first_seen_at, last_seen_at, times. `links`: window, canonical_name as written,
    mention. `rejected`: names under three bytes; `not_named`: words that are no name.
    """

    distinct: pl.DataFrame
    links: pl.DataFrame
    rejected: int = 0
    not_named: int = 0

    def names(self) -> list[str]:
        """Canonical names to look up among entities and aliases before planning."""
        both = pl.concat([self.distinct["canonical_name"], self.distinct["kin"].drop_nulls()])
        return both.unique(maintain_order=True).to_list()


def mentions_in(raw: pl.DataFrame, *, type_strict: bool = False) -> Mentions:
    """Each name of a batch once; `raw` has RAW_MENTIONS in order of extraction.

    One name under several types is one mention of the most frequent type; `concept` counts only without another type.
    """
    judged = frames.conform(raw, JUDGED).filter(pl.col("is_named").fill_null(True))
    named = _as_kin(_normalised(judged))
    long_enough = named.filter(pl.col("canonical_name").str.len_bytes() >= MIN_NAME_BYTES)
    typed = long_enough if type_strict else _one_type(long_enough)
    distinct = (
        typed.sort("seen_at", maintain_order=True, nulls_last=False)
        .group_by("canonical_name", "entity_type", maintain_order=True)
        .agg(
            name=pl.col("name").last(),
            clean_name=pl.col("clean_name").last(),
            summary=pl.col("summary").drop_nulls().last(),
            kin=pl.col("kin").drop_nulls().last(),
            first_seen_at=pl.min_horizontal("first_seen_at", "seen_at").min(),
            last_seen_at=pl.col("seen_at").max(),
            times=pl.len(),
        )
        .sort("first_seen_at", "canonical_name", "entity_type")
        .with_columns(mention=pl.int_range(pl.len(), dtype=pl.Int64))
    )
    links = (
        typed.join(distinct.select("canonical_name", "entity_type", "mention"), on=["canonical_name", "entity_type"])
        .unique(["window", "as_written"], keep="first", maintain_order=True)
        .select("window", pl.col("as_written").alias("canonical_name"), "mention")
    )
    return Mentions(distinct, links, named.height - long_enough.height, raw.height - judged.height)


def new_id(canonical_name: str, entity_type: str) -> str:
    """The id of a new entity with this name and type."""
    return row_id("e", canonical_name, entity_type)


def embed_texts(mentions: pl.DataFrame) -> pl.Series:
    """The text that is embedded for a name: `name: summary`, or the name alone (S2-07).

    The name is the canonical one, or the name that a person gave.
    """
    summary = pl.col("summary").fill_null("")
    names = mentions.with_columns(called=_given_names(mentions))
    with_summary = pl.concat_str("called", pl.lit(": "), summary)
    return names.select(text=pl.when(summary == "").then("called").otherwise(with_summary))["text"]


def _given_names(named: pl.DataFrame) -> pl.Series:
    if "is_renamed" not in named.columns or not named["is_renamed"].any():
        return named["canonical_name"]
    rows = named.select("canonical_name", "name", "is_renamed").iter_rows()
    return pl.Series([normalise_name(name) if given else known for known, name, given in rows], dtype=pl.String)


def _normalised(raw: pl.DataFrame) -> pl.DataFrame:
    """Adds canonical_name and clean_name, trims summaries, maps types; names are normalised once each."""
    names = raw["name"].drop_nulls().unique().to_list()
    forms = pl.DataFrame(
        [(name, normalise_name(name), readable(name).strip()) for name in names],
        schema={"name": pl.String, "canonical_name": pl.String, "clean_name": pl.String},
        orient="row",
    )
    types = {word: canonical_type(word) for word in raw["entity_type"].drop_nulls().unique()}
    known_type = pl.col("entity_type").replace_strict(types, default=None, return_dtype=pl.String)
    summaries = raw["summary"].drop_nulls().unique().to_list()
    cut = {summary: cut_bytes(readable(summary).strip(), MAX_SUMMARY_BYTES) for summary in summaries}
    return raw.join(forms, on="name", how="left", maintain_order="left").with_columns(
        pl.col("canonical_name", "clean_name").fill_null(""),
        entity_type=known_type.fill_null("concept"),
        summary=pl.col("summary").replace(cut),
    )


def _as_kin(named: pl.DataFrame) -> pl.DataFrame:
    """Adds `as_written` and the stored names of kin; "my wife Anna" is "anna" with a kin name.

    A "my" without a known speaker is left out: it could mean anybody.
    """
    rows = named.with_columns(as_written="canonical_name")
    candidates = rows.filter(pl.col("canonical_name").str.contains(KIN_MARK)).select("name", "owner").unique()
    kin = [(name, owner, one) for name, owner in candidates.iter_rows() if (one := read_kin(name)) is not None]
    stored = [(name, owner, *_kin_names(one, owner)) for name, owner, one in kin]
    schema = dict.fromkeys(("name", "owner", "stored", "shown", "known_as"), pl.String())
    found = pl.DataFrame(stored, schema=schema, orient="row").with_columns(is_kin=pl.lit(True))
    both = rows.join(found, on=["name", "owner"], how="left", nulls_equal=True, maintain_order="left")
    whole = both.filter(pl.col("is_kin").is_null() | pl.col("stored").is_not_null())
    shown = pl.coalesce("shown", "name")
    return whole.with_columns(
        canonical_name=pl.coalesce("stored", "canonical_name"),
        clean_name=pl.coalesce("shown", "clean_name"),
        name=shown,
        kin=pl.coalesce("kin", "known_as"),
    ).drop("stored", "shown", "known_as", "is_kin")


def _kin_names(kin: Kin, owner: str | None) -> tuple[str | None, str | None, str | None]:
    """(canonical name, shown name, kin name of a person with a name)."""
    if kin.is_own and not owner:
        return (normalise_name(kin.name), kin.name, None) if kin.name else (None, None, None)
    possessor = str(owner) if kin.is_own else kin.possessor
    known_as = kin.called(possessor)
    if kin.name:
        return normalise_name(kin.name), kin.name, known_as
    return known_as, f"{possessor}'s {kin.role}", None


def _one_type(named: pl.DataFrame) -> pl.DataFrame:
    votes = (
        named.with_row_index("place")
        .group_by("canonical_name", "entity_type")
        .agg(pl.len().alias("votes"), pl.col("place").min())
        .sort(pl.col("entity_type") == "concept", -pl.col("votes").cast(pl.Int64), "place")
        .unique("canonical_name", keep="first", maintain_order=True)
    )
    return named.drop("entity_type").join(
        votes.select("canonical_name", "entity_type"), on="canonical_name", how="left", maintain_order="left"
    )


# Names that a person gives to an entity: the stored form, and checks (S2-03, T38, T39).


def shown_name(name: str) -> str:
    """The stored and shown form of a name: visible, on one line, single-spaced, at most 512 bytes."""
    return cut_bytes(one_line(name), MAX_NAME_BYTES)


def is_too_short(shown: str) -> bool:
    """Whether the result of `shown_name` is too short for a name."""
    return len(normalise_name(shown).encode()) < MIN_NAME_BYTES


def name_to_store(name: str) -> str:
    """The result of `shown_name`; raises `UnusableInput` if that result cannot be a name."""
    shown = shown_name(name)
    if reason := injection_reason(shown):
        raise UnusableInput(f"{shown!r} cannot be a name. {reason}", "Say what the entity is called.")
    if has_secret(shown):
        raise UnusableInput("The name holds what looks like a secret.", "Say what the entity is called.")
    if is_too_short(shown):
        raise UnusableInput(f"{shown!r} is too short for a name.", "A name has three characters or more.")
    return shown

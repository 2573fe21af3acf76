"""Mentions: the names of a batch, each once, in their stored form (S2-02, S2-18)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

import polars as pl

from slowwave.common import frames
from slowwave.common.errors import UnusableInput
from slowwave.common.lexicon.labels import canonical_type
from slowwave.common.text import MAX_NAME_BYTES, cut_bytes, normalise_name, one_line, readable, row_id
from slowwave.reading.extraction.kinship import KIN_MARK, read_kin
from slowwave.reading.filters.injection import injection_reason
from slowwave.reading.filters.redaction import has_secret

MIN_NAME_BYTES = 3
MAX_SUMMARY_BYTES = 2048
Row: TypeAlias = dict[str, Any]
_KIN = re.compile(KIN_MARK)
_TEXTS = dict.fromkeys(("name", "entity_type", "summary"), pl.String())
RAW_MENTIONS = {"window": pl.Int64(), **_TEXTS, "seen_at": frames.TIME}
JUDGED = RAW_MENTIONS | {"first_seen_at": frames.TIME, "is_named": pl.Boolean(), "owner": pl.String()}
"""RAW_MENTIONS with columns that a reader may add: `first_seen_at` where `seen_at` is only the last time, `is_named` by
`is_entity` (null: not judged), `owner` (the speaker of a "my" in the name)."""
DISTINCT = {
    **dict.fromkeys(("canonical_name", "entity_type", "name", "clean_name", "summary", "kin"), pl.String()),
    "first_seen_at": frames.TIME,
    "last_seen_at": frames.TIME,
    "mention": pl.Int64(),
}
LINKS = {"window": pl.Int64(), "canonical_name": pl.String(), "mention": pl.Int64()}


@dataclass(frozen=True, slots=True)
class Mentions:
    """The names of a batch.

    `distinct`: mention, canonical_name, entity_type, name (latest form), clean_name, summary (latest), kin (the kin
    name of its bearer, if known), first_seen_at, last_seen_at. `links`: window, canonical_name as written,
    mention. Names under three bytes, and words that are no name, are in neither.
    """

    distinct: pl.DataFrame
    links: pl.DataFrame

    def names(self) -> list[str]:
        """Canonical names to look up among entities and aliases before planning."""
        both = pl.concat([self.distinct["canonical_name"], self.distinct["kin"].drop_nulls()])
        return both.unique(maintain_order=True).to_list()


def mentions_in(raw: pl.DataFrame, *, type_strict: bool = False) -> Mentions:
    """Each name of a batch once; `raw` has RAW_MENTIONS in order of extraction.

    One name under several types is one mention of the most frequent type; `concept` counts only without another type.
    """
    judged = [row for row in frames.conform(raw, JUDGED).to_dicts() if row["is_named"] is not False]
    forms = {name: (normalise_name(name), readable(name).strip()) for name in {row["name"] or "" for row in judged}}
    named = [stored for row in judged if (stored := _stored(row, *forms[row["name"] or ""])) is not None]
    long_enough = [row for row in named if len(row["canonical_name"].encode()) >= MIN_NAME_BYTES]
    if not type_strict:
        votes: dict[str, Counter[str]] = {}
        for row in long_enough:
            votes.setdefault(row["canonical_name"], Counter())[row["entity_type"]] += 1
        types = {name: max(kinds, key=lambda kind: (kind != "concept", kinds[kind])) for name, kinds in votes.items()}
        for row in long_enough:
            row["entity_type"] = types[row["canonical_name"]]
    by_name: dict[tuple[str, str], list[Row]] = {}
    for row in sorted(long_enough, key=lambda row: (row["seen_at"] is not None, row["seen_at"])):
        by_name.setdefault((row["canonical_name"], row["entity_type"]), []).append(row)
    distinct = sorted((_mention(*key, rows) for key, rows in by_name.items()), key=_in_order)
    numbers = {(row["canonical_name"], row["entity_type"]): number for number, row in enumerate(distinct)}
    written: dict[tuple[int, str], int] = {}
    for row in long_enough:
        number = numbers[row["canonical_name"], row["entity_type"]]
        written.setdefault((row["window"], row["as_written"]), number)
    return Mentions(
        pl.DataFrame([{**row, "mention": number} for number, row in enumerate(distinct)], schema=DISTINCT),
        pl.DataFrame([(*place, number) for place, number in written.items()], schema=LINKS, orient="row"),
    )


def _stored(row: Row, canonical_name: str, clean_name: str) -> Row | None:
    """The row with a type and a summary as they are stored, `clean_name`, `as_written` and `canonical_name`.

    "My wife Anna" is "anna" with a kin name; a "my" without a known speaker is left out: it could mean anybody.
    """
    summary, owner = row["summary"], row["owner"]
    kin = read_kin(row["name"]) if _KIN.search(canonical_name) else None
    stored = {
        **row,
        "entity_type": (row["entity_type"] and canonical_type(row["entity_type"])) or "concept",
        "summary": summary and cut_bytes(readable(summary).strip(), MAX_SUMMARY_BYTES),
        "as_written": canonical_name,
        "canonical_name": canonical_name,
        "clean_name": clean_name,
        "kin": None,
    }
    if kin is None:
        return stored
    possessor = str(owner) if kin.is_own else kin.possessor
    known_as = kin.called(possessor) if owner or not kin.is_own else None
    if kin.name:
        named = {"canonical_name": normalise_name(kin.name), "clean_name": kin.name, "name": kin.name}
        return {**stored, **named, "kin": known_as}
    if known_as is None:
        return None
    shown = f"{possessor}'s {kin.role}"
    return {**stored, "canonical_name": known_as, "clean_name": shown, "name": shown}


def _mention(canonical_name: str, entity_type: str, rows: Sequence[Row]) -> Row:
    """One row of all mentions of a name, which are in order of time."""
    firsts = [at for row in rows for at in (row["first_seen_at"], row["seen_at"]) if at is not None]
    return {
        "canonical_name": canonical_name,
        "entity_type": entity_type,
        "name": rows[-1]["name"],
        "clean_name": rows[-1]["clean_name"],
        "summary": next((row["summary"] for row in reversed(rows) if row["summary"] is not None), None),
        "kin": next((row["kin"] for row in reversed(rows) if row["kin"] is not None), None),
        "first_seen_at": min(firsts, default=None),
        "last_seen_at": rows[-1]["seen_at"],
    }


def _in_order(row: Row) -> tuple[bool, datetime | None, str, str]:
    first = row["first_seen_at"]
    return first is not None, first, row["canonical_name"], row["entity_type"]


def new_id(canonical_name: str, entity_type: str) -> str:
    """The id of a new entity with this name and type."""
    return row_id("e", canonical_name, entity_type)


def embed_texts(mentions: pl.DataFrame) -> pl.Series:
    """The text that is embedded for each name, see `embed_text`."""
    is_renamed = [mentions["is_renamed"]] if "is_renamed" in mentions.columns else []
    columns = mentions["canonical_name"], mentions["summary"], mentions["name"], *is_renamed
    return pl.Series("text", map(embed_text, *columns), dtype=pl.String)


def embed_text(canonical_name: str, summary: str | None, name: str, is_renamed: bool | None = False) -> str:
    """The text that is embedded for a name: `name: summary`, or the name alone (S2-07).

    The name is the canonical one, or the name that a person gave.
    """
    called = normalise_name(name) if is_renamed else canonical_name
    return f"{called}: {summary}" if summary else called


def joined_summary(summary: str | None, more: str | None) -> str | None:
    """Both summaries, unless the first holds the second; at most 2048 bytes (S2-08)."""
    if not summary or not more:
        return summary or more
    plain, plain_more = (" ".join(text.lower().split()) for text in (summary, more))
    return summary if plain_more in plain else cut_bytes(f"{summary}; {more}", MAX_SUMMARY_BYTES)


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

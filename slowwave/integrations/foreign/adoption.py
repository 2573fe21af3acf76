"""An export in the form of our own ingestion: messages, mentioned names, and claims about them.

Every claim is one message of role `document`, so that `why` shows its words and their source. The identifier comes from
the key of the item in its system and from its text: an item with another text is a new message, an item with the same
text is a known one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import polars as pl

from slowwave.common import frames
from slowwave.common.text import digest, normalise_name, row_id
from slowwave.entities.mentions import RAW_MENTIONS
from slowwave.facts.revision.candidates import CLAIMS as OWN_CLAIMS
from slowwave.reading.filters.injection import injection_flags, injection_reasons
from slowwave.reading.filters.redaction import redact_all
from slowwave.reading.ingestion.conversations import hidden_names

from .records import Foreign, Skipped

ROLE = "document"
SCOPE = "global"
VERSION = "~"
_EPISODE = "episode-"
MESSAGES: frames.Schema = {
    "id": pl.String(),
    "message_id": pl.String(),
    "conversation_id": pl.String(),
    "key": pl.String(),
    "place": pl.String(),
    "content": pl.String(),
    "search_text": pl.String(),
    "occurred_at": frames.TIME,
    "valid_from": frames.TIME,
    "valid_to": frames.TIME,
    "has_injection": pl.Boolean(),
}


@dataclass(frozen=True, slots=True, eq=False)
class Adopted:
    """The content of an export: `messages` (MESSAGES) and `claims`, one claim for each message in the same order.

    `mentions` (RAW_MENTIONS) are its listed entities, `aliases` (alias_name, name) their other names, `episodes`
    (MESSAGES, without a claim) the source texts of claims, `sources` (id, episode_id, text, stated_at) the episodes
    behind the message of a claim.
    """

    messages: pl.DataFrame
    claims: pl.DataFrame
    mentions: pl.DataFrame
    aliases: pl.DataFrame
    episodes: pl.DataFrame
    sources: pl.DataFrame


def adopt(foreign: Foreign, written_at: datetime) -> Adopted:
    """The content of an export without secrets; `written_at` is the time of items without one."""
    claims = _with_messages(foreign, written_at).unique("id", keep="first", maintain_order=True)
    episodes = _episodes(foreign, written_at)
    own = claims.with_columns(
        pl.col("relation").fill_null(""), window=pl.lit(0, dtype=pl.Int64), message_id="id", statement="content"
    )
    return Adopted(
        claims.select(*MESSAGES),
        frames.conform(own, OWN_CLAIMS).select(*OWN_CLAIMS),
        _mentions(foreign, claims, written_at),
        _aliases(foreign.entities),
        episodes,
        _sources(claims, episodes),
    )


def conversation_of(system: str, group: str | None) -> str:
    """The conversation of one user or group of a system."""
    return f"{system}:{group}" if group else system


def _with_messages(foreign: Foreign, written_at: datetime) -> pl.DataFrame:
    """The claims with the columns of their messages."""
    now = pl.lit(written_at, dtype=frames.TIME)
    claims = foreign.claims.with_columns(
        pl.col("key").fill_null(""),
        occurred_at=pl.coalesce("stated_at", "valid_from", now),
        valid_from=pl.coalesce("valid_from", "stated_at", now),
    ).with_columns(valid_to=pl.max_horizontal("valid_to", pl.when(pl.col("valid_to").is_not_null()).then("valid_from")))
    keys = claims.select("key", "statement", "valid_to").iter_rows()
    names = [f"{key}{VERSION}{digest(statement, ended, size=4)}" for key, statement, ended in keys]
    with_subject = pl.concat_str(pl.col("subject"), pl.lit(": "), pl.col("statement"))
    names_subject = (
        pl.col("statement").str.to_lowercase().str.contains(pl.col("subject").str.to_lowercase(), literal=True)
    )
    return _identified(claims.with_columns(message_id=pl.Series(names, dtype=pl.String)), foreign.format).with_columns(
        content="statement",
        search_text=pl.when(names_subject).then("statement").otherwise(with_subject),
        has_injection=injection_flags(claims["statement"]),
    )


def _identified(rows: pl.DataFrame, system: str) -> pl.DataFrame:
    """The rows with the conversation of their group, and the id of their message."""
    groups = {group: conversation_of(system, group) for group in rows["group"].unique()}
    conversations = [groups[group] for group in rows["group"]]
    ids = [row_id("m", *pair) for pair in zip(conversations, rows["message_id"], strict=True)]
    return rows.with_columns(
        id=pl.Series(ids, dtype=pl.String), conversation_id=pl.Series(conversations, dtype=pl.String)
    )


def _mentions(foreign: Foreign, claims: pl.DataFrame, written_at: datetime) -> pl.DataFrame:
    """The listed entities, then the subjects and objects of claims, whose type is unknown."""
    now = pl.lit(written_at, dtype=frames.TIME)
    listed = foreign.entities.select(
        "name", "summary", entity_type=pl.col("known_type").fill_null("concept"), seen_at=pl.coalesce("seen_at", now)
    )
    ends = [
        claims.select(name=end, seen_at="occurred_at", entity_type=pl.lit("concept")) for end in ("subject", "object")
    ]
    named = pl.concat(ends).drop_nulls("name").unique(["name", "seen_at"], maintain_order=True)
    rows = pl.concat([frames.conform(part, RAW_MENTIONS) for part in (listed, named)])
    return rows.with_columns(window=pl.lit(0, dtype=pl.Int64)).select(*RAW_MENTIONS)


def _aliases(entities: pl.DataFrame) -> pl.DataFrame:
    """(alias_name, name) in normal form."""
    rows = entities.select("name", alias_name="aliases").explode("alias_name").drop_nulls().unique(maintain_order=True)
    forms = [(normalise_name(alias), normalise_name(name)) for name, alias in rows.iter_rows()]
    return pl.DataFrame(forms, schema={"alias_name": pl.String, "name": pl.String}, orient="row")


def _episodes(foreign: Foreign, written_at: datetime) -> pl.DataFrame:
    now = pl.lit(written_at, dtype=frames.TIME)
    named = foreign.episodes.with_columns(message_id=pl.concat_str(pl.lit(_EPISODE), pl.col("key")))
    rows = _identified(named, foreign.format).with_columns(
        content="text",
        search_text="text",
        occurred_at=pl.coalesce("stated_at", now),
        has_injection=injection_flags(named["text"]),
    )
    return frames.conform(rows, MESSAGES).select(*MESSAGES).unique("id", keep="first", maintain_order=True)


def _sources(claims: pl.DataFrame, episodes: pl.DataFrame) -> pl.DataFrame:
    """(id, episode_id, text, stated_at): messages of claims, with the readable episodes that they name."""
    named = claims.select("id", key="episodes").explode("key").drop_nulls()
    known = episodes.filter(~pl.col("has_injection")).with_columns(key=pl.col("message_id").str.strip_prefix(_EPISODE))
    found = known.select("key", episode_id="id", text="content", stated_at="occurred_at").unique("key", keep="first")
    return named.join(found, on="key", maintain_order="left").drop("key").unique(maintain_order=True)


# The safe form of an export: no secrets in any text, and no names that are secrets or orders (T39).


_TEXTS = (("entities", "summary"), ("claims", "statement"), ("episodes", "text"))
_KEYS = ("key", "group")
_SECRET = "its name holds what looks like a secret"
_ORDER = "its name tries to give its reader orders"


def without_secrets(foreign: Foreign) -> tuple[Foreign, int]:
    """The safe export, and the number of redacted texts; items whose name is a secret or an order are left out."""
    parts = {"entities": foreign.entities, "claims": foreign.claims, "episodes": foreign.episodes}
    redacted = 0
    for part, column in _TEXTS:
        clean, kinds = redact_all(parts[part][column])
        redacted += int((kinds.list.len() > 0).sum())
        parts[part] = parts[part].with_columns(clean.alias(column))
    for part in ("claims", "episodes"):
        keys = {column: parts[part][column] for column in _KEYS}
        hidden = {column: hidden_names(key.drop_nulls().unique().to_list()) for column, key in keys.items()}
        parts[part] = parts[part].with_columns(key.replace(hidden[column]) for column, key in keys.items())
    names = [parts["entities"]["name"], parts["claims"]["subject"], parts["claims"]["object"]]
    wrong = _wrong_names(pl.concat(names).drop_nulls().unique())
    ends = {"entities": ["name"], "claims": ["subject", "object"]}
    skipped = [each for part, columns in ends.items() for each in _skipped(parts[part], columns, wrong)]
    for part, columns in ends.items():
        parts[part] = parts[part].filter(~_is_called(columns, wrong))
    entities = parts["entities"].with_columns(_without(parts["entities"]["aliases"], wrong))
    content = replace(
        foreign, entities=entities, claims=parts["claims"], episodes=parts["episodes"],
        skipped=(*foreign.skipped, *skipped),
    )  # fmt: skip
    return content, redacted


def _wrong_names(names: pl.Series) -> dict[str, str]:
    """{name: reason} of the names that must not be stored."""
    orders = names.filter(injection_reasons(names).is_not_null())
    return dict.fromkeys(orders, _ORDER) | dict.fromkeys(hidden_names(names.to_list()), _SECRET)


def _is_called(columns: Collection[str], wrong: Mapping[str, str]) -> pl.Expr:
    return pl.any_horizontal(pl.col(column).is_in(list(wrong)).fill_null(False) for column in columns)


def _skipped(rows: pl.DataFrame, columns: Collection[str], wrong: Mapping[str, str]) -> list[Skipped]:
    named = rows.filter(_is_called(columns, wrong)).select("place", *columns)
    return [Skipped(place, next(wrong[name] for name in names if name in wrong)) for place, *names in named.iter_rows()]


def _without(aliases: pl.Series, wrong: Mapping[str, str]) -> pl.Series:
    """The aliases without secrets and orders."""
    known = aliases.explode().drop_nulls().unique()
    bad = {*wrong, *_wrong_names(known)}
    return aliases.list.eval(pl.element().filter(~pl.element().is_in(list(bad)))) if bad else aliases

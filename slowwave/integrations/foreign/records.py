"""The common form of all exports, and the same as messages, names and claims of our own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

import polars as pl

from slowwave.common import frames
from slowwave.common.lexicon.labels import canonical_type
from slowwave.common.text import digest, normalise_name, readable, row_id
from slowwave.entities.mentions import RAW_MENTIONS
from slowwave.facts.revision.candidates import CLAIMS as OWN_CLAIMS
from slowwave.reading.filters.injection import injection_flags, injection_reasons
from slowwave.reading.filters.redaction import redact_all
from slowwave.reading.ingestion.conversations import hidden_names
from slowwave.reading.ingestion.transcripts import display_name, first, label, time_of

ENTITIES: frames.Schema = {
    **dict.fromkeys(("place", "name", "known_type", "summary"), frames.TEXT),
    "seen_at": frames.TIME,
}
CLAIMS: frames.Schema = {
    **dict.fromkeys(("place", "key", "kind", "subject", "relation", "object", "statement", "group"), frames.TEXT),
    **dict.fromkeys(("valid_from", "valid_to", "stated_at"), frames.TIME),
}


class Skipped(NamedTuple):
    """One item that is not taken: its place in the file, and the reason."""

    place: str
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Foreign:
    """The content of an export: `entities` (ENTITIES) and `claims` (CLAIMS) about them.

    `known_type` is our type, or null. Of a claim `valid_to` is the time from which it no longer holds, `stated_at` its
    last change in the system; `key` is that of the item in its system, or a digest.
    """

    format: str
    entities: pl.DataFrame
    claims: pl.DataFrame
    skipped: tuple[Skipped, ...] = ()


@dataclass(slots=True)
class Drafts:
    """The rows of a parser. Entities may come after the claims that name them by key or by name."""

    entities: list[Mapping[str, Any]] = field(default_factory=list)
    claims: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    _names: dict[str, str] = field(default_factory=dict)

    def entity(
        self, place: str, name: str, word: str | None, key: str = "", *, spaced: bool = False, **more: Any
    ) -> None:
        """Note an entity; `Ana_Ruiz` becomes Ana Ruiz in a type with proper names, or in any type if `spaced`."""
        kind = canonical_type(word) if word else None
        is_joined = _JOINED.fullmatch(name) and (spaced or kind in _WITH_PROPER_NAMES)
        own = name.replace("_", " ") if is_joined else name
        self.entities.append({"place": place, "name": own, "known_type": kind, **more})
        self._names.setdefault(key or normalise_name(name), own)

    def claim(
        self, place: str, subject: str, target: str | None, relation: str, statement: str = "", key: str = "",
        **more: Any,
    ) -> None:  # fmt: skip
        """Note a claim: an observation, or with a target a relation, which may have no sentence of its own."""
        own = {"place": place, "subject": subject, "object": target, "relation": relation}
        self.claims.append({**own, "statement": statement, "key": key, **more})

    def skip(self, place: str, reason: str) -> None:
        """Note an item that is not taken."""
        self.skipped.append(Skipped(place, reason))

    def foreign(self, format: str) -> Foreign:
        """Everything in frames."""
        claims = [self._named(each) for each in self.claims]
        return Foreign(format, _frame(self.entities, ENTITIES), _frame(claims, CLAIMS), (*self.skipped,))

    def _named(self, claim: dict[str, Any]) -> dict[str, Any]:
        """The claim with the names of its ends, its sentence and its key."""
        subject, target = (
            end and (self._names.get(end) or self._names.get(normalise_name(end), end))
            for end in (claim["subject"], claim["object"])
        )
        is_about_one = target is None or target == subject
        says = claim["statement"] or relation_sentence(subject, claim["relation"], target or subject)
        own = (normalise_name(subject), claim["relation"], normalise_name(target)) if target else (subject, says)
        return {
            **claim, "kind": "observation" if is_about_one else "relation", "subject": subject, "statement": says,
            "object": None if is_about_one else target, "key": claim["key"] or digest(*own, size=8),
        }  # fmt: skip

    def lacking(self, ends: Iterable[str]) -> list[str]:
        """Those of the keys that no entity has so far."""
        return [end for end in dict.fromkeys(ends) if end not in self._names]


def _frame(rows: Sequence[Mapping[str, Any]], schema: frames.Schema) -> pl.DataFrame:
    """A frame of the schema from rows with times in microseconds since 1970 UTC; missing values are null."""
    columns = {
        name: pl.Series(name, [row.get(name) for row in rows], dtype=pl.Int64() if kind == frames.TIME else kind)
        for name, kind in schema.items()
    }
    return frames.conform(pl.DataFrame(columns), schema)


Item = Mapping[str, Any]

_WITH_PROPER_NAMES = frozenset({"person", "organization", "place", "event"})
_JOINED = re.compile(r"[^\W_]+(?:_[^\W_]+)+", re.UNICODE)
_OWNER = re.compile(r"^(?:user|agent|run)_id:[_ ]*", re.IGNORECASE)


def text_of(item: Item, *names: str) -> str:
    """The first of these fields with words, on one line; empty without one."""
    found = next((item[name] for name in names if isinstance(item.get(name), str) and item[name].strip()), "")
    return " ".join(readable(found).split())


def name_of(item: Item, *names: str) -> str:
    """The name in the first of these fields with a value; of an address only the name of the person."""
    return display_name(_OWNER.sub("", label(first(dict(item), names)) or ""))


def key_of(item: Item, *names: str) -> str:
    """A name or identifier; empty without one."""
    return label(first(dict(item), names)) or ""


def moment_of(item: Item, *names: str) -> int | None:
    """Microseconds since 1970 UTC of the first of these fields with a value; None where it is no time."""
    return time_of(next((item[name] for name in names if item.get(name) not in (None, "")), None))


def relation_sentence(subject: str, relation: str, target: str) -> str:
    """A sentence for a relation without one."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", relation).replace("_", " ").strip().lower()
    return " ".join(f"{subject} {words} {target}".split())


# In the form of our own ingestion: every claim is one message of role `document`, so that `why` shows its words and
# their source. The identifier comes from the key of the item in its system and from its text: an item with another text
# is a new message, an item with the same text is a known one.


ROLE = "document"
SCOPE = "global"
MESSAGES: frames.Schema = {
    **dict.fromkeys(("id", "message_id", "conversation_id", "content", "search_text"), frames.TEXT),
    **dict.fromkeys(("occurred_at", "valid_from", "valid_to"), frames.TIME),
    "has_injection": frames.FLAG,
}


@dataclass(frozen=True, slots=True, eq=False)
class Adopted:
    """The content of an export: `messages` (MESSAGES) and `claims`, one claim for each message in the same order.

    `mentions` (RAW_MENTIONS) are its listed entities.
    """

    messages: pl.DataFrame
    claims: pl.DataFrame
    mentions: pl.DataFrame


def adopt(foreign: Foreign, written_at: datetime) -> Adopted:
    """The content of an export without secrets; `written_at` is the time of items without one."""
    claims = _with_messages(foreign, written_at).unique("id", keep="first", maintain_order=True)
    own = claims.with_columns(
        pl.col("relation").fill_null(""), window=pl.lit(0, dtype=pl.Int64), message_id="id", statement="content"
    )
    return Adopted(
        claims.select(*MESSAGES),
        frames.conform(own, OWN_CLAIMS).select(*OWN_CLAIMS),
        _mentions(foreign, claims, written_at),
    )


def _with_messages(foreign: Foreign, written_at: datetime) -> pl.DataFrame:
    """The claims with the columns of their messages; a conversation is one user or group of a system."""
    now, says = pl.lit(written_at, dtype=frames.TIME), pl.col("statement").str.to_lowercase()
    names_subject = says.str.contains(pl.col("subject").str.to_lowercase(), literal=True)
    has_group = pl.col("group").fill_null("") != ""
    claims = foreign.claims.with_columns(
        occurred_at=pl.coalesce("stated_at", "valid_from", now),
        valid_from=pl.coalesce("valid_from", "stated_at", now),
        conversation_id=pl.when(has_group)
        .then(pl.format(f"{foreign.format}:{{}}", "group"))
        .otherwise(pl.lit(foreign.format)),
        content="statement",
        search_text=pl.when(names_subject).then("statement").otherwise(pl.format("{}: {}", "subject", "statement")),
        has_injection=injection_flags(foreign.claims["statement"]),
    ).with_columns(valid_to=pl.when(pl.col("valid_to").is_not_null()).then(pl.max_horizontal("valid_to", "valid_from")))
    keys = claims.select("key", "statement", "valid_to").iter_rows()
    names = [f"{key}~{digest(statement, ended, size=4)}" for key, statement, ended in keys]
    ids = [row_id("m", *pair) for pair in zip(claims["conversation_id"], names, strict=True)]
    return claims.with_columns(pl.Series("id", ids, dtype=pl.String), pl.Series("message_id", names, dtype=pl.String))


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


# The safe form of an export: no secrets in any text, and no names that are secrets or orders (T39).


_SECRET = "its name holds what looks like a secret"
_ORDER = "its name tries to give its reader orders"


def without_secrets(foreign: Foreign) -> tuple[Foreign, int]:
    """The safe export, and the number of redacted texts; items whose name is a secret or an order are left out."""
    (summaries, some), (statements, more) = (
        redact_all(column) for column in (foreign.entities["summary"], foreign.claims["statement"])
    )
    entities = foreign.entities.with_columns(summaries)
    claims = foreign.claims.with_columns(statements)
    hidden = {name: hidden_names(claims[name].drop_nulls().unique().to_list()) for name in ("key", "group")}
    claims = claims.with_columns(pl.col(name).replace(known) for name, known in hidden.items())
    names = [entities["name"], claims["subject"], claims["object"]]
    wrong = _wrong_names(pl.concat(names).drop_nulls().unique())
    entities, unnamed = _named_well(entities, ["name"], wrong)
    claims, unsaid = _named_well(claims, ["subject", "object"], wrong)
    skipped = (*foreign.skipped, *unnamed, *unsaid)
    redacted = sum(int((kinds.list.len() > 0).sum()) for kinds in (some, more))
    return replace(foreign, entities=entities, claims=claims, skipped=skipped), redacted


def _wrong_names(names: pl.Series) -> dict[str, str]:
    """{name: reason} of the names that must not be stored."""
    orders = names.filter(injection_reasons(names).is_not_null())
    return dict.fromkeys(orders, _ORDER) | dict.fromkeys(hidden_names(names.to_list()), _SECRET)


def _named_well(
    rows: pl.DataFrame, columns: Sequence[str], wrong: Mapping[str, str]
) -> tuple[pl.DataFrame, list[Skipped]]:
    """The rows without those that have one of these names, and why each of those is left out."""
    is_wrong = pl.any_horizontal(pl.col(column).is_in(list(wrong)).fill_null(False) for column in columns)
    left_out = rows.filter(is_wrong).select("place", *columns).iter_rows()
    return rows.filter(~is_wrong), [
        Skipped(place, next(wrong[name] for name in names if name in wrong)) for place, *names in left_out
    ]

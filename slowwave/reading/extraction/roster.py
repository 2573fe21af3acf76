"""The roster: the speakers of a window, known before extraction.

The person behind a nameless `user` role is one entity of the namespace, the owner. A name that the person gives is
added to the owner. A name that does not fit the known one belongs to another owner, of that scope, or to nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from slowwave.common.records import RosterEntry, Turn
from slowwave.common.text import normalise_name, row_id, word_set

UNNAMED = "Owner"
"""The shown name of an owner whose name is unknown."""
GENERIC_NAMES = ("user", "the user")
"""Names that always find the owner."""
NAMESPACE = ""
"""The scope of the owner of a whole namespace."""
_NAMELESS = word_set("user human customer you me myself person speaker owner")
_NAME = re.compile(r"^[^\W\d_][\w'’.-]*(?: [^\W\d_][\w'’.-]*){0,4}$")
_MENTIONED = re.compile(
    r"[^\W\d_a-zß-ÿ][\w'’&.-]*(?:[ \t]+(?:(?:de|da|van|von|of|the|del|la)[ \t]+){0,2}[^\W\d_a-zß-ÿ][\w'’&.-]*){0,3}"
)
_MOST_ENTRIES = 40


@dataclass(frozen=True, slots=True)
class Owner:
    """The person behind the nameless role `user`: of a namespace, or of one scope of it.

    `names` are all known names of the person, without the generic ones; `is_new`: no row is stored yet.
    """

    entity_id: str
    name: str = UNNAMED
    names: tuple[str, ...] = ()
    scope: str = NAMESPACE
    is_new: bool = False

    @property
    def is_named(self) -> bool:
        """Whether any name is known."""
        return bool(self.names)


def owner_id(scope: str = NAMESPACE) -> str:
    """The entity of an owner."""
    return row_id("e", "owner", scope) if scope else row_id("e", "owner")


def is_nameless_row() -> pl.Expr:
    """Whether the owner wrote a message: role `user`, without a name of its own as speaker."""
    plain = pl.col("speaker").fill_null("").str.strip_chars().str.to_lowercase()
    return ((pl.col("role") == "user") & plain.is_in([*_NAMELESS, ""])).fill_null(False)


def any_nameless(messages: pl.DataFrame) -> bool:
    """Whether the owner wrote any of these messages."""
    return bool(messages.select(is_nameless_row().any()).item())


def owner_of(owners: Mapping[str, Owner], scope: str | None) -> Owner:
    """The owner who speaks in a scope."""
    return owners.get(scope or NAMESPACE, owners[NAMESPACE])


def with_owner_names(messages: pl.DataFrame, owners: Mapping[str, Owner]) -> pl.DataFrame:
    """The messages (role, speaker, scope) with the owner's name as speaker where they have none of their own."""
    names = {scope: owner.name for scope, owner in owners.items()}
    name = pl.col("scope").fill_null(NAMESPACE).replace_strict(names, default=owners[NAMESPACE].name)
    return messages.with_columns(speaker=pl.when(is_nameless_row()).then(name).otherwise("speaker"))


def is_name(text: str) -> bool:
    """Whether a text can be a person's name: one to five words that begin with a letter, the first with a capital."""
    return (
        bool(_NAME.match(text))
        and (text[0].isupper() or not text[0].isascii())
        and normalise_name(text) not in _NAMELESS
    )


def is_same_person(name: str, other: str) -> bool:
    """Whether one name can be short for the other: all its words, or their initials, are among the other's."""
    a, b = (normalise_name(each).replace(".", "").split() for each in (name, other))
    short, long = (a, b) if len(a) <= len(b) else (b, a)
    return all(any(word == full or (len(word) == 1 and full.startswith(word)) for full in long) for word in short)


def may_be(name: str, known: Sequence[str]) -> bool:
    """Whether a person with these names may have this one: one of them, or a short or full form of all of them."""
    plain = normalise_name(name)
    return any(plain == normalise_name(each) for each in known) or all(is_same_person(name, each) for each in known)


def with_names(
    owners: Mapping[str, Owner], learned: Iterable[tuple[str, str]]
) -> tuple[dict[str, Owner], list[tuple[str, str]]]:
    """The owners after these names (scope, name) were given, and the names that were refused.

    The first name counts, and a fuller form replaces it. A name that does not fit the known one makes an owner of its
    scope, if it was given in a scope of its own; else it is refused, and a person must decide.
    """
    after = dict(owners)
    refused: list[tuple[str, str]] = []
    for scope, name in learned:
        owner = owner_of(after, scope)
        if not is_name(name):
            refused.append((scope, name))
        elif not owner.is_named or may_be(name, owner.names):
            after[owner.scope] = _named(owner, name)
        elif scope not in ("global", NAMESPACE, owner.scope):
            after[scope] = _named(Owner(owner_id(scope), scope=scope, is_new=True), name)
        else:
            refused.append((scope, name))
    return after, refused


def _named(owner: Owner, name: str) -> Owner:
    names = tuple(dict.fromkeys((*owner.names, name)))
    return replace(owner, name=max(names, key=lambda each: (len(each.split()), each != each.lower())), names=names)


def mentioned_names(turns: Sequence[Turn]) -> list[str]:
    """Capitalised words and groups of words of a window, normalised: possible names of stored entities."""
    found: dict[str, None] = {}
    for turn in turns:
        for match in _MENTIONED.finditer(turn.text):
            words = match[0].split()
            for size in range(len(words), 0, -1):
                for start in range(len(words) - size + 1):
                    found.setdefault(normalise_name(" ".join(words[start : start + size]).strip(".'’-")))
    return [name for name in found if len(name) > 1]


def roster(
    turns: Sequence[Turn], owner: Owner, speakers: Sequence[RosterEntry], others: Sequence[RosterEntry]
) -> tuple[RosterEntry, ...]:
    """The numbered entries of a window: first the speakers, then the mentioned people and things, each once."""
    entries: list[RosterEntry] = []
    if any(turn.role == "user" and turn.speaker == owner.name for turn in turns):
        also = tuple(name for name in owner.names if normalise_name(name) != normalise_name(owner.name))
        entries.append(RosterEntry(0, owner.name, "person", owner.entity_id, also, "user"))
    if any(turn.role == "assistant" for turn in turns):
        entries.append(RosterEntry(0, "Assistant", "tool", "", (), "assistant"))
    seen = {entry.entity_id for entry in entries} - {""}
    named = {normalise_name(entry.name) for entry in entries}
    for entry in (*speakers, *others):
        name = normalise_name(entry.name)
        if (entry.entity_id and entry.entity_id in seen) or name in named or len(entries) >= _MOST_ENTRIES:
            continue
        seen.add(entry.entity_id)
        named.add(name)
        entries.append(entry)
    return tuple(replace(entry, number=number) for number, entry in enumerate(entries, 1))

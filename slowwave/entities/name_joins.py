"""Rules that join a name to a known entity, by spelling, first name, full name or kin (S2-05).

A short name joins the only full name that it fits among the known names and those of the same batch. If it fits two, it
joins neither.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import polars as pl

from slowwave.common import frames
from slowwave.common.text import normalise_name
from slowwave.common.words import folded
from slowwave.reading.extraction.kinship import read_kin

from .mentions import Mentions, new_id
from .name_matching import UMLAUTS, ascii_words, is_one_name, name_parts, short_form

KNOWN: frames.Schema = {"entity_id": pl.String(), "entity_type": pl.String(), "name": pl.String()}
JOINS: frames.Schema = {"mention": pl.Int64(), "entity_id": pl.String(), "how": pl.String()}
"""Columns of a frame with a row for each mention that joins an entity."""
UNCLEAR: frames.Schema = {"mention": pl.Int64(), "entity_id": pl.String()}
"""Columns of a frame with a row for each possible meaning of an unclear mention."""
MATCHED = ("person", "organization", "place", "project", "tool")
"""The types whose names are compared; concepts and files need an equal name."""


@dataclass(frozen=True, slots=True)
class Joined:
    """The joins of a batch (JOINS) and its unclear mentions (UNCLEAR)."""

    joins: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=dict(JOINS)))
    unclear: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=dict(UNCLEAR)))


NOTHING_JOINED = Joined()


def near_names(mentions: Mentions, known: pl.DataFrame) -> pl.DataFrame:
    """The rows of KNOWN that share a word with one of the mentions, and all names of their entities."""
    compared = mentions.distinct.filter(pl.col("entity_type").is_in(MATCHED))
    names = pl.concat([compared["name"], compared["kin"].drop_nulls()])
    wanted = set[str]().union(*map(ascii_words, names))
    keys = {
        key for name in names for key in ("".join(sorted(ascii_words(name))), name_parts(name, is_person=False).glued)
    }
    name = pl.col("plain")
    spelt = known["name"].str.replace_many(UMLAUTS)  # "Müller" is near to "Mueller" and to "Muller"
    words = pl.concat_str("plain", "spelt", separator=" ").str.extract_all(r"[a-z0-9]+")
    near = known.with_columns(plain=folded(known["name"]), spelt=folded(spelt)).filter(
        words.list.set_intersection(pl.lit(pl.Series([sorted(wanted)]))).list.len().gt(0)
        | name.str.replace_all(r"[^a-z0-9]", "").is_in(sorted(keys))
        | name.str.contains(r"[^\x00-\x7f]")
    )
    return known.join(near.select("entity_id").unique(), on="entity_id", how="semi", maintain_order="left")


def may_join() -> pl.Expr:
    """Whether rules apply to a mention: it has no exact match, or a short alias, or a kin name."""
    short = (
        (pl.col("how") == "alias")
        & (pl.col("entity_type") == "person")
        & (pl.col("canonical_name").str.len_chars() < 24)
    )
    return pl.col("how").is_null() | short | pl.col("kin").is_not_null()


def plan_joins(mentions: Mentions, exact: Mapping[int, str], known: pl.DataFrame, merged: Iterable[str] = ()) -> Joined:
    """The joins of mentions without an exact match.

    `exact`: mention → entity, for mentions with an exact match. `known`: names of stored entities (KNOWN). `merged`:
    ids of entities that were merged into another one; a short name that had such an entity of its own means the other
    one, and is not unclear.
    """
    plan = _Plan(exact, known, merged)
    rows = list(mentions.distinct.iter_rows(named=True))
    for step in (plan.meet, plan.spelling, plan.short_name, plan.full_name, plan.kin):
        for row in rows:
            step(row)
    joins = [(mention, plan.now(entity), how) for mention, (entity, how) in sorted(plan.joined.items())]
    return Joined(pl.DataFrame(joins, schema=dict(JOINS), orient="row"), plan.several())


class _Plan:
    """The names so far, and the joins of the mentions."""

    def __init__(self, exact: Mapping[int, str], known: pl.DataFrame, merged: Iterable[str] = ()) -> None:
        self.exact = exact
        self.joined: dict[int, tuple[str, str]] = {}
        self.unclear: dict[int, set[str]] = {}
        self.names: dict[str, set[str]] = defaultdict(set)  # entity → its names
        self.type: dict[str, str] = {}
        self.owner: dict[str, str] = {}  # name of a person → entity
        self.kin_names: dict[str, set[str]] = defaultdict(set)  # "evan's sister" → names of the batch
        self._by_word: dict[tuple[str, str], set[str]] = defaultdict(set)
        self._becomes: dict[str, str] = {}
        self._stored = set(known["entity_id"])
        self._merged = set(merged)
        for entity, kind, name in known.select("entity_id", "entity_type", "name").iter_rows():
            self._add(entity, kind, name)

    def meet(self, row: Mapping[str, object]) -> None:
        """Adds a name of the batch under its future entity."""
        self._add(self._meaning(row), str(row["entity_type"]), str(row["name"]))
        if row["kin"] is not None:
            self.kin_names[normalise_name(str(row["kin"]))].add(str(row["name"]))

    def _meaning(self, row: Mapping[str, object]) -> str:
        mention = int(str(row["mention"]))
        if mention in self.joined:
            return self.now(self.joined[mention][0])
        return self.exact.get(mention) or new_id(str(row["canonical_name"]), str(row["entity_type"]))

    def _add(self, entity: str, kind: str, name: str) -> None:
        if kind not in MATCHED:
            return
        self.names[entity].add(name)
        self.type[entity] = kind
        if kind == "person":
            self.owner.setdefault(normalise_name(name), entity)
        if read_kin(name) is None:
            for word in _keys(name, kind):
                self._by_word[kind, word].add(entity)

    def _join(self, row: Mapping[str, object], entity: str, how: str) -> None:
        old = self._meaning(row)
        self.joined[int(str(row["mention"]))] = (entity, how)
        if old not in self._stored and old != entity:
            self._becomes[old] = entity
            self.names[entity] |= self.names.pop(old, set())

    def now(self, entity: str) -> str:
        """The entity after all joins so far."""
        while entity in self._becomes:
            entity = self._becomes[entity]
        return entity

    def several(self) -> pl.DataFrame:
        """UNCLEAR of the mentions with more than one possible meaning."""
        meant = {mention: sorted({self.now(each) for each in could}) for mention, could in sorted(self.unclear.items())}
        rows = [(mention, entity) for mention, could in meant.items() if len(could) > 1 for entity in could]
        return pl.DataFrame(rows, schema=dict(UNCLEAR), orient="row")

    def _is_open(self, row: Mapping[str, object]) -> bool:
        mention = int(str(row["mention"]))
        return row["entity_type"] in MATCHED and mention not in self.exact and mention not in self.joined

    def _near(self, row: Mapping[str, object]) -> Iterable[str]:
        kind, name = str(row["entity_type"]), str(row["name"])
        found = set[str]().union(*(self._by_word.get((kind, word), set()) for word in _keys(name, kind)))
        return sorted({self.now(each) for each in found} - {self._meaning(row)})

    def spelling(self, row: Mapping[str, object]) -> None:
        """Joins another spelling of one known name."""
        if not self._is_open(row) or read_kin(str(row["name"])):
            return
        name, kind = str(row["name"]), str(row["entity_type"])
        near = self._near(row)
        same = [entity for entity in near if any(is_one_name(name, each, kind) for each in self._called(entity))]
        if len(same) == 1:
            self._join(row, same[0], "spelling")

    def short_name(self, row: Mapping[str, object]) -> None:
        """Joins a first name, or a title and a last name, that fits one known person."""
        mention, name = int(str(row["mention"])), str(row["name"])
        if row["entity_type"] != "person" or mention in self.joined or read_kin(name):
            return
        whom = self._whole_people(name)
        if mention in self.exact:
            own = new_id(str(row["canonical_name"]), "person")
            is_alias = self.exact[mention] in whom and self.exact[mention] != own and own not in self._merged
            if is_alias and len(whom) > 1:
                self.unclear[mention] = whom
        elif len(whom) == 1:
            self._join(row, next(iter(whom)), "short_name")
        elif whom:
            self.unclear[mention] = whom

    def _whole_people(self, name: str) -> set[str]:
        """The people whose name has this one as a short form."""
        near = set[str]().union(*(self._by_word.get(("person", word), set()) for word in ascii_words(name)))
        return {entity for entity in map(self.now, near) if any(short_form(name, each) for each in self.names[entity])}

    def full_name(self, row: Mapping[str, object]) -> None:
        """Joins the full name of a person known only by a short form, if it fits nobody else."""
        if not self._is_open(row) or row["entity_type"] != "person":
            return
        name, own = str(row["name"]), self._meaning(row)
        called = {each: self._called(each) for each in self._near(row) if each in self._stored}
        short = [each for each, names in called.items() if names and all(short_form(one, name) for one in names)]
        if len(short) != 1:
            return
        if set[str]().union(*(self._whole_people(each) for each in called[short[0]])) == {own}:
            self._join(row, short[0], "full_name")

    def _called(self, entity: str) -> list[str]:
        return sorted(each for each in self.names[entity] if read_kin(each) is None)

    def kin(self, row: Mapping[str, object]) -> None:
        """Joins a person known by a kin name: the possessor has another name, or the person has a new name."""
        kin = read_kin(str(row["canonical_name"] if row["kin"] is None else row["kin"]))
        if kin is None or row["entity_type"] not in ("person", "concept"):
            return
        known = self._kin_known(kin.possessor, kin.role) - {self._meaning(row)}
        if len(known) != 1:
            return
        (entity,) = known
        mention = int(str(row["mention"]))
        if kin.may_be_several and entity in self._stored and (row["kin"] is not None or self._called(entity)):
            return  # "my sister", later Eva: there may be a Mia
        own = [str(row["name"])] if row["kin"] is not None else sorted(self.kin_names.get(kin.called(), ()))
        called = {*self._called(entity), *self.kin_names.get(kin.called(), ())}
        if any(_are_two(one, other) for one in own for other in called):
            return  # the second sister, the next manager
        if mention not in self.exact and mention not in self.joined:
            self._join(row, entity, "kin")

    def _kin_known(self, possessor: str, role: str) -> set[str]:
        owner = self._owner(possessor)
        others = [(entity, read_kin(name)) for name, entity in self.owner.items() if name.endswith(role)]
        return {
            self.now(entity)
            for entity, other in others
            if other and other.role == role
            if normalise_name(other.possessor) == normalise_name(possessor)
            or (owner is not None and self._owner(other.possessor) == owner)
        }

    def _owner(self, possessor: str) -> str | None:
        entity = self.owner.get(normalise_name(possessor))
        if entity is None and len(whole := self._whole_people(possessor)) == 1:
            entity = next(iter(whole))
        return None if entity is None else self.now(entity)


def _are_two(one: str, other: str) -> bool:
    """Whether two names belong to two people."""
    is_one = short_form(one, other) or short_form(other, one) or is_one_name(one, other)
    return normalise_name(one) != normalise_name(other) and not is_one


def _keys(name: str, kind: str) -> set[str]:
    return {*ascii_words(name), name_parts(name, is_person=kind == "person").glued}

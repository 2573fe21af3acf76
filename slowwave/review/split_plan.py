"""A split: which observations go to which new entity, and what is wrong with it; all or nothing (S0-13, S0-14, T3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

import polars as pl

from slowwave.common import frames
from slowwave.common.decisions import decision, decision_frame
from slowwave.common.errors import Refused, UnknownName, UnusableInput
from slowwave.common.lexicon.labels import TYPES, canonical_type
from slowwave.common.text import as_json, digest, normalise_name
from slowwave.entities.mentions import embed_texts, is_too_short, new_id, shown_name
from slowwave.facts.deduplication.observations import named_by
from slowwave.graph.graph import part_facts
from slowwave.lifecycle.entity_merges import alias_rows
from slowwave.reading.filters.injection import injection_reason
from slowwave.reading.filters.redaction import has_secret

Row = Mapping[str, Any]
WAY_OUT = "`slowwave split propose ENTITY` makes a plan of what it holds now."


@dataclass(frozen=True, slots=True)
class SplitPart:
    """One new entity: its name, its type (empty: as its parent), and the ids of the observations that become its."""

    name: str
    entity_type: str
    observations: tuple[str, ...]


def splits_of(ask: Mapping[str, Any] | Sequence[Any]) -> tuple[SplitPart, ...]:
    """The splits of plain data: {"splits": […]}, {"approved_splits": […]}, what `split propose` shows, or the list.

    Each has a name, perhaps an entity_type, and observations: ids, or {"id": …}. Raises `UnusableInput`.
    """
    given: Any = ask
    if isinstance(ask, Mapping):
        inner = ask["proposal"] if isinstance(ask.get("proposal"), Mapping) else ask
        given = next((inner[key] for key in ("splits", "approved_splits", "suggested_splits") if key in inner), None)
    if not isinstance(given, Sequence) or isinstance(given, str) or not given:
        raise UnusableInput(
            "The plan names no splits.", 'Give {"splits": [{"name": "…", "observations": ["f_…", …]}, …]}.'
        )
    return tuple(_split_of(each) for each in given)


def _split_of(row: Any) -> SplitPart:
    if not isinstance(row, Mapping) or not isinstance(row.get("name"), str):
        raise UnusableInput("A split has no name.", 'Each is {"name": "…", "observations": ["f_…", …]}.')
    listed = row.get("observations")
    ids = [each.get("id") if isinstance(each, Mapping) else each for each in listed or ()]
    if not isinstance(listed, Sequence) or isinstance(listed, str) or not all(isinstance(each, str) for each in ids):
        raise UnusableInput(f"{row['name']!r} has no list of observations.", "Name them by their ids.")
    return SplitPart(row["name"], str(row.get("entity_type") or ""), tuple(map(str, ids)))


def ask_of(splits: Sequence[SplitPart]) -> str:
    """The splits as JSON that `splits_of` understands."""
    return as_json({"splits": [asdict(each) for each in splits]})


def plan_hash(parent: Row, ids: Collection[str]) -> str:
    """Equal as long as the entity is called the same and has the same live observations `ids` (S0-13, T49)."""
    return digest(parent["id"], parent["name"], parent["entity_type"], sorted(ids), size=16)


def checked_splits(
    parent: Row, splits: Sequence[SplitPart], observations: pl.DataFrame, taken: pl.DataFrame
) -> tuple[SplitPart, ...]:
    """The splits with whole ids, clean names and types; raises for all their mistakes at once (T3).

    `observations` are the live ones of the parent (id, statement), `taken` (alias_name, called) names of other
    entities.
    """
    statements = observations.sort("id").group_by("statement").agg("id")
    by_text = {text: ids for text, ids in statements.iter_rows() if text}
    whole = tuple(_whole(each, parent, set(observations["id"]), by_text) for each in splits)
    if wrong := [*_wrong_names(parent, whole), *_wrong_ids(parent, whole, set(observations["id"]), by_text)]:
        raise UnusableInput(f"Nothing was split: {'; '.join(wrong)}.", WAY_OUT)
    known = dict(taken.select("alias_name", "called").iter_rows())
    if names := [(each.name, known[key]) for each in whole if (key := normalise_name(each.name)) in known]:
        clashes = "; ".join(f"{name!r} is what {called} is called" for name, called in names)
        raise Refused(f"Nothing was split: {clashes}.", "Give the new entity another name, or merge what is one.")
    return whole


def _whole(split: SplitPart, parent: Row, ids: Collection[str], by_text: Mapping[str, list[str]]) -> SplitPart:
    """A split with the ids that its observations name, by id, short form, or words that only one of them says."""
    found = []
    for given in split.observations:
        named = named_by(given, ids) or by_text.get(given, [])
        found.append(named[0] if len(named) == 1 else given)
    kind = canonical_type(split.entity_type) if split.entity_type.strip() else str(parent["entity_type"])
    if kind is None:
        raise UnknownName("entity type", split.entity_type, TYPES)
    return replace(split, name=shown_name(split.name), entity_type=kind, observations=tuple(found))


def _wrong_names(parent: Row, splits: Sequence[SplitPart]) -> list[str]:
    names = [normalise_name(each.name) for each in splits]
    wrong = [] if splits else ["there are no splits"]
    own = {normalise_name(parent["name"] or ""), parent["canonical_name"]}
    for each, name in zip(splits, names, strict=True):
        if is_too_short(each.name):
            wrong.append(f"{each.name!r} is too short for a name")
        elif injection_reason(each.name) or has_secret(each.name):
            wrong.append(f"{each.name!r} cannot be a name")
        elif name in own:
            wrong.append(f"{each.name!r} is the name of the entity itself")
    return [*wrong, *(f"two splits are called {name!r}" for name, times in Counter(names).items() if times > 1)]


def _wrong_ids(
    parent: Row, splits: Sequence[SplitPart], ids: Collection[str], by_text: Mapping[str, list[str]]
) -> list[str]:
    wrong = [f"{each.name!r} would get no observation" for each in splits if not each.observations]
    for given, times in Counter(id_ for each in splits for id_ in each.observations).items():
        if given not in ids:
            several = [*named_by(given, ids), *by_text.get(given, [])]
            is_what = f"may be {' or '.join(several[:5])}" if several else "is no live observation"
            wrong.append(f"{given!r} {is_what} of {parent['name']!r}")
        elif times > 1:
            wrong.append(f"{given} is named {times} times")
    return wrong


# The rows of a split: new entities, owners of observations, structure, and decisions (S0-14).


@dataclass(frozen=True, slots=True, eq=False)
class SplitPlan:
    """Rows to store: `entities` are the children, without vectors; `moved` the facts as (id, owner_entity_id)."""

    entities: pl.DataFrame
    aliases: pl.DataFrame
    moved: pl.DataFrame
    structure: pl.DataFrame
    decisions: pl.DataFrame
    to_embed: tuple[str, ...]


def plan_split(parent: Row, splits: Sequence[SplitPart], observations: pl.DataFrame, now: datetime) -> SplitPlan:
    """The rows of a checked split; `observations` (id, statement, valid_from) are the live ones of the parent."""
    moved = pl.DataFrame(
        [(fact, _id_of(each)) for each in splits for fact in each.observations],
        schema={"id": pl.String, "owner_entity_id": pl.String},
        orient="row",
    )
    entities = _children(parent, splits, moved.join(observations.select("id", "valid_from"), on="id"), now)
    names = entities.select("canonical_name", "entity_type", "id").iter_rows()
    aliases = [alias_rows(pl.DataFrame({"alias_name": [n], "entity_type": [k]}), id_) for n, k, id_ in names]
    own = (parent["id"], parent["name"])
    pairs = [
        row for id_, name in entities.select("id", "name").iter_rows() for row in part_facts(own, (id_, name), now)
    ]
    structure = pl.DataFrame(pairs, schema=dict(frames.FACTS))
    return SplitPlan(
        entities,
        pl.concat(aliases),
        moved,
        structure,
        decision_frame(_decisions(parent, splits, observations, structure, now)),
        tuple(embed_texts(entities)),
    )


def _id_of(split: SplitPart) -> str:
    return new_id(normalise_name(split.name), split.entity_type)


def _children(parent: Row, splits: Sequence[SplitPart], moved: pl.DataFrame, now: datetime) -> pl.DataFrame:
    """ENTITIES of the new entities, in the order of the splits; seen as long as what they hold."""
    seen = moved.group_by(id="owner_entity_id").agg(
        first_seen_at=pl.col("valid_from").min(), last_seen_at=pl.col("valid_from").max()
    )
    made = pl.DataFrame(
        [(_id_of(each), normalise_name(each.name), each.name, each.entity_type) for each in splits],
        schema=dict.fromkeys(("id", "canonical_name", "name", "entity_type"), pl.String),
        orient="row",
    ).join(seen, on="id", how="left", maintain_order="left")
    moment = pl.lit(now, dtype=frames.TIME)
    rows = frames.conform(made, frames.ENTITIES).with_columns(
        pl.col("first_seen_at", "last_seen_at").fill_null(moment),
        status=pl.lit("active"),
        pinned=pl.lit(bool(parent["pinned"])),
        is_renamed=pl.lit(False),
        parent_entity_id=pl.lit(parent["id"]),
    )
    hashes = pl.Series([digest(text) for text in embed_texts(rows)], dtype=pl.String)
    return rows.with_columns(embed_text_hash=hashes)


def _decisions(
    parent: Row, splits: Sequence[SplitPart], observations: pl.DataFrame, structure: pl.DataFrame, now: datetime
) -> Iterator[dict[str, object]]:
    """About the split, each new entity, where each observation is filed now, and what is a part of what."""
    counts = {each.name: len(each.observations) for each in splits}
    known = plan_hash(parent, observations["id"])
    seen = {"moved": counts, "remaining": len(observations) - sum(counts.values()), "plan_hash": known}
    own, made = parent["id"], partial(decision, now=now, decided_by="person")
    reason = f"A person parted it by topic: {', '.join(counts)}."
    yield made("split", own, [own], [_id_of(each) for each in splits], reason, measures=seen)
    for each in splits:
        child, measures = _id_of(each), {"observations": len(each.observations)}
        yield made("create", child, [own], [child], f"Split from {parent['name']!r}.", measures=measures)
        for fact in each.observations:
            why = f"{parent['name']!r} was split: it is {each.name!r}'s."
            yield made("move", fact, [own, child], [fact], why, measures={"owner_entity_id": [own, child]})
    for id_, subject, object_ in structure.select("id", "subject_id", "object_id").iter_rows():
        yield made("create", id_, [subject, object_], [id_], "A split tells from both ends what is a part of what.")

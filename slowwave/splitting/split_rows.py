"""What a split writes: the new entities, where each observation is filed, what is a part of what, and why (S0-14)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import polars as pl

from slowwave import frames
from slowwave.maintenance.entity_merges import alias_rows
from slowwave.maintenance.entity_story import decision
from slowwave.reading.mentions import embed_texts, new_id
from slowwave.splitting.split_plan import Row, Split, plan_hash
from slowwave.splitting.structure import part_facts
from slowwave.text import digest, normalise_name


@dataclass(frozen=True, slots=True, eq=False)
class SplitPlan:
    """Rows to store: `entities` are the children, without vectors; `moved` the facts as (id, owner_entity_id)."""

    entities: pl.DataFrame
    aliases: pl.DataFrame
    moved: pl.DataFrame
    structure: pl.DataFrame
    decisions: pl.DataFrame
    to_embed: tuple[str, ...]
    remaining: int


def plan_split(parent: Row, splits: Sequence[Split], held: pl.DataFrame, now: datetime) -> SplitPlan:
    """The rows of a split that is in order.

    `parent` is a row of ENTITIES, `splits` come from `checked_splits`, `held` (id, statement, valid_from) are the live
    observations of the parent. Only the owner of what moves changes.
    """
    moved = pl.DataFrame(
        [(fact, _id_of(each)) for each in splits for fact in each.observations],
        schema={"id": pl.String, "owner_entity_id": pl.String},
        orient="row",
    )
    entities = _children(parent, splits, moved.join(held.select("id", "valid_from"), on="id"), now)
    names = entities.select("canonical_name", "entity_type", "id").iter_rows()
    aliases = [alias_rows(pl.DataFrame({"alias_name": [n], "entity_type": [k]}), id_) for n, k, id_ in names]
    own = (parent["id"], parent["name"])
    pairs = [
        row for id_, name in entities.select("id", "name").iter_rows() for row in part_facts(own, (id_, name), now)
    ]
    structure = pl.DataFrame(pairs, schema=dict(frames.FACTS))
    told = [
        *_about_parts(parent, splits, held, now),
        *_about_moves(parent, splits, now),
        *_about_structure(structure, now),
    ]
    return SplitPlan(
        entities,
        pl.concat(aliases),
        moved,
        structure,
        pl.DataFrame(told, schema=dict(frames.DECISIONS)),
        tuple(embed_texts(entities)),
        len(held) - len(moved),
    )


def _id_of(split: Split) -> str:
    return new_id(normalise_name(split.name), split.entity_type)


def _children(parent: Row, splits: Sequence[Split], moved: pl.DataFrame, now: datetime) -> pl.DataFrame:
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


def _about_parts(parent: Row, splits: Sequence[Split], held: pl.DataFrame, now: datetime) -> list[dict[str, Any]]:
    """The split as the entity tells of it, and as each new one does."""
    ids = [_id_of(each) for each in splits]
    counts = {each.name: len(each.observations) for each in splits}
    reason = f"A person parted it by topic: {', '.join(counts)}."
    seen = {"moved": counts, "remaining": len(held) - sum(counts.values()), "plan_hash": plan_hash(parent, held["id"])}
    whole = decision("split", parent["id"], [parent["id"]], ids, reason, now, seen)
    parts = [
        decision(
            "create", id_, [parent["id"]], [id_], f"Split from {parent['name']!r}.", now,
            {"observations": len(each.observations)},
        )
        for id_, each in zip(ids, splits, strict=True)
    ]  # fmt: skip
    return [whole, *parts]


def _about_moves(parent: Row, splits: Sequence[Split], now: datetime) -> list[dict[str, Any]]:
    """For each observation where it is filed now."""
    return [
        decision(
            "move", fact, [parent["id"], child], [fact], f"{parent['name']!r} was split: it is {each.name!r}'s.",
            now, {"owner_entity_id": [parent["id"], child]},
        )
        for each in splits
        for child in (_id_of(each),)
        for fact in each.observations
    ]  # fmt: skip


def _about_structure(structure: pl.DataFrame, now: datetime) -> list[dict[str, Any]]:
    reason = "A split tells from both ends what is a part of what."
    rows = structure.select("id", "subject_id", "object_id").iter_rows()
    return [decision("create", id_, [subject, object_], [id_], reason, now) for id_, subject, object_ in rows]

"""The data of the atlas: a memory at one commit, and its facts with their entities, times, reasons and sources."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
import polars as pl

from slowwave.common.validity import is_live
from slowwave.graph.community_detection import places_of
from slowwave.graph.map_layout import lay_out
from slowwave.lifecycle.usage_scores import survivors
from storage.snapshots import Snapshot
from storage.store import Store

from .facts import ALL
from .groups import MEMBERS, summarised_communities

_WAS_TRUE = ("active", "superseded", "archived")


def is_shown() -> pl.Expr:
    """Whether the map has a fact (status, valid_from, valid_to, replaced_by) from its beginning to its end.

    What was never true is not told, nor a wording that another one absorbed.
    """
    start, end = pl.col("valid_from"), pl.col("valid_to")
    is_absorbed = pl.col("replaced_by").is_not_null() & end.is_null()
    is_a_time = start.is_not_null() & (end.is_null() | (end > start))
    return pl.col("status").is_in(_WAS_TRUE) & is_a_time & ~is_absorbed


BELIEVED = "status IN ('active', 'superseded', 'archived', 'retracted')"
"""What was ever believed: candidates and rejected ones never were."""
_CHOICE = (
    "id", "kind", "subject_id", "object_id", "owner_entity_id", "status", "valid_from", "valid_to", "expired_at",
    "replaced_by", "mentions",
)  # fmt: skip
_TEXT = (
    "id", "statement", "predicate", "object_text", "status_reason", "confidence", "pinned",
)  # fmt: skip


ENTITIES, RELATIONS, OBSERVATIONS = 5_000, 20_000, 20_000
OBSERVATIONS_EACH, SOURCES_EACH, ALIASES = 40, 3, 8
TEXT, QUOTE = 400, 200
"""The most that is shown, the rest is counted: rows, rows for each entity or fact, and characters of texts."""


def _believed(snapshot: Snapshot, now: datetime) -> pl.DataFrame:
    """Every fact that was ever believed: whether it is `live`, and its ends as entities of today.

    `s` is whom it is about, `o` the other end of a relation or the first entity that it mentions, null where there is
    none.
    """
    rows = pl.concat([snapshot.frame(name, BELIEVED, _CHOICE) for name in ALL])
    merged = snapshot.frame("entities", "merged_into IS NOT NULL", ["id", "merged_into"])
    heirs = survivors(dict(merged.iter_rows()))
    subject, owner, other = (pl.col(f"{end}_id").replace(heirs) for end in ("subject", "owner_entity", "object"))
    other = pl.coalesce(other, pl.col("mentions").list.first().replace(heirs))
    is_tie = pl.col("kind").is_in(["relation", "observation"])
    is_edge = is_tie & subject.is_not_null() & (other != subject)
    return rows.unique("id", keep="first", maintain_order=True).with_columns(
        live=is_live(now),
        s=pl.when(is_edge).then(subject).otherwise(pl.coalesce(owner, subject)),
        o=pl.when(is_edge).then(other),
    )


def _ranked(snapshot: Snapshot, facts: pl.DataFrame) -> pl.DataFrame:
    """All entities of the atlas: most live relations first, then most facts; archived ones if they have facts."""
    entities = snapshot.frame("entities", "merged_into IS NULL", ["id", "name", "status"])
    ends = pl.concat([facts.select(id=end, live="live", is_edge=pl.col("o").is_not_null()) for end in ("s", "o")])
    counts = ends.group_by("id").agg(degree=(pl.col("live") & pl.col("is_edge")).sum(), facts=pl.len())
    ranked = entities.join(counts, on="id", how="left").with_columns(
        pl.col("degree", "facts").fill_null(0).cast(pl.Int64), kept=pl.col("status").fill_null("active") != "archived"
    )
    return ranked.filter(pl.col("kept") | (pl.col("facts") > 0)).sort(
        "kept", "degree", "facts", "name", "id", descending=[True, True, True, False, False]
    )


def _chosen(facts: pl.DataFrame, entities: pl.DataFrame) -> pl.DataFrame:
    """The facts about these entities, live ones first, then the latest, with `s` and `t`: the places of their ends.

    `t` is null for a fact about one entity alone.
    """
    index = entities.select("id").with_row_index("place")
    starts = facts.rename({"s": "subject"}).join(index.rename({"place": "s"}), left_on="subject", right_on="id")
    both = starts.join(index.rename({"place": "t"}), left_on="o", right_on="id", how="left")
    placed = both.filter(pl.col("t").is_not_null() | pl.col("o").is_null()).drop("subject", "o")
    order = placed.sort("live", "valid_from", "id", descending=[True, True, False], nulls_last=True)
    alone = order.filter(pl.col("t").is_null())
    few = alone.filter(pl.int_range(pl.len()).over("s") < OBSERVATIONS_EACH)
    return pl.concat([order.filter(pl.col("t").is_not_null()).head(RELATIONS), few.head(OBSERVATIONS)])


def _facts(snapshot: Snapshot, chosen: pl.DataFrame) -> dict[str, Any]:
    """One column per property, in the order of the chosen facts; words that repeat are places in a list of their own.

    `by` is the place of the fact that took this one's place, or -1. `spans` has by place those that are never told,
    empty; `said` by place what was said (where, which message, who, when, the words), within the limits.
    """
    ids = chosen["id"]
    texts = pl.concat([snapshot.by_ids(name, ids, _TEXT) for name in ALL]).unique("id", keep="first")
    rows = chosen.join(texts, on="id", how="left", maintain_order="left")
    index = dict(zip(ids, range(len(ids)), strict=True))
    hidden = rows.with_row_index("place").filter(~is_shown())["place"]
    rows = rows.with_columns(
        pl.col("valid_from", "valid_to").dt.epoch("s"),
        pl.col("statement").fill_null("").str.slice(0, TEXT),
        pl.col("object_text", "status_reason").str.slice(0, QUOTE),
        by=pl.col("replaced_by").replace_strict(index, default=-1, return_dtype=pl.Int64),
    )
    coded = {name: _coded(rows[column]) for name, column in (("p", "predicate"), ("st", "status"))}
    return {
        "id": ids.to_list(),
        "s": rows["s"].to_list(),
        "t": rows["t"].to_list(),
        "text": rows["statement"].to_list(),
        "object": rows["object_text"].to_list(),
        "from": rows["valid_from"].to_list(),
        "to": rows["valid_to"].to_list(),
        "live": rows["live"].fill_null(False).cast(pl.Int8).to_list(),
        "pinned": rows["pinned"].fill_null(False).cast(pl.Int8).to_list(),
        "confidence": rows["confidence"].fill_null(0.0).round(2).to_list(),
        "reason": rows["status_reason"].to_list(),
        "by": rows["by"].to_list(),
        **{name: codes for name, (codes, _) in coded.items()},
        "predicates": coded["p"][1],
        "statuses": coded["st"][1],
        "spans": {str(place): [] for place in hidden},
        **_sources(snapshot, ids, index),
    }


def _coded(values: pl.Series) -> tuple[list[int], list[str]]:
    """Places in the list of different values, and that list, in order of the alphabet."""
    names = values.fill_null("").unique().sort()
    codes = values.fill_null("").replace_strict(names, range(len(names)), return_dtype=pl.Int64)
    return codes.to_list(), names.to_list()


def _sources(snapshot: Snapshot, ids: pl.Series, index: dict[str, int]) -> dict[str, Any]:
    """The sources by place of the fact, earliest first; `said_count` is their whole number, where it is larger."""
    evidence = snapshot.by_ids("fact_evidence", ids, ["fact_id", "message_id", "quote", "occurred_at"], key="fact_id")
    columns = ["id", "conversation_id", "message_id", "speaker", "role", "occurred_at"]
    messages = snapshot.by_ids("messages", evidence["message_id"], columns)
    both = evidence.join(messages, left_on="message_id", right_on="id", how="left", suffix="_said").with_columns(
        at=pl.coalesce("occurred_at", "occurred_at_said").dt.epoch("s"),
        place=pl.col("fact_id").replace_strict(index, return_dtype=pl.Int64),
        message=pl.coalesce("message_id_said", "message_id"),
        who=pl.coalesce("speaker", "role"),
        where=pl.col("conversation_id").str.split("/").list.last(),  # of a document only its name
        quote=pl.col("quote").fill_null("").str.slice(0, QUOTE),
    )
    both = both.sort("place", "at", "message")
    counts = both.group_by("place", maintain_order=True).len()
    few = both.filter(pl.int_range(pl.len()).over("place") < SOURCES_EACH)
    where, conversations = _coded(few["where"])
    who, speakers = _coded(few["who"])
    rows = zip(few["place"], where, few["message"], who, few["at"], few["quote"], strict=True)
    sources: dict[str, list[list[Any]]] = {}
    for place, *row in rows:
        sources.setdefault(str(place), []).append(row)
    more = counts.filter(pl.col("len") > SOURCES_EACH)
    return {
        "said": sources,
        "said_count": {str(place): count for place, count in more.iter_rows()},
        "conversations": conversations,
        "speakers": speakers,
    }


# The whole: one memory as plain data, in columns, bounded, with the places of its entities on the map.


DAY = 86_400
ROOM = 0.5
"""How much the room of an entity on the map grows with the root of its degree."""


def atlas_data(store: Store, now: datetime) -> dict[str, Any]:
    """The newest state of a store: `entities` and `facts` in columns of equal length, the rest as lists of rows.

    Facts point at entities by position, `s` and `t` (null: about one entity alone). Times are whole seconds since 1970.
    """
    snapshot, at = store.snapshot(), int(now.timestamp())
    facts = _believed(snapshot, now)
    everyone = _ranked(snapshot, facts)
    entities = everyone.head(ENTITIES).select("id", "degree")
    chosen = _chosen(facts, entities)
    shown = facts.filter(is_shown())
    changes = pl.concat([shown["valid_from"], shown["valid_to"]]).drop_nulls().dt.epoch("s").sort()
    last = max([at, *changes.tail(1)])
    communities, member_of = _communities(snapshot, entities, now)
    return {
        "namespace": store.namespace,
        "now": at,
        "reach": (min([at, last - DAY, *changes.head(1)]), last),  # of the axis of time, a day at least
        "left_out": {"entities": len(everyone) - len(entities), "facts": len(facts) - len(chosen)},
        "entities": _entities(snapshot, entities, chosen, member_of),
        "facts": _facts(snapshot, chosen),
        "communities": communities,
    }


def _entities(
    snapshot: Snapshot, entities: pl.DataFrame, facts: pl.DataFrame, member_of: pl.Series
) -> dict[str, list[Any]]:
    """One column per property, in the order of the chosen entities."""
    ids = entities["id"]
    columns = ["id", "name", "entity_type", "status", "summary", "canonical_name"]
    stored = snapshot.by_ids("entities", ids, columns)
    aliases = snapshot.by_ids("entity_aliases", ids, ["entity_id", "alias_name"], key="entity_id")
    other = aliases.group_by(id="entity_id").agg(aliases=pl.col("alias_name").unique().sort())
    rows = entities.join(stored, on="id", how="left", maintain_order="left")
    rows = rows.join(other, on="id", how="left", maintain_order="left")
    own = pl.concat_list("canonical_name", pl.col("name").str.to_lowercase())
    edges = facts.filter(pl.col("t").is_not_null()).select("s", "t").unique(maintain_order=True)
    source, target = (edges[end].cast(pl.Int32).to_numpy() for end in ("s", "t"))
    room = 1.0 + ROOM * np.sqrt(entities["degree"].to_numpy())
    places = lay_out(len(room), source, target, member_of.cast(pl.Int32).to_numpy(), room)
    return {
        "id": ids.to_list(),
        "name": rows["name"].fill_null("").str.slice(0, TEXT).to_list(),
        "type": rows["entity_type"].fill_null("concept").to_list(),
        "archived": (rows["status"].fill_null("active") == "archived").cast(pl.Int8).to_list(),
        "degree": rows["degree"].to_list(),
        "summary": rows["summary"].str.slice(0, TEXT).to_list(),
        "aliases": rows.select(pl.col("aliases").list.set_difference(own).list.sort().list.head(ALIASES))["aliases"]
        .fill_null([])
        .to_list(),
        "community": member_of.to_list(),
        "x": np.round(places[:, 0], 2).tolist(),
        "y": np.round(places[:, 1], 2).tolist(),
    }


def _communities(snapshot: Snapshot, entities: pl.DataFrame, now: datetime) -> tuple[list[dict[str, Any]], pl.Series]:
    """Those with members among the entities, largest first; and for each entity its place among them, or -1."""
    places = places_of(snapshot.frame("communities", columns=MEMBERS))
    belongs = entities.select("id").join(places, on="id", how="left", maintain_order="left")
    shown = belongs.drop_nulls("community_id").group_by(id="community_id").agg(shown=pl.len())
    summarised = summarised_communities(snapshot, shown["id"], now).with_columns(size=pl.col("member_ids").list.len())
    rows = summarised.select("id", "name", "summary", "is_outdated", "facts", "size").join(shown, on="id")
    listed = rows.sort("shown", "size", "id", descending=[True, True, False])
    order = listed.select(community_id="id").with_row_index("place")
    placed = belongs.join(order, on="community_id", how="left", maintain_order="left")
    return listed.to_dicts(), placed["place"].cast(pl.Int32).fill_null(-1)

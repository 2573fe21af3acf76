"""Entity holdings: everything that a store holds near two entities that are to become one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import polars as pl

from slowwave import frames
from slowwave.maintenance.entity_holdings import ENDS, Holdings, Pair, is_between
from slowwave.text import normalise_name
from slowwave.validity import is_live, live_sql
from storage.rows import column_names, quoted
from storage.snapshots import Reading

_CALLED = list(frames.ALIASES)


def holdings_of(reading: Reading, pair: Pair, now: datetime) -> Holdings:
    """What the plan of a merge looks at; `pair` are the ids of the entity that goes and of the one that stays."""
    facts = _naming(reading, "facts", pair[:1], with_vector=True)
    held = _naming(reading, "facts", pair[1:], where=live_sql(now)).join(facts, on="id", how="anti")
    loops = facts.filter(is_between(pair), pl.col("status") == "active")["id"]
    relations = pl.concat([held, facts.drop("vector")]).filter(is_live(now), pl.col("kind") == "relation")
    objects = pl.concat([relations["object_id"].drop_nulls(), pl.Series(pair)])
    beliefs = _beliefs(reading, pair)
    waiting = reading.by_ids("facts", beliefs["promoted_id"], ["id"], where="status = 'candidate'")
    entities = _entities(reading, pair)
    return Holdings(
        entities=entities,
        called=_called(reading, entities, pair),
        facts=facts,
        archive=_naming(reading, "facts_archive", pair[:1], with_vector=True),
        flagged=_flagged(reading, loops, now).join(facts, on="id", how="anti"),
        held=held,
        evidence=reading.by_ids("fact_evidence", relations["id"], ["fact_id", "message_id"], key="fact_id"),
        objects=reading.by_ids("entities", objects),
        object_aliases=reading.by_ids("entity_aliases", objects, _CALLED, key="entity_id"),
        predicates=reading.frame("predicates"),
        pairs=_by_keys(reading, "pair_decisions", facts["id"], ("a_id", "b_id")),
        beliefs=beliefs,
        hints=reading.by_ids("belief_evidence", beliefs["id"], key="belief_id"),
        waiting=frozenset(waiting["id"]),
        episodes=reading.by_ids("episode_entities", pair, key="entity_id"),
    )


def _by_keys(
    reading: Reading,
    name: str,
    ids: Sequence[str] | pl.Series,
    keys: Sequence[str],
    *,
    with_vector: bool = False,
) -> pl.DataFrame:
    """Rows of which one of the keys is among the ids, each once, in order of their ids."""
    parts = [reading.by_ids(name, ids, key=key, with_vector=with_vector) for key in keys]
    return pl.concat(parts).unique("id").sort("id")


def _naming(
    reading: Reading, name: str, entities: Sequence[str], where: str | None = None, *, with_vector: bool = False
) -> pl.DataFrame:
    ids = ", ".join(map(quoted, entities))
    any_end = " OR ".join(f"{end} IN ({ids})" for end in ENDS)
    columns = [*column_names(name), *(["vector"] if with_vector else [])]
    return reading.frame(name, f"({any_end}) AND ({where})" if where else any_end, columns).sort("id")


def _entities(reading: Reading, pair: Pair) -> pl.DataFrame:
    """Both, and those that were split from the first or merged into it."""
    both = reading.by_ids("entities", pair, with_vector=True)
    others = _by_keys(reading, "entities", pair[:1], ("parent_entity_id", "merged_into"), with_vector=True)
    return pl.concat([both, others]).unique("id").sort("id")


def _called(reading: Reading, entities: pl.DataFrame, pair: Pair) -> pl.DataFrame:
    """The names of both, and whoever else is called as the first one is; canonical names without an id."""
    own = reading.by_ids("entity_aliases", pair, _CALLED, key="entity_id")
    first = entities.filter(pl.col("id") == pair[0]).row(0, named=True)
    names = [*own.filter(pl.col("entity_id") == pair[0])["alias_name"], first["canonical_name"]]
    names.append(normalise_name(first["name"] or ""))
    return pl.concat([own, names_in_use(reading, names)]).unique(maintain_order=True)


def names_in_use(reading: Reading, names: Sequence[str]) -> pl.DataFrame:
    """ALIASES of all entities that are called so, their canonical names among them, without an id."""
    aliases = reading.by_ids("entity_aliases", names, _CALLED, key="alias_name")
    columns = ["id", "canonical_name", "entity_type"]
    canonical = reading.by_ids("entities", names, columns, key="canonical_name", where="merged_into IS NULL")
    as_aliases = canonical.select(
        pl.lit(None, dtype=pl.String).alias("id"), "entity_type", alias_name="canonical_name", entity_id="id"
    )
    return pl.concat([aliases, as_aliases.select(_CALLED)])


def _flagged(reading: Reading, facts: pl.Series, now: datetime) -> pl.DataFrame:
    """Live facts that are marked as looking like one of these."""
    if facts.is_empty():
        return reading.by_ids("facts", [], with_vector=True)
    marked = reading.frame("facts", f"{live_sql(now)} AND similarity_flag", ["id", "similar_to_id"])
    theirs = marked.filter(pl.col("similar_to_id").is_in(facts.implode()))["id"]
    return reading.by_ids("facts", theirs, with_vector=True)


def _beliefs(reading: Reading, pair: Pair) -> pl.DataFrame:
    """Those that name the first, and all of the subjects that these have afterwards."""
    naming = _by_keys(reading, "pending_beliefs", pair[:1], ("subject_id", "object_id"))
    if naming.is_empty():
        return naming
    subjects = pl.concat([naming["subject_id"], pl.Series(pair)])
    others = reading.by_ids("pending_beliefs", subjects, key="subject_id")
    return pl.concat([naming, others]).unique("id").sort("id")

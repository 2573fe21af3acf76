"""Statements: what somebody says of an entity outside any conversation becomes rows of candidates to store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import polars as pl

from recall.entities import names_like
from slowwave.common import frames
from slowwave.common.decisions import decision_frame
from slowwave.common.errors import UnknownName, UnusableInput
from slowwave.common.lexicon.labels import OBSERVED, TYPES, canonical_type
from slowwave.common.settings import ExtractSettings, ResolveSettings
from slowwave.common.text import digest, normalise_name, row_id
from slowwave.common.timestamps import MICROSECOND, microseconds_of
from slowwave.entities.entity_resolution import COSINES, Resolution, finish, plan_resolution, revivals, revived
from slowwave.entities.mentions import RAW_MENTIONS, mentions_in, name_to_store
from slowwave.facts.revision.candidates import CLAIMS, MAX_QUOTE, build_candidates
from slowwave.facts.searched_texts import OBSERVATIONS
from slowwave.reading.extraction.dates import find_hint
from slowwave.reading.extraction.roster import GENERIC_NAMES, UNNAMED
from storage.changes import FACT_TABLES
from storage.rows import kinds_of, lasting_columns
from storage.snapshots import Reading
from storage.transactions import Transaction
from tasks.runtime.engine import log
from tasks.runtime.runs import Run, embedder_of, vector_column

# Targets: the entity that a person or an agent means when they state something about it by name.


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """The entity, whether it is to be made, and the rows to store for it."""

    id: str
    name: str
    is_new: bool
    resolution: Resolution


def find_target(
    reading: Reading,
    name: str,
    entity_type: str | None,
    now: datetime,
    settings: ResolveSettings,
    *,
    create: bool = False,
) -> Target:
    """The entity of exactly that name, alias or id, or with `create` a new one of that type (concept if none is given).

    A name that is known under one other type means that entity, unless types are kept apart (S2-09). Raises
    `UnusableInput` where the name is unknown, means several entities, or cannot be a name.
    """
    kind = _type_named(entity_type)
    known = _known(reading, name)
    same = known.filter(pl.col("entity_type") == kind) if kind else known
    if same.is_empty() and len(known) == 1 and not settings.type_strict:
        same = known
    if len(same) > 1 and not kind:
        types = ", ".join(sorted(same["entity_type"].unique()))
        raise UnusableInput(f"Several entities are called {name!r}: {types}.", "Say which with --type.")
    if len(same):
        return _met(reading, same.sort("id").row(0, named=True), now)
    if not create:
        raise _unknown(reading, name)
    return new_target(name, entity_type, now)


def _type_named(entity_type: str | None) -> str | None:
    """The type as it is stored, whichever word names it (C8); raises for one that does not exist."""
    kind = None if entity_type is None else canonical_type(entity_type)
    if entity_type is not None and kind is None:
        raise UnknownName("entity type", entity_type, TYPES)
    return kind


def _mention(name: str, entity_type: str, now: datetime) -> pl.DataFrame:
    row = {"window": 0, "name": name, "entity_type": entity_type, "summary": None, "seen_at": now}
    return pl.DataFrame([row], schema=RAW_MENTIONS)


def _known(reading: Reading, name: str) -> pl.DataFrame:
    """The entities of that name, alias or id: the person who speaks as `user` may have no name yet."""
    wanted = [normalise_name(name)]
    if wanted == [normalise_name(UNNAMED)]:  # shown of the person who has no name yet
        wanted.append(GENERIC_NAMES[0])
    aliased = reading.by_ids("entity_aliases", wanted, ["entity_id"], key="alias_name")["entity_id"]
    own = reading.by_ids("entities", wanted, ["id"], key="canonical_name")["id"]
    ids = pl.concat([aliased, own, pl.Series([name], dtype=pl.String)])
    return reading.by_ids("entities", ids, _MET).filter(pl.col("merged_into").is_null())


def _unknown(reading: Reading, name: str) -> UnusableInput:
    near = names_like(reading, name)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    return UnusableInput(f"Unknown entity {name!r}.{hint}", "Make it with --create, and say what it is with --type.")


_MET = ["id", "name", "entity_type", "status", "merged_into"]


def _met(reading: Reading, entity: Mapping[str, Any], now: datetime) -> Target:
    """A known entity: its row is written only if it was archived, and is active again.

    When it was stated of is told by its facts: a row less to write with every statement.
    """
    is_archived = entity["status"] == "archived"
    row = reading.by_ids("entities", [entity["id"]] if is_archived else [], lasting_columns("entities"))
    seen = revived(row).with_columns(last_seen_at=frames.moment(now)) if is_archived else row
    names = {"window": [0], "canonical_name": [normalise_name(entity["name"])], "entity_id": [entity["id"]]}
    names_in_use = pl.DataFrame({**names, "entity_type": [entity["entity_type"]]})
    vectorless = frames.empty({"id": frames.TEXT, "text": frames.TEXT})
    decisions = decision_frame(revivals(row, now))
    resolution = Resolution(names_in_use, seen, frames.empty(frames.ALIASES), vectorless, decisions)
    return Target(entity["id"], entity["name"], False, resolution)


def new_target(name: str, entity_type: str | None, now: datetime) -> Target:
    """A new entity, a concept if no type is given, under the rules that hold for names in messages."""
    kind = _type_named(entity_type) or "concept"
    mentions = mentions_in(_mention(name_to_store(name), kind, now))
    nothing = frames.empty(frames.ENTITIES), frames.empty(frames.ALIASES), pl.DataFrame(schema=COSINES)
    resolution = finish(plan_resolution(mentions, *nothing, ResolveSettings()), {}, now)
    entity = resolution.entities.row(0, named=True)
    others = resolution.aliases.filter(pl.col("alias_name") != entity["canonical_name"])
    resolution = replace(resolution, aliases=others)  # by its own name it is found without a row more
    return Target(entity["id"], entity["name"], True, resolution)


CONVERSATION = OBSERVATIONS
SPEAKER = "user"
SCOPE = "global"


_OF_ALL = {
    "conversation_id": CONVERSATION,
    "role": "user",
    "speaker": SPEAKER,
    "scope": SCOPE,
    "has_injection": False,
    "graph_state": "done",
    "attempts": 0,
}


@dataclass(frozen=True, slots=True, eq=False)
class Statements:
    """Rows to store, vectors included: one message and one candidate for each text."""

    target: Target
    entities: pl.DataFrame
    messages: pl.DataFrame
    facts: pl.DataFrame
    batches: pl.DataFrame


def state(run: Run, reading: Reading, target: Target, texts: Sequence[str]) -> Statements:
    """The texts as candidates about the target, in one batch that a person decided to bring in."""
    messages = _messages(run, target, texts)
    claims = [
        {
            "window": 0,
            "message_id": id_,
            "kind": "observation",
            "subject": target.name,
            "relation": OBSERVED,
            "statement": text,
            "confidence": 1.0,
            "temporal_hint": find_hint(text) or None,
        }
        for id_, text in frames.rows_of(messages, "id", "content")
    ]
    made = build_candidates(
        pl.DataFrame(claims, schema=dict(CLAIMS)),
        messages.with_columns(episode_id=pl.lit(None, pl.String)),
        target.resolution.names,
        reading.frame("predicates"),
        ExtractSettings(),
        run.now,
    )
    whose = [pl.lit(f"{CONVERSATION}:{target.id}").alias("source_key"), pl.lit("person").alias("decided_by")]
    facts = made.facts.with_columns(quote=pl.col("statement").str.slice(0, MAX_QUOTE), embed_model=pl.lit(run.embedder))
    return Statements(
        target,
        _entities(run, reading, target),
        _with_vectors(run, messages, messages["search_text"]),
        _with_vectors(run, facts, facts["statement"]),
        made.batches.with_columns(whose),
    )


def _messages(run: Run, target: Target, texts: Sequence[str]) -> pl.DataFrame:
    """What was said, as messages of one conversation; nothing is left to extract from them.

    Their ordinals are times in microseconds: no count is looked up, and none is a turn that answers an earlier one.
    """
    rows = []
    for left, text in zip(reversed(range(len(texts))), texts, strict=True):
        name, at = f"observation-{digest(target.id, text, run.now)}", run.now - left * MICROSECOND  # in the order given
        own = {"id": row_id("m", CONVERSATION, name), "message_id": name, "content": text, "occurred_at": at}
        rows.append({**own, **_OF_ALL, "ordinal": microseconds_of(at), "search_text": f"{target.name}: {text}"})
    return pl.DataFrame(rows, schema=kinds_of("messages", [*rows[0]]))


def _entities(run: Run, reading: Reading, target: Target) -> pl.DataFrame:
    """The entity with its vector: a new one, or a known one that was seen again."""
    entities = target.resolution.entities
    if target.is_new:
        return _with_vectors(run, entities, target.resolution.to_embed["text"])
    kept = reading.by_ids("entities", entities["id"], ["id", "vector"])
    return entities.join(kept, on="id", how="left") if len(kept) else entities


def _with_vectors(run: Run, rows: pl.DataFrame, texts: pl.Series) -> pl.DataFrame:
    """The rows with the vectors of these texts; without, where embedding fails.

    That never keeps an observation out (S0-02).
    """
    embedder = embedder_of(run)
    try:
        vectors = vector_column(embedder.embed(texts.to_list()))
    except Exception as error:
        log.warning("What was observed is stored without vectors, and not flagged: %s", error)
        vectors = frames.nothing("vector", pl.Array(pl.Float32, embedder.dims), len(rows))
    return rows.hstack([vectors])


def write_statements(tx: Transaction, stated: Statements) -> bool:
    """Store messages and entity, of the state that `tx` holds; candidates and batches are left to the caller.

    Returns whether these messages, and so all that is made of them, are new. They are not where the same was said at
    the same moment and was retired since.
    """
    tx.upsert("entities", stated.entities)
    tx.upsert("entity_aliases", stated.target.resolution.aliases)
    tx.upsert("decisions", stated.target.resolution.decisions)
    is_new = not any(tx.count_ids(name, stated.facts["id"]) for name in FACT_TABLES)
    (tx.insert if is_new else tx.upsert)("messages", stated.messages)
    return is_new

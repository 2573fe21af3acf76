"""Facts as they are shown, with names instead of ids; and where they come from: messages, conversations, documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from math import inf

import polars as pl

from slowwave.common.errors import UnknownName, UnusableInput
from slowwave.common.types import Artifact, Entity, Episode, Provenance, RecalledFact
from slowwave.common.validity import MAX_CHAIN, Moment, live_sql
from slowwave.graph.graph import is_filed_elsewhere
from storage.residents import Row
from storage.rows import mentioning, quoted
from storage.snapshots import Reading, Snapshot
from storage.warm import Tables

from .doubts import NO_DOUBTS, Doubts, doubts_of
from .order import RankedFact

NEEDED = (
    "id",
    "statement",
    "subject_id",
    "predicate",
    "object_id",
    "object_text",
    "confidence",
    "status",
    "valid_from",
    "valid_to",
    "event_at",
    "event_precision",
    "aspect_slugs",
    "polarity",
    "supersedes_id",
)
SHOWN = (*NEEDED, "scope", "created_at", "expired_at", "replaced_by", "status_reason")
_FILED = ("kind", "owner_entity_id")
EVIDENCE = ("fact_id", "message_id", "quote", "occurred_at")
LEARNED = ("subject_id", "action", "at", "measures")
HOT = ("facts",)
ALL = ("facts", "facts_archive")
_NO_PLACE = RankedFact(None, (), 0.0, 0.0, 0.0)
Source = tuple[str, Provenance]
"""A message by the id of its row, and as it is shown."""


def facts_about(snapshot: Snapshot, entity: Entity, moment: Moment, everything: bool) -> tuple[RecalledFact, ...]:
    """Facts that the entity takes part in, newest first: those of the moment, or all there ever were (S2-36).

    An observation is shown where it is filed now (S0-14); a question about the past shows it under both.
    """
    tables = ALL if everything or moment.is_past else HOT
    split = snapshot.by_ids("entities", [entity.id], ["parent_entity_id"])["parent_entity_id"].drop_nulls()
    keys = ("subject_id", "object_id", *(("owner_entity_id",) if len(split) else ()))
    columns = (*SHOWN, *_FILED)
    merged = snapshot.by_ids("entities", [entity.id], ["id"], key="merged_into")["id"]
    named = [snapshot.frame(name, mentioning([entity.id, *merged]), columns) for name in tables]
    rows = stored(snapshot, tables, [entity.id], keys, columns)
    if not moment.is_past:
        rows = rows.filter(~is_filed_elsewhere(pl.lit(entity.id)))
    rows = pl.concat([rows, *named]).unique("id", maintain_order=True)
    if not everything or moment.is_past:
        rows = valid_rows(snapshot, rows, moment)
    rows = rows.sort("valid_from", "id", descending=[True, False], nulls_last=True)
    return shown(snapshot, rows, moment)


def latest_facts(snapshot: Snapshot, moment: Moment, limit: int | None) -> tuple[int, tuple[RecalledFact, ...]]:
    """How many facts are live, and those of them that were stored last."""
    live = snapshot.frame("facts", live_sql(moment.now), ["id", "created_at"])
    newest = live.sort("created_at", "id", descending=[True, False]).select("id")
    first = newest if limit is None else newest.head(limit)
    rows = first.join(stored(snapshot, HOT, first["id"]), on="id", how="left", maintain_order="left")
    return len(live), shown(snapshot, rows, moment)


def stored(
    snapshot: Reading,
    tables: Sequence[str],
    ids: Sequence[str] | pl.Series,
    keys: Sequence[str] = ("id",),
    columns: Sequence[str] = SHOWN,
    where: str | None = None,
) -> pl.DataFrame:
    """Facts with one of the keys among the ids, each once."""
    parts = [snapshot.by_ids(name, ids, columns, key=key, where=where) for name in tables for key in keys]
    return pl.concat(parts).unique("id", keep="first", maintain_order=True)


def valid_rows(snapshot: Snapshot, rows: pl.DataFrame, moment: Moment) -> pl.DataFrame:
    """The rows that are valid at the moment, as they were then; `rows` have the columns SHOWN or more."""
    if not moment.is_past:
        return moment.facts(rows)
    wide, known = rows, set(rows["id"])
    for _ in range(MAX_CHAIN):
        missing = {*wide["replaced_by"].drop_nulls()} - known
        if not missing:
            break
        known |= missing
        wide = pl.concat([wide, stored(snapshot, ALL, sorted(missing), columns=rows.columns)])
    ended = wide.filter(pl.col("valid_to").is_not_null(), moment.known_as_of is not None)["id"]
    closed = snapshot.by_ids("decisions", ended, LEARNED, key="subject_id")
    return moment.facts(wide, ends_of(closed)).join(rows.select("id"), on="id", how="semi", maintain_order="left")


def ends_of(decisions: pl.DataFrame) -> pl.DataFrame:
    """When the store set or moved the end of a fact, and the end before that: decisions have [before, after]."""
    until, then, replaced = (
        pl.col("measures").str.json_path_match(path) for path in ("$.valid_to[0]", "$.valid_to[1]", "$.replaced_by[0]")
    )
    is_recorded = pl.col("action").is_in(["supersede", "retract"]) & then.is_not_null()
    return decisions.filter((pl.col("action") == "close") | is_recorded).select(
        id="subject_id",
        end_known_at="at",
        end_before=until.str.to_datetime("%+", time_unit="us", time_zone="UTC"),
        replaced_before=replaced,
    )


def shown(snapshot: Snapshot, rows: pl.DataFrame, moment: Moment) -> tuple[RecalledFact, ...]:
    """Rows of NEEDED columns in their order, with names, provenance and what is doubtful about them."""
    ends = pl.concat([rows["subject_id"], rows["object_id"]]).drop_nulls()
    names = dict(snapshot.by_ids("entities", ends, ["id", "name"]).iter_rows())
    evidence = snapshot.by_ids("fact_evidence", rows["id"], EVIDENCE, key="fact_id")
    doubtful = doubts_of(snapshot, rows, moment)
    return recalled(rows.rows(named=True), names, sources_of(snapshot, evidence), {}, doubtful)


def recalled(
    rows: Iterable[Row],
    names: Mapping[str, str],
    sources: Mapping[str, Sequence[Source]],
    places: Mapping[str, RankedFact],
    doubts: Doubts = NO_DOUBTS,
) -> tuple[RecalledFact, ...]:
    """Facts in the order of the rows; `places` gives score, its parts and the messages to name first, by fact."""
    made = []
    for position, row in enumerate(rows, 1):
        place = places.get(row["id"], _NO_PLACE)
        order = {message: n for n, message in enumerate(place.sources)}
        said = sorted(sources.get(row["id"], ()), key=lambda pair: order.get(pair[0], len(order)))
        fact = RecalledFact(
            id=row["id"],
            statement=row["statement"],
            subject=names.get(row["subject_id"], ""),
            predicate=row["predicate"],
            object=names.get(row["object_id"]) or row["object_text"],
            score=round(place.score, 6),
            confidence=row["confidence"] or 0.0,
            status=row["status"],
            valid_from=row["valid_from"],
            valid_to=row["valid_to"],
            event_at=row["event_at"],
            event_precision=row["event_precision"],
            aspects=tuple(row["aspect_slugs"] or ()),
            provenance=tuple(source for _, source in said),
            polarity=row["polarity"] or "affirmed",
            cosine=place.cosine,
            rank=position,
            subject_id=row["subject_id"],
            object_id=row["object_id"],
            parts=place.parts,
        )
        made.append(doubts.about(fact))
    return tuple(made)


def sources_of(snapshot: Reading, evidence: pl.DataFrame) -> dict[str, list[Source]]:
    """`provenance` of these rows (EVIDENCE)."""
    columns = ["id", "conversation_id", "message_id", "occurred_at"]
    messages = snapshot.by_ids("messages", evidence["message_id"], columns).rows_by_key("id", named=True, unique=True)
    return provenance(evidence.rows(named=True), messages)


def provenance(evidence: Iterable[Row], messages: Mapping[str, Row]) -> dict[str, list[Source]]:
    """By fact: the messages that say it, in order of time; those without a known time come first."""
    said = ((row, messages.get(row["message_id"], {})) for row in evidence)
    timed = [(row["occurred_at"] or message.get("occurred_at"), row, message) for row, message in said]
    timed.sort(key=lambda each: (each[0].timestamp() if each[0] else -inf, each[1]["message_id"] or ""))
    found: dict[str, list[Source]] = {}
    for at, row, message in timed:
        name = message.get("message_id") or row["message_id"]
        source = Provenance(message.get("conversation_id") or "", name, row["quote"] or "", at)
        found.setdefault(row["fact_id"], []).append((row["message_id"], source))
    return found


# The names of entities, by id.


def texts_of(reading: Reading, ids: Iterable[str]) -> dict[str, str]:
    """The statements of facts and the names of entities among these ids."""
    wanted = sorted({*ids})
    names = reading.by_ids("entities", wanted, ["id", "name"])
    facts = stored(reading, ALL, wanted, columns=["id", "statement"])
    return {row: text for row, text in (*names.iter_rows(), *facts.iter_rows()) if text}


NAMES_KEPT = 100_000
PERSON = "person"


class NameCache:
    """Names of entities, kept once they were read, as long as no commit changes the entities."""

    def __init__(self) -> None:
        self._kept: tuple[int, dict[str, str], set[str]] = (0, {}, set())

    async def of(self, tables: Tables, ids: Iterable[str]) -> Mapping[str, str]:
        """Names by id, of these and perhaps of others."""
        return (await self._read(tables, ids))[0]

    async def of_people(self, tables: Tables, ids: Iterable[str]) -> Mapping[str, str]:
        """Names by id of those of these that are people."""
        wanted = {*ids}
        names, people = await self._read(tables, wanted)
        return {name: names[name] for name in wanted & people}

    async def _read(self, tables: Tables, ids: Iterable[str]) -> tuple[dict[str, str], set[str]]:
        """Names by id, and who of them is a person; another question may begin new ones meanwhile."""
        version, names, people = self._kept
        if version != tables.versions["entities"] or len(names) > NAMES_KEPT:
            names, people = {}, set()
            self._kept = tables.versions["entities"], names, people
        missing = [name for name in ids if name not in names]
        if missing:
            rows = await tables.rows("entities", "id", missing, ["id", "name", "entity_type"])
            names.update((row["id"], row["name"]) for row in rows)
            people.update(row["id"] for row in rows if row["entity_type"] == PERSON)
        return names, people


# The speakers of messages, for lists that show names instead of ids.


def speakers_of(snapshot: Snapshot, sources: Iterable[Provenance]) -> dict[tuple[str, str], str]:
    """The speaker, else the role, of each message by its conversation and its id there; documents by file name."""
    ids = sorted({source.message_id for source in sources})
    columns = ["conversation_id", "message_id", "speaker", "role"]
    messages = snapshot.by_ids("messages", ids, columns, key="message_id")
    return {
        (talk, message): talk.rpartition("/")[2] if role == "document" else speaker or role or ""
        for talk, message, speaker, role in messages.iter_rows()
    }


# Where knowledge comes from: documents with their versions (S1-19), and conversations (S2-74).


_SOME = 5

_COLUMNS = tuple(one.name for one in fields(Artifact) if one.name != "chars")


def artifacts(snapshot: Snapshot, limit: int) -> tuple[int, tuple[Artifact, ...]]:
    """How many chains there are, and the newest version of those that were written last; without their texts."""
    where = "is_head AND status = 'active'"
    newest = snapshot.frame("artifacts", where, ["id"], limit, ["-made_at", "id"])["id"]
    rows = snapshot.by_ids("artifacts", newest, _COLUMNS).sort("made_at", "id", descending=[True, False])
    return snapshot.count("artifacts", where), _shown_artifacts(rows, with_content=False)


def versions_of(snapshot: Snapshot, name: str) -> tuple[Artifact, ...]:
    """The whole chain of the artifact with this id, beginning of an id, or title: oldest first, with texts."""
    where = f"group_id = {quoted(_group_of(snapshot, name))} AND status = 'active'"
    return _shown_artifacts(snapshot.frame("artifacts", where, _COLUMNS).sort("version_no", "id"), with_content=True)


def _group_of(snapshot: Snapshot, name: str) -> str:
    """The one chain that is meant; raises UnknownName with some names, or with those that it may be."""
    title = f"lower(title) = {quoted(name.lower())}"
    for where in (f"id = {quoted(name)}", f"starts_with(id, {quoted(name)})" if name else "false", title):
        found = snapshot.frame("artifacts", where, ["id", "group_id"])
        groups = found["group_id"].unique().to_list()
        if len(groups) == 1:
            return str(groups[0])
        if groups:
            raise UnknownName("artifact (several are called so)", name, found["id"].sort())
    raise UnknownName("artifact", name, snapshot.frame("artifacts", "is_head", ["title"], _SOME)["title"])


def _shown_artifacts(rows: pl.DataFrame, *, with_content: bool) -> tuple[Artifact, ...]:
    made = []
    for row in rows.with_columns(chars=pl.col("content").str.len_chars()).iter_rows(named=True):
        content = row["content"] if with_content else ""
        facts = tuple(row["linked_fact_ids"] or ())
        made.append(Artifact(**{**row, "content": content, "linked_fact_ids": facts}))
    return tuple(made)


# Conversations as episodes, and the entities that they are about (S2-74).


def episodes_of(snapshot: Snapshot, entity_id: str) -> tuple[Episode, ...]:
    """The conversations that are about an entity, newest first."""
    links = snapshot.by_ids("episode_entities", [entity_id], ["episode_id"], key="entity_id")
    newest = snapshot.by_ids("episodes", links["episode_id"]).sort("ended_at", "id", descending=True)
    columns = ("id", "conversation_id", "started_at", "ended_at", "messages", "summary")
    return tuple(Episode(*row) for row in newest.select(columns).iter_rows())


# The conversation that is going on, and what the last ones were about (S2-74).


_NAMED = 50  # conversations that an error lists


def messages_of(snapshot: Snapshot, conversation: str) -> frozenset[str]:
    """The messages (row ids) of a conversation. Raises `UnknownName` with near names where there is none."""
    messages = snapshot.frame("messages", f"conversation_id = {quoted(conversation)}", ["id"])
    if len(messages):
        return frozenset(messages["id"])
    known = snapshot.frame("messages", columns=["conversation_id"])["conversation_id"].unique().sort().to_list()
    near = get_close_matches(conversation, known, n=5, cutoff=0.5)
    raise UnknownName("conversation", conversation, near or known[:_NAMED])


def entities_of_last(snapshot: Snapshot, conversations: int) -> frozenset[str]:
    """The entities that the last conversations were about, without traversal. Raises `UnusableInput` below one."""
    if conversations < 1:
        raise UnusableInput(f"The last {conversations} conversations are none.", "Ask for at least one.")
    ended = snapshot.frame("episodes", columns=["id", "ended_at"]).sort("ended_at", "id", descending=True)
    ids = ended.head(conversations)["id"]
    return frozenset(snapshot.by_ids("episode_entities", ids, ["entity_id"], key="episode_id")["entity_id"])

"""Identities: who speaks in a batch, and which known entity each name means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from inference.language import Language
from prompts.rendering import render_resolution
from prompts.responses import NameResolution
from slowwave.common import frames
from slowwave.common.decisions import decision, decision_frame
from slowwave.common.records import KnownFact, NameQuestion, RosterEntry
from slowwave.common.settings import IngestSettings, ResolveSettings
from slowwave.common.text import digest, normalise_name
from slowwave.common.validity import MAX_CHAIN
from slowwave.entities.entity_resolution import (
    COSINES,
    UNCLEAR_NAME,
    Resolution,
    ResolutionPlan,
    exact_matches,
    finish,
    plan_resolution,
)
from slowwave.entities.mentions import Mentions, embed_texts, mentions_in
from slowwave.entities.name_joins import KNOWN, MATCHED, NOTHING_JOINED, Joined, may_join, near_names, plan_joins
from slowwave.facts.revision.extracted_claims import CollectedClaims
from slowwave.lifecycle.entity_merges import alias_rows
from slowwave.reading.extraction.roster import (
    GENERIC_NAMES,
    NAMESPACE,
    UNNAMED,
    Owner,
    mentioned_names,
    owner_id,
    owner_of,
    roster,
    with_names,
)
from slowwave.reading.ingestion.windows import PlannedWindow, speakers_of
from storage.rows import quoted
from storage.search import nearest
from storage.snapshots import Reading, Snapshot
from storage.transactions import Transaction
from tasks.entities.merges import merge_within
from tasks.entities.names_and_pins import add_alias, names_in_use, new_vector
from tasks.runtime.runs import Run, embedder_of

PERSON = "person"
AROUND, EPISODES, MOST_ALIASES = 12, 400, 4
_ENTITY = ["id", "name", "canonical_name", "entity_type", "merged_into"]


@dataclass(frozen=True, slots=True)
class Roster:
    """The owners of a batch by scope, and names that no owner could take."""

    owners: Mapping[str, Owner]
    refused: tuple[tuple[str, str], ...] = ()
    learned: tuple[tuple[str, str], ...] = ()

    @property
    def speaker(self) -> str:
        """The name of the owner of the namespace; empty while it is not known."""
        owner = self.owners[NAMESPACE]
        return owner.name if owner.is_named else ""

    def after(self, learned: Iterable[tuple[str, str]]) -> Roster:
        """The roster once these names (scope, name) were given."""
        given = tuple(dict.fromkeys(learned))
        owners, refused = with_names(self.owners, given)
        return Roster(owners, (*self.refused, *refused), (*self.learned, *given))


def read_roster(reading: Reading, messages: pl.DataFrame, settings: IngestSettings) -> Roster:
    """The owners of these messages: as stored, and as set."""
    owners = owners_of(reading, messages)
    named = Roster(owners)
    if settings.owner and not owners[NAMESPACE].is_named:
        named = named.after([(NAMESPACE, settings.owner)])
    return named


def owners_of(reading: Reading, messages: pl.DataFrame) -> dict[str, Owner]:
    """The stored owners of the scopes of these messages, and of the namespace."""
    scopes = messages["scope"].drop_nulls().unique().sort()
    return _stored_owners(reading, [NAMESPACE, *(scope for scope in scopes if scope != "global")])


def _stored_owners(reading: Reading, scopes: Sequence[str]) -> dict[str, Owner]:
    ids = {scope: owner_id(scope) for scope in scopes}
    rows = {row["id"]: row for row in reading.by_ids("entities", list(ids.values()), _ENTITY).iter_rows(named=True)}
    heirs = [row["merged_into"] for row in rows.values() if row["merged_into"]]
    rows |= {row["id"]: row for row in reading.by_ids("entities", heirs, _ENTITY).iter_rows(named=True)}
    aliases = _aliases(reading, list(rows))
    owners = {NAMESPACE: Owner(ids[NAMESPACE], is_new=True)}
    for scope, id_ in ids.items():
        if (row := rows.get(id_)) is not None:
            row = rows.get(row["merged_into"], row)
            names = [name for name in aliases.get(row["id"], ()) if name not in GENERIC_NAMES]
            is_named = row["name"] != UNNAMED
            owners[scope] = Owner(row["id"], row["name"], (row["name"], *names) if is_named else (), scope)
    return owners


def with_roster(
    reading: Reading,
    planned: Sequence[PlannedWindow],
    known: Sequence[Sequence[tuple[KnownFact, tuple[str, ...]]]],
    owners: Mapping[str, Owner],
) -> list[PlannedWindow]:
    """Each window with its known facts, and with who speaks, who and what is mentioned, and what the facts are about.

    `known` has for each window the facts with the ids of the entities that they are about.
    """
    mentioned = [mentioned_names(each.window.turns) for each in planned]
    speakers = [sorted(speakers_of(each)) for each in planned]
    names = {normalise_name(name) for group in (*mentioned, *speakers) for name in group}
    ids = [id_ for facts in known for _, about in facts for id_ in about]
    own = [owner.entity_id for owner in owners.values()]
    around = _around(reading, [*own, *_Entities(reading, sorted({n for group in speakers for n in group}), []).ids])
    stored = _Entities(reading, sorted(names - {""}), [*ids, *around])
    return [
        each.knowing(
            [fact for fact, _ in facts],
            roster(
                each.window.turns,
                owner_of(owners, each.window.scope),
                [stored.called(name) or RosterEntry(0, _shown(each, name)) for name in who],
                [
                    *(entry for _, about in facts for id_ in about if (entry := stored.by_id(id_))),
                    *(entry for name in what if (entry := stored.called(name))),
                    *(entry for id_ in around if (entry := stored.by_id(id_))),
                ],
            ),
        )
        for each, who, what, facts in zip(planned, speakers, mentioned, known, strict=True)
    ]


def _around(reading: Reading, people: Sequence[str]) -> list[str]:
    """The entities that come up most in conversations about these people, at most `AROUND` (S2-74)."""
    if not people:
        return []
    listed = ", ".join(map(quoted, sorted(set(people))))
    met = reading.frame("episode_entities", f"entity_id IN ({listed})", ["episode_id"], EPISODES)["episode_id"]
    others = reading.by_ids("episode_entities", met.unique(), ["entity_id"], key="episode_id")
    counted = others.group_by("entity_id").len().sort(-pl.col("len").cast(pl.Int64), "entity_id")
    return counted["entity_id"].head(AROUND).to_list()


def _shown(planned: PlannedWindow, speaker: str) -> str:
    """A speaker's name as the messages have it."""
    return next(turn.speaker for turn in planned.window.turns if turn.speaker.lower() == speaker)


class _Entities:
    """Stored entities by their ids and by the names that mean exactly one of them."""

    def __init__(self, reading: Reading, names: Sequence[str], ids: Sequence[str]) -> None:
        called = names_in_use(reading, names)
        rows = reading.by_ids("entities", [*called["entity_id"], *ids], _ENTITY).filter(pl.col("merged_into").is_null())
        aliases = _aliases(reading, rows["id"])
        self._entries: dict[str, RosterEntry] = {}
        for id_, name, own, kind in frames.rows_of(rows, "id", "name", "canonical_name", "entity_type"):
            others = sorted({own, *aliases.get(id_, ())} - {normalise_name(name), None})
            self._entries[id_] = RosterEntry(0, name, kind, id_, tuple(others[:MOST_ALIASES]))
        means = called.filter(pl.col("entity_id").is_in(list(self._entries))).group_by("alias_name")
        self._called = dict(means.agg(pl.col("entity_id").unique()).iter_rows())

    @property
    def ids(self) -> list[str]:
        return sorted(self._entries)

    def by_id(self, entity: str) -> RosterEntry | None:
        return self._entries.get(entity)

    def called(self, name: str) -> RosterEntry | None:
        """The one entity of this name."""
        ids = self._called.get(normalise_name(name), ())
        return self._entries[ids[0]] if len(ids) == 1 else None


def _aliases(reading: Reading, ids: Sequence[str] | pl.Series) -> dict[str, list[str]]:
    """The names of entities by id, sorted."""
    rows = reading.by_ids("entity_aliases", ids, ["entity_id", "alias_name"], key="entity_id")
    return dict(rows.group_by("entity_id").agg(pl.col("alias_name").sort()).iter_rows())


def known_names(names: pl.DataFrame, in_play: pl.DataFrame) -> pl.DataFrame:
    """What names mean in each window: the roster's entities before what resolution made of the others."""
    key = ["window", "canonical_name"]
    listed = in_play.select(names.columns).unique(key, keep="first", maintain_order=True)
    return pl.concat([listed, names.join(listed, on=key, how="anti", maintain_order="left")])


def names_of(reading: Reading, names: pl.DataFrame, aliases: pl.DataFrame) -> pl.DataFrame:
    """(alias_name, entity_id) of all names that entities of `names` have in the store, and of new `aliases`."""
    ids = names["entity_id"].drop_nulls().unique()
    called = reading.by_ids("entities", ids, ["id", "canonical_name"])
    parts = [
        aliases.select("alias_name", "entity_id"),
        reading.by_ids("entity_aliases", ids, ["alias_name", "entity_id"], key="entity_id"),
        called.select(alias_name="canonical_name", entity_id="id"),
    ]
    return pl.concat(parts).drop_nulls().unique(maintain_order=True)


def as_stored(reading: Reading, statements: CollectedClaims, roster: Roster) -> CollectedClaims:
    """What was said, of the entities as they are now: one that another run merged means its heir, one gone means none.

    Claims about an entity that is gone are dropped with it; their subjects are found by name no more.
    """
    owners = {owner.entity_id for owner in roster.owners.values()}
    ids = {*statements.in_play["entity_id"], *statements.names["entity_id"]} - {""}
    heirs, step = {id_: id_ for id_ in owners}, {id_: id_ for id_ in ids}
    for _ in range(MAX_CHAIN):
        if not step:
            break
        rows = reading.by_ids("entities", list(step.values()), ["id", "merged_into"])
        after = {id_: merged or id_ for id_, merged in rows.iter_rows()}
        found = {id_: after[now] for id_, now in step.items() if now in after}
        heirs |= found
        step = {id_: heir for id_, heir in found.items() if heir != step[id_]}

    def now(rows: pl.DataFrame) -> pl.DataFrame:
        is_there = pl.col("entity_id").is_in([*heirs, ""])
        return rows.filter(is_there).with_columns(pl.col("entity_id").replace(heirs))

    return replace(statements, in_play=now(statements.in_play), names=now(statements.names))


def write_roster(tx: Transaction, run: Run, before: Roster, statements: CollectedClaims) -> tuple[list[str], Roster]:
    """Store who speaks and by which names people call each other; entities with the owner's name join the owner.

    Part of the commit of the candidates (`ingest.candidates`).

    Returns the ids of the entities whose facts moved, and the roster with the names that the answers gave.
    """
    stored = _stored_owners(tx, [NAMESPACE, *before.owners])  # what another run wrote meanwhile stands
    owner_ids = [owner.entity_id for owner in (*stored.values(), *before.owners.values())]
    is_owner = pl.col("entity_id").is_in(owner_ids)
    given = statements.names.filter(is_owner).select("scope", "name").iter_rows()
    after = Roster(stored).after((*before.learned, *given))
    used = set(statements.in_play["entity_id"])
    moved: list[str] = []
    for scope, owner in after.owners.items():
        is_changed = owner != stored.get(scope) or owner.is_new
        if is_changed and (owner.is_named or owner.entity_id in used):
            moved += _write_owner(tx, run, owner, statements.in_play)
    _touch(tx, statements.in_play)
    others = statements.names.filter(~is_owner & (pl.col("entity_id") != "")).unique(maintain_order=True)
    for entity, name in others.select("entity_id", "name").iter_rows():
        add_alias(tx, entity, name)
    for scope, name in dict.fromkeys(after.refused):
        reason = f"Somebody who speaks as user is called {name!r}, which is not a name of the owner; both stay apart."
        _decide(tx, run, "refuse", owner_id(), [owner_id()], reason, f"{name} ({scope})")
    return moved, after


def _touch(tx: Transaction, in_play: pl.DataFrame) -> None:
    """Entities that facts of the batch are about were seen when those were said."""
    seen = in_play.group_by(id="entity_id").agg(first=pl.col("first_seen_at").min(), last=pl.col("seen_at").max())
    rows = tx.by_ids("entities", seen["id"], with_vector=True).join(seen, on="id", maintain_order="left")
    is_earlier = (pl.col("first") < pl.col("first_seen_at")).fill_null(True)
    is_later = (pl.col("last") > pl.col("last_seen_at")).fill_null(True)
    wider = rows.filter(is_earlier | is_later)
    is_back = (pl.col("status") == "archived").fill_null(False) & pl.col("merged_into").is_null()
    status = pl.when(is_back & is_later).then(pl.lit("active")).otherwise("status")
    times = {
        "first_seen_at": pl.min_horizontal("first_seen_at", "first"),
        "last_seen_at": pl.max_horizontal("last_seen_at", "last"),
    }
    tx.upsert("entities", wider.with_columns(**times, status=status).drop("first", "last"))


def _write_owner(tx: Transaction, run: Run, owner: Owner, in_play: pl.DataFrame) -> list[str]:
    """The owner's row and names; other entities of that name are merged, unless a fact connects the two."""
    stored = tx.by_ids("entities", [owner.entity_id], with_vector=True)
    if stored.is_empty():
        canonical = f"user ({owner.scope})" if owner.scope else "user"
        row = {"id": owner.entity_id, "canonical_name": canonical, "entity_type": PERSON, "status": "active"}
        seen = in_play.filter(pl.col("entity_id") == owner.entity_id)
        times = {
            "first_seen_at": seen["first_seen_at"].min() or run.now,
            "last_seen_at": seen["seen_at"].max() or run.now,
        }
        stored = pl.DataFrame([{**row, **times, "pinned": False}])
        stored = frames.conform(stored, frames.ENTITIES)
    named = stored.with_columns(name=pl.lit(owner.name), is_renamed=pl.lit(owner.is_named))
    text = str(embed_texts(named)[0])
    tx.upsert("entities", named.with_columns(vector=new_vector(run, text), embed_text_hash=pl.lit(digest(text))))
    generic = () if owner.scope else GENERIC_NAMES
    names = {normalise_name(name) for name in (*owner.names, *generic)}
    first = {name.split()[0] for name in names if " " in name and name not in generic}
    wanted = pl.DataFrame({"alias_name": sorted(names | first)}).with_columns(entity_type=pl.lit(PERSON))
    in_use = names_in_use(tx, wanted["alias_name"].to_list()).filter(pl.col("entity_id") != owner.entity_id)
    namesakes = in_use.filter(pl.col("alias_name").is_in(list(names)))["entity_id"].unique().sort()
    moved = [id_ for id_ in namesakes if _is_surely(tx, in_use, id_) and merge_within(tx, run, id_, owner.entity_id)]
    for id_ in sorted({*namesakes} - {*moved}):
        reason = f"{owner.name!r} could be another one of that name: a person is asked."
        _decide(tx, run, UNCLEAR_NAME, owner.entity_id, [owner.entity_id], reason, owner.name, [id_])
    taken = in_use.filter(~pl.col("entity_id").is_in(moved))["alias_name"].unique()
    free = wanted.filter(~pl.col("alias_name").is_in(taken.implode()))
    tx.upsert("entity_aliases", alias_rows(free.select("alias_name", "entity_type"), owner.entity_id))
    if owner.is_named:
        reason = f"The person who speaks as user is called {owner.name}."
        _decide(tx, run, "name_owner", owner.entity_id, [*moved, owner.entity_id], reason, owner.name)
    return [owner.entity_id] if moved else []


def _is_surely(tx: Transaction, in_use: pl.DataFrame, entity: str) -> bool:
    """Whether an entity of the owner's name is the owner: a person of the whole name, or who never spoke, or a word.

    A first name alone may be anybody's, and who speaks under a name of their own is somebody else. A concept is only a
    word as long as nothing is known of it.
    """
    row = tx.by_ids("entities", [entity], ["name", "entity_type"]).row(0, named=True)
    if row["entity_type"] != PERSON:
        return row["entity_type"] == "concept" and not tx.count("facts", f"subject_id = {quoted(entity)}")
    names = in_use.filter(pl.col("entity_id") == entity)["alias_name"]
    is_whole = any(" " in name for name in names)
    return is_whole or not tx.count("messages", f"role = 'user' AND speaker = {quoted(row['name'])}")


def _decide(
    tx: Transaction,
    run: Run,
    action: str,
    entity: str,
    ids: Sequence[str],
    reason: str,
    name: str,
    ids_out: Sequence[str] = (),
) -> None:
    row = decision(action, entity, ids, ids_out or [entity], reason, run.now, {"name": name})
    tx.upsert("decisions", decision_frame([row]))


# Names: the names of a batch are matched with known entities, and ambiguous ones are asked about together.


QUESTIONS_PER_CALL = 40
CANDIDATES = 5
_WHOLE = "parent_entity_id IS NULL"  # what was split off is known under its whole name alone (C17)


Verdicts = Mapping[tuple[str, str, str], bool]
"""What a model said: (new name, type, known entity) → whether they are the same."""


async def resolve_names(
    run: Run, language: Language, snapshot: Snapshot, raw: pl.DataFrame, settings: ResolveSettings
) -> tuple[Resolution, Verdicts]:
    """The entities that the mentions mean; one model call for every forty names that rules cannot settle."""
    plan = _resolution(run, snapshot, raw, settings)
    answers = await _ask_about_names(language, plan.name_questions())
    keys = dict(zip(plan.questions["question"], _question_keys(plan), strict=True))
    return finish(plan, answers, run.now), {keys[question]: same for question, same in answers.items()}


def resolve_again(
    run: Run, reading: Reading, raw: pl.DataFrame, settings: ResolveSettings, verdicts: Verdicts
) -> Resolution:
    """The entities that the mentions mean in a newer state: by rules and answers given before, without a model."""
    plan = _resolution(run, reading, raw, settings)
    keys = dict(zip(plan.questions["question"], _question_keys(plan), strict=True))
    return finish(plan, {question: verdicts[key] for question, key in keys.items() if key in verdicts}, run.now)


def _resolution(run: Run, reading: Reading, raw: pl.DataFrame, settings: ResolveSettings) -> ResolutionPlan:
    mentions = mentions_in(raw, type_strict=settings.type_strict)
    aliases = reading.by_ids("entity_aliases", mentions.names(), key="alias_name")
    likeness = _likeness(run, reading, mentions) if settings.use_embedding_resolution else pl.DataFrame(schema=COSINES)
    by_name = reading.by_ids("entities", mentions.names(), ["id", "merged_into"], key="canonical_name")
    ids = pl.concat([by_name["id"], by_name["merged_into"], aliases["entity_id"], likeness["entity_id"]])
    entities = reading.by_ids("entities", ids)
    joined = _joins_by_rule(reading, mentions, entities, aliases, settings)
    more = reading.by_ids("entities", joined.joins["entity_id"])
    entities = pl.concat([entities, more]).unique("id", keep="first", maintain_order=True)
    return plan_resolution(mentions, entities, aliases, likeness, settings, joined)


def _joins_by_rule(
    reading: Reading, mentions: Mentions, entities: pl.DataFrame, aliases: pl.DataFrame, settings: ResolveSettings
) -> Joined:
    """What the rules about names join; only where there is a name that nobody is known by, or one that is short."""
    exact = exact_matches(mentions, entities, aliases, settings)
    met = mentions.distinct.join(exact.select("mention", "how"), on="mention", maintain_order="left")
    kinds = met.filter(pl.col("entity_type").is_in(MATCHED) & may_join())["entity_type"].unique().sort()
    if kinds.is_empty():
        return NOTHING_JOINED
    is_kind = f"entity_type IN ({', '.join(map(quoted, kinds))})"
    where = f"{is_kind} AND merged_into IS NULL AND {_WHOLE}"
    named = reading.frame("entities", where, ["id", "canonical_name", "name", "entity_type"])
    called = reading.frame("entity_aliases", is_kind, ["entity_id", "entity_type", "alias_name"])
    known = pl.concat(
        [
            named.select("entity_type", entity_id="id", name="canonical_name"),
            named.select("entity_type", entity_id="id", name="name"),
            called.select("entity_type", "entity_id", name="alias_name"),
        ]
    ).drop_nulls()
    known = known.select(*KNOWN).join(named.select(entity_id="id"), on="entity_id", how="semi", maintain_order="left")
    found = dict(exact.filter(pl.col("entity_id").is_not_null()).select("mention", "entity_id").iter_rows())
    merged = entities.filter(pl.col("merged_into").is_not_null())["id"]
    return plan_joins(mentions, found, near_names(mentions, known), merged)


def _question_keys(plan: ResolutionPlan) -> list[tuple[str, str, str]]:
    return [
        (name, kind, known) for name, kind, known in plan.questions.select("name", "entity_type", "entity_id").rows()
    ]


async def _ask_about_names(language: Language, questions: tuple[NameQuestion, ...]) -> dict[int, bool]:
    """Without a model there is no answer, and a pair stays two entities: a wrong join is harder to undo (S2-07)."""
    if language.is_keyless("resolve"):
        return {}
    groups = [questions[n : n + QUESTIONS_PER_CALL] for n in range(0, len(questions), QUESTIONS_PER_CALL)]
    answers = await language.ask_many([render_resolution(group) for group in groups], NameResolution, "resolve")
    put = {question.number for question in questions}  # a model may answer what nobody asked (T37)
    return {
        each.question: each.same_entity
        for answer in answers
        if answer.value is not None
        for each in answer.value.answers
        if each.question in put
    }


def _likeness(run: Run, reading: Reading, mentions: Mentions) -> pl.DataFrame:
    """For each mention the five entities of its type whose vector is nearest (S2-07)."""
    vectors = embedder_of(run).embed(embed_texts(mentions.distinct).to_list())
    parts = []
    for (kind,), rows in mentions.distinct.group_by("entity_type", maintain_order=True):
        places = rows["mention"].to_numpy()
        found = nearest(
            reading,
            "entities",
            np.asarray(vectors[places]),
            CANDIDATES,
            f"entity_type = {quoted(str(kind))} AND {_WHOLE}",
        )
        named = found.with_columns(mention=pl.Series(places).gather(found["query"]))
        parts.append(named.select("mention", entity_id="id", cosine=pl.col("cosine").cast(pl.Float64)))
    return pl.concat(parts) if parts else pl.DataFrame(schema=COSINES)

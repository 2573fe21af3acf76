"""The entity of a name: exact name or alias, then rules, vectors, a question, a new entity (S2-01 … S2-09).

`plan_resolution` gives the sure results and the questions, `finish` makes the rows to store. Rules (`name_joins`)
join other spellings, first names and kin. A first name that fits two people means neither, except in a window that
names one of them in full. Names with another number or closing parenthesis, "Anna (sister of Ben)", join only after a
question.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from slowwave.common import frames
from slowwave.common.decisions import Row as DecisionRow
from slowwave.common.decisions import decision, decision_frame
from slowwave.common.records import NameQuestion
from slowwave.common.settings import ResolveSettings
from slowwave.common.text import MAX_NAME_BYTES, digest, row_id
from slowwave.reading.extraction.kinship import read_kin

from .mentions import Mentions, Row, embed_text, embed_texts, joined_summary, new_id
from .name_joins import NOTHING_JOINED, Joined
from .name_matching import must_differ, short_form

UNCLEAR_NAME = "unclear_name"
"""The action of the decision about a name with several possible meanings."""
_JOINED = ("similar", "agreed", "spelling", "short_name", "full_name", "kin")
COSINES = {"mention": pl.Int64(), "entity_id": pl.String(), "cosine": pl.Float64()}
OUTCOMES = {"mention": pl.Int64(), "entity_id": pl.String(), "how": pl.String(), "cosine": pl.Float64()}
NAMES = {"window": pl.Int64(), **dict.fromkeys(("canonical_name", "entity_id", "entity_type"), pl.String())}
TO_EMBED = {"id": pl.String(), "text": pl.String()}
QUESTIONS = {
    **dict.fromkeys(("question", "mention"), pl.Int64()),
    "entity_id": pl.String(),
    "cosine": pl.Float64(),
    **dict.fromkeys(("entity_type", "name", "summary", "known_name", "known_summary"), pl.String()),
}


@dataclass(frozen=True, slots=True)
class ResolutionPlan:
    """The meaning of each mention by the rules, and the questions for a model.

    `outcomes`: mention, entity_id, how (alias, name, other_type, spelling, short_name, full_name, kin, similar, ask,
    new), cosine. `unclear` (mention, entity_id): possible meanings of a name.
    """

    mentions: Mentions
    outcomes: pl.DataFrame
    questions: pl.DataFrame
    entities: pl.DataFrame
    aliases: pl.DataFrame
    unclear: pl.DataFrame

    def name_questions(self) -> tuple[NameQuestion, ...]:
        """The questions for a prompt; side a is the new name."""
        columns = ("question", "name", "entity_type", "summary", "known_name", "known_summary", "cosine")
        return tuple(
            NameQuestion(number, name, kind, says or "", known_name, kind, known_says or "", cosine)
            for number, name, kind, says, known_name, known_says, cosine in self.questions.select(columns).iter_rows()
        )


@dataclass(frozen=True, slots=True)
class Resolution:
    """Rows to store, and `names`: window, canonical_name, entity_id, entity_type of each linked name.

    Words that are no name have no row in `names`. `to_embed` has (id, text) of entities whose vector is missing or out
    of date.
    """

    names: pl.DataFrame
    entities: pl.DataFrame
    aliases: pl.DataFrame
    to_embed: pl.DataFrame
    decisions: pl.DataFrame


def plan_resolution(
    mentions: Mentions,
    entities: pl.DataFrame,
    aliases: pl.DataFrame,
    cosines: pl.DataFrame,
    settings: ResolveSettings,
    joined: Joined = NOTHING_JOINED,
) -> ResolutionPlan:
    """Match mentions in the order of S2-05: alias, canonical name, same name under another type, rules, vectors, new.

    `entities` and `aliases` have at least the rows with one of `mentions.names()` and the rows that `cosines` and
    `joined` point at. `joined` may also point at the future entity of another mention, see `new_id`.
    """
    joins = {
        mention: (entity, how) for mention, entity, how in frames.rows_of(joined.joins, "mention", "entity_id", "how")
    }
    unclear = joined.unclear.filter(~pl.col("mention").is_in(list(joins))) if len(joined.unclear) else joined.unclear
    could = {*frames.rows_of(unclear, "mention", "entity_id")}
    own = _new_ids(mentions.distinct)
    outcomes, fresh = dict[int, tuple[str, str, float | None]](), []
    for mention, entity, how in exact_matches(mentions, entities, aliases, settings).rows():
        is_short = how == "alias" and (mention, entity) in could and entity != own[mention]
        if entity is not None and not is_short:
            outcomes[mention] = entity, how, None
        elif mention in joins:
            outcomes[mention] = (*joins[mention], None)
        else:
            fresh.append(mention)
            outcomes[mention] = own[mention], "new", None
    for mention, entity, how, cosine in _by_cosine(mentions.distinct, fresh, entities, cosines, settings):
        outcomes[mention] = entity, how, cosine
    rows = [(mention, *outcomes[mention]) for mention in sorted(outcomes)]
    resolved = pl.DataFrame(rows, schema=OUTCOMES, orient="row")
    return ResolutionPlan(
        mentions, resolved, _questions(resolved, mentions.distinct, entities), entities, aliases, unclear
    )


def exact_matches(
    mentions: Mentions, entities: pl.DataFrame, aliases: pl.DataFrame, settings: ResolveSettings
) -> pl.DataFrame:
    """(mention, entity_id, how) of each mention; null where no known name equals it (S2-05, S2-09).

    An alias or name of the same type counts, else, unless settings are strict, the only one of another type. The name
    of a merged entity means the entity it was merged into (T25).
    """
    aliased = frames.rows_of(aliases, "alias_name", "entity_type", "entity_id")
    stored = (
        frames.conform(entities, frames.ENTITIES).select("canonical_name", "entity_type", "merged_into", "id").rows()
    )
    named = [(known, kind, heir or id_) for known, kind, heir, id_ in stored]
    alias, name, owners = _least(aliased), _least(named), dict[str, set[str]]()
    hits: list[tuple[int, str | None, str | None]] = []
    for known, _, entity in (*aliased, *named):
        owners.setdefault(known, set()).add(entity)
    for mention, called, kind in frames.rows_of(mentions.distinct, "mention", "canonical_name", "entity_type"):
        own, others = (called, kind), owners.get(called, ())
        if own in alias:
            hits.append((mention, alias[own], "alias"))
        elif own in name:
            hits.append((mention, name[own], "name"))
        elif len(others) == 1 and not settings.type_strict:
            hits.append((mention, min(others), "other_type"))
        else:
            hits.append((mention, None, None))
    return pl.DataFrame(hits, schema={"mention": pl.Int64, "entity_id": pl.String, "how": pl.String}, orient="row")


def _least(rows: Iterable[tuple[str, str, str]]) -> dict[tuple[str, str], str]:
    """The first id of each name and type."""
    found: dict[tuple[str, str], str] = {}
    for name, kind, id_ in rows:
        found[name, kind] = min(id_, found.get((name, kind), id_))
    return found


def finish(plan: ResolutionPlan, answers: Mapping[int, bool], now: datetime) -> Resolution:
    """The rows of a plan once its questions are answered; a question without an answer is a no (S2-07)."""
    asked = dict(frames.rows_of(plan.questions, "mention", "question"))
    own = _new_ids(plan.mentions.distinct)
    outcomes = {
        mention: {"entity_id": entity, "how": how, "cosine": cosine}
        for mention, entity, how, cosine in plan.outcomes.rows()
    }
    for mention, outcome in outcomes.items():
        if outcome["how"] == "ask":
            outcome["how"] = "agreed" if answers.get(asked.get(mention, -1)) else "new"
    mentioned = [{**row, **outcomes[row["mention"]]} for row in plan.mentions.distinct.to_dicts()]
    meant = {own[row["mention"]]: row["entity_id"] for row in mentioned if row["how"] != "new"}
    for row in mentioned:
        row["entity_id"] = _final_id(own[row["mention"]] if row["how"] == "new" else row["entity_id"], meant)
    resolved = {row["mention"]: row["entity_id"] for row in mentioned}
    met = frames.conform(plan.entities, frames.ENTITIES)
    met = met.filter(pl.col("id").is_in(list(resolved.values()))) if len(met) else met
    entities = _entity_rows(mentioned, plan.entities)
    types = {id_: kind for part in (entities, plan.entities) for id_, kind in frames.rows_of(part, "id", "entity_type")}
    links, names = plan.mentions.links.rows(), []
    here = {(window, resolved[mention]) for window, _, mention in links}
    could: dict[int, dict[str, None]] = {}
    for mention, entity in frames.rows_of(plan.unclear, "mention", "entity_id"):
        could.setdefault(mention, {})[entity] = None
    for window, name, mention in links:  # an unclear name means the entity that its own window names in full
        meanings = [each for each in could.get(mention, ()) if (window, each) in here]
        entity = meanings[0] if len(meanings) == 1 else resolved[mention]
        names.append((window, name, entity, types.get(entity)))
    return Resolution(
        pl.DataFrame(names, schema=NAMES, orient="row"),
        entities,
        _alias_rows(mentioned, plan.aliases, plan.entities),
        _to_embed(entities, plan.entities),
        decision_frame([*_decisions(mentioned, now), *_unclear_decisions(mentioned, could, now), *revivals(met, now)]),
    )


def _final_id(entity: str, meant: Mapping[str, str]) -> str:
    """The entity at the end of links from new name to new name."""
    seen = set[str]()
    while entity in meant and entity not in seen:
        seen.add(entity)
        entity = meant[entity]
    return entity


def _new_ids(distinct: pl.DataFrame) -> dict[int, str]:
    """The id of each mention, if it is a new entity."""
    rows = frames.rows_of(distinct, "mention", "canonical_name", "entity_type")
    return {mention: new_id(name, kind) for mention, name, kind in rows}


def _by_cosine(
    distinct: pl.DataFrame, mentions: Sequence[int], entities: pl.DataFrame, cosines: pl.DataFrame,
    settings: ResolveSettings,
) -> list[tuple[int, str, str, float]]:  # fmt: skip
    """(mention, entity_id, how, cosine) of names without an exact match, by the nearest entity of the same type.

    An entity that was split from another is known by its whole name alone (C17).
    """
    if not settings.use_embedding_resolution or cosines.is_empty() or not mentions:
        return []
    fresh = distinct.filter(pl.col("mention").is_in(mentions))
    whole = frames.conform(entities, frames.ENTITIES).filter(pl.col("parent_entity_id").is_null())
    best = (
        frames.conform(cosines, COSINES)
        .join(fresh.select("mention", "canonical_name", "entity_type"), on="mention")
        .join(whole.select("entity_type", entity_id="id", known="canonical_name"), on=["entity_id", "entity_type"])
        .filter(pl.col("cosine") >= settings.entity_ambiguous)
        .sort(-pl.col("cosine"), "entity_id")
        .unique("mention", keep="first", maintain_order=True)
    )
    near = frames.rows_of(best, "mention", "entity_id", "cosine", "canonical_name", "known")
    return [
        (
            mention,
            entity,
            "similar" if cosine >= settings.entity_similarity and not must_differ(*both) else "ask",
            cosine,
        )
        for mention, entity, cosine, *both in near
    ]


def _questions(outcomes: pl.DataFrame, distinct: pl.DataFrame, entities: pl.DataFrame) -> pl.DataFrame:
    if "ask" not in {*outcomes["how"]}:
        return frames.empty(QUESTIONS)
    pairs = outcomes.filter(pl.col("how") == "ask").join(distinct, on="mention", maintain_order="left")
    known = entities.select(entity_id="id", known_name="name", known_summary="summary").unique(
        "entity_id", keep="first"
    )
    rows = pairs.join(known, on="entity_id", how="left", maintain_order="left")
    return frames.conform(rows.with_columns(question=pl.int_range(pl.len(), dtype=pl.Int64)), QUESTIONS).select(
        *QUESTIONS
    )


def _entity_rows(mentioned: Sequence[Row], entities: pl.DataFrame) -> pl.DataFrame:
    """Whole rows of new entities and of entities that a mention changed."""
    before = frames.conform(entities, frames.ENTITIES)
    known = {row["id"]: row for row in reversed(before.to_dicts()) if row["merged_into"] is None}
    rows = dict(reversed(known.items()))
    for row in mentioned:
        if row["how"] == "new":
            born = {"id": row["entity_id"], "status": "active", "pinned": False}
            rows.setdefault(
                born["id"],
                dict.fromkeys(before.columns) | {name: row[name] for name in ("canonical_name", "entity_type")} | born,
            )
    seen: dict[str, list[Row]] = {}
    for row in sorted(mentioned, key=_by_time):
        seen.setdefault(row["entity_id"], []).append(row)
    after = [_seen(row, seen[id_]) for id_, row in rows.items() if id_ in seen]
    changed = [row for row in after if row != known.get(row["id"])]
    return pl.DataFrame(changed, schema=before.schema)


def _by_time(row: Row) -> tuple[bool, datetime | None, int]:
    return row["last_seen_at"] is not None, row["last_seen_at"], row["mention"]


def _seen(row: Row, mentions: Sequence[Row]) -> Row:
    """The row of an entity after these mentions, the latest last."""
    firsts = [at for at in (row["first_seen_at"], *(each["first_seen_at"] for each in mentions)) if at is not None]
    lasts = [at for each in mentions if (at := each["last_seen_at"]) is not None]
    last = max(lasts, default=None)
    forms = [each["name"] for each in mentions]
    shown = _shown(row["name"], row["entity_type"], forms, row["last_seen_at"], last)
    after = {
        **row,
        "name": row["name"] if row["is_renamed"] else shown,
        "summary": _summary(row["summary"], [(each["summary"], each["how"] in _JOINED) for each in mentions]),
        "first_seen_at": min(firsts, default=None),
        "last_seen_at": max([*lasts, *filter(None, [row["last_seen_at"]])], default=None),
        "status": "active" if last is not None and row["status"] == "archived" else row["status"],
    }
    text = embed_text(after["canonical_name"], after["summary"], after["name"], after["is_renamed"])
    return {**after, "embed_text_hash": digest(text)}


def _shown(name: str | None, kind: str, forms: list[str], before: datetime | None, last: datetime | None) -> str | None:
    """The shown name: the latest form (S2-01); of a person the whole name, not a part of it and not a role."""
    for form in forms:
        is_less = kind == "person" and name is not None and _says_less(form, name)
        is_more = kind == "person" and name is not None and _says_less(name, form)
        is_latest = name is None or before is None or (last is not None and last >= before)
        name = form if is_more or (is_latest and not is_less) else name
    return name


def _says_less(form: str, other: str) -> bool:
    return short_form(form, other) or (read_kin(form) is not None and read_kin(other) is None)


def revived(entities: pl.DataFrame) -> pl.DataFrame:
    """The entities, active again if they were archived, because they are mentioned; merged ones stay as they are."""
    return entities.with_columns(status=pl.when(_comes_back()).then(pl.lit("active")).otherwise("status"))


def revivals(entities: pl.DataFrame, now: datetime) -> Iterator[DecisionRow]:
    """One decision for each archived entity among these mentioned ones."""
    if "archived" in {*entities["status"]}:
        back = entities.filter(_comes_back()).select("id", "last_seen_at").iter_rows()
        why = "It was archived and is mentioned again."
        for id_, seen in back:
            yield decision("revive", id_, [id_], [id_], why, now, {"last_seen_at": seen}, key=())


def _comes_back() -> pl.Expr:
    return (pl.col("status") == "archived").fill_null(False) & pl.col("merged_into").is_null()


def _summary(old: str | None, mentions: Iterable[tuple[str | None, bool]]) -> str | None:
    """The summary after these mentions: a plain mention replaces it, a merged name adds to it (S2-01, S2-08)."""
    for new, is_merge in mentions:
        if new is not None:
            old = joined_summary(old, new) if is_merge and old else new
    return old


def _alias_rows(mentioned: Sequence[Row], aliases: pl.DataFrame, entities: pl.DataFrame) -> pl.DataFrame:
    """New names of entities as aliases, and the whole form of cut names (S2-08)."""
    meant = {}
    for row in mentioned:
        clean, canonical = row["clean_name"], row["canonical_name"]
        for alias in (canonical, clean.lower() if len(clean.encode()) > MAX_NAME_BYTES else canonical):
            meant[alias, row["entity_type"]] = row["entity_id"]
    kin = _kin_aliases(mentioned, aliases, entities)
    before = {row[:2]: row for row in frames.rows_of(aliases, "alias_name", "entity_type", "entity_id", "id")}
    stored = {row[:3] for row in frames.rows_of(aliases, "alias_name", "entity_type", "entity_id")}
    new = [(*name, entity) for name, entity in {**meant, **kin}.items() if (*name, entity) not in stored]
    rows = [(before[row[:2]][3] if row[:2] in kin and row[:2] in before else row_id("a", *row), *row) for row in new]
    return pl.DataFrame(rows, schema=dict(frames.ALIASES), orient="row")


def _kin_aliases(mentioned: Sequence[Row], aliases: pl.DataFrame, entities: pl.DataFrame) -> dict[tuple[str, str], str]:
    """Kin names of people with a name, where they mean one person: "my wife Anna" is "ben's wife" from now on.

    A later wife takes the kin name over, unless she was named before the first mention of its present bearer.
    """
    since = dict(frames.rows_of(entities, "id", "first_seen_at"))
    bearers = dict(frames.rows_of(aliases, "alias_name", "entity_id"))
    known: dict[tuple[str, str], str] = {}
    named = [row for row in mentioned if row["kin"] is not None]
    for row in sorted(named, key=_by_time):
        known_as, kind, entity, seen = row["kin"], row["entity_type"], row["entity_id"], row["last_seen_at"]
        kin, met = read_kin(known_as), since.get(bearers.get(known_as, entity))
        if kin is not None and not kin.may_be_several and (met is None or seen is None or met <= seen):
            known[known_as, kind] = entity
    return known


def _to_embed(entities: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
    """(id, text) of the rows with a new text to embed."""
    known = dict(frames.conform(before, frames.ENTITIES).select("id", "embed_text_hash").rows())
    hashes = zip(entities["id"], entities["embed_text_hash"], embed_texts(entities), strict=True)
    stale = [(id_, text) for id_, new, text in hashes if known.get(id_) != new]
    return pl.DataFrame(stale, schema=TO_EMBED, orient="row")


def _decisions(mentioned: Sequence[Row], now: datetime) -> Iterator[DecisionRow]:
    """One decision for each name that joined an entity of another name or type."""
    reasons = {
        "similar": ("merge_entity", "rule", "{!r} is close enough in meaning to be the same {}."),
        "agreed": ("merge_entity", "model", "{!r} was judged to be the same {}."),
        "spelling": ("merge_entity", "rule", "{!r} is another spelling of the same {}."),
        "short_name": ("merge_entity", "rule", "{!r} can mean one {} only of those known here."),
        "full_name": ("merge_entity", "rule", "{!r} is the whole name of the {} who was known by a part of it."),
        "kin": ("merge_entity", "rule", "{!r} is the {} who was known by whom they belong to."),
        "other_type": ("type_conflict", "rule", "{!r} was said to be a {} but is known under another type."),
    }
    for row in mentioned:
        if row["how"] in reasons:
            action, who, sentence = reasons[row["how"]]
            yield decision(
                action,
                row["entity_id"],
                [new_id(row["canonical_name"], row["entity_type"])],
                [row["entity_id"]],
                sentence.format(row["name"], row["entity_type"]),
                now,
                {"cosine": row["cosine"]},
                decided_by=who,
                key=(row["canonical_name"], row["entity_type"]),
            )


def _unclear_decisions(
    mentioned: Sequence[Row], could: Mapping[int, Mapping[str, None]], now: datetime
) -> Iterator[DecisionRow]:
    """One decision for each name with several possible meanings, with all of them."""
    by_mention = {row["mention"]: row for row in mentioned}
    for mention, meanings in could.items():
        if (row := by_mention.get(mention)) is not None:
            yield decision(
                UNCLEAR_NAME,
                row["entity_id"],
                [row["entity_id"]],
                [*meanings],
                f"{row['name']!r} could be any of {len(meanings)}: a person is asked.",
                now,
                {"name": row["name"]},
                key=([*meanings],),
            )

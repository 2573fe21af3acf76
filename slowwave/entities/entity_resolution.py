"""The entity of a name: exact name or alias, then rules, vectors, a question, a new entity (S2-01 … S2-09).

`plan_resolution` gives the sure results and the questions, `finish` makes the rows to store. Rules (`name_joins`)
join other spellings, first names and kin. A first name that fits two people means neither, except in a window that
names one of them in full. Names with another number or closing parenthesis, "Anna (sister of Ben)", join only after a
question.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from slowwave.common import frames
from slowwave.common.decisions import decision, decision_frame, each_decided
from slowwave.common.records import NameQuestion
from slowwave.common.settings import ResolveSettings
from slowwave.common.text import MAX_NAME_BYTES, cut_bytes, digest, normalise_name, row_id
from slowwave.reading.extraction.kinship import kin_of, read_kin

from .mentions import MAX_SUMMARY_BYTES, Mentions, embed_texts, new_id
from .name_joins import NOTHING_JOINED, Joined
from .name_matching import must_differ, short_form

UNCLEAR_NAME = "unclear_name"
"""The action of the decision about a name with several possible meanings."""
_JOINED = ("similar", "agreed", "spelling", "short_name", "full_name", "kin")
COSINES = {"mention": pl.Int64(), "entity_id": pl.String(), "cosine": pl.Float64()}
QUESTIONS = {
    "question": pl.Int64(),
    "mention": pl.Int64(),
    "entity_id": pl.String(),
    "cosine": pl.Float64(),
    "entity_type": pl.String(),
    "name": pl.String(),
    "summary": pl.String(),
    "known_name": pl.String(),
    "known_summary": pl.String(),
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
        return tuple(
            NameQuestion(
                row["question"],
                row["name"],
                row["entity_type"],
                row["summary"] or "",
                row["known_name"],
                row["entity_type"],
                row["known_summary"] or "",
                row["cosine"],
            )
            for row in self.questions.iter_rows(named=True)
        )


@dataclass(frozen=True, slots=True)
class Resolution:
    """Rows to store, and `names`: window, canonical_name, entity_id, entity_type of each linked name.

    Words that are no name have no row in `names`; `counts` has them as `not_named`. `to_embed` has (id, text) of
    entities whose vector is missing or out of date.
    """

    names: pl.DataFrame
    entities: pl.DataFrame
    aliases: pl.DataFrame
    to_embed: pl.DataFrame
    decisions: pl.DataFrame
    counts: Mapping[str, int]


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
    exact = exact_matches(mentions, entities, aliases, settings)
    unclear = joined.unclear.filter(~pl.col("mention").is_in(joined.joins["mention"].implode()))
    astray = (pl.col("how") == "alias") & pl.col("mention").is_in(unclear["mention"].implode()) & pl.col("is_short")
    exact = exact.join(
        _short_aliases(exact, mentions.distinct, unclear), on="mention", how="left", maintain_order="left"
    )
    exact = exact.with_columns(entity_id=pl.when(astray.fill_null(False)).then(None).otherwise("entity_id")).drop(
        "is_short"
    )
    no_cosine = pl.lit(None, dtype=pl.Float64)
    known = exact.filter(pl.col("entity_id").is_not_null()).with_columns(cosine=no_cosine)
    open_ = exact.filter(pl.col("entity_id").is_null()).select("mention")
    ruled = open_.join(joined.joins, on="mention", maintain_order="left").with_columns(cosine=no_cosine)
    left = open_.join(ruled, on="mention", how="anti", maintain_order="left")
    fresh = mentions.distinct.filter(pl.col("mention").is_in(left["mention"].implode())).with_columns(
        entity_id=pl.Series(_new_ids(mentions.distinct.join(left, on="mention", how="semi")), dtype=pl.String)
    )
    settled = _by_cosine(fresh, entities, cosines, settings)
    parts = [part.select(settled.columns) for part in (known, ruled)]
    outcomes = pl.concat([*parts, settled]).sort("mention")
    questions = _questions(outcomes, mentions.distinct, entities)
    return ResolutionPlan(mentions, outcomes, questions, entities, aliases, unclear)


def exact_matches(
    mentions: Mentions, entities: pl.DataFrame, aliases: pl.DataFrame, settings: ResolveSettings
) -> pl.DataFrame:
    """(mention, entity_id, how) of each mention; null where no known name equals it (S2-05, S2-09).

    An alias or name of the same type counts, else, unless settings are strict, the only one of another type. The name
    of a merged entity means the entity it was merged into (T25).
    """
    by_alias = aliases.rename({"alias_name": "canonical_name"}).select("canonical_name", "entity_type", "entity_id")
    known_entities = frames.conform(entities, frames.ENTITIES)
    by_name = known_entities.select("canonical_name", "entity_type", entity_id=pl.coalesce("merged_into", "id"))
    other = (
        pl.concat([by_alias, by_name])
        .group_by("canonical_name")
        .agg(other_type=pl.col("entity_id").min(), owners=pl.col("entity_id").n_unique())
        .filter((pl.col("owners") == 1) & (not settings.type_strict))
    )
    hits = mentions.distinct.select("mention", "canonical_name", "entity_type")
    for how, known in (("alias", by_alias), ("name", by_name)):
        first = known.group_by("canonical_name", "entity_type").agg(pl.col("entity_id").min().alias(how))
        hits = hits.join(first, on=["canonical_name", "entity_type"], how="left", maintain_order="left")
    hits = hits.join(other, on="canonical_name", how="left", maintain_order="left")
    ways = ("alias", "name", "other_type")
    first_way = pl.coalesce(*[pl.when(pl.col(way).is_not_null()).then(pl.lit(way)) for way in ways])
    return hits.select("mention", entity_id=pl.coalesce(*ways), how=first_way)


def _short_aliases(exact: pl.DataFrame, distinct: pl.DataFrame, unclear: pl.DataFrame) -> pl.DataFrame:
    """(mention, is_short): names that are an alias of one possible meaning, and no entity's own name."""
    both = exact.join(distinct.select("mention", "canonical_name", "entity_type"), on="mention")
    own = pl.Series(_new_ids(both), dtype=pl.String)
    named = both.join(unclear, on=["mention", "entity_id"], how="semi").select("mention")
    return both.select("mention", is_short=(pl.col("entity_id") != own)).join(named, on="mention", how="semi")


def finish(plan: ResolutionPlan, answers: Mapping[int, bool], now: datetime) -> Resolution:
    """The rows of a plan once its questions are answered; a question without an answer is a no (S2-07)."""
    yes = [question for question, same in answers.items() if same]
    agreed = plan.questions.filter(pl.col("question").is_in(yes))["mention"].to_list()
    is_question = pl.col("how") == "ask"
    outcomes = plan.outcomes.with_columns(
        how=pl.when(is_question & pl.col("mention").is_in(agreed))
        .then(pl.lit("agreed"))
        .when(is_question)
        .then(pl.lit("new"))
        .otherwise("how")
    )
    resolved = _final_ids(outcomes, plan.mentions.distinct)
    mentioned = plan.mentions.distinct.join(resolved, on="mention", maintain_order="left")
    met = frames.conform(plan.entities, frames.ENTITIES).join(
        mentioned.select(id="entity_id"), on="id", how="semi", maintain_order="left"
    )
    entities = _entity_rows(mentioned, plan.entities)
    aliases = _alias_rows(mentioned, plan.aliases, plan.entities)
    types = pl.concat([plan.entities.select("id", "entity_type"), entities.select("id", "entity_type")]).unique("id")
    links = plan.mentions.links.join(resolved.select("mention", "entity_id"), on="mention", maintain_order="left")
    names = (
        _by_window(links, plan.unclear)
        .join(types.rename({"id": "entity_id"}), on="entity_id", how="left", maintain_order="left")
        .select("window", "canonical_name", "entity_id", "entity_type")
    )
    counts = dict(resolved.group_by("how").len().iter_rows())
    met_names = plan.mentions
    counts |= {"rejected": met_names.rejected, "not_named": met_names.not_named}
    return Resolution(
        names,
        entities,
        aliases,
        _to_embed(entities, plan.entities),
        pl.concat([_decisions(mentioned, now), _unclear_decisions(mentioned, plan, now), revivals(met, now)]),
        counts,
    )


def _by_window(links: pl.DataFrame, unclear: pl.DataFrame) -> pl.DataFrame:
    """The links; an unclear name means the entity that its own window names in full."""
    here = links.select("window", "entity_id").unique()
    could = links.select("window", "mention").join(unclear.rename({"entity_id": "meant"}), on="mention")
    named = could.join(here, left_on=["window", "meant"], right_on=["window", "entity_id"], how="semi")
    only = named.group_by("window", "mention").agg(pl.col("meant").min(), several=pl.col("meant").n_unique())
    chosen = only.filter(pl.col("several") == 1).drop("several")
    both = links.join(chosen, on=["window", "mention"], how="left", maintain_order="left")
    return both.with_columns(entity_id=pl.coalesce("meant", "entity_id")).drop("meant")


def _new_ids(fresh: pl.DataFrame) -> list[str]:
    return [new_id(name, kind) for name, kind in fresh.select("canonical_name", "entity_type").iter_rows()]


def _by_cosine(
    fresh: pl.DataFrame, entities: pl.DataFrame, cosines: pl.DataFrame, settings: ResolveSettings
) -> pl.DataFrame:
    """(mention, entity_id, how, cosine) of names without an exact match, by the nearest entity of the same type.

    An entity that was split from another is known by its whole name alone (C17).
    """
    new = fresh.select("mention", "entity_id", how=pl.lit("new"), cosine=pl.lit(None, dtype=pl.Float64))
    if not settings.use_embedding_resolution or cosines.is_empty() or fresh.is_empty():
        return new
    whole = frames.conform(entities, frames.ENTITIES).filter(pl.col("parent_entity_id").is_null())
    best = (
        frames.conform(cosines, COSINES)
        .join(fresh.select("mention", "canonical_name", "entity_type"), on="mention")
        .join(whole.select("entity_type", entity_id="id", known="canonical_name"), on=["entity_id", "entity_type"])
        .filter(pl.col("cosine") >= settings.entity_ambiguous)
        .sort(-pl.col("cosine"), "entity_id")
        .unique("mention", keep="first", maintain_order=True)
    )
    apart = [must_differ(name, known) for name, known in best.select("canonical_name", "known").iter_rows()]
    sure = (pl.col("cosine") >= settings.entity_similarity) & ~pl.Series("apart", apart, dtype=pl.Boolean)
    near = best.select(
        "mention", "entity_id", pl.when(sure).then(pl.lit("similar")).otherwise(pl.lit("ask")).alias("how"), "cosine"
    )
    return pl.concat([near, new.join(near, on="mention", how="anti")])


def _questions(outcomes: pl.DataFrame, distinct: pl.DataFrame, entities: pl.DataFrame) -> pl.DataFrame:
    pairs = outcomes.filter(pl.col("how") == "ask").join(distinct, on="mention", maintain_order="left")
    known = entities.select(entity_id="id", known_name="name", known_summary="summary").unique(
        "entity_id", keep="first"
    )
    rows = pairs.join(known, on="entity_id", how="left", maintain_order="left")
    return frames.conform(rows.with_columns(question=pl.int_range(pl.len(), dtype=pl.Int64)), QUESTIONS).select(
        *QUESTIONS
    )


def _final_ids(outcomes: pl.DataFrame, distinct: pl.DataFrame) -> pl.DataFrame:
    """(mention, entity_id, how, cosine), with links from new name to new name followed to the end."""
    own = dict(zip(distinct["mention"], _new_ids(distinct), strict=True))
    rows = outcomes.select("mention", "entity_id", "how").rows()
    meant = {own[mention]: entity for mention, entity, how in rows if how != "new"}
    final = []
    for mention, entity, how in rows:
        target, seen = (own[mention] if how == "new" else entity), set[str]()
        while target in meant and target not in seen:
            seen.add(target)
            target = meant[target]
        final.append(target)
    return outcomes.with_columns(entity_id=pl.Series(final, dtype=pl.String))


def _entity_rows(mentioned: pl.DataFrame, entities: pl.DataFrame) -> pl.DataFrame:
    """Whole rows of new entities and of entities that a mention changed."""
    seen = (
        mentioned.sort("last_seen_at", "mention")
        .group_by("entity_id", maintain_order=True)
        .agg(
            forms="name",
            first=pl.col("first_seen_at").min(),
            last=pl.col("last_seen_at").max(),
            summaries=pl.struct("summary", is_merge=pl.col("how").is_in(_JOINED)),
        )
    )
    born = mentioned.filter(pl.col("how") == "new").select(
        "canonical_name",
        "entity_type",
        id="entity_id",
        status=pl.lit("active"),
        pinned=pl.lit(False),
        first_seen_at=pl.lit(None, dtype=frames.TIME),
        last_seen_at=pl.lit(None, dtype=frames.TIME),
    )
    before = frames.conform(entities, frames.ENTITIES).filter(pl.col("merged_into").is_null())
    rows = pl.concat([before, frames.conform(born, frames.ENTITIES)], how="diagonal").unique(
        "id", keep="first", maintain_order=True
    )
    joined = rows.join(seen.rename({"entity_id": "id"}), on="id", maintain_order="left")
    shown = [_shown(*row) for row in joined.select("name", "entity_type", "forms", "last_seen_at", "last").iter_rows()]
    summaries = [_summary(old, met) for old, met in joined.select("summary", "summaries").iter_rows()]
    after = joined.with_columns(
        name=pl.when(pl.col("is_renamed").fill_null(False))
        .then("name")
        .otherwise(pl.Series("shown", shown, pl.String)),
        summary=pl.Series(summaries, dtype=pl.String),
        first_seen_at=pl.min_horizontal("first_seen_at", "first"),
        last_seen_at=pl.max_horizontal("last_seen_at", "last"),
        status=pl.when(pl.col("last").is_not_null() & _comes_back()).then(pl.lit("active")).otherwise("status"),
    ).drop("forms", "first", "last", "summaries")
    hashes = [digest(text) for text in embed_texts(after)]
    after = after.with_columns(embed_text_hash=pl.Series(hashes, dtype=pl.String))
    changed = ["name", "status", "summary", "first_seen_at", "last_seen_at", "embed_text_hash"]
    same = before.select("id", *changed)
    return after.join(same, on=["id", *changed], how="anti", nulls_equal=True, maintain_order="left")


def _shown(name: str | None, kind: str, forms: list[str], before: datetime | None, last: datetime) -> str | None:
    """The shown name: the latest form (S2-01); of a person the whole name, not a part of it and not a role."""
    for form in forms:
        is_less = kind == "person" and name is not None and _says_less(form, name)
        is_more = kind == "person" and name is not None and _says_less(name, form)
        is_latest = name is None or before is None or last >= before
        name = form if is_more or (is_latest and not is_less) else name
    return name


def _says_less(form: str, other: str) -> bool:
    return short_form(form, other) or (kin_of(form) is not None and kin_of(other) is None)


def revived(entities: pl.DataFrame) -> pl.DataFrame:
    """The entities, active again if they were archived, because they are mentioned; merged ones stay as they are."""
    return entities.with_columns(status=pl.when(_comes_back()).then(pl.lit("active")).otherwise("status"))


def revivals(entities: pl.DataFrame, now: datetime) -> pl.DataFrame:
    """One decision for each archived entity among these mentioned ones."""
    reason = "It was archived and is mentioned again."
    back = entities.filter(_comes_back()).select("id", "last_seen_at").iter_rows()
    return each_decided("revive", {id_: {"last_seen_at": seen} for id_, seen in back}, reason, now)


def _comes_back() -> pl.Expr:
    return (pl.col("status") == "archived").fill_null(False) & pl.col("merged_into").is_null()


def _summary(old: str | None, mentions: list[dict[str, str | bool | None]]) -> str | None:
    """The summary after these mentions: a plain mention replaces it, a merged name adds to it (S2-01, S2-08)."""
    for mention in mentions:
        new = mention["summary"]
        if new is None:
            continue
        new = str(new)
        if mention["is_merge"] and old:
            old = old if normalise_name(new) in normalise_name(old) else cut_bytes(f"{old}; {new}", MAX_SUMMARY_BYTES)
        else:
            old = new
    return old


def _alias_rows(mentioned: pl.DataFrame, aliases: pl.DataFrame, entities: pl.DataFrame) -> pl.DataFrame:
    """New names of entities as aliases, and the whole form of cut names (S2-08)."""
    named = mentioned.select("canonical_name", "clean_name", "entity_type", "entity_id").iter_rows()
    meant = {
        (alias, kind): entity
        for canonical, clean, kind, entity in named
        for alias in (canonical, clean.lower() if len(clean.encode()) > MAX_NAME_BYTES else canonical)
    }
    kin = _kin_aliases(mentioned, aliases, entities)
    names = [(alias, kind, entity) for (alias, kind), entity in {**meant, **kin}.items()]
    rows = pl.DataFrame(
        names, schema=["alias_name", "entity_type", "entity_id"], orient="row", schema_overrides=dict(frames.ALIASES)
    )
    new = rows.join(aliases, on=["alias_name", "entity_type", "entity_id"], how="anti", maintain_order="left")
    before = {(alias, kind): id_ for alias, kind, id_ in aliases.select("alias_name", "entity_type", "id").iter_rows()}
    ids = [(before.get(row[:2]) if row[:2] in kin else None) or row_id("a", *row) for row in new.iter_rows()]
    return frames.conform(new.with_columns(id=pl.Series(ids, dtype=pl.String)), frames.ALIASES)


def _kin_aliases(mentioned: pl.DataFrame, aliases: pl.DataFrame, entities: pl.DataFrame) -> dict[tuple[str, str], str]:
    """Kin names of people with a name, where they mean one person: "my wife Anna" is "ben's wife" from now on.

    A later wife takes the kin name over, unless she was named before the first mention of its present bearer.
    """
    since = dict(entities.select("id", "first_seen_at").iter_rows())
    bearers = dict(aliases.select("alias_name", "entity_id").iter_rows())
    known: dict[tuple[str, str], str] = {}
    named = mentioned.select("kin", "entity_type", "entity_id", "last_seen_at").drop_nulls("kin")
    for known_as, kind, entity, seen in named.sort("last_seen_at", maintain_order=True).iter_rows():
        kin, met = read_kin(known_as), since.get(bearers.get(known_as, entity))
        if kin is not None and not kin.may_be_several and (met is None or seen is None or met <= seen):
            known[known_as, kind] = entity
    return known


def _to_embed(entities: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
    """(id, text) of the rows with a new text to embed."""
    known = frames.conform(before, frames.ENTITIES).select("id", "embed_text_hash")
    stale = entities.join(known, on=["id", "embed_text_hash"], how="anti", maintain_order="left")
    return stale.select("id", text=embed_texts(stale))


def _decisions(mentioned: pl.DataFrame, now: datetime) -> pl.DataFrame:
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
    rows = []
    joined = mentioned.filter(pl.col("how").is_in(list(reasons)))
    for row in joined.iter_rows(named=True):
        action, who, sentence = reasons[row["how"]]
        rows.append(
            decision(
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
        )
    return decision_frame(rows)


def _unclear_decisions(mentioned: pl.DataFrame, plan: ResolutionPlan, now: datetime) -> pl.DataFrame:
    """One decision for each name with several possible meanings, with all of them."""
    could = (
        plan.unclear.unique(maintain_order=True).group_by("mention", maintain_order=True).agg(could=pl.col("entity_id"))
    )
    rows = [
        decision(
            UNCLEAR_NAME,
            row["entity_id"],
            [row["entity_id"]],
            row["could"],
            f"{row['name']!r} could be any of {len(row['could'])}: a person is asked.",
            now,
            {"name": row["name"]},
            key=(row["could"],),
        )
        for row in could.join(mentioned, on="mention", maintain_order="left").iter_rows(named=True)
    ]
    return decision_frame(rows)

"""Which entity a name means: exact name or alias, then likeness, then a question, then a new one (S2-01 … S2-09).

`plan_resolution` says what is sure and what is asked, `finish` makes the rows to store.
Names that differ in a number or in a closing parenthesis, "Anna (sister of Ben)", are never joined without a question.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import polars as pl

from slowwave import frames
from slowwave.reading.mentions import MAX_SUMMARY_BYTES, Mentions, embed_texts, new_id
from slowwave.records import NameQuestion
from slowwave.settings import ResolveSettings
from slowwave.text import MAX_NAME_BYTES, as_json, cut_bytes, digest, normalise_name, row_id, timed_id

_QUALIFIER = re.compile(r"\(([^()]+)\)\s*$")
_NUMBER = re.compile(r"\d+(?:\.\d+)*")

LIKENESS = {"mention": pl.Int64(), "entity_id": pl.String(), "cosine": pl.Float64()}
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
    """What each mention means as far as rules can tell, and the questions that a model may answer.

    `outcomes`: mention, entity_id, how (alias, name, other_type, similar, ask, new), cosine.
    """

    mentions: Mentions
    outcomes: pl.DataFrame
    questions: pl.DataFrame
    entities: pl.DataFrame
    aliases: pl.DataFrame

    def asked(self) -> tuple[NameQuestion, ...]:
        """The questions as a prompt shows them; side a is the new name."""
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
    """Rows to store, and `names`: window, canonical_name, entity_id, entity_type for whoever linked to a name.

    `to_embed` holds (id, text) of entities whose vector is missing or no longer says what they are.
    """

    names: pl.DataFrame
    entities: pl.DataFrame
    aliases: pl.DataFrame
    to_embed: pl.DataFrame
    decisions: pl.DataFrame
    counts: Mapping[str, int]


def plan_resolution(
    mentions: Mentions, entities: pl.DataFrame, aliases: pl.DataFrame, likeness: pl.DataFrame, settings: ResolveSettings
) -> ResolutionPlan:
    """Match mentions in the order of S2-05: alias, canonical name, same name under another type, likeness, new.

    `entities` and `aliases` hold at least the rows with one of `mentions.names()` and those that `likeness` points at.
    `likeness` (mention, entity_id, cosine) may also point at the future entity of another mention, see `new_id`.
    """
    exact = _exact(mentions.distinct, entities, aliases, strict=settings.type_strict)
    known = exact.filter(pl.col("entity_id").is_not_null()).with_columns(cosine=pl.lit(None, dtype=pl.Float64))
    open_ = exact.filter(pl.col("entity_id").is_null())
    fresh = mentions.distinct.filter(pl.col("mention").is_in(open_["mention"].to_list())).with_columns(
        entity_id=pl.Series(_new_ids(mentions.distinct.join(open_, on="mention", how="semi")), dtype=pl.String)
    )
    settled = _by_likeness(fresh, entities, likeness, settings)
    outcomes = pl.concat([known.select(settled.columns), settled]).sort("mention")
    questions = _questions(outcomes, mentions.distinct, entities)
    return ResolutionPlan(mentions, outcomes, questions, entities, aliases)


def finish(plan: ResolutionPlan, answers: Mapping[int, bool], now: datetime) -> Resolution:
    """The rows of a plan once its questions are answered; a question without an answer is a no (S2-07)."""
    yes = [question for question, same in answers.items() if same]
    agreed = plan.questions.filter(pl.col("question").is_in(yes))["mention"].to_list()
    asked = pl.col("how") == "ask"
    outcomes = plan.outcomes.with_columns(
        how=pl.when(asked & pl.col("mention").is_in(agreed))
        .then(pl.lit("agreed"))
        .when(asked)
        .then(pl.lit("new"))
        .otherwise("how")
    )
    resolved = _final_ids(outcomes, plan.mentions.distinct)
    mentioned = plan.mentions.distinct.join(resolved, on="mention", maintain_order="left")
    met = frames.conform(plan.entities, frames.ENTITIES).join(
        mentioned.select(id="entity_id"), on="id", how="semi", maintain_order="left"
    )
    entities = _entity_rows(mentioned, plan.entities)
    aliases = _alias_rows(mentioned, plan.aliases)
    types = pl.concat([plan.entities.select("id", "entity_type"), entities.select("id", "entity_type")]).unique("id")
    names = (
        plan.mentions.links.join(resolved.select("mention", "entity_id"), on="mention", maintain_order="left")
        .join(types.rename({"id": "entity_id"}), on="entity_id", how="left", maintain_order="left")
        .select("window", "canonical_name", "entity_id", "entity_type")
    )
    counts = dict(resolved.group_by("how").len().iter_rows())
    counts |= {"rejected": plan.mentions.rejected, "dropped": plan.mentions.dropped}
    return Resolution(
        names,
        entities,
        aliases,
        _to_embed(entities, plan.entities),
        pl.concat([_decisions(mentioned, plan, now), revivals(met, now)]),
        counts,
    )


def must_differ(name: str, other: str) -> bool:
    """Whether two names tell things apart on purpose: another number, or another closing parenthesis."""
    if sorted(_NUMBER.findall(name)) != sorted(_NUMBER.findall(other)):
        return True
    return _qualifier(name) != _qualifier(other)


def _qualifier(name: str) -> str:
    found = _QUALIFIER.search(name.lower())
    return found[1].strip() if found else ""


def _exact(distinct: pl.DataFrame, entities: pl.DataFrame, aliases: pl.DataFrame, *, strict: bool) -> pl.DataFrame:
    """(mention, entity_id, how) by alias and name of the same type, else of the only other type (S2-05, S2-09).

    What was merged into another entity means that one (T25).
    """
    by_alias = aliases.rename({"alias_name": "canonical_name"}).select("canonical_name", "entity_type", "entity_id")
    known_entities = frames.conform(entities, frames.ENTITIES)
    by_name = known_entities.select("canonical_name", "entity_type", entity_id=pl.coalesce("merged_into", "id"))
    other = (
        pl.concat([by_alias, by_name])
        .group_by("canonical_name")
        .agg(entity_id=pl.col("entity_id").min(), owners=pl.col("entity_id").n_unique())
    )
    hits = distinct.select("mention", "canonical_name", "entity_type")
    for how, known in (("alias", by_alias), ("name", by_name)):
        first = known.group_by("canonical_name", "entity_type").agg(pl.col("entity_id").min().alias(how))
        hits = hits.join(first, on=["canonical_name", "entity_type"], how="left", maintain_order="left")
    single = other.filter((pl.col("owners") == 1) & (not strict)).select("canonical_name", other_type="entity_id")
    hits = hits.join(single, on="canonical_name", how="left", maintain_order="left")
    ways = ("alias", "name", "other_type")
    first_way = pl.coalesce(*[pl.when(pl.col(way).is_not_null()).then(pl.lit(way)) for way in ways])
    return hits.select("mention", entity_id=pl.coalesce(*ways), how=first_way)


def _new_ids(fresh: pl.DataFrame) -> list[str]:
    return [new_id(name, kind) for name, kind in fresh.select("canonical_name", "entity_type").iter_rows()]


def _by_likeness(
    fresh: pl.DataFrame, entities: pl.DataFrame, likeness: pl.DataFrame, settings: ResolveSettings
) -> pl.DataFrame:
    """(mention, entity_id, how, cosine) of names that nothing equals: the nearest entity of the same type decides.

    What was split from another entity is known under its whole name alone (C17).
    """
    new = fresh.select("mention", "entity_id", how=pl.lit("new"), cosine=pl.lit(None, dtype=pl.Float64))
    if not settings.use_embedding_resolution or likeness.is_empty() or fresh.is_empty():
        return new
    own = fresh.select("mention", "canonical_name", "entity_type", "entity_id")
    later = own.select(entity_id="entity_id", known="canonical_name", known_type="entity_type", order="mention")
    whole = frames.conform(entities, frames.ENTITIES).filter(pl.col("parent_entity_id").is_null())
    stored = whole.select(
        entity_id="id", known="canonical_name", known_type="entity_type", order=pl.lit(-1, dtype=pl.Int64)
    )
    best = (
        frames.conform(likeness, LIKENESS)
        .join(own.rename({"entity_id": "own_id"}), on="mention")
        .join(pl.concat([stored, later]), on="entity_id")
        .filter((pl.col("known_type") == pl.col("entity_type")) & (pl.col("order") < pl.col("mention")))
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
    asked = outcomes.filter(pl.col("how") == "ask").join(distinct, on="mention", maintain_order="left")
    ids = pl.Series(_new_ids(distinct), dtype=pl.String)
    known = pl.concat(
        [
            entities.select(entity_id="id", known_name="name", known_summary="summary"),
            distinct.select(entity_id=ids, known_name="name", known_summary="summary"),
        ]
    ).unique("entity_id", keep="first", maintain_order=True)
    rows = asked.join(known, on="entity_id", how="left", maintain_order="left")
    return frames.conform(rows.with_columns(question=pl.int_range(pl.len(), dtype=pl.Int64)), QUESTIONS).select(
        *QUESTIONS
    )


def _final_ids(outcomes: pl.DataFrame, distinct: pl.DataFrame) -> pl.DataFrame:
    """(mention, entity_id, how, cosine) where a name that means a new name means what that one means."""
    own = dict(zip(distinct["mention"], _new_ids(distinct), strict=True))
    meant: dict[str, str] = {}
    final: list[str] = []
    for mention, entity, how in outcomes.select("mention", "entity_id", "how").iter_rows():
        target = own[mention] if how == "new" else meant.get(entity, entity)
        meant.setdefault(own[mention], target)
        final.append(target)
    return outcomes.with_columns(entity_id=pl.Series(final, dtype=pl.String))


def _entity_rows(mentioned: pl.DataFrame, entities: pl.DataFrame) -> pl.DataFrame:
    """New entities and those that a mention changed, whole rows."""
    seen = (
        mentioned.sort("last_seen_at", "mention")
        .group_by("entity_id", maintain_order=True)
        .agg(
            pl.col("name").last(),
            first=pl.col("first_seen_at").min(),
            last=pl.col("last_seen_at").max(),
            said=pl.struct("summary", is_merge=pl.col("how").is_in(["similar", "agreed"])),
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
    joined = rows.join(seen.rename({"entity_id": "id", "name": "form"}), on="id", maintain_order="left")
    summaries = [_summary(old, said) for old, said in joined.select("summary", "said").iter_rows()]
    is_latest = pl.col("last_seen_at").is_null() | (pl.col("last") >= pl.col("last_seen_at"))
    after = joined.with_columns(
        name=pl.when(is_latest & ~pl.col("is_renamed").fill_null(False)).then("form").otherwise("name"),
        summary=pl.Series(summaries, dtype=pl.String),
        first_seen_at=pl.min_horizontal("first_seen_at", "first"),
        last_seen_at=pl.max_horizontal("last_seen_at", "last"),
        status=pl.when(pl.col("last").is_not_null() & _comes_back()).then(pl.lit("active")).otherwise("status"),
    ).drop("form", "first", "last", "said")
    hashes = [digest(text) for text in embed_texts(after)]
    after = after.with_columns(embed_text_hash=pl.Series(hashes, dtype=pl.String))
    changed = ["name", "status", "summary", "first_seen_at", "last_seen_at", "embed_text_hash"]
    same = before.select("id", *changed)
    return after.join(same, on=["id", *changed], how="anti", nulls_equal=True, maintain_order="left")


def revived(entities: pl.DataFrame) -> pl.DataFrame:
    """The entities, active again if they were archived: somebody speaks of them. Not what was merged into another."""
    return entities.with_columns(status=pl.when(_comes_back()).then(pl.lit("active")).otherwise("status"))


def revivals(entities: pl.DataFrame, now: datetime) -> pl.DataFrame:
    """One decision for each of these entities, which were mentioned, that was archived."""
    rows = [
        {
            "id": timed_id("d", now, "revive", id_),
            "action": "revive",
            "subject_id": id_,
            "ids_in": [id_],
            "ids_out": [id_],
            "measures": as_json({"last_seen_at": seen}),
            "decided_by": "rule",
            "at": now,
            "reason": "It was archived and is mentioned again.",
        }
        for id_, seen in entities.filter(_comes_back()).select("id", "last_seen_at").iter_rows()
    ]
    return frames.conform(pl.DataFrame(rows), frames.DECISIONS) if rows else frames.empty(frames.DECISIONS)


def _comes_back() -> pl.Expr:
    return (pl.col("status") == "archived").fill_null(False) & pl.col("merged_into").is_null()


def _summary(old: str | None, said: list[dict[str, str | bool | None]]) -> str | None:
    """The summary after these mentions: a plain mention replaces it, a merged name adds to it (S2-01, S2-08)."""
    for mention in said:
        new = mention["summary"]
        if new is None:
            continue
        new = str(new)
        if mention["is_merge"] and old:
            old = old if normalise_name(new) in normalise_name(old) else cut_bytes(f"{old}; {new}", MAX_SUMMARY_BYTES)
        else:
            old = new
    return old


def _alias_rows(mentioned: pl.DataFrame, aliases: pl.DataFrame) -> pl.DataFrame:
    """Names under which an entity was met that are not registered yet, and whole names that were cut (S2-08)."""
    names = [
        (alias, kind, entity)
        for canonical, clean, kind, entity in mentioned.select(
            "canonical_name", "clean_name", "entity_type", "entity_id"
        ).iter_rows()
        for alias in dict.fromkeys((canonical, clean.lower() if len(clean.encode()) > MAX_NAME_BYTES else canonical))
    ]
    rows = pl.DataFrame(
        names, schema=["alias_name", "entity_type", "entity_id"], orient="row", schema_overrides=dict(frames.ALIASES)
    )
    new = rows.unique(maintain_order=True).join(
        aliases, on=["alias_name", "entity_type", "entity_id"], how="anti", maintain_order="left"
    )
    ids = [row_id("a", *row) for row in new.iter_rows()]
    return frames.conform(new.with_columns(id=pl.Series(ids, dtype=pl.String)), frames.ALIASES)


def _to_embed(entities: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
    """(id, text) of the rows whose embedded text is new."""
    known = frames.conform(before, frames.ENTITIES).select("id", "embed_text_hash")
    stale = entities.join(known, on=["id", "embed_text_hash"], how="anti", maintain_order="left")
    return stale.select("id", text=embed_texts(stale))


def _decisions(mentioned: pl.DataFrame, plan: ResolutionPlan, now: datetime) -> pl.DataFrame:
    """One decision for each name that was joined to an entity of another name or type."""
    reasons = {
        "similar": ("merge_entity", "rule", "{!r} is close enough in meaning to be the same {}."),
        "agreed": ("merge_entity", "model", "{!r} was judged to be the same {}."),
        "other_type": ("type_conflict", "rule", "{!r} was said to be a {} but is known under another type."),
    }
    rows = []
    joined = mentioned.filter(pl.col("how").is_in(list(reasons)))
    for row in joined.iter_rows(named=True):
        action, who, sentence = reasons[row["how"]]
        rows.append(
            {
                "id": timed_id("d", now, action, row["entity_id"], row["canonical_name"], row["entity_type"]),
                "action": action,
                "subject_id": row["entity_id"],
                "ids_in": [new_id(row["canonical_name"], row["entity_type"])],
                "ids_out": [row["entity_id"]],
                "measures": as_json({"cosine": row["cosine"]}),
                "decided_by": who,
                "at": now,
                "reason": sentence.format(row["name"], row["entity_type"]),
            }
        )
    return frames.conform(pl.DataFrame(rows), frames.DECISIONS) if rows else frames.empty(frames.DECISIONS)


def with_questions(plan: ResolutionPlan, limit: int) -> ResolutionPlan:
    """The plan with at most `limit` questions, the most alike first; the others count as a no."""
    kept = plan.questions.sort(-pl.col("cosine"), "question").head(limit).sort("question")
    return replace(plan, questions=kept)

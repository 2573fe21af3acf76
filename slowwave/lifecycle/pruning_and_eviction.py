"""Pruning and eviction: which facts fade unused, and which facts and entities move to the archive (S4-01 … S4-08).

A fact that holds is never touched, except by the cap on entities (S2-53), and then it is archived: retired first,
moved later. Never touched at all: pinned facts, axioms of a person, structure, similarity, and facts
about a pinned entity. Ages count from when the store stopped believing, not from an end in the world (T12).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

import polars as pl

from slowwave.common import frames
from slowwave.common.decisions import decision, decision_frame, each_decided
from slowwave.common.settings import StewardSettings
from slowwave.common.validity import ENDS, KEPT_KINDS, is_kept, is_live, live_sql, not_kept_sql, time_sql
from slowwave.facts.deduplication.observations import cleared
from slowwave.lifecycle.usage_scores import age_days, half_life_days, score_facts, with_use

# Retirement: facts leave memory for the archive, from where they can come back (T31).


Measures = Mapping[str, Mapping[str, Any]]
NOTHING: Measures = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Cause:
    """Why facts are retired: the action and reason of the decision, the `status_reason`, and who decided."""

    action: str
    status_reason: str
    decided_by: str
    reason: str


BY_A_PERSON = Cause("archive", "deleted", "person", "A person retired it; undo brings it back.")


@dataclass(frozen=True, slots=True, eq=False)
class Retirement:
    """Rows to store: `facts` are the retired ones and those whose flag is cleared with them.

    `pairs` are ids of PAIR_DECISIONS that waited for a decision which no longer matters.
    """

    facts: pl.DataFrame
    decisions: pl.DataFrame
    pairs: tuple[str, ...]
    retired: tuple[str, ...]
    cleared: tuple[str, ...]


def plan_retirement(
    facts: pl.DataFrame,
    partners: pl.DataFrame,
    pairs: pl.DataFrame,
    cause: Cause,
    now: datetime,
    measures: Measures = NOTHING,
) -> Retirement:
    """Archive facts; the rows stay, and facts that were flagged for them lose the flag (S0-05).

    `facts` are live rows, `partners` those with one of them as `similar_to_id`; both may be wider than FACTS. `pairs`
    are pending PAIR_DECISIONS of the facts, `measures` what was seen of each.
    """
    archived = facts.with_columns(
        status=pl.lit("archived"),
        status_reason=pl.lit(cause.status_reason),
        expired_at=pl.lit(now, dtype=frames.TIME),
    )
    gone = facts["id"].to_list()
    freed = partners.filter(is_live(now) & pl.col("similarity_flag") & ~pl.col("id").is_in(gone)).sort("id")
    lost = dict(freed.group_by("similar_to_id", maintain_order=True).agg("id").iter_rows())
    rows = [
        decision(
            cause.action, fact, [fact], [fact, *lost.get(fact, ())], cause.reason, now, measures.get(fact, {}),
            decided_by=cause.decided_by, key=(),
        )
        for fact in gone
    ]  # fmt: skip
    decisions = decision_frame(rows)
    changed = pl.concat([archived, cleared(freed)])
    return Retirement(changed, decisions, tuple(pairs["id"].unique().sort()), tuple(gone), tuple(freed["id"]))


ARCHIVED = "archived"
FOR_WANT_OF_ROOM = Cause(
    "archive", "evicted", "rule", "There are more entities than are kept, and one that it is about went."
)
POINTERS = ("supersedes_id", "similar_to_id", "related_id")
"""Where a fact names other facts without needing them to say when it held."""
ENTITIES: frames.Schema = {
    **dict.fromkeys(("id", "name", "entity_type", "status", "parent_entity_id", "merged_into"), frames.TEXT),
    "pinned": frames.FLAG,
    "seen_at": frames.TIME,
}
"""The columns of an entity that eviction reads; `seen_at` is its latest mention, else when it was made."""
FACTS: frames.Schema = {
    **dict.fromkeys(("id", "kind", "status", "entrenchment", *ENDS), frames.TEXT),
    "pinned": frames.FLAG,
}


def since(now: datetime, days: float) -> datetime:
    """The moment so many days ago."""
    return now - timedelta(days=days)


def out_of_use_sql(cutoff: datetime) -> str:
    """Facts that are over, and have been since before `cutoff`, as a filter of a store (§6.3).

    Refused ones never were believed and so never expired: they count from when they were last written, their refusal.
    """
    moment = time_sql(cutoff)
    over = f"(expired_at < {moment} OR (status = 'rejected' AND expired_at IS NULL AND updated_at < {moment}))"
    return f"status NOT IN ('candidate', 'active') AND {over} AND {not_kept_sql()}"


def needed_sql(now: datetime) -> str:
    """Facts that keep their entities: those that hold, and candidates, which may come to (T30). As a filter."""
    return f"({live_sql(now)} OR status = 'candidate')"


def touches(entities: pl.Series) -> pl.Expr:
    """Whether a fact names one of the entities as subject, object or owner."""
    named = [pl.col(end).is_in(entities.implode()).fill_null(False) for end in ENDS]
    return pl.any_horizontal(*named)


def deletable(gone: pl.Series, steps: pl.DataFrame) -> pl.Series:
    """Of facts that may be deleted for good, those that nothing staying needs.

    `steps` (id, replaced_by) are of all facts that were replaced. What stays and was replaced by a fact holds as long
    as that one says (`validity.valid_facts`), so the replacement stays too, and in turn what replaced that one.
    """
    while True:
        needed = steps.filter(~pl.col("id").is_in(gone.implode()))["replaced_by"]
        left = gone.filter(~gone.is_in(needed.implode()))
        if len(left) == len(gone):
            return gone
        gone = left


def without_pointers(facts: pl.DataFrame, gone: pl.Series) -> pl.DataFrame:
    """Facts that stay, without what points at facts that are deleted."""
    is_lost = {name: pl.col(name).is_in(gone.implode()).fill_null(False) for name in POINTERS}
    return facts.with_columns(
        *(pl.when(~lost).then(name).alias(name) for name, lost in is_lost.items()),
        similarity_score=pl.when(~is_lost["similar_to_id"]).then("similarity_score"),
        similarity_flag=pl.col("similarity_flag") & ~is_lost["similar_to_id"],
    )


def plan_orphans(entities: pl.DataFrame, known: pl.Series, cutoff: datetime) -> pl.DataFrame:
    """ENTITIES that were not seen since before `cutoff` and that nothing known is about, by age (S2-52).

    `known` are the entities that facts or pending beliefs need. Those of a split, in either place, stay; paused and
    completed is what a person said of an entity, and stays as well.
    """
    parents = entities["parent_entity_id"].drop_nulls()
    return entities.filter(
        pl.col("status").fill_null("active") == "active",
        ~pl.col("pinned").fill_null(False),
        pl.col("seen_at") < cutoff,
        pl.col("parent_entity_id").is_null(),
        ~pl.col("id").is_in(pl.concat([known, parents]).implode()),
    ).sort("seen_at", "id")


@dataclass(frozen=True, slots=True)
class CapPlan:
    """Which entities go, in this order (ENTITIES and `degree`), and which facts with them (id, entity_id).

    `active` is how many there were.
    """

    entities: pl.DataFrame
    facts: pl.DataFrame
    active: int = 0

    def __len__(self) -> int:
        return len(self.entities)


def plan_cap(entities: pl.DataFrame, facts: pl.DataFrame, most: int) -> CapPlan:
    """The entities beyond `most` (0: no limit): the least related first, then those seen longest ago (S2-53).

    `entities` is ENTITIES of all, `facts` FACTS of those that `needed_sql` finds. Each relation counts once for each of
    its ends (T23); structure, similarity and candidates do not count (T33). A fact goes with the first of its entities.
    """
    active = entities.filter(pl.col("status").fill_null("active") == "active")
    nothing = pl.DataFrame(schema={"id": pl.String, "entity_id": pl.String})
    excess = len(active) - most
    if most == 0 or excess <= 0:
        return CapPlan(active.clear().with_columns(degree=pl.lit(0, dtype=pl.Int64)), nothing, len(active))
    free = active.filter(~pl.col("id").is_in(_kept(entities, facts).implode()))
    related = _ends(facts.filter(pl.col("kind") == "relation", pl.col("status") == "active"), ENDS[:2])
    degrees = related.group_by(id="entity_id").agg(degree=pl.len().cast(pl.Int64))
    ranked = free.join(degrees, on="id", how="left", maintain_order="left")
    ranked = ranked.with_columns(pl.col("degree").fill_null(0)).sort("degree", "seen_at", "id", nulls_last=False)
    gone = ranked.head(excess)
    named = _ends(facts.filter(pl.col("kind").is_null() | ~pl.col("kind").is_in(KEPT_KINDS)), ENDS)
    order = gone.select(entity_id="id").with_row_index("place")
    facts_gone = named.join(order, on="entity_id").sort("place", "id").unique("id", keep="first", maintain_order=True)
    return CapPlan(gone, facts_gone.select("id", "entity_id"), len(active))


def _kept(entities: pl.DataFrame, facts: pl.DataFrame) -> pl.Series:
    """Ids of entities that never go: pinned ones, and those of facts that never go."""
    pinned = entities.filter(pl.col("pinned").fill_null(False))["id"]
    is_lasting = [
        pl.col("pinned").fill_null(False),
        (pl.col("entrenchment") == "user_axiom").fill_null(False),
        (pl.col("kind") == "structural").fill_null(False),
        pl.col("status") == "candidate",
        touches(pinned) & (pl.col("kind").is_null() | (pl.col("kind") != "similarity")),
    ]
    return pl.concat([pinned, _ends(facts.filter(pl.any_horizontal(*is_lasting)), ENDS)["entity_id"]]).unique()


def _ends(facts: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """(id, entity_id) of every entity that a fact names in one of the columns, once."""
    parts = [facts.select("id", entity_id=end) for end in columns]
    return pl.concat(parts).drop_nulls("entity_id").unique()


def move_decisions(facts: pl.Series, days: float, now: datetime) -> pl.DataFrame:
    """One row for each of these facts that is to move to the archive."""
    seen = {"expired_edge_retention_days": days}
    return each_decided("move", dict.fromkeys(facts, seen), f"It was over for more than {days:g} days.", now)


def orphan_decisions(orphans: pl.DataFrame, days: float, now: datetime) -> pl.DataFrame:
    """One row for each of these ENTITIES."""
    ages = orphans.select("id", "seen_at").iter_rows()
    seen = {id_: {"unseen_days": _age(at, now), "orphan_days": days} for id_, at in ages}
    return each_decided("archive", seen, "No fact names it, and it was not mentioned for a long time.", now)


def cap_measures(plan: CapPlan, most: int, now: datetime) -> dict[str, dict[str, object]]:
    """The measures of each entity of the plan."""
    return {
        id_: {"relations": degree, "unseen_days": _age(at, now), "entities": plan.active, "max_entities": most}
        for id_, at, degree in plan.entities.select("id", "seen_at", "degree").iter_rows()
    }


def cap_decisions(plan: CapPlan, most: int, now: datetime) -> pl.DataFrame:
    """One row for each entity of the plan."""
    reason = "There are more entities than are kept, and it is among the least related."
    return each_decided("archive", cap_measures(plan, most, now), reason, now)


def _age(at: datetime | None, now: datetime) -> float | None:
    return None if at is None else round(max((now - at) / timedelta(days=1), 0.0), 3)


PRUNED = Cause(
    "prune", "pruned", "rule", "Nobody ever recalled it, and it has faded; `slowwave restore` brings it back."
)


LEARNING_EVENTS = 50


_FADED = ("id", "score", "age_hours", "hits", "half_life_days")


def events_to_learn(settings: StewardSettings) -> int:
    """Recalls that must have been logged before anything is pruned, merged or hidden (S4-02)."""
    return settings.learning_events if settings.learning_events > 0 else LEARNING_EVENTS


def is_learning(events: int, settings: StewardSettings) -> bool:
    """Whether so many recalls are too few."""
    return events < events_to_learn(settings)


@dataclass(frozen=True, slots=True, eq=False)
class PrunePlan:
    """Facts that fade, oldest first, with their measures and the thresholds."""

    faded: pl.DataFrame
    settings: StewardSettings

    @property
    def ids(self) -> pl.Series:
        """The facts."""
        return self.faded["id"]

    @property
    def measures(self) -> dict[str, dict[str, float]]:
        """By fact, for the ledger."""
        limits = {"threshold": self.settings.prune_threshold, "grace_hours": self.settings.grace_period_hours}
        rows = self.faded.select(_FADED).iter_rows(named=True)
        return {row.pop("id"): {**{k: round(v, 6) for k, v in row.items()}, **limits} for row in rows}


def plan_prune(
    facts: pl.DataFrame,
    usage: pl.DataFrame,
    settings: StewardSettings,
    now: datetime,
    *,
    pinned: Collection[str] = (),
) -> PrunePlan:
    """Live facts past their grace, below the threshold, and never recalled: all three, or a fact stays (S4-07).

    Needs id, created_at, content_score, kind, entrenchment and pinned, and what `score_facts` and `is_kept` need;
    exactly at a limit a fact stays. `pinned` are entities.
    """
    use = with_use(facts, usage).select("hits", age_hours=age_days(pl.col("created_at"), now) * 24.0)
    scored = facts.hstack(use).with_columns(
        score=score_facts(facts, usage, settings, now),
        half_life_days=half_life_days(pl.col("content_score"), settings),
    )
    is_old = pl.col("age_hours") > settings.grace_period_hours
    is_low = pl.col("score") < settings.prune_threshold
    faded = scored.filter(is_old & is_low & (pl.col("hits") == 0) & ~is_kept(pinned))
    return PrunePlan(faded.sort("created_at", "id").select(_FADED), settings)


def is_due(marks: Collection[float], step: float) -> pl.Expr:
    """Whether `score` is to be written over `quality_score`: never written, a step away, or beyond one of the marks."""
    old, new = pl.col("quality_score"), pl.col("score")
    crossed = [(old < mark) != (new < mark) for mark in marks]
    return pl.any_horizontal(old.is_null(), (old - new).abs() >= step, *crossed)


# Quotations go once a model has read what they were taken from. A quotation was never wrong and nothing in the world
# ended it: what the model read of the same messages takes its place. So it is deleted, not closed; history shows no
# change, the ledger tells what became of it, and undo brings it back.


QUOTATIONS = ("id", "message_id", "pinned", "replaced_by")
REREAD = "reread"
"""The action of the decision about a quotation that was replaced."""


def quoted_messages(count: int) -> str:
    """How many messages nobody has read yet, in words."""
    return "1 message is kept as a quotation" if count == 1 else f"{count:,} messages are kept as quotations"


def plan_replacement(
    quotations: pl.DataFrame, evidence: pl.DataFrame, waiting: pl.Series, kept: pl.Series
) -> pl.DataFrame:
    """(id, message_ids) of the quotations that go, by id.

    `quotations` has QUOTATIONS, `evidence` fact_id and message_id. One stays while a message that says it is among
    those `waiting` for a reader or for a person; and for good if it is pinned, or among `kept`: a person decided about
    it, or something that was read became a part of it; and where something that was read took its place.
    """
    said = pl.concat([quotations.select(fact_id="id", message_id="message_id"), evidence]).drop_nulls().unique()
    waits = said.filter(pl.col("message_id").is_in(waiting.implode()))["fact_id"]
    is_among_them = pl.col("replaced_by").is_null() | pl.col("replaced_by").is_in(quotations["id"].implode())
    gone = quotations.filter(
        ~pl.col("pinned").fill_null(False), is_among_them, ~pl.col("id").is_in(pl.concat([waits, kept]).implode())
    )
    messages = said.group_by(id="fact_id").agg(message_ids=pl.col("message_id").sort())
    return gone.select("id").join(messages, on="id", how="left").sort("id")


def replacement_decisions(
    gone: pl.DataFrame, read: Mapping[str, Sequence[str]], model: str, now: datetime
) -> pl.DataFrame:
    """One decision for each quotation that goes (id, message_ids); `read` has the facts of each message since."""
    reason = f"It was a quotation. {model} has read the message since, and what it read takes its place."
    rows = (
        decision(
            REREAD,
            quotation,
            messages,
            sorted({fact for message in messages for fact in read.get(message, ())}),
            reason,
            now,
            decided_by="model",
            model=model,
            key=(),
        )
        for quotation, messages in gone.iter_rows()
    )
    return decision_frame(rows)

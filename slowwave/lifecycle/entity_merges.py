"""Two entities that are one: what of the loser becomes the winner's, and what that makes void (S2-04, S2-08, C17, T25).

Nothing but the entities is merged. Facts that now say the same, or contradict each other, are compared again by the
next reconciliation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import polars as pl

from slowwave.common import frames
from slowwave.common.decisions import decision, decision_frame
from slowwave.common.run_counts import RunCount
from slowwave.common.text import digest, normalise_name, row_id
from slowwave.common.validity import ENDS, MAX_CHAIN, is_live
from slowwave.entities.mentions import embed_texts, joined_summary
from slowwave.facts.revision.conflicts import KIND

from .pruning_and_eviction import Cause, plan_retirement

Row = dict[str, Any]
Pair = tuple[str, str]
"""The ids of the entity that goes and of the one that stays."""


@dataclass(frozen=True, slots=True, eq=False)
class MergeContext:
    """Everything stored about two entities that a plan of their merge reads, as whole rows, with vectors.

    `entities`: both, and those that were split from the loser or merged into it. `called`: ALIASES of all entities with
    a name of one of the two, canonical names among them, without an id. `facts` and `archive`: those that name the
    loser. `flagged`: live ones that do not, and are flagged as similar to one that says something between the two.
    `winner_facts`: the other live facts that name the winner. `pairs`: decisions about pairs with one of `facts` in
    them. `beliefs`: those that name the loser, `hints`: their evidence. `episodes`: the links of both.
    """

    entities: pl.DataFrame
    called: pl.DataFrame
    facts: pl.DataFrame
    archive: pl.DataFrame
    flagged: pl.DataFrame
    winner_facts: pl.DataFrame
    pairs: pl.DataFrame
    beliefs: pl.DataFrame
    hints: pl.DataFrame
    episodes: pl.DataFrame


VOID = "It said something between two entities that are one now."
_BY_MERGE = Cause("archive", "self-loop after merge", "person", VOID)
_NO_LONGER = {"consolidated_at": None, "consolidation_error": None, "consolidation_attempts": 0}


@dataclass(frozen=True, slots=True)
class Merged:
    """The result of merging two entities: `loser` goes, `winner` stays.

    `facts` are about the winner now; `archived` (id, statement) of those among them that said something between the
    two; `names` are new names of the winner. `is_new` is false where they were merged before, and nothing changed.
    """

    loser: str
    loser_id: str
    winner: str
    winner_id: str
    facts: int = 0
    archived: tuple[tuple[str, str], ...] = ()
    names: tuple[str, ...] = ()
    beliefs: int = 0
    is_new: bool = True

    @property
    def counts(self) -> dict[RunCount, int]:
        """What changed, for the run."""
        return {
            RunCount.ENTITIES_MERGED: int(self.is_new),
            RunCount.FACTS_MOVED: self.facts,
            RunCount.FACTS_ARCHIVED: len(self.archived),
        }


@dataclass(frozen=True, slots=True, eq=False)
class EntityMerge:
    """Rows to upsert and ids to delete, by table, facts apart, and the result.

    `to_embed` is what the winner's vector stands for from now on, None where it stays as it is.
    """

    facts: pl.DataFrame
    archive: pl.DataFrame
    rows: Mapping[str, pl.DataFrame]
    gone: Mapping[str, Sequence[str]]
    merged: Merged
    to_embed: str | None


def refusal(loser: Row, winner: Row, parents: Mapping[str, str], between: pl.DataFrame, *, force: bool) -> str:
    """Why two entities may not be merged; empty if they may (S2-09, C17).

    `parents` says from which entity each was split, `between` are live facts that have one of the two at either end.
    """
    both = f"{loser['name']!r} and {winner['name']!r}"
    if loser["id"] == winner["id"]:
        return f"{winner['name']!r} cannot be merged with itself."
    if loser["id"] in ancestors(winner["id"], parents) or winner["id"] in ancestors(loser["id"], parents):
        return f"One of {both} was split from the other."
    parts = between.filter((pl.col("kind") == "structural") | pl.col("predicate").is_in(["part_of", "contains"]))
    if len(parts):
        return f"One of {both} is a part of the other: “{parts['statement'][0]}”."
    if len(kept := between.filter(pl.col("pinned").fill_null(False))):
        return f"What is known between {both} is pinned: “{kept['statement'][0]}”."
    if loser["entity_type"] != winner["entity_type"] and not force:
        return f"{loser['name']!r} is a {loser['entity_type']}, {winner['name']!r} a {winner['entity_type']}."
    return ""


def ancestors(entity: str, parents: Mapping[str, str]) -> list[str]:
    """The entities that it was split from, nearest first; ends where steps would turn back."""
    chain: list[str] = []
    step = parents.get(entity)
    while step is not None and step not in chain and len(chain) < MAX_CHAIN:
        chain.append(step)
        step = parents.get(step)
    return chain


def plan_merge(context: MergeContext, pair: Pair, now: datetime) -> EntityMerge:
    """The plan that moves everything of the first of the pair to the second; a second plan is empty."""
    loser, winner = (context.entities.filter(pl.col("id") == id_).row(0, named=True) for id_ in pair)
    entities = _entities(context.entities, pair)
    facts, archived, retirements = _facts(context, pair, now)
    aliases, old_aliases = _aliases(context.called, loser, winner)
    episodes, old_episodes = _episodes(context.episodes, pair)
    void = context.beliefs.filter(is_between(pair)).sort("id")
    beliefs = context.beliefs.join(void, on="id", how="anti").with_columns(pl.col(ENDS[:2]).replace(*pair))
    moved = pl.concat([context.facts, context.archive], how="diagonal").sort("id")
    decisions = [*_decisions(loser, winner, moved, archived, void, now), *retirements]
    return EntityMerge(
        facts,
        _repointed(context.archive, pair),
        {
            "entities": entities,
            "entity_aliases": aliases,
            "episode_entities": episodes,
            "pending_beliefs": beliefs,
            "decisions": decision_frame(decisions),
        },
        {
            "entity_aliases": old_aliases,
            "episode_entities": old_episodes,
            "pending_beliefs": void["id"].to_list(),
            "belief_evidence": context.hints.join(void, left_on="belief_id", right_on="id", how="semi")["id"].to_list(),
            "pair_decisions": _settled_pairs(context, facts, [id_ for id_, _ in archived]),
        },
        Merged(
            loser["name"], loser["id"], winner["name"], winner["id"], moved.height, archived,
            tuple(sorted(aliases["alias_name"].unique())), len(beliefs),
        ),
        _to_embed(entities, context.entities, winner["id"]),
    )  # fmt: skip


def _entities(entities: pl.DataFrame, pair: Pair) -> pl.DataFrame:
    """The loser put away, the winner with what is the loser's, and those that named the loser."""
    rows = {row["id"]: row for row in entities.iter_rows(named=True)}
    gone, left = (rows[id_] for id_ in pair)
    for row in rows.values():
        named = ("parent_entity_id", "merged_into")
        row |= {column: left["id"] for column in named if row[column] == gone["id"]}
    left |= {
        "summary": joined_summary(left["summary"], gone["summary"]),
        "first_seen_at": min(filter(None, (left["first_seen_at"], gone["first_seen_at"])), default=None),
        "last_seen_at": max(filter(None, (left["last_seen_at"], gone["last_seen_at"])), default=None),
        "pinned": bool(left["pinned"]) or bool(gone["pinned"]),
        "parent_entity_id": left["parent_entity_id"] or gone["parent_entity_id"],
        "status": gone["status"] if left["status"] == "archived" else left["status"],
    }
    gone |= {"status": "archived", "merged_into": left["id"], "pinned": False, "vector": None, "embed_text_hash": None}
    made = pl.DataFrame(list(rows.values()), schema=entities.schema)
    hashes = pl.Series([digest(text) for text in embed_texts(made)], dtype=pl.String)
    is_left = pl.col("id") == left["id"]
    return made.with_columns(embed_text_hash=pl.when(is_left).then(hashes).otherwise("embed_text_hash"))


def _to_embed(after: pl.DataFrame, before: pl.DataFrame, entity: str) -> str | None:
    row, was = (rows.filter(pl.col("id") == entity) for rows in (after, before))
    is_same = row["embed_text_hash"].equals(was["embed_text_hash"], null_equal=True)
    return None if is_same and not was["vector"].null_count() else str(embed_texts(row)[0])


def _facts(
    context: MergeContext, pair: Pair, now: datetime
) -> tuple[pl.DataFrame, tuple[tuple[str, str], ...], list[Row]]:
    """The facts under the winner's name, (id, statement) of those archived, and decisions about these.

    Live ones are to be compared again. What said something between the two says nothing now (S2-12, T31).
    """
    facts = context.facts
    loops = facts.filter(is_between(pair), pl.col("status") == "active")["id"].implode()
    is_loop = pl.col("id").is_in(loops)
    again = [
        pl.when(is_live(now) & ~is_loop).then(pl.lit(value, dtype=facts.schema[name])).otherwise(name).alias(name)
        for name, value in _NO_LONGER.items()
    ]
    every = pl.concat([_repointed(facts, pair).with_columns(again), context.flagged.select(facts.columns)])
    going, partners = every.filter(is_loop).sort("id"), every.filter(~is_loop & pl.col("similar_to_id").is_in(loops))
    waiting = context.pairs.filter(_waits_for(loops))
    retired = plan_retirement(going, partners, waiting, _BY_MERGE, now)
    rows = pl.concat([every.join(retired.facts, on="id", how="anti"), retired.facts.select(every.columns)])
    return rows.sort("id"), tuple(going.select("id", "statement").iter_rows()), retired.decisions.to_dicts()


def _repointed(facts: pl.DataFrame, pair: Pair) -> pl.DataFrame:
    return facts.with_columns(pl.col(end).replace(*pair) for end in ENDS)


def _aliases(called: pl.DataFrame, loser: Row, winner: Row) -> tuple[pl.DataFrame, list[str]]:
    """Every name of the loser as one of the winner's, under the types of both; and the rows that go.

    A name by which another entity of that type is known stays that one's: look-ups take one entity only (S2-04).
    """
    own = called.filter(pl.col("entity_id") == loser["id"])
    names = pl.concat([own["alias_name"], pl.Series([loser["canonical_name"], normalise_name(loser["name"] or "")])])
    types = pl.Series([loser["entity_type"], winner["entity_type"], *own["entity_type"]], dtype=pl.String)
    key = ["alias_name", "entity_type"]
    wanted = pl.DataFrame({key[0]: names.unique().sort()}).join(
        pl.DataFrame({key[1]: types.drop_nulls().unique().sort()}), how="cross"
    )
    taken = called.filter(pl.col("entity_id") != loser["id"])
    fresh = wanted.filter(pl.col("alias_name") != "").join(taken, on=key, how="anti", maintain_order="left")
    return alias_rows(fresh, winner["id"]), own["id"].drop_nulls().to_list()


def alias_rows(names: pl.DataFrame, entity: str) -> pl.DataFrame:
    """ALIASES of an entity from (alias_name, entity_type)."""
    rows = names.with_columns(entity_id=pl.lit(entity))
    named = frames.with_ids(rows, "a", "alias_name", "entity_type", "entity_id")
    return named.select("id", "alias_name", "entity_type", "entity_id")


def _episodes(links: pl.DataFrame, pair: Pair) -> tuple[pl.DataFrame, list[str]]:
    """The conversations that were about the loser as links of the winner, each once; and the links that go (S2-74)."""
    own, known = (links.filter(pl.col("entity_id") == id_) for id_ in pair)
    fresh = own.join(known.select("episode_id"), on="episode_id", how="anti").sort("episode_id")
    ids = [row_id("ee", episode, pair[1]) for episode in fresh["episode_id"]]
    moved = fresh.with_columns(pl.Series("id", ids, dtype=pl.String), entity_id=pl.lit(pair[1]))
    return moved, own["id"].to_list()


# Pairs that a merge makes void (T31).


def is_between(pair: Pair) -> pl.Expr:
    """Whether a fact has one of the pair at either end."""
    subject, object_ = pl.col("subject_id"), pl.col("object_id")
    both = (subject == pair[0]) & (object_ == pair[1]) | (subject == pair[1]) & (object_ == pair[0])
    return both.fill_null(False)


def _settled_pairs(context: MergeContext, facts: pl.DataFrame, archived: Sequence[str]) -> list[str]:
    """Pairs that must be compared again, or never again.

    What was kept apart while it was of two entities, unless a person said so; what waited beside a fact that is
    archived now; and what seemed to contradict and names one object now (T31).
    """
    moved, mine, gone = (
        ids.implode() for ids in (context.facts["id"], context.winner_facts["id"], pl.Series(archived, dtype=pl.String))
    )
    crosses = (pl.col("a_id").is_in(moved) & pl.col("b_id").is_in(mine)) | (
        pl.col("b_id").is_in(moved) & pl.col("a_id").is_in(mine)
    )
    is_doubt = (pl.col("kind") == KIND).fill_null(False)
    again = crosses & ~is_doubt & (pl.col("decided_by") != "person").fill_null(True)
    ends = pl.concat([facts, context.winner_facts], how="diagonal").select(
        "id", relation=pl.struct("subject_id", "object_id")
    )
    both = context.pairs.join(ends, left_on="a_id", right_on="id", how="left").join(
        ends, left_on="b_id", right_on="id", how="left", suffix="_b"
    )
    object_ = pl.col("relation").struct.field("object_id")
    is_same = (pl.col("relation") == pl.col("relation_b")) & object_.is_not_null()
    now_alike = (pl.col("outcome") == "pending") & is_doubt & is_same.fill_null(False)
    return both.filter(again | _waits_for(gone) | now_alike)["id"].unique().sort().to_list()


def _waits_for(facts: pl.Series) -> pl.Expr:
    """Whether a pair with one of these facts (a list of ids) is not decided."""
    return (pl.col("outcome") == "pending") & pl.any_horizontal(pl.col("a_id", "b_id").is_in(facts))


def _decisions(
    loser: Row,
    winner: Row,
    moved: pl.DataFrame,
    archived: Sequence[tuple[str, str]],
    void: pl.DataFrame,
    now: datetime,
) -> list[dict[str, object]]:
    """What a person decided: the merge, once for each of the two, and what follows for facts and beliefs."""
    pair, decide = (loser["id"], winner["id"]), partial(decision, now=now, decided_by="person")
    measures = {
        "facts": moved.height, "archived": [id_ for id_, _ in archived],
        "types": [loser["entity_type"], winner["entity_type"]], "names": [loser["name"], winner["name"]],
    }  # fmt: skip
    one = f"A person said that it is {winner['name']!r}; all of it belongs to that one now."
    other = f"A person said that {loser['name']!r} is the same; all of that one belongs to it now."
    came = f"{loser['name']!r} was merged into {winner['name']!r}: it is about that one now."
    ends = moved.select("id", *ENDS).iter_rows(named=True)
    about = ((row.pop("id"), {end: list(pair) for end, was in row.items() if was == pair[0]}) for row in ends)
    return [
        *(
            decide("merge_entity", id_, pair, [pair[1]], why, measures=measures)
            for id_, why in zip(pair, (one, other), strict=True)
        ),
        *(decide("move", id_, pair, [id_], came, measures=which) for id_, which in about),
        *(
            decide("evict", id_, [id_], [], VOID, measures={"statement": words})
            for id_, words in void.select("id", "statement").iter_rows()
        ),
    ]

"""Decisions about corrected entities: what people decided, and the effect on facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import polars as pl

from slowwave.common.decisions import decision
from slowwave.common.entrenchment import ENDS
from slowwave.common.validity import is_live
from slowwave.facts.revision.conflicts import KIND, flag_doubts
from slowwave.facts.revision.mutual_exclusion import MutualExclusion, names_of
from slowwave.facts.revision.repetition import FactSources

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class MergeContext:
    """Everything stored about two entities that a plan of their merge reads, as whole rows, with vectors.

    `entities`: both, and those that were split from the loser or merged into it. `called`: ALIASES of all entities with
    a name of one of the two, canonical names among them, without an id. `facts` and `archive`: those that name the
    loser. `flagged`: live ones that do not, and are flagged as similar to one that says something between the two.
    `winner_facts`: the other live facts that name the winner. `evidence` of the live relations of both, `objects` and
    `object_aliases`: what their objects are called. `pairs`: decisions about pairs with one of `facts` in them.
    `beliefs` and `hints`: as `join_beliefs` wants them, with `waiting`. `episodes`: the links of both.
    """

    entities: pl.DataFrame
    called: pl.DataFrame
    facts: pl.DataFrame
    archive: pl.DataFrame
    flagged: pl.DataFrame
    winner_facts: pl.DataFrame
    evidence: pl.DataFrame
    objects: pl.DataFrame
    object_aliases: pl.DataFrame
    predicates: pl.DataFrame
    pairs: pl.DataFrame
    beliefs: pl.DataFrame
    hints: pl.DataFrame
    waiting: frozenset[str]
    episodes: pl.DataFrame


def is_between(pair: Pair) -> pl.Expr:
    """Whether a fact has one of the pair at either end."""
    subject, object_ = pl.col("subject_id"), pl.col("object_id")
    both = (subject == pair[0]) & (object_ == pair[1]) | (subject == pair[1]) & (object_ == pair[0])
    return both.fill_null(False)


# Contradictions that a merge makes or ends: nothing is guessed (S2-58, S2-75, T31).


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two live facts that exclude each other: their relation, and (id, statement) of each."""

    predicate: str
    known: tuple[str, str]
    moved: tuple[str, str]


def find_conflicts(
    context: MergeContext,
    facts: pl.DataFrame,
    aliases: pl.DataFrame,
    pair: Pair,
    now: datetime,
) -> tuple[tuple[Conflict, ...], pl.DataFrame]:
    """Live facts that exclude each other, and the pairs that wait for a decision (S2-58, S2-75)."""
    came = context.facts.filter(pl.col("subject_id") == pair[0])["id"].implode()
    parts = [
        part.filter(is_live(now), pl.col("kind") == "relation").with_columns(said_at="valid_from", place=pl.lit(place))
        for part, place in ((context.winner_facts, 0), (facts.drop("vector").filter(pl.col("id").is_in(came)), 1))
    ]
    rows = pl.concat(parts, how="diagonal").sort("valid_from", "id")
    names = names_of(context.objects, pl.concat([context.object_aliases, aliases], how="diagonal"))
    types = dict(context.objects.select("id", "entity_type").iter_rows())
    messages = context.evidence.group_by("fact_id").agg("message_id").iter_rows()
    evidence = FactSources({fact: frozenset(listed) for fact, listed in messages}, {}, {})
    rivals = MutualExclusion(rows["predicate"], context.predicates, names, types, evidence)
    known, moved = ([*rows.filter(pl.col("place") == place).iter_rows(named=True)] for place in (0, 1))
    rivals.place(known)
    found = [
        Conflict(new["predicate"], (old["id"], old["statement"]), (new["id"], new["statement"]))
        for new in moved
        if new["predicate"] in rivals.single and new["polarity"] != "negated" and new["object_text"]
        for old in rivals.of(new)
    ]
    conflict_pairs = [(conflict.moved[0], conflict.known[0], "") for conflict in found]
    doubts = flag_doubts(conflict_pairs, pl.Series(dtype=pl.String), now)
    decided = context.pairs.filter(pl.col("outcome") != "pending").select("id")
    return tuple(found), doubts.join(decided, on="id", how="anti")


def settled_pairs(context: MergeContext, facts: pl.DataFrame, archived: Sequence[str]) -> list[str]:
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
    return both.filter(again | waits_for(gone) | now_alike)["id"].unique().sort().to_list()


def waits_for(facts: pl.Series) -> pl.Expr:
    """Whether a pair with one of these facts (a list of ids) is not decided."""
    return (pl.col("outcome") == "pending") & pl.any_horizontal(pl.col("a_id", "b_id").is_in(facts))


_BOTH_STAY = "Its relation allows one object at a time, and both were known of what is one entity now: both stay."

Row = dict[str, Any]


def about_entities(
    loser: Row,
    winner: Row,
    moved: int,
    archived: Sequence[tuple[str, str]],
    conflicts: Sequence[Conflict],
    now: datetime,
) -> list[Row]:
    """The decision about the merge, once for each of the two."""
    seen = {"facts": moved, "archived": [id_ for id_, _ in archived], "conflicts": len(conflicts)}
    types = {"types": [loser["entity_type"], winner["entity_type"]]}
    names = {"names": [loser["name"], winner["name"]]}
    reasons = {
        loser["id"]: f"A person said that it is {winner['name']!r}; all of it belongs to that one now.",
        winner["id"]: f"A person said that {loser['name']!r} is the same; all of that one belongs to it now.",
    }
    ids = [loser["id"], winner["id"]]
    measures = {**seen, **types, **names}
    return [
        decision("merge_entity", subject, ids, [winner["id"]], reason, now, measures, decided_by="person")
        for subject, reason in reasons.items()
    ]


def about_moves(facts: pl.DataFrame, loser: Row, winner: Row, now: datetime) -> list[Row]:
    """For each fact which of its ends is another entity now."""
    pair = (loser["id"], winner["id"])
    reason = f"{loser['name']!r} was merged into {winner['name']!r}: it is about that one now."
    ends = [(end, facts[end].to_list()) for end in ENDS]
    return [
        decision(
            "move",
            id_,
            pair,
            [id_],
            reason,
            now,
            {end: list(pair) for end, was in ends if was[row] == pair[0]},
            decided_by="person",
        )
        for row, id_ in enumerate(facts["id"])
    ]


def about_conflicts(conflicts: Sequence[Conflict], now: datetime) -> list[Row]:
    return [
        decision(
            "refuse", each.known[0], [each.known[0], each.moved[0]], [], _BOTH_STAY, now, {"relation": each.predicate}
        )
        for each in conflicts
    ]

"""Two entities that are one: what of the loser becomes the winner's, and what that makes void (S2-04, S2-08, C17, T25).

Nothing but the entities is merged. Facts that now say the same are to be compared again, and where two now contradict
each other both stay and the pair waits for somebody who knows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from slowwave.common import frames
from slowwave.common.decisions import decision, decision_frame
from slowwave.common.entrenchment import ENDS
from slowwave.common.settings import BeliefSettings
from slowwave.common.text import as_json, cut_bytes, digest, normalise_name, row_id
from slowwave.common.validity import MAX_CHAIN, is_live
from slowwave.entities.mentions import MAX_SUMMARY_BYTES, embed_texts
from slowwave.facts.revision.pending_beliefs import belief_ids, decayed, noisy_or

from .entity_decisions import (
    Conflict,
    MergeContext,
    Pair,
    about_conflicts,
    about_entities,
    about_moves,
    find_conflicts,
    is_between,
    settled_pairs,
    waits_for,
)
from .pruning_and_eviction import Cause, plan_retirement

# Beliefs of merged entities (S2-63, S2-65, S2-70). A belief is found by its key, so the beliefs of the entity that is
# gone get new keys. Where a belief with that key exists, the evidence of both is joined, each message once, and the
# probability is computed again in message order.


_DAY = timedelta(days=1)
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class JoinedBeliefs:
    """Whole rows to upsert, by id, and the ids of rows that go.

    `joined`: pairs of beliefs that became one, as (gone id, kept id). `void`: beliefs whose subject and object are now
    one entity, as (id, statement).
    """

    beliefs: Mapping[str, Row]
    evidence: Mapping[str, Row]
    gone: frozenset[str]
    gone_evidence: frozenset[str]
    joined: Sequence[tuple[str, str]]
    void: Sequence[tuple[str, str]]


def join_beliefs(
    beliefs: pl.DataFrame, evidence: pl.DataFrame, loser: str, winner: str, waiting: frozenset[str], decay_rate: float
) -> JoinedBeliefs:
    """Move the beliefs about the entity `loser` to the entity `winner`.

    `beliefs`: those that name the loser, and all beliefs of their new subjects; `evidence`: of these; `waiting`: ids of
    promoted candidates without a decision. A belief whose candidate has a decision stays beside a later belief with the
    same key. Nothing is promoted here; the next hint does that.
    """
    before = {row["id"]: row for row in beliefs.sort("first_at", "id").iter_rows(named=True)}
    hints: dict[str, list[Row]] = {id_: [] for id_ in before}
    for step in evidence.sort("at", "id").iter_rows(named=True):
        hints.setdefault(step["belief_id"], []).append(step)
    moving = [row for row in before.values() if loser in (row["subject_id"], row["object_id"])]
    after = {id_: row for id_, row in before.items() if loser not in (row["subject_id"], row["object_id"])}
    joined, void = [], []
    for old in moving:
        row = {**old, **{end: winner for end in ("subject_id", "object_id") if old[end] == loser}}
        steps = hints.pop(old["id"])
        if row["subject_id"] == row["object_id"]:
            void.append((old["id"], old["statement"]))
            continue
        target = _target(row, {id_: each["promoted_id"] for id_, each in after.items() if _is_decided(each, waiting)})
        moved = [{**step, "id": row_id("be", target, step["message_id"]), "belief_id": target} for step in steps]
        if target not in after:
            after[target], hints[target] = {**row, "id": target}, moved if target != old["id"] else steps
        elif row["promoted_at"] is not None:
            after[old["id"]], hints[old["id"]] = row, steps
        else:
            hints[target] = _counted([*hints[target], *moved], decay_rate)
            after[target] = _joined(after[target], row, hints[target])
            joined.append((old["id"], target))
    was = {row["id"]: row for row in evidence.iter_rows(named=True)}
    now = {step["id"]: step for steps in hints.values() for step in steps}
    return JoinedBeliefs(
        {id_: row for id_, row in after.items() if row != before.get(id_)},
        {id_: step for id_, step in now.items() if step != was.get(id_)},
        frozenset(before.keys() - after.keys()),
        frozenset(was.keys() - now.keys()),
        joined,
        void,
    )


def _is_decided(belief: Row, waiting: frozenset[str]) -> bool:
    return belief["promoted_id"] is not None and belief["promoted_id"] not in waiting


def _target(belief: Row, over: dict[str, str]) -> str:
    """The id of the belief after the merge."""
    claimed = json.loads(belief["claim"])["fact"] if belief["claim"] else {}
    ends = {name: belief[name] for name in ("subject_id", "object_id", "predicate", "edge_type", "scope")}
    fact = {name: value for name, value in claimed.items() if frames.FACTS.get(name) == frames.TEXT} | ends
    return belief_ids(frames.conform(pl.DataFrame([fact]), frames.FACTS), over)[0]


def _joined(left: Row, gone: Row, steps: Sequence[Row]) -> Row:
    """The kept belief after these steps of both (S2-65), with the surer claim and the directives of both."""
    row = {
        **left,
        "evidence_count": len(steps) or (left["evidence_count"] or 0) + (gone["evidence_count"] or 0),
        "probability": steps[-1]["posterior"] if steps else max(left["probability"], gone["probability"]),
        "first_at": min(left["first_at"], gone["first_at"]),
        "last_at": max(left["last_at"], gone["last_at"]),
    }
    if row["promoted_at"] is None and left["claim"] and gone["claim"]:
        claims = json.loads(left["claim"]), json.loads(gone["claim"])
        surest = max(claims, key=lambda claim: claim["fact"]["confidence"] or 0.0)
        directives = {as_json(each): each for claim in claims for each in claim["directives"]}
        claim = {"fact": surest["fact"], "directives": list(directives.values())}
        row |= {"claim": as_json(claim), "statement": claim["fact"]["statement"]}
    return row


def _counted(rows: Sequence[Row], decay_rate: float) -> list[Row]:
    """The steps in order of time, each message once with its surest hint, with prior and posterior."""
    surest: dict[str, Row] = {}
    for row in sorted(rows, key=lambda row: row["evidence"], reverse=True):
        surest.setdefault(row["id"], row)
    steps: list[Row] = []
    for row in sorted(surest.values(), key=lambda row: (row["at"], row["id"])):
        before = steps[-1] if steps else None
        prior = decayed(before["posterior"], (row["at"] - before["at"]) / _DAY, decay_rate) if before else 0.0
        steps.append({**row, "prior": prior, "posterior": noisy_or(prior, row["evidence"])})
    return steps


VOID = "It said something between two entities that are one now."


SELF_LOOP = "self-loop after merge"
_BY_MERGE = Cause("archive", SELF_LOOP, "person", VOID)
_NO_LONGER = {"consolidated_at": None, "consolidation_error": None, "consolidation_attempts": 0}


@dataclass(frozen=True, slots=True, eq=False)
class EntityMerge:
    """Rows to upsert and ids to delete, by table, facts apart.

    `moved` are ids of facts that are about the winner now, `archived` (id, statement) of those among them that said
    something between the two. `names` are new names of the winner. `to_embed` is what the winner's vector stands for
    from now on, None where it stays as it is.
    """

    facts: pl.DataFrame
    archive: pl.DataFrame
    rows: Mapping[str, pl.DataFrame]
    gone: Mapping[str, Sequence[str]]
    moved: tuple[str, ...]
    archived: tuple[tuple[str, str], ...]
    names: tuple[str, ...]
    conflicts: tuple[Conflict, ...]
    beliefs: int
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


def plan_merge(
    context: MergeContext,
    pair: Pair,
    now: datetime,
    beliefs: BeliefSettings | None = None,
) -> EntityMerge:
    """The plan that moves everything of the first of the pair to the second; a second plan is empty."""
    loser, winner = (context.entities.filter(pl.col("id") == id_).row(0, named=True) for id_ in pair)
    entities = _entities(context.entities, pair)
    facts, archived, retirements = _facts(context, pair, now)
    aliases, old_aliases = _aliases(context.called, loser, winner)
    episodes, old_episodes = _episodes(context.episodes, pair)
    joined = join_beliefs(
        context.beliefs, context.hints, *pair, context.waiting, (beliefs or BeliefSettings()).decay_rate
    )
    conflicts, doubts = find_conflicts(context, facts, aliases, pair, now)
    moved = pl.concat([context.facts, context.archive], how="diagonal").sort("id")
    decisions = [
        *about_entities(loser, winner, moved.height, archived, conflicts, now),
        *about_moves(moved, loser, winner, now),
        *retirements,
        *about_beliefs(joined, now),
        *about_conflicts(conflicts, now),
    ]
    return EntityMerge(
        facts,
        _repointed(context.archive, pair),
        {
            "entities": entities,
            "entity_aliases": aliases,
            "episode_entities": episodes,
            "pending_beliefs": pl.DataFrame(list(joined.beliefs.values()), schema=context.beliefs.schema),
            "belief_evidence": pl.DataFrame(list(joined.evidence.values()), schema=context.hints.schema),
            "pair_decisions": doubts,
            "decisions": decision_frame(decisions),
        },
        {
            "entity_aliases": old_aliases,
            "episode_entities": old_episodes,
            "pending_beliefs": sorted(joined.gone),
            "belief_evidence": sorted(joined.gone_evidence),
            "pair_decisions": settled_pairs(context, facts, [id_ for id_, _ in archived]),
        },
        tuple(moved["id"]),
        archived,
        tuple(sorted(aliases["alias_name"].unique())),
        conflicts,
        len(joined.beliefs),
        _to_embed(entities, context.entities, winner["id"]),
    )


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


def joined_summary(summary: str | None, more: str | None) -> str | None:
    """Both summaries, unless the first holds the second; at most 2048 bytes (S2-08)."""
    if not summary or not more:
        return summary or more
    plain, plain_more = (" ".join(text.lower().split()) for text in (summary, more))
    return summary if plain_more in plain else cut_bytes(f"{summary}; {more}", MAX_SUMMARY_BYTES)


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
    waiting = context.pairs.filter(waits_for(loops))
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


def about_beliefs(joined: JoinedBeliefs, now: datetime) -> list[Row]:
    same = "Both beliefs say the same of what is one entity now: their evidence is counted together."
    rows = [
        decision("join", left, [gone, left], [left], same, now, decided_by="person") for gone, left in joined.joined
    ]
    void = [
        decision("evict", id_, [id_], [], VOID, now, {"statement": words}, decided_by="person")
        for id_, words in joined.void
    ]
    return [*rows, *void]

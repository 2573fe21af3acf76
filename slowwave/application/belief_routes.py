"""Which way a candidate goes: on to the gate, or to the belief that it hints at (S2-63, S2-64, S2-70)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from slowwave import frames
from slowwave.application.patches import MESSAGES
from slowwave.settings import BeliefSettings
from slowwave.text import normalise_statement, row_id

_SAME = ("subject_id", "predicate", "object_key", "scope", "polarity")


@dataclass(frozen=True, slots=True)
class Held:
    """What memory holds near a batch of candidates.

    `beliefs`: PENDING_BELIEFS of the candidates' subjects, and every pending one; `evidence`: BELIEF_EVIDENCE of the
    former; `facts`: live FACTS of the candidates' subjects; `waiting`: promoted candidates that are not decided yet.
    """

    beliefs: pl.DataFrame = field(default_factory=lambda: frames.empty(frames.PENDING_BELIEFS))
    evidence: pl.DataFrame = field(default_factory=lambda: frames.empty(frames.BELIEF_EVIDENCE))
    facts: pl.DataFrame = field(default_factory=lambda: frames.empty(frames.FACTS))
    waiting: frozenset[str] = frozenset()


def routes(facts: pl.DataFrame, messages: pl.DataFrame, held: Held, settings: BeliefSettings) -> pl.DataFrame:
    """The candidates in order of being said, with said_at, belief_id and route.

    `gate`: surer than the threshold, or said by a live fact already, so that it only repeats what is known. `belief`:
    unsure, or sure and about what an open belief says, which it settles. `ignored`: too unsure to be held (S2-64).
    `seen`: its message hinted at the belief before, or does so more surely (S2-70).
    """
    rows = _marked(facts, messages, held)
    sure = pl.col("confidence") >= settings.promote_threshold
    enters = (pl.col("confidence") >= settings.min_entry) & (pl.col("confidence") > 0.0)
    hints = rows.filter(enters & ~sure & ~pl.col("is_known"))["belief_id"]
    promoted = pl.col("promoted_at").is_not_null()
    open_ = pl.concat([hints, held.beliefs.filter(~promoted)["id"]]).unique().to_list()
    closed = held.beliefs.filter(promoted)["id"].to_list()
    settles = pl.col("belief_id").is_in(open_) & ~pl.col("belief_id").is_in(closed) & ~pl.col("is_seen")
    route = (
        pl.when(pl.col("is_known") | (sure & ~settles)).then(pl.lit("gate"))
        .when(~enters).then(pl.lit("ignored"))
        .when(pl.col("is_seen")).then(pl.lit("seen"))
        .otherwise(pl.lit("belief"))
    )  # fmt: skip
    return _once(rows.with_columns(route=route)).drop("is_known", "is_seen").sort("said_at", "id")


def _marked(facts: pl.DataFrame, messages: pl.DataFrame, held: Held) -> pl.DataFrame:
    """The candidates with said_at, belief_id, is_known (by a live fact), is_seen (as evidence of that belief)."""
    said = frames.conform(messages, MESSAGES).select(
        "conversation_id", message_id="id", said_at="occurred_at"
    ).unique("message_id")  # fmt: skip
    rows = _keyed(facts.join(said, on="message_id", how="left", maintain_order="left"))
    rows = rows.with_columns(_belief_ids(rows, held), said_at=pl.coalesce("said_at", "valid_from"))
    known = _keyed(held.facts).select(*_SAME, is_known=pl.lit(True)).unique()
    seen = held.evidence.select("belief_id", "message_id", is_seen=pl.lit(True)).unique()
    for marks, key in ((known, list(_SAME)), (seen, ["belief_id", "message_id"])):
        rows = rows.join(marks, on=key, how="left", maintain_order="left")
    return rows.with_columns(pl.col("is_known", "is_seen").fill_null(False))


def _once(rows: pl.DataFrame) -> pl.DataFrame:
    """A message hints at a belief once, by its surest claim."""
    ranked = rows.sort(-pl.col("confidence"), "id")
    again = pl.int_range(pl.len()).over("route", "belief_id", "message_id") > 0
    return ranked.with_columns(
        route=pl.when((pl.col("route") == "belief") & again).then(pl.lit("seen")).otherwise("route")
    )


def _keyed(facts: pl.DataFrame) -> pl.DataFrame:
    """The facts with object_key; an observation is about its whole statement, whatever its object."""
    texts = facts["object_text"].drop_nulls().unique().to_list()
    text = pl.col("object_text").replace({each: normalise_statement(each) for each in texts})
    thing = pl.coalesce("object_id", pl.lit("text ") + text)
    is_relation = (pl.col("kind") == "relation") & thing.is_not_null()
    return facts.with_columns(
        object_key=pl.when(is_relation).then(thing).otherwise(pl.lit("statement ") + pl.col("statement_hash"))
    )


def _belief_ids(rows: pl.DataFrame, held: Held) -> pl.Series:
    """The belief that each candidate hints at: a new one where the one before became something that has ended."""
    became = held.beliefs.filter(pl.col("promoted_id").is_not_null()).select("id", "promoted_id").iter_rows()
    over = {belief: fact for belief, fact in became if fact not in held.waiting}
    keys = [*_SAME, "edge_type"]
    ids = {key: _current(row_id("b", *key), over) for key in rows.select(keys).unique().iter_rows()}
    return pl.Series("belief_id", [ids[key] for key in rows.select(keys).iter_rows()], dtype=pl.String)


def belief_ids(facts: pl.DataFrame, over: Mapping[str, str]) -> list[str]:
    """The belief that each of these FACTS hints at; `over` names beliefs whose candidate is decided, with its id."""
    keys = [*_SAME, "edge_type"]
    return [_current(row_id("b", *key), over) for key in _keyed(facts).select(keys).iter_rows()]


def _current(belief: str, over: Mapping[str, str]) -> str:
    while belief in over:
        belief = row_id("b", belief, over[belief])
    return belief

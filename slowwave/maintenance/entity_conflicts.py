"""What contradicts, or no longer does, once two entities are one: nothing is guessed (S2-58, S2-75, T31)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from slowwave.application.conflicts import Rivals
from slowwave.application.evidence import Heard
from slowwave.application.implicit import KIND, flag_doubts
from slowwave.application.rivals import names_of
from slowwave.maintenance.entity_holdings import Holdings, Pair
from slowwave.settings import ReviseSettings
from slowwave.validity import is_live


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two live facts of which one at a time can hold: their relation, and (id, statement) of each."""

    predicate: str
    known: tuple[str, str]
    moved: tuple[str, str]


def find_conflicts(
    held: Holdings, facts: pl.DataFrame, aliases: pl.DataFrame, pair: Pair, settings: ReviseSettings, now: datetime
) -> tuple[tuple[Conflict, ...], pl.DataFrame]:
    """Live facts of which one at a time can hold, and the pairs that wait for somebody who knows (S2-58, S2-75)."""
    came = held.facts.filter(pl.col("subject_id") == pair[0])["id"].implode()
    said = [
        part.filter(is_live(now), pl.col("kind") == "relation").with_columns(said_at="valid_from", place=pl.lit(place))
        for part, place in ((held.held, 0), (facts.drop("vector").filter(pl.col("id").is_in(came)), 1))
    ]
    rows = pl.concat(said, how="diagonal").sort("valid_from", "id")
    names = names_of(held.objects, pl.concat([held.object_aliases, aliases], how="diagonal"))
    types = dict(held.objects.select("id", "entity_type").iter_rows())
    rivals = Rivals(rows["predicate"], held.predicates, names, types, _heard(held.evidence))
    known, moved = ([*rows.filter(pl.col("place") == place).iter_rows(named=True)] for place in (0, 1))
    rivals.place(known)
    found = [
        Conflict(new["predicate"], (old["id"], old["statement"]), (new["id"], new["statement"]))
        for new in moved
        if new["predicate"] in rivals.single and new["polarity"] != "negated" and new["object_text"]
        for old in rivals.of(new)
    ]
    asked = [(conflict.moved[0], conflict.known[0], "") for conflict in found]
    doubts = flag_doubts(asked, pl.Series(dtype=pl.String), settings, now)
    decided = held.pairs.filter(pl.col("outcome") != "pending").select("id")
    return tuple(found), doubts.join(decided, on="id", how="anti")


def _heard(evidence: pl.DataFrame) -> Heard:
    said = evidence.group_by("fact_id").agg("message_id")
    return Heard({fact: frozenset(messages) for fact, messages in said.iter_rows()}, {}, {})


def settled_pairs(held: Holdings, facts: pl.DataFrame, archived: Sequence[str]) -> list[str]:
    """Pairs that must be looked at anew, or never again.

    What was kept apart while it was of two entities, unless a person said so; what waited beside a fact that is
    archived now; and what seemed to contradict and names one object now (T31).
    """
    moved, mine, gone = (
        ids.implode() for ids in (held.facts["id"], held.held["id"], pl.Series(archived, dtype=pl.String))
    )
    crosses = (pl.col("a_id").is_in(moved) & pl.col("b_id").is_in(mine)) | (
        pl.col("b_id").is_in(moved) & pl.col("a_id").is_in(mine)
    )
    is_doubt = (pl.col("kind") == KIND).fill_null(False)
    anew = crosses & ~is_doubt & (pl.col("decided_by") != "person").fill_null(True)
    said = pl.concat([facts, held.held], how="diagonal").select("id", told=pl.struct("subject_id", "object_id"))
    both = held.pairs.join(said, left_on="a_id", right_on="id", how="left").join(
        said, left_on="b_id", right_on="id", how="left", suffix="_b"
    )
    object_ = pl.col("told").struct.field("object_id")
    is_same = (pl.col("told") == pl.col("told_b")) & object_.is_not_null()
    now_alike = (pl.col("outcome") == "pending") & is_doubt & is_same.fill_null(False)
    return both.filter(anew | waits_for(gone) | now_alike)["id"].unique().sort().to_list()


def waits_for(facts: pl.Series) -> pl.Expr:
    """Whether a pair with one of these facts (a list of ids) is not decided."""
    return (pl.col("outcome") == "pending") & pl.any_horizontal(pl.col("a_id", "b_id").is_in(facts))

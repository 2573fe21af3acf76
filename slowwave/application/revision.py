"""Belief revision: a new fact about the same pair and the same kind of relation retires the old one (S2-62).

Off unless asked for. Likeness alone is also agreement (T10): what says the same is reinforcement and comes first.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import polars as pl
from rapidfuzz.distance import Levenshtein

from slowwave.application.board import Board, Fact
from slowwave.application.conflicts import replace
from slowwave.application.entrenchment import entrenchment_rank
from slowwave.application.repeats import OPTIONS
from slowwave.merging.guards import guards_pass
from slowwave.settings import ReviseSettings
from slowwave.similarity import word_overlap
from slowwave.validity import is_out_of_order

REASON = "belief_revision"
REINFORCED_JACCARD = 0.85
SAME_DOMAIN = 0.5
REVISIONS = {**OPTIONS, "jaccard": pl.Float64()}
_SIDES = [
    "id", "kind", "scope", "subject_id", "predicate", "object_id", "object_key", "edge_type", "polarity", "day",
    "segment", "statement", "entrenchment",
]  # fmt: skip


def find_revisions(
    fresh: pl.DataFrame, others: pl.DataFrame, pairs: pl.DataFrame, settings: ReviseSettings
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """REVISIONS: what a candidate reinforces, and what it may revise.

    `pairs` are (id, target_id, cosine) as `repeats.pairs_of` gives them; only those of the cosine of a revision count.
    Both are relations between the same two things in the same direction, of one edge type, scope and domain.
    """
    close = pairs.filter(pl.col("cosine") >= settings.revision_cosine)
    if not settings.belief_revision or close.is_empty():
        return pl.DataFrame(schema=REVISIONS), pl.DataFrame(schema=REVISIONS)
    live = pl.concat([fresh.select(_SIDES), others.filter("is_live").select(_SIDES)])
    sides = close.join(fresh.select(_SIDES), on="id").join(live, left_on="target_id", right_on="id", suffix="_b")
    same = [pl.col(name).eq_missing(pl.col(f"{name}_b")) for name in ("scope", "subject_id", "edge_type", "segment")]
    by_entity = (pl.col("object_id") == pl.col("object_id_b")).fill_null(False)
    by_text = (pl.col("object_key") == pl.col("object_key_b")) & (pl.col("object_key") != "")
    related = [pl.col(name) == "relation" for name in ("kind", "kind_b")]
    sides = sides.filter(*same, by_entity | by_text, *related)
    one_domain = [is_one_domain(a, b) for a, b in sides.select("predicate", "predicate_b").iter_rows()]
    sides = sides.filter(pl.Series(one_domain, dtype=pl.Boolean))
    sides = sides.with_columns(word_overlap(sides["statement"], sides["statement_b"])["jaccard"])
    agrees = _agrees(sides)
    rows = sides.select(
        "id", "target_id", pl.lit("words").alias("stage"), "cosine", pl.lit(0, dtype=pl.Int32).alias("rank"), "jaccard"
    )
    return rows.filter(agrees), rows.filter(~agrees)


def _agrees(sides: pl.DataFrame) -> pl.Series:
    """Whether each pair says the same, by words and guards."""
    passes = guards_pass(sides["statement"], sides["statement_b"])["passes"]
    same = [pl.col(name).eq_missing(pl.col(f"{name}_b")) for name in ("predicate", "polarity", "day")]
    weaker = entrenchment_rank("entrenchment") <= entrenchment_rank("entrenchment_b")
    by_rule = sides.select(agrees=pl.all_horizontal(*same, weaker, pl.col("jaccard") >= REINFORCED_JACCARD))["agrees"]
    return by_rule & passes


@lru_cache(maxsize=65_536)
def is_one_domain(a: str, b: str) -> bool:
    """Whether two relations are of one domain: equal, one inside the other, or half of their letters alike (S2-62)."""
    return a == b or (bool(a and b) and (a in b or b in a)) or Levenshtein.normalized_similarity(a, b) >= SAME_DOMAIN


def revise_beliefs(board: Board, new: Fact, known: Iterable[Fact], settings: ReviseSettings) -> None:
    """Retire what a new fact revises; several may fall."""
    for old in sorted(known, key=lambda fact: (fact["valid_from"], fact["id"])):
        if not board.is_open(new) or not board.is_open(old) or old["place"] >= new["place"]:
            continue
        late = is_out_of_order(new["said_at"], old["said_at"])
        if late and not board.refusal(old, old, new):
            board.comes_late(new, old, max(old["valid_from"], new["valid_from"]), REASON)
        elif not late:
            replace(board, old, new, settings, REASON, {"threshold": settings.revision_cosine})

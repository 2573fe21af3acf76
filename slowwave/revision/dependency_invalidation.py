"""Dependents of a retired fact become suspect, and are trusted again after somebody repeats them.

A merge of duplicates makes no fact suspect: the representative says the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import polars as pl

from slowwave import frames

from .mutual_exclusion import plain, read_claim
from .predicates import domain_of
from .revision_state import Fact

MARKS = {"id": pl.String(), "suspect_of": pl.String()}
_READ = [
    "id", "scope", "subject_id", "object_id", "object_text", "predicate", "polarity", "statement", "valid_from",
    "said_at", "message_id",
]  # fmt: skip
_MIN_NAME = 3
# Past acts stay true, and a taste does not depend on other facts.
_OF_ITS_OWN = frozenset(
    """said noted decided joined born_in created fixed caused_by turned_out root_cause fixed_by prefers dislikes knows
    wants_to plans_to considers used_to visited met left went_to released started finished signed""".split()
)
_MADE_FROM = ("consolidated", "dedup")


def find_dependents(
    retired: pl.DataFrame, facts: pl.DataFrame, staying: pl.DataFrame, names: Mapping[str, frozenset[str]]
) -> pl.DataFrame:
    """MARKS: live facts that depend on a retired one; of several, on the one that ended first.

    `retired` is RETIRED, `facts` all facts near (with the retired ones), `staying` those that stay live. A dependent
    has the scope and subject of the retired fact, was said before its end was known and in another message, and has the
    object of the retired fact as its own object or as a name in its statement. A change (not a mistake) leaves
    statements about the past alone.
    """
    if retired.is_empty():
        return pl.DataFrame(schema=MARKS)
    gone = retired.join(facts.select("id", "scope", "subject_id", "object_id", "object_text", "predicate"), on="id")
    pairs = (
        gone.rename({"id": "suspect_of"})
        .join(staying.select(_READ), on=["scope", "subject_id"], suffix="_b")
        .filter(
            ~pl.col("id").is_in([*retired["winner_id"], *retired["speaker_id"], *retired["id"]]),
            pl.col("said_at") < pl.col("told_at"),
            pl.col("polarity") != "negated",
        )
        .sort("ended_at", "suspect_of")
    )
    found = [(row["id"], row["suspect_of"]) for row in pairs.iter_rows(named=True) if _depends(row, names)]
    first = list(dict(reversed(found)).items())
    return pl.DataFrame(first, schema=MARKS, orient="row").sort("id")


def find_derived(retired: pl.DataFrame, lineage: pl.DataFrame, staying: pl.DataFrame) -> pl.DataFrame:
    """MARKS: live facts that consolidation made from a retired fact."""
    made = lineage.filter(pl.col("reason").is_in(_MADE_FROM)).join(retired.select(old_id="id"), on="old_id")
    live = made.join(staying.select(new_id="id"), on="new_id").sort("old_id")
    return live.unique("new_id", keep="first", maintain_order=True).select(id="new_id", suspect_of="old_id")


def _depends(row: Fact, names: Mapping[str, frozenset[str]]) -> bool:
    """Whether a live fact (suffix _b where both have the column) depends on the object of a retired one."""
    known, statement = _names(row["object_text"], row["object_id"], names), (row["statement"] or "").lower()
    same = bool(row["object_id"] and row["object_id"] == row["object_id_b"])
    same = same or plain(row["object_text_b"] or "") in known
    if not same and row["predicate_b"] == row["predicate"]:
        return False  # "moved from Oslo to Bergen" names Oslo and stands
    if not same and not any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", statement) for name in known):
        return False
    return bool(row["is_mistake"]) or _ends_with(row)


def _ends_with(row: Fact) -> bool:
    """Whether the live fact is a state that ends with the other: a role ends with the job, a taste does not."""
    if row["predicate_b"] in _OF_ITS_OWN:
        return False
    domain = domain_of(row["predicate_b"])
    if domain:
        return domain in _TIED.get(domain_of(row["predicate"]), ())
    return read_claim(row["statement"] or "", row["object_text"] or "").is_plain


# Domain of an ended state → domains of the states that end with it.
_TIED: Mapping[str, frozenset[str]] = {
    "work": frozenset({"work", "role", "responsibility", "membership", "task"}),
    "home": frozenset({"home", "membership"}),
    "partner": frozenset({"partner"}),
    "study": frozenset({"study", "membership"}),
    "membership": frozenset({"membership", "role", "responsibility"}),
    "role": frozenset({"role", "responsibility"}),
    "use": frozenset({"use"}),
    "task": frozenset({"task"}),
}


def _names(text: str | None, entity: str | None, names: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """The names of an object that are long enough for a search."""
    known = names.get(entity or "", frozenset()) | {plain(text or "")}
    return frozenset(name for name in known if len(name) >= _MIN_NAME)


def find_trusted(marked: pl.DataFrame, evidence: pl.DataFrame, ends: pl.DataFrame) -> list[str]:
    """Ids of suspect facts (id, suspect_of) that somebody repeated after the end of the retired fact.

    `evidence` is the new evidence (fact_id, occurred_at), `ends` (id, valid_to) of the retired facts.
    """
    again = evidence.group_by(id="fact_id").agg(again=pl.col("occurred_at").max())
    both = marked.filter(pl.col("suspect_of").is_not_null()).join(again, on="id")
    both = both.join(ends.select(suspect_of="id", ended="valid_to"), on="suspect_of", how="left")
    return both.filter((pl.col("again") >= pl.col("ended")).fill_null(True))["id"].unique().sort().to_list()


def mark_dependents(
    retired: pl.DataFrame,
    facts: pl.DataFrame,
    staying: pl.DataFrame,
    known: pl.DataFrame,
    lineage: pl.DataFrame,
    evidence: pl.DataFrame,
    names: Mapping[str, frozenset[str]],
) -> tuple[pl.DataFrame, list[Mapping[str, object]]]:
    """MARKS of facts that become suspect (null: trusted again), and the decisions.

    `known` are the stored facts near (id, suspect_of, valid_to), `evidence` the new rows; for the rest see
    `find_dependents`. A fact that is suspect already keeps its mark.
    """
    marked = frames.conform(known, frames.FACTS).filter(pl.col("suspect_of").is_not_null()).select(*MARKS)
    found = [find_dependents(retired, facts, staying, names), find_derived(retired, lineage, staying)]
    leaning = pl.concat(found).unique("id", keep="first", maintain_order=True).join(marked, on="id", how="anti")
    trusted = marked.filter(pl.col("id").is_in(find_trusted(marked, evidence, known))).sort("id")
    decisions = [
        _decision("suspect", id_, of, "It leans on a fact that does not hold any more.")
        for id_, of in leaning.iter_rows()
    ]
    decisions += [
        _decision("trust", id_, of, "It was said again after what it leans on had ended.")
        for id_, of in trusted.iter_rows()
    ]
    cleared = trusted.with_columns(suspect_of=pl.lit(None, dtype=pl.String))
    return pl.concat([leaning, cleared]), decisions


def _decision(action: str, fact: str, of: str, reason: str) -> Mapping[str, object]:
    rule = {"measures": {}, "decided_by": "rule", "model": ""}
    return {"action": action, "subject_id": fact, "ids_in": [of], "ids_out": [fact], "reason": reason, **rule}

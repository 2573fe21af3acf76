"""What changes when a message or a fact comes late? The memory is the same in any order (§6.3, S1-21, S3-04).

A candidate may be older than known facts. Then three cases are decided again: stored directives about such a fact; a
fact with evidence before and after the candidate (it may end in between); and a fact with the same words that was first
said after the candidate (one interval, or two).

A historical fact is a candidate that is over already when it arrives, for example from another memory. It ends no other
fact, and is never the target of a duplicate.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import cast

import polars as pl

from slowwave.common import frames
from slowwave.common.decisions import Row
from slowwave.common.text import as_json, timed_id

from .candidates import DIRECTIVES
from .repetition import DUPLICATES, TEXT_KEY, ends_later, in_words
from .revision_state import ENDED_BY, Supersessions
from .supersession import READ, RETRACT, SUPERSEDE

REPEATED = "repeats "
"""Start of the status_reason of a rejected duplicate; the id of the repeated fact follows."""
_ABOUT = ["scope", "subject_id"]
_ORDER = ("said_at", "valid_from", "id")
_OWN = ["message_id", "valid_from", "statement", "statement_hash", "search_terms", "object_text", "object_id", "quote",
        "confidence"]  # fmt: skip


def in_message_order(fresh: pl.DataFrame) -> pl.DataFrame:
    """The candidates in message order, with their place."""
    ordered = fresh.sort(*_ORDER) if len(fresh) > 1 else fresh
    return ordered.with_columns(pl.Series("place", range(len(fresh)), pl.Int64))


def replay_evidence(
    fresh: pl.DataFrame,
    others: pl.DataFrame,
    known: pl.DataFrame,
    evidence: pl.DataFrame,
    single: frozenset[str],
    spared: frozenset[str],
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Candidates and facts, with each fact in its state at the time of the first candidate about its subject.

    Later evidence of the fact becomes a candidate again (`again_of` is the id of the fact, null for other candidates):
    if the fact ended in between, that candidate is an interval of its own. `known` are FACTS of any status, `evidence`
    FACT_EVIDENCE. If a candidate of a relation that allows one object (`single`) comes late, the whole class is decided
    again from its first statement on: these facts have `is_replayed`. A class with one of the `spared` facts stays.
    """
    fresh = fresh.with_columns(again_of=pl.lit(None, dtype=pl.String))
    statements = evidence.select(again_of="fact_id", message_id="message_id", at="occurred_at").drop_nulls()
    sayings = others.select(*_ABOUT, again_of="id").join(statements, on="again_of")
    again = _come_late(fresh, others, sayings, single, spared)
    others = others.with_columns(is_replayed=pl.col("id").is_in(again["id"].implode()))
    later = sayings.group_by(*_ABOUT, "again_of").agg(first=pl.col("at").min())
    later = later.join(fresh.select(*_ABOUT, "said_at").unique(), on=_ABOUT).filter(
        pl.col("said_at") >= pl.col("first")
    )
    cuts = later.group_by("again_of").agg(cut=pl.col("said_at").min())
    torn = sayings.join(cuts, on="again_of").filter((pl.col("at").max() > pl.col("cut")).over("again_of"))
    torn = torn.join(again, left_on="again_of", right_on="id", how="anti")
    whole = sayings.join(again, left_on="again_of", right_on="id", how="semi")
    if torn.is_empty() and whole.is_empty():
        return fresh, others
    before = torn.filter(pl.col("at") <= pl.col("cut")).group_by(id="again_of").agg(said_at=pl.col("at").max())
    whole = pl.concat([torn.filter(pl.col("at") > pl.col("cut")).drop("cut"), whole])
    return _with_sayings(fresh, others, known, whole), others.update(before, on="id")


def _come_late(
    fresh: pl.DataFrame, others: pl.DataFrame, sayings: pl.DataFrame, single: frozenset[str], spared: frozenset[str]
) -> pl.DataFrame:
    """(id): the facts of classes for which a candidate comes late.

    A class is a scope, subject and relation that allows one object. A candidate is late if a fact of its class has
    later evidence, or a later end.
    """
    of_one = pl.col("predicate").is_in(list(single)) & (pl.col("polarity") != "negated").fill_null(True)
    is_spared = pl.col("id").is_in(list(spared)).any().over(*_ABOUT, "predicate")
    classes = others.filter(of_one).filter(~is_spared).select(*_ABOUT, "predicate", "id", "valid_to")
    last = classes.join(sayings.group_by(id="again_of").agg(at=pl.col("at").max()), on="id")
    last = last.with_columns(last=pl.max_horizontal("at", "valid_to"))
    new = fresh.filter(of_one).select(*_ABOUT, "predicate", "said_at").group_by(*_ABOUT, "predicate").min()
    late = last.join(new, on=[*_ABOUT, "predicate"]).filter(pl.col("said_at") < pl.col("last"))
    return classes.join(late, on=[*_ABOUT, "predicate"], how="semi").select("id")


def reopened(others: pl.DataFrame, fresh: pl.DataFrame) -> pl.DataFrame:
    """The facts; replayed ones in their state at their first statement: live and without an end."""
    first = fresh.filter(pl.col("again_of").is_not_null()).sort("place").unique("again_of", keep="first")
    first = first.select("said_at", "place", id="again_of").join(others.filter("is_replayed"), on="id", how="semi")
    opened = pl.when(~_is_ended())
    kinds = {"valid_to": frames.TIME, "replaced_by": pl.String(), "status_reason": pl.String()}
    return others.with_columns(
        *(opened.then(name).otherwise(pl.lit(None, dtype=kind)).alias(name) for name, kind in kinds.items()),
        status=opened.then("status").otherwise(pl.lit("active")),
        is_live=pl.col("is_live") | _is_ended(),
    ).update(first, on="id")


def left_open(others: pl.DataFrame, supersessions: Supersessions) -> frozenset[str]:
    """Ids of ended facts that the replay would leave open: their class must stay as it is."""
    return frozenset(others.filter(_is_ended()).join(supersessions.facts, on="id", how="anti")["id"])


def changed_supersessions(supersessions: Supersessions, others: pl.DataFrame) -> Supersessions:
    """The supersessions without those of replayed facts that are the same as before."""
    again = others.filter("is_replayed")
    same = list(
        again.join(supersessions.facts, on=["id", "valid_to", "replaced_by"], how="semi", nulls_equal=True)["id"]
    )
    known, changed = frozenset(again["id"]), frozenset(supersessions.facts["id"]) - frozenset(same)

    new = dict(supersessions.facts.select("id", "valid_to").iter_rows())
    ends = {id_: [old, new[id_]] for id_, old in again.select("id", "valid_to").iter_rows() if old and id_ in changed}
    facts, ended = (part.filter(~pl.col("id").is_in(same)) for part in (supersessions.facts, supersessions.ended))
    return replace(
        supersessions,
        facts=facts,
        ended=ended,
        decisions=[
            _since_stored(row, ends)
            for row in supersessions.decisions
            if row["subject_id"] in changed or not known.issuperset(cast(list[str], row["ids_in"]))
        ],
        doubts=tuple(doubt for doubt in supersessions.doubts if not known.issuperset(doubt[:2])),
    )


def _since_stored(row: Row, ends: Mapping[str, list[datetime]]) -> Row:
    """The decision; one that moves an end also names the stored end, for questions about earlier knowledge."""
    id_ = str(row["subject_id"])
    if id_ not in ends:
        return row
    return {**row, "measures": as_json({**json.loads(str(row["measures"])), "valid_to": ends[id_]})}


def _is_ended() -> pl.Expr:
    """Whether a replayed fact was ended by another fact or by a directive."""
    by_other = (pl.col("status") == "superseded") & pl.col("replaced_by").is_not_null()
    by_directive = pl.col("status_reason").fill_null("").str.starts_with(ENDED_BY)
    return pl.col("is_replayed") & pl.col("valid_to").is_not_null() & (by_other | by_directive)


def _with_sayings(fresh: pl.DataFrame, others: pl.DataFrame, known: pl.DataFrame, torn: pl.DataFrame) -> pl.DataFrame:
    """The candidates, and evidence of facts (again_of, message_id, at) as candidates, with its own wording if known."""
    wording = known.filter(pl.col("status") == "rejected").select(*_OWN, again_of="similar_to_id")
    sayings = torn.join(wording, on=["again_of", "message_id"], how="left", maintain_order="left")
    sayings = sayings.unique(["again_of", "message_id"], keep="first", maintain_order=True).drop(_ABOUT)
    rows = sayings.join(others, left_on="again_of", right_on="id", suffix="_of", maintain_order="left")
    worded = pl.col("statement").is_not_null()
    is_own = (pl.col("message_id") == pl.col("message_id_of")) & (pl.col("at") == pl.col("first_at"))
    own_beginning = pl.when(is_own).then("valid_from_of")
    rows = rows.with_columns(
        *(pl.when(worded).then(name).otherwise(f"{name}_of").alias(name) for name in _OWN[2:]),
        valid_from=pl.coalesce("valid_from", own_beginning, "at"),
        said_at="at",
        first_at="at",
        status=pl.lit("candidate"),
        evidence_count=pl.lit(1, dtype=pl.Int64),
        similarity_flag=pl.lit(False),
        consolidation_attempts=pl.lit(0, dtype=pl.Int64),
        **{
            name: pl.lit(None, dtype=frames.FACTS[name])
            for name in ("valid_to", "expired_at", "consolidated_at", "status_reason", "replaced_by", "supersedes_id")
        },
    )
    made = rows.select("valid_from", "again_of", "message_id").iter_rows()
    rows = rows.with_columns(id=pl.Series([timed_id("f", at, *parts) for at, *parts in made], dtype=pl.String))
    return pl.concat([fresh, rows.select([name for name in fresh.columns if name in rows.columns])], how="diagonal")


def evidence_options(fresh: pl.DataFrame) -> pl.DataFrame:
    """OPTIONS: evidence still belongs to its fact, unless the fact ended before that message."""
    again = fresh.filter(pl.col("again_of").is_not_null(), pl.col("segment").is_null())
    return in_words(again.select("id", target_id="again_of", rank=pl.lit(0)))


def early_candidates(fresh: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    """(id, next_id, next_from): candidates older than a fact with the same words.

    Without candidates that repeat another fact, which was said before them and still held.
    """
    key = [name for name in TEXT_KEY if name != "segment"]
    mine = fresh.filter(pl.col("again_of").is_null()).select("id", "said_at", "valid_from", *key)
    facts = others.select(*key, "first_at", "is_live", "from_", "to", next_id="id")
    both = mine.join(facts, on=key, nulls_equal=True)
    holds = (pl.col("first_at") <= pl.col("said_at")) & (pl.col("is_live") | ends_later())
    follows = both.filter(~holds.any().over("id"), pl.col("first_at") > pl.col("said_at"))
    first = follows.sort("first_at", "next_id").unique("id", keep="first", maintain_order=True)
    return first.select("id", "next_id", next_from="from_")


def with_early_segments(fresh: pl.DataFrame, early_ones: pl.DataFrame) -> pl.DataFrame:
    """The candidates; early ones get a segment of their own until it is known whether they lasted."""
    mark = early_ones.select("id", mark=pl.lit("before ") + pl.col("next_id"))
    marked = fresh.join(mark, on="id", how="left", maintain_order="left")
    return marked.with_columns(segment=pl.coalesce("segment", "mark")).drop("mark")


def lasting_candidates(
    early_ones: pl.DataFrame, duplicates: pl.DataFrame, supersessions: Supersessions, joined: Mapping[str, str]
) -> dict[str, str]:
    """Early candidates that held until the fact with the same words began → id of that fact."""
    roots = early_ones.join(duplicates, on="id", how="anti").filter(~pl.col("id").is_in([*joined]))
    ends = supersessions.facts.select("id", end="valid_to")
    still = roots.join(ends, on="id", how="left").filter((pl.col("end") >= pl.col("next_from")).fill_null(True))
    return dict(still.select("id", "next_id").iter_rows())


def early_options(fresh: pl.DataFrame, joined: Mapping[str, str]) -> pl.DataFrame:
    """OPTIONS: early candidates that lasted until a fact with the same words."""
    schema = {"id": pl.String, "target_id": pl.String}
    pairs = pl.DataFrame(list(joined.items()), schema=schema, orient="row").join(fresh, on="id", how="semi")
    return in_words(pairs.with_columns(rank=pl.lit(0)))


def with_earlier_starts(others: pl.DataFrame, fresh: pl.DataFrame, joined: Mapping[str, str]) -> pl.DataFrame:
    """The facts; one that an early candidate joined begins at the time and place of that candidate."""
    if not joined:
        return others
    begun = fresh.filter(pl.col("id").is_in(list(joined))).sort("place", descending=True)
    begun = begun.select("said_at", "valid_from", "place", id=pl.col("id").replace(joined))
    first = begun.unique("id", keep="last").join(others.select("id", known_from="valid_from"), on="id")
    first = first.with_columns(valid_from=pl.min_horizontal("valid_from", "known_from")).drop("known_from")
    return others.update(first.with_columns(from_="valid_from"), on="id")


def directive_facts(known: pl.DataFrame, directives: pl.DataFrame, times: pl.DataFrame) -> pl.DataFrame:
    """(READ…, winner_id): known facts whose directives end others; `times` are (message_id, said_at)."""
    ending = directives.filter(pl.col("action").is_in([SUPERSEDE, RETRACT]))
    rows = frames.conform(known, frames.FACTS).join(ending.select(id="candidate_id").unique(), on="id", how="semi")
    repeated = pl.col("status_reason").fill_null("").str.starts_with(REPEATED)
    speaking = rows.filter(pl.col("status").is_in(["active", "superseded"]) | repeated).join(times, on="message_id")
    return speaking.with_columns(
        first_at="said_at",
        place=pl.lit(-1, dtype=pl.Int64),
        winner_id=pl.when(repeated).then("similar_to_id").otherwise("id"),
    ).select(*READ, "winner_id")


def times_of(evidence: pl.DataFrame, messages: pl.DataFrame) -> pl.DataFrame:
    """(message_id, said_at) of all evidence and messages."""
    times = [
        evidence.select("message_id", said_at="occurred_at"),
        messages.select(message_id="id", said_at="occurred_at"),
    ]
    return pl.concat(times).drop_nulls().unique("message_id")


def stored_directives(directives: pl.DataFrame, speakers: pl.DataFrame) -> pl.DataFrame:
    """(id, known_id, object, action, reason): ending directives of known speakers."""
    rows = frames.conform(directives, DIRECTIVES).rename({"candidate_id": "id"})
    return rows.filter(pl.col("action").is_in([SUPERSEDE, RETRACT])).join(speakers, on="id", how="semi")


def is_past(now: datetime) -> pl.Expr:
    """Whether the fact had ended at `now`."""
    return (pl.col("valid_to") <= frames.moment(now)).fill_null(False)


def repeated_past(past: pl.DataFrame, facts: pl.DataFrame, gone: pl.Series) -> pl.DataFrame:
    """DUPLICATES among historical candidates: those with the words of a fact that held when they began.

    The others stay, as intervals of their own. `past` and `facts` have the comparison keys, `facts` also `from_` and
    `to`; `gone` are ids of facts that other candidates end.
    """
    key = [*TEXT_KEY, "valid_from", "valid_to"]
    first = past.sort("place").unique(key, keep="first", maintain_order=True).select(*key, target_id="id")
    inside = past.join(first, on=key, nulls_equal=True).filter(pl.col("id") != pl.col("target_id"))
    root: dict[str, str] = dict(inside.select("id", "target_id").iter_rows())
    for id_, target in _pairs(past, facts, gone).iter_rows():
        root.setdefault(id_, target)
    found = [(id_, root.get(target, target), "text", None) for id_, target in root.items()]
    return pl.DataFrame(found, schema=DUPLICATES, orient="row")


def _pairs(past: pl.DataFrame, facts: pl.DataFrame, gone: pl.Series) -> pl.DataFrame:
    """(id, target_id): candidates in their order with the facts whose words they repeat, live facts first."""
    known = facts.filter(~pl.col("id").is_in(gone.implode())).select(
        *TEXT_KEY, "is_live", "from_", "to", target_id="id"
    )
    both = past.select("id", "place", "valid_from", *TEXT_KEY).join(known, on=TEXT_KEY, nulls_equal=True)
    met = both.filter(pl.col("from_") <= pl.col("valid_from"), ends_later())
    return met.sort("place", ~pl.col("is_live"), "target_id").select("id", "target_id")

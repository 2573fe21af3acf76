"""Which candidates repeat a fact, and what does a repetition change? (§6.2 S1–S3, S0-02, S2-13, S2-57, S4-21, C13)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import polars as pl

from slowwave.common import frames
from slowwave.common.comparison.guards import guards_pass, is_time_bound, polarity, quantities
from slowwave.common.comparison.similarity import SimilarityThresholds, contained_pairs, word_overlap
from slowwave.common.settings import EvaluateSettings
from slowwave.common.text import normalise_name, row_id
from slowwave.common.validity import entrenchment_named, entrenchment_rank

from .search_terms import joined_words

NEIGHBOURS = {"candidate_id": pl.String(), "fact_id": pl.String(), "cosine": pl.Float64()}
PAIRS = {"id": pl.String(), "target_id": pl.String(), "cosine": pl.Float64()}
FLAGS = {
    "id": pl.String(),
    "similar_to_id": pl.String(),
    "similarity_score": pl.Float64(),
    "related_id": pl.String(),
}
DUPLICATES = {"id": pl.String(), "target_id": pl.String(), "stage": pl.String(), "cosine": pl.Float64()}
OPTIONS = {**DUPLICATES, "rank": pl.Int32()}
"""Possible duplicates; of equal ones the lowest rank counts."""
ALIKE = {"id": pl.String(), "target_id": pl.String(), "cosine": pl.Float64(), "share": pl.Float64()}
"""A candidate and an earlier statement of its owner that looks like it; the share of words that the longer one has."""
# "now" and "currently" tell of a lasting state: the same words on another day say the same.
_LASTING = re.compile(r"\b(?:right now|now|currently|at the moment|ahora|jetzt)\b", re.IGNORECASE)
_LESS = ("relation", "observation")
TEXT_KEY = ["scope", "subject_id", "statement_hash", "polarity", "object_key", "day", "segment"]


def with_keys(facts: pl.DataFrame) -> pl.DataFrame:
    """Adds the comparison keys: object_key, segment, and the day for statements about one day.

    The segment is null; `with_new_segments` sets it where the same words begin a new interval.
    """
    plain = pl.Series([_LASTING.sub("", statement or "") for statement in facts["statement"]], dtype=pl.String)
    starts = zip(is_time_bound(plain), facts["valid_from"], strict=True)
    days = [start.date() if is_bound and start is not None else None for is_bound, start in starts]
    objects = [(text or "").strip().lower() for text in facts["object_text"]]
    return facts.with_columns(
        frames.nothing("segment", pl.String(), len(facts)),
        pl.Series("object_key", objects, pl.String),
        pl.Series("day", days, pl.Date),
    )


def with_new_segments(
    fresh: pl.DataFrame, duplicates: pl.DataFrame, ended: pl.DataFrame, others: pl.DataFrame
) -> pl.DataFrame:
    """The candidates; one that repeats a fact after its end gets a segment, a new interval (S2-57).

    "At Acme", "left Acme", "at Acme again": the last is a second interval, not a duplicate of the first. `ended` are
    (id, ended_at, noted_at) of this batch, `others` the known facts.
    """
    over = others.filter(pl.col("to").is_not_null()).select("id", ended_at="to", noted_at="to")
    ends = pl.concat([over, ended.select(over.columns)]).unique("id", keep="last", maintain_order=True)
    again = (
        fresh.select("id", "said_at", "valid_from")
        .join(duplicates.select("id", "target_id"), on="id")
        .join(ends, left_on="target_id", right_on="id")
        .filter(pl.col("said_at") > pl.col("noted_at"), pl.col("valid_from") >= pl.col("ended_at"))
        .select("id", after="target_id")
    )
    marked = fresh.join(again, on="id", how="left", maintain_order="left")
    return marked.with_columns(segment=pl.coalesce("after", "segment")).drop("after")


def pairs_of(fresh: pl.DataFrame, others: pl.DataFrame, neighbours: pl.DataFrame) -> pl.DataFrame:
    """(id, target_id, cosine) of neighbours where the target is a fact or an earlier candidate.

    `fresh` and `others` need id and place; facts from before the batch have place -1.
    """
    if neighbours.is_empty():
        return pl.DataFrame(schema=PAIRS)
    places = dict(frames.rows_of(fresh, "id", "place"))
    targets = places | dict(frames.rows_of(others, "id", "place"))
    best: dict[tuple[str, str], float] = {}
    for id_, target, cosine in frames.rows_of(neighbours, *NEIGHBOURS):
        for pair in ((id_, target), (target, id_)):
            if pair[0] in places and pair[1] in targets and targets[pair[1]] < places[pair[0]]:
                best[pair] = max(cosine, best.get(pair, cosine))
    return pl.DataFrame([(*pair, cosine) for pair, cosine in best.items()], schema=PAIRS, orient="row")


def find_exact_duplicates(
    fresh: pl.DataFrame,
    others: pl.DataFrame,
    pairs: pl.DataFrame,
    settings: EvaluateSettings,
    reinforced: pl.DataFrame,
) -> pl.DataFrame:
    """DUPLICATES: candidates that repeat a fact or an earlier candidate, in the same words or with the same meaning.

    `others` are the facts, with the interval `from_` to `to` in which they may be repeated. A target is never a
    duplicate itself. `reinforced` are further OPTIONS (S2-62).
    """
    found = [_same_words(fresh, others), _same_meaning(fresh, others, pairs, settings), reinforced]
    options = pl.concat([part.select(*OPTIONS) for part in found])
    options = options.join(fresh.select("id", "place"), on="id").sort(
        "place", pl.col("stage") != "text", -pl.col("cosine").fill_null(1.0), "rank", "target_id"
    )
    root: dict[str, str] = {}
    rows: list[tuple[str, str, str, float | None]] = []
    for id_, target, stage, cosine in frames.rows_of(options, "id", "target_id", "stage", "cosine"):
        # Word for word repetition is transitive; similarity is not.
        if id_ in root or (target in root and stage != "text"):
            continue
        root[id_] = root.get(target, target)
        rows.append((id_, root[id_], stage, cosine))
    return pl.DataFrame(rows, schema=DUPLICATES, orient="row")


def stated_duplicates(
    fresh: pl.DataFrame, others: pl.DataFrame, directives: pl.DataFrame
) -> tuple[pl.DataFrame, list[tuple[str, str, str]]]:
    """OPTIONS from claims that say that they repeat a fact, and (id, known id, reason) of the refused ones.

    `directives` (id, known_id, …). The known fact must hold and have the same scope and subject; denials and numbers
    must agree, and an observation does not repeat a relation (G1, G2).
    """
    columns = ["id", "kind", "scope", "subject_id", "polarity", "statement"]
    known = others.filter("is_live").select(columns)
    both = directives.select("id", "known_id").drop_nulls().unique(maintain_order=True)
    sides = both.join(fresh.select(columns), on="id", maintain_order="left").join(
        known, left_on="known_id", right_on="id", how="left", suffix="_b", maintain_order="left"
    )
    rows: list[tuple[str, str, str, float | None, int]] = []
    refused: list[tuple[str, str, str]] = []
    for row in sides.iter_rows(named=True):
        if reason := _unlike(row):
            refused.append((row["id"], row["known_id"], reason))
        else:
            rows.append((row["id"], row["known_id"], "stated", None, 0))
    return pl.DataFrame(rows, schema=OPTIONS, orient="row"), refused


def _unlike(row: Mapping[str, Any]) -> str:
    """Why a candidate does not repeat a fact (suffix _b); empty if it does."""
    if (row["scope"], row["subject_id"]) != (row["scope_b"], row["subject_id_b"]):
        return "It is said to repeat what is about something else, or holds no longer."
    texts = row["statement"] or "", row["statement_b"] or ""
    denials = [bool(polarity(text)) for text in texts]
    if row["polarity"] != row["polarity_b"] or denials[0] != denials[1]:
        return "It is said to repeat what it denies."
    one, other = ({*quantities(text)} for text in texts)
    if one - other and other - one:
        return "It is said to repeat another number."
    return "An observation says less than a relation." if (row["kind"], row["kind_b"]) == _LESS else ""


def ends_later() -> pl.Expr:
    """Whether the interval of a fact (column `to`) goes on after `valid_from`."""
    return pl.col("to").is_null() | (pl.col("to") > pl.col("valid_from"))


def in_words(pairs: pl.DataFrame) -> pl.DataFrame:
    """OPTIONS of pairs (id, target_id, rank) with the same words."""
    rank, none = pl.col("rank").cast(pl.Int32), pl.lit(None, dtype=pl.Float64)
    return pairs.select("id", "target_id", stage=pl.lit("text"), cosine=none, rank=rank)


def _same_words(fresh: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    """S1: equal normalised text of one subject, object and scope; within the batch the first one is the target."""
    first = fresh.unique(TEXT_KEY, keep="first", maintain_order=True).select(*TEXT_KEY, target_id="id", rank=pl.lit(2))
    inside = (
        fresh.select("id", *TEXT_KEY)
        .join(first, on=TEXT_KEY, nulls_equal=True)
        .filter(pl.col("id") != pl.col("target_id"))
    )
    stored = fresh.select("id", "valid_from", *TEXT_KEY).join(
        others.select("is_live", "from_", "to", *TEXT_KEY, target_id="id"), on=TEXT_KEY, nulls_equal=True
    )
    covers = (pl.col("from_") <= pl.col("valid_from")) & ends_later()
    stored = stored.filter(pl.col("is_live") | covers).with_columns(rank=pl.when(covers).then(0).otherwise(1))
    return pl.concat([in_words(part) for part in (stored, inside)])


_SIDES = (
    "id kind scope subject_id predicate object_id object_key edge_type polarity day segment statement entrenchment"
).split()


def sides_of(pairs: pl.DataFrame, fresh: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    """The pairs (id, target_id, …) of candidates with each other and with live facts, and the columns of both sides."""
    live = pl.concat([fresh.select(_SIDES), others.filter("is_live").select(_SIDES)])
    return pairs.join(fresh.select(_SIDES), on="id").join(live, left_on="target_id", right_on="id", suffix="_b")


def _same_meaning(
    fresh: pl.DataFrame, others: pl.DataFrame, pairs: pl.DataFrame, settings: EvaluateSettings
) -> pl.DataFrame:
    """S2: cosine at the reassertion threshold and every guard G1–G4."""
    close = pairs.filter(pl.col("cosine") >= settings.reassert_cosine)
    if close.is_empty():
        return pl.DataFrame(schema=OPTIONS)
    sides = sides_of(close, fresh, others)
    same = [
        pl.col(name).eq_missing(pl.col(f"{name}_b"))
        for name in ("scope", "subject_id", "polarity", "day", "segment", "kind")
    ]
    one_object = (pl.col("object_key") == pl.col("object_key_b")) | (
        pl.col("object_id") == pl.col("object_id_b")
    ).fill_null(False)
    one_triple = (pl.col("kind") == "observation") | ((pl.col("predicate") == pl.col("predicate_b")) & one_object)
    weaker = entrenchment_rank("entrenchment") <= entrenchment_rank("entrenchment_b")
    sides = sides.filter(pl.all_horizontal(*same), one_triple, weaker)
    passes = guards_pass(sides["statement"], sides["statement_b"])["passes"]
    return sides.filter(passes).select(
        "id", "target_id", pl.lit("meaning").alias("stage"), "cosine", pl.lit(0, dtype=pl.Int32).alias("rank")
    )


def find_flags(
    fresh: pl.DataFrame,
    others: pl.DataFrame,
    pairs: pl.DataFrame,
    settings: EvaluateSettings,
    alike: pl.DataFrame | None = None,
    elsewhere: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """(id, similar_to_id, similarity_score, related_id) of candidates that stay.

    Similar (S0-02): a fact of the same owner and scope, by cosine, by contained words, or the same edge in other words
    (S2-13); or what the caller found `alike` (ALIKE). Related (S4-21): the nearest other fact of the scope, which may
    be one of `elsewhere` (NEIGHBOURS) too.
    """
    near = pl.DataFrame(schema=PAIRS)
    if alike is None or len(pairs):
        columns = "id place scope owner_entity_id subject_id predicate object_key edge_type kind statement".split()
        everyone = pl.concat([part.select(columns) for part in (fresh, others)])
        rows = everyone.select("id", "scope", "owner_entity_id")
        sides = pairs.join(rows, on="id").join(rows, left_on="target_id", right_on="id", suffix="_b")
        near = sides.filter(pl.col("scope") == pl.col("scope_b")).select(
            "id", "target_id", "cosine", one_owner=pl.col("owner_entity_id") == pl.col("owner_entity_id_b")
        )
        alike = _alike(everyone, near, settings) if alike is None else alike
    taken = {*frames.rows_of(alike, "id", "target_id")}
    beyond = [] if elsewhere is None else frames.rows_of(elsewhere, *NEIGHBOURS)
    related: dict[str, tuple[float, str]] = {}
    for id_, target, cosine in (*frames.rows_of(near, *PAIRS), *beyond):
        if cosine >= settings.related_cosine and (id_, target) not in taken:
            related[id_] = min((-cosine, target), related.get(id_, (0.0, target)))
    similar = {id_: found for id_, *found in best_of(alike).iter_rows()} if len(alike) else {}
    found = [(id_, *similar.get(id_, (None, None)), related.get(id_, (0.0, None))[1]) for id_ in fresh["id"]]
    return pl.DataFrame(found, schema=FLAGS, orient="row")


def best_of(alike: pl.DataFrame) -> pl.DataFrame:
    """(id, similar_to_id, similarity_score) of ALIKE: the nearest, then the most contained, then the lowest id."""
    return (
        alike.sort("id", -pl.col("cosine").fill_null(-2.0), -pl.col("share").fill_null(-1.0), "target_id")
        .unique("id", keep="first", maintain_order=True)
        .select("id", similar_to_id="target_id", similarity_score="cosine")
    )


def _alike(everyone: pl.DataFrame, near: pl.DataFrame, settings: EvaluateSettings) -> pl.DataFrame:
    """ALIKE of the new ones among these rows; `near` are their pairs of one scope, with `one_owner`."""
    close = near.filter(pl.col("cosine") >= settings.flag_cosine, pl.col("one_owner"))
    contained, shown = _contained(everyone, settings), ["id", "target_id"]
    options = pl.concat([part.select(shown) for part in (close, contained, _same_edge(everyone))]).unique()
    cosines = near.select(*shown, "cosine")
    return options.join(cosines, on=shown, how="left").join(contained, on=shown, how="left").select(*ALIKE)


def _same_edge(everyone: pl.DataFrame) -> pl.DataFrame:
    """(id, target_id) of new ones and the first with the same edge, which they say in other words."""
    new = everyone.filter(pl.col("place") >= 0)
    key = ["scope", "subject_id", "predicate", "object_key", "edge_type"]
    related = everyone.filter((pl.col("kind") == "relation") & (pl.col("object_key") != "")).sort("place", "id")
    first = related.unique(key, keep="first", maintain_order=True).select(*key, target_id="id", target_place="place")
    return new.join(first, on=key).filter(pl.col("target_place") < pl.col("place")).select("id", "target_id")


def _contained(everyone: pl.DataFrame, settings: EvaluateSettings) -> pl.DataFrame:
    """(id, target_id, share) of pairs of one owner where the longer text has most words of a much shorter one."""
    rows = everyone.sort("place")
    owners = rows.select(owner=pl.struct("scope", "owner_entity_id").rank("dense"))["owner"].to_numpy()
    known, texts, ids = (rows["place"] < 0).sum(), rows["statement"], rows["id"]
    pairs = contained_pairs(texts, owners, SimilarityThresholds.of(settings), int(known))
    share = word_overlap(texts.gather(pairs["a"]), texts.gather(pairs["b"]))["containment"]
    return pairs.select(id=ids.gather(pairs["b"]), target_id=ids.gather(pairs["a"]), share=share)


@dataclass(frozen=True, slots=True)
class FactSources:
    """Sources of facts, this batch among them.

    `messages`, `times`: fact id → message ids, times. `speakers`: message id → normalised name. `at`: message id →
    time.
    """

    messages: Mapping[str, frozenset[str]]
    times: Mapping[str, frozenset[datetime]]
    speakers: Mapping[str, str]
    at: Mapping[str, datetime] = field(default_factory=dict)


def fact_sources(
    fresh: pl.DataFrame, duplicates: pl.DataFrame, evidence: pl.DataFrame, messages: pl.DataFrame
) -> FactSources:
    """The sources of each fact; `duplicates` are (id, target_id) of candidates that repeat a fact."""
    again = fresh.join(duplicates.select("id", "target_id"), on="id")
    again = again.select("message_id", fact_id="target_id", occurred_at="said_at")
    first = fresh.select("message_id", fact_id="id", occurred_at="said_at")
    known = evidence.select("message_id", "fact_id", "occurred_at")
    by_fact = pl.concat([known, again, first]).drop_nulls(["fact_id", "message_id"]).group_by("fact_id").agg(pl.all())
    return FactSources(
        {fact: frozenset(ids) for fact, ids in frames.rows_of(by_fact, "fact_id", "message_id")},
        {fact: frozenset(times) for fact, times in frames.rows_of(by_fact, "fact_id", "occurred_at")},
        {id_: normalise_name(name) for id_, name in frames.rows_of(messages, "id", "speaker") if name},
        dict(by_fact.explode("message_id", "occurred_at").select("message_id", "occurred_at").iter_rows()),
    )


def evidence_rows(
    fresh: pl.DataFrame, duplicates: pl.DataFrame, known: pl.DataFrame, facts: pl.DataFrame, again: pl.DataFrame
) -> pl.DataFrame:
    """FACT_EVIDENCE that is not stored yet; evidence of `again_of` moves to the new fact with its id."""
    targets = fresh.join(duplicates.select("id", "target_id"), on="id", how="left", maintain_order="left")
    rows = targets.filter(pl.col("message_id").is_not_null()).select(
        "message_id",
        "confidence",
        "quote",
        candidate="id",
        fact_id=pl.coalesce("target_id", "id"),
        occurred_at="said_at",
    )
    first = facts.filter(pl.col("status") != "candidate").select(fact_id="id", message_id="message_id")
    seen = pl.concat([known.select("fact_id", "message_id"), first])
    rows = rows.unique(["fact_id", "message_id"], keep="first", maintain_order=True).join(
        seen, on=["fact_id", "message_id"], how="anti", maintain_order="left"
    )
    rows = frames.with_ids(rows, "v", "fact_id", "message_id")
    further = known.join(duplicates.select("target_id", fact_id="id"), on="fact_id").with_columns(fact_id="target_id")
    further = further.join(seen, on=["fact_id", "message_id"], how="anti").join(
        rows, on=["fact_id", "message_id"], how="anti"
    )
    moved = again.select("again_of", candidate="id").join(
        known.select("message_id", again_of="fact_id", moved="id"), on="again_of"
    )
    rows = rows.join(moved.drop("again_of"), on=["candidate", "message_id"], how="left", maintain_order="left")
    rows = rows.with_columns(id=pl.coalesce("moved", "id")).drop("moved", "candidate")
    parts = [frames.conform(part, frames.FACT_EVIDENCE).select(*frames.FACT_EVIDENCE) for part in (rows, further)]
    return pl.concat(parts)


def first_evidence(fresh: pl.DataFrame) -> pl.DataFrame:
    """FACT_EVIDENCE of facts that nobody stated before: the message of each."""
    rows = [
        {**row, "id": row_id("v", row["fact_id"], row["message_id"])}
        for row in fresh.select("message_id", "confidence", "quote", fact_id="id", occurred_at="said_at").iter_rows(
            named=True
        )
        if row["message_id"] is not None
    ]
    return pl.DataFrame(rows, schema=dict(frames.FACT_EVIDENCE))


def without_evidence(facts: pl.DataFrame, again: pl.DataFrame) -> pl.DataFrame:
    """The facts with a lower evidence_count, where messages (id, again_of) are facts of their own now."""
    fewer = again.group_by(id="again_of").agg(fewer=pl.len().cast(pl.Int64))
    counted = facts.join(fewer, on="id", how="left", maintain_order="left")
    return counted.with_columns(evidence_count=pl.col("evidence_count") - pl.col("fewer").fill_null(0)).drop("fewer")


def with_evidence(
    facts: pl.DataFrame, fresh: pl.DataFrame, duplicates: pl.DataFrame, evidence: pl.DataFrame
) -> pl.DataFrame:
    """The facts; repeated ones with the new messages counted, highest confidence, strongest entrenchment (S2-57, C13).

    And with the general words of all their candidates.
    """
    new = evidence.join(fresh.select(fact_id="id", message_id="message_id"), on=["fact_id", "message_id"], how="anti")
    counts = new.group_by(id="fact_id").agg(more=pl.len().cast(pl.Int64))
    repeated = (
        fresh.join(duplicates.select("id", "target_id"), on="id")
        .group_by(id="target_id")
        .agg(surest=pl.col("confidence").max(), rank=entrenchment_rank("entrenchment").max())
    )
    again = (
        fresh.join(duplicates.select("id", "target_id"), on="id").select("search_terms", id="target_id").drop_nulls()
    )
    own = facts.join(again, on="id", how="semi").select("id", "search_terms", "statement")
    words = joined_words(pl.concat([own.select("id", "search_terms"), again.select("id", "search_terms")]), own)
    facts = facts.update(words, on="id")
    joined = facts.join(repeated, on="id", how="left", maintain_order="left").join(
        counts, on="id", how="left", maintain_order="left"
    )
    stronger = pl.col("rank") > entrenchment_rank("entrenchment")
    return joined.with_columns(
        confidence=pl.max_horizontal("confidence", "surest"),
        evidence_count=pl.col("evidence_count").fill_null(1) + pl.col("more").fill_null(0),
        entrenchment=pl.when(stronger.fill_null(False)).then(entrenchment_named("rank")).otherwise("entrenchment"),
    ).drop("surest", "rank", "more")

"""How does a claim become a candidate fact? With ids, times and directives, in patch batches (S2-12, S2-18, S3-02 …).

A candidate is invisible to recall. `evaluation.evaluate` decides which pass; only `application.plan_application` makes
one a fact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import isnan
from typing import Any, TypeAlias

import polars as pl

from slowwave.common import frames
from slowwave.common.settings import ExtractSettings
from slowwave.common.text import cut_bytes, normalise_name, readable, row_id, sentences, statement_hash, timed_id
from slowwave.common.words import content_stems
from slowwave.facts import aspects
from slowwave.graph.graph import EDGE_ALIASES, EDGE_TYPES
from slowwave.reading.extraction.dates import Times, resolve_times

from . import predicates
from .search_terms import joined_words, terms_of

MAX_STATEMENT_BYTES = 2048
MAX_QUOTE = 500
MISSING_CONFIDENCE = 0.8
"""Taken where the extractor gives none (S2-18)."""
_STATED_BY = ("user", "person")
_BEGINNINGS = frozenset({"joined", "moved_to", "replaces"})

RESOLVES = pl.Struct(
    {
        "known_id": pl.String(),
        "claim": pl.Int64(),  # or the place of a claim of the same window
        "object": pl.String(),
        "action": pl.String(),
        "reason": pl.String(),
    }
)
CLAIMS: frames.Schema = {
    "window": pl.Int64(),
    "message_id": pl.String(),
    "kind": pl.String(),
    "subject": pl.String(),
    "relation": pl.String(),
    "object": pl.String(),
    "statement": pl.String(),
    "edge_type": pl.String(),
    "confidence": pl.Float64(),
    "temporal_hint": pl.String(),
    "date": pl.String(),
    "time_kind": pl.String(),
    "ended": pl.Boolean(),
    "search_terms": pl.String(),
    "aspects": frames.TEXTS,
    "mentions": frames.TEXTS,
    "also": frames.TEXTS,
    "resolves": pl.List(RESOLVES),
}
MESSAGES: frames.Schema = {
    "id": pl.String(),
    "conversation_id": pl.String(),
    "role": pl.String(),
    "speaker": pl.String(),
    "content": pl.String(),
    "occurred_at": frames.TIME,
    "scope": pl.String(),
    "episode_id": pl.String(),
    "content_score": pl.Float64(),
}
DIRECTIVES: frames.Schema = {
    "candidate_id": pl.String(),
    "known_id": pl.String(),
    "object": pl.String(),
    "action": pl.String(),
    "reason": pl.String(),
}

Row: TypeAlias = dict[str, Any]
_ROWS = {
    **frames.FACTS,
    **dict.fromkeys(("content", "subject_type", "object_type"), pl.String()),
    "aspects": frames.TEXTS,
}
SUPPORT: frames.Schema = {**frames.FACT_EVIDENCE, "statement": pl.String()}
"""Evidence of a candidate with its statement; the quotes are still to be taken from the messages."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Candidate facts (FACTS), their DIRECTIVES and PATCH_BATCHES, relations outside the tables, dropped counts.

    `support` (SUPPORT) are further messages that say a candidate.
    """

    facts: pl.DataFrame
    directives: pl.DataFrame
    batches: pl.DataFrame
    unmapped: tuple[str, ...]
    dropped: Mapping[str, int]
    support: pl.DataFrame = field(default_factory=lambda: frames.empty(SUPPORT))


def build_candidates(
    claims: pl.DataFrame,
    messages: pl.DataFrame,
    names: pl.DataFrame,
    learned: pl.DataFrame,
    settings: ExtractSettings,
    now: datetime,
    aliases: pl.DataFrame | None = None,
    origin: str = "ingest",
) -> Candidates:
    """Facts with status candidate from CLAIMS in order of extraction.

    `messages` has MESSAGES (absent columns are null), `names` is `Resolution.names`, `learned` the stored predicates.
    `aliases` (alias_name, entity_id) are further names of these entities, which are no general words; `origin` is that
    of the patch batches.
    A claim is dropped and counted if its message is missing or over the limit, if its subject is no entity, or if it
    repeats an earlier one word for word (its general words are kept); an object that is no entity is kept as text.
    """
    said = {row["id"]: row for row in frames.conform(messages, MESSAGES).select(*MESSAGES).iter_rows(named=True)}
    taken = frames.conform(claims, CLAIMS).select(*CLAIMS).to_dicts()
    limited = _limited(taken, settings.max_facts_per_message)
    placed = [(claim, said[claim["message_id"]]) for claim in limited if claim["message_id"] in said]
    meant = _NamedEntities(names)
    linked = [row for claim, message in placed if (row := meant.linked(claim, message)) is not None]
    relations = predicates.forms_of((row["relation"] for row in linked), learned)
    canonical = {raw: form for raw, form, *_ in relations}
    rows = [_fact(row, canonical.get(row["relation"]), now) for row in linked]
    _put_into_batches(rows, origin)
    facts = pl.DataFrame(rows, schema=_ROWS)
    slugs, unknown_slugs = aspects.merge(facts["aspects"], aspects.classify(facts))
    facts = facts.with_columns(quotes(facts), slugs.alias("aspect_slugs"), terms_of(facts, names, aliases))
    first: dict[str, Row] = {}
    for row in rows:
        first.setdefault(row["id"], row)
    kept = list(first.values())
    if len(kept) < len(rows):
        again = facts.filter(pl.col("id").is_duplicated())
        facts = facts.unique("id", keep="first", maintain_order=True)
        facts = facts.update(joined_words(again, facts), on="id")
    dropped = {
        "over_limit": len(taken) - len(limited),
        "no_message": len(limited) - len(placed),
        "no_subject": len(placed) - len(linked),
        "repeated": len(rows) - len(kept),
        "unknown_aspects": unknown_slugs,
        "impossible_dates": sum(row["impossible"] is not None for row in rows),
    }
    between = {row["relation"] for row in linked if row["kind"] != "observation"}
    unmapped = predicates.unmapped(form for form in relations if form[0] in between)
    return Candidates(
        facts.select(*frames.FACTS),
        _directives(kept),
        _batches(kept, origin),
        tuple(unmapped),
        dropped,
        _support(kept, said),
    )


def _limited(claims: Sequence[Row], most: int) -> list[Row]:
    """At most so many claims of a message, each with its place among those of its window."""
    of_window, of_message = Counter[int](), Counter[str]()
    limited = []
    for claim in claims:
        if of_message[claim["message_id"]] < most:
            limited.append({**claim, "claim": of_window[claim["window"]]})
        of_window[claim["window"]] += 1
        of_message[claim["message_id"]] += 1
    return limited


class _NamedEntities:
    """The entities that names mean in their window."""

    def __init__(self, names: pl.DataFrame) -> None:
        columns = ("window", "canonical_name", "entity_id", "entity_type")
        rows = names.select(columns).iter_rows()
        self._known = {(window, name): entity for window, name, *entity in rows}
        self._canonical: dict[str, str] = {}

    def of(self, window: int, name: str | None) -> tuple[str | None, str | None]:
        """The id and the type of an entity, each None if the name means none."""
        if name is None:
            return None, None
        canonical = self._canonical.get(name) or self._canonical.setdefault(name, normalise_name(name))
        id_, kind = self._known.get((window, canonical), (None, None))
        return id_, kind

    def linked(self, claim: Row, message: Row) -> Row | None:
        """A claim with its message and the entities that it is about; None if its subject is none.

        Beside its ends it mentions further entities, each once.
        """
        window = claim["window"]
        subject, subject_type = self.of(window, claim["subject"])
        if subject is None:
            return None
        object_, object_type = self.of(window, claim["object"])
        met = dict.fromkeys(self.of(window, name)[0] for name in claim["mentions"] or ())
        ends = {"subject_id": subject, "subject_type": subject_type, "object_id": object_, "object_type": object_type}
        mentions = [id_ for id_ in met if id_ not in (None, subject, object_)]
        return {**message, **claim, **ends, "mentions": mentions}


def _support(facts: Sequence[Row], said: Mapping[str, Row]) -> pl.DataFrame:
    """SUPPORT: the further messages that say a fact."""
    rows = [
        {
            "id": row_id("v", fact["id"], message),
            "fact_id": fact["id"],
            "message_id": message,
            "confidence": fact["confidence"],
            "statement": fact["statement"],
            "occurred_at": said[message]["occurred_at"],
        }
        for fact in facts
        for message in fact["also"] or ()
        if message in said
    ]
    return pl.DataFrame(rows, schema=dict(SUPPORT)) if rows else frames.empty(SUPPORT)


def _fact(row: Row, predicate: str | None, now: datetime) -> Row:
    """A linked claim with all columns of a fact that follow from it."""
    statement = cut_bytes(" ".join(readable(row["statement"] or "").split()), MAX_STATEMENT_BYTES)
    object_ = (row["object"] or "").strip() or None
    is_relation = row["kind"] != "observation" and object_ is not None
    edge = (row["edge_type"] or "").strip().lower()
    edge = EDGE_ALIASES.get(edge, edge)
    times = _times(row, object_ or "", predicate or "", row["occurred_at"] or now)
    is_denied = object_ is not None and bool(row["ended"])  # a relation is given if it holds, or marked as ended
    confidence = row["confidence"]
    if confidence is None or isnan(confidence):
        confidence = MISSING_CONFIDENCE
    parts = row["message_id"], row["subject_id"], predicate or "", row["object_id"] or object_, statement
    return {
        **row,
        **times,
        "id": timed_id("f", times["valid_from"], times["valid_from"], *parts),
        "statement": statement,
        "statement_hash": statement_hash(statement),
        "object": object_,
        "object_text": object_,
        "kind": "relation" if is_relation else "observation",
        "predicate_raw": row["relation"],
        "predicate": predicate or "",
        "edge_type": edge if edge in EDGE_TYPES else predicates.EDGE_TYPES.get(predicate or "", "semantic"),
        "owner_entity_id": row["subject_id"],
        "scope": row["scope"] or "global",
        "polarity": "negated" if is_denied else "affirmed",
        "status": "candidate",
        "confidence": min(max(confidence, 0.0), 1.0),
        "evidence_count": 1 + len(row["also"] or ()),
        "entrenchment": "user_stated" if row["role"] in _STATED_BY else "system_inferred",
        "pinned": False,
        "similarity_flag": False,
    }


def _times(row: Row, object_: str, predicate: str, at: datetime) -> Row:
    """When a claim holds, by default from the time of its message (S3-11), and when its event happens.

    A future state holds from its date on ("starts at Acme in May"); any other plan holds from the message time. A
    sentence about the past stays true: only a relation may end before its message.
    """
    hint, date, kind = row["temporal_hint"] or "", row["date"] or "", row["time_kind"] or ""
    is_state = bool(object_ and predicates.domain_of(predicate))
    kind = kind or ("state" if is_state and predicate not in _BEGINNINGS else "")
    times = resolve_times(hint, at, model_date=date, kind=kind) if hint or date else Times(at)
    return {
        "valid_from": times.event_at if is_state and times.kind == "plan" and times.event_at else times.valid_from,
        "valid_to": times.valid_to if times.valid_to and (object_ or times.valid_to > at) else None,
        "event_at": times.event_at,
        "event_until": times.event_until,
        "event_precision": times.precision or None,
        "date_is_disputed": times.is_disputed or None,
        "impossible": times.reason or None,
    }


def quotes(rows: pl.DataFrame) -> pl.Series:
    """For each statement the sentence of its message with most shared content words, the first of equals.

    `rows` needs message_id, content and statement.
    """
    whole = dict(frames.rows_of(rows, "message_id", "content"))
    by_message = {message: sentences(content or "") for message, content in whole.items()}
    if all(len(parts) == 1 for parts in by_message.values()):
        return pl.Series("quote", [by_message[id_][0][:MAX_QUOTE] for id_ in rows["message_id"]], dtype=pl.String)
    parts = [(message, sentence) for message, own in by_message.items() for sentence in own]
    spread = pl.DataFrame(parts, schema={"message_id": pl.String, "sentence": pl.String}, orient="row")
    spread = spread.with_columns(words=content_stems("sentence")).with_row_index("place")
    claims = rows.select("message_id", stems=content_stems("statement")).with_row_index("row")
    best = (
        claims.join(spread, on="message_id")
        .with_columns(shared=pl.col("stems").list.set_intersection("words").list.len())
        .sort("row", -pl.col("shared").cast(pl.Int64), "place")
        .unique("row", keep="first", maintain_order=True)
    )
    quoted = claims.select("row").join(best.select("row", "sentence"), on="row", how="left", maintain_order="left")
    return quoted.select(quote=pl.col("sentence").str.slice(0, MAX_QUOTE))["quote"]


def _put_into_batches(facts: Sequence[Row], origin: str) -> None:
    """Give each fact its patch_batch_id: one batch per origin, conversation or document, and its messages (S3-08)."""
    messages: dict[str, set[str]] = {}
    for fact in facts:
        messages.setdefault(fact["conversation_id"], set()).add(fact["message_id"])
    own = () if origin == "ingest" else (origin,)
    ids = {source: row_id("p", *own, source, sorted(listed)) for source, listed in messages.items()}
    for fact in facts:
        fact["patch_batch_id"] = ids[fact["conversation_id"]]


def _batches(facts: Sequence[Row], origin: str) -> pl.DataFrame:
    counts = Counter((fact["patch_batch_id"], fact["conversation_id"]) for fact in facts)
    state = {"origin": origin, "state": "open", "passed": 0, "decided_by": "rule"}
    rows = [{"id": id_, "source_key": source, "candidates": count, **state} for (id_, source), count in counts.items()]
    return pl.DataFrame(rows, schema=dict(frames.PATCH_BATCHES))


def _directives(facts: Sequence[Row]) -> pl.DataFrame:
    """DIRECTIVES: those of the claims, and one for each claim about an ended relation.

    A directive that points at a claim of its own window means the candidate of that claim.
    """
    own = {(fact["window"], fact["claim"]): fact["id"] for fact in facts}
    given, ended = [], []
    for fact in facts:
        for change in fact["resolves"] or ():
            known = change["known_id"] or own.get((fact["window"], change["claim"]))
            if known != fact["id"]:
                given.append((fact["id"], known, change["object"], change["action"], change["reason"]))
        if fact["ended"] and fact["object_text"] is not None:
            ended.append((fact["id"], None, fact["object_text"], "retract", "temporal_change"))
    rows = [
        (id_, known, object_, action or "supersede", reason or "temporal_change")
        for id_, known, object_, action, reason in (*given, *ended)
        if known is not None or (object_ or "").strip()
    ]
    return pl.DataFrame(list(dict.fromkeys(rows)), schema=dict(DIRECTIVES), orient="row")

"""How does a claim become a candidate fact? With ids, times and directives, in patch batches (S2-12, S2-18, S3-02 …).

A candidate is invisible to recall. `evaluation.evaluate` decides which pass; only `application.plan_application` makes
one a fact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import polars as pl

from slowwave.common import frames
from slowwave.common.lexicon.statement_words import POLARITY
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
_NEGATION = (
    r"\b(?:" + "|".join(POLARITY[name] for name in ("no longer", "used to", "not", "never", "no", "stop")) + r")\b"
)
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
    "by_model": pl.Boolean(),
}
TIMES: frames.Schema = {
    "valid_from": frames.TIME,
    "valid_to": frames.TIME,
    "event_at": frames.TIME,
    "event_until": frames.TIME,
    "event_precision": pl.String(),
    "date_is_disputed": pl.Boolean(),
    "impossible": pl.String(),
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
    texts = frames.conform(messages, MESSAGES).select(*MESSAGES).rename({"id": "message_id"})
    numbered = pl.int_range(pl.len()).over("window")
    taken = frames.conform(claims, CLAIMS).select(*CLAIMS, claim=numbered)
    limited = taken.filter(pl.int_range(pl.len()).over("message_id") < settings.max_facts_per_message)
    placed = limited.join(texts, on="message_id", how="inner", maintain_order="left")
    linked = _with_mentions(_linked(placed, names).filter(pl.col("subject_id").is_not_null()), names)
    relations = predicates.canonicalise(linked["relation"], learned)
    tagging, facts = _facts(linked, relations, now)
    facts = _with_batches(facts.with_columns(terms_of(facts, names, aliases)), origin)
    unique = facts.unique("id", keep="first", maintain_order=True)
    if len(unique) < len(facts):
        again = facts.filter(pl.col("id").is_duplicated())
        unique = unique.update(joined_words(again, unique), on="id")
    dropped = {
        "over_limit": taken.height - limited.height,
        "no_message": limited.height - placed.height,
        "no_subject": placed.height - linked.height,
        "repeated": facts.height - unique.height,
        "unknown_aspects": tagging.unknown,
        "impossible_dates": int(facts["impossible"].count()),
    }
    rows = frames.conform(unique, frames.FACTS).select(*frames.FACTS)
    between = linked.filter(pl.col("kind").ne_missing("observation"))["relation"].unique()
    named = relations.filter(pl.col("raw").is_in(between.implode()))
    unmapped = tuple(predicates.unmapped(named))
    return Candidates(rows, _directives(unique), _batches(unique, origin), unmapped, dropped, _support(unique, texts))


def _support(facts: pl.DataFrame, messages: pl.DataFrame) -> pl.DataFrame:
    """SUPPORT: the further messages that say a fact."""
    if not facts["also"].count():
        return frames.empty(SUPPORT)
    more = facts.select("confidence", "statement", fact_id="id", message_id="also").explode("message_id")
    more = more.drop_nulls("message_id")
    rows = more.join(messages.select("message_id", "occurred_at"), on="message_id", maintain_order="left")
    return frames.conform(frames.with_ids(rows, "v", "fact_id", "message_id"), SUPPORT).select(*SUPPORT)


def _linked(claims: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """Adds subject_id, subject_type, object_id, object_type, by the names of the claim's own window."""
    mentioned = pl.concat([claims["subject"], claims["object"]]).drop_nulls().unique().to_list()
    canonical = {name: normalise_name(name) for name in mentioned}
    for end in ("subject", "object"):
        known = names.select(
            "window",
            pl.col("canonical_name").alias("name"),
            pl.col("entity_id").alias(f"{end}_id"),
            pl.col("entity_type").alias(f"{end}_type"),
        )
        claims = claims.with_columns(name=pl.col(end).replace(canonical)).join(
            known, on=["window", "name"], how="left", maintain_order="left"
        )
    return claims.drop("name")


def _with_mentions(claims: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """The ids of the entities that each claim mentions beside its ends, in place of their names, each once."""
    if not claims["mentions"].count():
        return claims.with_columns(pl.col("mentions").fill_null([]))
    numbered = claims.with_row_index("row")
    each = numbered.select("row", "window", *_ENDS, name="mentions").explode("name").drop_nulls("name")
    canonical = {name: normalise_name(name) for name in each["name"].unique()}
    known = names.select("window", "entity_id", name="canonical_name")
    met = each.with_columns(pl.col("name").replace(canonical)).join(known, on=["window", "name"], maintain_order="left")
    further = met.filter(pl.all_horizontal(pl.col("entity_id").ne_missing(pl.col(end)) for end in _ENDS))
    ids = further.group_by("row").agg(mentions=pl.col("entity_id").unique(maintain_order=True))
    joined = numbered.drop("mentions").join(ids, on="row", how="left", maintain_order="left").drop("row")
    return joined.with_columns(pl.col("mentions").fill_null([]))


_ENDS = ("subject_id", "object_id")
_EARLIER_CLAUSE = r"(?s)^.*(?:[;.!?]|\b(?:and|but|so)) ((?:i|we|he|she|they|my|our|his|her|their)\b)"


def _deciding_part() -> pl.Expr:
    """The words before the object, which may deny the relation; the whole statement if fewer than two stand before it.

    "Ana lives in vim, so show diffs and not mouse clicks" does not deny vim, and "I quit smoking and I work at Stena"
    not Stena: a clause with a subject of its own is not denied by the one before it. An observation is never negated:
    "Never deploy on Fridays" is true as a whole.
    """
    straight = pl.col("statement").str.to_lowercase().str.replace_all("[’‘]", "'")
    before = straight.str.splitn(pl.col("object").str.to_lowercase(), 2).struct.field("field_0")
    has_words = before.str.count_matches(r"\w+") >= 2
    of_clause = before.str.replace(_EARLIER_CLAUSE, "$1")
    return pl.when((pl.col("object").fill_null("") != "") & has_words).then(of_clause).otherwise(straight)


def _facts(claims: pl.DataFrame, relations: pl.DataFrame, now: datetime) -> tuple[aspects.Tagging, pl.DataFrame]:
    """The claims with all columns of a fact that follow from them."""
    spoken = claims.join(
        relations.rename({"raw": "relation", "canonical": "predicate"}),
        on="relation",
        how="left",
        maintain_order="left",
    )
    spoken = spoken.with_columns(_cleaned(spoken["statement"]), object=pl.col("object").str.strip_chars())
    edge = pl.col("edge_type").str.strip_chars().str.to_lowercase().replace(EDGE_ALIASES)
    # A model gives a relation only if it holds, or marks it as ended; for claims of rules the words decide.
    is_denied = (
        pl.when(pl.col("by_model").fill_null(False)).then(False).otherwise(_deciding_part().str.contains(_NEGATION))
    )
    by_relation = pl.col("predicate").replace_strict(predicates.EDGE_TYPES, default="semantic")
    has_object = pl.col("object").fill_null("") != ""
    times = _times(spoken, now)
    rows = spoken.with_columns(
        times,
        kind=pl.when((pl.col("kind") == "observation") | ~has_object)
        .then(pl.lit("observation"))
        .otherwise(pl.lit("relation")),
        predicate_raw="relation",
        predicate=pl.col("predicate").fill_null(""),
        edge_type=pl.when(edge.is_in(EDGE_TYPES)).then(edge).otherwise(by_relation),
        object_text=pl.when(has_object).then("object"),
        owner_entity_id="subject_id",
        scope=pl.col("scope").fill_null("global"),
        polarity=pl.when(has_object & (pl.col("ended").fill_null(False) | is_denied))
        .then(pl.lit("negated"))
        .otherwise(pl.lit("affirmed")),
        status=pl.lit("candidate"),
        confidence=pl.col("confidence").fill_nan(None).fill_null(MISSING_CONFIDENCE).clip(0.0, 1.0),
        evidence_count=1 + pl.col("also").list.len().fill_null(0).cast(pl.Int64),
        entrenchment=pl.when(pl.col("role").is_in(_STATED_BY))
        .then(pl.lit("user_stated"))
        .otherwise(pl.lit("system_inferred")),
        pinned=pl.lit(False),
        similarity_flag=pl.lit(False),
    )
    tagging = aspects.merge(rows["aspects"], aspects.classify(rows))
    rows = rows.with_columns(quotes(rows), aspect_slugs=tagging.slugs)
    identity = rows.select(
        "valid_from", "message_id", "subject_id", "predicate", pl.coalesce("object_id", "object_text"), "statement"
    )
    ids = [timed_id("f", at, *parts) for at, *parts in identity.iter_rows()]
    hashes = {text: statement_hash(text) for text in rows["statement"].unique()}
    return tagging, rows.with_columns(
        id=pl.Series(ids, dtype=pl.String),
        statement_hash=pl.col("statement").replace_strict(hashes, return_dtype=pl.String),
    )


def _cleaned(statements: pl.Series) -> pl.Series:
    clean = {
        raw: cut_bytes(" ".join(readable(raw).split()), MAX_STATEMENT_BYTES) for raw in statements.drop_nulls().unique()
    }
    return statements.replace(clean).fill_null("").alias("statement")


def _times(claims: pl.DataFrame, now: datetime) -> pl.DataFrame:
    """TIMES of the claims: validity, by default from the message time (S3-11), and the time of the event.

    A future state holds from its date on ("starts at Acme in May"); any other plan holds from the message time. A
    sentence about the past stays true: only a relation may end before its message.
    """
    columns = ("temporal_hint", "date", "time_kind", "object", "predicate")
    rows = []
    for *words, at in claims.select(*columns, at=pl.col("occurred_at").fill_null(now)).iter_rows():
        hint, date, kind, object_, predicate = (word or "" for word in words)
        is_state = bool(object_ and predicates.domain_of(predicate))
        kind = kind or ("state" if is_state and predicate not in _BEGINNINGS else "")
        times = resolve_times(hint, at, model_date=date, kind=kind) if hint or date else Times(at)
        starts = times.event_at if is_state and times.kind == "plan" and times.event_at else times.valid_from
        ends = times.valid_to if times.valid_to and (object_ or times.valid_to > at) else None
        happens = (times.event_at, times.event_until, times.precision or None)
        rows.append((starts, ends, *happens, times.is_disputed or None, times.reason or None))
    return pl.DataFrame(rows, schema=dict(TIMES), orient="row")


def quotes(rows: pl.DataFrame) -> pl.Series:
    """For each statement the sentence of its message with most shared content words, the first of equals.

    `rows` needs message_id, content and statement.
    """
    texts = rows.select("message_id", pl.col("content").fill_null("")).unique("message_id").iter_rows()
    parts = [(message, sentence) for message, content in texts for sentence in sentences(content)]
    spread = pl.DataFrame(
        {
            "message_id": pl.Series([message for message, _ in parts], dtype=pl.String),
            "sentence": pl.Series([sentence for _, sentence in parts], dtype=pl.String),
        }
    )
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


def _with_batches(facts: pl.DataFrame, origin: str) -> pl.DataFrame:
    """The facts with patch_batch_id: one batch per origin, conversation or document, and its messages (S3-08)."""
    groups = facts.group_by("conversation_id", maintain_order=True).agg(pl.col("message_id").unique().sort())
    own = () if origin == "ingest" else (origin,)
    ids = {source: row_id("p", *own, source, listed) for source, listed in groups.iter_rows()}
    return facts.with_columns(
        patch_batch_id=pl.col("conversation_id").replace_strict(ids, default=None, return_dtype=pl.String)
    )


def _batches(facts: pl.DataFrame, origin: str) -> pl.DataFrame:
    rows = facts.group_by("patch_batch_id", maintain_order=True).agg(
        source_key=pl.col("conversation_id").first(), candidates=pl.len().cast(pl.Int64)
    )
    return frames.conform(
        rows.rename({"patch_batch_id": "id"}).with_columns(
            origin=pl.lit(origin), state=pl.lit("open"), passed=pl.lit(0, dtype=pl.Int64), decided_by=pl.lit("rule")
        ),
        frames.PATCH_BATCHES,
    )


def _directives(facts: pl.DataFrame) -> pl.DataFrame:
    """DIRECTIVES: those of the claims, and one for each claim about an ended relation.

    A directive that points at a claim of its own window means the candidate of that claim.
    """
    if not facts["resolves"].count() and not facts["ended"].any():
        return frames.empty(DIRECTIVES)
    own = facts.select("window", "claim", own_id="id")
    given = (
        facts.select("window", pl.col("id").alias("candidate_id"), "resolves")
        .explode("resolves")
        .drop_nulls("resolves")
        .unnest("resolves")
        .join(own, on=["window", "claim"], how="left", maintain_order="left")
        .with_columns(known_id=pl.coalesce("known_id", "own_id"))
        .filter(pl.col("known_id").ne_missing(pl.col("candidate_id")))
        .select(*DIRECTIVES)
    )
    ended = facts.filter(pl.col("ended").fill_null(False) & pl.col("object_text").is_not_null()).select(
        candidate_id="id", object="object_text", action=pl.lit("retract"), reason=pl.lit("temporal_change")
    )
    rows = pl.concat([frames.conform(part, DIRECTIVES) for part in (given, ended)])
    named = rows.filter(pl.col("known_id").is_not_null() | (pl.col("object").fill_null("").str.strip_chars() != ""))
    return named.with_columns(
        pl.col("action").fill_null("supersede"), pl.col("reason").fill_null("temporal_change")
    ).unique(maintain_order=True)

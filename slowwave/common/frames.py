"""The columns of the frames that rules hand over: those of the tables they are stored in, without vector and stamps."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import polars as pl

from .text import row_id

Schema: TypeAlias = Mapping[str, pl.DataType]

TEXT, NUMBER, COUNT, FLAG = pl.String(), pl.Float64(), pl.Int64(), pl.Boolean()
TIME = pl.Datetime("us", "UTC")
TEXTS = pl.List(pl.String())


def _schema(
    *, text: str = "", time: str = "", number: str = "", count: str = "", flag: str = "", texts: str = ""
) -> Schema:
    groups = ((text, TEXT), (time, TIME), (number, NUMBER), (count, COUNT), (flag, FLAG), (texts, TEXTS))
    return {name: kind for names, kind in groups for name in names.split()}


ENTITIES = _schema(
    text="id canonical_name name entity_type status summary parent_entity_id embed_text_hash merged_into",
    time="first_seen_at last_seen_at",
    flag="pinned is_renamed",
)
ALIASES = _schema(text="id alias_name entity_type entity_id")
PREDICATES = _schema(text="id alias canonical cardinality source")
FACTS = _schema(
    text="id kind subject_id predicate_raw predicate edge_type object_id object_text statement statement_hash "
    "owner_entity_id scope polarity status status_reason replaced_by supersedes_id patch_batch_id entrenchment "
    "message_id episode_id quote similar_to_id related_id embed_model consolidation_error suspect_of event_precision "
    "search_terms",
    time="valid_from valid_to event_at event_until expired_at consolidated_at",
    number="confidence similarity_score content_score",
    count="evidence_count consolidation_attempts",
    flag="pinned similarity_flag date_is_disputed",
    texts="aspect_slugs mentions",
)
FACT_EVIDENCE = _schema(text="id fact_id message_id quote", number="confidence", time="occurred_at")
LINEAGE = _schema(text="id old_id new_id reason")
PAIR_DECISIONS = _schema(
    text="id a_id b_id kind outcome guard decided_by prompt_version", number="cosine jaccard", time="at expires_at"
)
PENDING_BELIEFS = _schema(
    text="id subject_id predicate object_id object_text edge_type scope statement claim promoted_id",
    number="probability",
    count="evidence_count",
    time="first_at last_at promoted_at",
)
BELIEF_EVIDENCE = _schema(text="id belief_id message_id episode_id", number="prior evidence posterior", time="at")
ARTIFACTS = _schema(
    text="id title type content content_hash summary group_id parent_id link derived_from status replaced_by scope "
    "conversation_id source_id message_id",
    count="version_no seen_count",
    flag="is_head",
    texts="linked_fact_ids",
    number="confidence",
    time="made_at consolidated_at",
)
FACT_USAGE = _schema(
    text="id", count="hit_count cosine_count", number="cosine_sum link_count", time="last_retrieved_at link_decayed_at"
)
ENTITY_USAGE = _schema(text="id", count="access_count access_days", time="last_access_at")
ENTITY_DAYS = _schema(text="id entity_id day", count="access_count")
CO_OCCURRENCES = _schema(text="id a_id b_id", count="count", time="last_at")
ENTITY_SCORES = _schema(text="id", count="degree", number="importance temporal", flag="is_stale", time="scored_at")
ENTITY_LINKS = _schema(text="id a_id b_id", number="cosine", time="linked_at")
COMMUNITIES = _schema(
    text="id name summary summarised_by prompt_version fingerprint aspects",
    texts="entity_ids joined_ids told_fact_ids",
    count="facts",
    time="refreshed_at",
)
EDGES = _schema(
    text="id subject_id object_id predicate edge_type", number="weight", time="valid_from"
)  # relations as a graph reads them
PATCH_BATCHES = _schema(text="id origin source_key state decided_by", count="candidates passed")
FACT_ASPECTS = _schema(text="id fact_id slug via")
REFUSALS = _schema(
    text="id subject_kind subject_id gate reason excerpt similar_to_id", number="measure threshold", flag="teaches"
)
DECISIONS = _schema(
    text="id action subject_id measures decided_by model reason approved_by proposal_id",
    texts="ids_in ids_out",
    time="at",
)


_EMPTY: dict[int, tuple[Schema, pl.DataFrame]] = {}


def empty(schema: Schema) -> pl.DataFrame:
    """A frame with these columns and no rows."""
    known = _EMPTY.get(id(schema))
    if known is None or known[0] is not schema:  # the schema is kept, so that no other one gets its number
        known = _EMPTY[id(schema)] = schema, pl.DataFrame(schema=dict(schema))
    return known[1]


def conform(frame: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """The frame with every column of the schema, absent ones null; columns beyond the schema stay at the end."""
    there = frame.schema
    if list(there.items())[: len(schema)] == list(schema.items()):
        return frame
    own = [
        frame.get_column(name).cast(kind) if name in there else nothing(name, kind, len(frame))
        for name, kind in schema.items()
    ]
    return pl.DataFrame([*own, *(frame.get_column(name) for name in there if name not in schema)])


def rows_of(frame: pl.DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """The values of these columns, row by row. For few rows a query of Polars takes longer than all else."""
    return list(zip(*(frame.get_column(name).to_list() for name in columns), strict=True))


def nothing(name: str, kind: pl.DataType, count: int) -> pl.Series:
    """A column without values."""
    return pl.Series(name, [None], kind).new_from_index(0, count)


def with_ids(rows: pl.DataFrame, prefix: str, *key: str) -> pl.DataFrame:
    """The rows with deterministic ids, made of these columns."""
    ids = [row_id(prefix, *parts) for parts in rows.select(key).iter_rows()]
    return rows.with_columns(id=pl.Series(ids, dtype=pl.String))


_EPOCH, _TICK = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


def moment(at: datetime) -> pl.Expr:
    """A time in an expression, as a number: of a datetime Polars makes a column first, which takes longer than most
    questions about it."""
    return pl.lit((at - _EPOCH) // _TICK).cast(TIME)


def beside(pairs: pl.DataFrame, rows: pl.DataFrame, first: str = "a_id", second: str = "b_id") -> pl.DataFrame:
    """Pairs in their order with the columns of both sides by `id`, those of the second side with the suffix `_b`.

    A pair is left out if one of its sides is not among the rows.
    """
    return pairs.join(rows, left_on=first, right_on="id", maintain_order="left").join(
        rows, left_on=second, right_on="id", maintain_order="left", suffix="_b"
    )

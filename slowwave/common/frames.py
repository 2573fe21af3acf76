"""The columns of the frames that rules hand over: those of the tables they are stored in, without vector and stamps."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl
import pyarrow as pa

from .text import row_id
from .timestamps import microseconds_of

Schema: TypeAlias = Mapping[str, pl.DataType]

TEXT, NUMBER, COUNT, FLAG = pl.String(), pl.Float64(), pl.Int64(), pl.Boolean()
TIME = pl.Datetime("us", "UTC")
TEXTS = pl.List(pl.String())
FEW = 16
"""Rows up to which Python is done before Polars has begun."""
MANY = 4_096
"""Rows from which memory counts more than time."""


DECLARED: Mapping[str, Mapping[str, Any]] = tomllib.loads(
    Path(__file__).with_name("tables.toml").read_text(encoding="utf-8")
)
"""Every table of a store, as it is declared."""
_TYPES: Mapping[str, pl.DataType] = {
    "text": TEXT, "number": NUMBER, "count": COUNT, "flag": FLAG, "time": TIME, "texts": TEXTS,
}  # fmt: skip


def _columns_of(table: str) -> Schema:
    return {"id": TEXT} | {name: _TYPES[re.split("[ :]", line)[0]] for name, line in DECLARED[table]["columns"].items()}


ENTITIES = _columns_of("entities")
ALIASES = _columns_of("entity_aliases")
PREDICATES = _columns_of("predicates")
FACTS = _columns_of("facts")
FACT_EVIDENCE = _columns_of("fact_evidence")
LINEAGE = _columns_of("lineage")
PAIR_DECISIONS = _columns_of("pair_decisions")
PENDING_BELIEFS = _columns_of("pending_beliefs")
BELIEF_EVIDENCE = _columns_of("belief_evidence")
ARTIFACTS = _columns_of("artifacts")
FACT_USAGE = _columns_of("fact_usage")
ENTITY_USAGE = _columns_of("entity_usage")
ENTITY_DAYS = _columns_of("entity_days")
CO_OCCURRENCES = _columns_of("co_occurrences")
ENTITY_SCORES = _columns_of("entity_scores")
ENTITY_LINKS = _columns_of("entity_links")
COMMUNITIES = _columns_of("communities")
PATCH_BATCHES = _columns_of("patch_batches")
FACT_ASPECTS = _columns_of("fact_aspects")
REFUSALS = _columns_of("refusals")
DECISIONS = _columns_of("decisions")
EDGES: Schema = {
    **{name: FACTS[name] for name in ("id", "subject_id", "object_id", "predicate", "edge_type")},
    "weight": NUMBER,
    "valid_from": TIME,
}
"""Relations as a graph reads them."""


_EMPTY: dict[int, tuple[Schema, pl.DataFrame]] = {}


def empty(schema: Schema) -> pl.DataFrame:
    """A frame with these columns and no rows."""
    known = _EMPTY.get(id(schema))
    if known is None or known[0] is not schema:  # the schema is kept, so that no other one gets its number
        known = _EMPTY[id(schema)] = schema, pl.DataFrame(schema=dict(schema))
    return known[1]


def of_arrow(rows: pa.Table | pa.RecordBatch) -> pl.DataFrame:
    """Rows of Arrow as a frame.

    `polars.from_arrow` goes by columns: it takes four times as long for few rows, but less memory for many.
    """
    if len(rows) > MANY:
        return pl.DataFrame(pl.from_arrow(rows))
    table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    frame = pl.DataFrame(table.to_reader())
    return frame if frame.n_chunks() == 1 else frame.rechunk()


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


def contain_any(texts: pl.Series, hints: Sequence[str]) -> pl.Series:
    """Whether each text has one of these hints, which are in lower case, in any case; False for null.

    Polars makes a machine of the hints first, which for few texts takes longer than looking.
    """
    if len(texts) > FEW:
        return texts.str.contains_any(list(hints), ascii_case_insensitive=True).fill_null(False)
    lower = ((text or "").lower() for text in texts.to_list())
    return pl.Series([any(hint in text for hint in hints) for text in lower], dtype=pl.Boolean)


def nothing(name: str, kind: pl.DataType, count: int) -> pl.Series:
    """A column without values."""
    return pl.Series(name, [None], kind).new_from_index(0, count)


def with_ids(rows: pl.DataFrame, prefix: str, *key: str) -> pl.DataFrame:
    """The rows with deterministic ids, made of these columns."""
    ids = [row_id(prefix, *parts) for parts in rows.select(key).iter_rows()]
    return rows.with_columns(id=pl.Series(ids, dtype=pl.String))


def moment(at: datetime) -> pl.Expr:
    """A time in an expression, as a number: of a datetime Polars makes a column first, which takes longer than most
    questions about it."""
    return pl.lit(microseconds_of(at)).cast(TIME)


def beside(pairs: pl.DataFrame, rows: pl.DataFrame, first: str = "a_id", second: str = "b_id") -> pl.DataFrame:
    """Pairs in their order with the columns of both sides by `id`, those of the second side with the suffix `_b`.

    A pair is left out if one of its sides is not among the rows.
    """
    return pairs.join(rows, left_on=first, right_on="id", maintain_order="left").join(
        rows, left_on=second, right_on="id", maintain_order="left", suffix="_b"
    )

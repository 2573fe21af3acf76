"""Search in one table: nearest vectors and best-matching words, filtered before the cut."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from slowwave.common.text import SCRIPTS_OF_SIGNS, signs_of

from .columns import best_scores
from .connection import answer, answers, query_of
from .residents import Condition
from .rows import MARK, ROW, quoted
from .snapshots import Reading, last_rows, numbered_rows, read_rows
from .tables import TABLES

if TYPE_CHECKING:
    from lancedb.table import Table

    from .residents import Resident

_COMPARED = ("id", ROW, "vector")
EXACT_ROWS = 10_000  # up to here reading all vectors costs no more than asking the index
_QUERIES_PER_CALL = 100  # rows that the index does not contain are in memory once per query
_PROBES = 20  # parts of the index that a question looks at, of some 120 in a million rows
_SPARE = 30  # so many more rows than are wanted, before the condition or the exact cosine is put to them
_CROWD = 200  # the same for a condition, which as many rows as a batch writes about one matter may not meet
_FEW = 2_000  # rows that meet a condition, up to which they are read and compared
_BEFORE = 100  # rows before those that an index does not contain, which must have been written earlier
_BLOCK = 512
_AT_ONCE = 64  # vectors that are compared with all of a table in memory at once, 4 bytes for each two
_STRETCH = 64
_TIES = 20  # beyond, equal vectors would fill memory
_WORD = re.compile(r"\w+", re.UNICODE)
_CHOSEN = 100  # texts of scripts without spaces that are compared with one, of those that share its rarest words
_ROW = {"id": pl.String, ROW: pl.UInt64}
FOUND = {"query": pl.UInt32, **_ROW, "cosine": pl.Float32}
MATCHED = {"query": pl.UInt32, **_ROW, "score": pl.Float32}
Nearest = Callable[[np.ndarray, int], pl.DataFrame]


def nearest(reading: Reading, name: str, vectors: np.ndarray, k: int, where: str | None = None) -> pl.DataFrame:
    """The `k` rows nearest to each of `vectors` (q, d), unit rows: FOUND, best first.

    `query` is the place of the vector, `_rowid` the number of the row in this version of the table. Exact in tables
    of up to `EXACT_ROWS` rows and in those without an index of vectors; by the index with exact cosines beyond.
    """
    if not len(vectors) or not k:
        return pl.DataFrame(schema=FOUND)
    return nearest_in(reading, name, where)(vectors, k)


def nearest_in_memory(resident: Resident, vectors: np.ndarray, k: int, where: Condition) -> pl.DataFrame:
    """`nearest` of a table in memory: FOUND without numbers, best first."""
    found = list[tuple[int, str, None, float]]()
    for query, vector in enumerate(vectors):
        places, cosines = resident.nearest(vector, k, where)
        found += (
            (query, id_, None, cosine) for id_, cosine in zip(resident.values("id", places), cosines, strict=True)
        )
    return pl.DataFrame(found, schema=FOUND, orient="row")


def nearest_in(reading: Reading, name: str, where: str | None = None) -> Nearest:
    """`nearest` in these rows for several calls: what is compared exactly is read once and kept."""
    table, where = reading.handle(name), reading.seen(name, where)
    if table.count_rows() > EXACT_ROWS:
        for index in table.list_indices():
            if "vector" in index.columns:
                return _IndexedRows(table, index.name, where).nearest
    has_vector = f"({where}) AND vector IS NOT NULL" if where else "vector IS NOT NULL"
    rows = read_rows(table, has_vector, ["id", ROW, "vector"])
    return partial(_exact, rows, unit_matrix(rows["vector"], reading.dims))


def nearest_among(ids: pl.Series, vectors: np.ndarray, k: int) -> pl.DataFrame:
    """For each of `vectors` (n, d), unit rows, the `k` nearest of the others: FOUND without numbers, best first."""
    if len(ids) < 2:
        return pl.DataFrame(schema=FOUND)
    found = _exact(ids.to_frame("id").with_columns(pl.lit(None).alias(ROW)), vectors, vectors, k + 1)
    return found.filter(pl.col("id") != ids.gather(found["query"])).group_by("query", maintain_order=True).head(k)


def by_scope(
    scopes: pl.Series, where: str, search: Callable[[np.ndarray, str], pl.DataFrame], schema: Mapping[str, Any]
) -> pl.DataFrame:
    """What `search(places, where)` finds within the scope of each question, with `query` the place in `scopes`."""
    parts = [pl.DataFrame(schema=schema)]
    for places, inside in scopes_of(scopes, where):
        found = search(places, inside)
        rows = pl.Series(places, dtype=pl.UInt32)
        parts.append(found.with_columns(query=rows.gather(found["query"])))
    return parts[0] if len(parts) == 1 else pl.concat(parts).sort("query", maintain_order=True)


def scopes_of(scopes: pl.Series, where: str) -> Iterator[tuple[np.ndarray, str]]:
    """The places of each scope, and the condition of the rows in it."""
    named = np.array(scopes.to_list(), dtype=object)
    for scope in dict.fromkeys(named):
        inside = "scope IS NULL" if scope is None else f"scope = {quoted(str(scope))}"
        yield np.flatnonzero(named == scope), f"({where}) AND {inside}"


def near_rows(
    reading: Reading, name: str, questions: pl.DataFrame, k: int, where: str, columns: Sequence[str]
) -> pl.DataFrame:
    """The rows nearest to each question (scope, vector, text) in its scope: `k` by vector, `k` by BM25; each once."""
    texts = questions["text"].fill_null("").to_list()
    with_vector = questions.filter(pl.col("vector").is_not_null())
    vectors = unit_matrix(with_vector["vector"], reading.dims)

    def by_meaning(places: np.ndarray, inside: str) -> pl.DataFrame:
        return nearest(reading, name, vectors[places], k, inside)

    def by_words(places: np.ndarray, inside: str) -> pl.DataFrame:
        return matching_many(reading, name, [texts[place] for place in places], k, inside)

    matched = by_scope(questions["scope"], where, by_words, MATCHED)
    if (resident := reading.in_memory(name, where, (*columns, "scope"))) is not None:
        found = [resident.places("id", matched["id"].unique())]
        for places, inside in scopes_of(with_vector["scope"], where):
            for block in np.array_split(vectors[places], len(places) // _AT_ONCE + 1):
                with resident.foreseen(block):
                    found += (resident.nearest(vector, k, Condition(inside))[0] for vector in block)
        return resident.frame(np.unique(np.concatenate(found)), columns)
    near = by_scope(with_vector["scope"], where, by_meaning, FOUND)
    return reading.by_numbers(name, pl.concat([near[ROW], matched[ROW]]).unique().sort(), columns)


def unit_matrix(column: pl.Series, dims: int) -> np.ndarray:
    """A vector column as an (n, d) float32 matrix; rows without a vector are zero."""
    array = column.to_arrow()
    whole = np.zeros((len(column), dims), np.float32)
    is_there = array.is_valid().to_numpy(zero_copy_only=False)
    if is_there.any():
        whole[is_there] = array.flatten().to_numpy(zero_copy_only=False).reshape(-1, dims)
    return whole


def cosines_of(first: pl.Series, second: pl.Series, dims: int) -> pl.Series:
    """Cosines of two vector columns, row by row."""
    return pl.Series(np.einsum("ij,ij->i", unit_matrix(first, dims), unit_matrix(second, dims)), dtype=pl.Float64)


def _exact(rows: pl.DataFrame, corpus: np.ndarray, vectors: np.ndarray, k: int) -> pl.DataFrame:
    if not len(rows) or not len(vectors):
        return pl.DataFrame(schema=FOUND)
    named = rows.select(pl.col(column).cast(kind) for column, kind in _ROW.items())
    k = min(k, len(rows))
    parts = []
    for start in range(0, len(vectors), _BLOCK):
        cosines = vectors[start : start + _BLOCK] @ corpus.T
        query, row = _top(cosines, k)
        part = pl.DataFrame({"query": query + start, "cosine": cosines[query, row]}).hstack(named[row])
        parts.append(part.select(pl.col(column).cast(kind) for column, kind in FOUND.items()))
    return _best(pl.concat(parts), k)


def _best(found: pl.DataFrame, k: int) -> pl.DataFrame:
    """The `k` nearest for each question: FOUND, best first."""
    ordered = found.sort("query", "cosine", "id", descending=[False, True, False])
    return ordered.group_by("query", maintain_order=True).head(k).select(*FOUND)


def _top(cosines: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """(row, column) of the `k` largest values of each row, and of others that equal the last of them."""
    rows, columns = cosines.shape
    if columns > 4 * k * _STRETCH:
        whole = columns // _STRETCH * _STRETCH
        maxima = cosines[:, :whole].reshape(rows, -1, _STRETCH).max(axis=2)
        bound = np.partition(maxima, -k, axis=1)[:, -k]
        row, column = np.nonzero(cosines >= bound[:, None])
        if len(row) <= _TIES * k * rows:
            return row, column
    top = np.argpartition(-cosines, k - 1, axis=1)[:, :k]
    return np.repeat(np.arange(rows), k), top.ravel()


class _IndexedRows:
    """The rows of a large table that meet a condition, for several searches by its index of vectors."""

    def __init__(self, table: Table, index: str, where: str | None) -> None:
        self._table, self._where = table, where
        self._newer = _unindexed(table, index, where)

    def nearest(self, vectors: np.ndarray, k: int) -> pl.DataFrame:
        """The `k` nearest to each of `vectors`: FOUND, best first."""
        parts = [
            self._by_index(vectors[start : start + _QUERIES_PER_CALL], k).with_columns(pl.col("query") + start)
            for start in range(0, len(vectors), _QUERIES_PER_CALL)
        ]
        if self._newer is not None and len(self._newer):
            parts.append(_exact_among(self._newer, vectors, k))
        found = pl.concat([pl.DataFrame(schema=FOUND), *(part.cast(pl.Schema(FOUND)) for part in parts)])
        return _best(found.unique(["query", "id"], keep="last"), k)

    def _by_index(self, vectors: np.ndarray, k: int) -> pl.DataFrame:
        """Nearest rows by the index. Most rows meet the condition, so it is put to a few more than `k` of each."""
        ask = partial(_query_index, self._table, where=self._where, is_whole=self._newer is None)
        found = ask(vectors, k, limit=k + (_CROWD if self._where else _SPARE))
        counts = np.bincount(found["query"].to_numpy(), minlength=len(vectors))
        short = np.flatnonzero(counts < k)
        if self._where is None or not len(short):
            return found
        if self._few is not None:
            again = _exact_among(self._few, vectors[short], k)
        else:
            again = ask(vectors[short], k, limit=k + _SPARE, is_before=True)
        again = again.with_columns(query=pl.Series(short.astype(np.uint32)).gather(again["query"]))
        return pl.concat([found.filter(~pl.col("query").is_in(short.tolist())), again])

    @cached_property
    def _few(self) -> pl.DataFrame | None:
        """The rows that meet the condition; None where they are more than `_FEW`."""
        numbers = read_rows(self._table, self._where, [ROW], _FEW + 1)[ROW]
        return numbered_rows(self._table, numbers, _COMPARED).drop_nulls("vector") if len(numbers) <= _FEW else None


def _unindexed(table: Table, index: str, where: str | None) -> pl.DataFrame | None:
    """The rows that the index does not contain and that meet the condition (_COMPARED); None where too many."""
    stats = table.index_stats(index)  # every write adds whole rows behind the others: these are the last ones
    missing = stats.num_unindexed_rows if stats else EXACT_ROWS + 1
    if not missing or missing > EXACT_ROWS:
        return None if missing else pl.DataFrame(schema=_ROW)
    columns = {**dict(zip(_COMPARED, _COMPARED, strict=True)), "mark": MARK, "meets": where or "true"}
    last = last_rows(table, missing + _BEFORE, columns)
    marks = last["mark"].to_numpy()
    if len(last) <= missing or marks[:-missing].max() >= marks[-missing:].min():
        return None
    return last.tail(missing).filter("meets").select(_COMPARED).drop_nulls("vector")


def _exact_among(rows: pl.DataFrame, vectors: np.ndarray, k: int) -> pl.DataFrame:
    return _exact(rows, unit_matrix(rows["vector"], vectors.shape[1]), vectors, k)


def _query_index(
    table: Table,
    vectors: np.ndarray,
    k: int,
    *,
    where: str | None,
    limit: int,
    is_whole: bool,
    is_before: bool = False,
) -> pl.DataFrame:
    """The `k` best of those nearest by their short forms in the index, of which the condition is put to `limit`.

    `is_whole` includes rows that the index does not contain; `is_before` puts the condition to all rows first. Cosines
    are exact. The engine would read the vector of a row once for each question that it is near to, which
    takes three times as long as the search.
    """
    query = query_of(table).nearest_to(list(vectors)).column("vector").distance_type("dot")
    if where:
        query = query.where(where)
        if not is_before:
            query = query.postfilter()
    if not is_whole:
        query = query.fast_search()
    columns = [ROW, "_distance"] + ([] if len(vectors) == 1 else ["query_index"])
    query = query.minimum_nprobes(_PROBES).maximum_nprobes(0 if is_before else _PROBES)
    near = answer(query.select(columns).limit(limit))
    number = pl.col("query_index") if len(vectors) > 1 else pl.lit(0)
    first = near.select(ROW, "_distance", query=number.cast(pl.UInt32)).sort("query", "_distance", ROW)
    first = first.group_by("query", maintain_order=True).head(k + _SPARE)
    if first.is_empty():
        return pl.DataFrame(schema=FOUND)
    numbers, row = np.unique(first[ROW].to_numpy(), return_inverse=True)
    rows = numbered_rows(table, numbers, _COMPARED).sort(ROW)
    place = first["query"].to_numpy()
    cosines = np.einsum("ij,ij->i", vectors[place], unit_matrix(rows["vector"], vectors.shape[1])[row])
    named = pl.DataFrame({"query": place, "cosine": cosines}).hstack(rows.select(*_ROW)[row])
    return _best(named.select(*FOUND).cast(pl.Schema(FOUND)), k)


def words(text: str, limit: int = 512) -> str:
    """The words of a query, so that nothing in it is read as an operator; at most 512 bytes count (S2-26)."""
    cut = text.encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")
    return " ".join(_WORD.findall(cut))


def matching_many(reading: Reading, name: str, texts: Sequence[str], k: int, where: str | None = None) -> pl.DataFrame:
    """For each of up to a few hundred texts the `k` rows that match it best (BM25): MATCHED.

    `query` is the place of the text; best first within it. Equal texts are searched once.
    """
    distinct, where = list(dict.fromkeys(texts)), reading.seen(name, where)
    if where and reading.handle(name).count_rows() > EXACT_ROWS:
        rows = _matching_first(reading, name, distinct, k, where)
    else:
        rows = _matching_each(reading, name, distinct, k, where)
    if any(signs := [signs_of(text) for text in distinct]):
        both = pl.concat([rows, _matching_signs(reading, name, signs, k, where)])
        rows = both.group_by("text", *_ROW).agg(pl.col("score").sum())
        rows = rows.sort("text", "score", "id", descending=[False, True, False]).group_by("text").head(k)
    places = {text: place for place, text in enumerate(distinct)}
    queries = pl.DataFrame({"text": [places[text] for text in texts]}, schema={"text": pl.UInt32}).with_row_index(
        "query"
    )
    best = queries.join(rows, on="text").sort("query", "score", "id", descending=[False, True, False])
    return best.select(pl.col(column).cast(kind) for column, kind in MATCHED.items())


def _matching_signs(reading: Reading, name: str, signs: Sequence[str], k: int, where: str | None) -> pl.DataFrame:
    """As `_matching_each`, for texts of scripts without spaces, which the index takes for one long word."""
    column = TABLES[name].full_text[0]
    has_signs = f"regexp_like({column}, '[{''.join(SCRIPTS_OF_SIGNS)}]')"
    has_signs = f"({where}) AND {has_signs}" if where else has_signs
    stored = read_rows(reading.handle(name), has_signs, [*_ROW, column])
    size = reading.handle(name).count_rows()
    sought = [place for place, text in enumerate(signs) if text]
    found = []
    for place, scores in zip(
        sought, best_scores(stored[column], [signs[n] for n in sought], size, _CHOSEN), strict=True
    ):
        best = np.argsort(-scores, kind="stable")[:k]
        best = best[scores[best] > 0]
        matched = stored.select(*_ROW)[best].with_columns(score=scores[best].astype(np.float32))
        found.append(matched.with_columns(text=pl.lit(place, pl.UInt32)))
    return pl.concat(found)


def _matching_first(reading: Reading, name: str, texts: Sequence[str], k: int, where: str) -> pl.DataFrame:
    """Like `_matching_each`, but the condition is put to the `k` best, then to a few more, and to all rows only where
    too few of these meet it: on a large table it takes longer than the search."""
    found = _matching_each(reading, name, texts, k + _SPARE, None)
    first = found.group_by("text", maintain_order=True).head(k)
    meets = _meeting(reading, name, first, where)
    lacking = first.filter(~pl.col(ROW).is_in(meets.implode()))["text"]
    spare = found.filter(pl.col("text").is_in(lacking.implode())).join(first, on=ROW, how="anti")
    meets = pl.concat([meets, _meeting(reading, name, spare, where)])
    met = found.filter(pl.col(ROW).is_in(meets.implode()))
    best = met.group_by("text", maintain_order=True).head(k).select(found.columns)
    there, left = (dict(rows.group_by("text").len().iter_rows()) for rows in (found, best))
    short = [place for place, count in there.items() if count == k + _SPARE and left.get(place, 0) < k]
    again = _matching_each(reading, name, [texts[place] for place in short], k, where)
    again = again.with_columns(text=pl.Series(short, dtype=pl.UInt32).gather(again["text"]))
    return pl.concat([best.filter(~pl.col("text").is_in(short)), again])


def _meeting(reading: Reading, name: str, found: pl.DataFrame, where: str) -> pl.Series:
    """The numbers of those of the rows that meet a condition."""
    if reading.in_memory(name, where, ["id"]) is not None:
        ids = reading.by_ids(name, found["id"], ["id"], where=where)["id"]
        return found.filter(pl.col("id").is_in(ids.implode()))[ROW].unique()
    rows = numbered_rows(reading.handle(name), found[ROW].unique().sort(), {ROW: ROW, "meets": where})
    return rows.filter("meets")[ROW]


def _matching_each(reading: Reading, name: str, texts: Sequence[str], k: int, where: str | None) -> pl.DataFrame:
    """Id, number, score and `text`, the place of the text: the best matches of each, best first."""
    schema = {**_ROW, "score": pl.Float32, "text": pl.UInt32}
    sought = {place: words(text) for place, text in enumerate(texts) if k}
    sought = {place: terms for place, terms in sought.items() if terms}
    if not sought:
        return pl.DataFrame(schema=schema)
    queries = []
    for each in sought.values():
        query = query_of(reading.handle(name))
        if where:
            query = query.where(where)
        queries.append(query.nearest_to_text(each).select([*_ROW, "_score"]).limit(k))
    found = answers(queries)
    text = np.repeat([*sought], [len(part) for part in found])
    rows = pl.concat(found).rename({"_score": "score"}).with_columns(text=text).cast(pl.Schema(schema))
    return rows.sort("text", "score", "id", descending=[False, True, False])

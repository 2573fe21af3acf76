"""What recall is compared with: words alone and vectors alone over the plain messages, by LanceDB itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from inference.embedding import Embedder, open_embedder
from storage.connection import connect
from storage.search import words


class PlainSearch:
    """One table of messages with a full-text index and their vectors, and nothing else."""

    def __init__(self, place: Path, messages: Sequence[Mapping[str, Any]], embedder: Embedder | None = None) -> None:
        from lancedb.index import FTS

        self._embedder = embedder or open_embedder()
        said = [f"{row.get('speaker') or row.get('role')}: {row['content']}" for row in messages]
        names = [row["message_id"] for row in messages]
        vectors = pl.Series("vector", self._embedder.embed(said), dtype=pl.Array(pl.Float32, self._embedder.dims))
        rows: pa.Table = pl.DataFrame({"name": names, "text": said}).with_columns(vectors).to_arrow()
        self._table = connect(str(place), "plain").create_table("messages", rows, mode="overwrite")
        self._table.create_index("text", config=FTS(with_position=False))

    def by_words(self, query: str, k: int) -> list[str]:
        """Message ids by BM25."""
        asked = words(query, 1000)
        return self._names(self._table.search(asked, query_type="fts").limit(k)) if asked else []

    def by_meaning(self, query: str, k: int) -> list[str]:
        """Message ids by cosine."""
        vector = self._embedder.embed([query])[0]
        return self._names(self._table.search(vector, vector_column_name="vector").distance_type("dot").limit(k))

    def _names(self, query: Any) -> list[str]:
        names: list[str] = query.select(["name"]).to_arrow()["name"].to_pylist()
        return names

"""What the vector of a row stands for: the text that was embedded, table by table."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from slowwave.intake.pastes import embedded_text
from slowwave.ranking.ranking import prose
from slowwave.reading.mentions import embed_texts
from slowwave.text import FORGOTTEN

OBSERVATIONS = "observations"
"""The conversation of everything that was stated without one."""
SILENT_ROLES = ("tool", "system")
UNSPOKEN_KINDS = ("structural", "similarity")
READ = {
    "messages": (
        "id", "role", "speaker", "content", "search_text", "conversation_id", "message_id", "source_id",
        "has_injection",
    ),
    "facts": ("id", "kind", "statement"),
    "facts_archive": ("id", "kind", "statement"),
    "entities": ("id", "canonical_name", "name", "is_renamed", "summary", "merged_into"),
    "artifacts": ("id", "title", "summary", "content"),
    "entity_profiles": ("id", "text"),
}  # fmt: skip
"""The columns that the text of a row follows from, in the tables where no other row has a part in it."""


def texts_of(name: str, rows: pl.DataFrame, adopted: Collection[str] = ()) -> pl.Series:
    """The text that each row was embedded from; null where a row has no vector. `rows` holds the columns of `READ`.

    `adopted` are the sources whose messages came from another memory system.
    """
    if name == "messages":
        return message_texts(rows, adopted)
    if name == "artifacts":
        return pl.Series("text", [embedded_text(row) for row in rows.iter_rows(named=True)], dtype=pl.String)
    if name == "entities":
        texts = embed_texts(rows)
        return pl.select(pl.when(rows["merged_into"].is_null()).then(texts).alias("text"))["text"]
    if name == "entity_profiles":
        return rows["text"]
    spoken = ~rows["kind"].is_in(UNSPOKEN_KINDS).fill_null(False)
    return pl.select(pl.when(spoken).then(rows["statement"]).alias("text"))["text"]


def message_texts(messages: pl.DataFrame, adopted: Collection[str] = ()) -> pl.Series:
    """Who said what, without code; of what was stated, or adopted from another system, the text it is searched by."""
    stated = (messages["conversation_id"] == OBSERVATIONS) & messages["message_id"].str.starts_with("observation-")
    as_searched = stated | messages["source_id"].is_in(list(adopted)).fill_null(False)
    silent = messages["role"].is_in(SILENT_ROLES) | messages["has_injection"].fill_null(False)
    told = messages.select("speaker", "content", "search_text").iter_rows()
    texts = [
        None if is_silent or not _says(content) else searched if is_found_by else said_text(speaker, content)
        for is_silent, is_found_by, (speaker, content, searched) in zip(silent, as_searched, told, strict=True)
    ]
    return pl.Series("text", texts, dtype=pl.String)


def said_text(speaker: str | None, content: str) -> str:
    """What the vector of a message stands for."""
    return f"{speaker}: {prose(content)}"


def _says(content: str) -> bool:
    """False for what is nothing but a gap that forgetting left."""
    return FORGOTTEN not in content or bool(content.replace(FORGOTTEN, "").strip())

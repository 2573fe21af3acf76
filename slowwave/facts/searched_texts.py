"""Searched texts: what is embedded and searched for each row, table by table."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import polars as pl

from slowwave.common.text import FORGOTTEN, prose, strip_code
from slowwave.entities.mentions import embed_texts
from slowwave.reading.ingestion.documents import embedded_text

CONTEXT_CHARACTERS = 200
ANSWER_CHARACTERS = 200
CONTEXT_ROLES = ("user", "assistant")


def search_texts(messages: pl.DataFrame) -> pl.Series:
    """The text under which each message is found: the end of the turn that it answers, speaker and prose, the answer.

    Reads `conversation_id, ordinal, role, speaker, content, has_injection`; row order is kept. A question holds the
    words by which its answer is asked for later, and an assistant says again in full what it was told in three words:
    "7423" is answered by "The port is now 7423", of which the beginning counts. Only turns of people and assistants
    give context, and none that gives orders to its reader; passages of documents take none. Earlier messages of a
    conversation must be in the frame for its first new one to get its context.
    """
    speaker, text = pl.col("speaker").fill_null(""), pl.col("prose")
    talks = pl.col("role").is_in(CONTEXT_ROLES)
    gives = talks & ~pl.col("has_injection").fill_null(False) & (text != "")
    is_answer = pl.col("role") == "assistant"
    end = pl.format("{}: {}\n", speaker, text.str.tail(CONTEXT_CHARACTERS))
    before = pl.when(gives).then(end).forward_fill().shift(1).over("conversation_id")
    start = pl.format("\n{}: {}", speaker, text.str.head(ANSWER_CHARACTERS))
    says = pl.col("content").fill_null("").map_elements(strip_code, pl.String).str.strip_chars() != ""
    answers = pl.when(is_answer & gives & says).then(start).when(talks & ~is_answer).then(pl.lit(""))
    answer = answers.backward_fill().shift(-1).over("conversation_id")
    return (
        messages.with_row_index("place")
        .with_columns(prose=pl.col("content").fill_null("").map_elements(prose, pl.String))
        .sort("conversation_id", "ordinal", "place")
        .with_columns(
            search_text=pl.concat_str(
                pl.when(talks).then(before).fill_null(""),
                pl.format("{}: {}", speaker, text),
                pl.when(pl.col("role") == "user").then(answer).fill_null(""),
            )
        )
        .sort("place")["search_text"]
    )


def around(messages: pl.DataFrame) -> pl.DataFrame:
    """(context, answer): what stands before and after a message's own words in its `search_text`; row order is kept."""
    rows = messages.select("speaker", "content", "search_text").iter_rows()
    parts = [(searched or "").partition(message_text(who or "", said or "")) for who, said, searched in rows]
    columns = {"context": [before for before, _, _ in parts], "answer": [after for _, _, after in parts]}
    return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))


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
    """Speaker and content without code; for stated or imported messages their search text."""
    stated = (messages["conversation_id"] == OBSERVATIONS) & messages["message_id"].str.starts_with("observation-")
    as_searched = stated | messages["source_id"].is_in(list(adopted)).fill_null(False)
    silent = messages["role"].is_in(SILENT_ROLES) | messages["has_injection"].fill_null(False)
    rows = messages.select("speaker", "content", "search_text").iter_rows()
    texts = [
        None if is_silent or not _says(content) else searched if is_found_by else message_text(speaker, content)
        for is_silent, is_found_by, (speaker, content, searched) in zip(silent, as_searched, rows, strict=True)
    ]
    return pl.Series("text", texts, dtype=pl.String)


def message_text(speaker: str | None, content: str) -> str:
    """The embedded text of a message."""
    return f"{speaker}: {prose(content)}"


def _says(content: str) -> bool:
    """False if only the marks of forgotten names are left."""
    return FORGOTTEN not in content or bool(content.replace(FORGOTTEN, "").strip())


# An entity as one text to embed: its observations and its relations (S0-06).


CHARACTERS = int((480 - 25) * 3.57)
"""480 tokens without 25 for what stands around the observations, at 3.57 characters a token."""
RELATION_CHARACTERS = CHARACTERS // 2
FIRST, LAST = 3, 7
_BETWEEN = 3  # " | "
_LEAST = 20  # characters below which nothing more is tried
_PLAIN = "observation"


def entity_text(
    name: str,
    entity_type: str,
    status: str,
    observations: Sequence[tuple[str, str]],
    relations: Sequence[tuple[str, str]],
) -> str:
    """`name (type) [status]: o1 | o2 | … | Rel: relation → target; …`.

    `observations` (kind, text) are in order of time, `relations` (relation, target) the most telling first. Up to ten
    observations are all there; of more the first three, the last seven, and of those between them the ones with the
    most different words, as many as fit, in their place. Relations take at most half of the budget.
    """
    listed = _listed(relations)
    texts = [text if kind == _PLAIN else f"[{kind}] {text}" for kind, text in observations]
    parts = [texts[place] for place in _chosen(texts, CHARACTERS - len(listed))]
    body = " | ".join([*parts, *([f"Rel: {listed}"] if listed else [])])
    head = f"{name} ({entity_type}) [{status}]"
    return f"{head}: {body}" if body else head


def _listed(relations: Sequence[tuple[str, str]]) -> str:
    """Relations in their order as long as they fit; the first one always does."""
    listed = ""
    for relation, target in dict.fromkeys(relations):
        longer = f"{listed}; {relation} → {target}" if listed else f"{relation} → {target}"
        if listed and len(longer) > RELATION_CHARACTERS:
            break
        listed = longer
    return listed


def _chosen(texts: Sequence[str], room: int) -> list[int]:
    """Places of the observations that are taken, in their order."""
    if len(texts) <= FIRST + LAST:
        return list(range(len(texts)))
    between = range(FIRST, len(texts) - LAST)
    chosen = [*range(FIRST), *range(len(texts) - LAST, len(texts))]
    room -= sum(len(texts[place]) + _BETWEEN for place in chosen)
    for place in sorted(between, key=lambda place: (-lexical_diversity(texts[place]), place)):
        if room < _LEAST:
            break
        cost = len(texts[place]) + _BETWEEN
        if cost <= room:
            chosen.append(place)
            room -= cost
    return sorted(chosen)


def lexical_diversity(text: str) -> float:
    """Share of a text's words that are different, 0 to 1; none is 0."""
    words = text.lower().split()
    return len(set(words)) / len(words) if words else 0.0

"""Identity: which messages of a batch are stored already, and which only have the identifier of another one."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from slowwave.intake.redaction import redact_all
from slowwave.text import digest, row_id
from storage.snapshots import Reading

SAID = ("role", "speaker", "content")
ROUNDS = 3  # a name with its suffix may be taken by somebody else who said the same words


@dataclass(frozen=True, slots=True)
class Identified:
    """A batch under identifiers that are its own; `fresh` are the messages that are not stored, `renamed` of these."""

    messages: pl.DataFrame
    fresh: pl.DataFrame
    renamed: int


def identify(reading: Reading, messages: pl.DataFrame) -> Identified:
    """Tell messages that are stored from those that clash with another text, which get its suffix as within one run.

    `messages` are redacted and hold in `suffix` the digest of the text as it was read: the later of two texts is
    `message_id~suffix`, so that a second look finds it again.
    """
    named = messages
    for _ in range(ROUNDS):
        clashing = _clashing(reading, named)
        if not clashing:
            break
        named = _renamed(named, clashing)
    named = named.unique("id", keep="first", maintain_order=True)
    known = reading.by_ids("messages", named["id"], ["id"])["id"].to_list()
    fresh = named.filter(~pl.col("id").is_in(known))
    renamed = len(fresh.filter(~pl.col("id").is_in(messages["id"].to_list())))
    return Identified(named, fresh, renamed)


def _clashing(reading: Reading, messages: pl.DataFrame) -> list[str]:
    """Rows whose stored namesake was said by somebody else, or says something else."""
    stored = reading.by_ids("messages", messages["id"], ["id", *SAID])
    both = messages.select("id", *SAID).join(stored, on="id", suffix="_stored")
    different = pl.any_horizontal(pl.col(name).ne_missing(pl.col(f"{name}_stored")) for name in SAID)
    apart = both.filter(different)
    # What an older slowwave left readable may be hidden today: it is compared as it would be stored now.
    clean, _ = redact_all(apart["content_stored"])
    return apart.with_columns(content_stored=clean).filter(different)["id"].to_list()


def _renamed(messages: pl.DataFrame, clashing: list[str]) -> pl.DataFrame:
    is_clash = pl.col("id").is_in(clashing)
    names = [_suffixed(*row) for row in messages.filter(is_clash).select("message_id", "suffix", *SAID).iter_rows()]
    new = messages.filter(is_clash).with_columns(message_id=pl.Series(names, dtype=pl.String))
    ids = [row_id("m", *pair) for pair in new.select("conversation_id", "message_id").iter_rows()]
    changed = new.select(
        pl.col("message_id").alias("new_name"),
        pl.Series("new_id", ids, dtype=pl.String),
        id=messages.filter(is_clash)["id"],
    )
    both = messages.join(changed, on="id", how="left", maintain_order="left")
    return both.with_columns(id=pl.coalesce("new_id", "id"), message_id=pl.coalesce("new_name", "message_id")).drop(
        "new_id", "new_name"
    )


def _suffixed(name: str, suffix: str, *said: str) -> str:
    """By the text; by the speaker, too, where the name has the suffix of the text already."""
    return f"{name}~{digest(*said, size=4)}" if name.endswith(f"~{suffix}") else f"{name}~{suffix}"

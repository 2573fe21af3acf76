"""Audit: how good another memory is, by the rules of this one; nothing is changed or stored.

A contradiction is reported only where one item denies the other and the rest of the words agree: of 533 pairs of
sentences that differ in a denial alone, 523 contradict each other (SICK, development split). Opposite words have no
such figure, and other numbers are mostly other things or other days: a model judges them once the export is imported.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import polars as pl

from slowwave.common.comparison.guards import GUARDS, guards_pass, straight
from slowwave.common.comparison.similarity import Vectors
from slowwave.common.lexicon.statement_words import POLARITY
from slowwave.common.settings import MergeSettings, Settings
from slowwave.common.text import normalise_name, statement_hash
from slowwave.common.words import content_stems
from slowwave.facts.deduplication.duplicates import find_pairs
from slowwave.reading.filters.redaction import redact_all

from .records import Foreign

EXAMPLES = 3
"""Of each fault so many are shown."""
EXAMPLE_CHARS = 160
SAME_MATTER = 0.8
_DENIAL = rf"\b(?:{'|'.join(POLARITY.values())})\b"
# A denial changes the words, too: these guards say nothing more of such a pair.
_BESIDES = tuple(guard for guard in GUARDS if guard.name not in ("polarity", "word"))


def audit(
    foreign: Foreign,
    vectors: Vectors,
    now: datetime,
    settings: Settings,
    resolve: float,
    path: str = "",
    stale_days: int = 365,
) -> dict[str, Any]:
    """The contract of `audit --json`, from everything that an export holds.

    A finding says how many of `total` things (`of` says which) have a fault, their `rate`, 0 to 1, and the first of
    them without secrets. `vectors` are unit rows of the claims, zero where there is none; `resolve` is the cosine from
    which two statements may be about one matter. Counts are of items, and of pairs the later item counts, so that no
    rate is above 1.
    """
    rows = _with_marks(foreign, now)
    live = rows.filter("holds")
    same = live.with_columns(other=pl.col("row").min().over("about", "words", "target")).filter(
        pl.col("row") != pl.col("other")
    )
    once = live.filter(~pl.col("row").is_in(same["row"].implode()))
    pairs = _judged(_near(once, vectors, settings.consolidate, resolve), rows, settings.consolidate)
    alike, denied = (
        pairs.filter(pl.col("is_same") == is_same).unique("row", keep="first", maintain_order=True).sort("row")
        for is_same in (True, False)
    )
    timed = live.with_columns(at=pl.coalesce("stated_at", "valid_from")).drop_nulls("at")
    old = timed.filter(pl.col("at") < now - timedelta(days=stale_days)).sort("at", "row")
    found = (
        ("exact_duplicates", "Said before, word for word", _beside(same, rows), "items that hold", len(live)),
        ("near_duplicates", "Said before, in nearly the same words", _beside(alike, rows), "items that hold",
         len(live)),
        ("contradictions", "Contradicts an earlier item", _beside(denied, rows), "items that hold", len(live)),
        ("stale", f"Last said more than {stale_days} days ago", old.with_columns(note=pl.col("at").dt.date()),
         "items that hold and have a time", len(timed)),
        ("secrets", "Holds what looks like a secret", rows.filter("has_secret"), "items", len(rows)),
    )  # fmt: skip
    findings = {
        name: {
            "name": name, "title": title, "count": len(faulty), "total": total, "of": of,
            "rate": round(len(faulty) / total, 4) if total else 0.0, "examples": _examples(faulty),
        }
        for name, title, faulty, of, total in found
    }  # fmt: skip
    return {
        "path": path, "system": foreign.format, "items": len(rows), "stale_days": stale_days, "findings": findings,
    }  # fmt: skip


def _examples(found: pl.DataFrame) -> list[dict[str, str]]:
    """Place and text of the first of these rows (place, shown), each with its `note`, if it has one."""
    rows = found.head(EXAMPLES).iter_rows(named=True)
    notes = ((row, f" ({row['note']})" if row.get("note") else "") for row in rows)
    return [{"place": row["place"], "text": row["shown"] + note} for row, note in notes]


def _beside(pairs: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """The later rows of pairs (row, other), with what the earlier ones say as a note."""
    said = rows.select(other="row", note=pl.format("“{}”", "shown"))
    own = rows.select("row", "place", "shown")
    return pairs.select("row", "other").join(own, on="row", maintain_order="left").join(
        said, on="other", maintain_order="left"
    )  # fmt: skip


def _with_marks(foreign: Foreign, now: datetime) -> pl.DataFrame:
    """The claims numbered by row, with the subject in normal form, what may be shown, and whether they hold."""
    names = {name: normalise_name(name) for name in foreign.claims["subject"].unique()}
    clean, kinds = redact_all(foreign.claims["statement"])
    hashes = {text: statement_hash(text) for text in foreign.claims["statement"].unique()}
    return foreign.claims.with_row_index("row").with_columns(
        about=pl.col("subject").replace_strict(names, default="", return_dtype=pl.String),
        shown=clean.str.slice(0, EXAMPLE_CHARS),
        has_secret=kinds.list.len() > 0,
        words=pl.col("statement").replace_strict(hashes, default="", return_dtype=pl.String),
        target=pl.col("object").fill_null("").str.to_lowercase(),
        holds=(pl.col("valid_to") > now).fill_null(True),
    )


# Duplicates and contradictions, among the live items about one thing


def _near(live: pl.DataFrame, vectors: Vectors, merge: MergeSettings, resolve: float) -> pl.DataFrame:
    """(other, row, cosine, jaccard) of rows about one thing that may say the same, or the opposite; other before."""
    crowd = live.filter(pl.len().over("about") > 1)
    facts = crowd.select(
        id=pl.col("row").cast(pl.String).str.zfill(9), scope="about", kind="kind", statement="statement",
        is_seed=pl.lit(True),
    )  # fmt: skip
    own = vectors[crowd["row"].to_numpy()]
    return find_pairs(facts, own, merge, resolve).select(
        other=pl.col("a_id").cast(pl.UInt32), row=pl.col("b_id").cast(pl.UInt32), cosine="cosine", jaccard="jaccard"
    )


def _judged(pairs: pl.DataFrame, rows: pl.DataFrame, merge: MergeSettings) -> pl.DataFrame:
    """(other, row, is_same): those that say the same, and those of the same matter that differ in a denial alone."""
    plain = straight(rows["statement"]).str.to_lowercase().str.replace_all(_DENIAL, " ")
    read = rows.select("statement", "target", words=plain.to_frame("text").select(content_stems("text"))["text"])
    one, two = read[pairs["other"]], read[pairs["row"]]
    both = pl.concat([pairs, one, two.rename({name: f"{name}_b" for name in two.columns})], how="horizontal")
    shared, every = (
        getattr(pl.col("words").list, operation)("words_b").list.len()
        for operation in ("set_intersection", "set_union")
    )
    is_alike = (pl.col("cosine") >= merge.merge_cosine) | (pl.col("jaccard") >= merge.text_dedup).fill_null(False)
    near = both.with_columns(is_alike=is_alike, of_one=(shared / every) >= SAME_MATTER).filter(
        pl.col("is_alike") | pl.col("of_one")
    )
    guard = guards_pass(near["statement"], near["statement_b"])["failed_guard"]
    agrees = guards_pass(near["statement"], near["statement_b"], _BESIDES)["passes"]
    is_same = guard.is_null() & pl.col("is_alike") & (pl.col("target") == pl.col("target_b"))
    is_denied = (guard == "polarity").fill_null(False) & pl.col("of_one") & agrees
    judged = near.with_columns(is_same=is_same, is_denied=is_denied)
    return judged.filter(pl.col("is_same") | pl.col("is_denied")).sort("other", "row").select("other", "row", "is_same")

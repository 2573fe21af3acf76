"""Relations of documents: duplicates, versions, derivatives, or none (S1-16 … S1-19)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import polars as pl

from slowwave.common.comparison.guards import GUARDS, guards_pass
from slowwave.common.comparison.similarity import jaccard_of
from slowwave.common.decisions import decision, decision_frame
from slowwave.common.frames import ARTIFACTS, conform
from slowwave.common.settings import ArtifactSettings

SHINGLE_WORDS = 5
SIMILAR = 0.60  # cosine from which two artifacts are compared (S1-16)
SAME_TITLE = 0.50  # shared title words from which one is a version (S1-18)
WEIGHTS: Mapping[str, float] = {"cosine": 0.5, "shingle_jaccard": 0.3, "title_jaccard": 0.2}
NEAR = {"id": pl.String, "head_id": pl.String, "cosine": pl.Float64}

_SUBSTANCE = tuple({guard.name: guard for guard in GUARDS}[name] for name in ("polarity", "quantity", "time", "name"))
_TITLE_WORD = r"[\p{L}\p{N}]+"
_EDITION = r"(?i)\b(?:v|ver|version|rev|revision|draft|edition)[ ._-]*\d+(?:\.\d+)*\b|\b(?:draft|final|copy|revised)\b"
_ENDING = r"\.[A-Za-z][A-Za-z0-9]{0,7}$"


def shingle_jaccard(a: pl.Series, b: pl.Series) -> pl.Series:
    """Jaccard of the runs of five words, pair by pair; a shorter text is one run (S1-17)."""
    both = ((_shingles(text), _shingles(other)) for text, other in zip(a, b, strict=True))
    shares = [len(one & other) / len(one | other) if one or other else 1.0 for one, other in both]
    return pl.Series("jaccard", shares, dtype=pl.Float64)


@lru_cache(maxsize=16)  # a new text is compared with a few
def _shingles(text: str) -> frozenset[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    starts = range(max(len(words) - SHINGLE_WORDS, 0) + 1) if words else ()
    return frozenset(tuple(words[start : start + SHINGLE_WORDS]) for start in starts)


def title_jaccard(a: pl.Series, b: pl.Series) -> pl.Series:
    """Jaccard of the words of two titles, without file endings and words of the edition (S1-18)."""
    words = pl.DataFrame({"a": _title_words(a), "b": _title_words(b)})
    return words.select(jaccard=jaccard_of(pl.col("a"), pl.col("b")))["jaccard"]


def measure_pairs(artifacts: pl.DataFrame, near: pl.DataFrame, settings: ArtifactSettings) -> pl.DataFrame:
    """Near pairs of one scope, each once (id < head_id), with measures and `relation` by rule (null: none).

    `artifacts` has both sides: id, title, type, content, scope, conversation_id. Pairs with a cosine below
    SIMILAR are left out (S1-16).
    """
    first, second = pl.min_horizontal("id", "head_id"), pl.max_horizontal("id", "head_id")
    pairs = near.filter((pl.col("cosine") >= SIMILAR) & (pl.col("id") != pl.col("head_id")))
    pairs = (
        pairs.select(id=first, head_id=second, cosine="cosine").group_by("id", "head_id").agg(pl.col("cosine").max())
    )
    sides = artifacts.select("id", "title", "type", "content", "scope", "conversation_id")
    pairs = pairs.sort("id", "head_id").join(sides, on="id", maintain_order="left")
    pairs = pairs.join(sides, left_on="head_id", right_on="id", suffix="_b", maintain_order="left")
    pairs = pairs.filter(pl.col("scope") == pl.col("scope_b"))
    measured = pairs.with_columns(
        shingle_jaccard=shingle_jaccard(pairs["content"], pairs["content_b"]),
        title_jaccard=title_jaccard(pairs["title"], pairs["title_b"]),
        is_same_file=(pl.col("conversation_id") == pl.col("conversation_id_b")).fill_null(False),
        is_same_type=pl.col("type") == pl.col("type_b"),
    ).with_columns(confidence=pl.sum_horizontal(weight * pl.col(name) for name, weight in WEIGHTS.items()))
    measured = measured.with_columns(changed=_changed(measured, settings))
    kept = ("id", "head_id", *WEIGHTS, "confidence", "is_same_file", "is_same_type", "changed")
    return measured.select(*kept, relation=_relation(settings))


def _title_words(titles: pl.Series) -> pl.Series:
    bare = titles.str.replace(_ENDING, "").str.to_lowercase().str.replace_all("_", " ", literal=True)
    words = bare.str.replace_all(_EDITION, " ").str.extract_all(_TITLE_WORD)
    frame = pl.DataFrame({"words": words, "all": bare.str.extract_all(_TITLE_WORD)})
    chosen = pl.when(pl.col("words").list.len() > 0).then("words").otherwise("all")
    return frame.select(words=chosen.list.unique())["words"]


def _changed(pairs: pl.DataFrame, settings: ArtifactSettings) -> pl.Series:
    """The guard that fails on the differing lines of a pair with nearly the same text, "" if none does; else null.

    A long text with one changed number or name shares nearly all of its runs, but it is a new version (G1, G2, T29).
    """
    alike = pairs.with_row_index("row").filter(pl.col("shingle_jaccard") >= settings.text_dedup)
    differing = [_differing(a, b) for a, b in alike.select("content", "content_b").iter_rows()]
    first, second = (pl.Series([pair[side] for pair in differing], dtype=pl.String) for side in (0, 1))
    failed = guards_pass(first, second, _SUBSTANCE)["failed_guard"].fill_null("")
    found = alike.select("row").with_columns(changed=failed)
    rows = pairs.select(pl.int_range(pl.len(), dtype=pl.UInt32).alias("row"))
    return rows.join(found, on="row", how="left", maintain_order="left")["changed"]


def _differing(a: str, b: str) -> tuple[str, str]:
    """The lines that only one side has, with their surplus count."""
    first, second = (Counter(line.strip() for line in text.splitlines()) for text in (a, b))
    return "\n".join((first - second).elements()), "\n".join((second - first).elements())


def _relation(settings: ArtifactSettings) -> pl.Expr:
    is_one_text = pl.col("changed") == ""  # null where the texts share too little
    is_sure = pl.col("confidence") >= settings.link_confidence
    is_titled_so = pl.col("is_same_type") & (pl.col("title_jaccard") >= SAME_TITLE)
    return (
        pl.when(is_one_text).then(pl.lit("duplicate"))
        .when(is_titled_so & (is_sure | pl.col("is_same_file"))).then(pl.lit("version"))
        .when(is_sure).then(pl.lit("derivative"))
    )  # fmt: skip


LINKED = (
    "group_id", "version_no", "parent_id", "link", "derived_from", "is_head", "status", "replaced_by", "confidence",
    "consolidated_at",
)  # fmt: skip
"""The columns that linking sets."""

Row = dict[str, Any]
_ALONE = dict.fromkeys(("parent_id", "derived_from", "replaced_by", "confidence"))
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_RANKS = {"duplicate": 0, "version": 1, "derivative": 2}


@dataclass(frozen=True, slots=True, eq=False)
class ArtifactPlan:
    """`artifacts`: id and LINKED of every row that changes; `decisions`: DECISIONS, one for each link."""

    artifacts: pl.DataFrame
    decisions: pl.DataFrame

    @property
    def counts(self) -> dict[str, int]:
        """Number of links of each kind."""
        made = Counter(self.decisions["action"].to_list())
        named = {"versions": "link_version", "derivatives": "link_derivative", "duplicates": "link_duplicate"}
        return {what: made[action] for what, action in named.items()}


def as_filed(drafts: pl.DataFrame) -> pl.DataFrame:
    """New artifacts, each the head and only version of a chain of its own until it is linked."""
    return drafts.with_columns(
        group_id="id",
        version_no=pl.lit(1, pl.Int64),
        link=pl.lit("root"),
        is_head=pl.lit(True),
        status=pl.lit("active"),
    )


def plan_artifacts(
    new: pl.DataFrame,
    heads: pl.DataFrame,
    near: pl.DataFrame,
    settings: ArtifactSettings,
    now: datetime,
) -> ArtifactPlan:
    """Place each new artifact in a chain, in the order of `made_at` (S1-17 … S1-19).

    `new` and `heads` have ARTIFACTS columns: the unlinked ones, and all active rows of the groups that they may join,
    with older versions. `near` is NEAR: the cosines of new ones to heads and to each other. Every link except that of a
    duplicate leads to an older artifact, so there are no cycles. A chain is ordered by `made_at`, and at equal times by
    `created_at` if it is there, whatever arrived first.
    """
    new, heads = conform(new, ARTIFACTS), conform(heads, ARTIFACTS)
    both = pl.concat([new.select(*ARTIFACTS), heads.select(*ARTIFACTS)])
    related = _by_artifact(measure_pairs(both, near, settings).drop_nulls("relation").to_dicts())
    rows = {row["id"]: row for row in sorted(heads.to_dicts(), key=_age)}
    before = {key: dict(row) for key, row in rows.items()}
    decisions = []
    for each in sorted(new.to_dicts(), key=_age):
        row = rows[each["id"]] = {**each, **_ALONE, "group_id": each["id"], "consolidated_at": now}
        other, pair = next(((key, pair) for key, pair in related.get(row["id"], ()) if key in rows), ("", None))
        if pair is None:
            continue
        kept = rows[rows[other]["replaced_by"] or other]
        subject = _link(rows, row, kept, pair)
        if subject is not None:
            about = kept if subject is row else row
            decisions.append(_decision(subject, (row["id"], kept["id"]), about["title"], pair, settings, now))
    _number(rows)
    schema = {name: ARTIFACTS[name] for name in ("id", *LINKED)}
    changed = [{name: row[name] for name in schema} for key, row in rows.items() if row != before.get(key)]
    return ArtifactPlan(pl.DataFrame(changed, schema=dict(schema)), decision_frame(decisions))


def _link(rows: Mapping[str, Row], row: Row, kept: Row, pair: Row) -> Row | None:
    """Link a row to a placed one; the row that says so, None where the derivative has a source already.

    A duplicate is no version (S1-17); the younger of two is made from the version of the other at that time.
    """
    how: Row = {"confidence": pair["confidence"], "group_id": kept["group_id"]}
    if pair["relation"] == "duplicate":
        how |= {"link": "duplicate", "status": "superseded", "replaced_by": kept["id"], "is_head": False}
        row |= how | {"version_no": None}
        return row
    if pair["relation"] == "version":
        row |= how
        return row
    versions = (one for one in rows.values() if one["group_id"] == kept["group_id"] and not one["replaced_by"])
    chain = sorted(versions, key=_age)
    older = [one for one in chain if _age(one) < _age(row)]
    made, source = (row, older[-1]) if older else (chain[0], row)
    if made["derived_from"] is not None:
        return None
    made |= {"derived_from": source["id"], "confidence": pair["confidence"]}
    return made


def _number(rows: Mapping[str, Row]) -> None:
    """Number each chain by age (S1-19)."""
    last: dict[str, Row] = {}
    for row in sorted((row for row in rows.values() if not row["replaced_by"]), key=_age):
        before = last.get(row["group_id"])
        row |= {"version_no": 1, "parent_id": None, "link": "derivative" if row["derived_from"] else "root"}
        if before is not None:
            before["is_head"] = False
            row |= {"version_no": before["version_no"] + 1, "parent_id": before["id"], "link": "version"}
        row["is_head"] = True
        last[row["group_id"]] = row


def _decision(
    subject: Row, ids: tuple[str, str], title: str, pair: Row, settings: ArtifactSettings, now: datetime
) -> dict[str, object]:
    """The decision about a link; `title` is that of the other document."""
    sure = f"confidence {pair['confidence']:.2f}"
    how = "read from the same file" if pair["is_same_file"] else sure
    reason = {
        "duplicate": f"Its text repeats {title!r}: {pair['shingle_jaccard']:.0%} of the runs of five words are equal.",
        "derivative": f"It was made from {title!r} ({sure}).",
        "version": f"It is another version of {title!r} ({how}).",
    }[pair["relation"]]
    limits = {"link_confidence": settings.link_confidence, "text_dedup": settings.text_dedup}
    marks = {"is_same_file": pair["is_same_file"], "guard": pair["changed"]}
    measures = {
        **{name: round(float(pair[name]), 4) for name in (*WEIGHTS, "confidence")},
        **limits,
        "title_jaccard_from": SAME_TITLE,
        **{key: value for key, value in marks.items() if value},
    }
    return decision(
        f"link_{pair['relation']}", subject["id"], sorted(ids), [subject["id"]], reason, now, measures, key=ids
    )


def _by_artifact(pairs: Sequence[Row]) -> dict[str, list[tuple[str, Row]]]:
    """Artifact id → linked artifacts with the pair, the surest first."""
    found: dict[str, list[tuple[str, Row]]] = {}
    for pair in pairs:
        found.setdefault(pair["id"], []).append((pair["head_id"], pair))
        found.setdefault(pair["head_id"], []).append((pair["id"], pair))
    for others in found.values():
        others.sort(key=lambda each: (_RANKS[each[1]["relation"]], -each[1]["confidence"], each[0]))
    return found


def _age(row: Mapping[str, Any]) -> tuple[datetime, datetime, str]:
    """Sort key by age; at equal times the first to arrive is older (an edited file may keep its date)."""
    return row["made_at"], row.get("created_at") or _LONG_AGO, row["id"]

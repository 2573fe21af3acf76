"""Audit: how good another memory is, by the rules of this one; nothing is changed or stored.

A contradiction is reported only where one item denies the other and the rest of the words agree: of 533 pairs of
sentences that differ in a denial alone, 523 contradict each other (SICK, development split). Opposite words have no
such figure, and other numbers are mostly other things or other days: a model judges them once the export is imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
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
from slowwave.reading.filters.injection import injection_reasons
from slowwave.reading.filters.redaction import redact_all

from .records import Foreign

EXAMPLES = 3
"""Of each fault so many are shown."""
EXAMPLE_CHARS = 160
SAME_MATTER = 0.8
_DENIAL = rf"\b(?:{'|'.join(POLARITY.values())})\b"
# A denial changes the words, too: these guards say nothing more of such a pair.
_BESIDES = tuple(guard for guard in GUARDS if guard.name not in ("polarity", "word"))
_PAIRS = {"a": pl.UInt32(), "b": pl.UInt32(), "kind": pl.String()}


@dataclass(frozen=True, slots=True)
class Example:
    """Where something was found, and what it says, without secrets."""

    place: str
    text: str


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """How many of `total` things (`of` says which) have a fault, and the first of them; `kinds` parts the count."""

    name: str
    title: str
    count: int
    total: int
    of: str
    examples: tuple[Example, ...] = ()
    kinds: Mapping[str, int] | None = None

    @property
    def rate(self) -> float:
        """The share, 0 to 1; 0 where there is nothing."""
        return self.count / self.total if self.total else 0.0

    def as_json(self) -> dict[str, Any]:
        """The finding as plain data, its rate included."""
        own = asdict(self)
        return {**own, "rate": round(self.rate, 4), "examples": list(own["examples"]), "kinds": dict(self.kinds or {})}


@dataclass(frozen=True, slots=True)
class Audit:
    """All findings about an export."""

    path: str
    system: str
    items: int
    entities: int
    stale_days: int
    findings: tuple[AuditFinding, ...]

    @property
    def title(self) -> str:
        """The counts of the export."""
        return f"{self.path}: {self.items} items about {self.entities} entities, an export of {self.system}"

    def as_json(self) -> dict[str, Any]:
        """The contract of `audit --json`."""
        head = {name: getattr(self, name) for name in ("path", "system", "items", "entities", "stale_days")}
        return {**head, "findings": {each.name: each.as_json() for each in self.findings}}


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """Claims with what all checks need of them."""

    rows: pl.DataFrame
    vectors: Vectors
    now: datetime

    def finding(
        self, name: str, title: str, found: pl.Series, of: str, total: int, notes: Sequence[str] = (), **more: Any
    ) -> AuditFinding:
        """The finding about the rows of these numbers; `notes` add to each of the first."""
        shown = self.rows[found.head(EXAMPLES)]
        texts = shown["shown"].to_list()
        pairs = zip(texts, [*notes, *[""] * len(texts)], strict=False)
        lines = [f"{text} ({note})" if note else text for text, note in pairs]
        places = [Example(place, text) for place, text in zip(shown["place"], lines, strict=True)]
        return AuditFinding(name, title, len(found), total, of, tuple(places), **more)


def audit(
    foreign: Foreign,
    vectors: Vectors,
    now: datetime,
    settings: Settings,
    resolve: float,
    path: str = "",
    stale_days: int = 365,
) -> Audit:
    """Look at everything that an export holds; `vectors` are unit rows of its claims, zero where there is none.

    `resolve` is the cosine from which two statements may be about one matter. Counts are of items, and of pairs the
    later item counts, so that no rate is above 1.
    """
    items = Items(_with_marks(foreign, now), vectors, now)
    exact, near, opposed = compare(items, settings.consolidate, resolve)
    findings = (
        exact,
        near,
        opposed,
        _stale(items, stale_days),
        _orphans(items, foreign),
        _secrets(items),
        _orders(items),
        _broken(items, foreign),
    )
    entities = pl.concat([foreign.entities["name"], foreign.claims["subject"], foreign.claims["object"]])
    named = [normalise_name(name) for name in entities.drop_nulls().unique()]
    return Audit(path, foreign.format, len(items.rows), len(set(named)), stale_days, findings)


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


def _stale(items: Items, days: int) -> AuditFinding:
    timed = items.rows.filter("holds").with_columns(at=pl.coalesce("stated_at", "valid_from")).drop_nulls("at")
    old = timed.filter(pl.col("at") < items.now - timedelta(days=days)).sort("at", "row")
    notes = [f"{at:%Y-%m-%d}" for at in old["at"].head(EXAMPLES)]
    title = f"Last told more than {days} days ago"
    return items.finding("stale", title, old["row"], "items that hold and have a time", len(timed), notes)


def _orphans(items: Items, foreign: Foreign) -> AuditFinding:
    """Listed entities without a statement."""
    forms = {name: normalise_name(name) for name in foreign.entities["name"].unique()}
    form = pl.col("name").replace_strict(forms, default="", return_dtype=pl.String)
    listed = foreign.entities.with_columns(form=form, shown=redact_all(foreign.entities["name"])[0])
    mentioned = {
        normalise_name(name) for name in pl.concat([items.rows["subject"], items.rows["object"]]).drop_nulls().unique()
    }
    alone = listed.filter(~pl.col("form").is_in(list(mentioned))).unique("form", keep="first", maintain_order=True)
    shown = [Example(place, name) for place, name in alone.select("place", "shown").head(EXAMPLES).iter_rows()]
    total = listed["form"].n_unique()
    return AuditFinding("orphans", "Entities without a statement", len(alone), total, "entities listed", tuple(shown))


def _secrets(items: Items) -> AuditFinding:
    found = items.rows.filter("has_secret")["row"]
    return items.finding("secrets", "Holds what looks like a secret", found, "items", len(items.rows))


def _orders(items: Items) -> AuditFinding:
    reasons = injection_reasons(items.rows["statement"])
    found = items.rows.with_columns(reason=reasons).drop_nulls("reason")
    return items.finding("orders", "Tries to give its reader orders", found["row"], "items", len(items.rows))


def _broken(items: Items, foreign: Foreign) -> AuditFinding:
    broken = [Example(each.place, each.reason) for each in foreign.skipped if each.loss in ("broken", "endless")]
    total = len(items.rows) + len(broken)
    return AuditFinding("broken", "Cannot be read", len(broken), total, "items found", tuple(broken[:EXAMPLES]))


# Duplicates and contradictions, among the live items about one thing


def compare(items: Items, merge: MergeSettings, resolve: float) -> tuple[AuditFinding, AuditFinding, AuditFinding]:
    """Duplicates word for word, duplicates in nearly the same words, and contradictions, among what holds."""
    live = items.rows.filter("holds")
    same = live.select("row", first=pl.col("row").min().over("about", "words", "target")).filter(
        pl.col("row") != pl.col("first")
    )
    once = live.filter(~pl.col("row").is_in(same["row"].implode()))
    pairs = _judged(_near(once, items.vectors, merge, resolve), items, merge)
    alike = pairs.filter(pl.col("kind") == "same").unique("b", keep="first", maintain_order=True).sort("b")
    against = pairs.filter(pl.col("kind") != "same").unique("b", keep="first", maintain_order=True).sort("b")
    kinds = dict(against["kind"].value_counts().sort("kind").iter_rows())
    of, total = "items that hold", len(live)
    first, others, opposed = (_shown(items, rows) for rows in (same["first"], alike["a"], against["a"]))
    lines = [f"{kind}: {text}" for kind, text in zip(against["kind"].head(EXAMPLES), opposed, strict=True)]
    return (
        items.finding("exact_duplicates", "Said before, word for word", same["row"], of, total, first),
        items.finding("near_duplicates", "Said before, in nearly the same words", alike["b"], of, total, others),
        items.finding("contradictions", "Contradicts an earlier item", against["b"], of, total, lines, kinds=kinds),
    )


def _shown(items: Items, rows: pl.Series) -> list[str]:
    """The texts of the first of these rows, in quotation marks."""
    return [f"“{text}”" for text in items.rows[rows.head(EXAMPLES)]["shown"]]


def _near(live: pl.DataFrame, vectors: Vectors, merge: MergeSettings, resolve: float) -> pl.DataFrame:
    """(a, b, cosine, jaccard) of rows about one thing that may say the same, or the opposite; a before b."""
    crowd = live.filter(pl.len().over("about") > 1)
    facts = crowd.select(
        id=pl.col("row").cast(pl.String).str.zfill(9), scope="about", kind="kind", statement="statement",
        is_seed=pl.lit(True),
    )  # fmt: skip
    own = vectors[crowd["row"].to_numpy()]
    return find_pairs(facts, own, merge, resolve).select(
        a=pl.col("a_id").cast(pl.UInt32), b=pl.col("b_id").cast(pl.UInt32), cosine="cosine", jaccard="jaccard"
    )


def _judged(pairs: pl.DataFrame, items: Items, merge: MergeSettings) -> pl.DataFrame:
    """_PAIRS: those that say the same, and those of the same matter that differ in a denial alone."""
    plain = straight(items.rows["statement"]).str.to_lowercase().str.replace_all(_DENIAL, " ")
    read = items.rows.select("statement", "target", words=plain.to_frame("text").select(content_stems("text"))["text"])
    one, two = read[pairs["a"]], read[pairs["b"]]
    rows = pl.concat([pairs, one, two.rename({name: f"{name}_b" for name in two.columns})], how="horizontal")
    shared, every = (
        getattr(pl.col("words").list, operation)("words_b").list.len()
        for operation in ("set_intersection", "set_union")
    )
    is_alike = (pl.col("cosine") >= merge.merge_cosine) | (pl.col("jaccard") >= merge.text_dedup).fill_null(False)
    near = rows.with_columns(is_alike=is_alike, overlap=shared / every).filter(
        pl.col("is_alike") | (pl.col("overlap") >= SAME_MATTER)
    )
    near = near.with_columns(
        guard=guards_pass(near["statement"], near["statement_b"])["failed_guard"],
        agrees=guards_pass(near["statement"], near["statement_b"], _BESIDES)["passes"],
    )
    differs = (pl.col("guard") == "polarity") & (pl.col("overlap") >= SAME_MATTER)
    kind = (
        pl.when(pl.col("guard").is_null() & pl.col("is_alike") & (pl.col("target") == pl.col("target_b")))
        .then(pl.lit("same"))
        .when(differs & pl.col("agrees"))
        .then(pl.lit("denied"))
    )
    return near.with_columns(kind=kind).drop_nulls("kind").sort("a", "b").select(*_PAIRS)

"""Duplicates and contradictions in an export, among the live items about one thing.

A contradiction is reported only where the rest of the words agree: of 533 pairs of sentences that differ in a denial
alone, 523 contradict each other (SICK, development split); for numbers and opposite words there is no such figure, so
each example names its kind.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import polars as pl

from slowwave import frames
from slowwave.comparison.guards import GUARDS, guards_pass, is_time_bound, read_names, read_polarities, straight
from slowwave.comparison.similarity import FOUND, SimilarityThresholds, Vectors, similar_pairs
from slowwave.deduplication.blocking import find_pairs
from slowwave.foreign.records import Foreign
from slowwave.lexicon.statement_words import MONTHS, NUMBER_WORDS, POLARITY, RELATIVE_TIME, UNITS, WEEKDAYS
from slowwave.revision.mutual_exclusion import Forms, bare_name, exclude, read_claim
from slowwave.revision.mutual_exclusion import names_both as says_both
from slowwave.revision.predicates import canonicalise
from slowwave.settings import EvaluateSettings, MergeSettings
from slowwave.words import content_stems

# What an audit reads out of a statement: what it is about, how it denies, what it counts, and when that was. A count
# is a number of something: "2 cats", "two cats", "20 euros". A date, a year, a time of day, and the number of a
# chapter or a room are none: two statements that differ in one speak of two things or two events, which may both
# hold.


_DENIAL = rf"\b(?:{'|'.join(POLARITY.values())})\b"
_PLAIN = ("not", "never", "no", "no longer")
_CANNOT = r"\b(?:cannot|can't|cant|can not|unable to|not able to)\b"
_CARDINALS = {word: value for word, value in NUMBER_WORDS.items() if value.isdigit() and word not in ("both", "single")}
_DAY = r"\d{1,2}(?:st|nd|rd|th|\.)?"
_MONTH = rf"(?:{'|'.join(sorted(MONTHS, key=len, reverse=True))})\b\.?"
_NUMBERED = (
    "chapter|page|part|season|episode|room|bus|line|version|level|grade|route|number|gate|platform|floor|step|"
    "apartment|flat|track|class|volume|issue|phase|day|week|month|year|capítulo|página|kapitel|seite"
)
_OCCASION = (
    rf"(?:the )?{_DAY} (?:of |de )?{_MONTH}(?:,? (?:of |de )?\d{{4}})?|{_MONTH} {_DAY}(?:,? \d{{4}})?(?!\d)|"
    rf"\d+(?:[/:-]\d+)+|\d+(?:\.\d+){{2,}}|\d+(?:st|nd|rd|th)\b|(?:19|20)\d\d(?!\w)|at \d+|"
    rf"\d+ ?(?:am|pm|a\.m|p\.m|o'clock|uhr)\b|(?:{_NUMBERED}) \d+|"
    rf"(?:{_MONTH}|(?:{'|'.join(WEEKDAYS)})\b)"
)
_UNIT = "|".join(re.escape(unit) for unit in sorted(UNITS, key=len, reverse=True) if unit[0].isalpha())
_DIGITS = rf"(?:\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?|\d+(?:\.\d+)?)(?![\d.,:/-]*\d)(?=(?:{_UNIT})\b|\W|$)"
_COUNT = rf"{_DIGITS}|(?:{'|'.join(_CARDINALS)})\b"
_MONEY = r"\d+,\d\d(?= ?[€$£%])"
_ANY = re.compile(
    rf"(?<![\w.,:/-])(?:(?P<money>{_MONEY})|(?P<occasion>{_OCCASION})|(?P<count>{_COUNT}))", re.IGNORECASE
)
_BLANK = "0"
_COUNTED = pl.Struct({"rest": pl.String, "counts": pl.List(pl.String), "occasions": pl.List(pl.String)})


def read_matter(texts: pl.Series) -> pl.Series:
    """The words of each text that say what it is about, without common endings: no denials, no numbers."""
    plain = pl.DataFrame({"text": straight(texts).str.to_lowercase().str.replace_all(_DENIAL, " ")})
    word = pl.element()
    is_number = word.str.contains(r"\p{N}") | word.is_in([*_CARDINALS])
    return plain.select(words=content_stems("text").list.eval(word.filter(~is_number)))["words"]


def read_denials(texts: pl.Series) -> pl.Series:
    """How each text denies: `none`, `not` or `cannot` for one plain denial, `other` for several or less than that."""
    small = straight(texts).str.to_lowercase()
    read = pl.DataFrame({"text": small, "marks": read_polarities(small)})
    size, first = pl.col("marks").list.len(), pl.col("marks").list.first()
    kind = (
        pl.when(size == 0).then(pl.lit("none"))
        .when((size == 1) & pl.col("text").str.contains(_CANNOT)).then(pl.lit("cannot"))
        .when((size == 1) & first.is_in(_PLAIN)).then(pl.lit("not"))
        .otherwise(pl.lit("other"))
    )  # fmt: skip
    return read.select(kind=kind)["kind"]


def read_counts(texts: pl.Series) -> pl.Series:
    """Structs of `counts`, the numbers of something in their order, `rest`, the text without them, and `occasions`.

    Occasions are dates, times of day, and numbers that name something, in the order of the text.
    """
    small = straight(texts)
    relative = small.str.to_lowercase().str.extract_all(rf"\b(?:{RELATIVE_TIME})\b").to_list()
    rows = [(*_counted(text), times) for text, times in zip(small, relative, strict=True)]
    counted = [{"rest": rest, "counts": counts, "occasions": [*on, *times]} for rest, counts, on, times in rows]
    return pl.Series("counted", counted, dtype=_COUNTED)


def _counted(text: str) -> tuple[str, list[str], list[str]]:
    counts: list[str] = []
    occasions: list[str] = []

    def blank(found: re.Match[str]) -> str:
        word = found[0].lower()
        if found["occasion"] is not None:
            occasions.append(word)
            return found[0]
        counts.append(_CARDINALS.get(word, word.replace(",", "." if found["money"] else "")))
        return f"{_BLANK} " if text[found.end() : found.end() + 1].isalpha() else _BLANK

    return _ANY.sub(blank, text), counts, occasions


# Findings with their rates, as a table, as JSON or as Markdown.


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

    def as_markdown(self) -> str:
        """The report as Markdown: a table, then the examples."""
        rows = [f"| {f.title} | {f.count} | {f.rate:.1%} | {f.total} {f.of} |" for f in self.findings]
        lines = ["# Audit of a memory", "", _escaped(self.title), "", "| finding | count | rate | of |"]
        lines += ["|---|---:|---:|---|", *rows, ""]
        for each in self.findings:
            if each.examples:
                lines += [f"## {each.title}", ""]
                lines += [f"- {_escaped(e.place)}: {_escaped(e.text)}" for e in each.examples] + [""]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """Claims with what all checks need of them, and how many examples of each fault to show."""

    rows: pl.DataFrame
    vectors: Vectors
    now: datetime
    examples: int

    def finding(
        self, name: str, title: str, found: pl.Series, of: str, total: int, notes: Sequence[str] = (), **more: Any
    ) -> AuditFinding:
        """The finding about the rows of these numbers; `notes` add to each of the first."""
        shown = self.rows[found.head(self.examples)]
        texts = shown["shown"].to_list()
        pairs = zip(texts, [*notes, *[""] * len(texts)], strict=False)
        lines = [f"{text} ({note})" if note else text for text, note in pairs]
        places = [Example(place, text) for place, text in zip(shown["place"], lines, strict=True)]
        return AuditFinding(name, title, len(found), total, of, tuple(places), **more)


def _escaped(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())


SAME_MATTER = 0.8
_DENIABLE = tuple(guard for guard in GUARDS if guard.name not in ("polarity", "word", "order", "list"))
_PAIRS = {"a": pl.UInt32(), "b": pl.UInt32(), "kind": pl.String()}


def compare(
    items: Items, foreign: Foreign, merge: MergeSettings, evaluate: EvaluateSettings, resolve: float
) -> tuple[AuditFinding, AuditFinding, AuditFinding]:
    """Duplicates word for word, duplicates in other words, and contradictions, among what holds."""
    live = items.rows.filter("holds")
    same = live.select("row", first=pl.col("row").min().over("about", "words", "target")).filter(
        pl.col("row") != pl.col("first")
    )
    once = live.filter(~pl.col("row").is_in(same["row"].implode()))
    pairs = _judged(_near(once, items.vectors, merge, evaluate, resolve), items, merge)
    alike = pairs.filter(pl.col("kind") == "same").unique("b", keep="first", maintain_order=True).sort("b")
    against = pl.concat([pairs.filter(pl.col("kind") != "same"), _one_at_a_time(once, foreign)])
    against = against.unique("b", keep="first", maintain_order=True).sort("b")
    kinds = dict(against["kind"].value_counts().sort("kind").iter_rows())
    of, total = "items that hold", len(live)
    first, others, opposed = (_shown(items, rows) for rows in (same["first"], alike["a"], against["a"]))
    lines = [f"{kind}: {text}" for kind, text in zip(against["kind"].head(items.examples), opposed, strict=True)]
    return (
        items.finding("exact_duplicates", "Said before, word for word", same["row"], of, total, first),
        items.finding("near_duplicates", "Said before, in other words", alike["b"], of, total, others),
        items.finding("contradictions", "Contradicts an earlier item", against["b"], of, total, lines, kinds=kinds),
    )


def _shown(items: Items, rows: pl.Series) -> list[str]:
    """The texts of the first of these rows, in quotation marks."""
    return [f"“{text}”" for text in items.rows[rows.head(items.examples)]["shown"]]


def _near(
    live: pl.DataFrame, vectors: Vectors, merge: MergeSettings, evaluate: EvaluateSettings, resolve: float
) -> pl.DataFrame:
    """(a, b, cosine, jaccard) of rows about one thing that may say the same, or the opposite; a before b."""
    crowd = live.filter(pl.len().over("about") > 1)
    facts = crowd.select(
        id=pl.col("row").cast(pl.String).str.zfill(9), scope="about", kind="kind", statement="statement",
        is_seed=pl.lit(True),
    )  # fmt: skip
    own = vectors[crowd["row"].to_numpy()]
    found = find_pairs(facts, own, merge, resolve).select(
        a=pl.col("a_id").cast(pl.UInt32), b=pl.col("b_id").cast(pl.UInt32), cosine="cosine", jaccard="jaccard"
    )
    contained = [part.filter(pl.col("match_type") == "containment") for part in similar_pairs(
        crowd["statement"], own, SimilarityThresholds.of(evaluate), group=crowd["about"]
    )]  # fmt: skip
    rows = crowd["row"].cast(pl.UInt32)
    parts = pl.concat([pl.DataFrame(schema=FOUND), *contained])
    more = parts.select(
        a=rows.gather(parts["a"]), b=rows.gather(parts["b"]), cosine="cosine", jaccard=pl.lit(None, dtype=pl.Float64)
    )
    return pl.concat([found, more.select(found.columns)]).unique(["a", "b"], keep="first", maintain_order=True)


def _judged(pairs: pl.DataFrame, items: Items, merge: MergeSettings) -> pl.DataFrame:
    """_PAIRS: those that say the same, and those that differ in a denial, a number or an opposite alone."""
    texts = items.rows["statement"]
    read = items.rows.select("statement", "target", words=read_matter(texts), denial=read_denials(texts))
    one, two = read[pairs["a"]], read[pairs["b"]]
    rows = pl.concat([pairs, one, two.rename({name: f"{name}_b" for name in two.columns})], how="horizontal")
    shared, every = (_size("words", name, "words_b") for name in ("set_intersection", "set_union"))
    overlap = pl.when(every > 0).then(shared / every).otherwise(0.0)
    is_alike = (pl.col("cosine") >= merge.merge_cosine) | (pl.col("jaccard") >= merge.text_dedup).fill_null(False)
    left = [_size(*ends) for ends in (("words", "set_difference", "words_b"), ("words_b", "set_difference", "words"))]
    is_turned = (left[0] == 1) & (left[1] == 1) & (shared > 0)
    rows = rows.with_columns(overlap=overlap, is_alike=is_alike, is_turned=is_turned)
    near = rows.filter(pl.any_horizontal("is_alike", "is_turned") | (pl.col("overlap") >= SAME_MATTER))
    near = near.with_columns(_marks(near["statement"], near["statement_b"]))
    guard, one_target = pl.col("guard"), pl.col("target") == pl.col("target_b")
    denies = (pl.col("denial") == "none") != (pl.col("denial_b") == "none")
    agrees = (pl.col("denial") == pl.col("denial_b")) & pl.col("denial").is_in(["not", "cannot"])
    kind = (
        pl.when(guard.is_null() & pl.col("is_alike") & one_target).then(pl.lit("same"))
        .when(agrees & pl.col("denies_alike") & (pl.col("overlap") == 1.0) & one_target).then(pl.lit("same"))
        .when(denies & pl.col("is_one_time") & (pl.col("overlap") >= SAME_MATTER)).then(pl.lit("denied"))
        .when((guard == "quantity") & pl.col("is_other_number")).then(pl.lit("another number"))
        .when((guard == "antonym") & pl.col("is_turned")).then(pl.lit("opposite"))
    )  # fmt: skip
    return near.with_columns(kind=kind).drop_nulls("kind").sort("a", "b").select(*_PAIRS)


def _marks(one: pl.Series, two: pl.Series) -> list[pl.Series]:
    """Of pairs of statements the first guard that tells them apart, and in what they agree.

    `denies_alike`: in all but their words, with the same names in the same order, whatever they deny; `is_one_time`:
    they speak of the same dates, or of none; `is_other_number`: they count differently, say the same but for that, and
    speak of no passing time.
    """
    counts = [pl.DataFrame({"counted": read_counts(side)}).unnest("counted") for side in (one, two)]
    same_times, other = ((counts[0][name] == counts[1][name]) for name in ("occasions", "counts"))
    same_size = counts[0]["counts"].list.len() == counts[1]["counts"].list.len()
    rest = guards_pass(counts[0]["rest"], counts[1]["rest"])["passes"]
    passing = is_time_bound(one) | is_time_bound(two)
    names = [read_names(straight(side)).struct.field("names") for side in (one, two)]
    return [
        guards_pass(one, two)["failed_guard"].alias("guard"),
        (guards_pass(one, two, _DENIABLE)["passes"] & (names[0] == names[1])).alias("denies_alike"),
        same_times.alias("is_one_time"),
        (~other & same_size & rest & ~passing).alias("is_other_number"),
    ]


def _size(words: str, operation: str, others: str) -> pl.Expr:
    """How many words a set operation of two columns leaves."""
    size: pl.Expr = getattr(pl.col(words).list, operation)(others).list.len()
    return size


def _one_at_a_time(live: pl.DataFrame, foreign: Foreign) -> pl.DataFrame:
    """_PAIRS of relations that allow one object at a time and have two that exclude each other."""
    forms = canonicalise(live["relation"], frames.empty(frames.PREDICATES)).rename({"raw": "relation"})
    single = live.join(forms.filter(pl.col("cardinality") == "1"), on="relation").filter(pl.col("target") != "")
    torn = single.filter(pl.col("target").n_unique().over("about", "canonical") > 1).sort("row")
    types = dict(foreign.entities.drop_nulls("known_type").select("name", "known_type").iter_rows())
    pairs = []
    for part in torn.partition_by("about", "canonical", maintain_order=True):
        rows = part.select("row", "statement", "object").rows()
        for n, (row, statement, target) in enumerate(rows):
            other = next((o for o in rows[:n] if _excludes((statement, target), o[1:], types)), None)
            if other is not None:
                pairs.append((other[0], row, "one at a time"))
    return pl.DataFrame(pairs, schema=_PAIRS, orient="row")


def _excludes(new: tuple[str, str], known: tuple[str, str], types: Mapping[str, str]) -> bool:
    claims = [read_claim(statement, target) for statement, target in (new, known)]
    forms = [Forms(frozenset({bare_name(target)}), types.get(target, "")) for _, target in (new, known)]
    if not all(claim.is_plain for claim in claims):
        return False
    both = says_both(new[0], forms[1].names) or says_both(known[0], forms[0].names)
    return not both and exclude(forms[0], forms[1], (claims[0].kind, claims[1].kind))

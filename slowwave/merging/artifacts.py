"""How documents and pasted texts relate: one text twice, versions of one, made from another, or not (S1-16 … S1-19)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import polars as pl

from slowwave.frames import ARTIFACTS, DECISIONS, conform, empty
from slowwave.merging.artifact_pairs import WEIGHTS, measure_pairs
from slowwave.records import ArtifactQuestion
from slowwave.settings import ArtifactSettings
from slowwave.text import as_json, timed_id

LINKED = (
    "group_id", "version_no", "parent_id", "link", "derived_from", "is_head", "status", "replaced_by", "confidence",
    "consolidated_at",
)  # fmt: skip
"""The columns that linking writes."""

ASKED_FROM = 0.5  # cosine alone cannot reach it: a pair that shares neither words nor title is not worth a question
ASKED_PER_ARTIFACT = 3
EXCERPT_CHARS = 1500

_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_RANKS = {"duplicate": 0, "version": 1, "derivative": 2}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a model said of a pair: version, derivative or unrelated, how surely, and who it was."""

    relation: str
    confidence: float
    model: str = ""


Verdicts = Mapping[tuple[str, str], Verdict]
"""By the ids of a pair, the smaller one first."""


@dataclass(frozen=True, slots=True, eq=False)
class ArtifactPlan:
    """`artifacts`: id and the LINKED columns of every row that is to change; `decisions`: one for each link."""

    artifacts: pl.DataFrame
    decisions: pl.DataFrame

    @property
    def counts(self) -> dict[str, int]:
        """How many links of each kind."""
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


def find_questions(
    artifacts: pl.DataFrame, pairs: pl.DataFrame, new_ids: Sequence[str]
) -> tuple[tuple[tuple[str, str], ...], tuple[ArtifactQuestion, ...]]:
    """The pairs a model should judge, best first for each new artifact, and their questions: a is the newer one.

    Left out is what rules settle (one text twice, one file again) and what shares neither words nor title.
    """
    open_pairs = pairs.filter((pl.col("relation").fill_null("") != "duplicate") & ~pl.col("is_same_file"))
    likely = open_pairs.filter(pl.col("confidence") >= ASKED_FROM).sort(
        "confidence", "id", "head_id", descending=[True, False, False]
    )
    fresh = frozenset(new_ids)
    asked: dict[str, int] = Counter()
    keys: list[tuple[str, str]] = []
    for a, b in likely.select("id", "head_id").iter_rows():
        mine = [each for each in (a, b) if each in fresh]
        if any(asked[each] < ASKED_PER_ARTIFACT for each in mine):
            asked.update(mine)
            keys.append((a, b))
    rows = {row["id"]: row for row in artifacts.to_dicts()}
    cosines = {(a, b): cosine for a, b, cosine in pairs.select("id", "head_id", "cosine").iter_rows()}
    questions = [_question(number, rows, key, cosines[key]) for number, key in enumerate(keys)]
    return tuple(keys), tuple(questions)


def plan_artifacts(
    new: pl.DataFrame,
    heads: pl.DataFrame,
    near: pl.DataFrame,
    settings: ArtifactSettings,
    verdicts: Verdicts,
    now: datetime,
) -> ArtifactPlan:
    """Where each new artifact belongs, in the order in which they were made (S1-17 … S1-19).

    `new` and `heads` have ARTIFACTS columns: the unlinked ones, and every active row of the groups they may join, older
    versions too. `near` is NEAR: the cosines of new ones to heads, and to each other. Every link but a duplicate's
    leads to something older, so there are no cycles; a chain's order is that of `made_at`, whoever came in first. Where
    they have the stamp `created_at`, it decides between equal times.
    """
    new, heads = conform(new, ARTIFACTS), conform(heads, ARTIFACTS)
    both = pl.concat([new.select(*ARTIFACTS), heads.select(*ARTIFACTS)])
    judged = _by_artifact(_judged(measure_pairs(both, near, settings), settings, verdicts))
    shelf = _Shelf(heads, now)
    for row in sorted(new.to_dicts(), key=_age):
        shelf.place(row, judged.get(row["id"], ()), settings)
    return shelf.plan()


def _question(number: int, rows: Mapping[str, Any], key: tuple[str, str], cosine: float) -> ArtifactQuestion:
    older, newer = sorted((rows[each] for each in key), key=_age)
    return ArtifactQuestion(
        number,
        newer["title"], newer["type"], newer["content"][:EXCERPT_CHARS],
        older["title"], older["type"], older["content"][:EXCERPT_CHARS],
        round(float(cosine), 4),
    )  # fmt: skip


def _judged(pairs: pl.DataFrame, settings: ArtifactSettings, verdicts: Verdicts) -> list[dict[str, Any]]:
    """The pairs that are linked, by rule or by a model's word, which counts for more."""
    linked = []
    for pair in pairs.to_dicts():
        verdict = verdicts.get((pair["id"], pair["head_id"]))
        if verdict is not None and pair["relation"] != "duplicate":
            is_sure = verdict.confidence >= settings.link_confidence and verdict.relation in _RANKS
            said = {"relation": verdict.relation if is_sure else None, "confidence": verdict.confidence}
            pair = {**pair, **said, "model": verdict.model or "model"}
        if pair["relation"]:
            linked.append(pair)
    return linked


def _by_artifact(pairs: Sequence[dict[str, Any]]) -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """For each artifact the others it is linked with, the surest first."""
    found: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for pair in sorted(pairs, key=lambda each: (_RANKS[each["relation"]], -each["confidence"])):
        found.setdefault(pair["id"], []).append((pair["head_id"], pair))
        found.setdefault(pair["head_id"], []).append((pair["id"], pair))
    for others in found.values():
        others.sort(key=lambda each: (_RANKS[each[1]["relation"]], -each[1]["confidence"], each[0]))
    return found


def _age(row: Mapping[str, Any]) -> tuple[datetime, datetime, str]:
    """When it was made; of one time, what came in first is older: a file may be edited and keep its date."""
    return row["made_at"], row.get("created_at") or _LONG_AGO, row["id"]


@dataclass
class _Shelf:
    """Artifacts that have their place, and the chains they form, oldest first."""

    known: pl.DataFrame
    now: datetime
    rows: dict[str, dict[str, Any]] = field(init=False)
    before: dict[str, dict[str, Any]] = field(init=False)
    chains: dict[str, list[str]] = field(default_factory=dict)
    decisions: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows = {row["id"]: row for row in sorted(self.known.to_dicts(), key=_age)}
        self.before = {key: dict(row) for key, row in self.rows.items()}
        for key, row in self.rows.items():
            self.chains.setdefault(row["group_id"], []).append(key)

    def place(
        self, row: dict[str, Any], linked: Sequence[tuple[str, dict[str, Any]]], settings: ArtifactSettings
    ) -> None:
        """Put one artifact where its surest link to something that has its place leads, else alone."""
        alone = {
            "group_id": row["id"],
            "parent_id": None,
            "derived_from": None,
            "replaced_by": None,
            "confidence": None,
        }
        row = {**row, **alone, "consolidated_at": self.now}
        self.rows[row["id"]] = row
        other, pair = next(((key, pair) for key, pair in linked if key in self.rows), ("", {}))
        if not pair or pair["relation"] == "derivative":
            self._into(row, row["id"])
        if not pair:
            return
        kept = self.rows[self.rows[other]["replaced_by"] or other]
        ways = {"duplicate": self._repeat, "version": self._extend, "derivative": self._derive}
        subject = ways[pair["relation"]](row, kept, pair["confidence"])
        if subject is not None:
            self._decide(subject, row["id"], kept["id"], pair, settings)

    def _into(self, row: dict[str, Any], group: str) -> None:
        """Into a chain, which is numbered anew by age (S1-19)."""
        row["group_id"] = group
        chain = self.chains.setdefault(group, [])
        chain.append(row["id"])
        chain.sort(key=lambda key: _age(self.rows[key]))
        before: str | None = None
        for number, key in enumerate(chain, 1):
            one = self.rows[key]
            first = "derivative" if one["derived_from"] else "root"
            one |= {"version_no": number, "parent_id": before, "is_head": number == len(chain)}
            one["link"] = "version" if before else first
            before = key

    def _repeat(self, row: dict[str, Any], kept: dict[str, Any], confidence: float) -> dict[str, Any]:
        """The same text again is no version of its own (S1-17)."""
        row |= {"link": "duplicate", "status": "superseded", "replaced_by": kept["id"], "group_id": kept["group_id"]}
        row |= {"is_head": False, "version_no": None, "confidence": confidence}
        return row

    def _extend(self, row: dict[str, Any], kept: dict[str, Any], confidence: float) -> dict[str, Any]:
        row["confidence"] = confidence
        self._into(row, kept["group_id"])
        return row

    def _derive(self, row: dict[str, Any], kept: dict[str, Any], confidence: float) -> dict[str, Any] | None:
        """The younger was made from the older, as it was then; None where that one has a source already."""
        chain = self.chains[kept["group_id"]]
        older = [key for key in chain if _age(self.rows[key]) < _age(row)]
        made, source = (row, older[-1]) if older else (self.rows[chain[0]], row["id"])
        if made["derived_from"] is not None:
            return None
        made |= {"derived_from": source, "confidence": confidence}
        made["link"] = "version" if made["parent_id"] else "derivative"
        return made

    def _decide(
        self, subject: dict[str, Any], new: str, other: str, pair: dict[str, Any], settings: ArtifactSettings
    ) -> None:
        action = f"link_{pair['relation']}"
        measures = {name: round(float(pair[name]), 4) for name in (*WEIGHTS, "confidence")}
        limits = {
            "link_confidence": settings.link_confidence,
            "text_dedup": settings.text_dedup,
            "title_jaccard_from": settings.title_jaccard,
        }
        marks = {"is_same_file": pair["is_same_file"], "guard": pair["changed"]}
        model = pair.get("model", "")
        self.decisions.append(
            {
                "id": timed_id("d", self.now, action, subject["id"], new, other),
                "action": action,
                "subject_id": subject["id"],
                "ids_in": sorted({new, other}),
                "ids_out": [subject["id"]],
                "measures": as_json({**measures, **limits, **{key: value for key, value in marks.items() if value}}),
                "decided_by": "model" if model else "rule",
                "model": model,
                "reason": self._reason(other if subject["id"] == new else new, pair),
                "at": self.now,
            }
        )

    def _reason(self, other: str, pair: dict[str, Any]) -> str:
        title, sure = self.rows[other]["title"], f"confidence {pair['confidence']:.2f}"
        if pair["relation"] == "duplicate":
            return f"Its text repeats {title!r}: {pair['shingle_jaccard']:.0%} of the runs of five words are the same."
        if pair["relation"] == "derivative":
            return f"It was made from {title!r} ({sure})."
        how = "read from the same file" if pair["is_same_file"] and "model" not in pair else sure
        return f"It is another version of {title!r} ({how})."

    def plan(self) -> ArtifactPlan:
        changed = [row for key, row in self.rows.items() if row != self.before.get(key)]
        schema = {name: ARTIFACTS[name] for name in ("id", *LINKED)}
        rows = [{name: row[name] for name in schema} for row in changed]
        decisions = pl.DataFrame(self.decisions, schema=dict(DECISIONS)) if self.decisions else empty(DECISIONS)
        return ArtifactPlan(pl.DataFrame(rows, schema=dict(schema)), decisions)

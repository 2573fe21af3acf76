"""Probes: the questions by which maintenance is measured, drawn before it starts and then left as they are.

Half come from logged queries: a recall, with the facts that it returned first. The others are made from
facts, without a model: whom a fact is about and how its statement begins, without its answer, which is the object, or
else the end of the statement. They name so few words that a right store answers some six to eight in ten of them: of
questions that are always answered none would tell that recall gets worse.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from hashlib import blake2b
from itertools import islice
from typing import Any

import polars as pl

from slowwave.common.errors import RecallFell
from slowwave.common.settings import GateSettings, StewardSettings
from slowwave.common.validity import is_kept, is_live, successors
from slowwave.common.words import stems

from .usage_scores import score_facts

KINDS = ("relation", "observation", "note")
FIRST_PLACES = 3  # of a logged recall: what came later may have been there by chance
FADING = 0.25  # a fact that nobody ever asked for and that scores lower is on its way out
HIDDEN = 0.06  # below 0.05 recall hides a fact, however often it was asked for long ago
LEAST = 3  # content words of a statement without a short answer
SHARE = 6  # one of so many content words of a statement is in the question
SHORT = 4  # content words of an object that is an answer; a longer one is a clause, whose beginning may be the question
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")


@dataclass(frozen=True, slots=True)
class Probe:
    """A question, and the facts that answer it; `is_logged` if it is from the log of recalls."""

    query: str
    expected: tuple[str, ...]
    is_logged: bool = False


def _short(answer: str) -> frozenset[str]:
    words = stems(answer)
    return words if len(words) <= SHORT else frozenset()


def plan_probes(
    facts: pl.DataFrame,
    queries: pl.DataFrame,
    events: pl.DataFrame,
    settings: GateSettings,
    salt: str,
    now: datetime,
) -> tuple[Probe, ...]:
    """At most `settings.probes` different questions, logged ones first; the same salt draws the same ones.

    `facts` are FACTS with `created_at` and the names `subject` and `object` of their ends; `queries` (query,
    query_hash, at) and `events` (fact_id, query_hash, rank, at) are logs.
    """
    live = facts.filter(is_live(now), pl.col("kind").is_in(KINDS))
    logged = {probe.query: probe for probe in _logged(live, queries, events, settings.probes // 2)}
    made = (probe for probe in _made(spread(live, salt)) if probe.query not in logged)
    return (*logged.values(), *islice(made, settings.probes - len(logged)))


def staying(
    facts: pl.DataFrame, usage: pl.DataFrame, now: datetime, steward: StewardSettings | None = None
) -> pl.DataFrame:
    """The facts without those that the steward archives or hides by its settings: each would count as a loss.

    `usage` is what `usage_of` makes of all recalls, those not counted yet among them. What protects a fact from pruning
    protects it here, and a fact on its way out is left out before it goes.
    """
    scored = facts.with_columns(_score=score_facts(facts, usage, steward or StewardSettings(), now))
    is_used = pl.col("id").is_in(usage["id"].implode()) & (pl.col("_score") >= HIDDEN)
    return scored.filter(is_kept() | is_used | (pl.col("_score") >= FADING)).drop("_score")


def spread(facts: pl.DataFrame, salt: str) -> pl.DataFrame:
    """The facts in the order in which they are asked about: by a salted hash, one of each subject before any second."""
    key = blake2b(salt.encode(), digest_size=16).digest()
    places = [blake2b(fact.encode(), key=key, digest_size=8).digest() for fact in facts["id"]]
    shuffled = facts.with_columns(pl.Series("_place", places, dtype=pl.Binary)).sort("_place", "id")
    turn = pl.int_range(pl.len()).over("subject_id")
    return shuffled.with_columns(_turn=turn).sort("_turn", "_place", "id").drop("_turn", "_place")


def question(statement: str, subject: str, answer: str, relation: str = "") -> str | None:
    """A question that the statement answers; None where it says too little to be asked for.

    It names the subject and the first of the statement's content words, a sixth of them or one, and no word of a
    short `answer`. Where no word is left, those of the relation are asked.
    """
    kept_back = stems(subject) | _short(answer)
    content = _content(statement, stems(subject))
    words = [word for stem, word in content.items() if stem not in kept_back][: max(1, len(content) // SHARE)]
    if len(words) == len(content):
        return None
    words = words or list(_content(relation.replace("_", " "), kept_back).values())
    if not words or (len(content) < LEAST and not _short(answer)):
        return None
    return f"{' '.join([*_WORD.findall(subject), *words])}?"


def _content(text: str, without: frozenset[str]) -> dict[str, str]:
    """Stem → word as it stands there, of the content words in their order, each once."""
    found: dict[str, str] = {}
    for word in _WORD.findall(text):
        for stem in stems(word) - without:
            found.setdefault(stem, word)
    return found


def _logged(facts: pl.DataFrame, queries: pl.DataFrame, events: pl.DataFrame, limit: int) -> list[Probe]:
    """The newest different questions whose first answers are among the facts."""
    newest = queries.filter(pl.col("query").fill_null("").str.strip_chars() != "").sort(
        "at", "query", descending=[True, False]
    )
    distinct = newest.unique("query_hash", keep="first", maintain_order=True).unique(
        "query", keep="first", maintain_order=True
    )
    first = events.filter(pl.col("rank") <= FIRST_PLACES).join(facts.select(fact_id="id"), on="fact_id", how="semi")
    found = distinct.with_row_index("place").join(first, on=["query_hash", "at"], how="inner")
    answers = found.sort("place", "rank", "fact_id").group_by("place", maintain_order=True)
    listed = answers.agg(pl.col("query").first(), pl.col("fact_id").unique(maintain_order=True)).head(limit)
    return [Probe(query, tuple(ids), True) for _, query, ids in listed.iter_rows()]


def _made(facts: pl.DataFrame) -> Iterator[Probe]:
    """A question for each fact that can be asked for, no question twice."""
    columns = ("id", "kind", "statement", "predicate", "subject", "object", "object_text")
    known: set[str] = set()
    for rows in facts.select(columns).iter_slices(1000):
        for id_, kind, statement, predicate, subject, name, words in rows.iter_rows():
            relation = predicate if kind == "relation" else ""
            query = question(statement or "", subject or "", name or words or "", relation or "")
            if query is not None and query.lower() not in known:
                known.add(query.lower())
                yield Probe(query, (id_,))


# The result of the probes for a maintenance run: facts found before and after it, and whether recall fell.


FEWEST = 10  # probes below which one of them says nothing about all
LEAST_LOST = 2  # probes, net: one may turn on a hair
NAMED = 3
_ROUNDING = 1e-9
_GOES_ON = ("active", "superseded")  # with an end that has come and no replacement, such a fact is over


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of facts: their replacements, their statements, and which are over."""

    replaced_by: Mapping[str, str]
    statements: Mapping[str, str]
    over: frozenset[str] = frozenset()

    @classmethod
    def of(cls, rows: pl.DataFrame, now: datetime) -> Standing:
        """From rows (id, statement, status, valid_to, replaced_by) of facts and their successors.

        Over is what was retracted, or has ended without a replacement, itself or as the last that replaced it: the
        world changed. What was archived is not over.
        """
        steps = dict(rows.filter(pl.col("replaced_by").is_not_null()).select("id", "replaced_by").iter_rows())
        has_ended = pl.col("status").is_in(_GOES_ON) & (pl.col("valid_to") <= now).fill_null(False)
        is_last = pl.col("replaced_by").is_null()
        ended = {*rows.filter(is_last & has_ended)["id"], *rows.filter(pl.col("status") == "retracted")["id"]}
        over = frozenset(id_ for id_ in rows["id"] if [id_, *successors(id_, steps)][-1] in ended)
        return cls(steps, dict(rows.select("id", "statement").iter_rows()), over)

    def found(self, probe: Probe, recalled: Mapping[str, str]) -> frozenset[str]:
        """Which of the expected facts were recalled (id → statement): themselves, what replaced them, or their twins.

        A twin says the same sentence; recall tells a sentence once.
        """
        sentences = set(recalled.values())
        return frozenset(
            id_
            for id_ in probe.expected
            if any(
                one in recalled or self.statements.get(one) in sentences
                for one in (id_, *successors(id_, self.replaced_by))
            )
        )


@dataclass(frozen=True, slots=True)
class Lost:
    """A question that found a fact before and does not any more."""

    query: str
    fact_id: str
    statement: str


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """Recall over the same probes before and after, each the mean share in [0, 1] of the expected facts found.

    `undone` are the runs that were taken back because it fell, `obstacle` why that could not be done.
    """

    recall_before: float
    recall_after: float
    probes: int
    tolerance: float
    fell: bool
    lost: tuple[Lost, ...] = ()
    undone: tuple[str, ...] = ()
    obstacle: str = ""
    is_telling: bool = True

    def sentence(self) -> str:
        """For people."""
        if not self.is_telling:
            return f"Only {self.probes} questions could be asked before and after: too few to tell whether recall fell."
        verb = "fell" if self.fell else "held"
        return (
            f"Recall {verb}: {self.recall_before:.3f} before, {self.recall_after:.3f} after, over {self.probes} "
            f"questions (tolerance {self.tolerance:g})."
        )

    def reason(self) -> str:
        """For the ledger: the sentence and its effect, without any stored text."""
        return f"{self.sentence()} {self._consequence()}" if self.fell else self.sentence()

    def as_json(self) -> dict[str, Any]:
        """The verdict as plain data."""
        outcome = {"fell": self.fell, "is_telling": self.is_telling, "undone": list(self.undone)}
        return {**self.measures(), **outcome, "obstacle": self.obstacle, "lost": [asdict(lost) for lost in self.lost]}

    def measures(self) -> dict[str, Any]:
        """The numbers."""
        return {
            "before": round(self.recall_before, 4),
            "after": round(self.recall_after, 4),
            "probes": self.probes,
            "tolerance": self.tolerance,
            "lost": len(self.lost),
        }

    def enforce(self) -> None:
        """Raise `RecallFell` if it fell."""
        if self.fell:
            raise RecallFell(
                f"{self.sentence()} {self._named()}{self._consequence()}",
                "Where the loss is meant, run it again with a higher `tolerance` of its gate (the night's is [sleep] "
                "tolerance), or with --no-gate.",
                self.as_json(),
            )

    def _named(self) -> str:
        some = ", ".join(f"{lost.query!r} no longer finds {lost.statement!r}" for lost in self.lost[:NAMED])
        more = f", and {len(self.lost) - NAMED} more" if len(self.lost) > NAMED else ""
        return f"Lost: {some}{more}. " if some else ""

    def _consequence(self) -> str:
        if self.undone:
            return f"Taken back: {', '.join(self.undone)}."
        return f"Nothing was taken back: {self.obstacle or 'there is no run to undo.'}"


def compare(
    probes: Sequence[Probe],
    before: Sequence[Collection[str]],
    after: Sequence[Collection[str]],
    standing: Standing,
    settings: GateSettings,
) -> GateVerdict:
    """The verdict over probes with the expected facts that each found `before` and `after`; `standing` is of after.

    Recall fell if the mean share found did by more than the tolerance, and by two whole probes at least. Expected facts
    that are over leave both sides; a probe without any of them is left out.
    """
    shares, lost = [], []
    for probe, first, second in zip(probes, before, after, strict=True):
        expected = [id_ for id_ in probe.expected if id_ not in standing.over]
        if not expected:
            continue
        shares.append(tuple(sum(id_ in found for id_ in expected) / len(expected) for found in (first, second)))
        gone = (id_ for id_ in expected if id_ in first and id_ not in second)
        lost += [Lost(probe.query, id_, standing.statements.get(id_, id_)) for id_ in gone]
    count = len(shares)
    was, now_is = (sum(share[side] for share in shares) for side in (0, 1))
    net = was - now_is
    is_telling = count >= FEWEST
    fell = is_telling and net >= LEAST_LOST - _ROUNDING and net / count > settings.tolerance + _ROUNDING
    size = max(count, 1)
    return GateVerdict(was / size, now_is / size, count, settings.tolerance, fell, tuple(lost), is_telling=is_telling)

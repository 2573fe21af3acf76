"""Probes: the questions by which maintenance is measured, drawn before it starts and then left as they are.

Half come from what was really asked: a logged recall, with the facts that it returned first. The others are made from
facts, without a model: whom a fact is about and how its statement begins, without its answer, which is the object, or
else the end of the statement. They name so few words that a right store answers some six to eight in ten of them: of
questions that are always answered none would tell that recall gets worse.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from itertools import islice

import polars as pl

from slowwave.maintenance.kept import is_kept
from slowwave.maintenance.steward import score_facts
from slowwave.ranking.ranking import stems
from slowwave.settings import GateSettings, StewardSettings
from slowwave.validity import is_live

KINDS = ("relation", "observation", "note")
FIRST_PLACES = 3  # of a logged recall: what came later may have been there by chance
FADING = 0.25  # a fact that nobody ever asked for and that scores lower is on its way out
HIDDEN = 0.06  # below 0.05 recall hides a fact, however often it was asked for long ago
LEAST = 3  # content words of a statement without a short answer
SHARE = 6  # of so many content words of a statement one is asked
SHORT = 4  # content words of an object that is an answer; a longer one is a clause, of which the beginning may be asked
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")


@dataclass(frozen=True, slots=True)
class Probe:
    """A question, and the facts that answer it; `is_logged` if somebody asked it."""

    query: str
    expected: tuple[str, ...]
    is_logged: bool = False


@dataclass(frozen=True, slots=True)
class Said:
    """What a fact said when it was asked about: its sentence, since when it held, and the words of a short answer."""

    statement: str
    since: datetime | None = None
    answer: frozenset[str] = frozenset()


def said_by(facts: pl.DataFrame, ids: Iterable[str]) -> dict[str, Said]:
    """What those of the facts say; they have `valid_from` and the names of their objects."""
    rows = facts.filter(pl.col("id").is_in(list(ids))).select(
        "id", "statement", "valid_from", answer=pl.coalesce("object", "object_text").fill_null("")
    )
    return {
        id_: Said(text or "", since, _short(answer) & stems(text or ""))
        for id_, text, since, answer in rows.iter_rows()
    }


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
    asked = facts.filter(is_live(now), pl.col("kind").is_in(KINDS))
    logged = {probe.query: probe for probe in _logged(asked, queries, events, settings.probes // 2)}
    made = (probe for probe in _made(spread(asked, salt)) if probe.query not in logged)
    return (*logged.values(), *islice(made, settings.probes - len(logged)))


def staying(
    facts: pl.DataFrame, usage: pl.DataFrame, now: datetime, steward: StewardSettings | None = None
) -> pl.DataFrame:
    """The facts without those that the steward, as it is set, lets go or hides: asked about, each would be a loss.

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
    asked = [word for stem, word in content.items() if stem not in kept_back][: max(1, len(content) // SHARE)]
    if len(asked) == len(content):
        return None
    asked = asked or list(_content(relation.replace("_", " "), kept_back).values())
    if not asked or (len(content) < LEAST and not _short(answer)):
        return None
    return f"{' '.join([*_WORD.findall(subject), *asked])}?"


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
    asked = newest.unique("query_hash", keep="first", maintain_order=True).unique(
        "query", keep="first", maintain_order=True
    )
    first = events.filter(pl.col("rank") <= FIRST_PLACES).join(facts.select(fact_id="id"), on="fact_id", how="semi")
    found = asked.with_row_index("place").join(first, on=["query_hash", "at"], how="inner")
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

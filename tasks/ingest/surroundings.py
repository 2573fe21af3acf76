"""What memory holds near candidates: facts that they may repeat, end or contradict.

An entity may have thousands of facts, of which a batch concerns a few. These are looked up by what makes them
comparable: the same words, a near vector, the name that a directive gives, the one object that a relation allows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TypeAlias

import numpy as np
import polars as pl

from recall.doubts import PENDING
from slowwave.common import frames
from slowwave.common.settings import EvaluateSettings, ReviseSettings
from slowwave.common.validity import MAX_CHAIN, live_sql, time_sql
from slowwave.facts.revision.application import Surroundings
from slowwave.facts.revision.candidates import DIRECTIVES
from slowwave.facts.revision.late_arrivals import REPEATED
from slowwave.facts.revision.mutual_exclusion import ARTICLES, bare_name, single_valued
from slowwave.facts.revision.referenced_facts import telling_words
from slowwave.facts.revision.repetition import NEIGHBOURS
from slowwave.facts.revision.revision_state import ENDED_BY
from slowwave.facts.revision.supersession import RETRACT, SUPERSEDE
from storage.changes import FACT_TABLES
from storage.residents import Condition
from storage.rows import lasting_columns, quoted
from storage.search import (
    MATCHED,
    by_scope,
    matching_many,
    nearest,
    nearest_among,
    nearest_in_memory,
    scopes_of,
    unit_matrix,
)
from storage.snapshots import Reading

NEIGHBOURS_PER_FACT = 5
WORDED_PER_DIRECTIVE = 20
_EVER_ACTIVE = "status IN ('active', 'superseded')"
_REPEATS = f"status = 'rejected' AND status_reason LIKE '{REPEATED}%'"
_ENDING = [SUPERSEDE, RETRACT]
Pair: TypeAlias = tuple[str, str, float]
"""A candidate, a fact or another candidate, and their cosine."""
_NAMED = ["id", "canonical_name", "name", "entity_type"]
_ALIASES = list(frames.ALIASES)


def near_candidates(
    reading: Reading,
    passed: pl.DataFrame,
    vectors: pl.DataFrame,
    directives: pl.DataFrame,
    messages: pl.DataFrame,
    settings: EvaluateSettings,
    revise: ReviseSettings,
    now: datetime,
    alike: pl.DataFrame | None = None,
) -> Surroundings:
    """The surroundings of the `passed` candidates (FACTS) with their `directives` and `messages`.

    `vectors`: (id, scope, vector) of the candidates. With `alike` (ALIKE) nothing is read to compare words with, about
    the same subject.
    """
    is_late = _is_late(reading, passed, messages)
    near = _neighbours(reading, vectors, now)
    neighbours, elsewhere = _by_subject(reading, near, passed, directives, settings, revise, is_flagged=alike is None)
    predicates = reading.frame("predicates")
    stored, speakers = _stored_directives(reading, passed if is_late else passed.clear())
    contested = _contested(reading, passed, predicates, revise)
    ids, hashes = [fact for _, fact, _ in neighbours], passed["statement_hash"]
    for name in FACT_TABLES:  # facts of these very words that hold or held
        ids += reading.by_ids(name, hashes, ["id"], key="statement_hash", where=_EVER_ACTIVE)["id"].to_list()
    meant, directed = list[pl.DataFrame](), list[str]()
    if len(directives):
        ending = directives.filter(pl.col("known_id").is_null() | pl.col("action").is_in(_ENDING))
        directed += passed.filter(pl.col("id").is_in(ending["candidate_id"].implode()))["subject_id"].to_list()
        named = directives.filter(pl.col("known_id").is_null(), pl.col("object").is_not_null())
        named = named.join(passed.select("subject_id", "scope", candidate_id="id"), on="candidate_id")
        meant += [_named(reading, named, is_late, now), _worded_like(reading, named, now)]
        ids += directives["known_id"].drop_nulls().to_list()
    ids += [*stored["known_id"].drop_nulls(), *speakers["similar_to_id"].drop_nulls()]
    facts = _once([facts_by(reading, ids), *meant, speakers, contested])
    if len(facts):
        may_end = {*directed, *contested["subject_id"]}
        facts = _with_history(reading, facts, may_end, predicates, revise, is_late=is_late)
    supported = [id_ for id_, count in frames.rows_of(passed, "id", "evidence_count") if (count or 0) > 1]
    entities = [id_ for frame in (facts, passed) for end in ("subject_id", "object_id") for id_ in frame[end]]
    return Surroundings(
        facts,
        _evidence_of(reading, [*facts["id"], *supported]),  # of a candidate: further messages, stored with it
        pl.DataFrame(neighbours, schema=NEIGHBOURS, orient="row"),
        reading.by_ids("entities", entities, _NAMED),
        reading.by_ids("entity_aliases", entities, _ALIASES, key="entity_id"),
        predicates=predicates,
        directives=stored,
        flags=_pending_contradictions(reading, facts["id"]),
        elsewhere=pl.DataFrame(elsewhere, schema=NEIGHBOURS, orient="row"),
        alike=alike,
    )


def surroundings_of_facts(reading: Reading, ids: Sequence[str] | pl.Series) -> Surroundings:
    """These facts and what they replaced, with evidence and names."""
    facts = reading.by_ids("facts", ids)
    entities = pl.concat([facts["subject_id"], facts["object_id"]])
    near = Surroundings(
        _once([facts, *_predecessors(reading, facts)]),
        entities=reading.by_ids("entities", entities, _NAMED),
        aliases=reading.by_ids("entity_aliases", entities, _ALIASES, key="entity_id"),
    )
    return replace(near, evidence=_evidence_of(reading, near.facts["id"]))


def with_speakers(reading: Reading, passed: pl.DataFrame, messages: pl.DataFrame, near: Surroundings) -> pl.DataFrame:
    """The messages, and those of the facts whose relation allows one object, or that give a day to come: who said
    these decides what ends them."""
    if near.facts.is_empty():
        return messages
    single = single_valued(pl.concat([near.facts["predicate"], passed["predicate"]]).unique(), near.predicates)
    is_plan = pl.col("event_at") > pl.col("valid_from")
    rivals = near.facts.filter(pl.col("predicate").is_in(list(single)) | is_plan)["id"]
    evidence = near.evidence.filter(pl.col("fact_id").is_in(rivals.implode()))
    others = evidence.join(messages.select(message_id="id"), on="message_id", how="anti")["message_id"]
    sources = reading.by_ids("messages", others.unique(), ["id", "occurred_at", "speaker"])
    return pl.concat([messages, sources], how="diagonal_relaxed")


def facts_by(
    reading: Reading,
    ids: Sequence[str] | pl.Series,
    key: str = "id",
    where: str | None = None,
    *,
    with_vector: bool = False,
) -> pl.DataFrame:
    """Whole rows of facts by a key, each once; those in the archive are repeated, replaced and relied on as before."""
    return _once([reading.by_ids(name, ids, key=key, where=where, with_vector=with_vector) for name in FACT_TABLES])


def _evidence_of(reading: Reading, facts: Sequence[str] | pl.Series) -> pl.DataFrame:
    return reading.by_ids("fact_evidence", facts, lasting_columns("fact_evidence"), key="fact_id")


def _once(parts: Iterable[pl.DataFrame]) -> pl.DataFrame:
    first, *others = parts
    filled = [part for part in (first, *others) if len(part)] or [first]
    return filled[0] if len(filled) == 1 else pl.concat(filled).unique("id", keep="first", maintain_order=True)


# Facts that candidates may repeat, end or contradict.


def _neighbours(reading: Reading, candidates: pl.DataFrame, now: datetime) -> list[tuple[str, str, float, bool]]:
    """(candidate, fact, cosine, whether that is stored): what of its scope is nearest to each candidate.

    These are live facts and the other candidates.
    """
    rows = candidates.filter(pl.col("vector").is_not_null()) if candidates["vector"].null_count() else candidates
    vectors, ids, k = unit_matrix(rows["vector"], reading.dims), rows["id"], NEIGHBOURS_PER_FACT
    resident = reading.resident("facts")
    found = list[tuple[str, str, float, bool]]()
    for places, where in scopes_of(rows["scope"], live_sql(now)):
        if resident is None:
            live = nearest(reading, "facts", vectors[places], k, where)
        else:
            scope = rows["scope"][int(places[0])]
            live = nearest_in_memory(resident, vectors[places], k, Condition(where, f"live in {scope}", now))
        others = nearest_among(ids.gather(places), vectors[places], k)
        for part, is_stored in ((live, True), (others, False)):
            for query, id_, cosine in frames.rows_of(part, "query", "id", "cosine"):
                found.append((ids[int(places[query])], id_, cosine, is_stored))
    return found


def _by_subject(
    reading: Reading, neighbours: Sequence[tuple[str, str, float, bool]], passed: pl.DataFrame,
    directives: pl.DataFrame, settings: EvaluateSettings, revise: ReviseSettings, *, is_flagged: bool,
) -> tuple[list[Pair], list[Pair]]:  # fmt: skip
    """The neighbours that can decide anything: about the same, near enough or to be flagged, or perhaps named.

    And the near ones about other things, of which nothing more need be known: they are only related. In a large memory
    every candidate has five neighbours and hardly one that decides.
    """
    ends = ["owner_entity_id", "subject_id"]
    ours = [set(passed[end].drop_nulls()) for end in ends]
    about = reading.by_ids("facts", [fact for _, fact, _, is_stored in neighbours if is_stored], ["id", *ends])
    rows = frames.rows_of(about, "id", *ends)
    same = {id_ for id_, *theirs in rows if any(end in own for end, own in zip(theirs, ours, strict=True))}
    naming = {candidate for candidate, known in frames.rows_of(directives, "candidate_id", "known_id") if known is None}
    least = min(settings.related_cosine, revise.revision_cosine)
    decides, elsewhere = list[Pair](), list[Pair]()
    for candidate, fact, cosine, is_stored in neighbours:
        is_near = cosine >= least
        if not is_stored or candidate in naming or (fact in same and (is_near or is_flagged)):
            decides.append((candidate, fact, cosine))
        elif is_near:
            elsewhere.append((candidate, fact, cosine))
    return decides, elsewhere


def _named(reading: Reading, directives: pl.DataFrame, is_late: bool, now: datetime) -> pl.DataFrame:
    """Facts about the subjects of `directives` (object, subject_id) that the name in a directive may mean.

    By the object, by another name of the object, or by the words of the statement. Where something comes late, those
    that ended too: they may have held at that time.
    """
    olds = directives["object"].unique().to_list()
    entities = ", ".join(map(quoted, _entities_called(reading, {bare_name(old) for old in olds} - {""})))
    parts = [f"object_id IN ({entities})"] if entities else []
    for old in olds:
        parts += _has_all("object_text", bare_name(old).split()) + _has_all("statement", telling_words(old))
    meant = f"({_EVER_ACTIVE if is_late else live_sql(now)}) AND ({' OR '.join(parts) or 'false'})"
    return facts_by(reading, directives["subject_id"], "subject_id", meant)


def _has_all(column: str, words: Sequence[str]) -> list[str]:
    """A condition that a text contains all words; none without words."""
    has = " AND ".join(f"contains(lower({column}), {quoted(word)})" for word in words)
    return [f"({has})"] if has else []


def _entities_called(reading: Reading, names: Iterable[str]) -> pl.Series:
    """Ids of the entities with one of these names."""
    ids = [pl.Series([], dtype=pl.String)]
    forms = [form for name in names for form in (name, *(f"{article} {name}" for article in ARTICLES))]
    for table, key, id_ in (("entities", "canonical_name", "id"), ("entity_aliases", "alias_name", "entity_id")):
        ids.append(reading.by_ids(table, forms, [id_], key=key)[id_])
    return pl.concat(ids).unique().sort()


def _worded_like(reading: Reading, directives: pl.DataFrame, now: datetime) -> pl.DataFrame:
    """Facts that have the words of what `directives` (object, scope) say is over, whatever they are about."""
    ending = directives.unique(["scope", "object"], maintain_order=True)
    texts = ending["object"].to_list()

    def by_words(places: np.ndarray, inside: str) -> pl.DataFrame:
        return matching_many(reading, "facts", [texts[place] for place in places], WORDED_PER_DIRECTIVE, inside)

    return facts_by(reading, by_scope(ending["scope"], live_sql(now), by_words, MATCHED)["id"])


def _contested(
    reading: Reading, passed: pl.DataFrame, predicates: pl.DataFrame, revise: ReviseSettings
) -> pl.DataFrame:
    """Facts that candidates may contradict: of a relation that allows one object, or all of a subject, if asked for."""
    if revise.implicit_conflicts:
        return facts_by(reading, passed["subject_id"], "subject_id", _EVER_ACTIVE)
    single = single_valued(passed["predicate"], predicates)
    if not single:
        return facts_by(reading, [])
    fresh = passed.filter(pl.col("predicate").is_in(list(single)))
    listed = ", ".join(map(quoted, sorted(single))) or "NULL"
    return facts_by(reading, fresh["subject_id"], "subject_id", f"{_EVER_ACTIVE} AND predicate IN ({listed})")


# What else is needed of these facts: history and lateness.


def _with_history(
    reading: Reading, facts: pl.DataFrame, may_end: Collection[str], predicates: pl.DataFrame, revise: ReviseSettings,
    *, is_late: bool,
) -> pl.DataFrame:  # fmt: skip
    """The facts with those that they replaced and, for late candidates, those that ended them.

    Of the subjects of `may_end`. A late candidate may also tear the evidence of a fact apart: then the other wordings
    count, and what contradicts it.
    """
    is_about = pl.col("subject_id").is_in(list(may_end))
    if is_late:
        facts = _once([facts, _contested(reading, facts.filter(is_about), predicates, revise)])
        ended = facts.filter(pl.col("status_reason").str.starts_with(ENDED_BY))["status_reason"]
        closers = pl.concat([facts["replaced_by"], ended.str.strip_prefix(ENDED_BY)])
        facts = _once([facts, facts_by(reading, closers.drop_nulls())])
        listed = ", ".join(map(quoted, facts["id"])) or "NULL"
        repeats = f"{_REPEATS} AND similar_to_id IN ({listed})"
        repeats_of = facts_by(reading, facts["subject_id"], "subject_id", repeats)
        same = facts_by(reading, repeats_of["statement_hash"].drop_nulls(), "statement_hash", _EVER_ACTIVE)
        facts = _once([facts, repeats_of, same])
    return _once([facts, *_predecessors(reading, facts.filter(is_about))])


def _predecessors(reading: Reading, facts: pl.DataFrame) -> list[pl.DataFrame]:
    """The facts that these replaced, step by step: a chain of replacements has a limit."""
    found, seen = list[pl.DataFrame](), facts.select("id")
    step = facts
    while len(step) and len(found) < MAX_CHAIN:
        step = facts_by(reading, step["id"], "replaced_by", _EVER_ACTIVE).join(seen, on="id", how="anti")
        seen = pl.concat([seen, step.select("id")])
        found.append(step)
    return found


def _is_late(reading: Reading, passed: pl.DataFrame, messages: pl.DataFrame) -> bool:
    """Whether anything is known that was said after one of the candidates."""
    said = {*passed["message_id"]}
    times = (at for id_, at in frames.rows_of(messages, "id", "occurred_at") if id_ in said and at is not None)
    first = min(times, default=None)
    if first is None:
        return False
    if (evidence := reading.resident("fact_evidence")) is not None:
        return bool((evidence.column("occurred_at") > first).any())
    return len(reading.frame("fact_evidence", f"occurred_at > {time_sql(first)}", ["id"], limit=1)) > 0


def _stored_directives(reading: Reading, passed: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """DIRECTIVES that end facts, of all that was said of the subjects, and the facts and repetitions with these."""
    if passed.is_empty():
        return frames.empty(DIRECTIVES), facts_by(reading, [])
    said = f"({_EVER_ACTIVE}) OR ({_REPEATS})"
    known = [reading.by_ids(name, passed["subject_id"], ["id"], key="subject_id", where=said) for name in FACT_TABLES]
    ending = f"action IN ({', '.join(map(quoted, _ENDING))})"
    ids = pl.concat(known)["id"]
    rows = reading.by_ids_or_all("fact_directives", ids, list(DIRECTIVES), key="candidate_id", where=ending)
    stored = rows.filter(pl.col("candidate_id").is_in(ids.implode()))
    return stored, facts_by(reading, stored["candidate_id"])


def _pending_contradictions(reading: Reading, facts: pl.Series) -> pl.DataFrame:
    """The pending contradictions of these facts."""
    columns = list(frames.PAIR_DECISIONS)
    return _once(reading.by_ids("pair_decisions", facts, columns, key=end, where=PENDING) for end in ("a_id", "b_id"))

"""Which candidates become facts? Duplicates, supersessions, and a decision for each candidate (S3-11, §6.2, §6.3).

Only this rule makes a fact active. Similarity never retires a fact: a fact is closed only if a claim says that it is
over (T10, T21) or excludes it (`conflicts`), the claim is not weaker (S1-22), and it was not said earlier (§6.3).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache

import polars as pl

from slowwave.common import frames
from slowwave.common.decisions import Row, decision, decision_frame
from slowwave.common.settings import EvaluateSettings, ReviseSettings
from slowwave.common.validity import is_live
from slowwave.facts import aspects

from .candidates import DIRECTIVES
from .conflicts import find_implicit_conflicts, find_revisions, flag_doubts, settle_flags
from .late_arrivals import (
    changed_supersessions,
    directive_facts,
    early_candidates,
    early_options,
    evidence_options,
    in_message_order,
    is_past,
    lasting_candidates,
    left_open,
    reopened,
    repeated_past,
    replay_evidence,
    stored_directives,
    times_of,
    with_earlier_starts,
    with_early_segments,
)
from .mutual_exclusion import MutualExclusion, names_of, single_valued
from .repetition import (
    DUPLICATES,
    FLAGS,
    NEIGHBOURS,
    OPTIONS,
    evidence_rows,
    fact_sources,
    find_exact_duplicates,
    find_flags,
    first_evidence,
    pairs_of,
    stated_duplicates,
    with_evidence,
    with_keys,
    with_new_segments,
    without_evidence,
)
from .revision_state import Supersessions
from .supersession import ACTIONS, REPEAT, SupersessionContext, supersede_facts


def decision_rows(
    staying: pl.DataFrame,
    duplicates: pl.DataFrame,
    flags: pl.DataFrame,
    decisions: list[Row],
    settings: EvaluateSettings,
    now: datetime,
) -> pl.DataFrame:
    """DECISIONS: one row per candidate and per fact that was closed or kept, with measures and reason."""
    marks = {id_: near for id_, *near in frames.rows_of(flags, *FLAGS)}
    rows = []
    for id_, confidence in frames.rows_of(staying, "id", "confidence"):
        similar, cosine, related = marks[id_]
        beside = f"It was accepted and looks like {similar}: both are kept."
        reason = beside if similar else "It was accepted and no other fact says the same."
        measures = {"confidence": confidence, "flag_cosine": settings.flag_cosine, "cosine": cosine}
        near = [each for each in (similar, related) if each is not None]
        rows.append(decision("create", id_, near, [id_], reason, now, measures))
    for id_, target, stage, cosine in frames.rows_of(duplicates, *DUPLICATES):
        measures = {"cosine": cosine, "reassert_cosine": settings.reassert_cosine, "stage": stage}
        rows.append(decision("reassert", target, [id_], [target], _SAME.get(stage, _SAME[""]), now, measures))
    first = dict[object, Row]()
    for row in (*rows, *decisions):  # a directive and a conflict may have refused the same
        first.setdefault(row["id"], row)
    return decision_frame(first.values())


_SAME = {
    "text": "The same words again.",
    "stated": "It is said to repeat it, and neither a denial nor a number speaks against it.",
    "": "The same in other words, and every guard agrees.",
}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The stored rows near a batch of candidates. A frame may have more columns than its schema.

    `facts`: rows with a candidate's id, statement_hash, subject or directive's known_id, and its neighbours, of any
    status. `evidence`: FACT_EVIDENCE of those facts. `neighbours`: (candidate_id, fact_id, cosine) to facts and among
    candidates; `elsewhere`: the same to live facts about other things, which can be related and nothing more.
    `entities`, `aliases`: of the subjects and objects. `predicates`: learned rows.
    `directives`: DIRECTIVES of those facts and of rejected candidates that repeat them (which are in `facts` too).
    `flags`: PAIR_DECISIONS of facts that contradict them. `alike`: ALIKE of the candidates with live facts and
    each other, where the caller compared them with all there is about the same; else those near them are compared.
    """

    facts: pl.DataFrame = field(default_factory=lambda: frames.empty(frames.FACTS))
    evidence: pl.DataFrame = field(default_factory=lambda: frames.empty(frames.FACT_EVIDENCE))
    neighbours: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=NEIGHBOURS))
    entities: pl.DataFrame = field(default_factory=lambda: frames.empty(frames.ENTITIES))
    aliases: pl.DataFrame = field(default_factory=lambda: frames.empty(frames.ALIASES))
    predicates: pl.DataFrame = field(default_factory=lambda: frames.empty(frames.PREDICATES))
    directives: pl.DataFrame = field(default_factory=lambda: frames.empty(DIRECTIVES))
    flags: pl.DataFrame = field(default_factory=lambda: frames.empty(frames.PAIR_DECISIONS))
    elsewhere: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=NEIGHBOURS))
    alike: pl.DataFrame | None = None


@dataclass(frozen=True, slots=True)
class ApplicationPlan:
    """Rows to upsert: decided candidates and changed facts in one frame, and the rows that belong to them.

    `pairs`: PAIR_DECISIONS that are new or settled; a model or a person settles the rest. `again`: (new id, known id)
    of new intervals made from evidence of the known fact.
    """

    facts: pl.DataFrame
    evidence: pl.DataFrame
    lineage: pl.DataFrame
    aspects: pl.DataFrame
    batches: pl.DataFrame
    decisions: pl.DataFrame
    pairs: pl.DataFrame = field(default_factory=lambda: frames.empty(frames.PAIR_DECISIONS))
    again: tuple[tuple[str, str], ...] = ()

    def summary(self) -> dict[str, int]:
        """How many decisions of each kind."""
        return dict(self.decisions.group_by("action").len().sort("action").iter_rows())


@dataclass(frozen=True, slots=True)
class _Outcome:
    """Which candidates of a batch are duplicates, and which facts are closed."""

    fresh: pl.DataFrame
    duplicates: pl.DataFrame
    supersessions: Supersessions
    refusals: list[Row]
    begun: pl.DataFrame


def plan_application(
    passed: pl.DataFrame,
    directives: pl.DataFrame,
    messages: pl.DataFrame,
    batches: pl.DataFrame,
    near: Surroundings,
    settings: EvaluateSettings,
    now: datetime,
    *,
    revise: ReviseSettings | None = None,
) -> ApplicationPlan:
    """Decide every passed candidate, in the order of the messages (§6.5 step 3).

    A candidate becomes active; or rejected with reason `repeats <fact>`, and its message is evidence of that fact; or
    superseded at once, because the fact that it would replace was said later. A candidate that is already over is a
    historical fact. The first rule that applies closes the facts that it replaces: a directive, a conflict, a revision.
    A candidate that `near.facts` shows as decided does not change, so a second application changes nothing.
    """
    revise = revise or ReviseSettings()
    others = known_facts(near, now)
    undecided = _undecided(passed, near.facts, messages)
    is_over = pl.Series([end is not None and end <= now for end in undecided["valid_to"]], dtype=pl.Boolean)
    past, fresh = undecided.clear(), undecided
    if is_over.any():
        past, fresh = undecided.filter(is_over), undecided.filter(~is_over)
    single = single_valued(fresh["predicate"], near.predicates)
    if past.is_empty():
        pairs = pairs_of(fresh, others, near.neighbours)
        least = min(settings.reassert_cosine, revise.revision_cosine)
        near_enough = pairs.filter(pl.col("cosine") >= least) if len(pairs) else pairs
        close = _about_one_subject(near_enough, fresh, others)
        if not len(close) and _stand_alone(fresh, directives, near, single, revise):
            return _all_created(fresh, others, pairs, batches, near, settings, now)
    spared = frozenset[str]()
    while True:
        unfolded, around = replay_evidence(fresh, others, near.facts, near.evidence, single, spared)
        unfolded = with_keys(in_message_order(unfolded))
        pairs = pairs_of(unfolded, around, near.neighbours)
        outcome = _merge_and_close(unfolded, around, pairs, directives, messages, near, settings, revise, now)
        if not (revived := left_open(around, outcome.supersessions)):
            break
        spared |= revived
    others, outcome = around, replace(outcome, supersessions=changed_supersessions(outcome.supersessions, around))
    supersessions = outcome.supersessions
    repeated = repeated_past(past, others, supersessions.facts["id"])
    # Without replayed evidence that still supports its own fact.
    still = outcome.duplicates.join(outcome.fresh, left_on=["id", "target_id"], right_on=["id", "again_of"], how="semi")
    fresh, duplicates = (
        part.join(still, on="id", how="anti", maintain_order="left") for part in (outcome.fresh, outcome.duplicates)
    )
    again = fresh.filter(pl.col("again_of").is_not_null()).select("id", "again_of")
    fresh, duplicates = pl.concat([fresh.drop("again_of"), past]), pl.concat([duplicates, repeated])
    kept = fresh.join(duplicates, on="id", how="anti", maintain_order="left")
    gone = supersessions.facts["id"].implode()
    created = kept.filter(~pl.col("id").is_in(gone))
    staying = created.filter(~is_past(now))
    live = others.filter(pl.col("is_live") & ~pl.col("id").is_in(gone))
    alike, stays = near.alike, staying["id"].implode()
    if alike is not None:  # between candidates that stay, and with facts that are not gone
        target = pl.col("target_id")
        is_there = ~target.is_in(gone) & (~target.is_in(passed["id"].implode()) | target.is_in(stays))
        alike = alike.filter(is_there & pl.col("id").is_in(stays))
    elsewhere = near.elsewhere.filter(~pl.col("fact_id").is_in(gone))
    found = find_flags(staying, live, pairs, settings, alike, elsewhere)
    flags = created.select("id").join(found, on="id", how="left", maintain_order="left")
    evidence = evidence_rows(fresh, duplicates, near.evidence, near.facts, again)
    decided = _decided(fresh, duplicates, flags)
    facts = with_evidence(pl.concat([decided, near.facts], how="diagonal"), fresh, duplicates, evidence)
    facts = without_evidence(facts.update(outcome.begun, on="id"), again)
    facts = with_supersessions(facts, supersessions)
    facts = changed_facts(facts, near.facts)
    typed = with_types(
        facts.filter((pl.col("status") == "active") & pl.col("id").is_in(kept["id"].implode())), near.entities
    )
    return ApplicationPlan(
        facts,
        evidence,
        supersessions.lineage,
        aspects.aspect_rows(typed),
        _applied(batches, fresh),
        decision_rows(created, duplicates, flags, [*outcome.refusals, *supersessions.decisions], settings, now),
        pl.concat(
            [
                find_implicit_conflicts(staying, live, revise, now),
                flag_doubts(supersessions.doubts, supersessions.facts["id"], now),
                settle_flags(near.flags.select(*frames.PAIR_DECISIONS), supersessions.facts["id"], now),
            ]
        ).unique("id", maintain_order=True),
        tuple(again.iter_rows()),
    )


def _about_one_subject(pairs: pl.DataFrame, fresh: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    """The pairs (id, target_id, cosine) of which one may repeat or revise the other: of one scope and subject."""
    if pairs.is_empty():
        return pairs
    key = ["scope", "subject_id"]
    both = pl.concat([part.select("id", *key) for part in (fresh, others)])
    sides = pairs.join(fresh.select("id", *key), on="id")
    return sides.join(both, left_on=["target_id", *key], right_on=["id", *key], how="semi", nulls_equal=True)


def _stand_alone(
    fresh: pl.DataFrame,
    directives: pl.DataFrame,
    near: Surroundings,
    single: frozenset[str],
    revise: ReviseSettings,
) -> bool:
    """Whether nothing known can decide about the candidates, nor one of them about another: each becomes a fact.

    No directive, relation with one object, statement in the same words, or evidence that is later; and, which the
    caller has looked at, nothing near about the same subject.
    """
    if None in (said := fresh["said_at"].to_list()) or not said:
        return False
    rows = frames.conform(near.facts, frames.FACTS)
    hashes, own, first = {*fresh["statement_hash"]}, {*fresh["id"]}, min(said)
    return not (
        len(directives)
        or len(near.directives)
        or len(near.flags)
        or revise.implicit_conflicts
        or not single.isdisjoint(fresh["predicate"])
        or len(hashes) < len(fresh)
        or not hashes.isdisjoint(rows["statement_hash"])
        or any(at is not None and at > first for at in near.evidence["occurred_at"])
        or not own.isdisjoint(near.evidence["fact_id"])
    )


def _all_created(
    fresh: pl.DataFrame,
    others: pl.DataFrame,
    pairs: pl.DataFrame,
    batches: pl.DataFrame,
    near: Surroundings,
    settings: EvaluateSettings,
    now: datetime,
) -> ApplicationPlan:
    """Each candidate as a fact beside those that are known, flagged where it looks like one of them."""
    flags = find_flags(fresh, others.filter("is_live"), pairs, settings, near.alike, near.elsewhere)
    none = pl.DataFrame(schema=DUPLICATES)
    facts = frames.conform(_decided(fresh, none, flags), frames.FACTS)
    return ApplicationPlan(
        facts.select(
            *frames.FACTS, *[name for name in near.facts.columns if name not in frames.FACTS and name in facts]
        ),
        first_evidence(fresh),
        frames.empty(frames.LINEAGE),
        aspects.aspect_rows(with_types(facts, near.entities)),
        _applied(batches, fresh),
        decision_rows(fresh, none, flags, [], settings, now),
    )


def _merge_and_close(
    fresh: pl.DataFrame,
    known: pl.DataFrame,
    pairs: pl.DataFrame,
    directives: pl.DataFrame,
    messages: pl.DataFrame,
    near: Surroundings,
    settings: EvaluateSettings,
    revise: ReviseSettings,
    now: datetime,
) -> _Outcome:
    """Find duplicates, then close facts; repeat while a closing ends a fact that a later candidate repeats."""
    names = names_of(near.entities, near.aliases)
    types = dict(frames.rows_of(near.entities, "id", "entity_type"))
    known_ones = (
        frames.conform(directives, DIRECTIVES).rename({"candidate_id": "id"}).filter(pl.col("action").is_in(ACTIONS))
    )
    ordered = known_ones.join(fresh.select("id", "place"), on="id").sort("place", maintain_order=True).drop("place")
    stated, unlike = stated_duplicates(fresh, known, ordered.filter(pl.col("action") == REPEAT))
    speakers = directive_facts(near.facts, near.directives, times_of(near.evidence, messages))
    ordered = pl.concat([ordered, stored_directives(near.directives, speakers).select(ordered.columns)])
    early_ones, joined = early_candidates(fresh, known), dict[str, str]()
    fresh = with_early_segments(fresh, early_ones)
    for _ in range(1 + 2 * fresh.height):
        others = with_earlier_starts(known, fresh, joined)
        reinforced, doubts = find_revisions(fresh, others, pairs, revise)
        given = [reinforced.select(*OPTIONS), stated, evidence_options(fresh), early_options(fresh, joined)]
        duplicates = find_exact_duplicates(fresh, others, pairs, settings, pl.concat(given))
        doubts = doubts.join(duplicates, on="id", how="anti").sort("id", "target_id")
        sources = fact_sources(fresh, duplicates, near.evidence, messages)
        exclusion = MutualExclusion(fresh["predicate"], near.predicates, names, types, sources)
        revisions = dict(doubts.group_by("id", maintain_order=True).agg("target_id").iter_rows())
        may_revise = {id_: tuple(ids) for id_, ids in revisions.items()}
        tools = SupersessionContext(revise, names, exclusion, may_revise, speakers)
        supersessions = supersede_facts(
            fresh,
            duplicates,
            with_earlier_starts(reopened(known, fresh), fresh, joined),
            ordered,
            tools,
            now,
        )
        again = with_new_segments(fresh, duplicates, supersessions.ended, others)
        is_settled = again["segment"].equals(fresh["segment"], null_equal=True)
        # A candidate that begins a new interval may end an early one, so early ones are joined last.
        more = lasting_candidates(early_ones, duplicates, supersessions, joined) if is_settled else {}
        if is_settled and not more:
            break
        fresh, joined = again, joined | more
    begun = others.filter(pl.col("id").is_in(list(joined.values()))).select("id", "valid_from")
    refusals = [decision("refuse", known_, [known_, id_], [], reason, now) for id_, known_, reason in unlike]
    return _Outcome(fresh, duplicates, supersessions, refusals, begun)


def activated(candidates: pl.DataFrame, reason: str) -> pl.DataFrame:
    """The candidates as active facts, where another rule decided already (restored ones)."""
    return candidates.with_columns(status=pl.lit("active"), status_reason=pl.lit(reason))


def _undecided(passed: pl.DataFrame, known: pl.DataFrame, messages: pl.DataFrame) -> pl.DataFrame:
    """Candidates without a decision in message order, with said_at, place and the comparison keys."""
    settled = {id_ for id_, status in frames.rows_of(known, "id", "status") if status != "candidate"}
    times = dict(frames.rows_of(messages, "id", "occurred_at"))
    kept, said_at = [], []
    for place, (id_, status, message, start) in enumerate(frames.rows_of(passed, *_OWN)):
        if status == "candidate" and id_ not in settled:
            settled.add(id_)
            kept.append(place)
            said_at.append(times.get(message) or start)
    at = pl.Series("said_at", said_at, frames.TIME)
    return with_keys(in_message_order(passed[kept].with_columns(at, at.alias("first_at"))))


def known_facts(near: Surroundings, now: datetime) -> pl.DataFrame:
    """Active and superseded facts with said_at, first_at (latest, earliest evidence), place -1 and comparison keys."""
    if near.facts.is_empty():
        return _nothing_known()
    at = pl.col("occurred_at")
    times = near.evidence.group_by(id="fact_id").agg(said_at=at.max(), first_at=at.min())
    facts = frames.conform(near.facts, frames.FACTS).unique("id", keep="first", maintain_order=True)
    facts = facts.filter(pl.col("status").is_in(["active", "superseded"]))
    return _with_times(facts, times, now)


def _with_times(facts: pl.DataFrame, times: pl.DataFrame, now: datetime) -> pl.DataFrame:
    return with_keys(
        facts.join(times, on="id", how="left", maintain_order="left").with_columns(
            said_at=pl.coalesce("said_at", "valid_from"),
            first_at=pl.coalesce("first_at", "valid_from"),
            place=pl.lit(-1, dtype=pl.Int64),
            is_live=is_live(now).fill_null(False),
            from_="valid_from",
            to="valid_to",
        )
    )


@cache
def _nothing_known() -> pl.DataFrame:
    times = pl.DataFrame(schema={"id": pl.String(), "said_at": frames.TIME, "first_at": frames.TIME})
    return _with_times(frames.empty(frames.FACTS), times, datetime.min.replace(tzinfo=UTC))


_OWN = ("id", "status", "message_id", "valid_from")


def _decided(fresh: pl.DataFrame, duplicates: pl.DataFrame, flags: pl.DataFrame) -> pl.DataFrame:
    """The candidates with their new status and similar facts, without the columns of this rule."""
    repeated = {id_: same for id_, *same in frames.rows_of(duplicates, "id", "target_id", "cosine")}
    marks = {id_: near for id_, *near in frames.rows_of(flags, *FLAGS)}
    rows = []
    for id_ in fresh["id"]:
        similar, score, related = marks.get(id_, (None, None, None))
        if id_ in repeated:
            target, cosine = repeated[id_]
            score = score if cosine is None else cosine
            rows.append(("rejected", f"repeats {target}", target, score, False, related))
        else:
            rows.append(("active", "applied", similar, score, similar is not None, related))
    decided = pl.DataFrame(rows, schema=_DECISION, orient="row")
    own = {"said_at", "first_at", "place", "object_key", "day", "segment", *_DECISION}
    return pl.DataFrame([*(each for each in fresh.get_columns() if each.name not in own), *decided.get_columns()])


_DECISION = {
    "status": pl.String(),
    "status_reason": pl.String(),
    "similar_to_id": pl.String(),
    "similarity_score": pl.Float64(),
    "similarity_flag": pl.Boolean(),
    "related_id": pl.String(),
}


def with_supersessions(facts: pl.DataFrame, supersessions: Supersessions) -> pl.DataFrame:
    """The facts with the changes of `supersessions` where these have a value."""
    return facts.update(supersessions.facts, on="id").update(supersessions.predecessors, on="id")


def changed_facts(facts: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
    """The rows that are new or differ from `before`, with the columns of FACTS."""
    columns = (
        "status status_reason valid_from valid_to expired_at replaced_by supersedes_id confidence "
        "evidence_count entrenchment search_terms"
    ).split()
    rows = frames.conform(facts, frames.FACTS).unique("id", keep="first", maintain_order=True)
    old = frames.conform(before, frames.FACTS).select("id", *columns)
    return rows.join(old, on=["id", *columns], how="anti", nulls_equal=True, maintain_order="left")


def with_types(facts: pl.DataFrame, entities: pl.DataFrame) -> pl.DataFrame:
    """The facts with subject_type and object_type, for the classifier of aspects."""
    types = dict(frames.rows_of(entities, "id", "entity_type"))
    ends = (
        pl.Series(f"{end}_type", [types.get(id_) for id_ in facts[f"{end}_id"]], pl.String)
        for end in ("subject", "object")
    )
    return facts.with_columns(*ends)


def _applied(batches: pl.DataFrame, fresh: pl.DataFrame) -> pl.DataFrame:
    """The batches of these candidates, with state `applied`."""
    theirs = set(fresh["patch_batch_id"])
    own = batches[[place for place, id_ in enumerate(batches["id"]) if id_ in theirs]]
    return own.with_columns(state=pl.lit("applied"))

"""Which of two facts that do not fit ends the other, and which stay as a possible contradiction? (S2-58b, S2-59).

A conflict: a relation allows one object at a time. The fact that was said later and began later wins, in whatever order
the two arrive (§6.3). Both facts stay, for a model or a person to settle, if the order of the messages and the order of
the beginnings disagree, if the relation never changes in life or has the day of an event, if one place may be a part of
the other and no date says that somebody moved, or if another person contradicts the subject's own words.

A revision: a new fact about the same pair and the same kind of relation retires the old one (S2-62); off by default.

A possible contradiction that no rule settles gets a flag (S2-75). Three kinds: relations of one subject with almost the
same spelling; two objects where one is allowed and the order is not clear; and a statement that says itself that it
contradicts a fact. A flag of the last kind stays as long as both facts do, the others expire after some days.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from operator import itemgetter

import polars as pl
from rapidfuzz.distance import Levenshtein

from slowwave.common import frames
from slowwave.common.comparison.guards import guards_pass
from slowwave.common.comparison.similarity import word_overlap
from slowwave.common.settings import ReviseSettings
from slowwave.common.validity import entrenchment_rank, is_out_of_order

from .mutual_exclusion import MutualExclusion, is_lasting
from .repetition import OPTIONS, sides_of
from .revision_state import NAMED, NOTHING, STATED, Doubt, Fact, RevisionState

REASON, LATE = "conflict", "late"
BOTH = ""
_MODEL_DECIDES = "A model is asked which of them holds; until then both stay."
_UNCLEAR = "It was said later but began earlier: which holds is not clear, so both stay."


def settle_conflicts(state: RevisionState, exclusion: MutualExclusion, new: Fact, settings: ReviseSettings) -> None:
    """Settle the conflicts of a new fact with the others of its class, oldest first."""
    mates = sorted(exclusion.of(new), key=lambda fact: (fact["valid_from"], fact["id"]))
    for known in mates:
        if not state.is_open(new):
            break
        if state.is_open_at(known, new["valid_from"]) and not state.is_contradicted(new, known):
            _settle(state, exclusion, new, known, settings)


def say_again(
    state: RevisionState, exclusion: MutualExclusion, fact: Fact, saying: Fact, settings: ReviseSettings
) -> None:
    """A known fact was repeated: this may settle conflicts with facts that stayed beside it."""
    again = {**fact, **{name: saying[name] for name in ("place", "said_at", "valid_from")}}
    for known in exclusion.of(again):
        is_open = known["said_at"] < again["said_at"] and state.is_open_at(known, again["valid_from"])
        if is_open and not state.is_contradicted(again, known):
            holds = judged(again, known, settings) == fact["id"]
            if holds and not state.refusal(again, again, known) and not exclusion.doubt(again, known, again):
                replace_fact(state, known, again, settings, REASON)


def _settle(state: RevisionState, exclusion: MutualExclusion, new: Fact, known: Fact, settings: ReviseSettings) -> None:
    """Settle a new fact and a live one, in message order, not in order of arrival."""
    later, earlier = sorted((new, known), key=itemgetter("said_at", "valid_from", "id"), reverse=True)
    holds = judged(later, earlier, settings)
    winner, loser = (earlier, later) if holds == earlier["id"] else (later, earlier)
    if state.is_late(winner):  # surer, but over already
        winner, loser = loser, winner
    if holds == BOTH:
        _leave_both(state, new, known, settings, _MODEL_DECIDES if settings.strategy == "llm" else _UNCLEAR)
    # what rank forbids is for `replace_fact` to note
    elif not state.refusal(winner, winner, loser) and (doubt := exclusion.doubt(winner, loser, later)):
        _leave_both(state, new, known, settings, doubt)
    elif loser is new and later is known:
        come_late(state, new, known, settings)
    else:
        replace_fact(state, loser, winner, settings, REASON)


def _leave_both(state: RevisionState, new: Fact, known: Fact, settings: ReviseSettings, reason: str) -> None:
    """Keep both facts; the pair waits for a model or a person."""
    _note(state, "refuse", new, known, settings, reason)
    state.doubts.append((new["id"], known["id"], ""))


def judged(new: Fact, known: Fact, settings: ReviseSettings) -> str:
    """Id of the fact that holds; empty if both stay, for a model or because the order is not clear (S2-59)."""
    if settings.strategy == "llm":
        return BOTH
    surer = (new["confidence"] or 0.0) - (known["confidence"] or 0.0)
    if settings.strategy == "confidence" and surer:
        return str((new if surer > 0 else known)["id"])
    return str(new["id"]) if new["valid_from"] >= known["valid_from"] else BOTH


def replace_fact(
    state: RevisionState,
    loser: Fact,
    winner: Fact,
    settings: ReviseSettings,
    why: str,
    seen: Mapping[str, object] = NOTHING,
) -> None:
    """Supersede the loser by the winner, unless rank, a circle or a full chain forbids it."""
    new = winner if winner["place"] > loser["place"] else loser
    if refusal := state.refusal(winner, winner, loser):
        would = state.override_request(why, winner, winner, loser)
        _note(state, "refuse", winner, loser, settings, refusal, {**seen, **would})
        return
    is_mistake = why == REASON and is_lasting(loser["predicate"])  # it never held: its interval is empty
    ends = loser["valid_from"] if is_mistake else max(winner["valid_from"], loser["valid_from"])
    until = loser["valid_to"]
    is_linked = state.supersede(loser, winner, why, f"replaced by {winner['id']}", ends=ends)
    if loser is not new:
        state.note_ended(loser, new)
    if not is_linked:
        return
    moved = {"valid_to": [until, loser["valid_to"]]}
    _note(state, "supersede", winner, loser, settings, _reason(winner, loser, settings, why), {**seen, **moved})


def _reason(winner: Fact, loser: Fact, settings: ReviseSettings, why: str) -> str:
    if why != REASON:
        return "It says the same two things differently, and later."
    if settings.strategy == "confidence" and winner["confidence"] != loser["confidence"]:
        return "Its relation allows one object at a time, and the other one is surer."
    return "Its relation allows one object at a time, and the other one began later."


def come_late(state: RevisionState, new: Fact, known: Fact, settings: ReviseSettings) -> None:
    """Note that the new fact was over when the known one began (§6.3)."""
    if refusal := state.refusal(known, known, new):
        _note(state, "refuse", known, new, settings, refusal, state.override_request(LATE, known, known, new))
        return
    state.comes_late(new, known, max(known["valid_from"], new["valid_from"]), REASON)


def _note(
    state: RevisionState,
    action: str,
    winner: Fact,
    loser: Fact,
    settings: ReviseSettings,
    reason: str,
    seen: Mapping[str, object] = NOTHING,
) -> None:
    """Note a decision about two facts, with their objects, beginnings, confidence and the strategy."""
    both = (loser, winner)
    out = [fact["id"] for fact in both] if action == "supersede" else []
    values = {
        "strategy": settings.strategy,
        "relation": loser["predicate"],
        "objects": [fact["object_text"] for fact in both],
        "valid_from": [fact["valid_from"] for fact in both],
        "confidence": [fact["confidence"] for fact in both],
        "entrenchment": [fact["entrenchment"] for fact in both],
    }
    state.note_decision(action, loser["id"], [fact["id"] for fact in both], out, reason, {**values, **seen})


# Belief revision: a new fact about the same pair and the same kind of relation retires the old one (S2-62); off by
# default. Similar facts may also agree (T10), so reinforcement comes first.


REVISION = "belief_revision"
REINFORCED_JACCARD = 0.85
SAME_DOMAIN = 0.5
REVISIONS = {**OPTIONS, "jaccard": pl.Float64()}


def find_revisions(
    fresh: pl.DataFrame, others: pl.DataFrame, pairs: pl.DataFrame, settings: ReviseSettings
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """REVISIONS: the facts that a candidate reinforces, and the facts that it may revise.

    `pairs` are (id, target_id, cosine) from `repetition.pairs_of`; only pairs above `revision_cosine` count. Both
    sides are relations between the same two things in the same direction, of one edge type, scope and domain.
    """
    close = pairs.filter(pl.col("cosine") >= settings.revision_cosine)
    if not settings.belief_revision or close.is_empty():
        return pl.DataFrame(schema=REVISIONS), pl.DataFrame(schema=REVISIONS)
    sides = sides_of(close, fresh, others)
    same = [pl.col(name).eq_missing(pl.col(f"{name}_b")) for name in ("scope", "subject_id", "edge_type", "segment")]
    by_entity = (pl.col("object_id") == pl.col("object_id_b")).fill_null(False)
    by_text = (pl.col("object_key") == pl.col("object_key_b")) & (pl.col("object_key") != "")
    related = [pl.col(name) == "relation" for name in ("kind", "kind_b")]
    sides = sides.filter(*same, by_entity | by_text, *related)
    one_domain = [is_one_domain(a, b) for a, b in sides.select("predicate", "predicate_b").iter_rows()]
    sides = sides.filter(pl.Series(one_domain, dtype=pl.Boolean))
    sides = sides.with_columns(word_overlap(sides["statement"], sides["statement_b"])["jaccard"])
    says_same = [pl.col(name).eq_missing(pl.col(f"{name}_b")) for name in ("predicate", "polarity", "day")]
    weaker = entrenchment_rank("entrenchment") <= entrenchment_rank("entrenchment_b")
    by_rule = pl.all_horizontal(*says_same, weaker, pl.col("jaccard") >= REINFORCED_JACCARD)
    passes = guards_pass(sides["statement"], sides["statement_b"])["passes"]
    agrees = sides.select(agrees=by_rule)["agrees"] & passes
    rows = sides.select(
        "id", "target_id", pl.lit("words").alias("stage"), "cosine", pl.lit(0, dtype=pl.Int32).alias("rank"), "jaccard"
    )
    return rows.filter(agrees), rows.filter(~agrees)


@lru_cache(maxsize=65_536)
def is_one_domain(a: str, b: str) -> bool:
    """Whether two relations are of one domain: equal, one inside the other, or half of their letters equal (S2-62)."""
    return a == b or (bool(a and b) and (a in b or b in a)) or Levenshtein.normalized_similarity(a, b) >= SAME_DOMAIN


def revise_beliefs(state: RevisionState, new: Fact, known: Iterable[Fact], settings: ReviseSettings) -> None:
    """Retire the facts that a new fact revises."""
    for old in sorted(known, key=lambda fact: (fact["valid_from"], fact["id"])):
        if not state.is_open(new) or not state.is_open(old) or old["place"] >= new["place"]:
            continue
        late = is_out_of_order(new["said_at"], old["said_at"])
        if late and not state.refusal(old, old, new):
            state.comes_late(new, old, max(old["valid_from"], new["valid_from"]), REVISION)
        elif not late:
            replace_fact(state, old, new, settings, REVISION, {"threshold": settings.revision_cosine})


KIND, TO_COMPARE = "implicit_conflict", "redundant"
FLAG_STAYS = timedelta(days=30)
ALMOST_ALIKE = 0.80  # Levenshtein similarity from which two relations are flagged (S2-75)
"""After which a pending flag is forgotten (S2-75)."""
PENDING, SETTLED = "pending", "settled"
_COMPARED = ["id", "scope", "subject_id", "predicate", "object_key"]


def find_implicit_conflicts(
    fresh: pl.DataFrame, live: pl.DataFrame, settings: ReviseSettings, now: datetime
) -> pl.DataFrame:
    """PAIR_DECISIONS, pending for some days: relations of one subject with similar spelling and different objects.

    `fresh` are the candidates that stay, `live` the facts that were there before and still hold. Empty if the setting
    is off.
    """
    if not settings.implicit_conflicts or fresh.is_empty():
        return frames.empty(frames.PAIR_DECISIONS)
    related = (pl.col("kind") == "relation") & (pl.col("predicate").fill_null("") != "")
    new, known = (part.filter(related).select(_COMPARED) for part in (fresh, live))
    pairs = new.join(pl.concat([new, known]), on=["scope", "subject_id"], suffix="_b").filter(
        pl.col("predicate") != pl.col("predicate_b"), pl.col("object_key") != pl.col("object_key_b")
    )
    names = pairs.select("predicate", "predicate_b").unique()
    alike = [Levenshtein.normalized_similarity(a, b) >= ALMOST_ALIKE for a, b in names.iter_rows()]
    found = pairs.join(names.filter(pl.Series(alike, dtype=pl.Boolean)), on=["predicate", "predicate_b"]).select(
        a_id=pl.min_horizontal("id", "id_b"), b_id=pl.max_horizontal("id", "id_b")
    )
    return _flagged(found, now)


def flag_doubts(doubts: Iterable[Doubt], gone: pl.Series, now: datetime) -> pl.DataFrame:
    """PAIR_DECISIONS, pending: conflicts that no rule settles, and stated contradictions; without facts of `gone`.

    The guard of a stated contradiction is STATED, and it does not expire. A pair that is only NAMED is no conflict: it
    waits among the pairs that a model compares, and recall says nothing about it.
    """
    rows = [(*sorted(pair), mark or None) for *pair, mark in doubts]
    found = pl.DataFrame(rows, schema={"a_id": pl.String, "b_id": pl.String, "guard": pl.String}, orient="row")
    there = found.filter(~pl.any_horizontal(pl.col("a_id", "b_id").is_in(gone.implode())))
    named = (pl.col("guard") == NAMED).fill_null(False)
    doubtful = there.filter(~named).sort("guard", nulls_last=True).unique(["a_id", "b_id"], keep="first")
    perhaps = there.filter(named).select("a_id", "b_id").join(doubtful, on=["a_id", "b_id"], how="anti")
    stays = (pl.col("guard") == STATED).fill_null(False)
    by = pl.when(stays).then(pl.lit("model")).otherwise("decided_by")  # the extractor said so: no second question
    flagged = _flagged(doubtful, now).with_columns(expires_at=pl.when(~stays).then("expires_at"), decided_by=by)
    return pl.concat([flagged, _pending(perhaps, TO_COMPARE, now)])


def settle_flags(pending: pl.DataFrame, gone: pl.Series, now: datetime) -> pl.DataFrame:
    """The pending flags (PAIR_DECISIONS) with a fact of `gone`, as settled by a later statement."""
    is_pending = (pl.col("kind") == KIND) & (pl.col("outcome") == PENDING)
    over = pl.any_horizontal(pl.col("a_id", "b_id").is_in(gone.implode()))
    return pending.filter(is_pending, over).with_columns(
        outcome=pl.lit(SETTLED), decided_by=pl.lit("rule"), at=frames.moment(now)
    )


def _flagged(found: pl.DataFrame, now: datetime) -> pl.DataFrame:
    return _pending(found, KIND, now).with_columns(expires_at=frames.moment(now + FLAG_STAYS))


def _pending(found: pl.DataFrame, kind: str, now: datetime) -> pl.DataFrame:
    rows = (
        found.unique()
        .sort("a_id", "b_id")
        .with_columns(
            kind=pl.lit(kind),
            outcome=pl.lit(PENDING),
            decided_by=pl.lit("rule"),
            at=frames.moment(now),
        )
    )
    return frames.conform(frames.with_ids(rows, "pd", "a_id", "b_id", "kind"), frames.PAIR_DECISIONS)

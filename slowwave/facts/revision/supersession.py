"""What ends a fact? (S1-21, S1-22, S2-14, §6.5).

A batch closes facts by its directives, then by conflicts, then by revisions.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import polars as pl

from slowwave.common.lexicon.labels import DATED
from slowwave.common.settings import ReviseSettings
from slowwave.common.validity import is_out_of_order

from .conflicts import revise_beliefs, say_again, settle_conflicts
from .mutual_exclusion import MutualExclusion, bare_name
from .predicates import domain_of
from .referenced_facts import may_mean, telling_words
from .revision_state import ENDED_BY, NAMED, Fact, RevisionState, Supersessions

READ = tuple(
    "id kind scope statement statement_hash subject_id object_id object_text predicate edge_type polarity status "
    "status_reason valid_from valid_to event_at event_until expired_at confidence entrenchment pinned replaced_by "
    "supersedes_id message_id said_at first_at place".split()
)
KNOWN = (*READ, "is_live")
DIRECTIVE = "directive"
ACTIONS = SUPERSEDE, RETRACT, CONTRADICT, REPEAT, COVER = "supersede", "retract", "contradict", "repeat", "cover"
"""Actions of a claim on a known fact: replace it, end it, contradict it, repeat it, or say all of it and more; the last
two end nothing here: one confirms it, the other has the reconciliation that follows merge the two."""


@dataclass(frozen=True, slots=True)
class SupersessionContext:
    """What `supersede_facts` needs beside the facts.

    `names`: every normalised name of each entity. `exclusion`: the rules of conflicts. `revisions`: candidate id → ids
    of facts that it may revise (S2-62). `remembered`: known speakers (READ and winner_id) whose stored directives apply
    to facts that arrive only now.
    """

    settings: ReviseSettings
    names: Mapping[str, frozenset[str]]
    exclusion: MutualExclusion
    revisions: Mapping[str, tuple[str, ...]]
    remembered: pl.DataFrame


@dataclass(slots=True)
class _Index:
    """Facts of a subject by the names of their object, and facts of a scope by the words of directives."""

    names: Mapping[str, frozenset[str]]
    words: frozenset[str]
    by_object: dict[tuple[str, str], list[Fact]] = field(default_factory=lambda: defaultdict(list))
    by_word: dict[tuple[str, str], list[Fact]] = field(default_factory=lambda: defaultdict(list))

    def add(self, fact: Fact) -> None:
        if self.words:
            for word in self.words.intersection(telling_words(fact["statement"])):
                self.by_word[fact["scope"], word].append(fact)
        own = {bare_name(fact["object_text"])} if fact["object_text"] else set()
        for name in own | self.names.get(fact["object_id"], frozenset()):
            self.by_object[fact["subject_id"], name].append(fact)


def supersede_facts(
    fresh: pl.DataFrame,
    duplicates: pl.DataFrame,
    known: pl.DataFrame,
    directives: pl.DataFrame,
    tools: SupersessionContext,
    now: datetime,
) -> Supersessions:
    """Apply each candidate to the known facts, in message order (§6.5 step 3).

    `fresh` needs READ, `known` KNOWN; `directives` are (id, known_id, object, action, reason) in their order, with
    those of the remembered speakers. A duplicate acts for the fact that it repeats. The first rule that applies closes
    a fact.
    """
    roots = dict(duplicates.select("id", "target_id").iter_rows())
    given: dict[str, list[Fact]] = defaultdict(list)
    for directive in directives.filter(~pl.col("action").is_in([REPEAT, COVER])).iter_rows(named=True):
        given[directive["id"]].append(directive)
    may_conflict = tools.exclusion.candidates(fresh)
    chosen = fresh.filter(pl.col("id").is_in([*given, *may_conflict, *tools.revisions])).select(READ)
    speaking = chosen.with_columns(winner_id=pl.col("id").replace(roots))
    about = tools.remembered.join(fresh, on=["scope", "subject_id"], how="semi")
    speakers = pl.concat([speaking, about.select(speaking.columns)]).sort("said_at", "valid_from", "id")
    if speakers.is_empty():
        return RevisionState(now, {}).supersessions()
    state, index = _set_up(fresh, roots, known, speakers, directives, tools, now)
    for speaker in speakers.iter_rows(named=True):
        winner = state.facts.get(speaker["winner_id"])
        if winner is None:
            continue
        for directive in given.get(speaker["id"], ()):
            if speaker["place"] < 0:
                _remember(state, index, directive, speaker, winner)
            elif state.was_open(winner, speaker["said_at"]):
                _follow_directive(state, index, directive, speaker, winner)
        if speaker["place"] < 0:
            continue
        may = speaker["id"] in may_conflict
        if speaker["id"] in roots:
            if may and speaker["place"] == winner["place"]:
                settle_conflicts(state, tools.exclusion, winner, tools.settings)
            elif may and state.is_open(winner):
                say_again(state, tools.exclusion, winner, speaker, tools.settings)
        elif state.is_open(winner):
            if may:
                settle_conflicts(state, tools.exclusion, winner, tools.settings)
            older = [state.facts[name] for name in tools.revisions.get(speaker["id"], ()) if name in state.facts]
            revise_beliefs(state, winner, older, tools.settings)
    state.close_late()
    return state.supersessions()


def _set_up(
    fresh: pl.DataFrame,
    roots: Mapping[str, str],
    known: pl.DataFrame,
    speakers: pl.DataFrame,
    directives: pl.DataFrame,
    tools: SupersessionContext,
    now: datetime,
) -> tuple[RevisionState, _Index]:
    """The state with all facts that the speakers may mean, and their index."""
    meant = {*directives["known_id"].drop_nulls(), *speakers["winner_id"]}
    meant |= {name for names in tools.revisions.values() for name in names}
    kept = fresh.filter(~pl.col("id").is_in(list(roots))).with_columns(status=pl.lit("active"), is_live=pl.lit(True))
    near = pl.concat([known.select(KNOWN), kept.select(KNOWN)])
    words = frozenset(word for old in directives["object"].drop_nulls() for word in telling_words(old))
    near = near.filter(
        pl.col("subject_id").is_in(speakers["subject_id"].implode())
        | pl.col("id").is_in(list(meant))
        | pl.col("statement").str.to_lowercase().str.contains_any(pl.Series([*words], dtype=pl.String).implode())
    )
    state = RevisionState(now, {row["id"]: row for row in near.iter_rows(named=True)})
    index = _Index(tools.names, words)
    for fact in state.facts.values():
        if fact["status"] != "retracted":
            index.add(fact)
    tools.exclusion.place(state.facts.values())
    return state, index


def _follow_directive(state: RevisionState, index: _Index, directive: Fact, speaker: Fact, winner: Fact) -> None:
    named = _targets(state, index, directive, speaker, winner)
    for target in named:
        if directive["action"] == CONTRADICT:
            state.contradict(speaker, winner, target)
        else:
            close(state, directive, speaker, winner, target)
    is_fresh = winner["place"] >= 0  # nobody has judged a new fact yet
    if not named and is_fresh and not directive["known_id"] and directive["action"] != CONTRADICT:
        state.doubts += [(winner["id"], f["id"], NAMED) for f in _perhaps(state, index, directive, speaker, winner)]


def _perhaps(state: RevisionState, index: _Index, directive: Fact, speaker: Fact, winner: Fact) -> list[Fact]:
    """The earlier facts of the speaker's entities that say most of the words of a directive."""
    old = directive["object"] or ""
    of_words = {f["id"]: f for word in telling_words(old) for f in index.by_word.get((speaker["scope"], word), ())}
    earlier = (f for f in of_words.values() if not is_out_of_order(speaker["said_at"], f["said_at"]))
    own = (f for f in earlier if _share_an_end(f, speaker) and _may_be_meant(state, f, speaker, winner))
    return may_mean(old, own)


def _remember(state: RevisionState, index: _Index, directive: Fact, speaker: Fact, winner: Fact) -> None:
    """Apply a stored directive to facts that arrive only now; a pointer also means facts equal to its target."""
    if pointed := state.facts.get(directive["known_id"] or ""):
        named = index.by_object[pointed["subject_id"], bare_name(pointed["object_text"] or "")]
        found = [
            f for f in named if f["predicate"] == pointed["predicate"] and _may_be_meant(state, f, speaker, winner)
        ]
    else:
        found = [] if directive["known_id"] else _targets(state, index, directive, speaker, winner)
    for target in found:
        if target["place"] >= 0:
            close(state, directive, speaker, winner, target)


def _targets(state: RevisionState, index: _Index, directive: Fact, speaker: Fact, winner: Fact) -> list[Fact]:
    """The targets of a directive: the fact that it points at, else those whose object it names.

    Of these only what the speaker's relation can succeed: the same relation, its domain, or the only lasting one.
    What it only describes in words is ended by no rule: a model looks at both facts (`_perhaps`).
    """
    if directive["known_id"]:
        known = state.facts.get(directive["known_id"])
        is_meant = known and _may_be_meant(state, known, speaker, winner) and _share_an_end(known, speaker)
        return [known] if known and is_meant else []
    of_name = index.by_object.get((speaker["subject_id"], bare_name(directive["object"])), ())
    named = [fact for fact in of_name if _may_be_meant(state, fact, speaker, winner) and fact["polarity"] != "negated"]
    predicate, domain = speaker["predicate"], domain_of(speaker["predicate"])
    akin = [f for f in named if f["predicate"] == predicate or (domain and domain_of(f["predicate"]) == domain)]
    lasting = [f for f in named if domain_of(f["predicate"])]
    return akin or (lasting if len(lasting) == 1 else [])


def _may_be_meant(state: RevisionState, fact: Fact, speaker: Fact, winner: Fact) -> bool:
    """Whether a fact may be a target: open at that time, of the same scope, not the winner, not a later candidate."""
    is_later_candidate = fact["place"] >= 0 and fact["said_at"] > speaker["said_at"]
    return (
        state.was_open(fact, speaker["said_at"])
        and fact["scope"] == speaker["scope"]
        and fact["id"] != winner["id"]
        and not is_later_candidate
    )


def _share_an_end(fact: Fact, speaker: Fact) -> bool:
    """Whether two facts share an entity; a pointer to an unrelated fact is a mistake (T37)."""
    ends = {fact["subject_id"], fact["object_id"]} - {None}
    return bool(ends & {speaker["subject_id"], speaker["object_id"]})


def close(state: RevisionState, directive: Fact, speaker: Fact, winner: Fact, target: Fact) -> None:
    """Apply a directive to the target, unless rank or message order forbids it."""
    ids = [target["id"], speaker["id"]]
    late = is_out_of_order(speaker["said_at"], target["said_at"])
    if refusal := state.refusal(speaker, winner, target):
        ranks = [speaker["entrenchment"], target["entrenchment"]]
        would = {} if late else state.override_request(DIRECTIVE, speaker, winner, target, directive)
        state.note_decision("refuse", target["id"], ids, [], refusal, {"entrenchment": ranks, **would})
        return
    measures = {"said_at": speaker["said_at"], "known_said_at": target["said_at"], "valid_from": speaker["valid_from"]}
    if late:
        sentence = "What was said earlier cannot end what was said later."
        state.note_decision("refuse", target["id"], ids, [], sentence, measures)
        return
    _retire(state, directive, speaker, winner, target, measures)


def _retire(
    state: RevisionState, directive: Fact, speaker: Fact, winner: Fact, target: Fact, measures: Mapping[str, object]
) -> None:
    """Close the target: superseded by the winner, retracted as a mistake, or ended."""
    ids, reason = [target["id"], speaker["id"]], directive["reason"]
    is_mistake = reason == "correction"
    # The end is not before its beginning, not after a known end, and, for a plan, at the time of the planned event. A
    # target that is itself a plan, or a date, ends at the time of the message.
    is_planned = target["event_at"] or re.search(DATED, speaker["predicate"])
    happens = speaker["valid_from"] if is_planned else speaker["event_at"] or speaker["valid_from"]
    ends = max(speaker["valid_from"], target["valid_from"], happens)
    ends = min(ends, target["valid_to"]) if target["valid_to"] else ends
    measures = {**measures, "valid_to": [target["valid_to"], ends]}
    if directive["action"] == SUPERSEDE:
        if state.supersede(target, winner, reason, f"replaced by {winner['id']}", ends=ends):
            sentence = f"A later message replaces it ({reason})."
            state.note_decision("supersede", target["id"], ids, [target["id"], winner["id"]], sentence, measures)
    elif is_mistake and target["status"] == "active":
        why = f"retracted by {winner['id']}"
        state.change(target, status="retracted", status_reason=why, valid_to=ends, expired_at=state.now)
        sentence = "A later message says that it was never so."
        state.note_decision("retract", target["id"], ids, [target["id"]], sentence, measures)
    else:
        state.change(target, status_reason=f"{ENDED_BY}{winner['id']}", valid_to=ends)
        state.note_decision(
            "close", target["id"], ids, [target["id"]], "A later message says that it is over.", measures
        )
    state.note_ended(target, speaker)

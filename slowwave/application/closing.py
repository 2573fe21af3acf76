"""What a batch closes: what its directives say is over, then conflicts, then revisions (S1-21, S1-22, S2-14, §6.5)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import polars as pl

from slowwave.application.board import Board, Closings, Fact
from slowwave.application.conflicts import Rivals, Verdicts, settle_conflicts
from slowwave.application.predicates import domain_of
from slowwave.application.revision import revise_beliefs
from slowwave.application.rivals import plain
from slowwave.settings import ReviseSettings
from slowwave.validity import is_out_of_order

READ = (
    "id",
    "kind",
    "scope",
    "statement",
    "statement_hash",
    "subject_id",
    "object_id",
    "object_text",
    "predicate",
    "edge_type",
    "polarity",
    "status",
    "status_reason",
    "valid_from",
    "valid_to",
    "expired_at",
    "confidence",
    "entrenchment",
    "pinned",
    "replaced_by",
    "supersedes_id",
    "message_id",
    "said_at",
    "place",
)
_HELD = (*READ, "is_live")
_MAX_SHORT = 2
DIRECTIVE = "directive"


@dataclass(frozen=True, slots=True)
class Tools:
    """What closing needs to know beside the facts: settings, answers of a model, and what decides conflicts.

    `names`: every normalised name of each entity. `rivals`: what makes objects exclude each other. `revisions`: the
    facts that each candidate may revise, by its id (S2-62).
    """

    settings: ReviseSettings
    verdicts: Verdicts
    names: Mapping[str, frozenset[str]]
    rivals: Rivals
    revisions: Mapping[str, tuple[str, ...]]


@dataclass(slots=True)
class _Index:
    """Where the open facts of a subject are found: by object, by its beginnings, by the sentence they come from."""

    by_object: dict[tuple[str, str], list[Fact]] = field(default_factory=lambda: defaultdict(list))
    by_sentence: dict[tuple[str, str], list[Fact]] = field(default_factory=lambda: defaultdict(list))
    by_short_object: dict[tuple[str, str], list[Fact]] = field(default_factory=lambda: defaultdict(list))

    def add(self, fact: Fact, names: Mapping[str, frozenset[str]]) -> None:
        self.by_sentence[fact["subject_id"], fact["statement_hash"]].append(fact)
        own = {plain(fact["object_text"])} if fact["object_text"] else set()
        for name in own | names.get(fact["object_id"], frozenset()):
            self.by_object[fact["subject_id"], name].append(fact)
            for short in _beginnings(name):
                self.by_short_object[fact["subject_id"], short].append(fact)


def close_facts(
    fresh: pl.DataFrame,
    repeats: pl.DataFrame,
    held: pl.DataFrame,
    directives: pl.DataFrame,
    tools: Tools,
    now: datetime,
) -> Closings:
    """Carry out what each candidate says about known facts, first said first (§6.5 step 3).

    `fresh` and `held` need READ, `held` also is_live; `directives` are (id, known_id, object, action, reason) in their
    order. A candidate that repeats a fact speaks for that fact. What holds no longer is closed by the first rule that
    means it.
    """
    roots = dict(repeats.select("id", "target_id").iter_rows())
    said: dict[str, list[Fact]] = defaultdict(list)
    for directive in directives.iter_rows(named=True):
        said[directive["id"]].append(directive)
    may_conflict = tools.rivals.candidates(fresh) if tools.settings.conflicts else set()
    speakers = fresh.filter(pl.col("id").is_in([*said, *may_conflict, *tools.revisions]))
    if speakers.is_empty():
        return Board(now, {}).closings()
    board, index = _set_up(fresh, roots, held, speakers, directives, tools, now)
    for speaker in speakers.select(READ).iter_rows(named=True):
        winner = board.facts.get(roots.get(speaker["id"], speaker["id"]))
        if winner is None or not board.is_open(winner):
            continue
        for directive in said.get(speaker["id"], ()):
            if board.is_open(winner):
                _carry_out(board, index, directive, speaker, winner)
        if speaker["id"] not in roots and board.is_open(winner):
            if speaker["id"] in may_conflict:
                settle_conflicts(board, tools.rivals, winner, tools.settings, tools.verdicts)
            known = [board.facts[name] for name in tools.revisions.get(speaker["id"], ()) if name in board.facts]
            revise_beliefs(board, winner, known, tools.settings, tools.verdicts)
    board.close_late()
    return board.closings()


def _set_up(
    fresh: pl.DataFrame,
    roots: Mapping[str, str],
    held: pl.DataFrame,
    speakers: pl.DataFrame,
    directives: pl.DataFrame,
    tools: Tools,
    now: datetime,
) -> tuple[Board, _Index]:
    """The facts that the speakers may mean, and where to find them."""
    meant = {*directives["known_id"].drop_nulls(), *(roots.get(id_, id_) for id_ in speakers["id"])}
    meant |= {name for names in tools.revisions.values() for name in names}
    kept = fresh.filter(~pl.col("id").is_in(list(roots))).with_columns(status=pl.lit("active"), is_live=pl.lit(True))
    near = pl.concat([held.select(_HELD), kept.select(_HELD)])
    near = near.filter(pl.col("subject_id").is_in(speakers["subject_id"].implode()) | pl.col("id").is_in(list(meant)))
    board, index = Board(now, {row["id"]: row for row in near.iter_rows(named=True)}), _Index()
    for fact in board.facts.values():
        if fact["is_live"]:
            index.add(fact, tools.names)
    tools.rivals.place(board.facts.values())
    return board, index


def _carry_out(board: Board, index: _Index, directive: Fact, speaker: Fact, winner: Fact) -> None:
    for target in _with_twins(board, index, _targets(board, index, directive, speaker, winner), speaker, winner):
        close(board, directive, speaker, winner, target)


def _targets(board: Board, index: _Index, directive: Fact, speaker: Fact, winner: Fact) -> list[Fact]:
    """The facts that a directive means: the one it points at, else those whose object it names."""
    if directive["known_id"]:
        known = board.facts.get(directive["known_id"])
        return (
            [known] if known and _may_be_meant(board, known, speaker, winner) and _share_an_end(known, speaker) else []
        )
    key = (speaker["subject_id"], plain(directive["object"]))
    named, short = (
        [f for f in found.get(key, ()) if _may_be_meant(board, f, speaker, winner) and f["polarity"] != "negated"]
        for found in (index.by_object, index.by_short_object)
    )
    # "Brightwell" may stand for "Brightwell Analytics", but only where the relation is the same and one fact fits.
    shortened = [fact for fact in short if fact["predicate"] == speaker["predicate"]]
    return _of_one_kind(named, speaker["predicate"]) or (shortened if len(shortened) == 1 else [])


def _with_twins(board: Board, index: _Index, targets: list[Fact], speaker: Fact, winner: Fact) -> list[Fact]:
    """The targets and what was read from the very same sentence: it cannot go on being told as true."""
    sentences = dict.fromkeys(
        (fact["subject_id"], fact["statement_hash"]) for fact in targets if fact["statement_hash"]
    )
    twins = [fact for sentence in sentences for fact in index.by_sentence[sentence]]
    known = {fact["id"] for fact in targets}
    return [*targets, *(f for f in twins if f["id"] not in known and _may_be_meant(board, f, speaker, winner))]


def _may_be_meant(board: Board, fact: Fact, speaker: Fact, winner: Fact) -> bool:
    """Open, of the same scope, not the speaker's own, and not a candidate that is said later."""
    is_later_candidate = fact["place"] >= 0 and fact["said_at"] > speaker["said_at"]
    return (
        board.is_open(fact)
        and fact["scope"] == speaker["scope"]
        and fact["id"] != winner["id"]
        and not is_later_candidate
    )


def _of_one_kind(facts: list[Fact], predicate: str) -> list[Fact]:
    """Those that the speaker's relation can succeed: the same, one of its domain, or the only lasting one."""
    domain = domain_of(predicate)
    close = [f for f in facts if f["predicate"] == predicate or (domain and domain_of(f["predicate"]) == domain)]
    lasting = [f for f in facts if domain_of(f["predicate"])]
    return close or (lasting if len(lasting) == 1 else [])


def _share_an_end(fact: Fact, speaker: Fact) -> bool:
    """Whether two facts are about one entity; a pointer to a fact about something else is a mistake (T37)."""
    ends = {fact["subject_id"], fact["object_id"]} - {None}
    return bool(ends & {speaker["subject_id"], speaker["object_id"]})


def close(board: Board, directive: Fact, speaker: Fact, winner: Fact, target: Fact) -> None:
    """Do to the target what a directive says, unless rank or the order of saying forbids it."""
    ids, reason = [target["id"], speaker["id"]], directive["reason"]
    late = is_out_of_order(speaker["said_at"], target["said_at"])
    if refusal := board.refusal(speaker, winner, target):
        ranks = [speaker["entrenchment"], target["entrenchment"]]
        would = {} if late else board.would(DIRECTIVE, speaker, winner, target, directive)
        board.decide("refuse", target["id"], ids, [], refusal, {"entrenchment": ranks, **would})
        return
    measures = {"said_at": speaker["said_at"], "known_said_at": target["said_at"], "valid_from": speaker["valid_from"]}
    if late and directive["action"] == "supersede" and winner["id"] == speaker["id"]:
        board.comes_late(winner, target, target["valid_from"], reason)
        return
    if late:
        sentence = "What was said earlier cannot end what was said later."
        board.decide("refuse", target["id"], ids, [], sentence, measures)
        return
    _retire(board, directive, speaker, winner, target, measures)


def _retire(
    board: Board, directive: Fact, speaker: Fact, winner: Fact, target: Fact, measures: Mapping[str, object]
) -> None:
    """Close the target: superseded by the winner, retracted as a mistake, or ended with its past kept."""
    ids, reason = [target["id"], speaker["id"]], directive["reason"]
    is_mistake = reason == "correction"
    # It ended no earlier than it began, and no later than was known before.
    ends = max(speaker["valid_from"], target["valid_from"])
    ends = min(ends, target["valid_to"]) if target["valid_to"] else ends
    measures = {**measures, "valid_to": [target["valid_to"], ends]}
    if directive["action"] == "supersede":
        if board.supersede(target, winner, reason, f"replaced by {winner['id']}", ends=ends):
            sentence = f"A later message replaces it ({reason})."
            board.decide("supersede", target["id"], ids, [target["id"], winner["id"]], sentence, measures)
    elif is_mistake:
        why = f"retracted by {winner['id']}"
        board.change(target, status="retracted", status_reason=why, valid_to=ends, expired_at=board.now)
        sentence = "A later message says that it was never so."
        board.decide("retract", target["id"], ids, [target["id"]], sentence, measures)
    else:
        board.change(target, status_reason=f"ended by {winner['id']}", valid_to=ends)
        board.decide("close", target["id"], ids, [target["id"]], "A later message says that it is over.", measures)
    board.retire(target, winner, speaker, is_mistake=is_mistake)


def _beginnings(name: str) -> list[str]:
    """The shorter forms of a name of several words: its first word, its first two …"""
    words = name.split()
    return [" ".join(words[:count]) for count in range(1, min(len(words), _MAX_SHORT + 1))]

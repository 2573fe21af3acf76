"""What a directive closes: which fact it means, whether it may, what becomes of both (S1-21, S1-22, S2-14, §6.3)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

import polars as pl

from slowwave import frames
from slowwave.predicates import domain_of
from slowwave.text import normalise_name, row_id
from slowwave.validity import check_transition, is_out_of_order, successors

CHANGES = {
    "id": pl.String(),
    "status": pl.String(),
    "status_reason": pl.String(),
    "valid_to": frames.TIME,
    "expired_at": frames.TIME,
    "replaced_by": pl.String(),
}
_READ = (
    "id",
    "scope",
    "statement_hash",
    "subject_id",
    "object_id",
    "object_text",
    "predicate",
    "polarity",
    "status",
    "valid_from",
    "valid_to",
    "entrenchment",
    "pinned",
    "replaced_by",
    "said_at",
    "place",
)
_RANK = {"system_inferred": 0, "user_stated": 1, "user_axiom": 2}
_ARTICLE = re.compile(r"^(?:the|an?|my|our|your|his|her|their|its|el|la|los|las|mi|un|una|der|die|das)\s+")
_OUTER = " \t\"'“”‘’`.,;:!?()"
_MAX_SHORT = 2
Fact = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Closings:
    """`facts`: CHANGES of closed facts and of candidates that came too late; `predecessors`: (id, supersedes_id)."""

    facts: pl.DataFrame
    predecessors: pl.DataFrame
    lineage: pl.DataFrame
    decisions: list[Mapping[str, object]]


@dataclass(slots=True)
class _Board:
    """The live facts of the moment while directives are carried out one after the other."""

    now: datetime
    facts: dict[str, Fact]
    names: Mapping[str, frozenset[str]]
    by_object: dict[tuple[str, str], list[Fact]] = field(default_factory=lambda: defaultdict(list))
    by_sentence: dict[tuple[str, str], list[Fact]] = field(default_factory=lambda: defaultdict(list))
    by_short_object: dict[tuple[str, str], list[Fact]] = field(default_factory=lambda: defaultdict(list))
    changes: dict[str, Fact] = field(default_factory=dict)
    steps: dict[str, str] = field(default_factory=dict)
    predecessors: dict[str, Fact] = field(default_factory=dict)
    lineage: dict[tuple[str, str], str] = field(default_factory=dict)
    decisions: list[Mapping[str, object]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for fact in self.facts.values():
            self.by_sentence[fact["subject_id"], fact["statement_hash"]].append(fact)
            if fact["replaced_by"]:
                self.steps[fact["id"]] = fact["replaced_by"]
            own = {_plain(fact["object_text"])} if fact["object_text"] else set()
            for name in own | self.names.get(fact["object_id"], frozenset()):
                self.by_object[fact["subject_id"], name].append(fact)
                for short in _beginnings(name):
                    self.by_short_object[fact["subject_id"], short].append(fact)

    def is_open(self, fact: Fact) -> bool:
        """Whether nothing in this plan closed it."""
        return fact["id"] not in self.changes

    def change(self, fact: Fact, **values: Any) -> None:
        """Close a fact; a loser is closed once (T36)."""
        status: str = values.get("status") or fact["status"]
        check_transition(fact["status"], status)
        self.changes[fact["id"]] = {"id": fact["id"], "status": status, **values}
        if values.get("replaced_by"):
            self.steps[fact["id"]] = values["replaced_by"]
        fact.update(values)

    def decide(
        self, action: str, subject: str, ids: list[str], out: list[str], reason: str, **measures: object
    ) -> None:
        """Note a decision."""
        self.decisions.append(
            {
                "action": action,
                "subject_id": subject,
                "ids_in": ids,
                "ids_out": out,
                "measures": measures,
                "reason": reason,
            }
        )


def close_facts(
    fresh: pl.DataFrame,
    repeats: pl.DataFrame,
    live: pl.DataFrame,
    directives: pl.DataFrame,
    entities: pl.DataFrame,
    aliases: pl.DataFrame,
    now: datetime,
) -> Closings:
    """Carry out directives (columns id, known_id, object, action, reason) in their order.

    A candidate that repeats a fact speaks for that fact. A directive finds only facts that were live and said no later.
    """
    if directives.is_empty():
        return _closings(_Board(now, {}, {}))
    roots = dict(repeats.select("id", "target_id").iter_rows())
    speakers = {
        row["id"]: row for row in fresh.join(directives, on="id", how="semi").select(_READ).iter_rows(named=True)
    }
    subjects = {speaker["subject_id"] for speaker in speakers.values()}
    meant = {*directives["known_id"].drop_nulls(), *(roots.get(id_, id_) for id_ in speakers)}
    kept = fresh.join(repeats, on="id", how="anti", maintain_order="left").with_columns(status=pl.lit("active"))
    near = pl.concat([live.select(_READ), kept.select(_READ)])
    near = near.filter(pl.col("subject_id").is_in(list(subjects)) | pl.col("id").is_in(list(meant)))
    board = _Board(now, {row["id"]: row for row in near.iter_rows(named=True)}, _names(entities, aliases))
    for directive in directives.iter_rows(named=True):
        speaker = speakers[directive["id"]]
        winner = board.facts.get(roots.get(speaker["id"], speaker["id"]))
        if winner is None or not board.is_open(winner):
            continue
        for target in _with_twins(board, _targets(board, directive, speaker, winner), speaker, winner):
            _close(board, directive, speaker, winner, target)
    _close_late(board)
    return _closings(board)


def _targets(board: _Board, directive: Fact, speaker: Fact, winner: Fact) -> list[Fact]:
    """The facts that a directive means: the one it points at, else those whose object it names."""
    if directive["known_id"]:
        known = board.facts.get(directive["known_id"])
        return (
            [known] if known and _may_be_meant(board, known, speaker, winner) and _share_an_end(known, speaker) else []
        )
    key = (speaker["subject_id"], _plain(directive["object"]))
    named, short = (
        [f for f in found.get(key, ()) if _may_be_meant(board, f, speaker, winner) and f["polarity"] != "negated"]
        for found in (board.by_object, board.by_short_object)
    )
    # "Brightwell" may stand for "Brightwell Analytics", but only where the relation is the same and one fact fits.
    shortened = [fact for fact in short if fact["predicate"] == speaker["predicate"]]
    return _of_one_kind(named, speaker["predicate"]) or (shortened if len(shortened) == 1 else [])


def _with_twins(board: _Board, targets: list[Fact], speaker: Fact, winner: Fact) -> list[Fact]:
    """The targets and what was read from the very same sentence: it cannot go on being told as true."""
    sentences = dict.fromkeys(
        (fact["subject_id"], fact["statement_hash"]) for fact in targets if fact["statement_hash"]
    )
    twins = [fact for sentence in sentences for fact in board.by_sentence[sentence]]
    known = {fact["id"] for fact in targets}
    return [*targets, *(f for f in twins if f["id"] not in known and _may_be_meant(board, f, speaker, winner))]


def _may_be_meant(board: _Board, fact: Fact, speaker: Fact, winner: Fact) -> bool:
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


def _close(board: _Board, directive: Fact, speaker: Fact, winner: Fact, target: Fact) -> None:
    ids, reason = [target["id"], speaker["id"]], directive["reason"]
    if refusal := _refusal(board, speaker, winner, target):
        board.decide(
            "refuse", target["id"], ids, [], refusal, entrenchment=[speaker["entrenchment"], target["entrenchment"]]
        )
        return
    late = is_out_of_order(speaker["said_at"], target["said_at"])
    measures = {"said_at": speaker["said_at"], "known_said_at": target["said_at"], "valid_from": speaker["valid_from"]}
    if late and directive["action"] == "supersede" and winner["id"] == speaker["id"]:
        heads = winner.setdefault("heads", [])
        heads.append((target["valid_from"], target["id"], reason))
        return
    if late:
        board.decide(
            "refuse", target["id"], ids, [], "What was said earlier cannot end what was said later.", **measures
        )
        return
    _retire(board, directive, speaker, winner, target, measures)


def _retire(
    board: _Board, directive: Fact, speaker: Fact, winner: Fact, target: Fact, measures: Mapping[str, object]
) -> None:
    """Close the target: superseded by the winner, retracted as a mistake, or ended with its past kept."""
    ids, reason = [target["id"], speaker["id"]], directive["reason"]
    # It ended no earlier than it began, and no later than was known before.
    ends = max(speaker["valid_from"], target["valid_from"])
    ends = min(ends, target["valid_to"]) if target["valid_to"] else ends
    if directive["action"] == "supersede":
        board.change(
            target,
            status="superseded",
            status_reason=f"{reason}: replaced by {winner['id']}",
            valid_to=ends,
            expired_at=board.now,
            replaced_by=winner["id"],
        )
        _follow(board, target, winner, reason)
        board.decide(
            "supersede",
            target["id"],
            ids,
            [target["id"], winner["id"]],
            f"A later message replaces it ({reason}).",
            **measures,
        )
    elif reason == "correction":
        board.change(
            target,
            status="retracted",
            status_reason=f"retracted by {winner['id']}",
            valid_to=ends,
            expired_at=board.now,
        )
        board.decide(
            "retract", target["id"], ids, [target["id"]], "A later message says that it was never so.", **measures
        )
    else:
        board.change(target, status_reason=f"ended by {winner['id']}", valid_to=ends)
        board.decide("close", target["id"], ids, [target["id"]], "A later message says that it is over.", **measures)


def _refusal(board: _Board, speaker: Fact, winner: Fact, target: Fact) -> str:
    """Why the target must stay; empty if it may be closed."""
    if target["pinned"]:
        return "It is pinned; the new fact stands beside it."
    weaker = _RANK.get(speaker["entrenchment"], 0) < _RANK.get(target["entrenchment"], 0)
    if weaker or target["entrenchment"] == "user_axiom":
        return f"{speaker['entrenchment']} does not override {target['entrenchment']}; both stay."
    if target["id"] in successors(winner["id"], board.steps):
        return "The new fact was itself replaced by it; a circle is refused."
    return ""


def _close_late(board: _Board) -> None:
    """A candidate said before what it would replace is applied as already closed, by the earliest of it (§6.3)."""
    for fact in list(board.facts.values()):
        if not fact.get("heads") or not board.is_open(fact):
            continue
        starts, head, reason = min(fact["heads"])
        ends = max(starts, fact["valid_from"])
        board.change(
            fact,
            status="superseded",
            status_reason=f"{reason}: {head} was said later",
            valid_to=ends,
            expired_at=board.now,
            replaced_by=head,
        )
        _follow(board, fact, board.facts[head], reason)
        board.decide(
            "supersede",
            fact["id"],
            [head],
            [fact["id"], head],
            "It was said before what it would replace: applied as already closed.",
        )


def _follow(board: _Board, old: Fact, new: Fact, reason: str) -> None:
    """Lineage, and the most recent predecessor of the winner."""
    board.lineage[(old["id"], new["id"])] = reason
    before = board.predecessors.get(new["id"])
    if before is None or (before["valid_from"], before["id"]) < (old["valid_from"], old["id"]):
        board.predecessors[new["id"]] = old


def _closings(board: _Board) -> Closings:
    lineage = [
        {"id": row_id("l", old, new), "old_id": old, "new_id": new, "reason": why}
        for (old, new), why in board.lineage.items()
    ]
    heads = [(new, old["id"]) for new, old in board.predecessors.items()]
    return Closings(
        pl.DataFrame(list(board.changes.values()), schema=CHANGES),
        pl.DataFrame(heads, schema={"id": pl.String, "supersedes_id": pl.String}, orient="row"),
        pl.DataFrame(lineage, schema=dict(frames.LINEAGE)),
        board.decisions,
    )


def _names(entities: pl.DataFrame, aliases: pl.DataFrame) -> Mapping[str, frozenset[str]]:
    """Every normalised name of each entity."""
    names: dict[str, set[str]] = defaultdict(set)
    for entity, *forms in entities.select("id", "canonical_name", "name").iter_rows():
        names[entity].update(_plain(form) for form in forms if form)
    for entity, alias in aliases.select("entity_id", "alias_name").iter_rows():
        names[entity].add(_plain(alias))
    return {entity: frozenset(forms) for entity, forms in names.items()}


def _beginnings(name: str) -> list[str]:
    """The shorter forms of a name of several words: its first word, its first two …"""
    words = name.split()
    return [" ".join(words[:count]) for count in range(1, min(len(words), _MAX_SHORT + 1))]


@lru_cache(maxsize=65_536)
def _plain(words: str) -> str:
    """A name as directives and objects are compared: normalised, without article and outer punctuation."""
    return _ARTICLE.sub("", normalise_name(words).strip(_OUTER))

"""How is a fact closed? The facts near a batch during its application, and the ways to close one of them (§6.3).

Directives, conflicts and revisions all close facts here, so that rank, time and chains are checked in one place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import polars as pl

from slowwave.common import frames
from slowwave.common.decisions import Row, decision
from slowwave.common.text import row_id
from slowwave.common.validity import MAX_CHAIN, check_transition, rank_of, successors

CHANGES = {
    "id": pl.String(),
    "status": pl.String(),
    "status_reason": pl.String(),
    "valid_to": frames.TIME,
    "expired_at": frames.TIME,
    "replaced_by": pl.String(),
}
ENDED = {"id": pl.String(), "noted_at": frames.TIME, "ended_at": frames.TIME}
_FOREVER = datetime.max.replace(tzinfo=UTC)
ENDED_BY = "ended by "
STATED = "contradicts"
"""The mark of a doubt that a statement states itself."""
NAMED = "named"
"""The mark of a pair of which a statement perhaps names the older fact, in some of its words: a model judges it."""
NOTHING: Mapping[str, object] = MappingProxyType({})
Fact = dict[str, Any]
Doubt = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Supersessions:
    """Closed facts and the rows that belong to them.

    `facts`: CHANGES of closed facts and of late candidates. `predecessors`: (id, supersedes_id). `ended`: ENDED of
    every closed fact. `doubts`: (new id, known id, mark) of
    conflicts that no rule settles (no mark), of contradictions that are STATED, and of facts that are perhaps NAMED.
    """

    facts: pl.DataFrame
    predecessors: pl.DataFrame
    lineage: pl.DataFrame
    ended: pl.DataFrame
    decisions: list[Row]
    doubts: tuple[Doubt, ...] = ()


@dataclass(slots=True)
class RevisionState:
    """The facts near a batch, changed by one candidate after the other."""

    now: datetime
    facts: dict[str, Fact]
    changes: dict[str, Fact] = field(default_factory=dict)
    steps: dict[str, str] = field(default_factory=dict)
    decisions: list[Row] = field(default_factory=list)
    doubts: list[Doubt] = field(default_factory=list)
    permitted: frozenset[tuple[str, str]] = frozenset()  # (winner, loser) whose rank does not count: a person decides
    _before: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _predecessors: dict[str, Fact] = field(default_factory=dict)
    _lineage: dict[tuple[str, str], str] = field(default_factory=dict)
    _ended: list[Fact] = field(default_factory=list)
    _late: dict[str, list[tuple[datetime, str, str]]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        for fact in self.facts.values():
            if fact["replaced_by"]:
                self._step(fact["id"], fact["replaced_by"])

    def is_open(self, fact: Fact) -> bool:
        """Whether the fact is live and not closed in this plan."""
        return bool(fact["is_live"]) and fact["id"] not in self.changes

    def is_open_at(self, fact: Fact, at: datetime) -> bool:
        """Whether the fact is open, and, if it is a late candidate, had not ended at that time."""
        return self.is_open(fact) and not any(ends <= at for ends, *_ in self._late.get(fact["id"], ()))

    def is_late(self, fact: Fact) -> bool:
        """Whether the fact is a late candidate: a known fact followed it already."""
        return fact["id"] in self._late

    def was_open(self, fact: Fact, at: datetime) -> bool:
        """Whether the fact was open for messages of that time: the fact that closed it was said later."""
        if self.is_open(fact):
            return self.is_open_at(fact, at)
        if fact["id"] in self.changes or fact["status"] not in ("active", "superseded"):
            return False
        ended_by = str(fact["status_reason"]).removeprefix(ENDED_BY)
        closer = self.facts.get(fact["replaced_by"] or ended_by)
        return closer is not None and closer["first_at"] > at

    def change(self, fact: Fact, **values: Any) -> None:
        """Set values of a fact, after a check of the status transition; callers ask `is_open` first (T36)."""
        status: str = values.get("status") or fact["status"]
        check_transition(fact["status"], status)
        fact.update(values)
        self.changes[fact["id"]] = {"id": fact["id"], "status": status, **values}
        if values.get("replaced_by"):
            self._step(fact["id"], values["replaced_by"])

    def note_decision(
        self,
        action: str,
        subject: str,
        ids: list[str],
        out: list[str],
        reason: str,
        seen: Mapping[str, object] = NOTHING,
    ) -> None:
        """Note a decision with its measures (`seen`)."""
        self.decisions.append(decision(action, subject, ids, out, reason, self.now, seen))

    def contradict(self, speaker: Fact, winner: Fact, known: Fact) -> None:
        """Keep both facts as a stated contradiction, unless the known one outranks the speaker."""
        ids = [known["id"], winner["id"]]
        if refusal := self.refusal(speaker, winner, known):
            ranks = [speaker["entrenchment"], known["entrenchment"]]
            self.note_decision("refuse", known["id"], ids, [], refusal, {"entrenchment": ranks})
            return
        self.doubts.append((winner["id"], known["id"], STATED))
        self.note_decision(
            "dispute", known["id"], ids, [], "They contradict each other, and nothing tells which holds."
        )

    def is_contradicted(self, a: Fact, b: Fact) -> bool:
        """Whether a statement says that the two contradict each other."""
        return any({a["id"], b["id"]} == {*pair} and why == STATED for *pair, why in self.doubts)

    def refusal(self, speaker: Fact, winner: Fact, loser: Fact) -> str:
        """The reason why the loser must stay; empty if it may be closed (S1-22, G4, T35)."""
        if (winner["id"], loser["id"]) not in self.permitted and (refusal := self._outranked(speaker, loser)):
            return refusal
        if loser["id"] in successors(winner["id"], self.steps):
            return "The new fact was itself replaced by it; a circle is refused."
        return ""

    def _outranked(self, speaker: Fact, loser: Fact) -> str:
        if loser["pinned"]:
            return "It is pinned; the new fact stands beside it."
        weaker = rank_of(speaker["entrenchment"]) < rank_of(loser["entrenchment"])
        if weaker or loser["entrenchment"] == "user_axiom":
            return f"{speaker['entrenchment']} does not override {loser['entrenchment']}; both stay."
        return ""

    def override_request(
        self,
        rule: str,
        speaker: Fact,
        winner: Fact,
        loser: Fact,
        directive: Mapping[str, object] = NOTHING,
    ) -> Mapping[str, object]:
        """Measures of a change that only rank forbids, so that a person can decide about it (§6.6).

        Empty if the change would form a circle, which a person cannot permit either.
        """
        if loser["id"] in successors(winner["id"], self.steps):
            return {}
        spoken = {name: speaker[name] for name in ("said_at", "valid_from", "entrenchment")}
        given = {name: directive[name] for name in ("action", "reason") if name in directive}
        return {"would": {"rule": rule, "winner": winner["id"], "speaker": speaker["id"], **spoken, **given}}

    def supersede(self, loser: Fact, winner: Fact, why: str, reason: str, *, ends: datetime) -> bool:
        """Close the loser at `ends`, within its validity; whether it was linked to the winner (S2-55).

        An active loser whose chain is full ends without a link: the history is cut, but the fact does not stay live.
        """
        until = loser["valid_to"]
        ends = min(max(ends, loser["valid_from"]), until or _FOREVER)
        if self._chain(loser["id"], winner["id"]) > MAX_CHAIN and loser["status"] != "superseded":
            self.change(loser, status_reason=f"{ENDED_BY}{winner['id']}", valid_to=ends)
            self.note_decision(
                "refuse", loser["id"], [loser["id"], winner["id"]], [loser["id"]],
                f"{MAX_CHAIN} facts have replaced each other already: it ends without being linked to what follows it.",
                {"chain": MAX_CHAIN},
            )  # fmt: skip
            self.note_decision(
                "close", loser["id"], [loser["id"], winner["id"]], [loser["id"]], "Something else holds now.",
                {"valid_to": [until, ends]},
            )  # fmt: skip
            return False
        self.change(
            loser,
            status="superseded",
            status_reason=f"{why}: {reason}",
            valid_to=ends,
            expired_at=loser["expired_at"] or self.now,
            replaced_by=winner["id"],
        )
        self._follow(loser, winner, why)
        return True

    def note_ended(self, loser: Fact, speaker: Fact) -> None:
        """Note that a fact is over, as the speaker says: a repetition after it begins a new interval."""
        self._ended.append({"id": loser["id"], "noted_at": speaker["said_at"], "ended_at": loser["valid_to"]})

    def comes_late(self, fact: Fact, head: Fact, ends: datetime, why: str) -> None:
        """Note that a late candidate ended at `ends`, because of the known fact `head`; closed by `close_late`."""
        self._late[fact["id"]].append((ends, head["id"], why))

    def close_late(self) -> None:
        """Close the late candidates, each by the earliest fact that follows it (§6.3)."""
        for name, heads in self._late.items():
            fact, (ends, head, why) = self.facts[name], min(heads)
            if not self.is_open(fact):
                continue
            is_linked = self.supersede(fact, self.facts[head], why, f"{head} came after it", ends=ends)
            self.note_ended(fact, self.facts[head])
            if is_linked:
                self.note_decision(
                    "supersede", name, [head], [name, head],
                    "It came too late for what followed it: applied as already closed.",
                    {"objects": [fact["object_text"], self.facts[head]["object_text"]], "valid_to": fact["valid_to"]},
                )  # fmt: skip

    def supersessions(self) -> Supersessions:
        """All changes of this state."""
        lineage = [
            {"id": row_id("l", old, new), "old_id": old, "new_id": new, "reason": why}
            for (old, new), why in self._lineage.items()
        ]
        heads = [(new, old["id"]) for new, old in self._predecessors.items()]
        return Supersessions(
            pl.DataFrame(list(self.changes.values()), schema=CHANGES),
            pl.DataFrame(heads, schema={"id": pl.String, "supersedes_id": pl.String}, orient="row"),
            pl.DataFrame(lineage, schema=dict(frames.LINEAGE)),
            pl.DataFrame(self._ended, schema=ENDED),
            self.decisions,
            tuple(dict.fromkeys(self.doubts)),
        )

    def _step(self, old: str, new: str) -> None:
        self._before[self.steps.get(old, "")].discard(old)
        self.steps[old] = new
        self._before[new].add(old)

    def _follow(self, old: Fact, new: Fact, why: str) -> None:
        """Note the lineage, and the most recent predecessor of the winner."""
        self._lineage[old["id"], new["id"]] = why
        known = self._predecessors.get(new["id"]) or self.facts.get(new["supersedes_id"] or "")
        if known is None or (known["valid_from"], known["id"]) < (old["valid_from"], old["id"]):
            self._predecessors[new["id"]] = old

    def _chain(self, old: str, new: str) -> int:
        """How many facts the longest chain through a step from `old` to `new` would have."""
        ring, depth = {old}, 0
        while ring and depth <= MAX_CHAIN:
            ring = {name for each in ring for name in self._before.get(each, ())}
            depth += 1
        return depth + 1 + len(successors(new, self.steps))

"""Who absorbs whom: merges and verdicts carried out one after the other, each fact at most once (T35, T36)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import polars as pl

from slowwave import frames
from slowwave.merging.combining import combined_notes
from slowwave.merging.guards import may_yield
from slowwave.merging.merges import Merges
from slowwave.text import timed_id
from slowwave.validity import successors

DEDUP, CONSOLIDATED = "dedup", "consolidated"
STEPS = {"id": pl.String(), "winner_id": pl.String(), "target_id": pl.String(), "how": pl.String()}
TARGETS = {"root_id": pl.String(), "target_id": pl.String(), "statement": pl.String()}
MEMBERS = {"target_id": pl.String(), "root_id": pl.String(), "id": pl.String()}


@dataclass(slots=True)
class Absorption:
    """What merges and verdicts come to.

    `steps` lead from each absorbed fact to the one that absorbed it, `how` says who decided it: a rule, or a model or a
    person. `wordings` are the new statements of notes that go on with the words of others.
    """

    facts: pl.DataFrame
    stored: Mapping[str, str]
    steps: dict[str, str] = field(default_factory=dict)
    how: dict[str, str] = field(default_factory=dict)
    wordings: dict[str, str] = field(default_factory=dict)

    def roots(self) -> dict[str, str]:
        """The last survivor of every absorbed fact."""
        ends: dict[str, str] = {}
        for id_ in reversed(self.steps):  # whoever was absorbed later stands nearer to the end
            ends[id_] = ends.get(self.steps[id_], self.steps[id_])
        return ends

    def reworded(self) -> pl.DataFrame:
        """TARGETS: the survivors that go on as a new fact with its id (deterministic: a retry makes the same one)."""
        if not self.wordings:
            return pl.DataFrame(schema=TARGETS)
        starts = dict(self.facts.select("id", "valid_from").iter_rows())
        roots = self.roots()
        groups = {root: sorted(id_ for id_, end in roots.items() if end == root) for root in self.wordings}
        rows = [
            (root, timed_id("f", min(known), "reworded", root, groups[root], words), words)
            for root, words in self.wordings.items()
            if root not in self.steps and (known := [at for i in (root, *groups[root]) if (at := starts.get(i))])
        ]
        return pl.DataFrame(rows, schema=TARGETS, orient="row").sort("root_id")

    def closings(self) -> pl.DataFrame:
        """STEPS of every fact that is closed: who absorbed it, in which row that one goes on, and who decided."""
        new = dict(self.reworded().select("root_id", "target_id").iter_rows())
        rows = [(id_, winner, new.get(winner, winner), self.how[id_]) for id_, winner in self.steps.items()]
        rows += [(root, root, target, DEDUP) for root, target in new.items()]
        return pl.DataFrame(rows, schema=STEPS, orient="row").sort("id")

    def members(self) -> pl.DataFrame:
        """MEMBERS: everything that goes on in each target, the survivor with its old wording among it."""
        roots = self.roots()
        new = dict(self.reworded().select("root_id", "target_id").iter_rows())
        everyone = {**roots, **{root: root for root in (*roots.values(), *new)}}
        rows = [(new.get(root, root), root, id_) for id_, root in everyone.items()]
        return pl.DataFrame(rows, schema=MEMBERS, orient="row").sort("target_id", "id")


def absorb(facts: pl.DataFrame, merges: Merges, verdicts: Iterable[tuple[str, str]] = ()) -> Absorption:
    """Carry out merges, then what a model or a person said of pairs (loser, winner), in their order.

    `facts` are live. A loser that is closed already, a winner that is, and a circle are left out (T35, T36).
    """
    stored = dict(facts.drop_nulls("replaced_by").select("id", "replaced_by").iter_rows())
    done = Absorption(frames.conform(facts, frames.FACTS), stored)
    for loser, winner in merges.losers.select("loser_id", "winner_id").iter_rows():
        _take(done, loser, winner, DEDUP)
    for loser, winner in verdicts:
        _take(done, loser, winner, CONSOLIDATED)
    if merges.joins_notes:
        _join_notes(done)
    return done


def _join_notes(done: Absorption) -> None:
    """A note goes on in a new row that also says what the notes say that it absorbed by rule, in their order (S4-09).

    Not where it was absorbed itself, or where it is pinned or an axiom.
    """
    notes = done.facts.filter(pl.col("kind") == "note")
    free = notes.filter(may_yield(""), ~pl.col("id").is_in(list(done.steps)))
    steps = [(winner, loser) for loser, winner in done.steps.items() if done.how[loser] == DEDUP]
    pairs = (
        pl.DataFrame(steps, schema={"id": pl.String, "loser_id": pl.String}, orient="row")
        .join(free.select("id", keep="statement"), on="id", maintain_order="left")
        .join(notes.select(loser_id="id", drop="statement"), on="loser_id", maintain_order="left")
    )
    done.wordings |= combined_notes(pairs)


def _take(done: Absorption, loser: str, winner: str, how: str) -> None:
    """Note a step, unless one of the two was absorbed already or the loser itself took the winner's place (T35)."""
    if loser == winner or loser in done.steps or winner in done.steps:
        return
    if loser not in successors(winner, {**done.stored, **done.steps} if done.stored else done.steps):
        done.steps[loser] = winner
        done.how[loser] = how

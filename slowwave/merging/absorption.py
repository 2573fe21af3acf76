"""Who absorbs whom: merges and verdicts carried out one after the other, each fact at most once (T35, T36)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from slowwave import frames
from slowwave.merging.combining import combined_notes
from slowwave.merging.guards import may_yield
from slowwave.merging.merges import Merges
from slowwave.merging.verdicts import KEEP_ALL, Judged, check_verdicts, drops_wording, new_wordings, survivor_of
from slowwave.text import timed_id
from slowwave.validity import successors

DEDUP, CONSOLIDATED = "dedup", "consolidated"
STEPS = {"id": pl.String(), "winner_id": pl.String(), "target_id": pl.String(), "how": pl.String()}
TARGETS = {"root_id": pl.String(), "target_id": pl.String(), "statement": pl.String()}
MEMBERS = {"target_id": pl.String(), "root_id": pl.String(), "id": pl.String()}
_DROPPED = "(The new wording was left out: by its names or the order of its words it is none of these facts.)"


@dataclass(slots=True)
class Absorption:
    """What merges and verdicts come to, and which questions got no usable answer.

    `steps` lead from each absorbed fact to the one that absorbed it, `how` says who decided it, `wordings` are the new
    statements of survivors, of a model unless `how` names the survivor too. `kept` and `failed` are questions;
    `waiting` are those that nobody answered, or whose answer was overtaken by another one.
    """

    facts: pl.DataFrame
    stored: Mapping[str, str]
    steps: dict[str, str] = field(default_factory=dict)
    how: dict[str, str] = field(default_factory=dict)
    wordings: dict[str, str] = field(default_factory=dict)
    taken: list[Judged] = field(default_factory=list)
    kept: list[Judged] = field(default_factory=list)
    failed: list[Judged] = field(default_factory=list)
    waiting: list[Judged] = field(default_factory=list)

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
        rows += [(root, root, target, self.how.get(root, CONSOLIDATED)) for root, target in new.items()]
        return pl.DataFrame(rows, schema=STEPS, orient="row").sort("id")

    def members(self) -> pl.DataFrame:
        """MEMBERS: everything that goes on in each target, the survivor with its old wording among it."""
        roots = self.roots()
        new = dict(self.reworded().select("root_id", "target_id").iter_rows())
        everyone = {**roots, **{root: root for root in (*roots.values(), *new)}}
        rows = [(new.get(root, root), root, id_) for id_, root in everyone.items()]
        return pl.DataFrame(rows, schema=MEMBERS, orient="row").sort("target_id", "id")


def absorb(facts: pl.DataFrame, merges: Merges, judged: Sequence[Judged]) -> Absorption:
    """Carry out merges, then verdicts in their order; a loser that is closed already is left alone (T36).

    `facts` are live. A verdict that is not usable counts as a failure; one whose survivor was itself absorbed waits.
    """
    stored = dict(facts.drop_nulls("replaced_by").select("id", "replaced_by").iter_rows())
    done = Absorption(frames.conform(facts, frames.FACTS), stored)
    for loser, winner in merges.losers.select("loser_id", "winner_id").iter_rows():
        _take(done, loser, winner, DEDUP)
    checked = _checked(judged, facts)
    told = [(each.cluster, each.verdict) for each in checked if each.verdict and each.verdict.outcome != KEEP_ALL]
    words = iter(new_wordings(told))
    for each in checked:
        if each.verdict is None:
            (done.failed if each.error else done.waiting).append(each)
        elif each.verdict.outcome == KEEP_ALL:
            done.kept.append(each)
        else:
            _carry_out(done, each, next(words))
    if merges.joins_notes:
        _join_notes(done)
    return done


def absorb_as_asked(facts: pl.DataFrame, losers: Mapping[str, str]) -> Absorption:
    """What a person is asked about pairs (loser to winner) that no rule may merge; a circle is left out (T35)."""
    stored = dict(facts.drop_nulls("replaced_by").select("id", "replaced_by").iter_rows())
    done = Absorption(frames.conform(facts, frames.FACTS), stored)
    for loser, winner in losers.items():
        _take(done, loser, winner, CONSOLIDATED)
    return done


def _checked(judged: Sequence[Judged], facts: pl.DataFrame) -> list[Judged]:
    """The same, where what is wrong with a verdict stands in its place."""
    told = [(each.cluster, each.verdict) for each in judged if each.verdict is not None]
    wrong = iter(check_verdicts(told, facts))
    errors = [next(wrong) if each.verdict is not None else "" for each in judged]
    return [
        replace(each, verdict=None, error=error) if error else each for each, error in zip(judged, errors, strict=True)
    ]


def _carry_out(done: Absorption, each: Judged, words: str) -> None:
    assert each.verdict is not None
    survivor, ids = survivor_of(each.cluster, each.verdict).id, each.cluster.ids()
    losers = [id_ for index in each.verdict.absorbed if _is_free(done, id_ := ids[index], survivor)]
    if survivor in done.steps or not losers:
        done.waiting.append(each)
        return
    for loser in losers:
        _take(done, loser, survivor, CONSOLIDATED)
    if drops_wording(each.cluster, each.verdict, words):
        reason = f"{each.verdict.reason} {_DROPPED}".strip()
        each = replace(each, verdict=replace(each.verdict, reworded=None, reason=reason))
    done.taken.append(each)
    if words:
        done.wordings[survivor] = words


def _join_notes(done: Absorption) -> None:
    """A note goes on in a new row that also says what the notes say that it absorbed by rule, in their order (S4-09).

    Not where a model gave it other words, where it was absorbed itself, or where it is pinned or an axiom.
    """
    notes = done.facts.filter(pl.col("kind") == "note")
    free = notes.filter(may_yield(""), ~pl.col("id").is_in([*done.steps, *done.wordings]))
    told = [(winner, loser) for loser, winner in done.steps.items() if done.how[loser] == DEDUP]
    pairs = (
        pl.DataFrame(told, schema={"id": pl.String, "loser_id": pl.String}, orient="row")
        .join(free.select("id", keep="statement"), on="id", maintain_order="left")
        .join(notes.select(loser_id="id", drop="statement"), on="loser_id", maintain_order="left")
    )
    joined = combined_notes(pairs)
    done.wordings |= joined
    done.how |= dict.fromkeys(joined, DEDUP)


def _is_free(done: Absorption, loser: str, winner: str) -> bool:
    """Whether a fact was not absorbed yet and did not itself take the winner's place (T35)."""
    steps = {**done.stored, **done.steps} if done.stored else done.steps
    return loser != winner and loser not in done.steps and loser not in successors(winner, steps)


def _take(done: Absorption, loser: str, winner: str, how: str) -> None:
    if winner not in done.steps and _is_free(done, loser, winner):
        done.steps[loser] = winner
        done.how[loser] = how

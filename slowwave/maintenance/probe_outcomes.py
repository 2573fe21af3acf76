"""What the probes say of a maintenance run: which facts they found before it and after it, and whether recall fell."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any

import polars as pl

from slowwave.errors import RecallFell
from slowwave.maintenance.probes import Probe, Said
from slowwave.ranking.ranking import stems
from slowwave.settings import GateSettings
from slowwave.validity import successors

FEWEST = 10  # probes below which one of them says nothing about all
LEAST_LOST = 2  # probes, net: one may turn on a hair
NAMED = 3
RETOLD = 0.5  # share of a statement's content words that another wording of it says
SAME = 0.9  # that share where the fact is the same
NOTHING: Mapping[str, Said] = MappingProxyType({})
_ROUNDING = 1e-9
_GOES_ON = ("active", "superseded")  # with an end that has come and no replacement, such a fact is over


@dataclass(frozen=True, slots=True)
class Standing:
    """What became of facts: who replaced whom, what each says, which are over, since when, and when it was said."""

    replaced_by: Mapping[str, str]
    statements: Mapping[str, str]
    over: frozenset[str] = frozenset()
    since: Mapping[str, datetime] = field(default_factory=lambda: MappingProxyType({}))
    said_at: Mapping[str, datetime] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def of(cls, rows: pl.DataFrame, now: datetime, others: Collection[str] = ()) -> Standing:
        """From rows (id, statement, status, valid_from, valid_to, replaced_by, said_at) of facts and their successors.

        Over is what was retracted, or has ended without a replacement, itself or as the last that replaced it: the
        world changed. So is what `others` wrote, or put into its place: a run is measured by its own doings. What was
        archived is not over.
        """
        steps = dict(rows.filter(pl.col("replaced_by").is_not_null()).select("id", "replaced_by").iter_rows())
        has_ended = pl.col("status").is_in(_GOES_ON) & (pl.col("valid_to") <= now).fill_null(False)
        is_last = pl.col("replaced_by").is_null()
        ended = {*rows.filter(is_last & has_ended)["id"], *rows.filter(pl.col("status") == "retracted")["id"]}
        chains = {id_: (id_, *successors(id_, steps)) for id_ in rows["id"]}
        over = frozenset(id_ for id_, chain in chains.items() if chain[-1] in ended or not {*chain}.isdisjoint(others))
        since, said_at = (dict(rows.select("id", at).drop_nulls().iter_rows()) for at in ("valid_from", "said_at"))
        return cls(steps, dict(rows.select("id", "statement").iter_rows()), over, since, said_at)

    def found(self, probe: Probe, recalled: Mapping[str, str], was: Mapping[str, Said] = NOTHING) -> frozenset[str]:
        """Which of the expected facts were recalled (id → statement): themselves, what replaced them, or their twins.

        A twin says the same sentence; recall tells a sentence once. What `was` said when the questions were drawn tells
        a stale answer: something older, or put into the same place, that says otherwise.
        """
        said = set(recalled.values())
        found = set()
        for id_ in probe.expected:
            before = was.get(id_)
            chain = (id_, *successors(id_, self.replaced_by))
            right = [one for one in chain if before is None or not self._is_stale(id_, one, before)]
            is_said_again = before is not None and before.statement in said
            if is_said_again or any(one in recalled or self.statements.get(one) in said for one in right):
                found.add(id_)
        return frozenset(found)

    def _is_stale(self, expected: str, one: str, was: Said) -> bool:
        """Whether a fact, or what took its place, says something else, and neither began nor was said later."""
        statement, since = self.statements.get(one, ""), self.since.get(one)
        if statement == was.statement:
            return False
        share = len(stems(statement) & stems(was.statement)) / max(len(stems(was.statement)), 1)
        if one == expected:
            return share < SAME
        is_later = since is not None and was.since is not None and since > was.since
        if one in self.said_at and expected in self.said_at:  # a correction may tell of a time before
            is_later |= self.said_at[one] > self.said_at[expected]
        return not is_later and not (was.answer <= stems(statement) and share >= RETOLD)


@dataclass(frozen=True, slots=True)
class Lost:
    """A question that found a fact before and does not any more."""

    query: str
    fact_id: str
    statement: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Recall over the same probes before and after, each the mean share in [0, 1] of the expected facts found.

    `undone` are the runs that were taken back because it fell, `obstacle` why that could not be done.
    """

    recall_before: float
    recall_after: float
    probes: int
    tolerance: float
    fell: bool
    lost: tuple[Lost, ...] = ()
    undone: tuple[str, ...] = ()
    obstacle: str = ""
    is_telling: bool = True

    def sentence(self) -> str:
        """For people."""
        if not self.is_telling:
            return f"Only {self.probes} questions could be asked before and after: too few to tell whether recall fell."
        verb = "fell" if self.fell else "held"
        return (
            f"Recall {verb}: {self.recall_before:.3f} before, {self.recall_after:.3f} after, over {self.probes} "
            f"questions (tolerance {self.tolerance:g})."
        )

    def reason(self) -> str:
        """For the ledger: the sentence, and what came of it; nothing that was stored is quoted."""
        return f"{self.sentence()} {self._consequence()}" if self.fell else self.sentence()

    def as_json(self) -> dict[str, Any]:
        """All of it as plain data."""
        told = {"fell": self.fell, "is_telling": self.is_telling, "undone": list(self.undone)}
        return {**self.measures(), **told, "obstacle": self.obstacle, "lost": [asdict(lost) for lost in self.lost]}

    def measures(self) -> dict[str, Any]:
        """The numbers."""
        return {
            "before": round(self.recall_before, 4),
            "after": round(self.recall_after, 4),
            "probes": self.probes,
            "tolerance": self.tolerance,
            "lost": len(self.lost),
        }

    def enforce(self) -> None:
        """Raise `RecallFell` if it fell."""
        if self.fell:
            raise RecallFell(
                f"{self.sentence()} {self._named()}{self._consequence()}",
                "Where the loss is meant, run it again with a higher `tolerance` of its gate (the night's is [sleep] "
                "tolerance), or with --no-gate.",
                self.as_json(),
            )

    def _named(self) -> str:
        some = ", ".join(f"{lost.query!r} no longer finds {lost.statement!r}" for lost in self.lost[:NAMED])
        more = f", and {len(self.lost) - NAMED} more" if len(self.lost) > NAMED else ""
        return f"Lost: {some}{more}. " if some else ""

    def _consequence(self) -> str:
        if self.undone:
            return f"Taken back: {', '.join(self.undone)}."
        return f"Nothing was taken back: {self.obstacle or 'there is no run to undo.'}"


def compare(
    probes: Sequence[Probe],
    before: Sequence[Collection[str]],
    after: Sequence[Collection[str]],
    standing: Standing,
    settings: GateSettings,
) -> Verdict:
    """The verdict over probes with the expected facts that each found `before` and `after`; `standing` is of after.

    Recall fell if the mean share found did by more than the tolerance, and by two whole probes at least. Expected facts
    that are over leave both sides; a probe of which none is left says nothing.
    """
    shares, lost = [], []
    for probe, first, second in zip(probes, before, after, strict=True):
        expected = [id_ for id_ in probe.expected if id_ not in standing.over]
        if not expected:
            continue
        shares.append(tuple(sum(id_ in found for id_ in expected) / len(expected) for found in (first, second)))
        gone = (id_ for id_ in expected if id_ in first and id_ not in second)
        lost += [Lost(probe.query, id_, standing.statements.get(id_, id_)) for id_ in gone]
    count = len(shares)
    was, now_is = (sum(share[side] for share in shares) for side in (0, 1))
    net = was - now_is
    is_telling = count >= FEWEST
    fell = is_telling and net >= LEAST_LOST - _ROUNDING and net / count > settings.tolerance + _ROUNDING
    size = max(count, 1)
    return Verdict(was / size, now_is / size, count, settings.tolerance, fell, tuple(lost), is_telling=is_telling)

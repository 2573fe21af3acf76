"""Verdicts: what a person said to each of several proposals, and what is contradictory about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from .asks import MODIFIABLE, Ask, faults_of
from .proposing import cleaned

Said = Literal["wait", "approve", "reject", "modify"]
Bulk = Literal["each for itself", "approve", "reject"]
EACH: Bulk = "each for itself"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a form asks about one proposal: as much of it as a verdict needs, and the lines that it is told by."""

    id: str
    action: str
    title: str
    is_risky: bool
    ask: Ask = field(default_factory=dict)
    told: tuple[str, ...] = ()

    @property
    def can_be_modified(self) -> bool:
        """Whether a person may change what is asked for."""
        return self.action in MODIFIABLE and bool(self.ask)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a person said to one proposal; `ask` is the changed ask where they modified it."""

    id: str
    said: Said
    ask: Ask | None = None


def verdicts_of(asked: Iterable[Asked], said: Mapping[str, Verdict], low_risk: Bulk) -> tuple[Verdict, ...]:
    """What is to be done with each; the one decision counts for what has no risk and was left waiting."""
    found = []
    for each in asked:
        own = said.get(each.id, Verdict(each.id, "wait"))
        in_bulk = own.said == "wait" and not each.is_risky
        found.append(Verdict(each.id, low_risk) if in_bulk and low_risk != "each for itself" else own)
    return tuple(each for each in found if each.said != "wait")


def complaints(asked: Sequence[Asked], said: Mapping[str, Verdict], name: str, low_risk: Bulk) -> tuple[str, ...]:
    """Why what was said cannot be meant, a sentence each; none where all is well."""
    told = [] if cleaned(name) else ["Nobody's name was given: it stands in the ledger beside the decision."]
    for each in asked:
        verdict = said.get(each.id, Verdict(each.id, "wait"))
        told += [f"{each.title}: {fault}." for fault in _faults(each, verdict, low_risk)]
    return tuple(told)


def _faults(each: Asked, verdict: Verdict, low_risk: Bulk) -> Iterator[str]:
    is_changed = verdict.ask is not None and dict(verdict.ask) != dict(each.ask)
    if verdict.said == "modify":
        if not each.can_be_modified:
            yield "it can only be approved or rejected"
        elif not is_changed or verdict.ask is None:
            yield "modify was chosen, but nothing of it was changed"
        else:
            yield from faults_of(verdict.ask, each.ask)
    elif is_changed and verdict.said != "reject":
        yield "it was changed, but modify was not chosen"


def as_plain(asked: Sequence[Asked]) -> list[dict[str, Any]]:
    """The questions as plain data, to be kept while nobody answers."""
    return [asdict(each) for each in asked]


def from_plain(rows: Sequence[Mapping[str, Any]]) -> tuple[Asked, ...]:
    """The questions that were kept."""
    return tuple(Asked(**{**row, "told": tuple(row["told"])}) for row in rows)

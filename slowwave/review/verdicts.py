"""Verdicts: what a person said to each of several proposals, and what is contradictory about it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from slowwave.deduplication.observations import named_by
from slowwave.errors import UnusableInput

from .proposing import cleaned

# Asks: what was asked for of a split or a deletion, and the same after a person changed it (S0-14).


Ask = Mapping[str, Any]
MODIFIABLE = ("split", "delete")


def observations_in(ask: Ask) -> list[str]:
    """The observations that an ask names, in order."""
    return [fact for group in _groups(ask) for fact in group["observations"]]


def named_observations(ask: Ask) -> list[tuple[str, str]]:
    """(entity that it would go to, observation) of an ask; the entity is empty for a deletion."""
    return [(group.get("name", ""), fact) for group in _groups(ask) for fact in group["observations"]]


def _groups(ask: Ask) -> list[Mapping[str, Any]]:
    return [ask] if "observations" in ask else list(ask.get("splits", ()))


def renamed(ask: Ask, names: Mapping[str, str]) -> dict[str, Any]:
    """The ask of a split in which entities have other names; `UnusableInput` for a name that no split has."""
    known = [each["name"] for each in ask.get("splits", ())]
    if unknown := [name for name in names if name not in known]:
        listed = ", ".join(map(repr, known)) or "none: it is no split"
        raise UnusableInput(f"No split is called {unknown[0]!r}.", f"Known: {listed}.")
    splits = [{**each, "name": names.get(each["name"], each["name"])} for each in ask.get("splits", ())]
    return {**ask, "splits": splits} if splits else dict(ask)


def without(ask: Ask, left: Sequence[str]) -> dict[str, Any]:
    """The ask without these observations, by ids or short forms: they stay where they are; so does an emptied split."""
    ids = observations_in(ask)
    gone = {whole_id(asked, ids) for asked in left}
    if "observations" in ask:
        return {**ask, "observations": [fact for fact in ask["observations"] if fact not in gone]}
    kept = [
        {**each, "observations": [fact for fact in each["observations"] if fact not in gone]} for each in ask["splits"]
    ]
    return {**ask, "splits": [each for each in kept if each["observations"]]}


def whole_id(asked: str, ids: Collection[str]) -> str:
    """The id that is what was asked for, or alone begins with it; `UnusableInput` for any other."""
    named = named_by(asked, ids)
    if len(named) != 1:
        told = f"may be {' or '.join(named[:5])}" if named else "is none of its observations"
        raise UnusableInput(f"{asked!r} {told}.", "`slowwave review show ID` lists them with their ids.")
    return named[0]


def faults_of(ask: Ask, before: Ask) -> Iterator[str]:
    """What is wrong with a changed ask, as far as that can be said without a look at memory."""
    names = [each.get("name", "").strip() for each in ask.get("splits", ())]
    if "splits" in ask and not names:
        yield "no split is left: reject it instead"
    if not all(names):
        yield "a split has no name"
    yield from (f"two splits are called {name!r}" for name in sorted({n for n in names if n and names.count(n) > 1}))
    yield from (
        f"{each['name']!r} would get no observation" for each in ask.get("splits", ()) if not each["observations"]
    )
    told = observations_in(ask)
    if "observations" in ask and not told:
        yield "no observation is left: reject it instead"
    yield from (f"{fact} is named twice" for fact in sorted({f for f in told if told.count(f) > 1}))
    known = observations_in(before)
    yield from (f"{fact} is none of its observations" for fact in told if fact not in known)


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

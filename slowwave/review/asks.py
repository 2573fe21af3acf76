"""Asks: what was asked for of a split or a deletion, and the same after a person changed it (S0-14)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from slowwave.errors import UnusableInput
from slowwave.merging.observations import named_by

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

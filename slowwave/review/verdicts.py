"""Verdicts: a person's decisions on several proposals, and contradictions in them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from slowwave.deduplication.observations import named_by
from slowwave.errors import UnusableInput

from .proposing import cleaned

# Asks: the request for a split or a deletion, and the same after a person changed it (S0-14).


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
    gone = {whole_id(given, ids) for given in left}
    if "observations" in ask:
        return {**ask, "observations": [fact for fact in ask["observations"] if fact not in gone]}
    kept = [
        {**each, "observations": [fact for fact in each["observations"] if fact not in gone]} for each in ask["splits"]
    ]
    return {**ask, "splits": [each for each in kept if each["observations"]]}


def whole_id(given: str, ids: Collection[str]) -> str:
    """The id that is what was asked for, or alone begins with it; `UnusableInput` for any other."""
    named = named_by(given, ids)
    if len(named) != 1:
        problem = f"may be {' or '.join(named[:5])}" if named else "is none of its observations"
        raise UnusableInput(f"{given!r} {problem}.", "`slowwave review show ID` lists them with their ids.")
    return named[0]


def faults_of(ask: Ask, before: Ask) -> Iterator[str]:
    """The faults of a changed ask that can be seen without reading the memory."""
    names = [each.get("name", "").strip() for each in ask.get("splits", ())]
    if "splits" in ask and not names:
        yield "no split is left: reject it instead"
    if not all(names):
        yield "a split has no name"
    yield from (f"two splits are called {name!r}" for name in sorted({n for n in names if n and names.count(n) > 1}))
    yield from (
        f"{each['name']!r} would get no observation" for each in ask.get("splits", ()) if not each["observations"]
    )
    observations = observations_in(ask)
    if "observations" in ask and not observations:
        yield "no observation is left: reject it instead"
    yield from (f"{fact} is named twice" for fact in sorted({f for f in observations if observations.count(f) > 1}))
    known = observations_in(before)
    yield from (f"{fact} is none of its observations" for fact in observations if fact not in known)


ReviewDecision = Literal["wait", "approve", "reject", "modify"]
Bulk = Literal["each for itself", "approve", "reject"]
EACH: Bulk = "each for itself"


@dataclass(frozen=True, slots=True)
class ProposalQuestion:
    """The question of a form about one proposal: as much of it as a verdict needs, and the lines that describe it."""

    id: str
    action: str
    title: str
    is_risky: bool
    ask: Ask = field(default_factory=dict)
    lines: tuple[str, ...] = ()

    @property
    def can_be_modified(self) -> bool:
        """Whether a person may change the ask."""
        return self.action in MODIFIABLE and bool(self.ask)


@dataclass(frozen=True, slots=True)
class ReviewVerdict:
    """A person's decision on one proposal; `ask` is the changed ask where they modified it."""

    id: str
    decision: ReviewDecision
    ask: Ask | None = None


def verdicts_of(
    questions: Iterable[ProposalQuestion], verdicts: Mapping[str, ReviewVerdict], low_risk: Bulk
) -> tuple[ReviewVerdict, ...]:
    """The decisions to carry out; `low_risk` counts for questions without risk that were left waiting."""
    found = []
    for each in questions:
        own = verdicts.get(each.id, ReviewVerdict(each.id, "wait"))
        in_bulk = own.decision == "wait" and not each.is_risky
        found.append(ReviewVerdict(each.id, low_risk) if in_bulk and low_risk != "each for itself" else own)
    return tuple(each for each in found if each.decision != "wait")


def complaints(
    questions: Sequence[ProposalQuestion], verdicts: Mapping[str, ReviewVerdict], name: str, low_risk: Bulk
) -> tuple[str, ...]:
    """Why these verdicts cannot be carried out, a sentence each; empty if they can."""
    texts = [] if cleaned(name) else ["Nobody's name was given: it stands in the ledger beside the decision."]
    for each in questions:
        verdict = verdicts.get(each.id, ReviewVerdict(each.id, "wait"))
        texts += [f"{each.title}: {fault}." for fault in _faults(each, verdict, low_risk)]
    return tuple(texts)


def _faults(each: ProposalQuestion, verdict: ReviewVerdict, low_risk: Bulk) -> Iterator[str]:
    is_changed = verdict.ask is not None and dict(verdict.ask) != dict(each.ask)
    if verdict.decision == "modify":
        if not each.can_be_modified:
            yield "it can only be approved or rejected"
        elif not is_changed or verdict.ask is None:
            yield "modify was chosen, but nothing of it was changed"
        else:
            yield from faults_of(verdict.ask, each.ask)
    elif is_changed and verdict.decision != "reject":
        yield "it was changed, but modify was not chosen"


def as_plain(questions: Sequence[ProposalQuestion]) -> list[dict[str, Any]]:
    """The questions as plain data, to be kept while nobody answers."""
    rows = [asdict(each) for each in questions]
    return [{"told": row.pop("lines"), **row} for row in rows]  # flows that wait have kept the old name


def from_plain(rows: Sequence[Mapping[str, Any]]) -> tuple[ProposalQuestion, ...]:
    """The questions that were kept."""
    fields = ({"lines" if name == "told" else name: cell for name, cell in row.items()} for row in rows)
    return tuple(ProposalQuestion(**{**each, "lines": tuple(each["lines"])}) for each in fields)

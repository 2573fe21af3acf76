"""What an entity is as a whole, as one text to embed: its observations and its relations (S0-06)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

CHARACTERS = int((480 - 25) * 3.57)
"""480 tokens without 25 for what stands around the observations, at 3.57 characters a token."""
RELATION_CHARACTERS = CHARACTERS // 2
FIRST, LAST = 3, 7
_BETWEEN = 3  # " | "
_LEAST = 20  # characters below which nothing more is tried
_PLAIN = "observation"


class Named(NamedTuple):
    """The entity: its name, its type, and active, paused, completed or archived."""

    name: str
    entity_type: str
    status: str


class Observed(NamedTuple):
    """One observation: observation (the plain kind) or another kind, and what it says."""

    kind: str
    text: str


def entity_text(entity: Named, observations: Sequence[Observed], relations: Sequence[tuple[str, str]]) -> str:
    """`name (type) [status]: o1 | o2 | … | Rel: relation → target; …`.

    `observations` are in order of time, `relations` (relation, target) the most telling first. Up to ten observations
    are all there; of more the first three, the last seven, and of those between them the ones with the most different
    words, as many as fit, in their place. Relations take at most half of the budget.
    """
    listed = _listed(relations)
    told = [_told(each) for each in observations]
    parts = [told[place] for place in _chosen(told, CHARACTERS - len(listed))]
    body = " | ".join([*parts, *([f"Rel: {listed}"] if listed else [])])
    head = f"{entity.name} ({entity.entity_type}) [{entity.status}]"
    return f"{head}: {body}" if body else head


def _told(observed: Observed) -> str:
    return observed.text if observed.kind == _PLAIN else f"[{observed.kind}] {observed.text}"


def _listed(relations: Sequence[tuple[str, str]]) -> str:
    """Relations in their order as long as they fit; the first one always does."""
    listed = ""
    for relation, target in dict.fromkeys(relations):
        longer = f"{listed}; {relation} → {target}" if listed else f"{relation} → {target}"
        if listed and len(longer) > RELATION_CHARACTERS:
            break
        listed = longer
    return listed


def _chosen(told: Sequence[str], room: int) -> list[int]:
    """Places of the observations that are taken, in their order."""
    if len(told) <= FIRST + LAST:
        return list(range(len(told)))
    between = range(FIRST, len(told) - LAST)
    chosen = [*range(FIRST), *range(len(told) - LAST, len(told))]
    room -= sum(len(told[place]) + _BETWEEN for place in chosen)
    for place in sorted(between, key=lambda place: (-lexical_diversity(told[place]), place)):
        if room < _LEAST:
            break
        cost = len(told[place]) + _BETWEEN
        if cost <= room:
            chosen.append(place)
            room -= cost
    return sorted(chosen)


def lexical_diversity(text: str) -> float:
    """Share of a text's words that are different, 0 to 1; none is 0."""
    words = text.lower().split()
    return len(set(words)) / len(words) if words else 0.0

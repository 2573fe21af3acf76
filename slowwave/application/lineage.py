"""Chains of replacements: who came before whom, without going round in a circle (S2-55, T35)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from slowwave.validity import MAX_CHAIN


@dataclass(frozen=True, slots=True)
class Order:
    """Facts of one chain, oldest first; whether steps lead back, and whether facts are left out."""

    ids: list[str]
    has_circle: bool
    is_cut: bool


def oldest_first(start: str, steps: Iterable[tuple[str, str]]) -> Order:
    """The facts that steps (old, new) connect with `start`, each once and after all that it replaced.

    At most 64: those fewest steps away from `start` (ties by id). Where steps form a circle, the order begins anew at
    the smallest id that is left.
    """
    forward: dict[str, set[str]] = {start: set()}
    back: dict[str, set[str]] = {start: set()}
    for old, new in steps:
        for name in (old, new):
            forward.setdefault(name, set())
            back.setdefault(name, set())
        forward[old].add(new)
        back[new].add(old)
    near = _nearest(start, forward, back)
    kept = set(near[:MAX_CHAIN])
    ordered: list[str] = []
    has_circle = False
    while left := kept.difference(ordered):
        ready = sorted(name for name in left if not (back[name] & left))
        has_circle |= not ready
        ordered += ready or [min(left)]
    return Order(ordered, has_circle, len(near) > MAX_CHAIN)


def _nearest(start: str, forward: dict[str, set[str]], back: dict[str, set[str]]) -> list[str]:
    """All that is connected with it, in order of distance, then of id."""
    near, ring = [start], [start]
    while ring:
        ring = sorted({other for name in ring for other in forward[name] | back[name]}.difference(near))
        near += ring
    return near

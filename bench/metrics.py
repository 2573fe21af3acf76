"""How well something was found: evidence recall and pair finding."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from slowwave.common.types import RecalledFact


def named_messages(facts: Iterable[RecalledFact]) -> list[str]:
    """The distinct messages that ranked provenance names, in the order in which it names them first."""
    return list(dict.fromkeys(source.message_id for fact in facts for source in fact.provenance))


def evidence_recall(ranked: Sequence[str], evidence: Collection[str], k: int) -> float:
    """Share of the evidence among the first `k` distinct messages of the ranking."""
    first = set(list(dict.fromkeys(ranked))[:k])
    return len(first & set(evidence)) / len(set(evidence))


def is_pair_found(ranked: Sequence[str], earlier: Collection[str], k: int) -> bool:
    """Whether one of the messages that make the earlier statement is among the first `k` distinct ones."""
    return not set(earlier).isdisjoint(list(dict.fromkeys(ranked))[:k])


def mean(values: Iterable[float]) -> float:
    """Arithmetic mean; 0.0 of nothing."""
    held = list(values)
    return sum(held) / len(held) if held else 0.0

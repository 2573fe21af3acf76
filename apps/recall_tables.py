"""Tables of what was recalled: the facts, how they came to their places, and what may be."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from .printing import short_id, table, told, validity

if TYPE_CHECKING:
    from rich.console import RenderableType

    from slowwave.answers import RecalledFact, Recollection, UncertainFact

SHOWN_PASSAGES = 3
PARTS = (
    "words", "meaning", "overlap", "place", "search", "graph", "hops", "fused", "importance", "recency", "company",
    "status", "limbic", "episode", "diversity",
)  # fmt: skip
FACTORS = (*PARTS[PARTS.index("importance") :], "place")
FORMULA = (
    "search = (words + weight × meaning + half of overlap) / place in its message; score = fused, else search, × "
    "limbic (importance × recency × company × status) × episode × diversity."
)


def recall_table(found: Recollection) -> RenderableType:
    """Ranked facts as a table."""
    now = datetime.now(UTC)
    rows = [
        (
            n,
            told(fact, now),
            validity(fact.valid_from, fact.valid_to),
            f"{fact.score:.2f}",
            source_names(fact),
            short_id(fact.id),
        )
        for n, fact in enumerate(found.facts, 1)
    ]
    return table(found.query, ("#", "fact", "valid", "score", "said in", "id"), rows, f"{found.took_ms:.0f} ms")


def passages_table(found: Recollection) -> RenderableType:
    """The best passages of messages as a table: who said what, and when."""
    best = found.passages[:SHOWN_PASSAGES]
    rows = [
        (
            f"{one.occurred_at:%Y-%m-%d}" if one.occurred_at else "",
            one.speaker or one.role,
            one.text,
            f"{one.score:.2f}",
            one.conversation_id.rpartition("/")[2] if "/" in one.conversation_id else one.message_id,
        )
        for one in best
    ]
    more = len(found.passages) - len(best)
    caption = f"…and {more} more: --json" if more else ""
    return table("In messages", ("said", "by", "passage", "score", "message"), rows, caption)


def source_names(fact: RecalledFact) -> str:
    """The first two messages that say it; documents by their file name."""
    earliest = sorted(fact.provenance, key=lambda source: (str(source.occurred_at or "?"), source.conversation_id))[:2]
    shown = [s.conversation_id.rpartition("/")[2] if "/" in s.conversation_id else s.message_id for s in earliest]
    more = len(fact.provenance) - len(shown)
    return ", ".join(shown) + (f" +{more}" if more > 0 else "")


def parts_table(found: Recollection) -> RenderableType:
    """How each fact came to its place: the parts of its score, in the order in which they were made.

    Factors that are 1 for all are left out.
    """
    held = [name for name in PARTS if any(name in fact.parts for fact in found.facts)]
    idle = [name for name in held if name in FACTORS and all(_part(f, name) in ("1.00", "1", "") for f in found.facts)]
    shown = [name for name in held if name not in idle]
    rows = [
        (n, *(_part(fact, name) for name in shown), fact.score, short_id(fact.id))
        for n, fact in enumerate(found.facts, 1)
    ]
    note = f"{FORMULA} Without effect here: {', '.join(idle)}." if idle else FORMULA
    return table("How they came to their places", ("#", *shown, "score", "id"), rows, note)


def _part(fact: RecalledFact, name: str) -> str:
    """One part as it is read: counts as counts, sums of ranks with the digits that tell them apart."""
    if name not in fact.parts:
        return ""
    digits = {"place": 0, "hops": 0, "fused": 4}.get(name, 2)
    return f"{fact.parts[name]:.{digits}f}"


def uncertain_table(beliefs: Sequence[UncertainFact]) -> RenderableType:
    """What may be, and was not said surely enough yet."""
    rows = [
        (belief.statement, f"{belief.probability:.2f}", ", ".join(source.message_id for source in belief.evidence))
        for belief in beliefs
    ]
    return table("Not sure yet", ("perhaps", "probability", "said in"), rows)

"""What was recalled, as lines and tables: facts and passages, how they came to their places, and what may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from slowwave.timestamps import day_of

from .printing import out, printable, short_id, table, told, validity

if TYPE_CHECKING:
    from rich.console import RenderableType

    from slowwave.answers import Passage, RecalledFact, Recollection, UncertainFact

Speakers = Mapping[tuple[str, str], str]
"""Who said it, by conversation and message."""

SHOWN_PASSAGES = 3
ONE_LINE = 100
"""Columns from which on each fact is one line, cut where it is longer; a narrower terminal wraps it."""
LONGEST_NAME = 16
PARTS = (
    "words", "meaning", "overlap", "place", "search", "graph", "hops", "fused", "about", "period", "importance",
    "recency", "company", "status", "limbic", "suspect", "episode", "diversity",
)  # fmt: skip
SUMMANDS = ("period",)
FACTORS = ("about", *PARTS[PARTS.index("importance") :], "place")
FORMULA = (
    "search = (words + weight × meaning + overlap) / fourth root of its place in the message; fused = search + weight "
    "× graph; score = ((fused, else search) × about + period) × limbic (importance × recency × company × status) "
    "× suspect × episode × diversity."
)


def fact_lines(title: str, facts: Sequence[RecalledFact], speakers: Speakers, caption: str = "") -> RenderableType:
    """A line for each fact: since when or when, unless on the day of the message; what; who said it, on which day."""
    now = datetime.now(UTC)
    rows = [(str(n), _marked(fact, now), _source(fact, speakers)) for n, fact in enumerate(facts, 1)]
    return _lines(title, rows, caption)


def passage_lines(title: str, passages: Sequence[Passage], caption: str = "") -> RenderableType:
    """A line for each passage of a message: the words, who said them and on which day."""
    rows = [("", f'"{" ".join(one.text.split())}"', _said(speaker_of(one), one.occurred_at)) for one in passages]
    return _lines(title, rows, caption)


def speaker_of(passage: Passage) -> str:
    """Who said it; a document speaks under its file name."""
    if passage.role == "document":
        return passage.conversation_id.rpartition("/")[2]
    return passage.speaker or passage.role


def _lines(title: str, rows: Sequence[tuple[str, ...]], caption: str) -> RenderableType:
    is_cut = out.width >= ONE_LINE
    made = Table.grid(padding=(0, 1), expand=True)
    made.add_column(justify="right", style="dim", no_wrap=True)
    made.add_column(ratio=1, no_wrap=is_cut, overflow="ellipsis" if is_cut else "fold")
    made.add_column(style="dim", no_wrap=True)
    for row in rows:
        made.add_row(*(Text(printable(cell)) for cell in row))
    parts = [Text(printable(title), style="bold")] if title else []
    return Group(*parts, made, *([Text(caption, style="dim")] if caption else []))


def _marked(fact: RecalledFact, now: datetime) -> str:
    """The statement after what one must know of it, which is not cut."""
    marks = [
        *(["no longer"] if fact.valid_to is not None and fact.valid_to <= now else []),
        *filter(None, [_when(fact)]),
        *(["doubtful"] if fact.suspect_of else []),
        *(["disputed"] if fact.conflicts_with else []),
    ]
    return f"({', '.join(marks)}) {fact.statement}" if marks else fact.statement


def _when(fact: RecalledFact) -> str:
    """Since when, from when to when, or when it happens; empty where that is the day on which it was said."""
    start = fact.event_at or fact.valid_from
    first = min((source.occurred_at for source in fact.provenance if source.occurred_at), default=None)
    if fact.valid_to is not None:
        return validity(fact.valid_from, fact.valid_to)
    if start is None or (first is not None and start.date() == first.date()):
        return ""
    return day_of(start, fact.event_precision) if fact.event_at else f"since {day_of(start, fact.event_precision)}"


def _source(fact: RecalledFact, speakers: Speakers) -> str:
    """Who said it first, on which day, and how many messages more say it."""
    if not fact.provenance:
        return ""
    first = min(fact.provenance, key=lambda source: (str(source.occurred_at or "?"), source.conversation_id))
    more = len(fact.provenance) - 1
    who = speakers.get((first.conversation_id, first.message_id), "")
    return _said(who, first.occurred_at) + (f" +{more}" if more else "")


def _said(who: str, at: datetime | None) -> str:
    name = who if len(who) <= LONGEST_NAME else f"{who[: LONGEST_NAME - 1]}…"
    return " ".join(filter(None, [name, f"{at:%Y-%m-%d}" if at else ""]))


def recall_table(found: Recollection) -> RenderableType:
    """Ranked facts as a table, with scores and ids."""
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
    """Passages of messages as a table: who said what, and when."""
    rows = [
        (
            f"{one.occurred_at:%Y-%m-%d}" if one.occurred_at else "",
            speaker_of(one),
            one.text,
            f"{one.score:.2f}",
            one.conversation_id.rpartition("/")[2] if "/" in one.conversation_id else one.message_id,
        )
        for one in found.passages
    ]
    return table("In messages", ("said", "by", "passage", "score", "message"), rows)


def source_names(fact: RecalledFact) -> str:
    """The first two messages that say it; documents by their file name."""
    earliest = sorted(fact.provenance, key=lambda source: (str(source.occurred_at or "?"), source.conversation_id))[:2]
    shown = [s.conversation_id.rpartition("/")[2] if "/" in s.conversation_id else s.message_id for s in earliest]
    more = len(fact.provenance) - len(shown)
    return ", ".join(shown) + (f" +{more}" if more > 0 else "")


def parts_table(found: Recollection) -> RenderableType:
    """How each fact came to its place: the parts of its score, in the order in which they were made.

    Factors that are 1 for all are left out, and summands that are 0.
    """
    held = [name for name in PARTS if any(name in fact.parts for fact in found.facts)]
    nothing = {**dict.fromkeys(FACTORS, ("1.00", "1", "")), **dict.fromkeys(SUMMANDS, ("0.00", ""))}
    idle = [name for name in held if all(_part(fact, name) in nothing.get(name, ()) for fact in found.facts)]
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

"""Recalled facts and passages as lines and tables, with the parts of their scores, and uncertain facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Group
from rich.table import Table
from rich.text import Text

from slowwave.common.lexicon.labels import Locale, shown_relation, shown_type
from slowwave.common.text import short_id
from slowwave.common.timestamps import day_of
from slowwave.common.types.stories import sections_of

from .printing import marked_statement, out, printable, table, validity

if TYPE_CHECKING:
    from rich.console import RenderableType

    from slowwave.common.types import Passage, RecalledFact, Recollection, Story, UncertainFact, Version
    from slowwave.common.types.stories import StorySection

Speakers = Mapping[tuple[str, str], str]
"""Who said it, by conversation and message."""

SHOWN_PASSAGES = 3
ONE_LINE = 100
"""Columns from which on each fact is one line, cut where it is longer; a narrower terminal wraps it."""
LONGEST_NAME = 16
BESIDE = 3
"""What stands beside the text of a story takes at most this part of the terminal on either side."""
PARTS = (
    "words", "meaning", "overlap", "place", "search", "graph", "hops", "fused", "about", "period", "importance",
    "recency", "company", "status", "limbic", "suspect", "episode", "diversity",
)  # fmt: skip
FORMULA = (
    "search = (words + weight × meaning + overlap) / fourth root of its place in the message; fused = search + weight "
    "× graph; score = ((fused, else search) × about + period) × limbic (importance × recency × company × status) "
    "× suspect × episode × diversity."
)


def fact_lines(
    title: str,
    facts: Sequence[RecalledFact],
    speakers: Speakers,
    caption: str = "",
    at: datetime | None = None,
    *,
    full: bool = False,
) -> RenderableType:
    """A line for each fact: since when or when, unless on the day of the message; what; who said it, on which day.

    What is over at the time `at`, by default now, is marked. The `full` text is not cut, and has its score and id.
    """
    at = at or datetime.now(UTC)
    rows = []
    for n, fact in enumerate(facts, 1):
        more = f"  {fact.score:.2f}  {short_id(fact.id)}" if full else ""
        rows.append((str(n), _marked(fact, at), _source(fact, speakers) + more))
    return three_columns(title, rows, caption, is_cut=False if full else None)


def passage_lines(title: str, passages: Sequence[Passage], caption: str = "", *, full: bool = False) -> RenderableType:
    """A line for each passage of a message: the words, who said them and on which day."""
    rows = [("", f'"{" ".join(one.text.split())}"', _source_line(speaker_of(one), one.occurred_at)) for one in passages]
    return three_columns(title, rows, caption, is_cut=False if full else None)


def speaker_of(passage: Passage) -> str:
    """Who said it; a document speaks under its file name."""
    if passage.role == "document":
        return passage.conversation_id.rpartition("/")[2]
    return passage.speaker or passage.role


def three_columns(
    title: str, rows: Sequence[tuple[str, ...]], caption: str = "", is_cut: bool | None = False
) -> RenderableType:
    """Rows of three cells with a wide middle one: wrapped, or cut; None cuts them on a wide terminal alone."""
    is_cut = out.width >= ONE_LINE if is_cut is None else is_cut
    made = Table.grid(padding=(0, 1), expand=True)
    made.add_column(justify="right", style="dim", no_wrap=True)
    made.add_column(ratio=1, no_wrap=is_cut, overflow="ellipsis" if is_cut else "fold")
    made.add_column(style="dim", no_wrap=True)
    for row in rows:
        made.add_row(*(Text(printable(cell)) for cell in row))
    parts = [Text(printable(title), style="bold")] if title else []
    return Group(*parts, made, *([Text(caption, style="dim")] if caption else []))


def _marked(fact: RecalledFact, at: datetime) -> str:
    """The statement after its warnings, which are not cut."""
    marks = [
        *(["no longer"] if fact.valid_to is not None and fact.valid_to <= at else []),
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
    return _source_line(who, first.occurred_at) + (f" +{more}" if more else "")


def _source_line(who: str, at: datetime | None) -> str:
    name = who if len(who) <= LONGEST_NAME else f"{who[: LONGEST_NAME - 1]}…"
    return " ".join(filter(None, [name, f"{at:%Y-%m-%d}" if at else ""]))


def parts_lines(found: Recollection) -> RenderableType:
    """How each fact came to its place: the parts of its score, in the order in which they were made."""
    rows = []
    for n, fact in enumerate(found.facts, 1):
        parts = ", ".join(f"{name} {_part(fact, name)}" for name in PARTS if name in fact.parts)
        rows.append((str(n), f"score {fact.score:.2f}: {parts}", short_id(fact.id)))
    return three_columns("How they came to their places", rows, FORMULA)


def _part(fact: RecalledFact, name: str) -> str:
    """One part as it is read: counts as counts, sums of ranks with the digits that tell them apart."""
    digits = {"place": 0, "hops": 0, "fused": 4}.get(name, 2)
    return f"{fact.parts[name]:.{digits}f}"


def uncertain_table(beliefs: Sequence[UncertainFact]) -> RenderableType:
    """Uncertain facts, which need more evidence."""
    rows = [
        (belief.statement, f"{belief.probability:.2f}", ", ".join(source.message_id for source in belief.evidence))
        for belief in beliefs
    ]
    return table("Not sure yet", ("perhaps", "probability", "said in"), rows)


# How histories and stories of facts look in a terminal.


def history_lines(title: str, versions: Sequence[Version], locale: Locale = "en") -> RenderableType:
    """Versions of facts: when each held, its words and id; below them whether it is over, why, and by which fact.

    Those of one sentence and the same days are told apart by their relations.
    """
    now = datetime.now(UTC)
    rows = []
    alike = Counter((each.fact.statement, each.fact.valid_from, each.fact.valid_to) for each in versions)
    for version in versions:
        fact, end = version.fact, version.ended_by
        rows.append(
            (
                validity(fact.valid_from, fact.valid_to, fact.status == "active"),
                marked_statement(fact, now),
                short_id(fact.id),
            )
        )
        if alike[fact.statement, fact.valid_from, fact.valid_to] > 1:
            rows.append(("", f"relation: {shown_relation(fact.predicate, locale)}", ""))
        if words := version.end:
            rows.append(("", words, ""))
        if end:
            rows.append(("", f"→ {end.statement}", short_id(end.id)))
    return three_columns(title, rows)


def print_story(story: Story, locale: Locale = "en") -> None:
    """The story in plain sentences: what is known, who said it, what became of it."""
    out.print(printable(story.title), style="bold", markup=False)
    for section in sections_of(story, locale):
        out.print(_story_lines(section))
    out.print(f"\n{story.id}; all that is stored of it: --full", style="dim", markup=False)


def _story_lines(section: StorySection) -> RenderableType:
    """A section as a grid of those of its three columns in which anything stands."""
    cells = [(line.before, line.text, line.after) for line in section.lines]
    used = [place for place in range(3) if place == 1 or any(row[place] for row in cells)]
    made = Table.grid(padding=(0, 1), expand=True)
    for place in used:
        if place == 1:
            made.add_column(ratio=1, overflow="fold")
        else:
            widest = max(cell_len(printable(row[place])) for row in cells)
            width = min(widest, out.width // BESIDE)  # rich would take it from the text, and then from all
            made.add_column(style="dim", no_wrap=True, width=width, justify="right" if place else "left")
    for row in cells:
        made.add_row(*(Text(printable(row[place])) for place in used))
    return Group(*([Text(f"\n{section.title}", style="bold cyan")] if section.title else []), made)


def print_whole_story(story: Story, locale: Locale = "en") -> None:
    """All that is stored of it, as tables under the names of `--json`, each only if there is something to tell."""
    words = {"entity_type": shown_type, "predicate": shown_relation}
    out.print(story.title, style="bold", markup=False)
    for name, value in story.as_json().items():
        title = name.replace("_", " ")
        if isinstance(value, dict) and value:
            cells = [(key, words[key](cell, locale) if key in words else cell) for key, cell in value.items()]
            out.print(table(title, ("", ""), cells))
        elif isinstance(value, list | tuple) and value:
            is_named = isinstance(value[0], dict)
            columns = [*value[0]] if is_named else [""] * len(value[0])
            out.print(table(title, columns, [[*row.values()] if is_named else row for row in value]))

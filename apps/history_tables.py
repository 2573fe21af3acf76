"""How histories and stories of facts look in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from slowwave.answers.plain_stories import sections_of
from slowwave.labels import Locale, shown_relation, shown_type

from .printing import out, printable, short_id, table, told, validity

if TYPE_CHECKING:
    from rich.console import RenderableType

    from slowwave.answers import Story, Version
    from slowwave.answers.plain_stories import Section


def history_table(title: str, versions: Sequence[Version]) -> RenderableType:
    """Versions of facts as a table."""
    now = datetime.now(UTC)
    rows = [
        (
            validity(fact.valid_from, fact.valid_to, fact.status == "active"),
            told(fact, now),
            fact.status,
            version.why,
            f"{version.ended_by.statement} ({short_id(version.ended_by.id)})" if version.ended_by else "",
            fact.confidence,
            short_id(fact.id),
        )
        for version in versions
        for fact in [version.fact]
    ]
    return table(title, ("held", "fact", "status", "why it ended", "ended by", "confidence", "id"), rows)


def print_story(story: Story, locale: Locale = "en") -> None:
    """The story in plain sentences: what is known, who said it, what became of it."""
    out.print(printable(story.title), style="bold", markup=False)
    for section in sections_of(story, locale):
        out.print(_lines(section))
    out.print(f"\n{story.id}; all that is stored of it: --full", style="dim", markup=False)


def _lines(section: Section) -> RenderableType:
    """A section as a grid of those of its three columns in which anything stands."""
    cells = [(line.before, line.text, line.after) for line in section.lines]
    used = [place for place in range(3) if place == 1 or any(row[place] for row in cells)]
    made = Table.grid(padding=(0, 1), expand=True)
    for place in used:
        if place == 1:
            made.add_column(ratio=1, overflow="fold")
        else:
            made.add_column(style="dim", no_wrap=True, justify="right" if place else "left")
    for row in cells:
        made.add_row(*(Text(printable(row[place])) for place in used))
    return Group(*([Text(f"\n{section.title}", style="bold cyan")] if section.title else []), made)


def print_whole_story(story: Story, locale: Locale = "en") -> None:
    """The story as tables with all that is stored, each only if there is something to tell."""
    words = story.statements
    said = ("when", "conversation", "message", "words")
    steps = [(words.get(old, old), words.get(new, new), reason) for old, new, reason in story.lineage]
    pairs = [
        (pair.at, words.get(pair.other_id, pair.other_id), pair.kind, pair.outcome, pair.guard, pair.decided_by)
        for pair in story.pairs
    ]
    leans_on = story.columns.get("suspect_of")
    tables = (
        ("What it says", ("id", "fact", "status", "why"), [(short_id(i), *rest) for i, *rest in story.heard]),
        ("Who said it", said, [(e.occurred_at, e.conversation_id, e.message_id, e.quote) for e in story.evidence]),
        (
            "Who said it in other words",
            said,
            [(e.occurred_at, e.conversation_id, e.message_id, e.quote) for e in story.absorbed],
        ),
        ("What it replaced, and what replaced it", ("from", "to", "reason"), steps),
        ("What it was compared with", ("when", "fact", "kind", "outcome", "guard", "by"), pairs),
        ("Where it was read", ("id", "title"), story.artifacts),
        ("What was decided", ("when", "action", "by", "reason", "run"), [each[:5] for each in story.decisions]),
    )
    out.print(story.title, style="bold", markup=False)
    if leans_on:
        out.print(f"Suspect: it leans on “{words.get(leans_on, leans_on)}”, which no longer holds.", markup=False)
    out.print(table("What it is", ("", ""), _columns(story, locale)))
    for title, columns, rows in tables:
        if rows:
            out.print(table(title, columns, rows))


def _columns(story: Story, locale: Locale) -> list[tuple[str, Any]]:
    words = {"entity_type": shown_type, "predicate": shown_relation}
    return [(name, words[name](cell, locale) if name in words else cell) for name, cell in story.columns.items()]

"""Commands that show what is known: of an entity, of its relations, of a fact, and where it comes from."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from slowwave.common.arguments import checked_time
from slowwave.common.lexicon.labels import Locale, is_denial, shown_relation, shown_type
from slowwave.common.text import short_id
from slowwave.common.types.stories import sections_of
from slowwave.integrations.python_api import OpenMemory

from .configuration import Place
from .options import AsOf, EntityName, KnownAsOf, Limit, Shown
from .printing import Aside, marked_statement, printable, table, three_columns, validity

if TYPE_CHECKING:
    from rich.console import RenderableType

    from slowwave.common.types import Entity, RecalledFact, Story, Version

SHOWN = 50
TypesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--type",
        metavar="TYPE",
        help="Follow only this type: causal, temporal, semantic, hierarchical, co_occurrence; may be repeated.",
    ),
]
_TEXT_CHARS = 60


def facts(
    name: EntityName,
    as_of: AsOf = None,
    known_as_of: KnownAsOf = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also facts that were replaced, denied or rejected.")
    ] = False,
    *,
    place: Place,
) -> Shown:
    """Show the facts about an entity."""
    with OpenMemory(place) as memory:
        entity, known = memory.facts_of(name, as_of=as_of, known_as_of=known_as_of, everything=everything)
    yield {"entity": entity, "facts": known}
    at = checked_time(as_of) or datetime.now(UTC)
    alike: dict[tuple[str, ...], list[RecalledFact]] = {}  # facts of one sentence are one row with all its relations
    for fact in known:
        period = validity(fact.valid_from, fact.valid_to, fact.status == "active")
        alike.setdefault((marked_statement(fact, at), period, fact.status), []).append(fact)
    rows = [
        (
            words,
            "\n".join(_relation(fact, place.locale) for fact in facts),
            period,
            *([state] if everything else []),
            "\n".join(short_id(fact.id) for fact in facts),
        )
        for (words, period, state), facts in alike.items()
    ]
    status = ("status",) if everything else ()  # of facts of one time there is only one
    yield table(_title(entity, place.locale), ("fact", "relation", "valid", *status, "id"), rows)


def _relation(fact: RecalledFact, locale: Locale) -> str:
    """The relation, with "not" where the fact denies it and the relation does not say so itself."""
    relation = shown_relation(fact.predicate, locale)
    return f"not {relation}" if fact.polarity == "negated" and not is_denial(fact.predicate) else relation


def _title(entity: Entity, locale: Locale) -> str:
    also = f", also {', '.join(entity.aliases)}" if entity.aliases else ""
    return f"{entity.name} ({shown_type(entity.entity_type, locale)}){also}"


def history(
    subject: EntityName,
    predicate: Annotated[
        str | None, typer.Argument(help="Only facts with this text in the statement or relation.")
    ] = None,
    relation: Annotated[str | None, typer.Option("--relation", help="Only facts with exactly this relation.")] = None,
    known_as_of: KnownAsOf = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="How many to show; default [recall] history_limit.")
    ] = None,
    *,
    place: Place,
) -> Shown:
    """Show all versions of the facts about an entity, with the reason why each ended."""
    with OpenMemory(place) as memory:
        entity, versions = memory.history(subject, predicate, relation=relation, known_as_of=known_as_of, limit=limit)
    yield {"entity": entity, "facts": versions}
    if versions:
        yield history_lines(_title(entity, place.locale), versions, place.locale)
        return
    narrowed = f" that says {predicate!r}" if predicate else f" of the relation {relation!r}" if relation else ""
    until = f" as of {known_as_of}" if known_as_of else ""
    named = shlex.quote(entity.name)
    way_on = f"`slowwave facts {named}` also shows facts that only name it."
    if narrowed or until:
        way_on = f"`slowwave history {named}` shows all versions of its facts."
    yield f"Nothing is known about {entity.name}{narrowed}{until}. {way_on}"


def entities(
    limit: Limit = 50,
    type: Annotated[str | None, typer.Option("--type", help="Only of this type.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also archived entities.")] = False,
    *,
    place: Place,
) -> Shown:
    """List the entities, those with the most facts first."""
    with OpenMemory(place) as memory:
        total, shown = memory.entities(limit, type, everything=everything)
    yield {"total": total, "entities": shown}
    if not shown:
        yield f"No entity{f' of the type {type}' if type else ''} is known yet."
        return
    rows = [
        (
            f"{e.name} (archived)" if e.is_archived else e.name,
            shown_type(e.entity_type, place.locale),
            e.facts,
            ", ".join(e.aliases),
            e.last_seen_at and e.last_seen_at.date(),
        )
        for e in shown
    ]
    more = f"…and {total - len(shown)} more" if total > len(shown) else ""
    yield table("", ("name", "type", "facts", "also known as", "last seen"), rows, more)


def why(
    id: Annotated[
        str,
        typer.Argument(help="The id, or its beginning, of a fact, message, entity, community, conversation or run."),
    ],
    *,
    place: Place,
) -> Shown:
    """Show the story of a fact: its sources, the decisions about it, and the facts that it replaced."""
    with OpenMemory(place) as memory:
        story = memory.why(id)
    yield story
    yield from story_lines(story, place.locale)


def neighbours(
    name: EntityName,
    hops: Annotated[int, typer.Option("--hops", min=1, max=20, help="The largest distance in relations.")] = 2,
    type: TypesOption = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many facts to show, the nearest first.")] = SHOWN,
    as_of: AsOf = None,
    known_as_of: KnownAsOf = None,
    *,
    place: Place,
) -> Shown:
    """Show the entities that an entity is related to, directly and through others."""
    with OpenMemory(place) as memory:
        around = memory.neighbours(
            name, hops, edge_types=type or (), limit=limit + 1, as_of=as_of, known_as_of=known_as_of
        )
    is_more, around = len(around.facts) > limit, replace(around, facts=around.facts[:limit])
    yield around
    if not around.facts:
        yield f"Nothing relates {around.entities[0].name} to anything."
        return
    rows = [(one.depth, one.name, shown_type(one.entity_type, place.locale)) for one in around.entities]
    yield table(f"Around {around.entities[0].name}", ("relations away", "name", "type"), rows)
    now = datetime.now(UTC)
    facts = [
        (marked_statement(f, now), validity(f.valid_from, f.valid_to, f.status == "active"), short_id(f.id))
        for f in around.facts
    ]
    yield table("By these facts", ("fact", "valid", "id"), facts)
    if is_more:
        yield Aside(f"The {limit} nearest facts; --limit shows more.")


def find(
    words: Annotated[str, typer.Argument(help="Words, or beginnings of words, of a name or description.")],
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many to show.")] = 10,
    *,
    place: Place,
) -> Shown:
    """Find entities by their names and descriptions, or else by meaning."""
    with OpenMemory(place) as memory:
        found = memory.find_entities(words, limit)
    yield {"entities": found}
    if not found:
        yield "No entity is called like that. `slowwave entities` lists them."
        return
    if found[0].found_by == "meaning":
        yield "No name begins like that. Nearest in meaning, which may be nothing like it:"
    rows = [
        (one.name, shown_type(one.entity_type, place.locale), one.summary, one.score, short_id(one.id)) for one in found
    ]
    yield table(words, ("name", "type", "summary", "score", "id"), rows)


def documents(
    name: Annotated[
        str, typer.Argument(help="Show all versions of this document, by its title or id.", show_default=False)
    ] = "",
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many documents to show, the newest first.")] = 50,
    *,
    place: Place,
) -> Shown:
    """List documents; or all versions of one document."""
    with OpenMemory(place) as memory:
        total, found = (0, memory.versions(name)) if name else memory.artifacts(limit)
    yield {"total": total or len(found), "documents": found}
    if not found:
        yield "No documents are stored."
        return
    caption = f"{len(found)} of {total}; the versions of one: slowwave documents TITLE" if total else ""
    rows = [
        (short_id(one.id), one.title, one.type, one.version_no or 1, one.made_at and one.made_at.date(),
         one.summary[:_TEXT_CHARS])
        for one in found
    ]  # fmt: skip
    yield table("Documents", ("id", "title", "type", "version", "date", "summary"), rows, caption)


# How histories and stories look in a terminal.


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


def story_lines(story: Story, locale: Locale = "en") -> Iterator[RenderableType]:
    """The story in plain sentences: what is known, who said it, what became of it."""
    yield Text(printable(story.title), style="bold")
    for section in sections_of(story, locale):
        rows = [(line.before, line.text, line.after) for line in section.lines]
        yield three_columns(section.title and f"\n{section.title}", rows)
    yield Text(f"\n{story.id}; all that is stored of it: --json", style="dim")

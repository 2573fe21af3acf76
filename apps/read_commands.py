"""Commands that look and change nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from slowwave.errors import UnusableInput
from slowwave.validity import parse_time

from .options import JsonOption, NamespaceOption, Place, StoreOption
from .printing import err, out, print_json, short_id, table, validity

if TYPE_CHECKING:
    from rich.console import RenderableType

    from recall.entities import Entity
    from recall.records import RecalledFact, Recollection

AsOf = Annotated[str | None, typer.Option("--as-of", metavar="TIME", help="What was true then.", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    for command in (recall, facts, entities, why, stats, quality):
        app.command()(command)


def recall(
    query: Annotated[str, typer.Argument(help="A question or a few words.")],
    k: Annotated[
        int | None, typer.Option("--k", min=1, max=1000, help="Facts at most; default 10.", show_default=False)
    ] = None,
    as_of: AsOf = None,
    graph: Annotated[str, typer.Option("--graph", help="none; bfs and spread come with communities.")] = "none",
    scope: Annotated[str | None, typer.Option("--scope", help="Only facts of this scope.", show_default=False)] = None,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Ranked facts that answer a question, with their validity and where they come from."""
    if graph != "none":
        raise UnusableInput(f"--graph {graph} is not there yet.", "Leave it out, or use --graph none.")
    with Place.of(store, namespace).memory() as memory:
        found = memory.recall(query, k=k, scope=scope, as_of=parse_time(as_of) if as_of else None)
    if as_json:
        print_json(found.as_json())
        return
    if not found.facts:
        out.print("Nothing is known about that. Try other words, or `slowwave entities`.")
    else:
        out.print(recall_table(found))


def recall_table(found: Recollection) -> RenderableType:
    """Ranked facts as a table."""
    rows = [
        (
            n,
            fact.statement,
            validity(fact.valid_from, fact.valid_to),
            f"{fact.score:.2f}",
            source_names(fact),
            short_id(fact.id),
        )
        for n, fact in enumerate(found.facts, 1)
    ]
    return table(found.query, ("#", "fact", "valid", "score", "said in", "id"), rows, f"{found.took_ms:.0f} ms")


def source_names(fact: RecalledFact) -> str:
    """The first two messages that say it; documents by their file name."""
    shown = [
        s.conversation_id.rpartition("/")[2] if "/" in s.conversation_id else s.message_id for s in fact.provenance[:2]
    ]
    more = len(fact.provenance) - len(shown)
    return ", ".join(shown) + (f" +{more}" if more > 0 else "")


def facts(
    name: Annotated[str, typer.Argument(help="An entity, by any of its names.")],
    as_of: AsOf = None,
    everything: Annotated[bool, typer.Option("--all", help="Also what is superseded, retracted or rejected.")] = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """What is known about an entity."""
    with Place.of(store, namespace).memory() as memory:
        entity, known = memory.facts_of(name, as_of=parse_time(as_of) if as_of else None, everything=everything)
    if as_json:
        print_json({"entity": asdict(entity), "facts": [fact.as_json() for fact in known]})
        return
    rows = [
        (
            fact.statement,
            fact.predicate,
            validity(fact.valid_from, fact.valid_to),
            fact.status,
            short_id(fact.id),
        )
        for fact in known
    ]
    title = f"{entity.name} ({entity.entity_type})" + (f", also {', '.join(entity.aliases)}" if entity.aliases else "")
    out.print(table(title, ("fact", "relation", "valid", "status", "id"), rows))


def entities(
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many to show.")] = 50,
    type: Annotated[str | None, typer.Option("--type", help="Only of this type.", show_default=False)] = None,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Who and what is known, most talked about first."""
    with Place.of(store, namespace).memory() as memory:
        total, shown = memory.entities(limit=limit, entity_type=type)
    if as_json:
        print_json({"total": total, "entities": [asdict(entity) for entity in shown]})
        return
    out.print(entity_table(shown, f"…and {total - len(shown)} more" if total > len(shown) else ""))


def entity_table(shown: Sequence[Entity], caption: str = "") -> RenderableType:
    """Entities as a table; the count is of live facts."""
    rows = [(e.name, e.entity_type, e.facts, ", ".join(e.aliases), e.last_seen_at) for e in shown]
    return table("", ("name", "type", "count", "also known as", "last seen"), rows, caption)


def why(
    id: Annotated[str, typer.Argument(help="A fact, message, entity or run, or the first letters of its id.")],
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """The whole story of a fact: who said it, what was decided about it, what it replaced."""
    with Place.of(store, namespace).memory() as memory:
        story = memory.why(id)
    if as_json:
        print_json(story.as_json())
        return
    out.print(story.title, style="bold", markup=False)
    out.print(table("What it is", ("", ""), list(story.columns.items())))
    if story.evidence:
        out.print(
            table(
                "Who said it",
                ("when", "conversation", "message", "words"),
                [(e.occurred_at, e.conversation_id, e.message_id, e.quote) for e in story.evidence],
            )
        )
    if story.lineage:
        out.print(table("What it replaced, and what replaced it", ("from", "to", "reason"), story.lineage))
    if story.decisions:
        out.print(table("What was decided", ("when", "action", "by", "reason", "run"), story.decisions))


def stats(store: StoreOption = None, namespace: NamespaceOption = "default", as_json: JsonOption = False) -> None:
    """Counts of everything, and what the models cost."""
    from recall.overview import stats as count

    counted = count(Place.of(store, namespace).store(), datetime.now(UTC))
    if as_json:
        print_json(counted)
        return
    flat = [(k, v) for k, v in counted.items() if not isinstance(v, dict)]
    flat += [(f"{group} {k}", v) for group in ("facts", "llm") for k, v in counted[group].items()]
    out.print(table(f"Memory {namespace!r}", ("what", "count"), flat))


def quality(
    limit: Annotated[int, typer.Option("--limit", min=0, help="Refusals shown one by one.")] = 20,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """What was refused, by which gate and why."""
    from recall.overview import quality as assess

    found = assess(Place.of(store, namespace).store())
    if as_json:
        print_json(found)
        return
    out.print(table("Messages", ("state", "count"), list(found["messages"].items())))
    out.print(
        table(
            "Gates",
            ("gate", "count", "for example", "reason"),
            [(g["gate"], g["refused"], (g["example"] or "")[:80], g["reason"]) for g in found["gates"]],
        )
    )
    shown = found["refusals"][:limit]
    if shown:
        out.print(
            table(
                "Refused",
                ("gate", "reason", "text"),
                [(r["gate"], r["reason"], (r["excerpt"] or "")[:100]) for r in shown],
            )
        )
    if len(found["refusals"]) > len(shown):
        err.print(f"…and {len(found['refusals']) - len(shown)} more; --limit or --json shows them.")

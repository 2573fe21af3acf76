"""Commands about the sources of what is known: documents with their versions, and conversations about an entity."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from .options import JsonOption, NamespaceOption, Place, StoreOption
from .printing import out, print_json, short_id, table

_TEXT_CHARS = 60


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command()(documents)
    app.command()(episodes)


def documents(
    name: Annotated[
        str, typer.Argument(help="One document, by its title or id: all its versions.", show_default=False)
    ] = "",
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many documents, the newest first.")] = 50,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Documents and long pasted texts, each with its newest version; with a name, all versions of one document."""
    with Place.of(store, namespace).memory() as memory:
        total, found = (0, memory.versions(name)) if name else memory.artifacts(limit)
    if as_json:
        print_json({"total": total or len(found), "documents": [asdict(one) for one in found]})
    elif not found:
        out.print("No documents are stored.")
    else:
        caption = f"{len(found)} of {total}; the versions of one: slowwave documents TITLE" if total else ""
        dates = [f"{one.made_at:%Y-%m-%d}" if one.made_at else "" for one in found]
        rows = [
            (short_id(one.id), one.title, one.type, one.version_no or 1, date, one.summary[:_TEXT_CHARS])
            for one, date in zip(found, dates, strict=True)
        ]
        out.print(table("Documents", ("id", "title", "type", "version", "date", "summary"), rows, caption))


def episodes(
    name: Annotated[str, typer.Argument(help="An entity, by any of its names.")],
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """The conversations about an entity, newest first, with their summaries."""
    with Place.of(store, namespace).memory() as memory:
        found = memory.episodes_of(name)
    if as_json:
        print_json({"episodes": [asdict(one) for one in found]})
    elif not found:
        out.print(f"No conversation is about {name}.", markup=False)
    else:
        rows = [(f"{one.started_at:%Y-%m-%d}", one.messages, one.conversation_id, one.summary or "") for one in found]
        out.print(table(f"Conversations about {name}", ("date", "messages", "conversation", "summary"), rows))

"""Commands about what is known as a whole: the aspects of a life, and a block of context for another model."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from slowwave.errors import UnusableInput
from slowwave.lexicon.aspects import shown

from .options import AlsoOption, AsOf, JsonOption, NamespaceOption, OnlyOption, Place, StoreOption, time_of
from .printing import err, marked_statement, out, print_json, print_text, short_id, table, validity

if TYPE_CHECKING:
    from recall.aspects import Profile, Profiles

CELLS = 20
BESIDE = 3
"""Namespaces that a terminal has room for beside their sum."""


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    for command in (aspects, context):
        app.command()(command)


def aspects(
    aspect: Annotated[
        str | None, typer.Argument(metavar="[ASPECT]", help="Show the facts of this one.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Facts of an aspect to show.")] = 50,
    stored: Annotated[bool, typer.Option("--stored", help="As the last run left it, without counting.")] = False,
    picture: Annotated[
        Path | None,
        typer.Option("--picture", metavar="FILE.svg", help="Also draw them in this file.", show_default=False),
    ] = None,
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", help="All that the store holds.")] = False,
    store: StoreOption = None,
    namespace: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace", metavar="NAME", help="Which memory; several times for several.", show_default=False
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """How well each aspect of a life is known, from 0 to 100; or the facts that touch one, strongest first."""
    place = Place.of(store, "default")
    names = _names(place, namespace, all_namespaces)
    if aspect is not None:
        if len(names) > 1 or stored or picture:
            raise UnusableInput("The facts of an aspect are shown of one namespace, as they are now.", "Ask for one.")
        _show_facts(Place(place.uri, names[0], place.settings), aspect, limit, as_json)
        return
    known = _known(place, names, stored)
    if picture is not None:
        _draw(picture, known)
    if as_json:
        print_json(known.as_json())
    else:
        _show(known)


def _names(place: Place, named: Sequence[str] | None, everything: bool) -> list[str]:
    from storage.connection import namespaces

    if not everything:
        return list(dict.fromkeys(named or ["default"]))
    if named:
        raise UnusableInput("--namespace and --all-namespaces exclude each other.", "Leave one of them out.")
    return namespaces(place.uri) or ["default"]


def _known(place: Place, names: Sequence[str], is_stored: bool) -> Profiles:
    from recall.aspects import Profiles, aspects_of, stored_aspects

    if not is_stored:
        return aspects_of(place.uri, names, settings=place.settings.recall.aspects)
    if len(names) > 1:
        raise UnusableInput("Stored scores are of one namespace each.", "Name one, or leave --stored out.")
    snapshot = Place(place.uri, names[0], place.settings).store().snapshot()
    profile = stored_aspects(snapshot, place.settings.recall.aspects)
    return Profiles(profile, {names[0]: profile})


def _show(known: Profiles) -> None:
    several = len(known.each)
    names = list(known.each) if 1 < several <= BESIDE else []
    each = "and the score of each" if names else "--json tells of each"
    out.print(f"{several} memories together, {each}" if several > 1 else "What is known, of 100", markup=False)
    out.print(_profile_table(known, names))
    out.print(_scored_at(known.together), style="dim")
    if not any(row.facts for row in known.together):
        err.print("No fact touches any aspect yet: slowwave ingest PATH learns some.")


def _profile_table(known: Profiles, names: Sequence[str]) -> Table:
    """A row for each aspect, to fit into 80 columns; of several namespaces their scores instead of the category."""
    made = Table(box=SIMPLE_HEAD, header_style="bold cyan", pad_edge=False, collapse_padding=True)
    for name in ("aspect", *(() if names else ("category",)), "known"):
        made.add_column(name, no_wrap=True)
    for name in ("score", "facts", "entities", *names):
        made.add_column(Text(name), justify="right", overflow="fold")
    for n, row in enumerate(known.together):
        words = (_name(row.aspect.icon, row.aspect.display_name), *(() if names else (row.aspect.category,)))
        counts = (shown(row.score), row.facts, row.entities, *(shown(known.each[name][n].score) for name in names))
        made.add_row(*words, bar(row.score), *map(str, counts))
    return made


def _scored_at(profile: Profile) -> str:
    at = max((row.scored_at for row in profile if row.scored_at), default=None)
    return f"scored at {at:%Y-%m-%d %H:%M}" if at else "never scored: a run that learns something does it"


def _takes_unicode() -> bool:
    return out.encoding.lower().startswith("utf")


def _name(icon: str, name: str) -> str:
    return f"{icon} {name}" if _takes_unicode() else name


def bar(score: float) -> str:
    """Twenty cells, filled by the score of 0 to 100; half a cell is filled."""
    filled = shown(score * CELLS / 100)
    full, empty = ("█", "░") if _takes_unicode() else ("#", "-")
    return full * filled + empty * (CELLS - filled)


def _draw(file: Path, known: Profiles) -> None:
    from tasks.runtime.charts import aspect_chart

    if file.suffix.lower() != ".svg":
        raise UnusableInput(f"The picture is drawn as SVG, not as {file.suffix or 'a file without an ending'!r}.",
                            "Name a file that ends in .svg.")  # fmt: skip
    try:
        file.write_bytes(aspect_chart(known.each))
    except OSError as error:
        raise UnusableInput(f"{file} cannot be written: {error.strerror}.", "Name another file.") from error
    err.print(f"Drawn in {file}.", markup=False, soft_wrap=True)


def _show_facts(place: Place, slug: str, limit: int, as_json: bool) -> None:
    from slowwave.lexicon.aspects import aspect_named

    aspect, now = aspect_named(slug), datetime.now(UTC)
    with place.memory() as memory:
        total, facts = memory.facts_with_aspect(aspect.slug, limit, now=now)
    if as_json:
        print_json({"aspect": aspect.as_json(), "total": total, "facts": [fact.as_json() for fact in facts]})
        return
    if not facts:
        out.print(f"Nothing is known that touches {aspect.display_name}.", markup=False)
        return
    rows = [
        (marked_statement(fact, now), fact.confidence, validity(fact.valid_from, fact.valid_to), short_id(fact.id))
        for fact in facts
    ]
    caption = f"…and {total - len(facts)} more: --limit" if total > len(facts) else ""
    title = _name(aspect.icon, aspect.display_name)
    out.print(table(title, ("fact", "confidence", "valid", "id"), rows, caption))


def context(
    query: Annotated[str, typer.Argument(help="What the context is for: a question or a few words.")],
    tokens: Annotated[int, typer.Option("--tokens", min=0, help="Room for the block; it takes no more.")] = 500,
    k: Annotated[
        int | None,
        typer.Option("--k", min=1, max=1000, help="Facts at most; by default what fits.", show_default=False),
    ] = None,
    scope: Annotated[str | None, typer.Option("--scope", help="Only facts of this scope.", show_default=False)] = None,
    as_of: AsOf = None,
    only: OnlyOption = None,
    also: AlsoOption = None,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """What is known, as a block of plain text to put before a model: dated sentences, marked as untrusted."""
    with Place.of(store, namespace).memory() as memory:
        block = memory.context_for(query, tokens, k=k, scope=scope, as_of=time_of(as_of), only=only, also=also or ())
    if as_json:
        from inference.embedding import count_tokens

        print_json({"query": query, "context": block, "tokens": count_tokens(block)})
    elif block:
        print_text(block)
    else:
        err.print(f"Nothing is known about that, nothing fits into {tokens} tokens, or reading took too long.")

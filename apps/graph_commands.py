"""Commands about who and what is related: what lies around an entity, how two are related, which are meant."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from slowwave.lexicon.labels import Locale, shown_relation, shown_type

from .options import AsOf, JsonOption, KnownAsOf, NamespaceOption, Place, StoreOption, time_of
from .printing import err, marked_statement, out, print_json, short_id, table, validity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slowwave.types import RecalledFact

SHOWN = 50
TypesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--type",
        metavar="TYPE",
        help="Follow only relations of this type (causal, temporal, semantic, hierarchical, co_occurrence); several "
        "times for several.",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    for command in (neighbours, path, find):
        app.command()(command)


def neighbours(
    name: Annotated[str, typer.Argument(help="An entity, by any of its names.")],
    hops: Annotated[int, typer.Option("--hops", min=1, max=20, help="How many relations away.")] = 2,
    type: TypesOption = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Facts to show, the nearest first.")] = SHOWN,
    as_of: AsOf = None,
    known_as_of: KnownAsOf = None,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """What an entity is related to, directly and through others."""
    place = Place.of(store, namespace)
    with place.memory() as memory:
        around = memory.neighbours(
            name, hops, edge_types=type or (), limit=limit + 1, as_of=time_of(as_of), known_as_of=time_of(known_as_of)
        )
    is_more, around = len(around.facts) > limit, replace(around, facts=around.facts[:limit])
    if as_json:
        print_json(around.as_json())
        return
    if not around.facts:
        out.print(f"Nothing relates {around.entities[0].name} to anything.", markup=False)
        return
    rows = [(one.depth, one.name, shown_type(one.entity_type, place.locale)) for one in around.entities]
    out.print(table(f"Around {around.entities[0].name}", ("relations away", "name", "type"), rows))
    _show_facts("By these facts", around.facts, place.locale)
    if is_more:
        err.print(f"The {limit} nearest facts; --limit shows more.")


def path(
    a: Annotated[str, typer.Argument(metavar="A", help="An entity, by any of its names.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    hops: Annotated[int, typer.Option("--hops", min=1, max=20, help="Relations at most.")] = 6,
    type: TypesOption = None,
    as_of: AsOf = None,
    known_as_of: KnownAsOf = None,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """How two entities are related: the fewest facts that lead from one to the other."""
    place = Place.of(store, namespace)
    with place.memory() as memory:
        way = memory.path(a, b, hops, edge_types=type or (), as_of=time_of(as_of), known_as_of=time_of(known_as_of))
    if as_json:
        print_json({"is_connected": way is not None, **(way.as_json() if way else {"entities": [], "facts": []})})
    elif way is None:
        out.print(f"No relations lead from {a} to {b}{_limits(hops, type, as_of)}.", markup=False)
        out.print(f'What names both, related or not: slowwave recall "{a} {b}"', markup=False)
    elif len(way.entities) == 1:
        out.print(f"Both are {way.entities[0].name}.", markup=False)
    else:
        _show_facts(" – ".join(one.name for one in way.entities), way.facts, place.locale)


def find(
    words: Annotated[str, typer.Argument(help="Words, or beginnings of words, of a name or a description.")],
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many to show.")] = 10,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Which entities are meant: by their names and descriptions, else by meaning."""
    place = Place.of(store, namespace)
    with place.memory() as memory:
        found = memory.find_entities(words, limit)
    if as_json:
        print_json({"entities": [one.as_json() for one in found]})
    elif not found:
        out.print("No entity is called like that. `slowwave entities` lists them.")
    else:
        if found[0].found_by == "meaning":
            out.print("No name begins like that. Nearest in meaning, which may be nothing like it:", markup=False)
        rows = [
            (one.name, shown_type(one.entity_type, place.locale), one.summary, one.score, short_id(one.id))
            for one in found
        ]
        out.print(table(words, ("name", "type", "summary", "score", "id"), rows))


def _limits(hops: int, types: Sequence[str] | None, as_of: str | None) -> str:
    """The limits of the search, as the end of a sentence."""
    kinds = f" of type {', '.join(types)}" if types else ""
    return f" over at most {hops} steps{kinds}" + (f" as of {as_of}" if as_of else "; --as-of looks at another time")


def _show_facts(title: str, facts: Sequence[RecalledFact], locale: Locale) -> None:
    now = datetime.now(UTC)
    rows = [
        (
            fact.subject, shown_relation(fact.predicate, locale), fact.object, marked_statement(fact, now),
            validity(fact.valid_from, fact.valid_to, fact.status == "active"), short_id(fact.id),
        )
        for fact in facts
    ]  # fmt: skip
    out.print(table(title, ("from", "relation", "to", "fact", "valid", "id"), rows))

"""Commands by which people put entities right: which are one, what they are called, what is kept for ever."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slowwave.lexicon.labels import Locale, shown_relation

from .options import JsonOption, NamespaceOption, Place, StoreOption
from .printing import err, out, print_json, short_id, show_undo, table

if TYPE_CHECKING:
    from tasks.entities.merges import Merged
    from tasks.entities.names import Pinned
    from tasks.runtime.runs import Run

EntityName = Annotated[
    str, typer.Argument(metavar="ENTITY", help="An entity: a whole name or alias, 'name (type)', or its id.")
]
OffOption = Annotated[bool, typer.Option("--off", help="Keep it no longer.")]


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    entity = typer.Typer(no_args_is_help=True, help="Put entities right: merge, alias, rename, pin.")
    for command in (merge, alias, rename):
        entity.command()(command)
    entity.command("pin")(pin_entity)
    app.add_typer(entity, name="entity")
    app.command()(pin)


def merge(
    loser: Annotated[str, typer.Argument(metavar="A", help="The entity that goes: its name, 'name (type)', or id.")],
    winner: Annotated[str, typer.Argument(metavar="B", help="The entity that it is, and that stays.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change; change nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Though they are of two types.")] = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Make one entity of two: all that is known of A is known of B, which has the names of both."""
    from tasks.entities.merges import merge as make_one

    place = Place.of(store, namespace)
    run = _run("entity-merge", place)
    merged = make_one(run, loser, winner, dry_run=dry_run, force=force, beliefs=place.settings.ingest.beliefs)
    is_done = merged.is_new and not dry_run
    if as_json:
        print_json({"run": run.id if is_done else None, "dry_run": dry_run, **_plain(merged)})
        return
    if not merged.is_new:
        out.print(f"{merged.loser} was merged into {merged.winner} before; nothing changed.", markup=False)
        return
    _show_merged(merged, dry_run, place.locale)
    if is_done:
        _say_undo(run)


def _show_merged(merged: Merged, dry_run: bool, locale: Locale) -> None:
    verb, ends = ("would be", "") if dry_run else ("is", " now")
    parts = [f"{merged.loser} {verb} {merged.winner}{ends}: {merged.facts} facts moved"]
    if merged.beliefs:
        parts.append(f"{merged.beliefs} pending beliefs")
    if merged.names:
        parts.append(f"also known as {', '.join(merged.names)}")
    out.print(f"{'; '.join(parts)}.", markup=False)
    if merged.archived:
        rows = [(statement, short_id(fact)) for fact, statement in merged.archived]
        out.print(table("Archived: said something between the two", ("fact", "id"), rows))
    if merged.conflicts:
        pairs = [
            (
                shown_relation(c.predicate, locale),
                *(f"{words} ({short_id(fact)})" for fact, words in (c.known, c.moved)),
            )
            for c in merged.conflicts
        ]
        out.print(table("In doubt: one at a time can hold, and both stay", ("relation", "known", "moved"), pairs))
        err.print("To let one go: slowwave retire ENTITY ID")


def alias(
    entity: EntityName,
    name: Annotated[str, typer.Argument(metavar="ALIAS", help="Another name of it.")],
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Let an entity be known under one more name. A name of another entity is refused: merge them."""
    from tasks.entities.names import name_also

    run = _run("entity-alias", Place.of(store, namespace))
    called = name_also(run, entity, name)
    if as_json:
        print_json({"run": run.id if called.is_new else None, **asdict(called)})
    elif called.is_new:
        out.print(f"{called.entity} is also known as {called.name}.", markup=False)
        _say_undo(run)
    else:
        out.print(f"{called.entity} is known as {called.name} already; nothing changed.", markup=False)


def rename(
    entity: EntityName,
    name: Annotated[str, typer.Argument(metavar="NEW", help="The name that it is shown under from now on.")],
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Give an entity its name. It stays known under the others, and what is said of it later changes it no more."""
    from tasks.entities.names import rename as give_name

    run = _run("entity-rename", Place.of(store, namespace))
    called = give_name(run, entity, name)
    if as_json:
        print_json({"run": run.id if called.is_new else None, **asdict(called)})
    elif called.is_new:
        out.print(f"{called.entity} is called {called.name} now.", markup=False)
        _say_undo(run)
    else:
        out.print(f"{called.name} is its name already; nothing changed.", markup=False)


def pin_entity(
    entity: EntityName,
    off: OffOption = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Keep an entity and all that is known of it for ever."""
    from tasks.entities.names import keep_entity

    run = _run("entity-pin", Place.of(store, namespace))
    _tell_pins(run, keep_entity(run, entity, not off), as_json)


def pin(
    ids: Annotated[list[str], typer.Argument(metavar="ID…", help="Facts, by the ids that tables show.")],
    off: OffOption = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Keep facts for ever: they are never pruned, merged into others or evicted."""
    from tasks.entities.names import keep_facts

    run = _run("pin", Place.of(store, namespace))
    _tell_pins(run, keep_facts(run, ids, not off), as_json)


def _tell_pins(run: Run, done: Pinned, as_json: bool) -> None:
    if as_json:
        print_json({"run": run.id if done.changed else None, **_plain(done)})
        return
    titles = ("Pinned", "Pinned before") if done.pinned else ("Pinned no longer", "Not pinned before")
    for title, rows in zip(titles, (done.changed, done.unchanged), strict=True):
        if rows:
            out.print(table(title, ("what", "id"), [(title_, short_id(id_)) for id_, title_ in rows]))
    if done.changed:
        _say_undo(run)


def _plain(done: Any) -> dict[str, Any]:
    """A record as JSON shows it: pairs in their order."""
    return _lists(asdict(done))  # type: ignore[no-any-return]


def _lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _lists(each) for name, each in value.items()}
    return [_lists(each) for each in value] if isinstance(value, tuple | list) else value


def _say_undo(run: Run) -> None:
    show_undo(run.id, run.namespace)


def _run(name: str, place: Place) -> Run:
    from tasks.runtime.runs import existing_run

    return existing_run(name, place.uri, place.namespace, retention=place.settings.retention)

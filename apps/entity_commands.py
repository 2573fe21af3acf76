"""Commands that correct entities: merge, names, pins, splits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slowwave.common.errors import UnusableInput
from slowwave.common.lexicon.labels import Locale, shown_relation, shown_type
from slowwave.common.text import short_id

from .configuration import Place
from .options import DryRun, ExactEntity, Ids, JsonOption, add_command
from .printing import err, out, print_json, show_undo, table

if TYPE_CHECKING:
    from slowwave.review.split_plan import SplitPart
    from tasks.entities.merges import Merged
    from tasks.entities.names_and_pins import Called, Pinned
    from tasks.runtime.runs import Run

OffOption = Annotated[bool, typer.Option("--off", help="Remove the pin.")]
PlanOption = Annotated[
    Path | None,
    typer.Option("--plan", metavar="FILE.json", help="Your own plan, in the form of `propose --dry-run --json`."),
]


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    entity = typer.Typer(no_args_is_help=True, help="Correct entities: merge, alias, rename, pin.")
    for command in (merge, alias, rename):
        add_command(entity, command)
    add_command(entity, pin_entity, "pin")
    app.add_typer(entity, name="entity")
    add_command(app, pin)
    split = typer.Typer(no_args_is_help=True, help="Split an entity that has too many facts about several topics.")
    split.callback()(lambda: None)  # a group of one command stays a group
    add_command(split, propose)
    app.add_typer(split, name="split")


def merge(
    loser: Annotated[
        str, typer.Argument(metavar="A", help="The entity to merge into B: its name, 'name (type)', or id.")
    ],
    winner: Annotated[str, typer.Argument(metavar="B", help="The entity that stays.")],
    dry_run: DryRun = False,
    force: Annotated[bool, typer.Option("--force", help="Merge entities of different types, too.")] = False,
    *,
    place: Place,
    as_json: JsonOption = False,
) -> None:
    """Merge two entities: all facts about A become facts about B, which keeps both names."""
    from tasks.entities.merges import merge as make_one

    run = place.run("entity-merge")
    merged = make_one(run, loser, winner, dry_run=dry_run, force=force, beliefs=place.settings.ingest.beliefs)
    is_done = merged.is_new and not dry_run
    if as_json:
        print_json({"run": run.id if is_done else None, "dry_run": dry_run, **asdict(merged)})
        return
    if not merged.is_new:
        out.print(f"{merged.loser} was merged into {merged.winner} before; nothing changed.", markup=False)
        return
    _show_merged(merged, dry_run, place.locale)
    if is_done:
        show_undo(run.id, run.namespace)


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
        out.print(table("Archived: facts that related the two", ("fact", "id"), rows))
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
    entity: ExactEntity,
    name: Annotated[str, typer.Argument(metavar="ALIAS", help="The new alias.")],
    *,
    place: Place,
    as_json: JsonOption = False,
) -> None:
    """Add a name to an entity. A name of another entity is refused: merge the two."""
    from tasks.entities.names_and_pins import alias_entity

    run = place.run("entity-alias")
    called = alias_entity(run, entity, name)
    known = f"{called.entity} is known as {called.name} already; nothing changed."
    _show_called(run, called, as_json, f"{called.entity} is also known as {called.name}.", known)


def rename(
    entity: ExactEntity,
    name: Annotated[str, typer.Argument(metavar="NEW", help="The new name.")],
    *,
    place: Place,
    as_json: JsonOption = False,
) -> None:
    """Rename an entity. It keeps its other names, and later messages do not change the new one."""
    from tasks.entities.names_and_pins import rename_entity

    run = place.run("entity-rename")
    called = rename_entity(run, entity, name)
    known = f"{called.name} is its name already; nothing changed."
    _show_called(run, called, as_json, f"{called.entity} is called {called.name} now.", known)


def _show_called(run: Run, called: Called, as_json: bool, new: str, known: str) -> None:
    if as_json:
        print_json({"run": run.id if called.is_new else None, **asdict(called)})
        return
    out.print(new if called.is_new else known, markup=False)
    if called.is_new:
        show_undo(run.id, run.namespace)


def pin_entity(
    entity: ExactEntity,
    off: OffOption = False,
    *,
    place: Place,
    as_json: JsonOption = False,
) -> None:
    """Keep an entity and all its facts for ever."""
    from tasks.entities.names_and_pins import pin_entity

    run = place.run("entity-pin")
    _tell_pins(run, pin_entity(run, entity, not off), as_json)


def pin(
    ids: Ids,
    off: OffOption = False,
    *,
    place: Place,
    as_json: JsonOption = False,
) -> None:
    """Keep facts for ever: they are never archived, or merged into others."""
    from tasks.entities.names_and_pins import pin_facts

    run = place.run("pin")
    _tell_pins(run, pin_facts(run, ids, not off), as_json)


def _tell_pins(run: Run, done: Pinned, as_json: bool) -> None:
    if as_json:
        print_json({"run": run.id if done.changed else None, **asdict(done)})
        return
    titles = ("Pinned", "Pinned before") if done.pinned else ("Pinned no longer", "Not pinned before")
    for title, rows in zip(titles, (done.changed, done.unchanged), strict=True):
        if rows:
            out.print(table(title, ("what", "id"), [(title_, short_id(id_)) for id_, title_ in rows]))
    if done.changed:
        show_undo(run.id, run.namespace)


def propose(
    entity: ExactEntity,
    plan: PlanOption = None,
    dry_run: DryRun = False,
    *,
    place: Place,
    as_json: JsonOption = False,
) -> None:
    """Propose a split for a person to approve (slowwave review): by topic, or by your own plan."""
    from tasks.people.splitting import propose as leave

    if dry_run:
        _show_suggestion(place, entity, as_json)
        return
    run = place.run("split-propose")
    made = leave(run, entity, place.settings.split, None if plan is None else _splits(plan))
    if as_json:
        print_json({"run": run.id, **asdict(made)})
        return
    _show_splits(made.message, made.splits, place)
    out.print(f"It waits as {made.proposal_id}.", markup=False)
    out.print(f"Approve: slowwave review approve {short_id(made.proposal_id)}", markup=False)
    out.print(f"Rename:  slowwave review modify {short_id(made.proposal_id)} --rename OLD=NEW", markup=False)


def _show_suggestion(place: Place, entity: str, as_json: bool) -> None:
    from recall.entity_review import suggest_split

    found = suggest_split(place.store().snapshot(), place.settings.split, datetime.now(UTC), entity)
    if as_json:
        print_json(found.as_json())
    elif found.splits:
        _show_splits(found.message, found.splits, place)
    else:
        out.print(found.message, markup=False)


def _show_splits(title: str, splits: Sequence[SplitPart], place: Place) -> None:
    rows = [(each.name, shown_type(each.entity_type, place.locale), len(each.observations)) for each in splits]
    ends = " and ".join(shown_relation(word, place.locale) for word in ("contains", "part_of"))
    out.print(title, markup=False)
    out.print(table("", ("new entity", "type", "count"), rows, f"each with {ends}; the rest stays where it is"))


def _splits(plan: Path) -> tuple[SplitPart, ...]:
    from slowwave.review.split_plan import splits_of

    try:
        read = json.loads(plan.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UnusableInput(f"{plan} is no JSON that can be read: {error}.", "Make one: slowwave split propose "
                            "ENTITY --dry-run --json > plan.json") from error  # fmt: skip
    return splits_of(read)

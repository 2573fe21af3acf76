"""Commands that correct entities: merge, names, pins, splits."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slowwave.common.errors import UnusableInput
from slowwave.common.lexicon.labels import Locale, shown_relation, shown_type
from slowwave.common.text import short_id

from .configuration import Place
from .options import DryRun, ExactEntity, Ids, Shown
from .printing import Aside, table, undo_line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from slowwave.review.split_plan import SplitPart
    from tasks.entities.merges import Merged
    from tasks.entities.names_and_pins import Called, Pinned
    from tasks.runtime.runs import Run

OffOption = Annotated[bool, typer.Option("--off", help="Remove the pin.")]
PlanOption = Annotated[
    Path | None,
    typer.Option("--plan", metavar="FILE.json", help="Your own plan, in the form of `propose --dry-run --json`."),
]


def entity() -> None:
    """Correct entities: merge, alias, rename, pin."""


def entity_merge(
    loser: Annotated[
        str, typer.Argument(metavar="A", help="The entity to merge into B: its name, 'name (type)', or id.")
    ],
    winner: Annotated[str, typer.Argument(metavar="B", help="The entity that stays.")],
    dry_run: DryRun = False,
    force: Annotated[bool, typer.Option("--force", help="Merge entities of different types, too.")] = False,
    *,
    place: Place,
) -> Shown:
    """Merge two entities: all facts about A become facts about B, which keeps both names."""
    from tasks.entities.merges import merge

    run = place.run("entity-merge")
    merged = merge(run, loser, winner, dry_run=dry_run, force=force, beliefs=place.settings.ingest.beliefs)
    is_done = merged.is_new and not dry_run
    yield {"run": run.id if is_done else None, "dry_run": dry_run, **asdict(merged)}
    if not merged.is_new:
        yield f"{merged.loser} was merged into {merged.winner} before; nothing changed."
        return
    yield from _merged_lines(merged, dry_run, place.locale)
    if is_done:
        yield undo_line(run.id, run.namespace)


def _merged_lines(merged: Merged, dry_run: bool, locale: Locale) -> Iterator[RenderableType]:
    verb, ends = ("would be", "") if dry_run else ("is", " now")
    parts = [f"{merged.loser} {verb} {merged.winner}{ends}: {merged.facts} facts moved"]
    if merged.beliefs:
        parts.append(f"{merged.beliefs} pending beliefs")
    if merged.names:
        parts.append(f"also known as {', '.join(merged.names)}")
    yield f"{'; '.join(parts)}."
    if merged.archived:
        rows = [(statement, short_id(fact)) for fact, statement in merged.archived]
        yield table("Archived: facts that related the two", ("fact", "id"), rows)
    if merged.conflicts:
        pairs = [
            (
                shown_relation(c.predicate, locale),
                *(f"{words} ({short_id(fact)})" for fact, words in (c.known, c.moved)),
            )
            for c in merged.conflicts
        ]
        yield table("In doubt: one at a time can hold, and both stay", ("relation", "known", "moved"), pairs)
        yield Aside("To let one go: slowwave retire ENTITY ID")


def entity_alias(
    entity: ExactEntity, name: Annotated[str, typer.Argument(metavar="ALIAS", help="The new alias.")], *, place: Place
) -> Shown:
    """Add a name to an entity. A name of another entity is refused: merge the two."""
    from tasks.entities.names_and_pins import alias_entity

    run = place.run("entity-alias")
    called = alias_entity(run, entity, name)
    known = f"{called.entity} is known as {called.name} already; nothing changed."
    return _called(run, called, f"{called.entity} is also known as {called.name}.", known)


def entity_rename(
    entity: ExactEntity, name: Annotated[str, typer.Argument(metavar="NEW", help="The new name.")], *, place: Place
) -> Shown:
    """Rename an entity. It keeps its other names, and later messages do not change the new one."""
    from tasks.entities.names_and_pins import rename_entity

    run = place.run("entity-rename")
    called = rename_entity(run, entity, name)
    known = f"{called.name} is its name already; nothing changed."
    return _called(run, called, f"{called.entity} is called {called.name} now.", known)


def _called(run: Run, called: Called, new: str, known: str) -> Shown:
    yield {"run": run.id if called.is_new else None, **asdict(called)}
    yield new if called.is_new else known
    if called.is_new:
        yield undo_line(run.id, run.namespace)


def entity_pin(entity: ExactEntity, off: OffOption = False, *, place: Place) -> Shown:
    """Keep an entity and all its facts for ever."""
    from tasks.entities.names_and_pins import pin_entity

    run = place.run("entity-pin")
    return _pinned(run, pin_entity(run, entity, not off))


def pin(ids: Ids, off: OffOption = False, *, place: Place) -> Shown:
    """Keep facts for ever: they are never archived, or merged into others."""
    from tasks.entities.names_and_pins import pin_facts

    run = place.run("pin")
    return _pinned(run, pin_facts(run, ids, not off))


def _pinned(run: Run, done: Pinned) -> Shown:
    yield {"run": run.id if done.changed else None, **asdict(done)}
    titles = ("Pinned", "Pinned before") if done.pinned else ("Pinned no longer", "Not pinned before")
    for title, rows in zip(titles, (done.changed, done.unchanged), strict=True):
        if rows:
            yield table(title, ("what", "id"), [(title_, short_id(id_)) for id_, title_ in rows])
    if done.changed:
        yield undo_line(run.id, run.namespace)


def split() -> None:
    """Split an entity that has too many facts about several topics."""


def split_propose(entity: ExactEntity, plan: PlanOption = None, dry_run: DryRun = False, *, place: Place) -> Shown:
    """Propose a split for a person to approve (slowwave review): by topic, or by your own plan."""
    from recall.report import suggest_split
    from tasks.people.splitting import propose

    if dry_run:
        found = suggest_split(place.store().snapshot(), place.settings.split, datetime.now(UTC), entity)
        yield found
        yield found.message
        yield _split_lines(found.splits, place) if found.splits else None
        return
    run = place.run("split-propose")
    made = propose(run, entity, place.settings.split, None if plan is None else _splits(plan))
    yield {"run": run.id, **asdict(made)}
    yield made.message
    yield _split_lines(made.splits, place)
    yield f"It waits as {made.proposal_id}."
    yield f"Approve: slowwave review approve {short_id(made.proposal_id)}"
    yield f"Rename:  slowwave review modify {short_id(made.proposal_id)} --rename OLD=NEW"


def _split_lines(splits: Sequence[SplitPart], place: Place) -> RenderableType:
    rows = [(each.name, shown_type(each.entity_type, place.locale), len(each.observations)) for each in splits]
    ends = " and ".join(shown_relation(word, place.locale) for word in ("contains", "part_of"))
    return table("", ("new entity", "type", "count"), rows, f"each with {ends}; the rest stays where it is")


def _splits(plan: Path) -> tuple[SplitPart, ...]:
    from slowwave.review.split_plan import splits_of

    try:
        read = json.loads(plan.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UnusableInput(f"{plan} is no JSON that can be read: {error}.", "Make one: slowwave split propose "
                            "ENTITY --dry-run --json > plan.json") from error  # fmt: skip
    return splits_of(read)

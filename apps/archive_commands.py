"""Commands about what left memory and can come back."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from slowwave.errors import Refused

from .options import JsonOption, NamespaceOption, Place, StoreOption
from .printing import err, out, print_json, short_id, table

if TYPE_CHECKING:
    from tasks.restoring import Restored

SHOWN = 50


def archived(
    reason: Annotated[
        str | None, typer.Option("--reason", help="Only for this reason: pruned, evicted, deleted.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many to show.")] = SHOWN,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """What faded, was evicted or retired, the latest first; all of it can be restored."""
    from recall.archive import archived as look_up

    total, shown = look_up(Place.of(store, namespace).store().snapshot(), reason, limit)
    if as_json:
        print_json({"total": total, "facts": [asdict(fact) for fact in shown]})
        return
    if not shown:
        out.print("No fact is archived. Archived entities: slowwave entities --all", markup=False)
        return
    rows = [(fact.statement, fact.reason, fact.at, fact.score, short_id(fact.id)) for fact in shown]
    caption = f"…and {total - len(shown)} more: --limit" if total > len(shown) else ""
    out.print(table("What can be restored", ("fact", "reason", "left", "score", "id"), rows, caption))
    out.print("Back with: slowwave restore ID", markup=False)


def restore(
    ids: Annotated[
        list[str] | None, typer.Argument(help="Facts, by the ids that tables show.", show_default=False)
    ] = None,
    run: Annotated[
        str | None,
        typer.Option("--run", metavar="RUN", help="Everything that this run retired.", show_default=False),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would come back; change nothing.")] = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Bring archived facts back as they were. Exit code 4 if one is known again or another one took its place."""
    from tasks.restoring import restore as bring_back
    from tasks.runs import existing_run

    place = Place.of(store, namespace)
    mine = existing_run("restore", place.uri, place.namespace, retention=place.settings.retention)
    restored = bring_back(mine, ids or (), run, dry_run=dry_run)
    if as_json:
        facts = [{"id": fact, "statement": statement} for fact, statement in restored.facts]
        stay = [{"id": fact, "statement": said, "reason": reason} for fact, said, reason in restored.refused]
        print_json({"run": None if dry_run else mine.id, "dry_run": dry_run, "restored": facts, "refused": stay})
    else:
        _show(restored, "Would restore" if dry_run else "Restored")
        if not dry_run:
            out.print(f"Away again with: slowwave undo {mine.id}", markup=False)
    if restored.refused:
        raise typer.Exit(Refused.exit_code)


def _show(restored: Restored, title: str) -> None:
    rows = [(statement, short_id(fact)) for fact, statement in restored.facts[:SHOWN]]
    more = len(restored.facts) - len(rows)
    out.print(table(f"{title} {len(restored.facts)} facts", ("fact", "id"), rows, f"…and {more} more" if more else ""))
    for fact, statement, reason in restored.refused:
        err.print(f"Not restored: “{statement}” ({short_id(fact)}). {reason}", markup=False)

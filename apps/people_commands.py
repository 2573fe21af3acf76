"""Commands by which people look after what is known of an entity: what repeats, what is new, what goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from slowwave.errors import Refused

from .options import JsonOption, NamespaceOption, Place, StoreOption
from .printing import err, out, print_json, short_id, show_undo, table

if TYPE_CHECKING:
    from slowwave.types import Added, DuplicatePair, DuplicateReport, Outcome
    from tasks.entities.retirement import Restored
    from tasks.runtime.runs import Run

# Commands about archived facts, which can be restored.


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
    from recall.history import archived as look_up

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
    from tasks.entities.retirement import restore as bring_back
    from tasks.runtime.runs import existing_run

    place = Place.of(store, namespace)
    mine = existing_run("restore", place.uri, place.namespace, retention=place.settings.retention)
    restored = bring_back(mine, ids or (), run, dry_run=dry_run)
    if as_json:
        facts = [{"id": fact, "statement": statement} for fact, statement in restored.facts]
        stay = [{"id": fact, "statement": text, "reason": reason} for fact, text, reason in restored.refused]
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


EntityName = Annotated[str, typer.Argument(metavar="ENTITY", help="An entity, by any of its names.")]


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    for command in (duplicates, observe, retire, archived, restore):
        app.command()(command)


def duplicates(
    entity: EntityName,
    threshold: Annotated[
        float, typer.Option("--threshold", min=0.0, max=1.0, help="Cosine from which two look alike.")
    ] = 0.85,
    containment: Annotated[
        float,
        typer.Option("--containment", min=0.0, max=1.0, help="Share of words of the shorter that a longer one holds."),
    ] = 0.70,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Pairs to list; all are counted.")] = 1000,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Observations of an entity that look alike, for you to judge; nothing is changed."""
    with Place.of(store, namespace).memory() as memory:
        report = memory.duplicates(entity, threshold, containment, limit=limit)
    if as_json:
        print_json(report.as_json())
    elif not report.pairs:
        out.print(f"None of the {report.total_observations} observations of {report.entity} look alike.", markup=False)
    else:
        _show_duplicates(report)


def _show_duplicates(report: DuplicateReport) -> None:
    title = f"{report.entity}: {report.duplicates_found} pairs of {report.total_observations} observations look alike"
    rows = [
        (n, cell, short_id(side.id), _seen(pair) if side is pair.a else "")
        for n, pair in enumerate(report.pairs[:SHOWN], 1)
        for side, cell in ((pair.a, pair.a.content), (pair.b, pair.b.content))
    ]
    more = report.duplicates_found - min(SHOWN, len(report.pairs))
    caption = f"… and {more} more pairs: --json" if more > 0 else ""
    out.print(table(title, ("#", "observation", "id", "alike by"), rows, caption))
    groups = [(n, len(group), ", ".join(short_id(each.id) for each in group[:12]) + (" …" if len(group) > 12 else ""))
              for n, group in enumerate(report.clusters[:SHOWN], 1)]  # fmt: skip
    out.print(table("What belongs together", ("#", "count", "ids"), groups))
    out.print(f"To let one go: slowwave retire {report.entity!r} ID", markup=False)
    out.print("To leave that to somebody else: the same with --propose; slowwave review list", markup=False)


def _seen(pair: DuplicatePair) -> str:
    measures = f"{pair.match_type} {pair.similarity_score:.2f}, contained {pair.containment:.2f}"
    return f"{measures}; two readings of one sentence" if pair.one_sentence else measures


def observe(
    entity: Annotated[str, typer.Argument(metavar="ENTITY", help="An entity, by its whole name or an alias.")],
    texts: Annotated[list[str], typer.Argument(help="What is so; a sentence each.")],
    type: Annotated[
        str | None, typer.Option("--type", help="What the entity is: person, tool, project …", show_default=False)
    ] = None,
    create: Annotated[bool, typer.Option("--create", help="Make the entity if it is unknown.")] = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """State something about an entity. What is known word for word is passed over. Exit code 4 if a text is refused."""
    from tasks.people.observations import observe as add

    place = Place.of(store, namespace)
    settings = place.kept(place.settings.ingest)
    run = _run("observe", place)
    added = add(run, entity, texts, settings, entity_type=type, create=create)
    if as_json:
        print_json({"run": run.id, **asdict(added)})
    else:
        _show_added(added)
        if added.is_new or any(each.outcome in ("added", "confirmed", "waiting") for each in added.outcomes):
            show_undo(run.id, run.namespace)
    if any(each.outcome == "refused" for each in added.outcomes):
        raise typer.Exit(Refused.exit_code)


def _show_added(added: Added) -> None:
    rows = [(each.content, each.outcome, short_id(each.fact_id or ""), _remark(each)) for each in added.outcomes]
    out.print(
        table(f"{added.entity}{' (new)' if added.is_new else ''}", ("observation", "outcome", "id", "remark"), rows)
    )
    if added.redacted:
        err.print(f"Secrets were taken out of {added.redacted} of them.")
    if any(each.outcome == "waiting" for each in added.outcomes):
        err.print("What waits is decided with: slowwave review list")


def _remark(each: Outcome) -> str:
    if each.reason:
        return each.reason
    if each.outcome == "confirmed":
        return "It says the same in other words."
    return f"It looks like {short_id(each.similar_to_id)}: both are kept." if each.similar_to_id else ""


def retire(
    entity: EntityName,
    ids: Annotated[list[str], typer.Argument(help="Observations, by the ids that tables show.")],
    propose: Annotated[bool, typer.Option("--propose", help="Leave it to somebody else: slowwave review.")] = False,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="With --propose: why.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be retired; change nothing.")] = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Let observations of an entity go: out of recall, kept in the archive, and back with undo."""
    from recall.entities import find_entity
    from tasks.people.observations import retire as let_go

    place = Place.of(store, namespace)
    meant = find_entity(place.store().snapshot(), datetime.now(UTC), entity)
    run = _run("retire", place)
    if propose and not dry_run:
        _propose(run, meant.id, ids, reason, as_json)
        return
    retired = let_go(run, meant.id, ids, dry_run=dry_run)
    if as_json:
        facts = [{"id": fact, "content": content} for fact, content in retired.facts]
        done = {"run": None if dry_run else run.id, "dry_run": dry_run, "entity": meant.name, "entity_id": meant.id}
        print_json({**done, "retired": facts, "flags_cleared": list(retired.flags_cleared)})
        return
    _show_retired(
        f"{'Would retire' if dry_run else 'Retired'} of {meant.name}", retired.facts, len(retired.flags_cleared)
    )
    if not dry_run:
        show_undo(run.id, run.namespace)


def _propose(run: Run, entity_id: str, ids: Sequence[str], reason: str, as_json: bool) -> None:
    from recall.proposals import summary_of
    from tasks.people.review_runs import leave_deletion

    made, snapshot = leave_deletion(run, entity_id, ids, reason)
    if as_json:
        print_json({"run": run.id, "proposal": made.as_json()})
        return
    for line in summary_of(snapshot, made):
        out.print(line, markup=False)
    out.print(f"It waits as {made.id}. Nothing is retired yet.", markup=False)
    out.print(f"Approve: slowwave review approve {short_id(made.id)}", markup=False)


def _show_retired(title: str, facts: Sequence[tuple[str, str]], cleared: int) -> None:
    rows = [(content, short_id(fact)) for fact, content in facts]
    caption = f"{cleared} flags of facts that looked like them are cleared" if cleared else ""
    out.print(table(title, ("observation", "id"), rows, caption))


def _run(name: str, place: Place) -> Run:
    from tasks.runtime.runs import new_run

    return new_run(name, place.uri, place.namespace, place.settings.embedder, retention=place.settings.retention)

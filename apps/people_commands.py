"""Commands by which people look after observations and entities: duplicates, additions, corrections, erasure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slowwave.common.errors import Refused, UnusableInput
from slowwave.common.lexicon.labels import shown_relation, shown_type
from slowwave.common.text import short_id
from slowwave.integrations.python_api import OpenMemory

from .configuration import Place
from .options import DryRun, EntityName, ExactEntity, Ids, JsonOption, Shown, Yes
from .printing import Aside, check_that_somebody_can_answer, out, table, undo_line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from slowwave.common.types import DuplicatePair, Outcome
    from slowwave.review.split_plan import SplitPart
    from tasks.entities.names_and_pins import Called, Pinned
    from tasks.people.forgetting import Report
    from tasks.runtime.runs import Run

SHOWN = 50
LISTED = 20
BEYOND = (
    "Outside the store the name may still be in the files that were read, in your shell's history, and on the run "
    "pages of Prefect, whose summaries and forms show statements: delete those with `prefect flow-run delete ID`.",
    "A file that changes is read anew, and brings back what it still says: take the name out of it first.",
)


def duplicates(
    entity: EntityName,
    threshold: Annotated[
        float,
        typer.Option(
            "--threshold", min=0.0, max=1.0, help="How near in meaning two texts that look alike are, 0 to 1."
        ),
    ] = 0.85,
    containment: Annotated[
        float,
        typer.Option(
            "--containment", min=0.0, max=1.0, help="Share of the words of the shorter text that are in the longer one."
        ),
    ] = 0.70,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many pairs to show; all are counted.")] = 1000,
    *,
    place: Place,
) -> Shown:
    """List observations of an entity that look alike. Changes nothing."""
    with OpenMemory(place) as memory:
        report = memory.duplicates(entity, threshold, containment, limit=limit)
    yield report
    if not report.pairs:
        yield f"None of the {report.total_observations} observations of {report.entity} look alike."
        return
    title = f"{report.entity}: {report.duplicates_found} pairs of {report.total_observations} observations look alike"
    rows = [
        (n, side.content, short_id(side.id), _seen(pair) if side is pair.a else "")
        for n, pair in enumerate(report.pairs[:SHOWN], 1)
        for side in (pair.a, pair.b)
    ]
    more = report.duplicates_found - min(SHOWN, len(report.pairs))
    caption = f"… and {more} more pairs: --json" if more > 0 else ""
    yield table(title, ("#", "observation", "id", "alike by"), rows, caption)
    groups = [(n, len(group), [short_id(each.id) for each in group]) for n, group in enumerate(report.clusters, 1)]
    yield table("What belongs together", ("#", "count", "ids"), groups)
    yield f"To let one go: slowwave retire {report.entity!r} ID"
    yield "To leave that to somebody else: the same with --propose; slowwave review list"


def _seen(pair: DuplicatePair) -> str:
    measures = f"{pair.match_type} {pair.similarity_score:.2f}, contained {pair.containment:.2f}"
    return f"{measures}; two readings of one sentence" if pair.one_sentence else measures


def observe(
    entity: Annotated[str, typer.Argument(metavar="ENTITY", help="An entity, by its whole name or an alias.")],
    texts: Annotated[list[str], typer.Argument(help="The observations, one sentence each.")],
    type: Annotated[str | None, typer.Option("--type", help="The type of the entity: person, tool, project …")] = None,
    create: Annotated[bool, typer.Option("--create", help="Create the entity if it is unknown.")] = False,
    *,
    place: Place,
) -> Shown:
    """Add observations to an entity. Known texts are skipped. Exit code 4 if one is refused."""
    from tasks.people.observations import observe as add

    settings = place.settings.ingest
    run = place.run("observe", makes_store=True)
    added = add(run, entity, texts, settings, entity_type=type, create=create)
    yield {"run": run.id, **asdict(added)}
    rows = [(each.content, each.outcome, short_id(each.fact_id or ""), _remark(each)) for each in added.outcomes]
    title = f"{added.entity}{' (new)' if added.is_new else ''}"
    yield table(title, ("observation", "outcome", "id", "remark"), rows)
    if added.redacted:
        yield Aside(f"Secrets were taken out of {added.redacted} of them.")
    if any(each.outcome == "waiting" for each in added.outcomes):
        yield Aside("What waits is decided with: slowwave review list")
    if added.is_new or any(each.outcome in ("added", "confirmed", "waiting") for each in added.outcomes):
        yield undo_line(run.id)
    if any(each.outcome == "refused" for each in added.outcomes):
        raise typer.Exit(Refused.exit_code)


def _remark(each: Outcome) -> str:
    if each.reason:
        return each.reason
    if each.outcome == "confirmed":
        return "It says the same in other words."
    return f"It looks like {short_id(each.similar_to_id)}: both are kept." if each.similar_to_id else ""


def retire(
    entity: EntityName,
    ids: Annotated[list[str], typer.Argument(help="Observations, by the ids that tables show.")],
    propose: Annotated[
        bool, typer.Option("--propose", help="Only propose it; somebody else decides with slowwave review.")
    ] = False,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="With --propose: the reason.")] = "",
    dry_run: DryRun = False,
    *,
    place: Place,
) -> Shown:
    """Retire observations of an entity: they move to the archive, and return with undo."""
    from recall.entities import find_entity
    from recall.proposals import summary_of
    from tasks.people.observations import retire as let_go
    from tasks.people.review import leave_deletion

    meant = find_entity(place.store().snapshot(), datetime.now(UTC), entity)
    run = place.run("retire")
    if propose and not dry_run:
        made, snapshot = leave_deletion(run, meant.id, ids, reason)
        yield {"run": run.id, "proposal": made}
        yield from summary_of(snapshot, made)
        yield f"It waits as {made.id}. Nothing is retired yet."
        yield f"Approve: slowwave review approve {short_id(made.id)}"
        return
    retired = let_go(run, meant.id, ids, dry_run=dry_run)
    facts = [{"id": fact, "content": content} for fact, content in retired.facts]
    done = {"run": None if dry_run else run.id, "dry_run": dry_run, "entity": meant.name, "entity_id": meant.id}
    yield {**done, "retired": facts, "flags_cleared": retired.flags_cleared}
    rows = [(content, short_id(fact)) for fact, content in retired.facts]
    cleared = len(retired.flags_cleared)
    caption = f"{cleared} facts that looked like them are no longer marked as similar" if cleared else ""
    verb = "Would retire" if dry_run else "Retired"
    yield table(f"{verb} observations of {meant.name}", ("observation", "id"), rows, caption)
    yield None if dry_run else undo_line(run.id)


def forget(
    subject: Annotated[
        str, typer.Argument(help="An entity, by any of its names or its id; or else words to find in texts.")
    ],
    also: Annotated[
        list[str] | None, typer.Option("--also", metavar="NAME", help="Another name to erase; may be repeated.")
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option("--name", metavar="NAME", help="Erase exactly this name, even a short one; may be repeated."),
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    *,
    place: Place,
    as_json: JsonOption = False,
) -> Shown:
    """Erase a person or topic from every table, index and older version. There is no undo.

    Exit code 1 if a text or a file still names it.
    """
    from tasks.people.forgetting import find_subject, preview
    from tasks.people.forgetting import forget as erase

    run = place.run("forget")
    meant = find_subject(run, subject, also or (), name or ())
    if dry_run:
        seen = preview(run, meant)
        yield _as_document(seen, dry_run=True)
        yield from _plan_lines(seen)
        return
    if not yes:
        check_that_somebody_can_answer("--dry-run", as_json=as_json)
        for line in _plan_lines(preview(run, meant)):
            out.print(line, markup=False)
        typer.confirm("Erase all of this, for good?", abort=True, err=True)
    report = erase(run, meant)
    yield _as_document(report, dry_run=False)
    if report.plan.entities:
        yield f"Entities that went: {', '.join(report.plan.entities[:LISTED])}"
    yield _row_table(report)
    texts = sum(report.rows_before.values())
    yield f"{report.versions} older versions and {report.files_dropped} files are gone."
    yield f"Texts that named it before: {texts}. Now every text of every version was read, and every file is new."
    if report.words:
        yield f"Longer words that have it inside, and stay: {', '.join(report.words[:LISTED])}"
    yield from (*report.notes, *BEYOND)
    if report.left:
        yield Aside("It is still named in:")
        yield from (Aside(f"  {each}") for each in report.left)
        raise typer.Exit(1)
    yield f"Nothing in the namespace {place.namespace!r} names it any more."


def _as_document(report: Report, *, dry_run: bool) -> dict[str, Any]:
    subject = report.subject
    return {
        "run": report.run,
        "state": report.state,
        "dry_run": dry_run,
        "subject_id": subject.entity_id or None,
        "names": list(subject.names.listed),
        "entities": list(report.plan.entities),
        "tables": {name: {"removed": removed, "struck": struck} for name, removed, struck in _rows(report)},
        "versions_dropped": report.versions,
        "files_dropped": report.files_dropped,
        "texts_before": dict(report.rows_before),
        "longer_words": list(report.words),
        "left": list(report.left),
        "notes": [*report.notes, *BEYOND],
    }


def _plan_lines(report: Report) -> Iterator[RenderableType]:
    subject, plan = report.subject, report.plan
    yield f"Names: {', '.join(subject.names.listed)}"
    if plan.entities:
        more = len(plan.entities) - LISTED
        listed = ", ".join(plan.entities[:LISTED]) + (f" … and {more} more" if more > 0 else "")
        yield f"Entities that go, because they are it or their name holds it: {listed}"
    if subject.is_past:
        yield "Only older versions still have it."
    yield _row_table(report)
    yield f"{report.versions} older versions go too: no run up to now can be undone afterwards, nor can this."
    yield from report.notes


def _rows(report: Report) -> list[tuple[str, int, int]]:
    """Tables with their removed and changed rows."""
    removed, struck = report.plan.removed(), report.plan.changed()
    return [(each, removed.get(each, 0), struck.get(each, 0)) for each in sorted({*removed, *struck})]


def _row_table(report: Report) -> RenderableType:
    rows = [[cell or "" for cell in row] for row in _rows(report)]
    return table("Rows", ("table", "removed", "changed"), rows)


# Corrections of entities: merge, names, pins, splits.


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
    merged = merge(run, loser, winner, dry_run=dry_run, force=force)
    is_done = merged.is_new and not dry_run
    yield {"run": run.id if is_done else None, "dry_run": dry_run, **asdict(merged)}
    if not merged.is_new:
        yield f"{merged.loser} was merged into {merged.winner} before; nothing changed."
        return
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
    if is_done:
        yield undo_line(run.id)


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
        yield undo_line(run.id)


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
        yield undo_line(run.id)


def split() -> None:
    """Split an entity that has too many facts about several topics."""


def split_propose(entity: ExactEntity, plan: PlanOption = None, dry_run: DryRun = False, *, place: Place) -> Shown:
    """Propose a split for a person to approve (slowwave review): by topic, or by your own plan."""
    from recall.report import suggest_split
    from slowwave.review.split_plan import splits_of
    from tasks.people.review import propose

    if dry_run:
        found = suggest_split(place.store().snapshot(), place.settings.split, datetime.now(UTC), entity)
        yield found
        yield found.message
        yield _split_lines(found.splits, place) if found.splits else None
        return
    run = place.run("split-propose")
    made = propose(run, entity, place.settings.split, None if plan is None else _splits(plan))
    yield {"run": run.id, "proposal": made}
    yield made.reason
    yield _split_lines(splits_of(made.ask), place)
    yield f"It waits as {made.id}."
    yield f"Approve: slowwave review approve {short_id(made.id)}"


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

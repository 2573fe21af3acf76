"""Commands by which people look after observations: duplicates, additions, what is retired, restored or erased."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slowwave.common.errors import Refused
from slowwave.common.text import short_id
from slowwave.integrations.python_api import OpenMemory

from .configuration import Place
from .options import DryRun, EntityName, JsonOption, Limit, Shown, Yes
from .printing import Aside, check_that_somebody_can_answer, out, table, undo_line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from slowwave.common.types import Added, DuplicatePair, DuplicateReport, Outcome
    from tasks.entities.retirement import Restored
    from tasks.people.forgetting import Report

SHOWN = 50
LISTED = 20
BEYOND = (
    "Outside the store the name may still be in the files that were read, in your shell's history, and on the run "
    "pages of Prefect, whose summaries and forms show statements: delete those with `prefect flow-run delete ID`.",
    "A file that changes is read anew, and brings back what it still says: take the name out of it first.",
)


def archived(limit: Limit = SHOWN, *, place: Place) -> Shown:
    """List archived facts, the latest first. All of them can be restored."""
    from recall.history import archived as look_up

    total, shown = look_up(place.store().snapshot(), limit)
    yield {"total": total, "facts": shown}
    if not shown:
        yield "No fact is archived. Archived entities: slowwave entities --all"
        return
    rows = [(fact.statement, fact.reason, fact.at, fact.score, short_id(fact.id)) for fact in shown]
    caption = f"…and {total - len(shown)} more: --limit" if total > len(shown) else ""
    yield table("What can be restored", ("fact", "reason", "left", "score", "id"), rows, caption)
    yield "Back with: slowwave restore ID"


def restore(
    ids: Annotated[list[str] | None, typer.Argument(help="Facts, by the ids that tables show.")] = None,
    run: Annotated[str | None, typer.Option("--run", metavar="RUN", help="All facts that this run archived.")] = None,
    dry_run: DryRun = False,
    *,
    place: Place,
) -> Shown:
    """Restore archived facts. Exit code 4 if one is stored again or was replaced."""
    from tasks.entities.retirement import restore as bring_back

    mine = place.run("restore")
    restored = bring_back(mine, ids or (), run, dry_run=dry_run)
    facts = [{"id": fact, "statement": statement} for fact, statement in restored.facts]
    stay = [{"id": fact, "statement": text, "reason": reason} for fact, text, reason in restored.refused]
    yield {"run": None if dry_run else mine.id, "dry_run": dry_run, "restored": facts, "refused": stay}
    yield from _restored_lines(restored, "Would restore" if dry_run else "Restored")
    if not dry_run:
        yield f"Away again with: slowwave undo {mine.id}"
    if restored.refused:
        raise typer.Exit(Refused.exit_code)


def _restored_lines(restored: Restored, title: str) -> Iterator[RenderableType]:
    rows = [(statement, short_id(fact)) for fact, statement in restored.facts[:SHOWN]]
    more = len(restored.facts) - len(rows)
    yield table(f"{title} {len(restored.facts)} facts", ("fact", "id"), rows, f"…and {more} more" if more else "")
    for fact, statement, reason in restored.refused:
        yield Aside(f"Not restored: “{statement}” ({short_id(fact)}). {reason}")


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
    if report.pairs:
        yield from _duplicate_lines(report)
    else:
        yield f"None of the {report.total_observations} observations of {report.entity} look alike."


def _duplicate_lines(report: DuplicateReport) -> Iterator[RenderableType]:
    title = f"{report.entity}: {report.duplicates_found} pairs of {report.total_observations} observations look alike"
    rows = [
        (n, cell, short_id(side.id), _seen(pair) if side is pair.a else "")
        for n, pair in enumerate(report.pairs[:SHOWN], 1)
        for side, cell in ((pair.a, pair.a.content), (pair.b, pair.b.content))
    ]
    more = report.duplicates_found - min(SHOWN, len(report.pairs))
    caption = f"… and {more} more pairs: --json" if more > 0 else ""
    yield table(title, ("#", "observation", "id", "alike by"), rows, caption)
    groups = [(n, len(group), ", ".join(short_id(each.id) for each in group[:12]) + (" …" if len(group) > 12 else ""))
              for n, group in enumerate(report.clusters[:SHOWN], 1)]  # fmt: skip
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
    yield from _added_lines(added)
    if added.is_new or any(each.outcome in ("added", "confirmed", "waiting") for each in added.outcomes):
        yield undo_line(run.id, run.namespace)
    if any(each.outcome == "refused" for each in added.outcomes):
        raise typer.Exit(Refused.exit_code)


def _added_lines(added: Added) -> Iterator[RenderableType]:
    rows = [(each.content, each.outcome, short_id(each.fact_id or ""), _remark(each)) for each in added.outcomes]
    title = f"{added.entity}{' (new)' if added.is_new else ''}"
    yield table(title, ("observation", "outcome", "id", "remark"), rows)
    if added.redacted:
        yield Aside(f"Secrets were taken out of {added.redacted} of them.")
    if any(each.outcome == "waiting" for each in added.outcomes):
        yield Aside("What waits is decided with: slowwave review list")


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
    yield None if dry_run else undo_line(run.id, run.namespace)


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
    yield from _proof_lines(report, place.namespace)
    if report.left:
        raise typer.Exit(1)


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


def _proof_lines(report: Report, namespace: str) -> Iterator[RenderableType]:
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
        yield from (Aside(f"  {place}") for place in report.left)
    else:
        yield f"Nothing in the namespace {namespace!r} names it any more."

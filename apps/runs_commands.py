"""Commands about runs and the state of the store: what ran, what can come back, undo, doctor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from slowwave.common.errors import UnusableInput
from slowwave.common.text import short_id
from slowwave.common.timestamps import in_utc

from .configuration import Place
from .options import DryRun, Ids, JsonOption, Limit, Shown, Yes
from .printing import Whole, check_that_somebody_can_answer, out, printable, table, undo_line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from storage.doctor import Defect

HEAD = ("when", "flow", "state", "took", "calls", "dollars")
WIDTHS = ("<16", "<21", "<11", ">8", ">6", ">8")
FOUND = ("check", "table", "row", "what")
SHOWN = 50


def runs(
    run: Annotated[
        str | None, typer.Argument(help="The id of a run, or its beginning: show this run in detail.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="How many to show; a night or a backfill counts as one.")
    ] = 20,
    end: Annotated[
        bool,
        typer.Option("--end", help="Mark RUN as ended because its machine is gone, so that it blocks no other run."),
    ] = False,
    *,
    place: Place,
) -> Shown:
    """List the runs with their changes and costs, newest first."""
    from recall.history import story_of
    from recall.overview import list_runs, run_record

    from .knowledge_commands import story_lines

    if end:
        if run is None:
            raise UnusableInput("--end needs the run that has ended.", "Name it: slowwave runs RUN --end.")
        from tasks.runtime.runs import end_run

        run = end_run(place.store(), run, datetime.now(UTC))
    snapshot = place.store().snapshot()
    if run is not None:
        found = run_record(snapshot, run)
        yield found
        yield from story_lines(story_of(snapshot, found["id"]), place.locale)
        yield Whole(_way_back(found))
        return
    listed = list_runs(snapshot, limit)
    yield {"runs": listed}
    yield Text(_line(HEAD), style="bold cyan")
    yield from (line for each in listed for line in _lines_of(each))


def _lines_of(run: Mapping[str, Any]) -> Iterator[RenderableType]:
    """A line with when and cost; then what the run changed, if anything, and its id."""
    indent = "  " * run["depth"]
    yield _line(_cells(run, indent))
    if changed := ", ".join(run["effects"]):
        edge = f"  {indent}"
        yield "\n".join(wrap(printable(changed), out.width, initial_indent=edge, subsequent_indent=edge))
    label = f"{run['id']}, imported" if run["is_imported"] else run["id"]
    yield Text(f"  {indent}{printable(label)}", style="dim")


def _line(cells: Sequence[str]) -> str:
    return "  ".join(f"{cell:{width}}" for cell, width in zip(cells, WIDTHS, strict=False)).rstrip()


def _cells(run: Mapping[str, Any], indent: str = "") -> tuple[str, str, str, str, str, str]:
    began: datetime | None = run["started_at"]
    has_paid = bool(run["calls"])
    return (
        f"{began:%Y-%m-%d %H:%M}" if began else "",
        f"{indent}{printable(run['flow'] or '')} {_window(run['window'])}".rstrip(),
        run["state"] or "",
        duration(run["took_s"]),
        f"{run['calls']:,}" if has_paid else "",
        f"{run['usd'] or 0.0:.4f}" if has_paid else "",
    )


def _window(window: Mapping[str, str] | None) -> str:
    """The month that a run read, or the day with which its time began."""
    if window is None:
        return ""
    since, until = (in_utc(datetime.fromisoformat(window[end])) for end in ("since", "until"))
    from slowwave.reading.ingestion.windows import window_name  # imports Polars

    return window_name(since, until)


def duration(seconds: float | None) -> str:
    """A time as people say it: 0.4 s, 12 s, 3 min, 2 h 5 min."""
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _way_back(run: Mapping[str, Any]) -> str:
    if run["state"] == "undone":
        return "It was taken back."
    if run["is_imported"]:
        return "It ran elsewhere and came with an export: undo does not reach it."
    if not run["commits"]:
        return "It changed nothing."
    return Whole(f"Take it back: slowwave undo {run['id']}")


def undo(
    run: Annotated[str, typer.Argument(help="The id of the run, or its beginning; see `slowwave runs`.")],
    cascade: Annotated[bool, typer.Option("--cascade", help="Also undo later runs that depend on it.")] = False,
    dry_run: DryRun = False,
    *,
    place: Place,
) -> Shown:
    """Undo everything that a run changed. An undo is a run, too, and can be undone."""
    from tasks.people.reporting import take_back

    own = place.run("undo")
    report = take_back(own, run, cascade=cascade, dry_run=dry_run)
    yield {**asdict(report), "dry_run": dry_run}
    yield f"{'Would take back' if dry_run else 'Took back'} {', '.join(report.runs)}."
    yield table("Rows", ("table", "put back", "removed"), report.rows)
    if report.put_back.get("proposals") and not dry_run:
        yield "What was decided in it waits for a person again: slowwave review list"
    yield None if dry_run else undo_line(own.id)


def archived(limit: Limit = SHOWN, *, place: Place) -> Shown:
    """List archived facts, the latest first. All of them can be restored."""
    from recall.history import archived as look_up

    total, shown = look_up(place.store().snapshot(), limit)
    yield {"total": total, "facts": shown}
    if not shown:
        yield "No fact is archived. Archived entities: slowwave entities --all"
        return
    rows = [(fact["statement"], fact["reason"], fact["at"], short_id(fact["id"])) for fact in shown]
    caption = f"…and {total - len(shown)} more: --limit" if total > len(shown) else ""
    yield table("What can be restored", ("fact", "reason", "left", "id"), rows, caption)
    yield "Back with: slowwave restore ID"


def restore(ids: Ids, dry_run: DryRun = False, *, place: Place) -> Shown:
    """Restore archived facts, all or none. Exit code 4 if one is stored again or was replaced."""
    from tasks.entities.retirement import restore as bring_back

    mine = place.run("restore")
    restored = bring_back(mine, ids, dry_run=dry_run)
    facts = [{"id": fact, "statement": statement} for fact, statement in restored]
    yield {"run": None if dry_run else mine.id, "dry_run": dry_run, "restored": facts}
    rows = [(statement, short_id(fact)) for fact, statement in restored]
    yield table("Would restore" if dry_run else "Restored", ("fact", "id"), rows)
    yield None if dry_run else undo_line(mine.id)


def doctor(
    repair: Annotated[
        bool, typer.Option("--repair", help="Repair what can be repaired, in one commit that can be undone.")
    ] = False,
    yes: Yes = False,
    *,
    place: Place,
    as_json: JsonOption = False,
) -> Shown:
    """Check the store for damage, such as keys that occur twice. Exit code 1 if any is left.

    --repair first shows the repairs, and asks before it makes them.
    """
    from storage.doctor import BY_HAND, LOST, REPORTED, UNREADABLE, examine, look, mend_head
    from storage.doctor import repair as mend
    from storage.rows import new_run_id

    mended: tuple[Defect, ...] = ()
    run = new_run_id("doctor")
    if repair and not yes:
        check_that_somebody_can_answer("`slowwave doctor`", as_json=as_json)
        defects = tuple(each for each in look(place.uri, place.namespace) if each.check not in BY_HAND)
        if repair := bool(defects):
            out.print(table("What would be mended", FOUND, _rows(defects)))
            if any(each.check == UNREADABLE for each in defects):
                out.print("Tables that cannot be read go back to an earlier state, and what later runs did is lost.")
            typer.confirm("Mend this?", abort=True, err=True)
    if repair:
        mended = mend_head(place.uri, place.namespace)
        mended += mend(place.attached(), run, datetime.now(UTC))
    left = examine(place.attached())
    yield {"mended": mended, "findings": left}
    rows = _rows(f for f in mended if f.check in REPORTED and f.check != LOST)
    if rows:
        yield table("Mended", FOUND, rows)
    if lost := [f.row_id for f in mended if f.check == LOST]:
        yield (
            f"{len(lost)} runs lost what they did. Run them again as you did the first time (a night or a "
            "backfill also does its parts): what a model was paid for is kept."
        )
        yield from (Whole(f"  slowwave runs {lost_run}") for lost_run in lost)
    if left:
        yield table("Findings", FOUND, _rows(left))
    else:
        yield f"Healthy{f'; {len(mended)} findings mended' if mended else ''}."
    if mended and not rows:  # the repair of damage cannot be undone
        yield undo_line(run)
    if left:
        raise typer.Exit(1)


def _rows(defects: Iterable[Defect]) -> list[tuple[str, str, str, str]]:
    return [(each.check, each.table, each.row_id, each.detail) for each in defects]

"""How results look in a terminal: Rich tables on stdout, progress and messages on stderr, or one JSON document."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import typer
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, JustifyMethod, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from slowwave.common.errors import BudgetReached, UnusableInput
from slowwave.common.text import readable

if TYPE_CHECKING:
    from slowwave.common.types import RecalledFact

NUMBERS = (
    "#", "count", "score", "confidence", "commits", "calls", "usd", "threshold", "reads", "pairs", "importance",
    "messages", "facts", "topics", "version", "tokens_in", "tokens_out", "mean length", "put back", "removed",
    "changed", "dollars", "relations away", "cosine", "rate", "probability",
)  # fmt: skip

WHOLE = ("run", "id", "when", "valid", "date", "said", "at", "last", "last seen", "last read", *NUMBERS)
"""Columns that are never wrapped."""
ONE_LINE = 100
"""Columns from which on each fact is one line, cut where it is longer; a narrower terminal wraps it."""
LEAST_WRAPPED = 12
"""Characters that a grid needs for each column that is wrapped."""
BESIDE = 3
"""What stands beside a wide text takes at most this part of the terminal on either side."""
LISTED_ISSUES = 20

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)


def printable(text: str) -> str:
    """The text without terminal escapes, control characters and invisible marks of direction."""
    return _HIDDEN.sub("", readable(text))


class SafeConsole(Console):
    """A console that shows stored text as text: its own styles are all the codes that reach the terminal."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The parts of a thing, each as it can be printed."""
        for part in super().render(renderable, options):
            is_plain = part.control or (part.text.isascii() and part.text.isprintable())
            yield part if is_plain else Segment(printable(part.text), part.style)


out = SafeConsole(highlight=False, emoji=False)
err = SafeConsole(stderr=True, highlight=False, emoji=False)


class Aside(str):
    """A line on standard error: it is no part of the answer."""


class Whole(str):
    """A line that is not broken at the width of the terminal, such as a command to copy."""


def show(parts: Iterator[Any], as_json: bool, place: str = "") -> None:
    """Print what a command yields: the first part as JSON, or all others for a person; None is nothing.

    Where it names other commands, a line says that they need the options of this one for its `place`.
    """
    document = next(parts)
    if as_json:
        print_json(document)
    names_command = False
    try:
        for part in parts:
            if as_json or part is None:
                continue
            terminal, is_line = err if isinstance(part, Aside) else out, isinstance(part, str)
            terminal.print(str(part) if is_line else part, markup=False, soft_wrap=isinstance(part, Whole))
            # a line that tells stored text, as a block does, names no command of ours
            names_command = names_command or (is_line and "\n" not in part and "slowwave " in part)
    finally:  # also where the command ends with an exit code
        if names_command and place:
            err.print(f"Commands named here need {place} too.", markup=False, soft_wrap=True)


def print_json(document: Any) -> None:
    """Print the document of `--json`; control characters of a terminal become JSON escapes."""
    takes_unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    print(json_text(document, takes_unicode))


def json_text(document: Any, takes_unicode: bool = True) -> str:
    """The document as JSON in lines; characters that nobody sees, or a terminal would act on, become escapes."""
    text = json.dumps(document, default=_plain, ensure_ascii=not takes_unicode, indent=2)
    return _HIDDEN.sub(lambda hidden: json.dumps(hidden[0])[1:-1], text)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, set | frozenset | tuple):
        return sorted(value)
    if hasattr(value, "as_json"):
        return value.as_json()
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], caption: str = "") -> RenderableType:
    """A table under its title, or the word none; stored text is printed as text, never as markup.

    Columns in which nothing stands are left out. Where the terminal is too narrow, each row is a block of lines.
    """
    cells = [[printable(shown(cell)) for cell in row] for row in rows]
    filled = [place for place in range(len(columns)) if any(row[place] for row in cells)]
    names = [columns[place] for place in filled]
    cells = [[row[place] for place in filled] for row in cells]
    lines = [Text(title, style="bold")] if title else []
    made = (_grid if _has_room(names, cells) else _blocks)(names, cells) if cells else Text("none", style="dim")
    return Group(*lines, made, *([Text(caption, style="dim")] if caption else []))


def three_columns(
    title: str, rows: Sequence[tuple[str, ...]], caption: str = "", is_cut: bool | None = False
) -> RenderableType:
    """Rows of three cells with a wide middle one: wrapped, or cut; None cuts them on a wide terminal alone."""
    is_cut = out.width >= ONE_LINE if is_cut is None else is_cut
    cells = [[printable(cell) for cell in row] for row in rows]
    made = Table.grid(padding=(0, 1), expand=True)
    used = [place for place in range(3) if place == 1 or any(row[place] for row in cells)]
    for place in used:
        if place == 1:
            made.add_column(ratio=1, no_wrap=is_cut, overflow="ellipsis" if is_cut else "fold")
        else:  # without a width rich would take it from the text, and then from all
            width = min(max(cell_len(row[place]) for row in cells), out.width // BESIDE)
            made.add_column(justify="left" if place else "right", style="dim", no_wrap=True, width=width)
    for row in cells:
        made.add_row(*(Text(row[place]) for place in used))
    parts = [Text(printable(title), style="bold")] if title else []
    return Group(*parts, made, *([Text(caption, style="dim")] if caption else []))


def _has_room(names: Sequence[str], cells: Sequence[Sequence[str]]) -> bool:
    """Whether a grid leaves each column that wraps room for a word or two."""
    columns = zip(names, *cells, strict=True)
    widths = [max(cell_len(line) for cell in column for line in cell.split("\n")) for column in columns]
    kept = [width if name in WHOLE else min(width, LEAST_WRAPPED) for name, width in zip(names, widths, strict=True)]
    return len(names) < 3 or sum(kept) + 3 * len(kept) + 1 <= out.width


def _grid(names: Sequence[str], cells: Sequence[Sequence[str]]) -> RenderableType:
    made = Table(header_style="bold cyan", show_header=any(names))
    for name in names:
        justify: JustifyMethod = "right" if name in NUMBERS else "left"
        made.add_column(name.replace("_", " "), overflow="fold", justify=justify, no_wrap=name in WHOLE)
    for row in cells:
        made.add_row(*map(Text, row))
    return made


def _blocks(names: Sequence[str], cells: Sequence[Sequence[str]]) -> RenderableType:
    made = Table.grid(padding=(0, 2, 0, 0))
    made.add_column(style="bold cyan", no_wrap=True)
    made.add_column(overflow="fold")
    for n, row in enumerate(cells):
        if n:
            made.add_row()
        for name, cell in zip(names, row, strict=True):
            if cell:
                made.add_row(Text(name.replace("_", " ")), Text(cell))
    return made


def shown(value: Any) -> str:
    """A cell as a person reads it: days for midnight times, minutes otherwise, two decimals, yes or no, or nothing."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d}" if (value.hour, value.minute) == (0, 0) else f"{value:%Y-%m-%d %H:%M}"
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, list | tuple):
        return ", ".join(map(shown, value))
    return str(value)


def validity(start: datetime | None, end: datetime | None, is_active: bool = True) -> str:
    """`since 2026-03-01` or `2026-03-01 → 2026-05-02`; for a retired fact without an end `from 2026-03-01`."""
    if end is None:
        return f"{'since' if is_active else 'from'} {start:%Y-%m-%d}" if start else ""
    return f"{start:%Y-%m-%d} → {end:%Y-%m-%d}" if start else f"until {end:%Y-%m-%d}"


def marked_statement(fact: RecalledFact, at: datetime) -> str:
    """A statement with its warnings: no longer valid at that time, or disputed."""
    marks = []
    if fact.valid_to is not None and fact.valid_to <= at:
        marks.append("(no longer)")
    if fact.conflicts_with:
        marks.append(f"(disputed by {'; '.join(f'“{other.statement}”' for other in fact.conflicts_with)})")
    return " ".join([fact.statement, *marks])


def run_title(summary: Mapping[str, Any]) -> str:
    """Which run this was and how it ended; a dry run, or one that made no store, is kept nowhere and has no name."""
    if summary.get("dry_run"):
        return "Dry run"
    return "No run" if summary["run"] is None else f"Run {summary['run']}: {summary['state']}"


def count_table(summary: Mapping[str, Any]) -> RenderableType:
    """Which run this was, and what it counted, if anything."""
    from slowwave.common.run_counts import shown_counts  # `slowwave --help` counts nothing

    counts, title = shown_counts(summary["counts"]), run_title(summary)
    return table(title, ("what", "count"), list(counts.items())) if counts else Text(printable(title), style="bold")


def issue_lines(issues: Sequence[str]) -> Iterator[str]:
    """The first losses, omissions and changes of form in the input."""
    yield from (f"  {issue}" for issue in issues[:LISTED_ISSUES])
    if len(issues) > LISTED_ISSUES:
        yield f"  … and {len(issues) - LISTED_ISSUES} more; see --json"


def call_line(llm: Mapping[str, Any]) -> str | None:
    """Which model was asked and what that cost, if any was."""
    if not (llm["calls"] or llm["from ledger"]):
        return None
    return f"{llm['model']}: {llm['calls']} calls, {llm['from ledger']} from the ledger, {llm['usd']:.4f} dollars"


def note_lines(summary: Mapping[str, Any]) -> Iterator[str]:
    """The errors and the notes of a run."""
    yield from (Aside(f"  {error}") for error in summary["errors"])
    yield from summary["notes"]


def end(summary: Mapping[str, Any], done: str, undone: str) -> None:
    """Leave with the code that says why a run left something undone; return where it did not."""
    if summary["state"] == "stopped":
        err.print(summary.get("stopped_by") or "The budget is spent.", markup=False)
        err.print(f"What was {done} is kept. Run the same command again to go on.")
        raise typer.Exit(BudgetReached.exit_code)
    if summary["state"] == "incomplete":
        err.print(f"Some {undone} could not be {done}; run the same command again to try them once more.")
        raise typer.Exit(1)


def check_that_somebody_can_answer(look_first: str, *, as_json: bool) -> None:
    """Raise where no person can confirm; `look_first` is the command that shows the effect."""
    if as_json or not sys.stdin.isatty():
        raise UnusableInput("No terminal is there to confirm this.", f"Say --yes, or look first with {look_first}.")


@contextmanager
def progress(quiet: bool = False) -> Iterator[None]:
    """Show on a terminal how far a flow is: a bar per stage."""
    # reading commands need neither
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from tasks.runtime.engine import watched_by

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err, transient=True, disable=quiet or not err.is_terminal) as bars:
        stages: dict[str, Any] = {}

        def watch(stage: str, done: int, total: int | None) -> None:
            if stage not in stages:
                stages[stage] = bars.add_task(stage, total=total)
            bars.update(stages[stage], completed=done, total=total)

        with watched_by(watch):
            yield


def undo_line(run: str) -> Whole:
    """The command that undoes a run."""
    return Whole(f"Back with: slowwave undo {run}")

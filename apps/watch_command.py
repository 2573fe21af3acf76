"""The command that watches a folder, for those who run no Prefect."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from slowwave.errors import SlowwaveError, UnusableInput

from .configuration import with_flags
from .options import JsonOption, MaxCallsOption, MaxTokensOption, MaxUsdOption, NamespaceOption, Place, StoreOption
from .printing import end, err, out, print_json, progress, show_issues

LEAST_PAUSE_S = 1.0


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command()(watch)


def watch(
    folder: Annotated[Path, typer.Argument(help="The folder in which files arrive.", show_default=False)],
    once: Annotated[bool, typer.Option("--once", help="Look once and stop.")] = False,
    every: Annotated[float, typer.Option("--every", metavar="SECONDS", help="How often to look.")] = 30.0,
    settle: Annotated[
        float, typer.Option("--settle", metavar="SECONDS", help="Read a file when it has not changed for so long.")
    ] = 20.0,
    move: Annotated[
        bool, typer.Option("--move", help="Move what was read to done/, what is unusable to failed/.")
    ] = False,
    by_folder: Annotated[bool, typer.Option("--by-folder", help="A folder in it names the namespace.")] = False,
    llm: Annotated[
        str | None,
        typer.Option("--llm", metavar="PROVIDER/MODEL", help="Who extracts; 'rules' needs no key.", show_default=False),
    ] = None,
    max_usd: MaxUsdOption = None,
    max_calls: MaxCallsOption = None,
    max_tokens: MaxTokensOption = None,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Ingest what is new or has changed in a folder, until Ctrl-C. Budgets are those of one look.

    With --once exit code 1 if a file was unusable or something could not be read, 3 if a budget was spent.
    """
    if as_json and not once:
        raise UnusableInput("--json gives one document, and watching has no end.", "Add --once.")
    if every < LEAST_PAUSE_S or settle < 0:
        raise UnusableInput("--every is at least 1 second, and --settle not negative.")
    place = Place.of(store, namespace)
    flags = {"model": llm, "max_usd": max_usd, "max_calls": max_calls, "max_tokens": max_tokens}
    settings = with_flags("ingest", place.kept(place.settings.ingest), flags).ingest
    taken: dict[str, Any] = {
        "folder": str(folder),
        "namespace": namespace,
        "store": place.uri,
        "settle_s": settle,
        "afterwards": "move" if move else "stay",
        "by_folder": by_folder,
        "settings": settings,
        "embedder": place.settings.embedder,
    }
    if once:
        summary = _look(taken, quiet=as_json)
        _show(summary, settle, as_json=as_json)
        if summary["waiting"] and not as_json:
            out.print("Run the same command again after that time, or with a shorter --settle.", soft_wrap=True)
        _leave(summary)
        return
    err.print(f"Watching {folder} every {every:g} seconds. Stop with Ctrl-C.", markup=False)
    _keep_looking(taken, every)


def _look(taken: dict[str, Any], *, quiet: bool) -> dict[str, Any]:
    from flows.inbox import inbox

    with progress(quiet=quiet):
        summary: dict[str, Any] = asyncio.run(inbox(**taken))
    return summary


def _keep_looking(taken: dict[str, Any], every: float) -> None:
    """Look again whenever a file has changed or one was waiting; errors are shown, and tried again."""
    from tasks.ingest.inbox import listed

    seen: object = None
    while True:
        now = listed(taken["folder"], taken["namespace"], by_folder=taken["by_folder"])
        if now != seen:
            try:
                summary = _look(taken, quiet=False)
                seen = None if summary["waiting"] or summary["left"] else now
                if summary["files"]:
                    _show(summary, taken["settle_s"], as_json=False)
            except UnusableInput:
                raise
            except SlowwaveError as error:
                err.print(str(error), markup=False, style="red")
        time.sleep(every)


def _show(summary: dict[str, Any], settle_s: float, *, as_json: bool) -> None:
    if as_json:
        print_json(summary)
        return
    for each in summary["files"]:
        if each["outcome"] not in ("known", "passed over"):
            is_named = each["file"] in each["reason"]  # as most reasons begin with the file
            reason = each["reason"] if is_named else f"{each['file']}: {each['reason']}".removesuffix(": ")
            out.print(f"{each['outcome']}: {reason}", markup=False, soft_wrap=True)
    show_issues(summary["issues"], out)
    counts = ("read", "known", "unusable", "waiting", "passed over")
    totals = ", ".join(f"{summary[what]} {what}" for what in counts if summary[what] or what != "passed over")
    out.print(f"{totals}. Runs: {', '.join(summary['runs']) or 'none'}.", markup=False)
    if waiting := summary["waiting"]:
        files = "1 file waits: it was" if waiting == 1 else f"{waiting} files wait: they were"
        out.print(f"{files} written, moved, copied or given other rights less than {settle_s:g} s ago.", soft_wrap=True)


def _leave(summary: dict[str, Any]) -> None:
    """Exit with the code for unfinished work; return if there is none."""
    if summary["state"] == "incomplete" and summary["unusable"]:
        count = summary["unusable"]
        err.print(f"{count} file{'s' * (count > 1)} could not be used; the others were read.")
        raise typer.Exit(1)
    end(summary, "extracted", "messages")

"""The command that lets many namespaces sleep."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, cast

import typer

from slowwave.settings import FleetSettings

from .configuration import parse_settings
from .maintain_commands import DryRunOption, GateOption, LlmOption, chosen, nightly_settings
from .options import JsonOption, MaxCallsOption, MaxUsdOption, Place, StoreOption
from .printing import end, out, print_json, progress, table

COLUMNS = ("namespace", "state", "calls", "dollars", "changed")


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command()(fleet)


def fleet(
    phase: Annotated[
        list[str] | None, typer.Option("--phase", help="Phases of the night; several times; all unless given.")
    ] = None,
    runner: Annotated[
        str | None, typer.Option("--runner", help="threads, or dask for a cluster under Prefect.", show_default=False)
    ] = None,
    address: Annotated[
        str | None, typer.Option("--address", help="The cluster's scheduler: tcp://host:8786.", show_default=False)
    ] = None,
    width: Annotated[
        int | None, typer.Option("--width", min=1, help="So many namespaces at once.", show_default=False)
    ] = None,
    llm: LlmOption = None,
    max_usd: MaxUsdOption = None,
    max_calls: MaxCallsOption = None,
    gate: GateOption = None,
    dry_run: DryRunOption = False,
    store: StoreOption = None,
    namespace: Annotated[
        str, typer.Option("--namespace", metavar="PATTERN", help="Which memories: a pattern such as 'tenant-*'.")
    ] = "*",
    as_json: JsonOption = False,
) -> None:
    """One night for each of many namespaces, side by side. Budgets are those of each namespace."""
    from flows.fleet import fleet as flow
    from flows.sleep import NIGHT

    place = Place.of(store, namespace)
    nightly = nightly_settings(place, {"model": llm, "max_usd": max_usd, "max_calls": max_calls}, gate)
    flags = {"runner": runner, "address": address, "width": width}
    given = {name: value for name, value in flags.items() if value is not None}
    own = parse_settings({"fleet": place.settings.fleet.model_dump() | given}, "the command line").fleet
    settings = FleetSettings(**own.model_dump(), sleep=nightly)
    parameters: dict[str, Any] = {"phases": chosen(phase, NIGHT), "settings": settings, "dry_run": dry_run}
    with progress(quiet=as_json):
        summary: dict[str, Any] = asyncio.run(cast(Any, flow(namespace=namespace, store=place.uri, **parameters)))
    if as_json:
        print_json(summary)
    else:
        rows = [
            (
                row["namespace"],
                row["state"],
                row["calls"],
                f"{row['usd']:.4f}",
                row["error"] or row["changed"] or "nothing",
            )
            for row in summary["namespaces"]
        ]
        more = (
            "A dry run: nothing was written."
            if dry_run
            else "Each is a run of its memory: slowwave runs --namespace NAME"
        )
        out.print(table(f"Fleet: {summary['state']}", COLUMNS, rows, more))
    end(summary, "done", "namespaces")

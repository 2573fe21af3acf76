"""The command that turns a memory to another embedding model."""

from __future__ import annotations

from typing import Annotated

import typer

from .maintain_commands import DryRunOption, run_flow, show_summary
from .options import JsonOption, NamespaceOption, Place, StoreOption


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command()(reembed)


def reembed(
    embedder: Annotated[
        str | None,
        typer.Option(
            "--embedder",
            metavar="PROVIDER/MODEL",
            help="The model to turn to; unless given, that of slowwave.toml.",
            show_default=False,
        ),
    ] = None,
    gate: Annotated[
        bool | None,
        typer.Option("--gate/--no-gate", help="Publish nothing if recall would get worse.", show_default=False),
    ] = None,
    dry_run: DryRunOption = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Turn to another embedding model, without asking a language model; every row at once, or none."""
    from flows.reembed import reembed as flow

    place = Place.of(store, namespace)
    own = place.kept(place.settings.reembed).model_copy(update={"link": place.settings.ingest.extract.note_linking})
    watch = own.gate if gate is None else own.gate.model_copy(update={"enabled": gate})
    parameters = {"embedder": embedder or place.settings.embedder, "dry_run": dry_run}
    summary = run_flow(flow, place, as_json, settings=own.model_copy(update={"gate": watch}), **parameters)
    show_summary(summary, as_json)

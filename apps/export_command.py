"""The command that writes a memory into files."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from .options import JsonOption, NamespaceOption, Place, StoreOption
from .printing import out, print_json, table


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command()(export)


def export(
    folder: Annotated[Path, typer.Argument(help="A new folder.", show_default=False)],
    format: Annotated[
        str, typer.Option("--format", help="jsonl, parquet (both hold everything), graphml or markdown.")
    ] = "jsonl",
    vectors: Annotated[bool, typer.Option("--vectors", help="Vectors as well; else import makes them anew.")] = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Write all that is known into files: leave whenever you like. `slowwave import` reads jsonl and parquet again."""
    from recall.export import export as write

    place = Place.of(store, namespace)
    manifest, where = write(place.store(), folder, format, datetime.now(UTC), with_vectors=vectors)
    if as_json:
        print_json({"path": str(where), **asdict(manifest)})
        return
    rows = [(name, count) for name, count in manifest.counts.items() if count]
    out.print(table(f"{where}, commit {manifest.commit}, as {manifest.format}", ("what", "count"), rows))
    out.print(manifest.holds, markup=False)

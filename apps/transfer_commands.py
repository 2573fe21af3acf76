"""Commands that bring in what other memory systems hold, judge it, or write all that is known as files or a page."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from slowwave.common.errors import UnusableInput
from slowwave.common.run_counts import shown_counts

from .configuration import Place
from .options import DryRun, JsonOption, RequireApproval, Shown
from .printing import Aside, Whole, progress, table, undo_line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tasks.transfer.imports import Imported

SHOWN = 20
OWN = "slowwave"
FromOption = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="SYSTEM",
        help="The system that wrote it: auto, slowwave, mem0, graphiti or mcp-memory.",
    ),
]


def import_(
    path: Annotated[Path, typer.Argument(help="An export: a JSON file, or a folder of them.")],
    system: FromOption = "auto",
    require_approval: RequireApproval = False,
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="FILE|STORE",
            help="The export.key of another store, or its address: trust exports of that store.",
        ),
    ] = None,
    trust: Annotated[bool, typer.Option("--trust", help="Trust an export of slowwave without a key.")] = False,
    dry_run: DryRun = False,
    *,
    place: Place,
    as_json: JsonOption = False,
) -> Shown:
    """Import an export of mem0, Graphiti, Zep, the MCP memory server, or slowwave.

    What `slowwave export` wrote in this store comes back row for row, into a namespace that holds nothing yet. So does
    the export of a store whose --key is given, or one that you --trust. Facts of other systems are judged like new.
    """
    from recall.export import is_own_export
    from tasks.transfer.imports import import_export
    from tasks.transfer.own_exports import import_own

    is_own = system == OWN or (system == "auto" and is_own_export(path))
    if (key or trust) and not is_own:
        raise UnusableInput("--key and --trust are for exports of slowwave.", "Leave them out.")
    if require_approval and is_own:
        raise UnusableInput("A whole memory comes back as it was, or not at all.", "Leave out --require-approval.")
    run = place.run("import", makes_store=True)
    with progress(quiet=as_json):
        if is_own:
            done = import_own(run, path, key=key, trust=trust, dry_run=dry_run)
        else:
            settings = place.settings.ingest
            done = import_export(run, path, settings, system, require_approval=require_approval, dry_run=dry_run)
    yield {**done.as_json(), "dry_run": dry_run}
    yield from _imported_lines(done, dry_run, place.namespace)


def _imported_lines(done: Imported, dry_run: bool, namespace: str) -> Iterator[RenderableType]:
    title = f"{done.path}, an export of {done.system}{': nothing was changed' if dry_run else ''}"
    yield table(title, ("what", "count"), list(shown_counts(done.counts).items()))
    for each in done.skipped[:SHOWN]:
        yield Aside(f"  {f'{each.place}: ' if each.place else ''}{each.reason}")
    if len(done.skipped) > SHOWN:
        yield Aside(f"  … and {len(done.skipped) - SHOWN} more; see --json")
    if done.is_known:
        yield "This file was imported before; nothing changed."
    elif not dry_run:
        if done.counts.get("changes proposed"):
            yield f"{done.counts['changes proposed']} changes wait for a person: slowwave review list"
        yield undo_line(done.run, namespace)


def audit(
    path: Annotated[Path, typer.Argument(help="An export: a JSON file, or a folder of them.", show_default=False)],
    system: FromOption = "auto",
    stale_days: Annotated[int, typer.Option("--stale-days", min=1, help="A fact is stale after this many days.")] = 365,
    *,
    place: Place,
) -> Shown:
    """Audit an export of another memory: duplicates, contradictions, stale facts, secrets."""
    from tasks.transfer.imports import audit_export

    report = audit_export(path, place.settings, system, stale_days=stale_days)
    yield report
    found = [*report["findings"].values()]
    rows = [(each["title"], each["count"], f"{each['rate']:.1%}", f"of {each['total']} {each['of']}") for each in found]
    title = "{path}: {items} items about {entities} entities, an export of {system}".format_map(report)
    yield table(title, ("finding", "count", "rate", "of how many"), rows)
    for each in found:
        if each["examples"]:
            yield table(each["title"], ("where", "example"), [[*example.values()] for example in each["examples"]])


def export(
    folder: Annotated[Path, typer.Argument(help="The folder to create.")],
    format: Annotated[
        str, typer.Option("--format", help="jsonl or parquet (complete), graphml or markdown.")
    ] = "jsonl",
    vectors: Annotated[
        bool, typer.Option("--vectors", help="Also export vectors; without them import computes them again.")
    ] = False,
    *,
    place: Place,
) -> Shown:
    """Export the memory into files. `slowwave import` can read jsonl and parquet again."""
    from recall.export import export as write

    manifest, where = write(place.store(), folder, format, datetime.now(UTC), with_vectors=vectors)
    yield {"path": str(where), **asdict(manifest)}
    rows = [(name, count) for name, count in manifest.counts.items() if count]
    yield table(f"{where}, commit {manifest.commit}, as {manifest.format}", ("what", "count"), rows)
    yield manifest.holds


# The memory as one page


MARK = b"slowwave atlas</title>"
"""An atlas is replaced by a newer one; nothing else ever is."""
LOOKED_AT = 2000  # bytes of a page in which its title is


def atlas(
    file: Annotated[Path, typer.Argument(metavar="FILE.html", help="The page to write.")] = Path("atlas.html"),
    limit: Annotated[
        int,
        typer.Option(
            "--limit", min=1, max=50_000, help="How many entities at most, those with the most relations first."
        ),
    ] = 5_000,
    *,
    place: Place,
) -> Shown:
    """Write the memory as one HTML page: map, time slider and stories."""
    from recall.atlas import AtlasLimits, atlas_data

    if file.is_file() and MARK not in file.read_bytes()[:LOOKED_AT]:
        raise UnusableInput(f"{file} is there, and no atlas.", "Name another file, or remove that one first.")
    limits = AtlasLimits(entities=limit, relations=4 * limit, observations=4 * limit)
    data = atlas_data(place.store(), datetime.now(UTC), limits, place.settings.recall.aspects)
    page = atlas_page(data)
    try:
        file.write_text(page, encoding="utf-8", newline="\n")
    except OSError as error:
        raise UnusableInput(f"{file} cannot be written: {error.strerror}.", "Name another file.") from error
    summary = {
        "path": str(file.absolute()),
        "bytes": len(page.encode()),
        "entities": len(data["entities"]["id"]),
        "facts": len(data["facts"]["id"]),
        "communities": len(data["communities"]),
        "left_out": data["left_out"],
    }
    yield summary
    left = ", ".join(f"{what}: {count:,}" for what, count in data["left_out"].items() if count)
    yield Whole(summary["path"])
    archived = sum(data["entities"]["archived"])  # `slowwave entities` counts the others
    kinds = {
        "entities": summary["entities"] - archived, "archived entities": archived,
        **{kind: summary[kind] for kind in ("facts", "communities")},
    }  # fmt: skip
    counts = ", ".join(f"{kind}: {count:,}" for kind, count in kinds.items() if count or kind != "archived entities")
    yield f"{counts}; {summary['bytes'] / 1e6:.1f} MB{f'; left out: {left}' if left else ''}"


# The atlas as one HTML file: data, style and scripts inside it, and a policy under which it can load nothing else.


FOLDER = Path(__file__).parent / "atlas"
LIBRARIES = ("vendor/graphology.umd.min.js", "vendor/sigma.min.js")
PARTS = ("model.js", "map.js", "panels.js", "atlas.js")
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def atlas_page(data: Mapping[str, Any]) -> str:
    """The page that shows these data; stored text is JSON without markup signs, or escaped."""
    scripts, style = _scripts(), _read("atlas.css")
    environment = Environment(
        loader=FileSystemLoader(FOLDER), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template("page.html").render(
        namespace=data["namespace"],
        policy=_policy(scripts, style),
        style=Markup(style),
        data=Markup(as_inert_json(data)),
        scripts=[Markup(script) for script in scripts],
    )


def atlas_policy() -> str:
    """The policy that stands in the page, for a server that sends it as a header, too."""
    return _policy(_scripts(), _read("atlas.css"))


def _scripts() -> list[str]:
    own = "\n".join(_read(name) for name in PARTS)
    return [*map(_library, LIBRARIES), f'(() => {{\n"use strict";\n{own}}})();']


def as_inert_json(data: Any) -> str:
    """JSON that can stand inside a script element whatever it says."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).translate(_ESCAPES)


def _policy(scripts: list[str], style: str) -> str:
    """Nothing may be loaded, sent or framed; scripts and styles run only if they are these."""
    runs = " ".join(map(_fingerprint, scripts))
    return (
        f"default-src 'none'; script-src {runs}; style-src {_fingerprint(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _fingerprint(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _library(name: str) -> str:
    """A bundled library under its licence, without its pointer to a source map, which a page alone does not have."""
    licence = _read(f"{name.partition('.')[0]}.LICENSE.txt")
    lines = _read(name).splitlines(keepends=True)
    code = "".join(line for line in lines if not line.startswith("//# sourceMappingURL="))
    return f"/*!\n{licence.strip()}\n*/\n{code}"


def _read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")

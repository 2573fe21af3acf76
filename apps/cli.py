"""The command line."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Mapping
from importlib.metadata import version
from typing import Annotated, Any, NoReturn

import typer

from slowwave.errors import SlowwaveError

from . import (
    aspect_commands,
    atlas_command,
    backfill_command,
    community_commands,
    entity_commands,
    export_command,
    fleet_command,
    forget_commands,
    graph_commands,
    import_commands,
    keep_commands,
    maintain_commands,
    mcp_command,
    people_commands,
    read_commands,
    reembed_command,
    report_command,
    review_commands,
    runs_command,
    split_commands,
    watch_command,
    write_commands,
)
from .printing import err, print_json

app = typer.Typer(
    name="slowwave",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="The sleep of an agent's memory.",
)


def _show_version(asked: bool) -> None:
    if asked:
        print(f"slowwave {version('slowwave')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """The sleep of an agent's memory."""


write_commands.register(app)
read_commands.register(app)
maintain_commands.register(app)
keep_commands.register(app)
runs_command.register(app)
people_commands.register(app)
entity_commands.register(app)
forget_commands.register(app)
aspect_commands.register(app)
community_commands.register(app)
graph_commands.register(app)
import_commands.register(app)
export_command.register(app)
atlas_command.register(app)
split_commands.register(app)
report_command.register(app)
review_commands.register(app)
mcp_command.register(app)
reembed_command.register(app)
watch_command.register(app)
backfill_command.register(app)
fleet_command.register(app)


def main() -> None:
    """Run the command; an error of ours is one sentence and an exit code, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # what a terminal or pipe cannot take is shown escaped
    if any(name.startswith("OTEL_") for name in os.environ):
        from tasks.exporting import start_telemetry

        start_telemetry(os.environ)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # whoever stops it wants it stopped as by a person
    try:
        app(prog_name="slowwave")
    except SlowwaveError as error:
        _fail("Error", error.message, error.remedy, error.exit_code, getattr(error, "told", None))
    except Exception as error:
        if os.environ.get("SLOWWAVE_DEBUG"):
            raise
        if plain := _in_plain_words(error):
            _fail("Error", plain.message, plain.remedy, plain.exit_code)
        remedy = "Nothing half-done is visible. SLOWWAVE_DEBUG=1 shows where it happened; please report it."
        _fail(f"Unexpected {type(error).__name__}", str(error), remedy, 1)
    except KeyboardInterrupt:
        err.print("Stopped. What was committed is kept; run the same command again to go on.")
        sys.exit(1)


def _in_plain_words(error: Exception) -> SlowwaveError | None:
    """An error of the disk, or of a Prefect server that is gone, as one that names the way out."""
    from storage.disk import in_plain_words

    if any(f"{kind.__module__}.{kind.__name__}" == "httpx.TransportError" for kind in type(error).__mro__):
        return SlowwaveError(
            f"The Prefect server does not answer: {error}.",
            "What the run had committed is kept, see `slowwave runs`. Start the server again, or unset PREFECT_API_URL "
            "to work without one; then run the same command again.",
        )
    return in_plain_words(error)


def _fail(kind: str, message: str, remedy: str, exit_code: int, told: Mapping[str, Any] | None = None) -> NoReturn:
    """Say it, without secrets: what a terminal shows also ends in the logs of whoever runs the command."""
    from inference.secrets import without_secrets

    message, remedy = without_secrets(message), without_secrets(remedy)
    if "--json" in sys.argv:
        print_json({"error": message, "remedy": remedy, **({"told": told} if told else {})})
    err.print(f"{kind}:", style="bold red", end=" ")
    err.print(message, markup=False, soft_wrap=True)  # a path that is broken in two cannot be copied
    if remedy:
        err.print(remedy, markup=False, soft_wrap=True)
    sys.exit(exit_code)

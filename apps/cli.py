"""The command line."""

from __future__ import annotations

import os
import sys

import typer

from slowwave.errors import SlowwaveError

from . import keep_commands, read_commands, write_commands
from .printing import err, print_json

app = typer.Typer(
    name="slowwave",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="The sleep of an agent's memory.",
)
write_commands.register(app)
read_commands.register(app)
keep_commands.register(app)


def main() -> None:
    """Run the command; an error of ours is one sentence and an exit code, never a traceback."""
    try:
        app()
    except SlowwaveError as error:
        if "--json" in sys.argv:
            print_json({"error": error.message, "remedy": error.remedy})
        err.print(f"[bold red]Error:[/] {_plain(error.message)}")
        if error.remedy:
            err.print(_plain(error.remedy))
        sys.exit(error.exit_code)
    except Exception as error:
        if os.environ.get("SLOWWAVE_DEBUG"):
            raise
        err.print(f"[bold red]Unexpected {type(error).__name__}:[/] {_plain(str(error))}")
        err.print("Nothing half-done is visible. SLOWWAVE_DEBUG=1 shows where it happened; please report it.")
        sys.exit(1)
    except KeyboardInterrupt:
        err.print("Stopped. What was committed is kept; run the same command again to go on.")
        sys.exit(1)


def _plain(text: str) -> str:
    return text.replace("[", r"\[")

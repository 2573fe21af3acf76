"""The command line."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any, NoReturn

import typer

from slowwave.errors import SlowwaveError

from .printing import err, print_json

HELP = "The sleep of an agent's memory."
COMMANDS: Mapping[str, tuple[str, str]] = {
    "demo": (
        "write_commands",
        "Learn from the bundled conversations without a key, show what was learned, and answer three questions.",
    ),
    "init": (
        "write_commands",
        "Write `slowwave.toml`; flags answer its questions without asking.",
    ),
    "ingest": (
        "write_commands",
        "Turn conversations and documents into facts. The same input again does nothing and costs nothing.",
    ),
    "recall": (
        "read_commands",
        "Ranked facts that answer a question, with their validity and source, and passages of messages beside them.",
    ),
    "facts": (
        "read_commands",
        "What is known about an entity.",
    ),
    "history": (
        "read_commands",
        "All versions of what was known: when it held, why it ended, and what came after.",
    ),
    "entities": (
        "read_commands",
        "Who and what is known, most talked about first.",
    ),
    "why": (
        "read_commands",
        "The whole story of a fact: who said it, what was decided about it, what it replaced.",
    ),
    "stats": (
        "read_commands",
        "Counts of everything, and what the models cost.",
    ),
    "quality": (
        "read_commands",
        "What was refused, by which gate and why; and how recalls steer what is kept.",
    ),
    "ask": (
        "ask_command",
        "Answer a question from what is remembered, in one call of a model, with what the answer rests on.",
    ),
    "consolidate": (
        "maintain_commands",
        "Merge facts that say the same, with lineage to the originals. A second run changes nothing and costs nothing.",
    ),
    "steward": (
        "maintain_commands",
        "Score facts by how they are used; let fade what nobody ever recalled; merge what repeats.",
    ),
    "decay": (
        "maintain_commands",
        "Move closed facts and entities of which nothing is known to the archive; let links fade.",
    ),
    "upkeep": (
        "maintain_commands",
        "Compact, index, and drop versions that are older than the days of undo.",
    ),
    "sleep": (
        "maintain_commands",
        "The whole night, phase by phase. A phase after which recall got worse is taken back.",
    ),
    "undo": (
        "keep_commands",
        "Take back everything that a run changed.",
    ),
    "doctor": (
        "keep_commands",
        "Look for duplicate keys, dangling ids, cycles and other damage. Exit code 1 if something is left.",
    ),
    "runs": (
        "runs_command",
        "What ran, what it changed and what it cost; newest first, windows and phases under their run.",
    ),
    "duplicates": (
        "people_commands",
        "Observations of an entity that look alike, for you to judge; nothing is changed.",
    ),
    "observe": (
        "people_commands",
        "State something about an entity. What is known word for word is passed over. "
        "Exit code 4 if a text is refused.",
    ),
    "retire": (
        "people_commands",
        "Let observations of an entity go: out of recall, kept in the archive, and back with undo.",
    ),
    "archived": (
        "people_commands",
        "What faded, was evicted or retired, the latest first; all of it can be restored.",
    ),
    "restore": (
        "people_commands",
        "Bring archived facts back as they were. Exit code 4 if one is known again or another one took its place.",
    ),
    "pin": (
        "entity_commands",
        "Keep facts for ever: they are never pruned, merged into others or evicted.",
    ),
    "forget": (
        "forget_commands",
        "Erase a person or topic from every table, index and older version, and prove it. There is no undo.",
    ),
    "aspects": (
        "aspect_commands",
        "How well each aspect of a life is known, from 0 to 100; or the facts that touch one, strongest first.",
    ),
    "context": (
        "aspect_commands",
        "What is known, as a block of plain text to put before a model: dated sentences, marked as untrusted.",
    ),
    "neighbours": (
        "graph_commands",
        "What an entity is related to, directly and through others.",
    ),
    "path": (
        "graph_commands",
        "How two entities are related: the fewest facts that lead from one to the other.",
    ),
    "find": (
        "graph_commands",
        "Which entities are meant: by their names and descriptions, else by meaning.",
    ),
    "documents": (
        "source_commands",
        "Documents and long pasted texts, each with its newest version; with a name, all versions of one document.",
    ),
    "episodes": (
        "source_commands",
        "The conversations about an entity, newest first, with their summaries.",
    ),
    "import": (
        "import_commands",
        "Bring in what mem0, Graphiti or Zep, or the memory server of MCP exported. The same file again does nothing.",
    ),
    "audit": (
        "import_commands",
        "Say how good another memory is: duplicates, contradictions, what is stale or lost, secrets. Changes nothing.",
    ),
    "export": (
        "export_command",
        "Write all that is known into files: leave whenever you like. `slowwave import` reads jsonl and parquet again.",
    ),
    "atlas": (
        "atlas_command",
        "Draw the memory as one HTML page that needs no network: a map, a time slider, stories, nights and a report.",
    ),
    "report": (
        "report_command",
        "What in the memory wants a person's eye: what should be split, repeats, is stale or suspect. Changes nothing.",
    ),
    "mcp": (
        "mcp_command",
        "Serve agents over MCP: recall, add, review. It runs until the client hangs up, or Ctrl-C.",
    ),
    "reembed": (
        "reembed_command",
        "Turn to another embedding model, without asking a language model; every row at once, or none.",
    ),
    "watch": (
        "watch_command",
        "Ingest what is new or has changed in a folder, until Ctrl-C. Budgets are those of one look.",
    ),
    "backfill": (
        "backfill_command",
        "Extract what was said long ago, window by window, then sleep once. --dry-run estimates what it will cost.",
    ),
    "fleet": (
        "fleet_command",
        "One night for each of many namespaces, side by side. Budgets are those of each namespace.",
    ),
    "entity": (
        "entity_commands",
        "Put entities right: merge, alias, rename, pin.",
    ),
    "communities": (
        "community_commands",
        "What belongs together: names, members, summaries.",
    ),
    "split": (
        "split_commands",
        "Part an entity that holds too much of several topics.",
    ),
    "review": (
        "review_commands",
        "What waits for a person: look, approve, reject, modify.",
    ),
}
"""Each command with its module and first sentence of help; only the module of the called command is imported."""


def app_for(words: Sequence[str]) -> typer.Typer:
    """The command line as far as these words need it: one module, the list of commands, or everything."""
    name = next((word for word in words if not word.startswith("-")), None)
    if name is not None and name in COMMANDS:
        return _app_of([COMMANDS[name][0]])
    if name is None:
        return _overview()
    return whole_app()


@cache
def whole_app() -> typer.Typer:
    """All commands."""
    return _app_of(dict.fromkeys(module for module, _ in COMMANDS.values()))


def __getattr__(name: str) -> typer.Typer:
    if name == "app":
        return whole_app()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _app_of(modules: Iterable[str]) -> typer.Typer:
    made = _empty_app()
    for module in modules:
        import_module(f".{module}", __package__).register(made)
    return made


def _overview() -> typer.Typer:
    """The names of all commands with their help, to be listed; none of them does anything."""
    made = _empty_app()
    for name, (_, sentence) in COMMANDS.items():
        made.command(name, help=sentence)(_listed)
    return made


def _listed() -> None:
    """Stands for a command in the list of commands."""


def _empty_app() -> typer.Typer:
    made = typer.Typer(
        name="slowwave",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
        help=HELP,
    )
    made.callback(help=HELP)(_options)
    return made


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        print(f"slowwave {version('slowwave')}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Options of the command line itself."""


def main() -> None:
    """Run the command; an error of ours is one sentence and an exit code, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # characters that a terminal or pipe cannot take are escaped
    if any(name.startswith("OTEL_") for name in os.environ):
        from tasks.runtime.telemetry import start_telemetry

        start_telemetry(os.environ)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a stop by a process manager is like Ctrl-C
    try:
        app_for(sys.argv[1:])(prog_name="slowwave")
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


def _fail(kind: str, message: str, remedy: str, exit_code: int, details: Mapping[str, Any] | None = None) -> NoReturn:
    """Say it, without secrets: terminal output also ends up in logs."""
    from inference.secrets import without_secrets

    message, remedy = without_secrets(message), without_secrets(remedy)
    if "--json" in sys.argv:
        print_json({"error": message, "remedy": remedy, **({"told": details} if details else {})})
    err.print(f"{kind}:", style="bold red", end=" ")
    err.print(message, markup=False, soft_wrap=True)  # a path that is broken in two cannot be copied
    if remedy:
        err.print(remedy, markup=False, soft_wrap=True)
    sys.exit(exit_code)

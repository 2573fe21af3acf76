"""The command line."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer

from slowwave.common import __version__
from slowwave.common.errors import SlowwaveError

from .printing import err, print_json

HELP = "The sleep of an agent's memory."
COMPLETE = "_SLOWWAVE_COMPLETE"
"""The variable by which the script of a shell asks for completions."""
_SENTENCES: Mapping[str, Mapping[str, str]] = {
    "ingest_commands": {
        "demo": "Ingest the bundled conversations without a key, show what changed, and answer four questions.",
        "init": "Write `slowwave.toml`. It asks a few questions; options answer them in advance.",
        "ingest": "Turn conversations and documents into facts. Known input is skipped and costs nothing.",
        "backfill": "Read old messages, one period after the other, then run a night. --dry-run estimates the cost.",
    },
    "recall_commands": {
        "recall": "Find the facts that answer a question, with validity and source, and passages of messages.",
        "ask": "Answer a question from memory with one model call, and show the facts behind the answer.",
        "context": "Show the facts for a question as a block of text for a prompt, marked as untrusted.",
    },
    "knowledge_commands": {
        "facts": "Show the facts about an entity.",
        "history": "Show all versions of the facts about an entity, with the reason why each ended.",
        "entities": "List the entities, those with the most facts first.",
        "why": "Show the story of a fact: its sources, the decisions about it, and the facts that it replaced.",
        "neighbours": "Show the entities that an entity is related to, directly and through others.",
        "path": "Show how two entities are related: the shortest chain of facts from one to the other.",
        "find": "Find entities by their names and descriptions, or else by meaning.",
        "documents": "List documents; or all versions of one document.",
        "episodes": "List the conversations about an entity, newest first, with their summaries.",
    },
    "overview_commands": {
        "stats": "Show the size of the memory and the cost of the models.",
        "quality": "Show which messages were refused, by which gate and why, and how recalls influence what is kept.",
        "aspects": "Show how much is known about each aspect of a life (0 to 100), or the facts about one.",
        "report": "Report entities to split, duplicates, unread entities and doubtful facts. Changes nothing.",
    },
    "maintain_commands": {
        "consolidate": "Merge facts that say the same, and keep the originals in their history.",
        "steward": "Score facts by their use, archive unused ones, and merge near-duplicates.",
        "decay": "Archive facts that ended long ago and entities without facts; weaken unused links.",
        "upkeep": "Compact the tables, update the indexes, and drop versions that are too old for undo.",
        "sleep": "Run all phases of a night, one after the other. A phase that makes recall worse is undone.",
        "reembed": "Change the embedding model of all rows in one commit. No language model is called.",
        "fleet": "Run a night in each of many namespaces, several at a time. Budgets count for each namespace.",
        "communities": "List communities with names, members and summaries.",
    },
    "runs_commands": {
        "undo": "Undo everything that a run changed. An undo is a run, too, and can be undone.",
        "doctor": "Check the store for damage, such as keys that occur twice. Exit code 1 if any is left.",
        "runs": "List the runs with their changes and costs, newest first.",
    },
    "people_commands": {
        "duplicates": "List observations of an entity that look alike. Changes nothing.",
        "observe": "Add observations to an entity. Known texts are skipped. Exit code 4 if one is refused.",
        "retire": "Retire observations of an entity: they move to the archive, and return with undo.",
        "archived": "List archived facts, the latest first. All of them can be restored.",
        "restore": "Restore archived facts. Exit code 4 if one is stored again or was replaced.",
        "forget": "Erase a person or topic from every table, index and older version. There is no undo.",
    },
    "entity_commands": {
        "pin": "Keep facts for ever: they are never archived, or merged into others.",
        "entity": "Correct entities: merge, alias, rename, pin.",
        "split": "Split an entity that has too many facts about several topics.",
    },
    "review_commands": {
        "review": "Show, approve, reject or modify proposals.",
    },
    "transfer_commands": {
        "import": "Import an export of mem0, Graphiti, Zep, the MCP memory server, or slowwave.",
        "audit": "Audit an export of another memory: duplicates, contradictions, stale facts, secrets.",
        "export": "Export the memory into files. `slowwave import` can read jsonl and parquet again.",
        "atlas": "Write the memory as one HTML page: map, time slider and stories.",
    },
    "server_commands": {
        "up": "Start a Prefect server, all deployments and a worker on this machine, with a night at 03:00 UTC.",
        "down": "Stop what `slowwave up` started on this port.",
        "serve": "Serve the memory as a page in the browser, and to agents over MCP, until Ctrl-C.",
        "mcp": "Serve agents over MCP, until the client disconnects or Ctrl-C.",
    },
}
"""The commands of each module, with the first sentence of their help."""
_GROUPS = ("entity", "communities", "split", "review")
_MODULES = {name: module for module, sentences in _SENTENCES.items() for name in sentences}
COMMANDS = {
    name: (_MODULES[name], _SENTENCES[_MODULES[name]][name]) for name in sorted(_MODULES, key=_GROUPS.__contains__)
}
"""Each command with its module and its sentence, groups last; only the module of the called command is imported."""


def app_for(words: Sequence[str]) -> typer.Typer:
    """The command line as far as these words need it: one module, the list of commands, or everything."""
    name = next((word for word in words if not word.startswith("-")), None)
    if name is not None and name in COMMANDS:
        return _app_of([COMMANDS[name][0]])
    if name is None:
        return _overview()
    return whole_app()


def app_to_complete(environ: Mapping[str, str]) -> typer.Typer:
    """The command line as far as a shell needs it to complete a line: one module, or the list of commands.

    The word under the cursor chooses no module: `up` can become `upkeep`.
    """
    if line := environ.get("_TYPER_COMPLETE_ARGS"):  # zsh and fish: up to the cursor
        words = f"{line}.".split()[:-1]  # the full stop makes a word of the place after a space, too
    else:
        words = environ.get("COMP_WORDS", "").split("\n")[: int(environ.get("COMP_CWORD") or 0)]
    name = next((word for word in words[1:] if word in COMMANDS), None)
    return _app_of([COMMANDS[name][0]]) if name else _overview()


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
    places = {name: place for place, name in enumerate(COMMANDS)}
    made.registered_commands.sort(key=lambda each: places[each.name or ""])
    made.registered_groups.sort(key=lambda each: places[str(each.name)])
    return made


def _overview() -> typer.Typer:
    """The names of all commands with their help, to be listed; none of them does anything."""
    made = _empty_app()
    for name, (_, sentence) in COMMANDS.items():
        made.command(name, help=sentence)(_nothing)
    return made


def _nothing() -> None:
    """Stands for a command in the list of commands."""


def _empty_app() -> typer.Typer:
    made = typer.Typer(
        name="slowwave",
        no_args_is_help=True,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
        help=HELP,
    )
    made.callback(help=HELP)(_options)
    return made


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        print(f"slowwave {__version__}")
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
        made = app_to_complete(os.environ) if COMPLETE in os.environ else app_for(sys.argv[1:])
        made(prog_name="slowwave")
    except SlowwaveError as error:
        _fail("Error", error.message, error.remedy, error.exit_code, getattr(error, "told", None))
    except ImportError as error:
        if os.environ.get("SLOWWAVE_DEBUG"):
            raise
        message = f"A package is missing or broken: {error}."
        _show_error("Error", message, "`slowwave doctor --environment` says which, and how to mend it.", 1)
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

    _show_error(kind, without_secrets(message), without_secrets(remedy), exit_code, details)


def _show_error(
    kind: str, message: str, remedy: str, exit_code: int, details: Mapping[str, Any] | None = None
) -> NoReturn:
    if "--json" in sys.argv:
        print_json({"error": message, "remedy": remedy, **({"told": details} if details else {})})
    err.print(f"{kind}:", style="bold red", end=" ")
    err.print(message, markup=False, soft_wrap=True)  # a path that is broken in two cannot be copied
    if remedy:
        err.print(remedy, markup=False, soft_wrap=True)
    sys.exit(exit_code)

"""The command line."""

from __future__ import annotations

import inspect
import io
import os
import re
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from keyword import iskeyword
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import typer
from rich.markup import escape

from slowwave.common import __version__
from slowwave.common.errors import SlowwaveError

from .printing import err, print_json

HELP = "The sleep of an agent's memory."
COMPLETE = "_SLOWWAVE_COMPLETE"
"""The variable by which the script of a shell asks for completions."""
_COMMANDS = {
    "ingest_commands": "demo init ingest backfill",
    "recall_commands": "recall ask context",
    "knowledge_commands": "facts history entities why neighbours find documents",
    "overview_commands": "stats quality aspects report",
    "maintain_commands": "consolidate steward decay upkeep sleep reembed fleet communities",
    "runs_commands": "undo doctor runs archived restore",
    "people_commands": "duplicates observe retire forget pin entity split",
    "review_commands": "review",
    "transfer_commands": "import export",
    "server_commands": "up down serve mcp",
}
"""The commands of each module: a function has the name of its command, in a group after that of the group."""
GROUPS: Mapping[str, Sequence[str]] = {
    "entity": ("merge", "alias", "rename", "pin"),
    "communities": ("refresh",),
    "split": ("propose",),
    "review": ("list", "show", "approve", "reject"),
}
_MODULES = {name: module for module, names in _COMMANDS.items() for name in names.split()}
COMMANDS = {name: _MODULES[name] for name in sorted(_MODULES, key=[*GROUPS].__contains__)}
"""Each command with its module, groups last; only the module of the called command is imported."""
_DECLARATION = re.compile(
    r'^def (\w+)\((?:(?!^def ).)*?\) -> (?:Shown|None):\n    """(.*?)(?:"""|\n)', re.MULTILINE | re.DOTALL
)
_CODE = re.compile("`([^`]*)`")


def app_for(words: Sequence[str]) -> typer.Typer:
    """The command line as far as these words need it: one command, the list of commands, or everything."""
    name = next((word for word in words if not word.startswith("-")), None)
    if name is not None and name in COMMANDS:
        return _app_of([name])
    if name is None:
        return _overview()
    return whole_app()


def app_to_complete(environ: Mapping[str, str]) -> typer.Typer:
    """The command line as far as a shell needs it to complete a line: one command, or the list of commands.

    The word under the cursor chooses none: `up` can become `upkeep`.
    """
    if line := environ.get("_TYPER_COMPLETE_ARGS"):  # zsh and fish: up to the cursor
        words = f"{line}.".split()[:-1]  # the full stop makes a word of the place after a space, too
    else:
        words = environ.get("COMP_WORDS", "").split("\n")[: int(environ.get("COMP_CWORD") or 0)]
    name = next((word for word in words[1:] if word in COMMANDS), None)
    return _app_of([name]) if name else _overview()


@cache
def whole_app() -> typer.Typer:
    """All commands."""
    return _app_of(COMMANDS)


def __getattr__(name: str) -> typer.Typer:
    if name == "app":
        return whole_app()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _app_of(names: Iterable[str]) -> typer.Typer:
    from .options import command_of

    made = _empty_app()
    for name in names:
        module = import_module(f".{COMMANDS[name]}", __package__)
        function: Callable[..., Any] = getattr(module, _function(name))
        if name not in GROUPS:
            made.command(name)(command_of(function))
            continue
        is_command = bool(inspect.signature(function).parameters)
        group = typer.Typer(no_args_is_help=not is_command, invoke_without_command=is_command)
        group.callback()(function)
        for part in GROUPS[name]:
            group.command(part)(command_of(getattr(module, f"{name}_{part}")))
        made.add_typer(group, name=name)
    return made


def _function(command: str) -> str:
    """The name of its function."""
    return f"{command}_" if iskeyword(command) else command


def _overview() -> typer.Typer:
    """The names of all commands with the first sentences of their docstrings, to be listed; none of them does anything.

    The sentences are read from the sources: importing the modules would take a second.
    """
    try:
        sources = {module: Path(__file__).with_name(f"{module}.py").read_text("utf-8") for module in _COMMANDS}
    except OSError:  # installed without sources
        return whole_app()
    sentences = {
        (module, found[1]): found[2] for module, source in sources.items() for found in _DECLARATION.finditer(source)
    }
    made = _empty_app("rich")  # a parser of Markdown for each sentence would take a tenth of the time
    for name, module in COMMANDS.items():
        sentence = _CODE.sub(r"[markdown.code]\1[/]", escape(sentences[module, _function(name)]))
        made.command(name, help=sentence)(lambda: None)
    return made


def _empty_app(markup: Literal["markdown", "rich"] = "markdown") -> typer.Typer:
    made = typer.Typer(
        name="slowwave", no_args_is_help=True, rich_markup_mode=markup, pretty_exceptions_enable=False, help=HELP
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
        _show_error("Error", message, "`pip check` says which; `pip install --force-reinstall slowwave` mends it.", 1)
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

"""The manual page `share/man/man1/slowwave.1`, from the commands and their help.

click-man cannot read the commands: typer brings a click of its own.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]

from apps.cli import COMPLETE, HELP, app
from apps.configuration import FILE, VARIABLES
from slowwave import __version__

COMMON = ("--store", "--namespace", "--json")
"""Options of most commands, which are listed once."""
AUTOLOADED = """
# zsh reads this file at the first completion, which it also has to answer
[[ $zsh_eval_context[-1] == loadautofunc ]] && _slowwave_completion "$@"
"""
DESCRIPTION = (
    "slowwave is long-term memory for agents: it turns conversations and documents into a temporal knowledge graph in "
    "LanceDB. Each fact says since when and until when it holds, and who said so. Every run can be undone."
)
MEANINGS = {
    "SLOWWAVE_STORE": "The store, where --store is not given.",
    "SLOWWAVE_CONFIG": f"The file of settings; default ./{FILE}.",
    "SLOWWAVE_DEBUG": "If set, unexpected errors are shown with their traceback.",
    "SLOWWAVE_MCP_TOKEN": "The token of the MCP server over HTTP, sixteen characters or more.",
    "SLOWWAVE_SERVE_TOKEN": "The token of the page in the browser, sixteen characters or more.",
    "SLOWWAVE_PERSON": "The name of the person who decides.",
    "SLOWWAVE_DATA": "The folder of the data sets for benchmarks.",
    "SLOWWAVE_PORT": "The port of the Prefect server; default 4200.",
}
MORE_VARIABLES = {
    "ANTHROPIC_API_KEY": "The key of the default language model. Other providers have variables of their own.",
    "PREFECT_API_URL": "The Prefect server. Without one, flows run in this process.",
    "PREFECT_API_AUTH_STRING": "What the Prefect server asks for, as user:password.",
}
FILES = {
    FILE: "Settings, in the current folder. `slowwave init` writes it.",
    "./memory": "The store, where neither --store nor SLOWWAVE_STORE names one.",
}
EXIT_CODES = (
    "Done.", "Failed or incomplete.", "The arguments cannot be used.", "Stopped by the budget; the rest waits.",
    "Refused, by a gate, a lease or a review.",
)  # fmt: skip


def man_page() -> str:
    """The page, in the macros of man(7)."""
    root: Any = typer.main.get_command(app)
    common = {opt: param for param in root.commands["facts"].params for opt in param.opts if opt in COMMON}
    parts = [
        f'.TH SLOWWAVE 1 "" "slowwave {__version__}" "User Commands"',
        ".SH NAME", f"slowwave \\- {_text(HELP)[0].lower()}{_text(HELP)[1:].rstrip('.')}",
        ".SH SYNOPSIS", ".B slowwave", "\\fICOMMAND\\fR [\\fIOPTIONS\\fR] [\\fIARGUMENTS\\fR]",
        ".SH DESCRIPTION", _text(DESCRIPTION),
        ".SH OPTIONS", *_options(root.params),
        ".SS Options of most commands", *_options(common.values()),
        ".SH COMMANDS", *_commands(root, ()),
        ".SH ENVIRONMENT", *_listed({name: MEANINGS[name] for name in VARIABLES} | MORE_VARIABLES),
        ".SH FILES", *_listed(FILES),
        ".SH EXIT STATUS", *_listed({str(code): meaning for code, meaning in enumerate(EXIT_CODES)}),
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


def completion(shell: str) -> str:
    """The script by which this shell completes the words of the command."""
    script = get_completion_script(prog_name="slowwave", complete_var=COMPLETE, shell=shell)
    return f"{script}\n{AUTOLOADED if shell == 'zsh' else ''}"


def _commands(group: Any, names: tuple[str, ...]) -> Iterator[str]:
    for name, command in group.commands.items():
        path = (*names, name)
        arguments = [_argument(each) for each in command.params if each.param_type_name == "argument"]
        yield f'.SS "slowwave {" ".join([*path, *arguments])}"'
        yield from _paragraphs(inspect.cleandoc(command.help or ""))
        yield from _options(each for each in command.params if not set(COMMON) & set(each.opts))
        if hasattr(command, "commands"):
            yield from _commands(command, path)


def _argument(param: Any) -> str:
    name = _text(param.metavar or param.name.upper() + "…" * (param.nargs == -1))
    return name if param.required or name.startswith("[") else f"[{name}]"


def _options(params: Any) -> Iterator[str]:
    for param in params:
        names = [f"\\fB{_text(name)}\\fR" for name in (*param.opts, *param.secondary_opts) if name.startswith("-")]
        if not names:
            if param.help:
                yield from (".TP", f"\\fI{_text(param.metavar or param.name.upper())}\\fR", _text(param.help))
            continue
        has_value = not (param.is_flag or param.count)
        value = f" \\fI{_text(param.metavar or param.opts[0].rpartition('-')[2].upper())}\\fR" if has_value else ""
        yield from (".TP", ", ".join(names) + value, _text(param.help))


def _listed(meanings: dict[str, str]) -> Iterator[str]:
    for name, meaning in meanings.items():
        yield from (".TP", f"\\fB{_text(name)}\\fR", _text(meaning))


def _paragraphs(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(text.split("\n\n")):
        is_code = paragraph.startswith("    ")
        lines = [_text(line) for line in paragraph.splitlines()]
        yield from (".PP",) * (number > 0)
        yield from (".nf", *lines, ".fi") if is_code else (" ".join(lines),)


def _text(text: str) -> str:
    """Text that troff prints as it is: no markup of Markdown, no line that begins with a control character."""
    plain = re.sub(r"`([^`]*)`", r"\1", text).replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", plain, flags=re.MULTILINE)

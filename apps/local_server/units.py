"""The two parts under a service manager: units of systemd and agents of launchd, for one user, started at login."""

from __future__ import annotations

import os
import plistlib
import shlex
from collections.abc import Mapping
from pathlib import Path

from slowwave.errors import UnusableInput

from .parts import PARTS, STOP_WITH, Part, log_file
from .setup import DATABASE, OWN_VARIABLES, PORT, Setup, variables_in

CARRIED = ("XDG_DATA_HOME", "PREFECT_HOME", "SLOWWAVE_CONFIG", "PYTHONPATH")
"""Variables that say where things lie. Keys belong into the file `environment`: units are no secret."""
_UNIT = """\
[Unit]
Description=slowwave: {what}
{after}
[Service]
Type=exec
WorkingDirectory={folder}
{environment}ExecStart={command}
Restart=on-failure
RestartSec=10
# What a stop by hand ends with is no failure.
SuccessExitStatus=130 143
# Only the part itself is asked to stop: the worker ends its runs.
KillMode=mixed
TimeoutStopSec=90

[Install]
WantedBy=default.target
"""
_WHAT: Mapping[Part, str] = {"server": "Prefect server", "worker": "worker and deployments"}


def write_units(setup: Setup, into: Path, working_folder: Path, given: Mapping[str, str]) -> tuple[Path, ...]:
    """Write a unit and an agent for each part; returns the files. `working_folder` is that of `slowwave.toml`."""
    own = setup.folder / OWN_VARIABLES
    if given.get(DATABASE) and variables_in(own).get(DATABASE) != given[DATABASE]:
        remedy = f"Write it into the file {str(own)!r}, or unset it."
        raise UnusableInput(
            f"Services do not see {DATABASE} of your shell, and units are no place for passwords.", remedy
        )
    into.mkdir(parents=True, exist_ok=True)
    carried = {name: given[name] for name in CARRIED if given.get(name)}
    texts = [str(working_folder), *setup.options, *carried.values()]
    if any(not text.isprintable() for text in texts):
        raise UnusableInput("A path has a line break or a control character.", "Rename that folder.")
    files = []
    for part in PARTS:
        files += [into / unit_name(setup, part), into / f"{agent_name(setup, part)}.plist"]
        files[-2].write_text(systemd_unit(setup, part, working_folder, carried), encoding="utf-8")
        files[-1].write_bytes(launchd_agent(setup, part, working_folder, carried))
    return tuple(files)


def unit_name(setup: Setup, part: Part) -> str:
    """The name of a unit; that of another port than the usual one has it in its name."""
    return f"slowwave-{part}{_port(setup)}.service"


def agent_name(setup: Setup, part: Part) -> str:
    """The label of an agent."""
    return f"slowwave.{part}{_port(setup)}"


def _port(setup: Setup) -> str:
    return "" if setup.port == PORT else f"-{setup.port}"


def systemd_unit(setup: Setup, part: Part, working_folder: Path, variables: Mapping[str, str]) -> str:
    """The text of a unit. The worker waits for the server itself, so that a restart of one leaves the other."""
    server = unit_name(setup, "server")
    variables = {**variables, STOP_WITH: f"systemctl --user stop {unit_name(setup, part)}"}
    return _UNIT.format(
        what=_WHAT[part],
        after=f"Wants={server}\nAfter={server}\n" if part == "worker" else "",
        folder=str(working_folder).replace("%", "%%"),
        environment="".join(f"Environment={_quoted(f'{name}={value}')}\n" for name, value in variables.items()),
        command=" ".join(_quoted(word, in_command=True) for word in setup.command(part)),
    )


def _quoted(word: str, *, in_command: bool = False) -> str:
    """A word as systemd reads it: `%` begins a specifier there, and in commands `$` a variable."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped.replace("$", "$$") if in_command else escaped}"'


def launchd_agent(setup: Setup, part: Part, working_folder: Path, variables: Mapping[str, str]) -> bytes:
    """The property list of an agent."""
    log, name = str(log_file(setup, part)), agent_name(setup, part)
    stop_with = f"launchctl bootout gui/{os.getuid()}/{name}"  # launchd would start again what ends by a signal
    return plistlib.dumps(
        {
            "Label": name,
            "ProgramArguments": setup.command(part),
            "WorkingDirectory": str(working_folder),
            "EnvironmentVariables": {**variables, STOP_WITH: stop_with},
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "ThrottleInterval": 10,
            "ExitTimeOut": 90,
            "StandardOutPath": log,
            "StandardErrorPath": log,
        }
    )


def how_to_enable(setup: Setup, files: tuple[Path, ...]) -> tuple[str, ...]:
    """The commands by which a person enables them; nothing is enabled without."""
    units = shlex.join(str(each) for each in files if each.suffix == ".service")
    agents = [each for each in files if each.suffix == ".plist"]
    names = " ".join(unit_name(setup, part) for part in reversed(PARTS))
    return (
        "Linux:",
        f"  systemctl --user enable --now {units}",
        "  loginctl enable-linger          # also while you are not logged in",
        f"  systemctl --user disable --now {names}          # the way back",
        "macOS:",
        *(f"  launchctl bootstrap gui/{os.getuid()} {shlex.quote(str(each))}" for each in agents),
        *(f"  launchctl bootout gui/{os.getuid()}/{each.stem}          # the way back" for each in reversed(agents)),
    )

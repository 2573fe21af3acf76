"""What a local server was asked for, its folder, the environment of its processes, and its deployments."""

from __future__ import annotations

import json
import os
import secrets
import sys
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from dotenv import dotenv_values

from apps.configuration import DEFAULT_STORE, Place
from apps.ingest_commands import backfill_settings
from apps.maintain_commands import nightly_settings
from slowwave.common.errors import UnusableInput
from slowwave.common.installation import project_folder
from slowwave.common.settings import FleetSettings, Group

PORT = 4200
OWN_VARIABLES = "environment"
"""The file of the folder with more variables, such as keys of providers: a start by cron or systemd sees no shell."""

SERVER_PASSWORD, CLIENT_PASSWORD = "PREFECT_SERVER_API_AUTH_STRING", "PREFECT_API_AUTH_STRING"
"""What the server asks for, and what its clients send: `user:password`."""


@dataclass(frozen=True, slots=True)
class Setup:
    """Which memory, which folders are read every hour, and where the server listens; its paths are absolute."""

    store: str
    namespace: str = "default"
    watched: tuple[str, ...] = ()
    port: int = PORT

    @property
    def folder(self) -> Path:
        """Database, logs and process ids, one folder for each port."""
        from platformdirs import user_data_path

        return user_data_path("slowwave", appauthor=False) / f"server-{self.port}"

    @property
    def page(self) -> str:
        """The address of the UI."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def password_file(self) -> Path:
        """What the server asks everybody for: other programs of this machine and web pages reach its port, too."""
        return self.folder / "password"

    @property
    def options(self) -> list[str]:
        """The options of `slowwave up` that ask for the same."""
        watched = [part for folder in self.watched for part in ("--watch", folder)]
        return ["--port", str(self.port), "--store", self.store, "--namespace", self.namespace, *watched]

    def command(self, part: str) -> list[str]:
        """The command that becomes a part; `-P`: no file of the working folder is imported."""
        return [sys.executable, "-P", "-m", "slowwave", "up", "--part", part, *self.options]


def setup_of(store: str, namespace: str, watched: tuple[Path, ...], port: int) -> Setup:
    """The setup, its paths made absolute; raises `UnusableInput` where a folder is not there."""
    folders = tuple(str(each.expanduser().resolve()) for each in watched)
    if missing := [each for each in folders if not Path(each).is_dir()]:
        raise UnusableInput(f"There is no folder {missing[0]!r}.", "--watch takes a folder of conversations.")
    return Setup(store if "://" in store else str(Path(store).expanduser().resolve()), namespace, folders, port)


def password(setup: Setup) -> str:
    """What the server of this port asks for; empty before its first start."""
    return setup.password_file.read_text(encoding="utf-8").strip() if setup.password_file.exists() else ""


def basic_authorization(pair: str) -> str:
    """The header `Authorization` that shows `user:password` to a Prefect server."""
    return f"Basic {b64encode(pair.encode()).decode()}"


def keep_password(setup: Setup, given: Mapping[str, str]) -> None:
    """Write the given password, else the one of the last start, else a new one, where only this user reads it."""
    chosen = given.get(SERVER_PASSWORD) or given.get(CLIENT_PASSWORD) or password(setup)
    text = chosen or f"slowwave:{secrets.token_urlsafe(24)}"
    made = setup.password_file.with_suffix(".new")
    made.unlink(missing_ok=True)  # else it keeps the permissions that it has
    with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    made.replace(setup.password_file)


def variables_in(path: Path) -> dict[str, str]:
    """The lines NAME=VALUE of a file, as shells read them; nothing where there is none."""
    found = dotenv_values(path, interpolate=False, encoding="utf-8") if path.exists() else {}
    return {name: value for name, value in found.items() if value is not None}


def environment(setup: Setup, given: Mapping[str, str]) -> dict[str, str]:
    """The environment of server, worker and runs: server.env, the folder's own file, what is given, the addresses."""
    shared = variables_in(project_folder() / "server.env")
    own = {
        "PREFECT_HOME": str(setup.folder / "prefect"),
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": f"{setup.page},http://localhost:{setup.port}",  # no other web page
    }
    merged = {**shared, **own, **variables_in(setup.folder / OWN_VARIABLES), **given}
    merged.pop("PREFECT_PROFILE", None)  # it names a profile of another home
    merged |= {
        "PREFECT_API_URL": f"{setup.page}/api",
        "PREFECT_SERVER_API_HOST": "127.0.0.1",
        "PREFECT_SERVER_API_PORT": str(setup.port),
    }
    beside = merged.get("no_proxy") or merged.get("NO_PROXY")  # a proxy does not reach this machine
    merged |= dict.fromkeys(("no_proxy", "NO_PROXY"), ",".join(filter(None, [beside, "127.0.0.1,localhost"])))
    return merged


# The deployments of prefect.yaml for its memory, settings and folders


INBOX = "./inbox"
HOURLY = "7 * * * *"
"""When watched folders are read: not at the minute of another schedule."""
WATCH = "watch"
_ABOUT_WATCH = """\
Read what is new in {folder}, every hour.

Files stay where they are. What was read before is known by its content and costs nothing.
"""
_NO_MODEL: Mapping[str, Any] = {}


def deployments_of(setup: Setup, place: Place) -> dict[str, Any]:
    """The contents of a prefect.yaml whose deployments work on this memory with these settings, from any folder."""
    project = project_folder()
    found: dict[str, Any] = yaml.safe_load((project / "prefect.yaml").read_text(encoding="utf-8"))
    found.pop("definitions", None)  # their anchors were resolved
    found["pull"] = [{"prefect.deployments.steps.set_working_directory": {"directory": str(project)}}]
    inbox = str(Path(INBOX).resolve())
    found["deployments"] = [_placed(each, setup.store, inbox) for each in found["deployments"]]
    by_name = {each["name"]: each for each in found["deployments"]}
    if not Path(inbox).is_dir():  # a process every two minutes would only log that there is no folder
        by_name["inbox"]["schedules"] = [{**each, "active": False} for each in by_name["inbox"]["schedules"]]
    for name, each in by_name.items():
        if name != "fleet":
            each["parameters"]["namespace"] = setup.namespace
        if changed := _changed(place, name):
            each["parameters"]["settings"] = changed
        if name in ("ingest", "inbox", "reembed"):
            each["parameters"]["embedder"] = place.settings.embedder
    for number, folder in enumerate(setup.watched, 1):
        # of another program: nothing in it is moved, and its folders are no namespaces
        how = {"folder": folder, "afterwards": "stay", "by_folder": False}
        watch = {
            "name": watch_name(number),
            "description": _ABOUT_WATCH.format(folder=folder),
            "schedules": [{"slug": "hourly", "cron": HOURLY, "timezone": "UTC", "active": True}],
            "concurrency_limit": {"limit": 1, "collision_strategy": "ENQUEUE"},
            "parameters": {**by_name["inbox"]["parameters"], **how},
        }
        found["deployments"].append(by_name["inbox"] | watch)
    return found


def watch_name(number: int) -> str:
    """The deployment that reads the watched folder of this number, from 1."""
    return WATCH if number == 1 else f"{WATCH}-{number}"


def _placed(value: Any, store: str, inbox: str) -> Any:
    """The same, with this store and this inbox wherever the file names its own; in a Jinja text as a literal."""
    if isinstance(value, dict):
        return {key: _placed(each, store, inbox) for key, each in value.items()}
    if isinstance(value, list):
        return [_placed(each, store, inbox) for each in value]
    if isinstance(value, str):
        value = {DEFAULT_STORE: store, INBOX: inbox}.get(value, value)
        return value.replace(f"'{DEFAULT_STORE}'", json.dumps(store, ensure_ascii=False))
    return value


def _changed(place: Place, name: str) -> dict[str, Any]:
    """The settings of a flow that are not its defaults, as its form takes them: what `slowwave NAME` would use here."""
    settings = place.settings
    nightly = nightly_settings(place, _NO_MODEL)
    made: dict[str, Group] = {
        "inbox": settings.ingest,
        "sleep": nightly,
        "upkeep": settings.retention,
        "backfill": backfill_settings(place, _NO_MODEL),
        "fleet": FleetSettings(**settings.fleet.model_dump(), sleep=nightly),
    }
    own: Group | None = made.get(name) or getattr(settings, name, None)
    return {} if own is None else own.model_dump(mode="json", exclude_defaults=True)

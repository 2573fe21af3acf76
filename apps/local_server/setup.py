"""What a local server was asked for, the folder where its files lie, and the environment of its processes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from slowwave.errors import UnusableInput
from slowwave.launcher import project_folder

PORT = 4200
DATABASE = "SLOWWAVE_DATABASE_URL"
DRIVERS = {"postgresql://": "postgresql+asyncpg://", "postgres://": "postgresql+asyncpg://"}
OWN_VARIABLES = "environment"
"""The file of the folder with more variables, such as keys of providers: units of systemd and launchd see no shell."""


@dataclass(frozen=True, slots=True)
class Setup:
    """Which memory, which folders are read every hour, and where the server listens.

    `store` is absolute or an address, and so are the folders in `watched`: its processes work elsewhere.
    """

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


def variables_in(path: Path) -> dict[str, str]:
    """The lines NAME=VALUE of a file; nothing where there is none."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {
        name.strip(): value.strip()
        for name, is_given, value in (line.partition("=") for line in lines if not line.lstrip().startswith("#"))
        if is_given
    }


def environment(setup: Setup, given: Mapping[str, str]) -> dict[str, str]:
    """The environment of server, worker and runs: server.env, the folder's own file, what is given, the addresses."""
    shared = variables_in(project_folder() / "server.env")
    home = {"PREFECT_HOME": str(setup.folder / "prefect")}
    merged = {**shared, **home, **variables_in(setup.folder / OWN_VARIABLES), **given}
    merged.pop("PREFECT_PROFILE", None)  # it names a profile of another home
    merged |= {
        "PREFECT_API_URL": f"{setup.page}/api",
        "PREFECT_SERVER_API_HOST": "127.0.0.1",
        "PREFECT_SERVER_API_PORT": str(setup.port),
    }
    if url := merged.get(DATABASE, ""):
        driver = next((start for start in DRIVERS if url.startswith(start)), "")
        merged["PREFECT_SERVER_DATABASE_CONNECTION_URL"] = DRIVERS.get(driver, "") + url.removeprefix(driver)
    return merged


def installed_prefect() -> str:
    """The version of Prefect beside this slowwave."""
    return version("prefect")

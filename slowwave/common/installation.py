"""Where the rest of the project lies, in a checkout or in the wheel, and how programs of others can import it."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from .errors import UnusableInput

PACKAGES = ("apps", "flows", "inference", "prompts", "recall", "storage", "tasks")
"""The contents of the project folder beside this package."""
REINSTALL = "Install it again: pip install --force-reinstall slowwave"


def project_folder() -> Path:
    """The folder that holds `apps`, `flows`, `tasks` and the rest."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "project"
    return inside if (inside / "apps").is_dir() else package.parent


def bring_in() -> None:
    """Let the project be imported into a program that is not ours.

    Raises `UnusableInput` where a module of that program has the name of one of ours: one of the two would be hidden.
    """
    folder = project_folder()
    for name in PACKAGES:
        if (other := _other_module(name, folder)) is not None:
            raise UnusableInput(
                f"The module {name!r} of {other} has the name of one that slowwave needs in the same process.",
                "Rename it, or reach the memory through `slowwave mcp` or the command line.",
            )
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _other_module(name: str, folder: Path) -> str | None:
    """The file of a module of that name that is not the project's; plain folders hide nothing."""
    if name in sys.modules and sys.modules[name].__spec__ is None:
        return str(getattr(sys.modules[name], "__file__", "this program"))
    spec = find_spec(name)
    if spec is None or spec.origin is None or Path(spec.origin).resolve().is_relative_to(folder / name):
        return None
    return spec.origin

"""The console script: finds the project folder, in a checkout or in the wheel, and starts the command line."""

from __future__ import annotations

import sys
from pathlib import Path


def project_folder() -> Path:
    """The folder that holds `apps`, `flows`, `tasks` and the rest."""
    package = Path(__file__).resolve().parent
    inside = package / "project"
    return inside if (inside / "apps").is_dir() else package.parent


def main() -> None:
    """Run the command line."""
    folder = str(project_folder())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    from apps.cli import main as run

    run()

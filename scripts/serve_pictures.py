"""Take the pictures of docs/serve.md: the bundled examples after a night, as `slowwave serve` shows them in Chromium.

Needs Chromium on the path, or in $CHROMIUM. Usage: python -m scripts.serve_pictures [FOLDER]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.browser import Browser, chromium

ROOT = Path(__file__).parents[1]
SLOWWAVE = (sys.executable, "-W", "ignore", "-m", "slowwave")
TOKEN = "pictures-of-the-page"
WIDTH = 900


def main(folder: Path) -> None:
    """Make the memory, serve it, and take the pictures."""
    program = chromium()
    if program is None:
        sys.exit("No Chromium is on the path: install it, or name it in $CHROMIUM.")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SLOWWAVE_SERVE_TOKEN": TOKEN, "SLOWWAVE_PERSON": "Ana"}
    with tempfile.TemporaryDirectory() as place:
        store = f"{place}/memory"
        for words in (("demo", "--keep", store), ("sleep", "--store", store)):
            subprocess.run([*SLOWWAVE, *words], check=True, env=environment, stdout=subprocess.DEVNULL, cwd=place)
        command = [*SLOWWAVE, "serve", "--store", store, "--port", "0", "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=place) as server:
            assert server.stdout is not None
            home = json.loads("".join(iter(server.stdout.readline, "}\n")) + "}")["url"]
            try:
                with Browser(program, Path(place, "profile")) as browser:
                    browser.open(f"{home}?token={TOKEN}")
                    for name, path, height, is_dark in _pictures(store, environment):
                        browser.resize(WIDTH, height)
                        browser.open(f"{home}{path}", is_dark=is_dark)
                        (folder / f"{name}.png").write_bytes(b64decode(browser.picture()))
            finally:
                server.terminate()


def _pictures(store: str, environment: Mapping[str, str]) -> list[tuple[str, str, int, bool]]:
    """Name, path, height in pixels and whether it is dark, of each."""

    def said(*words: str) -> Any:
        command = [*SLOWWAVE, *words, "--store", store, "--json"]
        return json.loads(subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE).stdout)

    person = said("entities", "--type", "person")["entities"][0]["id"]
    proposal = said("review", "list")["proposals"][1]["id"]
    return [
        ("serve-person", f"people/{person}?as_of=2026-04-12", 690, False),
        ("serve-runs", "runs", 876, False),
        ("serve-review", f"review/{proposal}", 884, True),
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else ROOT / "docs" / "images")

"""Take the pictures of docs/serve.md: the bundled examples after a night, as `slowwave serve` shows them in Chromium.

Needs Chromium on the path, or in $CHROMIUM. Usage: python scripts/serve_pictures.py [FOLDER]
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from urllib.request import Request, urlopen

ROOT = Path(__file__).parents[1]
SLOWWAVE = (sys.executable, "-W", "ignore", "-m", "slowwave")
TOKEN = "pictures-of-the-page"
FLAGS = ("--headless", "--no-sandbox", "--hide-scrollbars", "--virtual-time-budget=4000")


def main(folder: Path) -> None:
    """Make the memory, serve it, and take the pictures."""
    browser = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if browser is None:
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
                for name, path, size, *more in _pictures(home):
                    file, profile = f"--screenshot={folder / name}.png", f"--user-data-dir={place}/{name}"
                    address = f"{home.rstrip('/')}{path}{'&' if '?' in path else '?'}token={TOKEN}"
                    command = [browser, *FLAGS, *more, f"--window-size={size}", file, profile, address]
                    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
            finally:
                server.terminate()


def _pictures(home: str) -> list[tuple[str, ...]]:
    """Name, path, size and flags of each."""
    person = _get(home, "api/people?type=person")["entities"][0]["id"]
    proposal = _get(home, "api/review")["proposals"][1]["id"]
    return [
        ("serve-person", f"/people/{person}?as_of=2026-04-12", "900,640"),
        ("serve-runs", "/runs", "900,520"),
        ("serve-review", f"/review/{proposal}", "900,800", "--force-dark-mode"),
    ]


def _get(home: str, path: str) -> Mapping[str, list[Mapping[str, str]]]:
    request = Request(f"{home}{path}", headers={"Authorization": f"Bearer {TOKEN}"})
    document: Mapping[str, list[Mapping[str, str]]] = json.load(urlopen(request, timeout=60))
    return document


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else ROOT / "docs" / "images")

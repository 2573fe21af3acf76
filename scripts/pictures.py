"""Make the pictures of docs/ from the real UI: `python scripts/pictures.py`.

It needs Chromium, Pillow (`pip install --group pictures`) and some ten minutes. It copies the bundled conversations
into a folder of its own, starts `slowwave up` on a port of its own, runs what the guides describe, and writes what a
browser shows into docs/images. At the end all of it is stopped and deleted.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

from PIL import Image

from apps.local_server.parts import call
from apps.local_server.setup import Setup, password
from scripts.browser import Browser, chromium

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
PLACE = Path("/tmp/slowwave")
"""It is seen in forms, so that its name is neutral and always the same."""
PORT = 4299
WIDTH = 1280
ARTIFACT = 648
"""The height of the page of an artifact: its column on the right ends here between two lines."""
COLOURS = 64
LARGEST = 150_000  # bytes of a picture
PATIENCE_S = 900.0
PERSON, REASON = "Anna Lindqvist", "They say nothing about her."
YEAR = 2026
"""That of the bundled conversations."""


@dataclass(frozen=True, slots=True)
class Studio:
    """A server with a worker, and the browser that looks at it."""

    setup: Setup
    browser: Browser

    def run(self, deployment: str, name: str, **parameters: Any) -> str:
        """Start a run under this name; returns its id."""
        found = call(self.setup, f"/deployments/name/{deployment}/{deployment}")
        body = {"name": name, "state": {"type": "SCHEDULED"}, "parameters": {**found["parameters"], **parameters}}
        return str(call(self.setup, f"/deployments/{found['id']}/create_flow_run", body)["id"])

    def until(self, run: str, *states: str) -> None:
        """Wait until the run is in one of these states; raises where it ends in another."""
        end = time.monotonic() + PATIENCE_S
        while (state := call(self.setup, f"/flow_runs/{run}")["state"])["name"] not in states:
            if state["type"] in ("FAILED", "CRASHED", "CANCELLED", "COMPLETED") or time.monotonic() > end:
                raise SystemExit(f"A run is {state['name']}, not {states}: {state['message']}")
            time.sleep(1)

    def artifact(self, run: str, key: str) -> str:
        """The id of the artifact of a run."""
        wanted = {"artifacts": {"flow_run_id": {"any_": [run]}, "key": {"any_": [key]}}}
        return str(call(self.setup, "/artifacts/filter", wanted)[0]["id"])

    def show(self, path: str, text: str) -> None:
        """Open a page of the UI, and wait until it says this."""
        self.browser.open(f"{self.setup.page}/v2{path}")
        self.wait_for(text)

    def wait_for(self, text: str) -> None:
        """Wait until the page says this, and a moment more for what moves."""
        end = time.monotonic() + PATIENCE_S
        while not self.browser.ask(f"document.body.innerText.includes({json.dumps(text)})"):
            if time.monotonic() > end:
                raise SystemExit(f"The page never says {text!r}:\n{self.browser.ask('document.body.innerText')[:2000]}")
            time.sleep(0.5)
        time.sleep(2)

    def click(self, text: str, kind: str = "button, [role=tab], [role=menuitem], a") -> None:
        """Click on the middle of the first thing of this kind that says this, or bears it as its label."""
        place = self.browser.ask(
            f"""(() => {{
                const found = [...document.querySelectorAll({json.dumps(kind)})].find(each =>
                    each.offsetParent && [each.innerText.trim(), each.ariaLabel].includes({json.dumps(text)}));
                if (!found) return null;
                found.scrollIntoView({{block: "center"}});
                const box = found.getBoundingClientRect();
                return [box.x + box.width / 2, box.y + box.height / 2];
            }})()"""
        )
        if place is None:
            raise SystemExit(f"There is no {text!r} to click on.")
        self.browser.click(*place)
        time.sleep(1.5)

    def picture(self, name: str, height: int, scale: float = 1.0) -> None:
        """Write what the page shows, from its top, of this height; a scale below 1 shows more of it, smaller."""
        self.browser.resize(WIDTH, height, scale)
        time.sleep(1.5)
        path = IMAGES / f"{name}.png"
        with Image.open(BytesIO(b64decode(self.browser.picture()))) as shown:
            shown.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
        if (size := path.stat().st_size) > LARGEST:
            raise SystemExit(f"{path} has {size:,} bytes, more than {LARGEST:,}.")
        print(f"docs/images/{path.name}: {size:,} bytes", flush=True)


def slowwave(*words: str) -> str:
    """What a command prints; it must not fail."""
    command = [sys.executable, "-P", "-m", "slowwave", *words]
    done = subprocess.run(command, cwd=PLACE, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"slowwave {' '.join(words)}:\n{done.stdout}{done.stderr}")
    return done.stdout


@contextmanager
def studio() -> Iterator[Studio]:
    """Inside, server, worker and browser are there; afterwards nothing of them is left."""
    if (program := chromium()) is None:
        raise SystemExit("There is no Chromium: install it, or name it with CHROMIUM.")
    if PLACE.exists():
        raise SystemExit(f"{PLACE} is there already: delete it, or wait for the other run.")
    shutil.copytree(ROOT / "examples" / "conversations", PLACE / "exports")
    os.environ |= {"HOME": str(PLACE), "XDG_DATA_HOME": str(PLACE / "data"), "PYTHONPATH": str(ROOT)}
    os.environ.pop("ANTHROPIC_API_KEY", None)  # the rules read, always alike
    setup = Setup(str(PLACE / "memory"), port=PORT)
    profiles = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # a browser writes while it ends
    try:
        slowwave("up", *setup.options)
        with profiles as profile, Browser(program, Path(profile), (WIDTH, 900)) as browser:
            browser.resize(WIDTH, 900)
            browser.open(setup.page)
            browser.ask(f"localStorage.setItem('prefect-password', btoa({json.dumps(password(setup))}))")
            yield Studio(setup, browser)
    finally:
        slowwave("down", "--port", str(PORT))
        shutil.rmtree(PLACE)


def backfill(at: Studio) -> None:
    """The form for a year, which is read for the pictures that follow."""
    asked = {
        "start": f"{YEAR}-01-01T00:00:00Z",
        "end": f"{YEAR + 1}-01-01T00:00:00Z",
        "window": "month",
        "paths": [str(PLACE / "exports")],
    }
    found = call(at.setup, "/deployments/name/backfill/backfill")
    filled = quote(json.dumps({**found["parameters"], **asked}))
    at.show(f"/deployments/deployment/{found['id']}/run?parameters={filled}", "Parameters")
    at.picture("backfill-form", 1045)
    at.until(at.run("backfill", f"all of {YEAR}", **asked), "Completed")


def approval(at: Studio) -> None:
    """What waits, the form in which a person decides, and what became of it."""
    slowwave("retire", PERSON, *facts_that_say("decides whether", "first suspect"), "--propose", "--reason", REASON)
    run = at.run("review", "what waits", person="Ana")
    at.until(run, "Suspended")
    at.show(f"/runs/flow-run/{run}", "Suspended")
    at.click("Open menu")
    at.click("Resume")
    at.wait_for("Your name")
    at.picture("review-form", 1200, 0.75)
    said = {"name": "Ana", "note": "", "proposal_01": {"decision": "approve"}}
    call(at.setup, f"/flow_runs/{run}/resume", {"run_input": said})
    at.until(run, "Completed")
    at.show(f"/artifacts/artifact/{at.artifact(run, 'review-summary')}", "Ana decided")
    at.picture("review-decided", ARTIFACT)


def facts_that_say(*words: str) -> list[str]:
    """The ids of the facts about the person whose statements have one of these."""
    facts = json.loads(slowwave("facts", PERSON, "--json"))["facts"]
    return [str(each["id"]) for each in facts if any(word in each["statement"] for word in words)]


def main() -> None:
    """All pictures; each scene goes on from the one before."""
    with studio() as at:
        for scene in (backfill, approval):
            scene(at)


if __name__ == "__main__":
    main()

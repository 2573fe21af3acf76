"""A page in headless Chromium, asked over its DevTools protocol."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from websockets.sync.client import connect

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--hide-scrollbars",
    "--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-component-update",
    "--remote-debugging-port=0",
)  # fmt: skip
WAIT_S = 60.0
CODES = {"Enter": 13, "Tab": 9, "ArrowLeft": 37, "ArrowRight": 39, "Home": 36, "End": 35}
"""Keys that do something by themselves, with the number that browsers know them by."""


def chromium() -> str | None:
    """The browser of this machine: $CHROMIUM, or the first one on the path."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """A browser of its own with one page; what the page complains about and asks the network for is kept."""

    def __init__(self, program: str, profile: Path, size: tuple[int, int] = (900, 600)) -> None:
        command = [program, *FLAGS, f"--window-size={size[0]},{size[1]}", f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self._numbers = itertools.count(1)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._socket = connect(self._address(), max_size=None, compression=None, ping_interval=None)
        target = self._call("Target.getTargets")["targetInfos"][0]["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    _session: str | None = None

    def _address(self) -> str:
        told = self._process.stderr
        assert told is not None
        for line in told:
            if found := re.search(r"ws://\S+", line):
                threading.Thread(target=told.read, daemon=True).start()  # a full pipe would stop the browser
                return found[0]
        raise RuntimeError("The browser ended before it listened.")

    def _call(self, method: str, **parameters: Any) -> Any:
        number = next(self._numbers)
        session = {"sessionId": self._session} if self._session else {}
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters, **session}))
        while True:
            told = json.loads(self._socket.recv(timeout=WAIT_S))
            if told.get("id") == number:
                assert "error" not in told, told["error"]
                return told["result"]
            self._note(told.get("method", ""), told.get("params", {}))

    def _wait_for(self, event: str) -> None:
        while (told := json.loads(self._socket.recv(timeout=WAIT_S))).get("method") != event:
            self._note(told.get("method", ""), told.get("params", {}))

    def _note(self, event: str, told: dict[str, Any]) -> None:
        if event == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(told["exceptionDetails"])[:600])
        elif event == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
            self.complaints.append(json.dumps(told["args"])[:600])
        elif event == "Log.entryAdded" and told["entry"]["level"] == "error":
            self.complaints.append(told["entry"]["text"])
        elif event == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        elif event == "Page.javascriptDialogOpening":
            self.complaints.append(f"dialog: {told['message']}")

    def open(self, page: Path | str, *, is_dark: bool = False) -> None:
        """Show a file or an address, and wait until all of it is there and its scripts have run."""
        self.complaints.clear()
        self.requests.clear()
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        self._call("Page.navigate", url=page if isinstance(page, str) else page.as_uri())
        self._wait_for("Page.loadEventFired")

    def run_scripts(self, are_run: bool) -> None:
        """Whether the scripts of pages run; what the tests ask runs all the same."""
        self._call("Emulation.setScriptExecutionDisabled", value=not are_run)

    def ask(self, expression: str) -> Any:
        """The value of an expression in the page; promises are awaited."""
        told = self._call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def follow(self, expression: str) -> None:
        """Do what leads to another page, and wait until all of that is there."""
        self._call("Runtime.evaluate", expression=expression, userGesture=True)
        self._wait_for("Page.loadEventFired")

    def press(self, key: str) -> None:
        """Press a key and let it go, as a person does."""
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        named: dict[str, Any] = {"key": key}
        if key in CODES:
            named |= {"code": key, "windowsVirtualKeyCode": CODES[key]}
        self._call("Input.dispatchKeyEvent", type="keyDown", **named, **text)
        self._call("Input.dispatchKeyEvent", type="keyUp", **named)

    def click(self, x: float, y: float) -> None:
        """Press and release the left button at a place of the window, as a person does."""
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def resize(self, width: int, height: int, scale: float = 1.0) -> None:
        """Give the page this size in pixels of a picture; below a scale of 1 more fits into it, and is smaller."""
        size = {"width": round(width / scale), "height": round(height / scale)}
        self._call("Emulation.setDeviceMetricsOverride", **size, deviceScaleFactor=scale, mobile=False)

    def picture(self) -> str:
        """What the page looks like, as PNG in base64."""
        return str(self._call("Page.captureScreenshot", format="png")["data"])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()
        self._process.terminate()
        self._process.wait(timeout=WAIT_S)

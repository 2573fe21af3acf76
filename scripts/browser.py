"""A page in headless Chromium, driven by Playwright with the browser of this machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from playwright.sync_api import ConsoleMessage, Dialog, sync_playwright

T = TypeVar("T")

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update",
)  # fmt: skip
WAIT_MS = 60_000


def chromium() -> str | None:
    """The browser of this machine: $CHROMIUM, or the first one on the path."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """A browser of its own with one page; the complaints of the page and its requests to the network are kept.

    Playwright keeps an event loop in the thread that starts it, so it has a thread of its own.
    """

    def __init__(self, program: str, profile: Path, size: tuple[int, int] = (900, 600)) -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._thread = ThreadPoolExecutor(1)
        self._do(self._start, program, profile, size)

    def _do(self, act: Callable[..., T], *given: Any) -> T:
        return self._thread.submit(act, *given).result()

    def _start(self, program: str, profile: Path, size: tuple[int, int]) -> None:
        self._playwright = sync_playwright().start()
        self._context = self._playwright.chromium.launch_persistent_context(
            profile, executable_path=program, args=[*FLAGS], viewport={"width": size[0], "height": size[1]}
        )
        self._page = self._context.pages[0]
        self._page.set_default_timeout(WAIT_MS)
        self._page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self._page.on("console", self._hear)
        self._page.on("request", lambda request: self.requests.append(request.url))
        self._page.on("dialog", self._refuse)
        self._protocol = self._context.new_cdp_session(self._page)

    def _hear(self, line: ConsoleMessage) -> None:
        if line.type in ("error", "warning", "assert"):
            self.complaints.append(line.text)

    def _refuse(self, dialog: Dialog) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def open(self, page: Path | str, *, is_dark: bool = False) -> None:
        """Show a file or an address, and wait until all of it is there and its scripts have run."""
        self.complaints.clear()
        self.requests.clear()

        def show() -> None:
            self._page.emulate_media(color_scheme="dark" if is_dark else "light")
            self._page.goto(page if isinstance(page, str) else page.as_uri())

        self._do(show)

    def run_scripts(self, are_run: bool) -> None:
        """Whether the scripts of pages run; the expressions of the tests run all the same."""
        self._do(self._protocol.send, "Emulation.setScriptExecutionDisabled", {"value": not are_run})

    def ask(self, expression: str) -> Any:
        """The value of an expression in the page; promises are awaited."""
        return self._do(self._page.evaluate, expression)

    def follow(self, expression: str) -> None:
        """Do what leads to another page, and wait until all of that is there."""

        def go() -> None:
            with self._page.expect_event("load"):
                self._page.evaluate(expression)

        self._do(go)

    def press(self, key: str) -> None:
        """Press a key and let it go, as a person does."""
        self._do(self._page.keyboard.press, key)

    def click(self, x: float, y: float) -> None:
        """Press and release the left button at a place of the window, as a person does."""
        self._do(self._page.mouse.click, x, y)

    def resize(self, width: int, height: int, scale: float = 1.0) -> None:
        """Give the page this size in pixels of a picture; below a scale of 1 more fits into it, and is smaller."""
        size = {"width": round(width / scale), "height": round(height / scale)}
        metrics = {**size, "deviceScaleFactor": scale, "mobile": False}
        self._do(self._protocol.send, "Emulation.setDeviceMetricsOverride", metrics)

    def picture(self) -> str:
        """What the page looks like, as PNG in base64."""
        return str(self._do(self._protocol.send, "Page.captureScreenshot", {"format": "png"})["data"])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._do(self._context.close)
        self._do(self._playwright.stop)
        self._thread.shutdown()

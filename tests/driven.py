"""A page in a real browser that a test drives: its keys, what it says, what it asked for."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser import CHROMIUM

PATIENCE_MS = 120_000
"""For a condition to hold, on a machine with much else to do."""


@dataclass
class Driven:
    """complaints: what console and scripts reported; asked: addresses of requests, but for the page and its own data"""

    page: Page
    complaints: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
        self.settle()

    def settle(self) -> None:
        """The page draws at most once a frame: after two, it shows what the keys have changed."""
        self.page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def text(self, selector: str) -> str:
        return self.page.inner_text(selector)

    def moment(self) -> dict[str, str]:
        """Of the link to what is shown: t, e, r, p."""
        self.press("l")
        return dict(re.findall(r"(\w)=([\d.-]+)", self.page.evaluate("location.hash")))

    def place(self) -> int:
        return int(self.moment()["e"])


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=PATIENCE_MS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def driven(
    browser: Browser,
    address: str,
    width: int = 1400,
    height: int = 900,
    ready: str = "svg.stage",
    own: str | None = None,
    **options: Any,
) -> Iterator[Driven]:
    """The page once it is drawn. At the end nothing may have been complained of or asked for.

    Args:
        ready: what is on the page then.
        own: where it may ask for more; by default in its own folder.
    """
    context = browser.new_context(viewport={"width": width, "height": height}, **options)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    found = Driven(page)
    page.on("console", lambda line: found.complaints.append(line.text))
    page.on("pageerror", lambda error: found.complaints.append(str(error)))
    page.on("dialog", lambda dialog: found.complaints.append(f"dialog: {dialog.message}"))
    own = own or address.partition("#")[0].rpartition("/")[0]
    page.on("request", lambda request: None if _is_own(request.url, own) else found.asked.append(request.url))
    try:
        page.goto(address)
        page.wait_for_selector(ready, state="attached")
        found.settle()
        yield found
        assert (found.complaints, found.asked) == ([], [])
    finally:
        context.close()


def _is_own(address: str, own: str) -> bool:
    return address.startswith((f"{own}/", "data:"))


def axe_core() -> Path | None:
    """axe-core's one file: in $NODE_PATH, else beside this repository."""
    places = [*os.environ.get("NODE_PATH", "").split(os.pathsep), str(Path(__file__).parents[1] / "node_modules")]
    files = [Path(place) / "axe-core" / "axe.min.js" for place in places if place]
    return next((file for file in files if file.is_file()), None)

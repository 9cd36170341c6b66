"""A page in a real browser, from a file address: what it became, what its console said, what it asked the network."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

import pytest

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)
needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed here (apt install chromium)")

BROWSERS_OWN = re.compile(r"\.(?:google|googleapis|gvt1)\.com\b")
"""Whom the browser asks about itself, whatever page is open: for the time, for its updates."""


class Opened(NamedTuple):
    """document: after the page's scripts have run     console: its lines     asked: first lines of requests"""

    document: str
    console: list[str]
    asked: list[str]


def opened(
    page: Path, scratch: Path, width: int = 800, height: int = 900, patience_ms: int = 10_000, fragment: str = ""
) -> Opened:
    """width, height: of the window, pixels     scratch: for the browser's profile     fragment: of the address

    patience_ms: of virtual time that the page's scripts have; a page that loads itself again must need less
    """
    with _proxy() as (port, asked):
        answer = subprocess.run(
            [
                CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                "--disable-background-networking", "--disable-component-update", "--disable-sync",
                f"--user-data-dir={scratch / 'profile'}", "--enable-logging=stderr",
                f"--virtual-time-budget={patience_ms}",
                f"--window-size={width},{height}", f"--proxy-server=127.0.0.1:{port}",
                "--proxy-bypass-list=<-loopback>", "--dump-dom", f"{page.resolve().as_uri()}{fragment}",
            ],
            capture_output=True, text=True, timeout=100, check=True,
        )  # fmt: skip
    console = [line for line in answer.stderr.splitlines() if ":CONSOLE:" in line]
    return Opened(answer.stdout, console, [line for line in asked if line and not BROWSERS_OWN.search(line)])


@contextmanager
def _proxy() -> Iterator[tuple[int, list[str]]]:
    """(port of a proxy that answers nothing, the first line of every request that was sent to it)."""
    asked: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def listen() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:  # closed: the browser is gone
                    return
                with connection:
                    connection.settimeout(5)
                    # The browser may close a connection that it has opened in case it needs one.
                    with suppress(OSError):
                        asked.append(connection.recv(4096).partition(b"\r\n")[0].decode("latin-1"))

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        yield listener.getsockname()[1], asked
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


Marks = Counter[str]
"""How many of each kind of mark (`rect`, `line`, ...) are there and can be seen."""


def marks_of(document: str) -> list[dict[str, Marks]]:
    """Of every chart of the page, in order, the marks of each of its panels by the panel's title ("" without one)."""
    parser = _Drawn()
    parser.feed(document)
    return [{chart.titles.get(panel, ""): marks for panel, marks in chart.marks.items()} for chart in parser.charts]


class _Chart:
    def __init__(self) -> None:
        self.marks: dict[str, Marks] = {}
        self.titles: dict[str, str] = {}


class _Drawn(HTMLParser):
    """Reads Vega's SVG: a group `mark-KIND role-mark` for each layer, in a group `concat_N_group` for each panel."""

    def __init__(self) -> None:
        super().__init__()
        self.charts: list[_Chart] = []
        self._groups: list[str] = []
        self._text_is_seen = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "svg" and given.get("class") == "marks":
            self.charts.append(_Chart())
            self._groups = []
        elif tag == "g":
            self._groups.append(given.get("class", ""))
        elif tag in ("path", "line", "rect", "text") and self._kind():
            seen = given.get("opacity") != "0" and given.get("d") not in ("", "M0,0")
            self._text_is_seen = seen and tag == "text"
            if seen and tag != "text":
                self._count()
        elif tag == "text":
            self._text_is_seen = True

    def handle_endtag(self, tag: str) -> None:
        if tag == "g" and self._groups:
            self._groups.pop()
        elif tag == "text":
            self._text_is_seen = False

    def handle_data(self, data: str) -> None:
        if not (self._text_is_seen and self.charts and data.strip()):
            return
        if self._kind():
            self._count()
        elif any("role-title-text" in group for group in self._groups):
            before = self.charts[-1].titles.get(self._panel(), "")  # A title may have several lines.
            self.charts[-1].titles[self._panel()] = f"{before} {data}".lstrip()

    def _kind(self) -> str:
        """Of the layer this is in; "" outside of any."""
        found = re.match(r"mark-(\w+) role-mark \w*_?marks", self._groups[-1]) if self._groups else None
        return found[1] if found else ""

    def _panel(self) -> str:
        return next((found[0] for group in self._groups if (found := re.search(r"\bconcat_\d+_group\b", group))), "")

    def _count(self) -> None:
        self.charts[-1].marks.setdefault(self._panel(), Counter())[self._kind()] += 1

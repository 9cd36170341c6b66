"""The page in a real browser from a file address: it draws, complains of nothing, and cannot fetch anything."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from spark_reports.report import ReportResult

pytestmark = pytest.mark.spark

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)


def opened(page: Path, profile: Path, width: int = 800) -> tuple[str, str]:
    """The document after its scripts have run, and what the console said. width: of the window, pixels"""
    answer = subprocess.run(
        [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
            "--disable-component-update", "--no-first-run", f"--user-data-dir={profile}", "--enable-logging=stderr",
            "--virtual-time-budget=10000", f"--window-size={width},900", "--dump-dom", page.resolve().as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return answer.stdout, "\n".join(line for line in answer.stderr.splitlines() if "CONSOLE" in line)


@pytest.mark.skipif(not CHROMIUM, reason="no Chromium here")
def test_it_draws_offline_and_the_console_stays_silent(report: ReportResult, tmp_path: Path) -> None:
    document, console = opened(report.path, tmp_path / "profile")
    assert console == ""
    assert re.search(r'<svg[^>]*class="marks"', document) and not re.search("could not be drawn: [A-Z]", document)
    # A page that asks for anything is told so on the console: its own policy forbids it.
    greedy = tmp_path / "greedy.html"
    ask = '<img src="https://example.org/x.png"><script>fetch("https://example.org/y")</script></body>'
    greedy.write_text(report.path.read_text(encoding="utf-8").replace("</body>", ask), encoding="utf-8")
    complaints = opened(greedy, tmp_path / "profile")[1]
    assert "x.png" in complaints and "example.org/y" in complaints and "Content Security Policy" in complaints


MEASURE = """<script>setTimeout(() => {
  const found = (name) => document.querySelector(name).getBoundingClientRect().width;
  const outer = document.querySelector(".chart"), page = document.scrollingElement;
  document.body.dataset.measured = [
    innerWidth, page.scrollWidth, outer.clientWidth, outer.scrollWidth, found(".chart svg.marks"),
  ].map(Math.round).join(" ");
}, 5000)</script>"""


@pytest.mark.skipif(not CHROMIUM, reason="no Chromium here")
@pytest.mark.parametrize("width", [500, 1280])
def test_in_a_narrow_window_the_charts_scroll_and_neither_shrink_nor_widen_the_page(
    report: ReportResult, tmp_path: Path, width: int
) -> None:
    page = tmp_path / "measured.html"
    page.write_text(report.path.read_text(encoding="utf-8") + MEASURE, encoding="utf-8")
    found = re.search(r'data-measured="([\d ]+)"', opened(page, tmp_path / "profile", width)[0])
    assert found is not None
    window, page_wide, room, scrolled, drawn = map(int, found[1].split())
    assert window == width and page_wide <= window
    assert drawn >= 680 and scrolled >= drawn
    assert (scrolled > room) == (width < 680)

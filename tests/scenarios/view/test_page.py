"""The page in a real browser: it draws every run, complains of nothing, asks the network nothing, runs no name."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from base64 import b64decode
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from scenarios.cli.view import write_page
from scenarios.language.parse.catalogue import bundled, find_scenario
from scenarios.language.parse.loading import load_file
from scenarios.observe.trace_writer import read_rows
from scenarios.observe.view import ClusterView
from scenarios.run.runner import run_scenario
from tests.browser import needs_chromium
from tests.driven import driven
from tests.soak import one_in

ROOM = Path(__file__).parents[3] / "scenarios" / "view"
PLAYER = (ROOM / "player.html").read_text(encoding="utf-8")


def run_of(name: str, runs_dir: Path, variant: str | None = None) -> Path:
    file = load_file(find_scenario(name))
    result = run_scenario(file.variants[variant] if variant else file.scenario, runs_dir=runs_dir, keep_logs=False)
    assert result.run_dir is not None
    return result.run_dir


def test_the_built_page_is_that_of_its_sources() -> None:
    """`make page` builds it again."""
    whole = hashlib.sha256()
    sources = sorted(path.relative_to(ROOM / "page").as_posix() for path in (ROOM / "page" / "src").iterdir())
    for name in [*sources, "build.mjs", "package.json", "tsconfig.json"]:
        whole.update(name.encode() + b"\0" + (ROOM / "page" / name).read_bytes() + b"\0")
    assert f'<meta name="sources" content="{whole.hexdigest()}">' in PLAYER, "run `make page`"


@pytest.fixture(scope="module")
def three_runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("three")
    return [run_of("acks1-leader-kill", folder, variant) for variant in (None, "acks-all", "acks-0")]


@pytest.mark.soak
def test_the_same_runs_make_the_same_page(three_runs: list[Path], tmp_path: Path) -> None:
    first = write_page(three_runs, tmp_path / "1.html").read_bytes()
    assert write_page(three_runs, tmp_path / "2.html").read_bytes() == first
    assert len(first) < 1_500_000


def check_in_browser(browser: Browser, page: Path, run_dir: Path) -> None:
    """It stands at the end of the run, and says of every replica what the trace says."""
    view = ClusterView((), ())
    for row in read_rows(run_dir / "trace"):
        view(row)
    with driven(browser, page.as_uri() + "#r=0&e=999999999&t=999999") as opened:
        said = opened.page.get_attribute("svg.stage", "aria-label") or ""
        opened.page.wait_for_selector("svg.strip", state="attached")
    shown = next((one for one in view.partitions.values() if said.startswith(f"{one.topic_partition}: ")), None)
    if said == "The partition does not exist yet.":
        assert not [name for name in view.partitions if not name.topic.startswith("__")]
        return
    assert shown is not None, said
    for node in shown.assigned:
        replica = shown.replicas[node]
        ends = f"LEO {replica.log_end_offset}, HW {replica.high_watermark}."
        assert re.search(rf"\b{re.escape(node)}(, rack \S+)? is [^.]*{re.escape(ends)}", said), (node, ends, said)


@needs_chromium
def test_the_page_draws_the_run(browser: Browser, three_runs: list[Path], tmp_path: Path) -> None:
    check_in_browser(browser, write_page(three_runs, tmp_path / "page.html"), three_runs[0])


@needs_chromium
@pytest.mark.soak
@pytest.mark.parametrize("name", one_in(8, bundled(), pytest.mark.night))
def test_the_page_draws_every_bundled_run(browser: Browser, name: str, tmp_path: Path) -> None:
    run_dir = run_of(name, tmp_path)
    check_in_browser(browser, write_page([run_dir], tmp_path / "page.html"), run_dir)


def test_the_page_holds_its_runs_and_nothing_to_run_but_its_own_script(three_runs: list[Path], tmp_path: Path) -> None:
    page = write_page(three_runs, tmp_path / "page.html").read_text(encoding="utf-8")
    (packed,) = re.findall(r'<script type="application/octet-stream" id="data">([A-Za-z0-9+/=]+)</script>', page)
    runs = json.loads(gzip.decompress(b64decode(packed)))["runs"]
    assert [run["head"]["label"] for run in runs] == ["acks=1", "acks=all", "acks=0"]
    assert len(re.findall("<script", page)) == 2
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy.startswith("default-src 'none'; script-src 'sha256-") and "unsafe" not in policy

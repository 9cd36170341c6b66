"""`highwater view`, and `--open` and `--page` of other commands, as a shell sees them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command import LIMITED, MINI, Highwater


def test_view_writes_the_page_of_the_last_run(highwater: Highwater, tmp_path: Path) -> None:
    Path("mini.yaml").write_text(MINI)
    assert highwater("run", "mini.yaml").out.count("See it:  highwater view last --open") == 1
    found = highwater("view")
    assert (found.code, found.out.strip(), found.err) == (0, "runs/0001-mini/view.html", "")
    assert Path("runs/0001-mini/view.html").stat().st_size > 30_000
    assert highwater("view", "last", "1", "--out", "both.html").code == 0 and Path("both.html").is_file()
    assert highwater("view", "last", "1").out.strip() == "runs/0001-mini/view-runs.html"
    assert not list(Path().rglob(".view-*"))


def test_compare_keeps_its_page_and_no_runs(highwater: Highwater) -> None:
    Path("mini.yaml").write_text(MINI)
    found = highwater("compare", "mini.yaml", "--variant", "base", "--variant", "silent", "--page", "two.html")
    assert found.code == 0 and found.out.endswith("  See it:  two.html\n")
    assert Path("two.html").is_file() and not Path("runs").exists()


def test_what_cannot_be_viewed_is_one_error(highwater: Highwater) -> None:
    missing = highwater("view", "last")
    assert missing.code == 2 and missing.error_lines[0].startswith("error: no run `last`")
    many = highwater("view", *["last"] * 10)
    assert many.code == 2 and "10 runs were given; a page shows at most 9" in many.err
    Path("mini.yaml").write_text(MINI)
    highwater("run", "mini.yaml")
    nowhere = highwater("view", "--out", "mini.yaml/page.html")
    assert nowhere.code == 6 and "mini.yaml is not a folder" in nowhere.err
    part = next(Path("runs/0001-mini/trace/log").iterdir())
    part.write_bytes(part.read_bytes()[:-9])
    broken = highwater("view")
    assert broken.code == 2 and broken.error_lines[0].startswith("error: the trace cannot be read:")
    assert not Path("runs/0001-mini/view.html").exists()


def test_a_page_or_an_export_goes_into_a_file_and_nowhere_else(highwater: Highwater) -> None:
    Path("mini.yaml").write_text(MINI)
    highwater("run", "mini.yaml")
    os.mkfifo("pipe")
    Path("mine.csv").write_text("mine")
    Path("link").symlink_to("mine.csv")
    before = sorted(Path().iterdir())
    for command in (("view",), ("export", "last", "--to", "csv")):
        for name in ("", "-", "pipe", "runs"):
            done = highwater(*command, "--out", name)
            assert (done.code, done.out) == (2, "") and done.error_lines[-1].startswith("Error: Invalid value"), name
    assert sorted(Path().iterdir()) == before
    assert highwater("export", "last", "--to", "csv", "--out", "link").code == 0
    assert Path("link").is_symlink() and Path("mine.csv").read_text().startswith("seconds,node,")
    assert highwater("view", "--out", "new/folder/page.html").code == 0 and Path("new/folder/page.html").is_file()


@pytest.mark.soak
@pytest.mark.parametrize(
    "words",
    [("view",), ("export", "last", "--to", "csv"), ("new", "first"), ("lab", "start", "explain", "--student", "A")],
)
def test_a_full_disk_leaves_no_half_a_file(words: tuple[str, ...], highwater: Highwater) -> None:
    Path("mini.yaml").write_text(MINI)
    highwater("run", "mini.yaml")
    before = sorted(Path().rglob("*"))
    done = subprocess.run(
        [sys.executable, "-c", LIMITED.format(limit=100), *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert (done.returncode, done.stdout) == (6, ""), done
    assert done.stderr.count("error: ") == 1 and "cannot be written: " in done.stderr
    assert sorted(Path().rglob("*")) == before


def test_a_page_that_predicts_is_named(highwater: Highwater, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webbrowser.open", lambda _: True)
    Path("mini.yaml").write_text(MINI)
    done = highwater("run", "mini.yaml", "--predict")
    assert (done.code, done.out, done.err) == (0, "  See it:  runs/0001-mini/predict.html\n", "")
    prepared = Path("runs/0001-mini/predict.html").read_bytes()
    assert "view.html" in highwater("view", "last").out
    assert Path("runs/0001-mini/predict.html").read_bytes() == prepared


QUIET = """schema: 1
id: quiet
title: Nobody sends a record
duration: 5s
cluster: {brokers: {b1: {}}}
topics: {t: {partitions: {0: [b1]}}}
workloads: {}
timeline: []
expect: {errors: {}}
"""


def test_a_page_that_has_nothing_to_ask_says_so(highwater: Highwater) -> None:
    Path("quiet.yaml").write_text(QUIET)
    assert highwater("run", "quiet.yaml", "--plain").code == 0
    assert "The page has no questions" in highwater("view", "last", "--predict").err

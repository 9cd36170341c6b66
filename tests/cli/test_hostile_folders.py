"""Run folders that were damaged or edited: one clear error that names the file, and exit code 2."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import MINI, Highwater

from scenarios.language.parse.loading import load_file
from scenarios.run.runner import run_scenario

Damage = Callable[[Path], None]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    (folder / "mini.yaml").write_text(MINI)
    run_dir = run_scenario(load_file(folder / "mini.yaml").scenario, runs_dir=folder / "runs").run_dir
    assert run_dir is not None
    return run_dir


def part(run_dir: Path, table: str) -> Path:
    return run_dir / "trace" / table / "part-00000.parquet"


def damaged(table: str, change: Callable[[bytes], bytes]) -> Damage:
    def damage(run_dir: Path) -> None:
        file = part(run_dir, table)
        file.write_bytes(change(file.read_bytes()))

    return damage


def a_directory(run_dir: Path) -> None:
    part(run_dir, "log").unlink()
    part(run_dir, "log").mkdir()


def other_columns(run_dir: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), part(run_dir, "log"))


def words_for_numbers(run_dir: Path) -> None:
    table = pq.read_table(part(run_dir, "log"))
    place = table.schema.get_field_index("seq")
    pq.write_table(table.set_column(place, "seq", pa.array(["x"] * len(table))), part(run_dir, "log"))


def leads_nowhere(run_dir: Path) -> None:
    part(run_dir, "log").unlink()
    part(run_dir, "log").symlink_to("/nowhere/part-00000.parquet")


TRACES: dict[str, Damage] = {
    "cut short": damaged("log", lambda data: data[:100]),
    "empty": damaged("log", lambda data: b""),
    "a directory": a_directory,
    "other columns": other_columns,
    "words for numbers": words_for_numbers,
    "a link that leads nowhere": leads_nowhere,
    "a table is missing": lambda run_dir: shutil.rmtree(run_dir / "trace" / "log"),
    "no trace": lambda run_dir: shutil.rmtree(run_dir / "trace"),
}


def edited(**fields: Any) -> Damage:
    def edit(run_dir: Path) -> None:
        file = run_dir / "summary.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **fields}))

    return edit


def written(name: str, data: bytes) -> Damage:
    def write(run_dir: Path) -> None:
        (run_dir / name).write_bytes(data)

    return write


SUMMARIES: dict[str, Damage] = {
    "a list": written("summary.json", b"[]"),
    "without keys": written("summary.json", b"{}"),
    "wrong types": edited(records="none"),
    "no names": edited(records={"lost": [{"a": 1}]}),
    "nested deeply": written("summary.json", b"[" * 100_000),
    "no text": written("summary.json", bytes(range(256))),
    "a huge number": written("summary.json", b'{"records": ' + b"9" * 10_000 + b"}"),
}
LOCKS: dict[str, Damage] = {
    "gone": lambda run_dir: (run_dir / "scenario.lock.yaml").unlink(),
    "no text": written("scenario.lock.yaml", bytes(range(256))),
    "no scenario": written("scenario.lock.yaml", b"[1]"),
    "nested deeply": written("scenario.lock.yaml", b"[" * 10_000),
    "another scenario": written("scenario.lock.yaml", MINI.replace("count: 2", "count: 1").encode()),
}


@pytest.fixture
def hostile(whole: Path, tmp_path: Path) -> Callable[[Damage], str]:
    def damage(how: Damage) -> str:
        shutil.copytree(whole, tmp_path / "0001-hostile")
        how(tmp_path / "0001-hostile")
        return "0001-hostile"

    return damage


def refused(highwater: Highwater, file: str, *words: str) -> None:
    done = highwater(*words)
    assert (done.code, done.out) == (2, ""), done
    assert done.error_lines[0].startswith("error: ") and file in done.error_lines[0]
    assert all(line.startswith("  = fix: ") for line in done.error_lines[1:])


@pytest.mark.soak
@pytest.mark.parametrize("how", TRACES)
def test_a_damaged_trace(how: str, hostile: Callable[[Damage], str], highwater: Highwater) -> None:
    run_dir = hostile(TRACES[how])
    for words in (("explain", run_dir, "r0"), ("explain", run_dir, "S6"), ("report", run_dir)):
        refused(highwater, f"{run_dir}/trace", *words)
    assert not (Path(run_dir) / "report").exists()


def test_a_trace_that_is_damaged_inside(hostile: Callable[[Damage], str], highwater: Highwater) -> None:
    Path("q.sql").write_text("SELECT 1")
    run_dir = hostile(damaged("log", lambda data: data[:50] + b"\xff" * 100 + data[150:]))
    for words in (("explain", run_dir, "r0"), ("report", run_dir), ("report", run_dir, "--sql", "q.sql")):
        refused(highwater, f"{run_dir}/trace", *words)


def another_reason(run_dir: Path) -> None:
    """As well-formed as the run's own, and of the same columns."""
    table = pq.read_table(part(run_dir, "control"))
    reasons = pa.array(["for no reason"] * len(table))
    place = table.schema.get_field_index("reason")
    pq.write_table(table.set_column(place, table.schema.field("reason"), reasons), part(run_dir, "control"))


def test_a_trace_that_says_something_else_than_the_run(hostile: Callable[[Damage], str], highwater: Highwater) -> None:
    run_dir = hostile(another_reason)
    for words in (("explain", run_dir, "r0"), ("report", run_dir), ("report", run_dir, "--tables", "t")):
        refused(highwater, f"{run_dir}/trace", *words)


def linked(name: str) -> Damage:
    """The target of this name is elsewhere, and whole there."""

    def link(run_dir: Path) -> None:
        outside = run_dir.parent / "outside"
        if (run_dir / name).exists():
            (run_dir / name).rename(outside)
        else:
            outside.mkdir()
        (run_dir / name).symlink_to(outside)

    return link


def a_pipe(run_dir: Path) -> None:
    (run_dir / "scenario.lock.yaml").unlink()
    os.mkfifo(run_dir / "scenario.lock.yaml")


LEADING_OUT = {
    "summary.json": linked("summary.json"),
    "scenario.lock.yaml": linked("scenario.lock.yaml"),
    "trace": linked("trace"),
    "trace/log": linked("trace/log"),
    "trace/log/part-00000.parquet": linked("trace/log/part-00000.parquet"),
    "report": linked("report"),
    "a pipe": a_pipe,
}


@pytest.mark.parametrize("name", LEADING_OUT)
def test_what_leads_out_of_a_run_folder_is_not_followed(
    name: str, hostile: Callable[[Damage], str], highwater: Highwater, tmp_path: Path
) -> None:
    run_dir = hostile(LEADING_OUT[name])
    before = sorted(tmp_path.rglob("*"))
    place = f"{run_dir}/{'scenario.lock.yaml' if name == 'a pipe' else name} is a"
    for words in (("explain", run_dir, "r0"), ("path", run_dir), ("report", run_dir), ("explain", run_dir, "--lost")):
        refused(highwater, place, *words)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("how", SUMMARIES)
def test_an_edited_summary(how: str, hostile: Callable[[Damage], str], highwater: Highwater) -> None:
    run_dir = hostile(SUMMARIES[how])
    for words in (("explain", run_dir, "--lost"), ("explain", run_dir, "r0"), ("path", run_dir)):
        refused(highwater, f"{run_dir}/summary.json", *words)


@pytest.mark.parametrize("how", LOCKS)
def test_an_edited_lock(how: str, hostile: Callable[[Damage], str], highwater: Highwater) -> None:
    run_dir = hostile(LOCKS[how])
    for words in (("explain", run_dir, "r0", "--what-if"), ("path", run_dir), ("path", run_dir, "r0")):
        refused(highwater, f"{run_dir}/scenario.lock.yaml", *words)


@pytest.mark.parametrize("name", ["a-file", "an-empty-folder", "x" * 5000])
def test_what_is_no_run_folder(name: str, highwater: Highwater, tmp_path: Path) -> None:
    (tmp_path / "a-file").write_text("")
    (tmp_path / "an-empty-folder").mkdir()
    for command in ("explain", "path", "report"):
        refused(highwater, name[:80], command, name, *(["r0"] if command == "explain" else []))


def test_a_pointer_to_the_last_run_that_is_no_text(whole: Path, highwater: Highwater, tmp_path: Path) -> None:
    shutil.copytree(whole.parent, tmp_path / "runs")
    (tmp_path / "runs" / "last").write_bytes(bytes(range(256)))
    assert highwater("explain", "last", "r0").code == 0


# ---------------------------------------------------------------------------------------------- where nothing can go


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no /proc here")
@pytest.mark.parametrize("words", [("run", "mini.yaml"), ("search", "--seeds", "1..1000")])
def test_a_folder_that_takes_no_files_though_permissions_allow_it(
    words: tuple[str, ...], highwater: Highwater, tmp_path: Path
) -> None:
    (tmp_path / "mini.yaml").write_text(MINI)
    done = highwater(*words, "--out", "/proc/self/nowhere")
    assert (done.code, done.out, len(done.error_lines)) == (6, "", 2), done
    assert "no file can be created in /proc/self" in done.error_lines[0] and "--out DIR" in done.error_lines[1]


def test_where_nothing_can_be_written_nothing_is_begun(whole: Path, highwater: Highwater, tmp_path: Path) -> None:
    """The error comes before Spark starts and before a seed is played, because both take longer."""
    (tmp_path / "a-file").write_text("mine")
    (tmp_path / "page" / "report.html").mkdir(parents=True)
    (tmp_path / "others" / "tables").mkdir(parents=True)
    (tmp_path / "others" / "tables" / "mine.txt").write_text("mine")
    (tmp_path / "mini.yaml").write_text(MINI)
    report, search = ("report", str(whole)), ("search", "--seeds", "1..1000")
    follow = ("report", "--follow", str(whole))
    run, sweep, serve = ("run", "mini.yaml"), ("sweep", "mini.yaml"), ("serve", "--port", "39092")
    commands: list[tuple[tuple[str, ...], int, str]] = [
        ((*search, "--out", "a-file"), 6, "a-file is not a folder"),
        ((*search, "--out", "a-file/deeper"), 6, "a-file is not a folder"),
        ((*run, "--out", "a-file/deeper"), 6, "a-file is not a folder"),
        ((*run, "--live", "--out", "a-file"), 6, "a-file is not a folder"),
        ((*sweep, "--out", "a-file/deeper"), 6, "a-file is not a folder"),
        ((*serve, "--record", "a-file"), 6, "a-file is not a folder"),
        ((*follow, "--out", "a-file"), 6, "a-file is not a folder"),
        ((*report, "--out", "a-file"), 6, "a-file is not a folder"),
        ((*report, "--tables", "a-file/deeper"), 6, "a-file is not a folder"),
        ((*report, "--out", "page"), 2, "page/report.html is a folder"),
        ((*report, "--out", "others"), 2, "others/tables already exists"),
    ]
    before = sorted(tmp_path.rglob("*"))
    for words, code, said in commands:
        done = highwater(*words)
        assert (done.code, done.out, len(done.error_lines)) == (code, "", 2), done
        assert said in done.error_lines[0] and "choose another" in done.error_lines[1]
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "others" / "tables" / "mine.txt").read_text() == "mine"

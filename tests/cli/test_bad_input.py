"""For any bad input the command gives one clear error, the right exit code, and leaves nothing that reads as a run."""

from __future__ import annotations

import importlib
import os
import py_compile
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command import LIMITED, MINI, Highwater

from scenarios.process.failures import lack_behind
from tests.soak import one_in


def changed(old: str, new: str) -> str:
    assert MINI.count(old) == 1
    return MINI.replace(old, new)


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before] * 9)}]\n"
    for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)

BAD: dict[str, tuple[str, str]] = {
    "unknown key": (changed("duration: 40s", "duration: 40s\nduratoin: 3s"), "duratoin"),
    "duplicate key": (changed("duration: 40s", "duration: 40s\nduration: 50s"), "duration"),
    "bare number for a time": (changed("duration: 40s", "duration: 40"), "40"),
    "bare number for a step's time": (changed("at: 11s", "at: 11"), "11"),
    "unknown broker": (changed("kill: b1}", "kill: b7}"), "b7"),
    "unknown replica": (changed("0: [b1, b2, b3]", "0: [b1, b2, b9]"), "b9"),
    "negative offset": (
        changed("kill: b1}", "seek: {consumer: k, partition: t-0, to: -5}}").replace(
            "workloads: {", "workloads: {k: {kind: consumer, topic: t}, "
        ),
        "-5",
    ),
    "negative time": (changed("at: 11s", "at: -11s"), "-11s"),
    "path-like topic": (
        MINI.replace("topics: {t:", "topics: {../../x:").replace("topic: t", "topic: ../../x"),
        "../../x",
    ),
    "path-like id": (changed("id: mini", "id: ../../mini"), "../../mini"),
    "path-like broker": (MINI.replace("b3", "../b3"), "../b3"),
    "yaml bomb": (BOMB, "alias"),
    "python object": ("!!python/object/apply:os.system ['touch owned']\n", "tag"),
    "not yaml": ("schema: [1\n", "schema.yaml"),
    "empty": ("", "schema: 1"),
    "deeply nested": ("[" * 10_000, "level"),
    "other profile": (changed("duration: 40s", "duration: 40s\nprofile: kafka-0.7"), "kafka-0.8"),
    "half a verb": (changed("kill: b1}", "bitflip: {broker: b1, partition: t-0}}"), "missing `offset`"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused(name: str, highwater: Highwater, tmp_path: Path) -> None:
    text, said = BAD[name]
    path = tmp_path / "schema.yaml"
    path.write_text(text)
    done = highwater("run", str(path))
    assert (done.code, done.out) == (3, "")
    assert said in done.err
    assert "error[E" in done.err
    assert "Nothing was run" in done.err
    assert [entry.name for entry in tmp_path.iterdir()] == ["schema.yaml"]
    check = highwater("check", str(path))
    assert check.code == 3
    assert "error[E" in check.out + check.err


@pytest.mark.parametrize("words", [("run", "--live"), ("serve", "--scenario")])
def test_a_live_cluster_says_what_it_cannot_play(words: tuple[str, ...], highwater: Highwater, tmp_path: Path) -> None:
    path = tmp_path / "cards.yaml"
    path.write_text(changed("duration: 40s", "duration: 40s\nnetwork: {card: 1MB/s}"))
    done = highwater(*words, str(path))
    assert done.code == 2 and "`network.card`" in done.err
    assert not (tmp_path / "runs").exists()


def test_a_file_of_100_mb_is_refused_unread(highwater: Highwater, tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    with path.open("wb") as file:
        file.truncate(100 << 20)
    done = highwater("run", str(path))
    assert done.code == 3
    assert "104,857,600 bytes" in done.err
    assert len(done.error_lines) < 10


@pytest.mark.parametrize("what", ["a directory", "a device", "binary"])
def test_what_is_no_text_file(what: str, highwater: Highwater, tmp_path: Path) -> None:
    path = tmp_path / "thing.yaml"
    if what == "a directory":
        path.mkdir()
    elif what == "binary":
        path.write_bytes(bytes(range(256)))
    else:
        path = Path("/dev/zero")
    assert highwater("run", str(path)).code == 3


# ------------------------------------------------------------------------------------------------ nowhere to write


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        ((), "highwater report last --sql 'SHOW TABLES'"),
        (("two words", "7"), "highwater report 'two words' 7 --sql 'SHOW TABLES'"),
    ],
)
@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("select", "no such file: `select`"),
        ("my questions.sql", "no such file: `my questions.sql`"),
        (".", "a folder: `.`"),
        ("", "no such file: ``"),
        ("x" * 5_000, f"no such file: `{'x' * 5_000}`"),
    ],
)
def test_what_is_neither_a_statement_nor_a_file_of_them(
    words: tuple[str, ...], fix: str, sql: str, said: str, highwater: Highwater
) -> None:
    """Whether or not there is a run."""
    done = highwater("report", *words, "--sql", sql)
    assert (done.code, done.out) == (2, "")
    error, remedy = done.err.splitlines()
    assert error.startswith("error: --sql takes SQL statements or the name of a file, but ") and said in error
    assert remedy.endswith(fix)


def test_a_statement_of_a_run_that_is_not_there(highwater: Highwater) -> None:
    done = highwater("report", "--sql", "SELECT 1" + ", 1" * 2_000)
    assert (done.code, done.error_lines[0][:20]) == (2, "error: no run `last`")


def test_the_beginning_of_a_name_is_enough_for_a_hint(highwater: Highwater) -> None:
    for name, meant in (("unclean-e", "unclean-election"), ("acks1-leadr-kill", "acks1-leader-kill")):
        assert highwater("run", name).error_lines == [f"error: There is no scenario `{name}`. Did you mean `{meant}`?"]


def runs_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def test_a_file_stands_where_the_run_folder_should_be(highwater: Highwater, tmp_path: Path) -> None:
    scenario = tmp_path / "mini.yaml"
    scenario.write_text(MINI)
    (tmp_path / "occupied").write_text("not a folder")
    for out in ("occupied", "occupied/deeper"):
        done = highwater("run", str(scenario), "--out", out)
        assert (done.code, done.out) == (6, "")
        assert "cannot be written to" in done.err and "--out DIR" in done.err
        assert len(done.error_lines) == 2
    assert (tmp_path / "occupied").read_text() == "not a folder"


def limited(folder: Path, limit: int, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LIMITED.format(limit=limit), *words], capture_output=True, text=True, cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip


def test_the_folder_in_which_a_shell_is_was_deleted(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    words = f'cd "{tmp_path}/gone" && rmdir "{tmp_path}/gone" && exec "{sys.executable}" -m scenarios.cli runs'
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout) == (6, "")
    assert done.stderr.splitlines() == [
        "error: the current directory no longer exists: No such file or directory",
        "  = fix: cd to an existing folder",
    ]


@pytest.mark.soak
def test_what_was_found_is_told_where_it_cannot_be_kept(highwater: Highwater, tmp_path: Path) -> None:
    (tmp_path / "mini.yaml").write_text(MINI)
    highwater("run", "mini.yaml")
    highwater("view", "last")
    page = tmp_path / "runs" / "0001-mini" / "view.html"
    before = page.read_text()
    done = limited(tmp_path, 60_000, "explain", "last", "r0", "--what-if", "--plain")
    assert len(before) > 60_000 and page.read_text() == before
    assert done.returncode == 0 and "Saves it:" in done.stdout and "error" not in done.stderr


@pytest.mark.soak
def test_agree_without_room_is_no_bug(tmp_path: Path) -> None:
    (tmp_path / "mini.yaml").write_text(MINI)
    done = limited(tmp_path, 3_000, "agree", "mini.yaml:silent", "--live")
    assert done.returncode == 6
    assert re.search(r"^error: runs/agree/live cannot be written: .*File too large$", done.stderr, re.MULTILINE)
    assert "repeat the command" in done.stderr and "bug" not in done.stderr


@pytest.mark.soak
@pytest.mark.parametrize("limit", one_in(3, [3000, 100, 0]))
def test_a_full_disk_leaves_no_half_a_run(limit: int, tmp_path: Path) -> None:
    """No file may grow beyond the limit: the first log write fails, or a later one, or the trace."""
    scenario = tmp_path / "mini.yaml"
    scenario.write_text(MINI)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED.format(limit=limit), "run", str(scenario), "--out", str(tmp_path / "runs")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert (done.returncode, done.stdout) == (6, "")
    assert "Traceback" not in done.stderr
    assert "cannot be written to" in done.stderr and "nothing was kept" in done.stderr
    assert runs_in(tmp_path / "runs") == []


def test_a_write_that_fails_last_leaves_no_run(
    highwater: Highwater, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The very last step before the rename: the lock file."""
    scenario = tmp_path / "mini.yaml"
    scenario.write_text(MINI)
    write_text = Path.write_text

    def full(self: Path, *args: object, **kwargs: Any) -> int:
        if self.name == "scenario.lock.yaml":
            raise OSError(28, os.strerror(28), str(self))
        return write_text(self, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "write_text", full)
    done = highwater("run", str(scenario))
    assert done.code == 6
    assert "No space left on device" in done.err
    assert runs_in(tmp_path / "runs") == []
    monkeypatch.undo()


def test_an_interrupted_run_is_no_run(highwater: Highwater, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = tmp_path / "mini.yaml"
    scenario.write_text(MINI)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cluster.broker.broker.BrokerCore.tick", interrupt)
    done = highwater("run", str(scenario))
    assert (done.code, done.out, done.error_lines) == (130, "", ["Interrupted."])
    assert runs_in(tmp_path / "runs") == []


def test_our_own_bug_is_said_to_be_one(highwater: Highwater, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = tmp_path / "mini.yaml"
    scenario.write_text(MINI)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def fail(*_: object) -> None:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr("cluster.broker.broker.BrokerCore.tick", fail)
    done = highwater("run", str(scenario))
    assert (done.code, done.out) == (4, "")
    assert "a bug in highwater: ZeroDivisionError: on purpose" in done.err
    (details,) = tmp_path.glob("highwater-bug-*.txt")
    assert "on purpose" in details.read_text()
    assert runs_in(tmp_path / "runs") == []


def test_an_end_of_file_is_not_taken_for_ctrl_c(
    highwater: Highwater, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Click does so for each EOFError of a command, wherever it comes from."""
    (tmp_path / "mini.yaml").write_text(MINI)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def fail(*_: object) -> None:
        raise EOFError("marshal data too short")

    monkeypatch.setattr("cluster.broker.broker.BrokerCore.tick", fail)
    done = highwater("run", str(tmp_path / "mini.yaml"))
    assert (done.code, done.out) == (4, "")
    assert "a bug in highwater: EOFError: marshal data too short" in done.err
    assert "Interrupted" not in done.err


def test_a_module_whose_bytecode_is_cut_short_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cut_short.py").write_text("A = 'text of some length'\nB = [A] * 3\n")
    compiled = Path(py_compile.compile(str(tmp_path / "cut_short.py"), doraise=True) or "")
    compiled.write_bytes(compiled.read_bytes()[:40])
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(EOFError) as failed:
        importlib.import_module("cut_short")
    lack = lack_behind(failed.value)
    assert lack is not None and lack.what == f"{compiled} is damaged: {failed.value}"


SHORT_OF = """
import resource, sys
from scenarios.cli.main import main
sys.argv = ["highwater", *sys.argv[1:]]
resource.setrlimit(resource.{limit}, ({most}, {most}))
main()
"""


@pytest.mark.soak
@pytest.mark.parametrize(
    ("limit", "most", "words", "said"),
    [
        ("RLIMIT_NOFILE", 14, ["run", "mini.yaml"], "too many open files; this process may open 14 (ulimit -n)"),
        ("RLIMIT_NOFILE", 24, ["serve", "--for", "1s", "--port", "23456"], "this process may open 24 (ulimit -n)"),
        ("RLIMIT_NOFILE", 20, ["search", "--seeds", "1..2"], "too many open files; this process may open 20"),
        ("RLIMIT_NOFILE", 40, ["sweep", "mini.yaml", "--seeds", "1..2"], "the limit is 40 files; raise it with"),
        ("RLIMIT_AS", 200 << 20, ["run", "mini.yaml"], "the memory limit (ulimit -v) of 200 MiB is too low"),
        ("RLIMIT_AS", 2000 << 20, ["sweep", "mini.yaml", "--seeds", "1..2"], "raise it with `ulimit -v`"),
    ],
)
def test_what_the_machine_lacks_is_said_with_its_limit(
    limit: str, most: int, words: list[str], said: str, tmp_path: Path
) -> None:
    (tmp_path / "mini.yaml").write_text(MINI)
    program = SHORT_OF.format(limit=limit, most=most)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program, *words], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 6 and said in done.stderr, done.stderr
    assert "a bug in" not in done.stderr + done.stdout

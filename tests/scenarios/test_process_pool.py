"""Jobs in processes of their own: in order, with their errors, and none of them left over when nothing is wanted."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from scenarios.language.diagnostics import ScenarioInvalid
from scenarios.process.failures import ProcessDied
from scenarios.process.pool import in_order
from scenarios.process.work_folders import work_folder
from tests.waiting import wait_for


def square(number: int) -> int:
    return number * number


def invert(number: int) -> float:
    return 1 / number


def refuse(number: int) -> int:
    raise ScenarioInvalid(f"{number}.yaml", [])


def die(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def outlive(job: tuple[str, Path]) -> str:
    """The `short` job dies at once, the `long` one ends when that process is gone."""
    name, pid_file = job
    if name == "short":
        pid_file.with_suffix(".new").write_text(str(os.getpid()))
        pid_file.with_suffix(".new").rename(pid_file)
        os.kill(os.getpid(), signal.SIGKILL)
    wait_for(lambda: pid_file.exists() and is_gone(int(pid_file.read_text())))
    return name


def folder_of_a_run(_: int) -> Path:
    with work_folder(None) as folder:
        return folder.parent.parent


def is_gone(pid: int) -> bool:
    """Dead, though its parent may not have asked how it ended."""
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z"


def hang(pid_file: str) -> int:
    Path(pid_file).write_text(str(os.getpid()))
    if pid_file.endswith("first"):
        return os.getpid()
    while True:
        time.sleep(60)


@pytest.mark.soak
@pytest.mark.parametrize("processes", [1, 3, 40])
def test_results_come_in_the_order_of_the_jobs(processes: int) -> None:
    assert list(in_order(square, range(30), processes)) == [number * number for number in range(30)]


@pytest.mark.parametrize("processes", [1, 2])
def test_what_a_job_raises_is_raised_in_its_turn(processes: int) -> None:
    coming = in_order(invert, [2, 4, 0, 1], processes)
    assert [next(coming), next(coming)] == [0.5, 0.25]
    with pytest.raises(ZeroDivisionError) as raised:
        next(coming)
    if processes > 1:
        assert "in invert" in raised.value.__notes__[0]


def test_an_error_that_does_not_travel_comes_as_its_words() -> None:
    with pytest.raises((ScenarioInvalid, RuntimeError), match=r"1\.yaml"):
        list(in_order(refuse, [1, 2], 2))


def test_a_process_that_is_killed_ends_the_others_and_is_said_to_have_died() -> None:
    coming = in_order(die, [1, 2, 3, 4], 2)
    assert [next(coming), next(coming)] == [1, 2]
    with pytest.raises(ProcessDied, match="signal 9"):
        next(coming)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no /proc here")
def test_what_comes_before_a_process_that_died_is_whole_however_late(tmp_path: Path) -> None:
    """The process of the second job is gone long before the first job is done."""
    coming = in_order(outlive, [("long", tmp_path / "pid"), ("short", tmp_path / "pid")], 2)
    assert next(coming) == "long"
    with pytest.raises(ProcessDied, match="signal 9"):
        next(coming)


def test_closing_ends_what_still_plays(tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in ("first", "second")]
    coming = in_order(hang, files, 2)
    pids = [next(coming)]
    second = tmp_path / "second"
    pids.append(int(wait_for(lambda: second.read_text() if second.is_file() else "")))
    coming.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize("processes", [1, 2])
def test_files_of_runs_are_in_the_chosen_folder_and_gone_with_them(processes: int, tmp_path: Path) -> None:
    assert set(in_order(folder_of_a_run, range(3), processes, str(tmp_path))) == {tmp_path}
    assert list(tmp_path.iterdir()) == []


def leave_a_file(_: int) -> Path:
    descriptor, file = tempfile.mkstemp()
    os.close(descriptor)
    return Path(file)


def test_ctrl_c_while_the_files_of_runs_are_removed_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    remove = shutil.rmtree

    def interrupted(*args: Any, **options: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        remove(*args, **options)

    runs = in_order(leave_a_file, [1], 1)
    file = next(runs)
    assert file.exists()
    monkeypatch.setattr(shutil, "rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt):
        runs.close()
    assert not file.parent.exists()

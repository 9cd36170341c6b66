"""Folders of runs that are under way: whose owner is gone, they are removed; whose owner is there, they stay."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from scenarios.process.work_folders import TEMPORARY, folder_in_memory, temporary_folder, work_folder


def test_what_a_killed_process_has_left_is_removed_by_the_next_and_what_is_in_use_stays(tmp_path: Path) -> None:
    (tmp_path / ".run-left" / "logs").mkdir(parents=True)
    (tmp_path / "0001-kept").mkdir()
    with work_folder(tmp_path) as first, work_folder(tmp_path) as second:
        assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "0001-kept", first, second])
    assert list(tmp_path.iterdir()) == [tmp_path / "0001-kept"]


def test_one_that_is_given_its_final_name_stays(tmp_path: Path) -> None:
    with work_folder(tmp_path) as folder:
        folder.rename(tmp_path / "0001-kept")
    assert list(tmp_path.iterdir()) == [tmp_path / "0001-kept"]


def test_who_chose_a_temporary_directory_gets_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert folder_in_memory() is None
    monkeypatch.delenv("TMPDIR")
    assert folder_in_memory() in (None, "/dev/shm")


HOLDS = """
import os, signal, sys, tempfile
tempfile.tempdir = sys.argv[1]
from scenarios.process.work_folders import have_own_temporary_folder
have_own_temporary_folder()
tempfile.mkdtemp()
print(tempfile.gettempdir(), flush=True)
sys.stdin.read(1)
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_process_leaves_nothing_once_another_one_has_begun(end: signal.Signals, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as owner:
        assert owner.stdout is not None
        own = Path(owner.stdout.readline().decode().strip())
        with temporary_folder(str(tmp_path)) as mine:
            assert sorted(tmp_path.iterdir()) == sorted([own, mine]), "what is in use stays"
            assert len(list(own.iterdir())) == 1
        owner.send_signal(end)
        owner.wait()
    (tmp_path / f"{TEMPORARY}link").symlink_to(tmp_path.parent)
    with temporary_folder(str(tmp_path)) as mine:
        assert sorted(tmp_path.iterdir()) == sorted([mine, tmp_path / f"{TEMPORARY}link"])

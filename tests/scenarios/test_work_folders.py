"""Folders of runs that are under way: whose owner is gone, they are removed; whose owner is there, they stay."""

from pathlib import Path

import pytest

from scenarios.process.work_folders import folder_in_memory, work_folder


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

"""A cache gives back what was made, and nothing that is damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_reports.report.embedding import kept


def test_a_text_is_made_once_and_again_when_it_is_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made: list[str] = []

    def make() -> str:
        made.append("größer\r\n")
        return made[-1]

    assert [kept("a script", make) for _ in range(2)] == ["größer\r\n"] * 2
    assert len(made) == 1
    (file,) = (tmp_path / "highwater").iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    assert [kept("a script", make) for _ in range(2)] == ["größer\r\n"] * 2
    assert len(made) == 2


def test_without_a_cache_each_process_makes_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "highwater").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert kept("a script", lambda: "text") == "text"

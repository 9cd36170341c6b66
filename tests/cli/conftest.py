"""The `highwater` command in this process, in an empty directory."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import Highwater, Outcome

from scenarios.cli.main import main


@pytest.fixture
def highwater(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
) -> Highwater:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)
    # Whatever clusters run on this machine are none of this test's.
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))

    def call(*words: str) -> Outcome:
        monkeypatch.setattr("sys.argv", ["highwater", *words])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err + captured.out
        return Outcome(int(ended.value.code or 0), captured.out, captured.err)

    return call

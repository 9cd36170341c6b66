"""Runs that end together in one folder: each takes a different number, and all are kept."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from command import MINI

PROCESSES, RUNS = 3, 2
PLAYER = f"""
import sys
from pathlib import Path
from scenarios.language.parse.loading import load_file
from scenarios.run.runner import run_scenario
scenario = load_file(Path(sys.argv[1])).scenario
print("ready", flush=True)
sys.stdin.readline()
for _ in range({RUNS}):
    run_scenario(scenario, runs_dir=Path("runs"), keep_logs=False)
"""


@pytest.mark.soak
def test_runs_of_many_processes_that_end_together_are_all_kept(tmp_path: Path) -> None:
    mini, runs = tmp_path / "mini.yaml", tmp_path / "runs"
    mini.write_text(MINI)
    runs.mkdir()
    (runs / "9998-old").mkdir()  # a number may grow longer
    command = [sys.executable, "-c", "import sys; sys.path[:0] = " + repr(sys.path) + PLAYER, str(mini)]
    players = [
        subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(PROCESSES)
    ]
    for player in players:
        assert player.stdout is not None and player.stdout.readline() == "ready\n"
    for player in players:
        assert player.stdin is not None
        player.stdin.write("go\n")
        player.stdin.flush()
    for player in players:
        player.communicate(timeout=200)
    assert [player.returncode for player in players] == [0] * PROCESSES
    kept = [f"{number:04d}-mini" for number in range(9999, 9999 + PROCESSES * RUNS)]
    assert sorted(path.name for path in runs.iterdir()) == sorted([*kept, "9998-old", "last"])
    for name in kept:
        summary = json.loads((runs / name / "summary.json").read_text())
        assert Path(summary["run_dir"]).name == name and list((runs / name / "trace").glob("*/part-00000.parquet"))
    assert (runs / "last").read_text() == kept[-1] + "\n"

"""Ctrl-C, and SIGTERM, while a command plays: it keeps and reports its results, says how to go on, leaves no litter."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest
from command import MINI

from scenarios.language.parse.loading import load_file
from tests.interrupting import COMMAND, Ended, interrupted
from tests.soak import one_in

SEARCH = ("search", "--profile", "kafka-2.0", "--out", "found")
SEARCH_AS_TOLD = "search --profile kafka-2.0 --seeds"
SEEDS, FILES = 20, 60
"""More than any machine has played when the first of them are reported."""
FILE_NAMES = [f"mini-{number}.yaml" for number in range(FILES)]
needs_proc = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="no /proc here")


def rest_of(ended: Ended) -> list[str]:
    (line,) = [line for line in ended.errors if line.startswith("To play the rest: highwater ")]
    return shlex.split(line.removeprefix("To play the rest: highwater "))


@pytest.mark.soak
@pytest.mark.parametrize(("by", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_search_keeps_what_it_has_found(by: signal.Signals, code: int, tmp_path: Path) -> None:
    words = (*SEARCH, "--seeds", f"1..{SEEDS}", "--jobs", "2", "--format", "json")
    ended = interrupted(tmp_path, *words, by=by, sign="seeds, ")
    assert ended.code == code
    told = json.loads(ended.out)
    assert told["interrupted"] and 0 < told["played"] < SEEDS
    rest = f"{SEARCH_AS_TOLD} {told['played'] + 1}..{SEEDS} --out found"
    assert told["rest"] == f"highwater {rest}" and rest_of(ended) == shlex.split(rest)
    assert ended.errors[-1] == "Interrupted." and len(ended.errors) == 2
    assert told["found"] and told["not_shrunk"] == told["files"]
    kept = [*told["files"], told["page"], "found/kafka-2.0-blind.json"]
    assert sorted(f"found/{path.name}" for path in (tmp_path / "found").iterdir()) == sorted(kept)
    assert f"after {told['played']} of {SEEDS} runs" in (tmp_path / told["page"]).read_text()
    for file in told["files"]:
        assert load_file(tmp_path / file).scenario.profile == "kafka-2.0"


@pytest.mark.soak
def test_a_search_that_is_stopped_while_it_shrinks_says_what_is_not_shrunk(tmp_path: Path) -> None:
    ended = interrupted(tmp_path, *SEARCH, "--seeds", "2", sign="1 with findings")
    assert (ended.code, ended.errors) == (130, ["Interrupted."])
    assert "kafka-2.0: 1 schedules played; 1 run shows a failure that kafka-2.0 allows" in ended.out
    assert "(not shrunk yet; to shrink it: highwater search --profile kafka-2.0 --seeds 2 --out found)" in ended.out
    kept = ["kafka-2.0-2.yaml", "kafka-2.0-blind.json", "search.html"]
    assert sorted(path.name for path in (tmp_path / "found").iterdir()) == kept
    assert load_file(tmp_path / "found" / "kafka-2.0-2.yaml").scenario.timeline


def counts_of(ended: Ended) -> tuple[int, int]:
    """How many runs may have been played: those with a line, or one more, whose line Ctrl-C came before."""
    shown = len(re.findall(r"^  \S+ mini", ended.out, re.MULTILINE))
    assert 0 < shown < 3 * FILES
    return shown, shown + 1


@pytest.mark.soak
@pytest.mark.parametrize("jobs", one_in(2, ["2", "1"]))
@pytest.mark.parametrize("era", one_in(2, [(), ("--profile", "kafka-4.1")]))
def test_a_test_says_what_it_has_not_played(jobs: str, era: tuple[str, ...], tmp_path: Path) -> None:
    for name in FILE_NAMES:
        (tmp_path / name).write_text(MINI)
    ended = interrupted(tmp_path, "test", *FILE_NAMES, *era, "--jobs", jobs, sign="mini", on="stdout")
    assert ended.code == 130
    lines = [line for line in ended.out.splitlines() if line.strip()]
    if not era:
        assert re.search(rf"\b({'|'.join(map(str, counts_of(ended)))}) of {3 * FILES} runs, ", lines[-1])
    else:
        assert "runs written for this era met their expectations" in lines[-1]
    assert rest_of(ended) in [["test", *era, *FILE_NAMES[played // 3 :]] for played in counts_of(ended)]
    assert ended.errors[-1] == "Interrupted."


@pytest.mark.parametrize("imported", ["click.core", "scenarios.process.failures", "scenarios.cli.catalogue"])
def test_a_command_is_stopped_while_its_modules_are_imported(imported: str, tmp_path: Path) -> None:
    """The first two before there is a command, the third one by the command. Python says what it imports (-v)."""
    process = subprocess.Popen(
        [COMMAND[0], "-v", *COMMAND[1:], "list"], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True, bufsize=1,
    )  # fmt: skip
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("# ") and line.rstrip().endswith(f"{imported.replace('.', '/')}.py"):
            process.send_signal(signal.SIGINT)
            break
    else:
        raise AssertionError(f"{imported} was never imported")
    said = [line.strip() for line in process.stderr if not line.startswith(("#", "import ", "Python "))]
    assert process.wait(timeout=100) == 130
    assert [line for line in said if line and not line.startswith("Type ")] == ["Interrupted."]


# ---------------------------------------------------------------------------------- a process of a command is killed


def kill_a_player(process: subprocess.Popen[bytes]) -> None:
    """One of the processes that play, as a kernel short of memory would."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)


COMMANDS = {"test": ("test", *FILE_NAMES, "--jobs", "2"), "search": (*SEARCH, "--seeds", f"1..{SEEDS}", "--jobs", "2")}


@pytest.mark.soak
@needs_proc
@pytest.mark.parametrize("command", one_in(2, COMMANDS))
def test_what_was_played_before_a_process_was_killed_is_kept(command: str, tmp_path: Path) -> None:
    for name in FILE_NAMES:
        (tmp_path / name).write_text(MINI)
    sign, on = ("seeds, ", "stderr") if command == "search" else ("mini", "stdout")
    ended = interrupted(tmp_path, *COMMANDS[command], by=kill_a_player, sign=sign, on=on)
    assert ended.code == 6
    error, fix = ended.errors[-2:]
    assert error == "error: a worker process for runs was killed by signal 9"
    assert fix.startswith("  = fix: unless you killed it, memory ran out")
    words = rest_of(ended)
    if command == "search":
        (played,) = re.findall(rf"kafka-2.0: (\d+) of {SEEDS} schedules played", ended.out)
        assert f"{int(played) + 1}..{SEEDS}" in words
        assert list((tmp_path / "found").iterdir()) != []
    else:
        assert words == ["test", *FILE_NAMES[counts_of(ended)[0] // 3 :]]


LONG = """
schema: 1
id: a-long-run
title: A long run
duration: 100000s
cluster: {controllers: [c1], brokers: {b1: {}, b2: {}, b3: {}}}
topics: {t: {partitions: {0: [b1, b2, b3]}}}
workloads: {p1: {kind: producer, topic: t, rate: 10/s}}
timeline:
  - {at: 5s, kill: b1}
  - {at: 90000s, start: b1}
expect: {verdict: ok}
"""


@pytest.mark.soak
@pytest.mark.parametrize(("by", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_keeps_what_it_has_played(by: signal.Signals, code: int, tmp_path: Path) -> None:
    """Its folder is whole, every reader of runs reads it, and it says that it was cut short."""
    (tmp_path / "long.yaml").write_text(LONG, encoding="utf-8")
    ended = interrupted(tmp_path, "run", "long.yaml", by=by, sign="virtual time, ")
    assert (ended.code, ended.errors[-1]) == (code, "Interrupted.")
    assert "(cut short, planned: 100000 s)" in ended.out and "NOTHING LOST" in ended.out
    run = tmp_path / "runs" / "0001-a-long-run"
    assert sorted(path.name for path in run.parent.iterdir()) == ["0001-a-long-run", "last"]
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    assert 5 < summary["cut_short"]["at_s"] == summary["virtual_s"] < 90_000 < summary["cut_short"]["of_s"]
    assert load_file(run / "scenario.lock.yaml").scenario.duration_us == 100_000_000_000

    def said(*words: str) -> str:
        done = subprocess.run([*COMMAND, *words], cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout

    assert "ok, cut short" in said("runs")
    assert "r1 is safe" in said("explain", "last", "r1")
    said("view", "last")
    assert (run / "view.html").is_file()

"""No client makes a terminal do anything."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from replica.ids import TopicPartition
from scenarios.terminal.safe_output import SafeOutput
from scenarios.terminal.style import Style


def test_control_characters_of_others_are_spelt_out_and_our_own_colours_are_not() -> None:
    stream = io.StringIO()
    output = SafeOutput(stream)
    coloured = Style(colour=True).paint("lost", "red")
    output.write(f"{coloured}\t\x1b[2J\x1b]0;title\x07\x00\x9b1m\u0085ü\n\r\x1b[K")
    assert stream.getvalue() == f"{coloured}\t\\x1b[2J\\x1b]0;title\\x07\\x00\\x9b1m\\x85ü\n\r\x1b[K"
    assert output.encoding == stream.encoding


def test_a_partition_of_a_topic_that_cannot_exist_is_named_in_printable_and_few_characters() -> None:
    assert str(TopicPartition("orders", 3)) == "orders-3"
    assert str(TopicPartition("\x1b[2J", 0)) == "\\x1b[2J-0"
    assert len(str(TopicPartition("x" * 30_000, 0))) < 120


@pytest.mark.soak
def test_without_a_reader_the_exit_code_still_tells_how_it_ended(tmp_path: Path) -> None:
    for words, code in ((["rules"], 0), (["test", "no-such"], 3)):
        command = subprocess.Popen(
            [sys.executable, "-m", "scenarios.cli", *words],
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert command.stdout is not None and command.stderr is not None
        command.stdout.close()
        said = command.stderr.read()
        assert command.wait() == code and b"Broken" not in said and b"ignored" not in said


@pytest.mark.soak
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_output_that_cannot_be_written_is_no_bug_of_ours(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "scenarios.cli", "rules"], cwd=tmp_path, stdout=full, stderr=subprocess.PIPE
        )
    assert done.returncode == 6 and done.stderr.decode().count("\n") == 1 and b"No space left" in done.stderr


@pytest.mark.soak
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&- <&-"])
def test_streams_that_the_caller_has_closed_lead_nowhere(closed: str, tmp_path: Path) -> None:
    shell = f'"{sys.executable}" -m scenarios.cli run acks1-leader-kill --no-logs {closed}'
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(shell, shell=True, cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert ("ACKED RECORDS LOST" in done.stdout) == (closed == "2>&-")
    assert (tmp_path / "runs" / "0001-acks1-leader-kill" / "summary.json").is_file()

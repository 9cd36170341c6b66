"""A command's output while its progress is unknown."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import sys
import termios
import time

import pytest

from scenarios.cli.sweep.command import _pace_words, _progress
from scenarios.search.sweep import SweepScenario
from scenarios.terminal import progress
from scenarios.terminal.progress import ProgressLine, WaitingLine
from spark_reports.sweep.build import Pace


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_is_waited_for_is_said_at_once_and_no_more_when_it_has_come(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with WaitingLine("Spark starts"):
        assert re.fullmatch(r" +\d+\.\d s  Spark starts\n", capsys.readouterr().err)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with WaitingLine("Spark starts") as waiting:
        assert re.match(r"\r\x1b\[K +\d+\.\d s  Spark starts", terminal.getvalue())
        while terminal.getvalue().count("Spark starts") < 2:  # redrawn, with the time that has gone by
            time.sleep(0.05)
        waiting.end()
        shown = terminal.getvalue()
        assert shown.endswith("Spark starts\r\x1b[K")
        waiting.wait_for("something else")
    assert terminal.getvalue() == shown


def test_a_step_without_news_is_redrawn_until_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with ProgressLine("report") as line:
        line.show(0.0, "starting Spark")
        while terminal.getvalue().count("report starting Spark") < 2:
            time.sleep(0.05)
    shown = terminal.getvalue()
    assert len(set(re.findall(r"\d+\.\d s", shown))) == 2 and shown.endswith("starting Spark\r\x1b[K")


def test_what_is_printed_meanwhile_stands_on_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with ProgressLine("test") as line:
        line.show(0.5, "1 of 2 runs")
        while "1 of 2 runs" not in terminal.getvalue():
            time.sleep(0.05)
        with line.aside():
            terminal.write("a row\n")
    assert "1 of 2 runs\r\x1b[Ka row\n" in terminal.getvalue()


def test_a_sweep_estimates_its_time_once(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "ESTIMATE_FROM_S", 0.0)
    with ProgressLine("sweep") as line:
        _progress(SweepScenario("p", "p.yaml", "", None, ()), line)(Pace(5, 20, 0, 0, 10.0, None))
        while "5 of 20 runs" not in terminal.getvalue():
            time.sleep(0.05)
    assert re.search(r"5 of 20 runs, 2.0 s per run, 0 with losses, about \d+ s left", terminal.getvalue())


@pytest.mark.parametrize(
    ("played", "rate"), [(1, "40.0 s per run"), (39, "1.0 s per run"), (40, "1.0/s"), (90, "2.2/s")]
)
def test_a_slow_sweep_says_how_long_a_run_takes(played: int, rate: str) -> None:
    assert _pace_words(Pace(played, 90, 0, 0, 40.0, None)) == f"{played} of 90 runs, {rate}, 0 with losses"


def test_a_line_that_is_redrawn_fits_its_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    master, slave = pty.openpty()
    with open(slave, "w") as narrow, os.fdopen(master, "rb", buffering=0) as shown:
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
        monkeypatch.setattr(sys, "stderr", narrow)
        with WaitingLine("Spark looks for the first answer to the first of the statements"):
            pass
        said = ""
        while said.count("\x1b[K") < 2:  # What a terminal has to give comes in pieces.
            said += shown.read(1000).decode()
    assert re.fullmatch(r"\r\x1b\[K +\d+\.\d s  Spark looks for the f.*\r\x1b\[K", said)
    assert len(said.split("\x1b[K")[1].rstrip("\r")) == 39


def test_without_a_terminal_a_long_wait_is_said_again_with_the_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lines come although nothing new is shown."""
    monkeypatch.setattr(progress, "REPEAT_S", 0.2)
    monkeypatch.setattr(progress, "ESTIMATE_FROM_S", 0.0)
    for make, expected in (
        (lambda: ProgressLine("sweep"), r"sweep: 5 % 1 of 20 runs, about \d.* left"),
        (lambda: WaitingLine("Spark starts"), r" +\d+\.\d s  Spark starts"),
    ):
        text = ""
        with make() as line:
            if isinstance(line, ProgressLine):
                line.show(0.05, "1 of 20 runs")
            while text.count("\n") < 3:
                time.sleep(0.05)
                text += capsys.readouterr().err
        assert all(re.fullmatch(expected, said) for said in text.splitlines()), text

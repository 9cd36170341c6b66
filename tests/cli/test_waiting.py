"""A command's output while its progress is unknown."""

from __future__ import annotations

import io
import re
import sys
import time

import pytest

from scenarios.terminal.progress import ProgressLine, WaitingLine


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

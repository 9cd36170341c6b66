"""What a command shows while nobody can say how much is done."""

from __future__ import annotations

import io
import sys
import time

import pytest

from scenarios.progress import WaitingLine


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_is_waited_for_is_said_at_once_and_no_more_when_it_has_come(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with WaitingLine() as waiting:
        waiting.wait_for("Spark starts")
        assert capsys.readouterr().err == "    0.0 s  Spark starts\n"
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with WaitingLine() as waiting:
        waiting.wait_for("Spark starts")
        assert terminal.getvalue() == "\r\x1b[K    0.0 s  Spark starts"
        while terminal.getvalue().count("Spark starts") < 2:  # redrawn, with the time that has gone by
            time.sleep(0.05)
        waiting.end()
        shown = terminal.getvalue()
        assert shown.endswith("Spark starts\r\x1b[K")
        waiting.wait_for("something else")
    assert terminal.getvalue() == shown

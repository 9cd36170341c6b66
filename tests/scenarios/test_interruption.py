"""SIGTERM in a process that a shell has started in the background, where SIGINT is ignored."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import trio

from scenarios.terminal.interruption import ExitCode, interruptible

ROOT = Path(__file__).parents[2]


async def terminated_by_itself() -> None:
    os.kill(os.getpid(), signal.SIGINT)  # means nothing there
    await trio.lowlevel.checkpoint()
    os.kill(os.getpid(), signal.SIGTERM)
    await trio.sleep_forever()


def command() -> None:
    """As a command of Highwater, whose threads begin after its first lines: earlier ones would get the signals."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interruptible() as interruption:
        try:
            trio.run(terminated_by_itself)
        except KeyboardInterrupt:
            assert interruption.exit_code is ExitCode.TERMINATED
        else:
            raise AssertionError("nothing has ended it")
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    print("as it was")


def test_it_ends_what_trio_runs_and_leaves_the_signals_as_they_were() -> None:
    words = "from tests.scenarios.test_interruption import command; command()"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "as it was\n", "")

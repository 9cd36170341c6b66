"""SIGTERM in a process that a shell has started in the background, where SIGINT is ignored."""

from __future__ import annotations

import os
import signal

import pytest
import trio

from scenarios.terminal.exit_codes import ExitCode
from scenarios.terminal.interruption import interruptible


async def terminated_by_itself() -> None:
    os.kill(os.getpid(), signal.SIGINT)  # means nothing there
    await trio.lowlevel.checkpoint()
    os.kill(os.getpid(), signal.SIGTERM)
    await trio.sleep_forever()


def test_it_ends_what_trio_runs_and_leaves_the_signals_as_they_were() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interruptible() as interruption:
            with pytest.raises(KeyboardInterrupt):
                trio.run(terminated_by_itself)
            assert interruption.exit_code is ExitCode.TERMINATED
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    finally:
        signal.signal(signal.SIGINT, before)

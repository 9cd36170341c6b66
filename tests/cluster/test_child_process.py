"""A child process that is started while Ctrl-C comes is known before that takes effect."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from cluster.child_process import held_interrupt


def test_ctrl_c_comes_at_the_end_of_the_block() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), held_interrupt():
        os.kill(os.getpid(), signal.SIGINT)
        done.append("started")
    assert done == ["started"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_another_thread_hears_of_no_signal() -> None:
    done = []

    def start() -> None:
        with held_interrupt():
            done.append("started")

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert done == ["started"]

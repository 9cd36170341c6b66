"""Starts processes as forks of multiprocessing's fork server, which has already imported the modules that they need.

The server and its forks import modules from the same places as this process (see own_python.py). Their standard error
is a temporary file, whose last line explains the death of a fork that has not reported anything.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from multiprocessing.context import ForkServerProcess
from typing import BinaryIO

from scenarios.process.own_python import as_environment

LAST_WORDS_BYTES = 4096


class Forks:
    """A starter of forks of this process's fork server.

    Args:
        modules: modules that the fork server imports at its start. They have no effect if it is already running.
    """

    def __init__(self, *modules: str) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(list(modules))
        with _written_to(_standard_error()):
            first = self.start("highwater", _nothing)
        first.join()  # Wait until the server has imported everything, before the clock of a run begins.

    def start(self, name: str, target: Callable[..., None], *arguments: object) -> Fork:
        """Start a fork that calls `target`.

        If the start fails, the returned object acts like a process that died at once with the error as its last line.
        """
        process = self._context.Process(target=target, args=arguments, name=name, daemon=True)
        fork = Fork(process, _standard_error())
        try:
            with as_environment():
                process.start()
        except (EOFError, OSError) as error:
            fork.not_made = f"no process could be started: {error or type(error).__name__}"
        return fork


class Fork:
    """A forked process, with the interface of multiprocessing.Process."""

    def __init__(self, process: ForkServerProcess, said: BinaryIO) -> None:
        self._process = process
        self._said = said
        self._said_before = _size(said)
        self.not_made = ""
        """The reason why the process could not be created; empty if it was created."""

    @property
    def pid(self) -> int | None:
        return self._process.pid

    @property
    def exitcode(self) -> int | None:
        return self._process.exitcode if self.pid is not None else 1

    def join(self, timeout: float | None = None) -> None:
        if self.pid is not None:
            self._process.join(timeout)

    def close(self) -> None:
        self._process.close()

    def last_words(self) -> str:
        """Return the last line on the standard error that all forks share, since the start of this fork."""
        if self.not_made:
            return self.not_made
        size = _size(self._said)
        first = max(self._said_before, size - LAST_WORDS_BYTES)
        lines = os.pread(self._said.fileno(), size - first, first).decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _nothing() -> None:
    pass


@functools.cache
def _standard_error() -> BinaryIO:
    """Return the file for the standard error of the fork server, which serves all runs of this process."""
    return tempfile.TemporaryFile()  # The file stays open as long as this process.


def _size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


@contextlib.contextmanager
def _written_to(file: BinaryIO) -> Iterator[None]:
    """Redirect the standard error of processes started in the block, for which multiprocessing has no option."""
    sys.stderr.flush()
    before = os.dup(2)
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)

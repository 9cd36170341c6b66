"""Processes that are forks of one that has imported what they need: multiprocessing's fork server.

It and its forks import what this program imports (`own_python`), and write their standard error to a file of
this process, which reads their last words there when they die without a report.
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
    """There is one server for all of them in this process. modules: its imports, if it does not run yet"""

    def __init__(self, *modules: str) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(list(modules))
        with _written_to(_standard_error()):
            first = self.start("highwater", _nothing)
        first.join()  # Everything is imported before the clock of a run begins.

    def start(self, name: str, target: Callable[..., None], *arguments: object) -> Fork:
        """Of a fork that cannot be made it is as if it had died at once, and had said why."""
        process = self._context.Process(target=target, args=arguments, name=name, daemon=True)
        fork = Fork(process, _standard_error())
        try:
            with as_environment():
                process.start()
        except (EOFError, OSError) as error:
            fork.not_made = f"no process could be made: {error or type(error).__name__}"
        return fork


class Fork:
    """As multiprocessing.Process, which is what it hands on to."""

    def __init__(self, process: ForkServerProcess, said: BinaryIO) -> None:
        self._process = process
        self._said = said
        self._said_before = _size(said)
        self.not_made = ""
        """why there is no process, "" where there is one"""

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
        """The last line that it, or a fork beside it, wrote to standard error since it was started."""
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
    """Of the fork server, which outlives a run."""
    return tempfile.TemporaryFile()  # open for as long as this process lives


def _size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


@contextlib.contextmanager
def _written_to(file: BinaryIO) -> Iterator[None]:
    """Standard error of processes that are started within; multiprocessing offers no choice of it."""
    sys.stderr.flush()
    before = os.dup(2)
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)

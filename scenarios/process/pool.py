"""Runs many jobs in worker processes, and returns the results in the order of the jobs.

Each worker has its own pipe and shares nothing with other workers, so it can be killed at any time. Workers that are
still busy when no further result is needed, such as after Ctrl-C, are killed.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import signal
import tempfile
import threading
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, NamedTuple, TypeVar

from scenarios.process.failures import ProcessDied
from scenarios.process.work_folders import temporary_folder

Job = TypeVar("Job")
Result = TypeVar("Result")

_STOPPING = (signal.SIGINT, signal.SIGTERM)


def in_order(
    play: Callable[[Job], Result], work: Sequence[Job], processes: int, folder: str | None = None
) -> Generator[Result, None, None]:
    """Yield the result of `play` for each job, in the order of `work`.

    With one process or one job, `play` is called in this process. Closing the iterator kills the workers and removes
    their temporary files.

    Args:
        work: the jobs.
        processes: largest number of workers.
        folder: directory for the workers' temporary files, None for the default directory.

    Raises:
        ProcessDied: the worker of a job died. Exceptions of `play` are raised as well.
    """
    # A run that Ctrl-C interrupts while it removes its temporary files leaves some, which are removed here.
    with _scratch_folder(folder) as scratch, contextlib.ExitStack() as running:
        if processes == 1 or len(work) < 2:
            running.callback(setattr, tempfile, "tempdir", tempfile.tempdir)
            tempfile.tempdir = scratch
            yield from map(play, work)
        else:
            players = [running.enter_context(_Player(play, scratch)) for _ in range(min(processes, len(work)))]
            yield from _played(players, work)


@contextlib.contextmanager
def _scratch_folder(folder: str | None) -> Iterator[str]:
    """Provide a temporary folder that is removed afterwards. SIGINT and SIGTERM are delayed until it is removed."""
    with contextlib.ExitStack() as scratch:
        own = scratch.enter_context(temporary_folder(folder))
        try:
            yield str(own)
        finally:
            with _stopping_waits():
                scratch.close()


@contextlib.contextmanager
def _stopping_waits() -> Iterator[None]:
    """Delay SIGINT and SIGTERM until the block ends. A blocked signal would be delivered to another thread instead."""
    if threading.current_thread() is not threading.main_thread():  # Signal handlers never interrupt other threads.
        yield
        return
    came: list[int] = []
    before = {sign: signal.signal(sign, lambda number, _: came.append(number)) for sign in _STOPPING}
    try:
        yield
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)
        for number in came:
            signal.raise_signal(number)


def _played(players: Sequence[_Player[Job]], work: Sequence[Job]) -> Iterator[Any]:
    by_pipe = {player.pipe: player for player in players}
    todo = iter(enumerate(work))
    turns: dict[Connection, int] = {}
    early: dict[int, Any] = {}

    def hand_out(pipe: Connection) -> None:
        for index, job in todo:
            try:
                by_pipe[pipe].begin(job)
                turns[pipe] = index
            except ProcessDied as died:
                early[index] = _Raised(died)
            return

    for player in players:
        hand_out(player.pipe)
    for index in range(len(work)):
        while index not in early:
            for pipe in wait(list(turns)):
                assert isinstance(pipe, Connection)
                played = turns.pop(pipe)
                try:
                    early[played] = by_pipe[pipe].outcome()
                    hand_out(pipe)
                # Raise this later: the results of all earlier jobs come first.
                except ProcessDied as died:
                    early[played] = _Raised(died)
        outcome = early.pop(index)
        if isinstance(outcome, _Raised):
            if outcome.traceback:
                outcome.error.add_note(outcome.traceback)
            raise outcome.error
        yield outcome


class _Raised(NamedTuple):
    """An exception of a job. `traceback` is that in the worker."""

    error: BaseException
    traceback: str = ""


class _Player(Generic[Job]):
    """A worker process that runs one job at a time. Leaving its `with` statement kills the process."""

    def __init__(self, play: Callable[[Job], Any], scratch: str) -> None:
        self.pipe, child_pipe = multiprocessing.Pipe()
        self._process = multiprocessing.Process(target=_serve, args=(play, child_pipe, scratch), daemon=True)
        # Block signals in the new process until it has replaced the handlers that it inherits.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        child_pipe.close()

    def __enter__(self) -> _Player[Job]:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.kill()
        self._process.join()
        self.pipe.close()

    def begin(self, job: Job) -> None:
        try:
            self.pipe.send(job)
        except ConnectionError:
            raise self._died() from None

    def outcome(self) -> Any:
        try:
            return self.pipe.recv()
        except (EOFError, OSError):  # The process may have died while it sent a result.
            raise self._died() from None

    def _died(self) -> ProcessDied:
        self._process.join()
        code = self._process.exitcode
        how = f"ended with exit code {code}" if code is None or code >= 0 else f"was killed by signal {-code}"
        return ProcessDied(f"a worker process for runs {how}")


def _serve(play: Callable[[Any], Any], pipe: Connection, scratch: str) -> None:
    """Run jobs in a worker process until the pipe is closed. Only the parent handles Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)
    tempfile.tempdir = scratch
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            pipe.send(_outcome(play, pipe.recv()))


def _outcome(play: Callable[[Job], Any], job: Job) -> Any:
    try:
        return play(job)
    except Exception as error:  # The parent process raises it again.
        return _Raised(_as_sent(error), traceback.format_exc())


def _as_sent(error: Exception) -> Exception:
    """Return the exception if it can be pickled, otherwise a RuntimeError with its text."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error

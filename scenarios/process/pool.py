"""Plays many runs on all cores, and returns their results in the order of the jobs.

Each process has its own pipe and shares nothing with the others, so that any of them can be killed at any time.
Processes that still play when no further result is needed, such as after Ctrl-C, are killed.
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

    A single job, or any job if there is to be one process, is played in this process. Closing the iterator ends the
    processes immediately, and removes their temporary files.

    Args:
        folder: directory for their temporary files, None for the usual one.

    Raises:
        ProcessDied: for a job whose process died. Exceptions of `play` are raised as well.
    """
    # A run may be removing its own temporary files when Ctrl-C comes; they are removed with their directory.
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
    """Provide a folder that is removed afterwards; signals during its removal are delayed."""
    with contextlib.ExitStack() as scratch:
        own = scratch.enter_context(temporary_folder(folder))
        try:
            yield str(own)
        finally:
            with _stopping_waits():
                scratch.close()


@contextlib.contextmanager
def _stopping_waits() -> Iterator[None]:
    """Delay the signals that stop this process until the block ends.

    If they were blocked instead, another thread would get them.
    """
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
                # Other processes continue up to this job, so that the results before it are complete.
                except ProcessDied as died:
                    early[played] = _Raised(died)
        outcome = early.pop(index)
        if isinstance(outcome, _Raised):
            if outcome.told:
                outcome.error.add_note(outcome.told)
            raise outcome.error
        yield outcome


class _Raised(NamedTuple):
    """An exception of a job; `told` is the traceback in the process that played it."""

    error: BaseException
    told: str = ""


class _Player(Generic[Job]):
    """A process that runs jobs one after another. Leaving the `with` statement kills it, unfinished or not."""

    def __init__(self, play: Callable[[Job], Any], scratch: str) -> None:
        self.pipe, child_pipe = multiprocessing.Pipe()
        self._process = multiprocessing.Process(target=_serve, args=(play, child_pipe, scratch), daemon=True)
        # Keep the new process from handling Ctrl-C as this process does, until it has installed its own handlers.
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
    """Play jobs in a worker process until there are no more. Only the parent handles Ctrl-C."""
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
    except Exception as error:  # It is raised again in the process that requested the run.
        return _Raised(_as_sent(error), traceback.format_exc())


def _as_sent(error: Exception) -> Exception:
    """Return the exception if it can be pickled, otherwise a RuntimeError with its text."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error

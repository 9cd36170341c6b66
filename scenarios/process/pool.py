"""Many runs on all cores, reported in the order of their requests.

Each process has its own pipe and nothing in common with the others, so that any of them can be killed at any
moment. Processes that still play when no further result is wanted, as after Ctrl-C, are killed.
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
    """`play` of each job, in the order of `work`, however the processes take turns. With one process, or one job, in
    this one.

    folder: what they write to the temporary directory goes there instead

    Closing the iterator ends the processes at once, and removes what they have written to the temporary directory.
    raises: any exception of `play`, and ProcessDied in the place of a job whose process died
    """
    # Ctrl-C may come while a run removes its own temporary files: they go with the directory that they are in.
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
    """Gone afterwards: a Ctrl-C that comes while it is removed waits until it is."""
    with contextlib.ExitStack() as scratch:
        own = scratch.enter_context(temporary_folder(folder))
        try:
            yield str(own)
        finally:
            with _stopping_waits():
                scratch.close()


@contextlib.contextmanager
def _stopping_waits() -> Iterator[None]:
    """Signals that stop this process act after the block. Blocked, they would go to another thread and act at once."""
    if threading.current_thread() is not threading.main_thread():  # Their handlers never interrupt it.
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
        for place, job in todo:
            try:
                by_pipe[pipe].begin(job)
                turns[pipe] = place
            except ProcessDied as died:
                early[place] = _Raised(died)
            return

    for player in players:
        hand_out(player.pipe)
    for place in range(len(work)):
        while place not in early:
            for pipe in wait(list(turns)):
                assert isinstance(pipe, Connection)
                played = turns.pop(pipe)
                try:
                    early[played] = by_pipe[pipe].outcome()
                    hand_out(pipe)
                except ProcessDied as died:  # The others play on to this place: the results before it are complete.
                    early[played] = _Raised(died)
        outcome = early.pop(place)
        if isinstance(outcome, _Raised):
            if outcome.told:
                outcome.error.add_note(outcome.told)
            raise outcome.error
        yield outcome


class _Raised(NamedTuple):
    """told: the traceback from the process that played"""

    error: BaseException
    told: str = ""


class _Player(Generic[Job]):
    """A process that plays one job after the other; killed when the block ends, for then nothing is wanted of it."""

    def __init__(self, play: Callable[[Job], Any], scratch: str) -> None:
        self.pipe, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.Process(target=_serve, args=(play, theirs, scratch), daemon=True)
        # Until it has put its own handlers in place, it must not act on a Ctrl-C as this process does.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()

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
        except (EOFError, OSError):  # It may have died within a result.
            raise self._died() from None

    def _died(self) -> ProcessDied:
        self._process.join()
        code = self._process.exitcode
        how = f"ended with exit code {code}" if code is None or code >= 0 else f"was killed by signal {-code}"
        return ProcessDied(f"a process that played runs {how}")


def _serve(play: Callable[[Any], Any], pipe: Connection, scratch: str) -> None:
    """The other process: a result for each job, until the jobs end. Ctrl-C is for the process that sends them."""
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
    except Exception as error:  # Raised a second time in the process that requested the run.
        return _Raised(_as_sent(error), traceback.format_exc())


def _as_sent(error: Exception) -> Exception:
    """Some exceptions cannot be rebuilt from their arguments."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error

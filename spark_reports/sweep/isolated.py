"""Run jobs in forked child processes, each with a time limit: a hang, crash or exception affects only one job.

A child runs many jobs in succession, since a fork takes ten milliseconds. A child that dies or hangs is replaced.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar

Job = TypeVar("Job")

WORDS_MAX = 500
_PATIENCE_S = 5.0


class Broken(NamedTuple):
    """The outcome of a job without a result: it raised an exception, its process died, or it took too long."""

    how: Literal["raised", "crashed", "timeout"]
    why: str


def play_isolated(play: Callable[[Job], Any], jobs: Sequence[Job], limit_s: float) -> Iterator[Any]:
    """Yield the outcome of each job in order: the result of `play`, or Broken.

    If a process dies in its first job, this job has crashed. If it dies in a later job, an earlier job may be the
    cause, and the later job is played again as the first job of a new process.

    Args:
        limit_s: seconds for each job.
    """
    next_job = 0
    while next_job < len(jobs):
        with _Child(play, jobs[next_job:]) as child:
            for turn in range(len(jobs) - next_job):
                outcome = child.next_outcome(limit_s)
                if child.ended and turn > 0 and isinstance(outcome, Broken) and outcome.how == "crashed":
                    break
                next_job += 1
                yield outcome
                if child.ended:
                    break


class _Child(Generic[Job]):
    """A forked process that plays `jobs`. The process and its temporary files are removed when the block ends."""

    def __init__(self, play: Callable[[Job], Any], jobs: Sequence[Job]) -> None:
        self.ended = False
        # Spark removes its own scratch folders even when a worker is killed.
        own = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
        self._scratch = tempfile.mkdtemp(prefix="highwater-", dir=own if own and Path(own).is_dir() else None)
        fork = multiprocessing.get_context("fork")
        self._results, results = fork.Pipe(duplex=False)
        lifeline, self._lifeline = fork.Pipe(duplex=False)
        inherited = (self._results, self._lifeline)
        work = (play, list(jobs), results, lifeline, inherited, self._scratch)
        self._process = fork.Process(target=_serve, args=work, daemon=True)
        self._process.start()
        results.close()
        lifeline.close()

    def __enter__(self) -> _Child[Job]:
        return self

    def __exit__(self, *exc: object) -> None:
        self._lifeline.close()
        if self._process.is_alive():
            self._process.join(0.05)
        if self._process.is_alive():
            self._process.kill()
        self._process.join()
        self._results.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def next_outcome(self, limit_s: float) -> Any:
        try:
            if self._results.poll(limit_s):
                return self._results.recv()
        except (EOFError, OSError):
            self.ended = True
            self._process.join(_PATIENCE_S)
            return Broken("crashed", f"the process ended with {_ending(self._process.exitcode)}")
        self.ended = True
        return Broken("timeout", f"the run did not finish within {limit_s:g} s")


def _ending(code: int | None) -> str:
    if code is None:
        return "its pipe closed"
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _serve(
    play: Callable[[Job], Any],
    jobs: list[Job],
    results: Connection,
    lifeline: Connection,
    inherited: tuple[Connection, ...],
    scratch: str,
) -> None:
    """Play the jobs in the child process, which ends as soon as the parent closes its end of `lifeline`."""
    for connection in inherited:
        connection.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent handles Ctrl-C and ends this process.
    threading.Thread(target=_end_with_parent, args=(lifeline, scratch), daemon=True).start()
    tempfile.tempdir = scratch
    for job in jobs:
        outcome: Any
        try:
            outcome = play(job)
        except BaseException as error:  # No exception of a job may end the process.
            outcome = Broken("raised", f"{type(error).__name__}: {error}"[:WORDS_MAX])
        results.send(outcome)
    results.close()
    os._exit(0)


def _end_with_parent(lifeline: Connection, scratch: str) -> None:
    try:
        lifeline.recv_bytes()
    except (EOFError, OSError):
        shutil.rmtree(scratch, ignore_errors=True)
        os._exit(1)

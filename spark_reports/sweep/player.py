"""Runs of any kind as they are asked for, played on Spark and kept in a folder: for a search that learns as it goes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from spark_reports.interrupts import Interrupts
from spark_reports.sweep.build import session_with_our_code
from spark_reports.sweep.job import Task, play_on_spark
from spark_reports.sweep.store import SweepFolder

PlayRuns = Callable[[Task, Sequence[Any]], Iterator[Mapping[str, Any]]]
"""Different runs -> the row of each, in no order: first those that the folder has, then the others as they come"""


@contextlib.contextmanager
def spark_player(
    folder: SweepFolder, master: str, conf: Mapping[str, str], tick: Callable[[], None]
) -> Iterator[PlayRuns]:
    """For the length of the block. Rows that are done at an interruption are kept.

    tick: called a few times a second while runs are played
    raises: WorkersUnfit, JavaMissing, SparkFailed, OSError, KeyboardInterrupt
    """
    with Interrupts() as interrupts, session_with_our_code(master, conf) as spark:

        def played(task: Task, runs: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
            missing = folder.missing(runs)
            yield from folder.rows_of(set(runs) - set(missing))
            try:
                with contextlib.closing(play_on_spark(spark, task, missing)) as coming:
                    for rows in coming:
                        interrupts.check()
                        tick()
                        if rows is not None:
                            folder.add(rows)
                            yield from rows.to_pylist()
            finally:
                folder.flush()

        yield played

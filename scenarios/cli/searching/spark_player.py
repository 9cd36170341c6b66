"""The player of a search on Spark. It stores a row for each run, so that a search can be resumed."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import yaml

from scenarios.cli.common import fail
from scenarios.cli.searching.course import Asked, Shrunk
from scenarios.cli.spark import spark_or_fail
from scenarios.search.rows import COLUMNS, SearchRun, found_of, play_run, run_of
from scenarios.search.search import FindingKind, Found, SeedJob, by_kind
from scenarios.terminal.interruption import ExitCode

if TYPE_CHECKING:
    from spark_reports.sweep.build import PlayRuns
    from spark_reports.sweep.job import Task

SHRINK_RUNS = 30
"""Time limit for shrinking one schedule, as a multiple of the time limit for a run."""


@contextmanager
def spark_search(
    asked: Asked,
    master: str,
    conf: Mapping[str, str],
    tick: Callable[[], None],
    *,
    resume: bool,
    time_limit: float,
) -> Iterator[SparkPlayer]:
    """Provide a player on Spark during the block; end the command with an error if Spark cannot be used.

    Args:
        tick: called a few times a second while Spark works.
        resume: continue an earlier search, and play only the missing schedules.
        time_limit: seconds of wall time per run.
    """
    from scenarios.process.identity import identity
    from spark_reports.sweep.build import spark_player
    from spark_reports.sweep.job import Task, WorkersUnfit
    from spark_reports.sweep.store import SweepFolder, SweepFolderUnusable

    task = Task(play_run, identity, identity(), time_limit, COLUMNS)
    about = {"search": asked.profile, "version": identity()}
    rows_of_mode = asked.data_file.with_suffix(".rows")
    try:
        with (
            spark_or_fail(),
            SweepFolder(rows_of_mode, about, resume=resume, columns=COLUMNS, fields=SearchRun._fields) as folder,
            spark_player(folder, master, conf, tick) as play_rows,
        ):
            yield SparkPlayer(asked, task, play_rows)
    except SweepFolderUnusable as unusable:
        fail(str(unusable), ExitCode.USAGE)
    except WorkersUnfit as unfit:
        fail(f"the search cannot be played on {master}: {unfit}", ExitCode.MISSING)


class SparkPlayer:
    """A player on Spark, which keeps for each kind of finding the schedule with the fewest steps."""

    def __init__(self, asked: Asked, task: Task, play_rows: PlayRuns) -> None:
        self._asked = asked
        self._task = task
        self._play_rows = play_rows

    def play(self, jobs: Sequence[SeedJob]) -> Generator[Found, None, None]:
        yield from map(found_of, self._play_rows(self._task, [run_of(job) for job in jobs]))

    def kinds(self, found: list[Found]) -> list[FindingKind]:
        return by_kind(sorted(found, key=lambda item: (len(item.schedule.tree["timeline"]), item.seed)))

    def shrunk(self, found: Sequence[Found]) -> Iterator[Shrunk]:
        numbers = {item.seed: number for number, item in enumerate(found)}
        shrinking = self._task._replace(limit_s=SHRINK_RUNS * self._task.limit_s)
        for row in self._play_rows(shrinking, [self._to_shrink(item) for item in found]):
            if row["shrunk"] is not None:
                steps = yaml.safe_load(row["shrunk"])["timeline"]
                yield Shrunk(numbers[row["seed"]], row["shrunk"], len(steps), done=True)

    def _to_shrink(self, found: Found) -> SearchRun:
        return SearchRun(
            found.seed, self._asked.profile, found.schedule.safe, self._asked.swarm, found.text, found.kinds
        )

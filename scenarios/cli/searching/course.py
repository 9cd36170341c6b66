"""The steps of a search: play schedules, shrink the schedules that break a promise, and write these to files."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Protocol

from scenarios.cli.common import fail
from scenarios.process.failures import ProcessDied
from scenarios.process.pool import in_order
from scenarios.process.work_folders import folder_in_memory, write_whole
from scenarios.search.document import Kept
from scenarios.search.search import FindingKind, Found, SeedJob, by_kind, play_seed, shrink
from scenarios.terminal.interruption import ExitCode
from scenarios.terminal.progress import ProgressLine


class Shrunk(NamedTuple):
    """A smaller version of a schedule that shows the same finding.

    Attributes:
        number: index of the schedule in the list of schedules to shrink.
        text: the schedule as YAML.
        steps: number of its steps.
        done: True if the schedule cannot be shrunk further.
    """

    number: int
    text: str
    steps: int
    done: bool


class Player(Protocol):
    """The interface for playing and shrinking schedules. All methods may raise KeyboardInterrupt or ProcessDied."""

    def play(self, jobs: Sequence[SeedJob]) -> Generator[Found, None, None]:
        """Play the jobs and yield their outcomes in any order."""

    def kinds(self, found: list[Found]) -> list[FindingKind]:
        """Group findings by kind. The first run of each kind has the schedule to keep."""

    def shrunk(self, found: Sequence[Found]) -> Iterator[Shrunk]:
        """Yield smaller and smaller versions of each schedule, but none of a schedule that takes too long to shrink."""


NewPlayer = Callable[[Callable[[], None]], AbstractContextManager[Player]]
"""A function that creates a player, given a function that the player calls a few times a second while it works."""


class LocalPlayer:
    """A player in processes of this machine. For each kind of finding it keeps the first schedule that shows it."""

    def __init__(self, processes: int) -> None:
        self._processes = processes

    def play(self, jobs: Sequence[SeedJob]) -> Generator[Found, None, None]:
        return in_order(play_seed, jobs, self._processes, folder_in_memory())

    def kinds(self, found: list[Found]) -> list[FindingKind]:
        return by_kind(found)

    def shrunk(self, found: Sequence[Found]) -> Iterator[Shrunk]:
        for number, item in enumerate(found):
            smallest = item.schedule
            for smallest in shrink(item.schedule, item.kinds):
                yield Shrunk(number, smallest.text, len(smallest.tree["timeline"]), done=False)
            yield Shrunk(number, smallest.text, len(smallest.tree["timeline"]), done=True)


OUT = Path("search")


class Asked(NamedTuple):
    """The options of `highwater search`.

    Attributes:
        profile: the era of Kafka.
        seeds: seeds of the schedules.
        safe: draw only settings that promise a clean verdict.
        swarm: draw a new mix of cluster, clients and faults every 16 seeds.
        first: stop at the first finding.
        out: folder for the results.
    """

    profile: str
    seeds: range
    safe: bool
    swarm: bool
    first: bool
    out: Path

    @property
    def mode(self) -> str:
        return "swarm" if self.swarm else "blind"

    @property
    def in_words(self) -> dict[str, Any]:
        """The options in the form that scenarios/search/document.py expects."""
        return {"era": self.profile, "mode": self.mode, "safe": self.safe, "seeds": range_text(self.seeds)}

    @property
    def data_file(self) -> Path:
        """The file for the results of searches with this era, mode and `safe`."""
        return self.out / f"{self.profile}-{self.mode}{'-safe' if self.safe else ''}.json"

    def job(self, seed: int) -> SeedJob:
        return SeedJob(seed, self.profile, self.safe, self.swarm)

    def command(self, seeds: range) -> str:
        """Return the command line of this search with other seeds."""
        words = ["highwater", "search", "--profile", self.profile, "--seeds", range_text(seeds)]
        words += ["--safe"] * self.safe + ["--first"] * self.first
        words += ["--swarm"] * self.swarm
        return shlex.join([*words, *(["--out", str(self.out)] if self.out != OUT else [])])

    def on_spark(self, master: str) -> str:
        """Return the command line that resumes this search on Spark."""
        return f"{self.command(self.seeds)} --master {shlex.quote(master)} --resume"


def range_text(seeds: range) -> str:
    return f"{seeds.start}" if len(seeds) == 1 else f"{seeds.start}..{seeds.stop - 1}"


class Searched(NamedTuple):
    """The result of a search.

    Attributes:
        played: number of seeds that were played.
        found: runs with findings.
        kinds: kinds of findings, each with a schedule that shows the finding.
        kept: files of the kept schedules, by seed.
        ended: exception that ended the search early, such as KeyboardInterrupt; None if the search was completed.
    """

    played: int
    found: list[Found]
    kinds: list[FindingKind]
    kept: dict[int, Kept]
    ended: BaseException | None


def searched(asked: Asked, new_player: NewPlayer) -> Searched:
    """Run a search and return its result, which is partial after an interruption."""
    progress = _Progress(asked)
    small: dict[int, Shrunk] = {}
    kinds: list[FindingKind] = []
    ended: BaseException | None = None
    try:
        with ExitStack() as playing:
            with progress.stage("search"):
                player = playing.enter_context(new_player(progress.tick))
                try:
                    _play(asked, player, progress)
                finally:
                    kinds = player.kinds(progress.found)
            with progress.stage("shrink"):
                found = list(_first_of(kinds).values())
                for item in player.shrunk(found):
                    small[found[item.number].seed] = item
                    progress.shrinks(item, found)
    except (KeyboardInterrupt, ProcessDied) as interruption:
        ended = interruption
    kept = _keep(asked, kinds, small)
    progress.found.sort(key=lambda item: item.seed)
    return Searched(progress.played, progress.found, kinds, kept, ended)


def _play(asked: Asked, player: Player, progress: _Progress) -> None:
    work = [asked.job(seed) for seed in asked.seeds]
    with closing(player.play(work)) as outcomes:
        for outcome in outcomes:
            if progress.take(outcome):
                break


class _Progress:
    """The findings of a running search and the line that shows its progress."""

    def __init__(self, asked: Asked) -> None:
        self.found: list[Found] = []
        self.played = 0
        self._asked = asked
        self._line: ProgressLine | None = None
        self._shown = (0.0, "")

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Show a progress line with this name during the block."""
        with ProgressLine(f"{name} {self._asked.profile}") as self._line:
            self._show(0.0, "")
            yield
        self._line = None

    def take(self, outcome: Found) -> bool:
        """Record an outcome. Return True if the search must stop, because it has a finding and `first` is set."""
        self.played += 1
        if not outcome.clean:
            self.found.append(outcome)
        seeds = len(self._asked.seeds)
        self._show(self.played / seeds, f"{self.played} of {seeds} seeds, {len(self.found)} with findings")
        return bool(self.found and self._asked.first)

    def shrinks(self, shrunk: Shrunk, found: Sequence[Found]) -> None:
        """Show the progress of shrinking: `shrunk` is the latest version of one of the schedules in `found`."""
        whole = found[shrunk.number]
        gone = 1.0 if shrunk.done else 1 - shrunk.steps / len(whole.schedule.tree["timeline"])
        self._show((shrunk.number + gone) / len(found), f"seed {whole.seed}: shrunk to {shrunk.steps} steps")

    def tick(self) -> None:
        self._show(*self._shown)

    def _show(self, fraction: float, detail: str) -> None:
        self._shown = fraction, detail
        if self._line is not None:
            self._line.show(fraction, detail)


def _first_of(kinds: Sequence[FindingKind]) -> dict[int, Found]:
    """Return the schedules to keep, by seed. A schedule that shows several kinds of findings is included once."""
    return {kind.first.seed: kind.first for kind in kinds}


def _keep(asked: Asked, kinds: Sequence[FindingKind], small: dict[int, Shrunk]) -> dict[int, Kept]:
    """Write the smallest known version of the schedule for each kind of finding. Return the files by seed."""
    kept = {}
    for seed, item in _first_of(kinds).items():
        path = asked.out / f"{asked.profile}-{seed}.yaml"
        smallest = small.get(seed)
        text, done = (item.text, False) if smallest is None else (smallest.text, smallest.done)
        try:
            asked.out.mkdir(parents=True, exist_ok=True)
            write_whole(path, text)
        except OSError as error:
            fail_to_keep(asked, error)
        kept[seed] = Kept(str(path), text, done)
    return kept


def fail_to_keep(asked: Asked, error: OSError) -> NoReturn:
    fail(
        f"the search cannot be written to {asked.out}: {error.strerror or error}",
        ExitCode.MISSING,
        "free some disk space, or choose another folder with --out DIR",
    )

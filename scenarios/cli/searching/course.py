"""The course of a search: what was asked, play, shrink, keep. It is the same on this machine and on Spark."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from scenarios.cli.common import fail
from scenarios.cli.searching.players import NewPlayer, Player, Shrunk
from scenarios.process.failures import ProcessDied
from scenarios.process.work_folders import write_whole
from scenarios.search.document import Kept
from scenarios.search.search import FindingKind, Found, SeedJob
from scenarios.terminal.interruption import ExitCode
from scenarios.terminal.progress import ProgressLine

OUT = Path("search")


class Asked(NamedTuple):
    """The options of the command."""

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
        """As document.py has it."""
        return {"era": self.profile, "mode": self.mode, "safe": self.safe, "seeds": range_text(self.seeds)}

    @property
    def data_file(self) -> Path:
        """Of a search of this era and of such schedules."""
        return self.out / f"{self.profile}-{self.mode}{'-safe' if self.safe else ''}.json"

    def job(self, seed: int) -> SeedJob:
        return SeedJob(seed, self.profile, self.safe, self.swarm)

    def command(self, seeds: range) -> str:
        """The same, for others of its seeds."""
        words = ["highwater", "search", "--profile", self.profile, "--seeds", range_text(seeds)]
        words += ["--safe"] * self.safe + ["--first"] * self.first
        words += ["--swarm"] * self.swarm
        return shlex.join([*words, *(["--out", str(self.out)] if self.out != OUT else [])])

    def on_spark(self, master: str) -> str:
        """The same, from where it has come to."""
        return f"{self.command(self.seeds)} --master {shlex.quote(master)} --resume"


def range_text(seeds: range) -> str:
    return f"{seeds.start}" if len(seeds) == 1 else f"{seeds.start}..{seeds.stop - 1}"


class Searched(NamedTuple):
    """played: seeds, from the first without a gap     kept: by seed

    ended: Ctrl-C, or another cause why it ended before its time
    """

    played: int
    found: list[Found]
    kinds: list[FindingKind]
    kept: dict[int, Kept]
    ended: BaseException | None


def searched(asked: Asked, new_player: NewPlayer) -> Searched:
    """What was played until an interruption, and what was shrunk by then, is kept."""
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
                for one in player.shrunk(found):
                    small[found[one.number].seed] = one
                    progress.shrinks(one, found)
    except (KeyboardInterrupt, ProcessDied) as interruption:
        ended = interruption
    kept = _keep(asked, kinds, small)
    progress.found.sort(key=lambda one: one.seed)
    return Searched(progress.played, progress.found, kinds, kept, ended)


def _play(asked: Asked, player: Player, progress: _Progress) -> None:
    work = [asked.job(seed) for seed in asked.seeds]
    with closing(player.play(work)) as outcomes:
        for outcome in outcomes:
            if progress.take(outcome):
                break


class _Progress:
    """What has come so far, and the line that says it."""

    def __init__(self, asked: Asked) -> None:
        self.found: list[Found] = []
        self.played = 0
        self._asked = asked
        self._line: ProgressLine | None = None
        self._shown = (0.0, "")

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """A line of its own for the length of the block; it is there before Spark is."""
        with ProgressLine(f"{name} {self._asked.profile}") as self._line:
            self._show(0.0, "")
            yield
        self._line = None

    def take(self, outcome: Found) -> bool:
        """Whether the search is to end."""
        self.played += 1
        if not outcome.clean:
            self.found.append(outcome)
        seeds = len(self._asked.seeds)
        self._show(self.played / seeds, f"{self.played} of {seeds} seeds, {len(self.found)} found")
        return bool(self.found and self._asked.first)

    def shrinks(self, one: Shrunk, found: Sequence[Found]) -> None:
        """A schedule that is done counts whole, one on the way by the steps that are gone."""
        whole = found[one.number]
        gone = 1.0 if one.done else 1 - one.steps / len(whole.schedule.tree["timeline"])
        self._show((one.number + gone) / len(found), f"seed {whole.seed}: {one.steps} steps")

    def tick(self) -> None:
        self._show(*self._shown)

    def _show(self, fraction: float, detail: str) -> None:
        self._shown = fraction, detail
        if self._line is not None:
            self._line.show(fraction, detail)


def _first_of(kinds: Sequence[FindingKind]) -> dict[int, Found]:
    """The schedules to keep, by their seeds: one may show several kinds."""
    return {kind.first.seed: kind.first for kind in kinds}


def _keep(asked: Asked, kinds: Sequence[FindingKind], small: dict[int, Shrunk]) -> dict[int, Kept]:
    """Files by seed, each as small as it has become."""
    kept = {}
    for seed, one in _first_of(kinds).items():
        path = asked.out / f"{asked.profile}-{seed}.yaml"
        smallest = small.get(seed)
        text, done = (one.text, False) if smallest is None else (smallest.text, smallest.done)
        try:
            asked.out.mkdir(parents=True, exist_ok=True)
            write_whole(path, text)
        except OSError as error:
            fail_to_keep(asked, error)
        kept[seed] = Kept(str(path), text, done)
    return kept


def fail_to_keep(asked: Asked, error: OSError) -> NoReturn:
    fail(
        f"the search cannot be kept in {asked.out}: {error.strerror or error}",
        ExitCode.MISSING,
        "make room or choose another place with --out DIR",
    )

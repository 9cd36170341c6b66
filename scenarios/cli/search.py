"""`highwater search`: random fault schedules in an era, until something breaks."""

from __future__ import annotations

import json
import os
import shlex
import textwrap
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import click

from replica.rules import PROFILES
from scenarios.cli.common import SeedRange, fail, format_option, must_hold_files, print_json
from scenarios.cli.spark import Master, conf_option, spark_or_fail
from scenarios.language.spec import PROFILE
from scenarios.process.failures import ProcessDied
from scenarios.process.pool import in_order
from scenarios.process.whole_files import write_whole
from scenarios.search.covered import Covered
from scenarios.search.document import FORMAT, MODES, Kept, document_of, mode_of
from scenarios.search.guided import generations
from scenarios.search.search import FindingKind, Found, SeedJob, by_kind, play_seed, shrink
from scenarios.terminal.exit_codes import ExitCode
from scenarios.terminal.progress import ProgressLine

if TYPE_CHECKING:
    from scenarios.search.rows import SearchRun

_LIMIT_HELP = "With --master: seconds of wall time per run."
SHRINK_RUNS = 30
"""The time limit of a shrinking is that of so many runs."""
WIDTH = 100
OUT = Path("search")


@click.command()
@click.option("--profile", type=click.Choice(list(PROFILES)), default=PROFILE, show_default=True, help="The era.")
@click.option("--seeds", type=SeedRange(), default="1..100", show_default=True, help="Seeds to try.")
@click.option("--safe", is_flag=True, help="Only settings that promise a clean verdict: acks=all, min ISR 2.")
@click.option("--swarm", is_flag=True, help="Every 16 seeds draw their own mix of cluster, clients and faults.")
@click.option(
    "--guided/--blind",
    default=False,
    show_default=True,
    help="Change schedules that reached something new.",
)
@click.option("--first", is_flag=True, help="Stop at the first seed that breaks something.")
@click.option("--out", type=click.Path(path_type=Path), default=OUT, help="Where found schedules are kept.")
@click.option("--jobs", type=click.IntRange(1, 64), help="Processes to use; by default one per core.")
@click.option("--master", type=Master(), help="Play on Spark: local[N] or spark://host:port. Rows are kept in --out.")
@conf_option
@click.option("--resume", is_flag=True, help="With --master: go on with the search in --out.")
@click.option("--time-limit", type=click.FloatRange(0.1), default=60.0, show_default=True, help=_LIMIT_HELP)
@format_option
def search(
    profile: str,
    seeds: range,
    safe: bool,
    swarm: bool,
    guided: bool,
    first: bool,
    out: Path,
    jobs: int | None,
    master: str | None,
    conf: tuple[tuple[str, str], ...],
    resume: bool,
    time_limit: float,
    format_: str,
) -> int:
    """Play random fault schedules; say what they break: invariants and, with safe settings, promises to producers.

    Each kind of finding is reported once, with the first seed that showed it; that schedule is kept, shrunk to the
    steps it needs. A guided search learns from the runs before: the same seeds give the same findings, but a seed
    alone is no schedule. With --master a Spark job plays and shrinks, the smallest schedule of each kind is kept, and
    --resume plays what is missing after an interruption. Exit code 4 if anything broke that the era promises. After
    Ctrl-C, or when a process is killed, findings so far are kept and reported.

    search.html in --out shows what was found and what was covered, run by run, beside searches of the same era in the
    same folder that went about it in another way.
    """
    must_hold_files(out)
    began = time.perf_counter()
    asked = _Asked(profile, seeds, safe, swarm, guided, first, out)
    if master is None:
        result = _play_here(asked, jobs or os.cpu_count() or 1)
    else:
        result = _play_on_spark(asked, master, dict(conf), resume, time_limit)
    played, covered, found, kinds, kept, ended = result
    page = _write_page(asked, result, None if resume else time.perf_counter() - began) if played else None
    interrupted = ended is not None
    rest = None
    if interrupted and played < len(seeds):
        rest = asked.command(range(seeds.start + played, seeds.stop)) if master is None else asked.on_spark(master)
    if format_ == "json":
        document = {
            "profile": profile,
            "swarm": asked.swarm,
            "guided": guided,
            "played": played,
            "covered": len(covered),
            "interrupted": interrupted,
            "rest": rest,
            "found": [one.as_json() for one in found],
            "kinds": [{**kind.as_json(), "file": kept[kind.first.seed].file} for kind in kinds],
            "files": [one.file for one in kept.values()],
            "not_shrunk": [one.file for one in kept.values() if not one.shrunk],
            "page": None if page is None else str(page),
        }
        print_json(document)
    else:
        _print(kinds, kept, asked)
        of = f" of {len(seeds)}" if rest else ""
        schedules = "safe schedules" if safe else "schedules"
        click.echo(
            f"\n{profile}: {played}{of} {schedules} played, {len(found)} of them broke something; "
            f"{len(covered):,} states and branches covered"
        )
        if page is not None:
            click.echo(f"page: {page}")
    if interrupted:
        if rest:
            click.echo(f"the rest: {rest}", err=True)
        raise ended or KeyboardInterrupt
    return ExitCode.OUR_BUG if any(kind.our_bug for kind in kinds) else ExitCode.HELD


class _Asked(NamedTuple):
    """The options of the command."""

    profile: str
    seeds: range
    safe: bool
    swarm: bool
    guided: bool
    first: bool
    out: Path

    @property
    def mode(self) -> str:
        return mode_of(guided=self.guided, swarm=self.swarm)

    @property
    def in_words(self) -> dict[str, Any]:
        """As document.py has it."""
        of = {"era": self.profile, "mode": self.mode, "safe": self.safe}
        return {**of, "seeds": _range_text(self.seeds), "asked": len(self.seeds)}

    def data_file(self, mode: str) -> Path:
        """Of a search of this era and of such schedules."""
        return self.out / f"{self.profile}-{mode}{'-safe' if self.safe else ''}.json"

    def job(self, seed: int) -> SeedJob:
        return SeedJob(seed, self.profile, self.safe, self.swarm)

    def command(self, seeds: range) -> str:
        """The same, for others of its seeds."""
        words = ["highwater", "search", "--profile", self.profile, "--seeds", _range_text(seeds)]
        words += ["--safe"] * self.safe + ["--first"] * self.first
        words += ["--guided"] if self.guided else ["--swarm"] * self.swarm
        return shlex.join([*words, *(["--out", str(self.out)] if self.out != OUT else [])])

    def on_spark(self, master: str) -> str:
        """The same, from where it has come to."""
        return f"{self.command(self.seeds)} --master {shlex.quote(master)} --resume"


def _range_text(seeds: range) -> str:
    return f"{seeds.start}" if len(seeds) == 1 else f"{seeds.start}..{seeds.stop - 1}"


class _Result(NamedTuple):
    """played: seeds, from the first without a gap     kept: by seed

    ended: Ctrl-C, or another cause why it ended before its time
    """

    played: int
    covered: Covered
    found: list[Found]
    kinds: list[FindingKind]
    kept: dict[int, Kept]
    ended: BaseException | None


class _Progress:
    """What has come so far, and the line that says it."""

    def __init__(self, asked: _Asked, line: ProgressLine) -> None:
        self.found: list[Found] = []
        self.covered = Covered()
        self.played = 0
        self._asked = asked
        self._line = line

    def take(self, outcome: Found) -> bool:
        """Whether the search is to end."""
        self.played += 1
        self.covered.take(outcome)
        if not outcome.clean:
            self.found.append(outcome)
        self.show()
        return bool(self.found and self._asked.first)

    def show(self) -> None:
        seeds = len(self._asked.seeds)
        self._line.show(self.played / seeds, f"{self.played} of {seeds} seeds, {len(self.found)} found")

    def result(self, kinds: list[FindingKind], kept: dict[int, Kept], ended: BaseException | None) -> _Result:
        return _Result(self.played, self.covered, self.found, kinds, kept, ended)


def _play_here(asked: _Asked, processes: int) -> _Result:
    def play(jobs: Sequence[SeedJob]) -> Generator[Found, None, None]:
        return in_order(play_seed, jobs, processes)

    work = [asked.job(seed) for seed in asked.seeds]
    coming = generations(work, play) if asked.guided else play(work)
    ended: BaseException | None = None
    with ProgressLine(f"search {asked.profile}") as line, closing(coming) as outcomes:
        progress = _Progress(asked, line)
        try:
            for outcome in outcomes:
                if progress.take(outcome):
                    break
        except (KeyboardInterrupt, ProcessDied) as interruption:
            ended = interruption
    kinds = by_kind(progress.found)
    kept, all_shrunk = _keep(list(first_of(kinds).values()), asked, shrinking=ended is None)
    return progress.result(kinds, kept, ended if all_shrunk or ended else KeyboardInterrupt())


def first_of(kinds: Sequence[FindingKind]) -> dict[int, Found]:
    """The schedules to keep, by their seeds: one may show several kinds."""
    return {kind.first.seed: kind.first for kind in kinds}


def _play_on_spark(asked: _Asked, master: str, conf: Mapping[str, str], resume: bool, time_limit: float) -> _Result:
    """As here, but rows come in any order unless the search is guided; the smallest schedule of each kind is shrunk."""
    from scenarios.process.identity import identity
    from scenarios.search.rows import COLUMNS, SearchRun, found_of, play_run, run_of
    from spark_reports.sweep.job import Task, WorkersUnfit
    from spark_reports.sweep.player import spark_player
    from spark_reports.sweep.store import SweepFolder, SweepFolderUnusable

    task = Task(play_run, identity, identity(), time_limit, COLUMNS)
    shrinking = task._replace(limit_s=SHRINK_RUNS * time_limit)
    about = {"search": asked.profile, "guided": asked.guided, "version": identity()}
    work = [asked.job(seed) for seed in asked.seeds]
    ended: BaseException | None = None
    texts: dict[int, str] = {}
    try:
        with (
            spark_or_fail(),
            SweepFolder(asked.out, about, resume=resume, columns=COLUMNS, fields=SearchRun._fields) as folder,
            ProgressLine(f"search {asked.profile}") as line,
        ):
            progress = _Progress(asked, line)
            progress.show()  # before Spark starts, so that the line is there meanwhile
            kinds: list[FindingKind] = []
            try:
                with spark_player(folder, master, conf, progress.show) as play_rows:

                    def play(jobs: Sequence[SeedJob]) -> Generator[Found, None, None]:
                        yield from map(found_of, play_rows(task, [run_of(job) for job in jobs]))

                    def in_their_order(jobs: Sequence[SeedJob]) -> Generator[Found, None, None]:
                        yield from sorted(play(jobs), key=lambda one: one.seed)

                    coming = generations(work, in_their_order) if asked.guided else play(work)
                    with closing(coming) as outcomes:
                        for outcome in outcomes:
                            if progress.take(outcome):
                                break
                    kinds = _smallest(progress.found)
                    for row in play_rows(shrinking, [_to_shrink(one, asked) for one in first_of(kinds).values()]):
                        if row["shrunk"] is not None:
                            texts[row["seed"]] = row["shrunk"]
            except KeyboardInterrupt as interruption:
                ended = interruption
                kinds = _smallest(progress.found)
    except SweepFolderUnusable as unusable:
        fail(str(unusable), ExitCode.USAGE)
    except WorkersUnfit as unfit:
        fail(f"the search cannot be played on {master}: {unfit}", ExitCode.MISSING)
    kept = {}
    for seed, one in first_of(kinds).items():
        path = asked.out / f"{asked.profile}-{seed}.yaml"
        text = texts.get(seed, one.text)
        write_whole(path, text)
        kept[seed] = Kept(str(path), text, seed in texts)
    progress.found.sort(key=lambda one: one.seed)
    return progress.result(kinds, kept, ended)


def _smallest(found: list[Found]) -> list[FindingKind]:
    """Each kind with the schedule that has the fewest steps."""
    return by_kind(sorted(found, key=lambda one: (len(one.schedule.tree["timeline"]), one.seed)))


def _to_shrink(one: Found, asked: _Asked) -> SearchRun:
    from scenarios.search.rows import SearchRun

    return SearchRun(one.seed, asked.profile, one.schedule.safe, asked.swarm, one.text, one.kinds)


def _print(kinds: list[FindingKind], kept: dict[int, Kept], asked: _Asked) -> None:
    for kind in kinds:
        seed = kind.first.seed
        seeds = f"seed {kind.seeds[0]}"
        if len(kind.seeds) > 1:
            seeds = f"{len(kind.seeds)} seeds, the first {seed}"
        click.echo(f"  {kind.kind}: {seeds}{', a bug in Highwater' if kind.our_bug else ''}")
        indent = "    "
        for line in textwrap.wrap(kind.sentence, WIDTH, initial_indent=indent, subsequent_indent=indent):
            click.echo(line)
        click.echo(f"    {kind.first.schedule.settings}")
        click.echo(f"    highwater run {kept[seed].file}")
        if not kept[seed].shrunk:
            # A guided search made it out of others: its seed alone does not make it again.
            again = "" if asked.guided else f" yet: {asked.command(range(seed, seed + 1))}"
            click.echo(f"    (not shrunk{again})")


def _keep(found: list[Found], asked: _Asked, *, shrinking: bool) -> tuple[dict[int, Kept], bool]:
    """Files by seed; whether all are shrunk. From a Ctrl-C on they are kept as they are."""
    kept = {}
    try:
        with ProgressLine(f"shrink {asked.profile}") as line:
            for number, one in enumerate(found):
                text = one.text
                schedule = one.schedule
                try:
                    for smaller in shrink(schedule, one.kinds) if shrinking else ():
                        text = smaller.text
                        steps = len(smaller.tree["timeline"])
                        gone = 1 - steps / len(schedule.tree["timeline"])
                        line.show((number + gone) / len(found), f"seed {one.seed}: {steps} steps")
                except KeyboardInterrupt:
                    shrinking = False
                asked.out.mkdir(parents=True, exist_ok=True)
                path = asked.out / f"{asked.profile}-{one.seed}.yaml"
                write_whole(path, text)
                kept[one.seed] = Kept(str(path), text, shrinking)
    except OSError as error:
        _fail_to_keep(asked, error)
    return kept, shrinking


def _fail_to_keep(asked: _Asked, error: OSError) -> NoReturn:
    fail(
        f"the search cannot be kept in {asked.out}: {error.strerror or error}",
        ExitCode.MISSING,
        "make room or choose another place with --out DIR",
    )


def _write_page(asked: _Asked, result: _Result, seconds: float | None) -> Path:
    """The page, and the same as data for the pages of later searches. seconds: None where others played, too"""
    from spark_reports.search.page import render

    document = document_of(asked.in_words, result.covered, result.found, result.kinds, result.kept)
    others = [found for mode in MODES if mode != asked.mode and (found := _read(asked.data_file(mode)))]
    played = document["played"]
    pace = (
        "" if seconds is None else f"{played:,} schedules in {seconds:,.0f} s, {played / seconds * 3600:,.0f} an hour."
    )
    page = asked.out / "search.html"
    try:
        asked.out.mkdir(parents=True, exist_ok=True)
        write_whole(asked.data_file(asked.mode), json.dumps(document, ensure_ascii=False) + "\n")
        write_whole(page, render([document, *others], asked.data_file(asked.mode).name, pace))
    except OSError as error:
        _fail_to_keep(asked, error)
    return page


def _read(file: Path) -> dict[str, Any] | None:
    """An earlier search, if it is there and of this version."""
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) and document.get("format") == FORMAT else None
